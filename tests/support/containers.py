"""Containers for tests, as Docker and Kubernetes make them: by crun, of a bundle that is written here.

The root file system is read-only and has little of this machine's: /usr, /etc, the interpreters and this checkout. The
seccomp profile is the default one of Podman, CRI-O and Docker, from Debian's package golang-github-containers-common.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interpreters import Interpreter
from tests.support.building import TARGETS
from tests.support.control_groups import CGROUPS
from tests.support.leaking import HEAPTOP
from tests.support.processes import PATIENCE, Target, eventually, starting

CHECKOUT: Final = TARGETS.parents[1]
PROFILE: Final = Path("/usr/share/containers/seccomp.json")
DEFAULT: Final = tuple(
    f"CAP_{name}"
    for name in (
        *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE"),
        *("NET_RAW", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "SETFCAP"),
    )
)
"""Docker's capabilities."""
PTRACE: Final = (*DEFAULT, "CAP_SYS_PTRACE")
ALL: Final = (*PTRACE, "CAP_DAC_READ_SEARCH", "CAP_SYS_ADMIN", "CAP_SYS_NICE", "CAP_IPC_LOCK", "CAP_NET_ADMIN")
"""Of those that a privileged container has, the ones that matter here."""
NAMESPACES: Final = ("pid", "mount", "ipc", "uts", "network")

# crun refuses to work beside a hierarchy of version 2 that has no controllers: in its mount namespace there is none.
_WITHOUT_V2: Final = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
CRUN: Final = ("unshare", "--mount", "sh", "-c", _WITHOUT_V2, "sh", "crun", "--cgroup-manager=cgroupfs")


@dataclass(frozen=True, slots=True)
class Rights:
    """What a container, or a process in one, may do."""

    capabilities: tuple[str, ...] = DEFAULT
    filtered: bool = True
    """Whether it is under the default seccomp profile."""
    user: int = 0
    own_users: bool = False
    """Whether it has a user namespace of its own."""
    memory: int = 512 << 20


PRIVILEGED: Final = Rights(ALL, filtered=False)


@dataclass(frozen=True, slots=True)
class Container:
    """A running container, and its first process."""

    target: Target
    pid: int
    """Of its first process, as this machine counts."""
    folder: Path
    rights: Rights

    def run(self, *arguments: str, privileged: bool = False) -> subprocess.CompletedProcess[str]:
        """Run heaptop inside, with the container's own rights (``docker exec``), or with all."""
        rights = replace(PRIVILEGED, user=0) if privileged else self.rights
        file = self.folder / "exec.json"
        file.write_text(json.dumps(_process([*HEAPTOP, *arguments], rights)))
        return _crun(self.folder, "exec", "--process", str(file), "c")

    def beside(self, rights: Rights, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run heaptop in another container that shares the pid namespace, as an ephemeral one of ``kubectl debug``."""
        with self._neighbour([*HEAPTOP, *arguments], rights) as folder:
            return _crun(folder, "run", "--bundle", str(folder), "c")

    @contextlib.contextmanager
    def killed_beside(self, rights: Rights, command: Sequence[str]) -> Iterator[Target]:
        """Run any program so for the length of the block; at its end every process of that container is killed."""
        with (
            self._neighbour(command, rights) as folder,
            starting([*_command(folder), "run", "--bundle", str(folder), "c"]) as target,
        ):
            yield target
            _crun(folder, "delete", "--force", "c")

    @contextlib.contextmanager
    def _neighbour(self, command: Sequence[str], rights: Rights) -> Iterator[Path]:
        shared = {"pid": f"/proc/{self.pid}/ns/pid", "network": f"/proc/{self.pid}/ns/net"}
        if self.rights.own_users:
            shared["user"] = f"/proc/{self.pid}/ns/user"
        with tempfile.TemporaryDirectory(prefix="heaptop-container-") as name:
            _write_bundle(Path(name), command, rights, _root_of(None), shared)
            try:
                yield Path(name)
            finally:
                _crun(Path(name), "delete", "--force", "c")

    def kill(self) -> None:
        """End every process of the container at once, as a runtime does."""
        _crun(self.folder, "delete", "--force", "c")

    def processes(self) -> set[int]:
        """Those in its control group, by the host's pids."""
        listed = CGROUPS / "memory" / _group_name(self.folder) / "cgroup.procs"
        return {int(line) for line in listed.read_text().split()} if listed.exists() else set()


@contextlib.contextmanager
def container(interpreter: Interpreter, name: str, rights: Rights) -> Iterator[Container]:
    """Run ``tests/targets/NAME.py`` as the first process of a container, for the length of the block."""
    need_crun()
    with tempfile.TemporaryDirectory(prefix="heaptop-container-") as path:
        folder = Path(path)
        program = [interpreter.path, str(TARGETS / f"{name}.py")]
        _write_bundle(folder, program, rights, _root_of(interpreter), {})
        try:
            file = folder / "pid"
            command: list[str | Path] = [*_command(folder), "run", "--bundle", path, "--pid-file", file, "c"]
            with starting(command) as target:
                assert eventually(lambda: "ready" in target.stdout() or not target.alive)
                assert target.alive, target.stdout() + target.stderr()
                yield Container(target, int(file.read_text()), folder, rights)
        finally:
            _crun(folder, "delete", "--force", "c")


def need_crun() -> None:
    """Skip the test where no container can be made; fail where all must be here."""
    missing = [each for each in ("crun", "unshare") if shutil.which(each) is None]
    missing += [] if PROFILE.exists() else [str(PROFILE)]
    missing += [] if os.geteuid() == 0 else ["root"]
    if missing and os.environ.get("HEAPTOP_REQUIRE_CONTAINERS"):
        pytest.fail(f"no {', no '.join(missing)}")
    if missing:
        pytest.skip(f"no {', no '.join(missing)}")


def _group_name(folder: Path) -> str:
    return f"heaptop-tests-{os.getpid()}-{folder.name}"


def _command(folder: Path) -> list[str]:
    return [*CRUN, f"--root={folder}/state"]


def _crun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_command(folder), *arguments], capture_output=True, text=True, check=False, timeout=2 * PATIENCE
    )


def _root_of(interpreter: Interpreter | None) -> Path:
    """Where /usr of a container comes from."""
    return interpreter.root if interpreter and interpreter.root else Path("/")


def _process(arguments: Sequence[str], rights: Rights) -> dict[str, Any]:
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(CHECKOUT / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HEAPTOP_CONFIG": os.devnull,
        "XDG_STATE_HOME": "/tmp",
        **{name: value for name, value in os.environ.items() if name == "HEAPTOP_TEST_SESSION"},
    }
    sets = ("bounding", "effective", "permitted") if rights.user == 0 else ("bounding",)
    return {
        "terminal": False,
        "user": {"uid": rights.user, "gid": rights.user},
        "args": list(arguments),
        "env": [f"{name}={value}" for name, value in variables.items()],
        "cwd": "/",
        "capabilities": {each: list(rights.capabilities) for each in sets},
        "noNewPrivileges": rights.user != 0,
    }


def _write_bundle(
    folder: Path, arguments: Sequence[str], rights: Rights, usr: Path, shared: Mapping[str, str]
) -> None:
    """A bundle of the OCI's runtime specification: config.json and the root."""
    kinds = [*NAMESPACES, *(["user"] if rights.own_users or "user" in shared else [])]
    mapping = [{"containerID": 0, "hostID": 100_000, "size": 65_536}]
    resources = {"memory": {"limit": rights.memory}}
    linux: dict[str, Any] = {
        "namespaces": [{"type": kind, **({"path": shared[kind]} if kind in shared else {})} for kind in kinds],
        "cgroupsPath": f"/{_group_name(folder)}",
        "resources": resources,
        "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
        "readonlyPaths": ["/proc/bus", "/proc/sys"],
    }
    if rights.own_users:
        linux |= {"uidMappings": mapping, "gidMappings": mapping}
    if rights.filtered:
        linux["seccomp"] = default_profile(rights.capabilities)
    config = {
        "ociVersion": "1.0.0",
        "process": _process(arguments, rights),
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "container",
        "mounts": _mounts(folder / "rootfs", usr),
        "linux": linux,
    }
    (folder / "config.json").write_text(json.dumps(config))


def _mounts(root: Path, usr: Path) -> list[dict[str, Any]]:
    """A tree of folders, and what is mounted there: all of it read-only, but for an empty /tmp."""
    root.mkdir()
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    binds = {Path(sys.base_prefix): Path(sys.base_prefix), Path(sys.prefix): Path(sys.prefix), CHECKOUT: CHECKOUT}
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    binds |= {versions: versions} if versions.is_dir() else {}
    binds |= {Path("/usr"): usr / "usr", Path("/etc"): usr / "etc"}
    for place in (*binds, Path("proc"), Path("dev"), Path("tmp")):
        (root / str(place).lstrip("/")).mkdir(parents=True, exist_ok=True)
    for folder in (root, *root.parents[:1]):
        folder.chmod(0o755)
    return [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=1777"]},
        *(
            {"destination": str(place), "type": "bind", "source": str(source), "options": ["rbind", "ro"]}
            for place, source in binds.items()
        ),
    ]


def default_profile(capabilities: Sequence[str]) -> dict[str, Any]:
    """The default profile for a container with these capabilities, as a runtime gets it: rules that ask for a
    capability, or for another machine, are chosen before."""

    def applies(rule: dict[str, Any]) -> bool:
        wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
        return (
            set(wanted.get("caps", ())) <= set(capabilities)
            and not set(unwanted.get("caps", ())) & set(capabilities)
            and "amd64" in wanted.get("arches", ["amd64"])
            and "amd64" not in unwanted.get("arches", ())
        )

    profile = json.loads(PROFILE.read_text())
    keys = ("names", "action", "args", "errnoRet")
    rules = [{key: rule[key] for key in keys if rule.get(key)} for rule in profile["syscalls"] if applies(rule)]
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "syscalls": rules,
    }
