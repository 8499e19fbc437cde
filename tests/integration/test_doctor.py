"""``heaptop doctor``: says what an attach would, on every kind of target, and changes nothing in any of them."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from heaptop import errors
from heaptop.errors import AlreadyAttached
from heaptop.injector import diagnosis as diagnosing
from heaptop.injector.api import AttachOptions, diagnose
from heaptop.injector.inspect import process
from heaptop.injector.native import Library, NoCore
from heaptop.protocol.messages import Census
from tests.interpreters import Interpreter
from tests.support.attaching import attached, is_held, is_whole
from tests.support.control_groups import joining, memory_group
from tests.support.outside import become_nobody, in_child, without_capabilities
from tests.support.processes import EXIT_CODE, Facts, difference, eventually, running, this_python


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "heaptop", "doctor", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def checks(*, pid: int | None = None) -> Mapping[str, diagnosing.Check]:
    return {check.name: check for check in diagnose(pid).checks}


def test_a_good_target_is_good_and_untouched(interpreter: Interpreter) -> None:
    for name in ("sleeper", "busy"):
        with running(interpreter, name) as target:
            before = Facts.of(target.pid)
            found = diagnose(target.pid)
            assert found.attachable
            assert found.error is None
            said = {check.name: check for check in found.checks}
            assert said["interpreter"].detail.startswith(f"CPython {interpreter.version[0]}.{interpreter.version[1]}")
            assert said["process"].detail.startswith(f"{target.pid} ")
            assert said["backend ptrace"].ok
            assert said["backend pep768"].ok is (True if interpreter.version >= (3, 14) else None)
            assert not [check for check in found.checks if check.ok is False]
            assert difference(before, Facts.of(target.pid), allow_pages=False) == []
            assert not is_held(target.pid)
            assert target.terminate() == EXIT_CODE
            assert target.said() == []
            assert target.stderr() == ""


@pytest.mark.pythons("3.13")
def test_the_command_in_words_and_in_json(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        before = Facts.of(target.pid)
        words = doctor(str(target.pid))
        assert (words.returncode, words.stderr) == (0, "")
        assert words.stdout.endswith("\nheaptop can attach.\n")
        data = doctor(str(target.pid), "--json")
        assert data.returncode == 0
        found = json.loads(data.stdout)
        assert (found["pid"], found["attachable"], found["error"]) == (target.pid, True, None)
        assert [check["name"] for check in found["checks"]] == [check.name for check in diagnose(target.pid).checks]

        target.stop()
        words = doctor(str(target.pid))
        assert words.returncode == errors.StoppedTarget.exit_code
        assert f"kill -CONT {target.pid}" in words.stdout
        found = json.loads(doctor(str(target.pid), "--json").stdout)
        assert (found["attachable"], found["error"]["class"]) == (False, "StoppedTarget")
        assert found["error"]["exit_code"] == errors.StoppedTarget.exit_code
        assert process.read_facts(target.pid).state == "T"
        target.signal(signal.SIGCONT)
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []


def test_without_a_process_the_doctor_checks_the_machine() -> None:
    found = diagnose(None)
    assert found.pid is None
    assert found.attachable
    names = ["machine", "kernel", "ptrace_scope", "capabilities", "pidfd_getfd", "native core"]
    assert [check.name for check in found.checks] == names
    words = doctor()
    assert words.returncode == 0
    assert os.uname().release in words.stdout
    assert json.loads(doctor("--json").stdout)["pid"] is None


@pytest.mark.pythons("3.13", "3.14")
def test_how_it_would_be_counted_is_said(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    if checks()["native core"].ok is None:
        pytest.skip("the native core is not built: setup.py build_ext --inplace")
    with running(interpreter, "sleeper") as target:
        found = checks(pid=target.pid)["census"]
        if interpreter.root is not None:
            assert "the target has no /proc" in found.detail
        else:
            assert found.detail.startswith("in a clone, pause about ")
            found = {each.name: each for each in diagnose(target.pid, AttachOptions(pause_budget=0)).checks}["census"]
            assert "asks first" in found.detail

        def missing(*, musl: bool = False) -> Library:
            raise NoCore("no native core: heaptop was installed without it")

        monkeypatch.setattr(diagnosing, "library", missing)
        found = checks(pid=target.pid)["census"]
        assert found.detail == "in Python mode, in slices: no native core: heaptop was installed without it"
        assert checks()["native core"].fix


@pytest.mark.pythons("3.13")
def test_somebodys_agent_is_named_and_left_alone(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target, attached(target.pid) as attachment:
        attachment.message(Census)
        before = Facts.of(target.pid)
        found = diagnose(target.pid)
        assert isinstance(found.error, AlreadyAttached)
        assert f"heaptop detach {target.pid}" in found.error.fix
        assert not [check for check in found.checks if "PID" in check.fix]
        changes = difference(before, Facts.of(target.pid), allow_pages=False)
        # The agent has its statm open for a moment in each tick.
        assert [change for change in changes if not change.endswith("/statm)")] == []
        assert is_whole(attachment.census())


@pytest.mark.pythons("3.8")
def test_a_process_in_vfork_cannot_be_told_from_outside_but_is_not_waited_for(interpreter: Interpreter) -> None:
    with running(interpreter, "vfork_parent") as target:
        assert eventually(lambda: process.read_facts(target.pid).state == "D")
        assert "state D" in checks(pid=target.pid)["process"].detail
        assert not is_held(target.pid)
        target.write(b".")
        assert eventually(lambda: target.said() == ["released"])


@pytest.mark.pythons("3.13")
def test_a_tracer_is_named_and_keeps_its_place(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target, running(this_python(), "tracer", str(target.pid)) as tracer:
        found = checks(pid=target.pid)
        assert found["tracer"].ok is False
        assert f"kill {tracer.pid}" in found["tracer"].fix
        assert Facts.of(target.pid).tracer == tracer.pid


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
@pytest.mark.pythons("3.13")
def test_namespaces_and_filters_are_told(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper", wrapper=("unshare", "--pid", "--fork", "--net")) as target:
        (child,) = Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text().split()
        assert checks(pid=int(child))["namespaces"].detail == "its own pid, net; pid 1 there"
    with running(interpreter, "seccomp", "kill", "mmap") as target:
        assert "suspended" in checks(pid=target.pid)["seccomp"].detail


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
@pytest.mark.pythons("3.13")
def test_a_process_in_a_pod_has_the_line_for_kubectl(interpreter: Interpreter, tmp_path: Path) -> None:
    uid = "0f5e3c1a-1b2c-4d3e-8f4a-5b6c7d8e9f01"
    folder = tmp_path / "pods" / uid / "containers" / "web"
    folder.mkdir(parents=True)
    (folder / "0123abcd").touch()
    (tmp_path / "log").touch()
    mount = ("unshare", "--mount", "sh", "-c", f'mount --bind {folder}/0123abcd {tmp_path}/log && exec "$@"', "sh")
    with (
        memory_group(f"-pod{uid}") as group,
        running(interpreter, "sleeper", wrapper=(*joining(group), *mount)) as target,
    ):
        found = checks(pid=target.pid)["pod"]
        assert found.ok is None
        assert found.detail.startswith(f"{uid}, container web")
        assert found.fix.endswith(f" -- heaptop attach {target.pid}")
        assert "--target=web " in found.fix
        assert found.fix in doctor(str(target.pid)).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")
def test_what_less_than_root_is_told() -> None:
    for prepare, who in ((become_nobody, "nobody"), (without_capabilities, "root")):
        detail = in_child(lambda: checks()["capabilities"].detail, prepare)
        assert detail == f"{who} without CAP_SYS_PTRACE: only {who}'s own processes"
    assert "every process" in checks()["capabilities"].detail


@pytest.mark.parametrize(
    ("scope", "ok", "fix"),
    [
        (None, True, False),
        (0, True, False),
        (1, None, True),
        (2, None, True),
        (3, False, False),  # it cannot be changed then
    ],
)
def test_the_doctor_says_how_to_loosen_ptrace_scope(
    scope: int | None, ok: bool | None, fix: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "ptrace_scope", lambda: scope)
    check = checks()["ptrace_scope"]
    assert check.ok is ok
    assert bool(check.fix) == fix


def test_a_kernel_without_pidfd_getfd_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(diagnosing, "take_descriptor", missing)
    check = checks()["pidfd_getfd"]
    assert check.ok is None
    assert "a socket in the target's file system is used instead" in check.detail
    assert diagnose(None).attachable
