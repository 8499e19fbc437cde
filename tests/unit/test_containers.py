"""What heaptop says in and of containers: the line to type, and sandboxes that no host's heaptop can enter."""

from __future__ import annotations

import os
from collections import namedtuple
from dataclasses import replace

import pytest

from heaptop.errors import InjectionDenied, NotPython
from heaptop.injector.inspect import containers, preflight
from heaptop.injector.inspect.process import ProcessFacts, read_facts

System = namedtuple("System", "sysname nodename release version machine")
GVISOR = "#1 SMP Sun Jan 10 15:06:54 PST 2016"


@pytest.fixture
def facts() -> ProcessFacts:
    return replace(read_facts(os.getpid()), pid=7, name="python", uids=(0, 0, 0, 0), seccomp=0)


@pytest.mark.parametrize(
    ("changes", "profile", "rights"),
    [
        ({}, "general", "--cap-add=SYS_PTRACE"),
        ({"seccomp": 2}, "sysadmin", "--privileged"),
        ({"uids": (1000, 1000, 1000, 1000)}, "sysadmin", "--privileged"),
    ],
)
def test_the_line_asks_for_no_more_rights_than_the_attach_needs(
    facts: ProcessFacts, changes: dict[str, object], profile: str, rights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "is_initial", lambda namespace: True)
    lines = containers.elsewhere(replace(facts, **changes)).splitlines()
    assert lines[1:] == [
        f"  docker run -it --rm {rights} --pid=container:NAME heaptop attach 7",
        f"  kubectl debug -it POD --profile={profile} --image=heaptop --target=CONTAINER -- heaptop attach 7",
    ]


def test_from_a_user_namespace_only_the_host_is_named(facts: ProcessFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "is_initial", lambda namespace: namespace != "user")
    text = containers.elsewhere(facts)
    assert "on the host" in text
    assert "docker" not in text


@pytest.mark.parametrize("release", ["4.4.0", "4.19.0-gvisor"])
def test_gvisor_is_refused_by_name_before_anything_is_read(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: System("Linux", "pod", release, GVISOR, "x86_64"))
    with pytest.raises(InjectionDenied, match="gVisor"):
        preflight.check(os.getpid())


def test_a_linux_of_gvisors_release_is_no_gvisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: System("Linux", "pod", "4.4.0", "#1 SMP Tue Mar 1", "x86_64"))
    assert containers.gvisor_error() is None


SANDBOX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("executable", "arguments", "name"),
    [
        ("/proc/self/exe", ["runsc-sandbox", "--root=/run/runsc", "boot"], "gVisor"),
        ("/usr/local/bin/runsc", ["runsc", "--root=/run/runsc", "boot"], "gVisor"),
        ("/usr/bin/qemu-system-x86_64", ["qemu", "-name", f"sandbox-{SANDBOX},debug-threads=on"], "Kata"),
        ("/usr/bin/cloud-hypervisor", ["clh", "--api-socket", "/run/vc/vm/0123/clh-api.sock"], "Kata"),
        ("/usr/bin/firecracker", ["firecracker", "--api-sock=/run/vc/vm/0123/fc.sock"], "Kata"),
        ("/usr/bin/qemu-system-x86_64", ["qemu", "-name", "guest=web"], ""),
        ("/usr/bin/python3.12", ["python", "/run/vc/program.py"], ""),
        ("/usr/bin/python3.12", [], ""),
    ],
)
def test_a_sandbox_is_named_on_the_host(
    facts: ProcessFacts, executable: str, arguments: list[str], name: str
) -> None:
    error = containers.sandbox_error(replace(facts, executable=executable), arguments)
    assert (error is None) == (not name)
    if error is not None:
        assert isinstance(error, NotPython)
        assert name in error.message
        assert error.why
        assert error.fix
