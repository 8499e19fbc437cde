"""Which pod a process is in: what it says itself is taken only where it is a name and agrees with the kernel."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from heaptop.injector.inspect import pods, proc
from heaptop.injector.inspect.pods import PodContainer, pod_container

UID = "0f5e3c1a-1b2c-4d3e-8f4a-5b6c7d8e9f01"
OTHER = "11111111-2222-4333-8444-555555555555"
SYSTEMD = f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri.scope\n"
PLAIN = f"12:memory:/kubepods/burstable/pod{UID}/0123\n1:name=systemd:/kubepods/burstable/pod{UID}/0123\n"


def mounted(name: str, uid: str = UID, last: str = "0123abcd") -> str:
    root = f"/var/lib/kubelet/pods/{uid}/containers/{name}/{last}"
    return f"700 600 8:1 {root} /dev/termination-log rw,relatime - ext4 /dev/sda1 rw\n"


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its folder in a /proc."""
    lines, text = proc.lines, proc.text

    def here(path: str) -> str:
        return path.replace("/proc/7", str(tmp_path))

    monkeypatch.setattr(pods.proc, "lines", lambda path, limit: lines(here(path), limit))
    monkeypatch.setattr(pods.proc, "text", lambda path: text(here(path)))
    return tmp_path


@pytest.mark.parametrize("groups", [SYSTEMD, PLAIN, "0::/\n"])
def test_the_container_of_a_pod_is_found(process: Path, groups: str) -> None:
    (process / "cgroup").write_text(groups)
    (process / "mountinfo").write_text("22 27 0:21 / /proc rw - proc proc rw\n" + mounted("web-1"))
    assert pod_container(7) == PodContainer(UID, "web-1")


@pytest.mark.parametrize(
    ("groups", "mount"),
    [
        (SYSTEMD, mounted("web", OTHER)),
        ("0::/user.slice/user-1000.slice\n", mounted("web")),
        (SYSTEMD, mounted("$(reboot)")),
        (SYSTEMD, mounted("web;reboot")),
        (SYSTEMD, mounted("-web")),
        (SYSTEMD, mounted("w" * 64)),
        (SYSTEMD, mounted("web", last="0123abcd/x")),
        (SYSTEMD, mounted("web\\012")),
        (SYSTEMD, "700 600\n"),
        (SYSTEMD, ""),
    ],
)
def test_what_is_no_name_or_of_another_pod_is_not_taken(process: Path, groups: str, mount: str) -> None:
    (process / "cgroup").write_text(groups)
    (process / "mountinfo").write_text(mount)
    assert pod_container(7) is None


def test_the_command_has_the_words_that_kubectl_wants() -> None:
    words = shlex.split(PodContainer(UID, "web").debug_command(9, "sysadmin"))
    assert words[:6] == ["kubectl", "debug", "-it", "--profile=sysadmin", "--image=heaptop", "--target=web"]
    assert words[-4:] == ["--", "heaptop", "attach", "9"]
    (path,) = [word for word in words if word.startswith("jsonpath=")]
    template = f'{{range .items[?(@.metadata.uid=="{UID}")]}}-n {{.metadata.namespace}} {{.metadata.name}}{{end}}'
    assert path.startswith(f"jsonpath={template}")
