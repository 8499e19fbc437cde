"""Which container of a Kubernetes pod a process runs in.

The kubelet mounts a file for a container's last words into it, by a path with the pod's UID and the container's name. A
process with a mount namespace of its own chooses what it has mounted: only names that Kubernetes allows are taken, and
no UID other than that of its control group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from heaptop.injector.inspect import proc

MOST_MOUNTS: Final = 1 << 22  # Bytes of a list of mounts
_LAST_WORDS: Final = re.compile(
    r"/pods/(?P<uid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"/containers/(?P<name>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/[0-9a-f]{8}\Z"
)
_ROOT: Final = 3  # Its place among the fields of a mount: the path in its file system


@dataclass(frozen=True, slots=True)
class PodContainer:
    """One container of a pod. Both names are safe in a shell."""

    uid: str
    name: str

    def debug_command(self, pid: int, profile: str) -> str:
        """Attach from a container beside it, with that profile of kubectl's, to a pid as the pod counts. kubectl looks
        the pod's name up: a process sees its own name cut, or another one."""
        pod = f'{{range .items[?(@.metadata.uid=="{self.uid}")]}}-n {{.metadata.namespace}} {{.metadata.name}}{{end}}'
        return (
            f"kubectl debug -it --profile={profile} --image=heaptop --target={self.name} "
            f"$(kubectl get pods -A -o jsonpath='{pod}') -- heaptop attach {pid}"
        )


def pod_container(pid: int) -> PodContainer | None:
    """That of a process; None outside of pods, and where it is not known."""
    try:
        groups = proc.text(f"/proc/{pid}/cgroup")
        for line in proc.lines(f"/proc/{pid}/mountinfo", MOST_MOUNTS):
            fields = line.split(" ")
            found = _LAST_WORDS.search(fields[_ROOT]) if len(fields) > _ROOT else None
            if found is not None and _agrees(groups, found["uid"]):
                return PodContainer(found["uid"], found["name"])
    except OSError:
        pass  # it ended meanwhile, or has mounts without end
    return None


def _agrees(groups: str, uid: str) -> bool:
    """Whether its control groups are of that pod too. heaptop sees no path of them from inside a container."""
    paths = [line.split(":", 2)[2] for line in groups.split("\n") if line.count(":") >= 2]
    return all(path == "/" for path in paths) or any(
        f"pod{uid}" in path or f"pod{uid.replace('-', '_')}.slice" in path for path in paths
    )
