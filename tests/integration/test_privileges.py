"""What heaptop keeps of root's privileges while it runs, and that whatever it starts or attaches to does not notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from heaptop.errors import PtraceDenied
from heaptop.injector.entry import helper_client
from heaptop.injector.inspect import privileges
from heaptop.injector.inspect.privileges import KEPT, SYS_ADMIN
from heaptop.injector.inspect.process import children, command_line
from tests.interpreters import NEWEST, Interpreter
from tests.support.attaching import attach_once, resting
from tests.support.leaking import ENVIRONMENT, HEAPTOP
from tests.support.outside import answer_of_child, in_child
from tests.support.processes import EXIT_CODE, PATIENCE, Target, difference, eventually, running
from tests.support.pty_terminal import pty_terminal

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="it is root's privileges that are dropped")

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def held(pid: int) -> tuple[int, int]:
    """Effective and permitted capabilities, of all threads together."""
    effective = permitted = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = dict(line.split(":\t") for line in (task / "status").read_text().splitlines() if line[:3] == "Cap")
        effective, permitted = effective | int(fields["CapEff"], 16), permitted | int(fields["CapPrm"], 16)
    return effective, permitted


# -- heaptop itself ----------------------------------------------------------------------------------------


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("command", ["record", "census", "leaks"])
def test_a_command_of_roots_keeps_four_capabilities(interpreter: Interpreter, command: str, tmp_path: Path) -> None:
    options = {
        "record": ["-o", str(tmp_path / "a.heaptop"), "--for", "60"],
        "census": ["--by", "producer", "--for", "60"],
        "leaks": ["--for", "60"],
    }[command]
    with running(interpreter, "heap_growing") as target:
        argv = [*HEAPTOP, command, str(target.pid), *options]
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
        )
        try:
            assert eventually(lambda: agent_runs(target))
            assert held(process.pid) == (KEPT, KEPT)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)
        assert eventually(lambda: not agent_runs(target))


def agent_runs(target: Target) -> bool:
    return any(name.startswith("heaptop fd=") for name in names_of_threads(target.pid))


def names_of_threads(pid: int) -> list[str]:
    return [(task / "comm").read_text().rstrip("\n") for task in Path(f"/proc/{pid}/task").iterdir()]


@pytest.mark.pythons("3.11-debian")
def test_a_screen_of_roots_keeps_four_capabilities(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper", wrapper=AS_NOBODY) as target:
        with pty_terminal([*HEAPTOP, "attach", str(target.pid)], 100, 30, ENVIRONMENT) as terminal:
            assert terminal.shows("Bands by type")
            assert held(terminal.pid) == (KEPT, KEPT)
            terminal.press("q")
            assert eventually(lambda: terminal.process.poll() is not None)
        assert target.terminate() == EXIT_CODE


def test_a_user_keeps_what_she_has() -> None:
    """A capability that somebody gave her for this."""

    def become() -> None:
        os.setresuid(65534, 65534, -1)

    assert in_child(lambda: f"{before_and_after()}", become) == "True"


def before_and_after() -> bool:
    before = privileges.current()
    privileges.drop()
    return privileges.current() == before


def test_a_root_without_sys_ptrace_keeps_what_it_has() -> None:
    """As in a container: it may look into its like only while it has no less than they have."""
    keeps = ("setpriv", "--bounding-set=-sys_ptrace,-sys_admin")
    code = "from tests.integration.test_privileges import before_and_after; print(before_and_after())"
    ran = subprocess.run([*keeps, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


@pytest.mark.pythons("3.12")
def test_a_root_without_sys_ptrace_attaches_to_its_like(interpreter: Interpreter) -> None:
    keeps = ("setpriv", "--bounding-set=-sys_ptrace,-sys_admin")
    with running(interpreter, "sleeper", wrapper=keeps) as target:
        argv = [*keeps, *HEAPTOP, "census", str(target.pid), "--json"]
        ran = subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT, check=False)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["complete"]
        assert target.terminate() == EXIT_CODE


# -- the helper --------------------------------------------------------------------------------------------

WATCHED = """\
import json, os, sys; sys.path.append(sys.argv[1])
from heaptop.injector.entry import helper
from heaptop.injector.inspect import privileges
from heaptop.injector.entry import ptrace
out = open({path!r}, "a")
def note(what):
    sets = privileges.current()
    out.write(json.dumps([what, sets.effective, sets.permitted]) + "\\n"); out.flush()
request, serve = ptrace.request, helper.serve
def noted(number, *arguments):
    note(hex(number) if number != ptrace.SEIZE else "seize")
    return request(number, *arguments)
ptrace.request = noted
def said(self, phase):
    note("waiting")
helper.Attempt.report_phase = said
def serving(control):
    note("began")
    serve(control)
helper.serve = serving
helper.main(int(sys.argv[2]))
"""
"""Writes down what the helper has, at each ptrace request and whenever it waits."""

GET_FILTER, SET_OPTIONS = "0x420c", "0x4200"


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[tuple[str, int, int]]]:
    path = tmp_path / "seen"
    monkeypatch.setattr(helper_client, "LAUNCHER", WATCHED.format(path=str(path)))

    def moments() -> list[tuple[str, int, int]]:
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()]

    return moments


@pytest.mark.pythons("3.11-debian")
def test_the_helper_keeps_four_capabilities(
    interpreter: Interpreter, seen: Callable[[], list[tuple[str, int, int]]]
) -> None:
    with running(interpreter, "sleeper", wrapper=AS_NOBODY) as target:
        attach_once(target.pid)
        assert target.terminate() == EXIT_CODE
    moments = seen()
    assert moments[0] == ("began", KEPT, KEPT | 1 << SYS_ADMIN)
    assert len(moments) > 3
    assert {effective for _, effective, _ in moments} == {KEPT}
    assert {permitted & ~(1 << SYS_ADMIN) for _, _, permitted in moments} == {KEPT}


@pytest.mark.pythons("3.12")
def test_sys_admin_is_raised_for_a_filter_only(
    interpreter: Interpreter, seen: Callable[[], list[tuple[str, int, int]]]
) -> None:
    with running(interpreter, "seccomp", "kill", "mmap") as target:
        attach_once(target.pid)
        assert target.terminate() == EXIT_CODE
    raised = {what for what, effective, _ in seen() if effective >> SYS_ADMIN & 1}
    assert GET_FILTER in raised
    assert raised - {GET_FILTER} in ({"seize"}, {SET_OPTIONS}), "whichever suspends the filter"
    assert {permitted for _, _, permitted in seen()} == {KEPT | 1 << SYS_ADMIN}


@pytest.mark.pythons("3.11-debian")
@pytest.mark.parametrize("target_name", ["sleeper", "busy", "dropping"])
def test_a_dropped_root_attaches_to_processes_of_others(interpreter: Interpreter, target_name: str) -> None:
    arguments = ("before",) if target_name == "dropping" else ()
    wrapper = () if target_name == "dropping" else AS_NOBODY
    with running(interpreter, target_name, *arguments, wrapper=wrapper) as target:
        before = resting(target.pid)
        assert answer_of_child(target.pid, privileges.drop).text.strip() == ""
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.11-debian")
@pytest.mark.parametrize("missing", ["setuid", "setgid", "dac_read_search"])
def test_a_process_of_another_user_is_refused_before_it_is_touched_where_a_capability_is_missing(
    interpreter: Interpreter, missing: str
) -> None:
    has = ",".join(f"+{each}" for each in ("sys_ptrace", "setuid", "setgid", "dac_read_search") if each != missing)
    with running(interpreter, "sleeper", wrapper=AS_NOBODY) as target:
        before = resting(target.pid)
        argv = ["setpriv", f"--bounding-set=-all,{has}", *HEAPTOP, "census", str(target.pid)]
        ran = subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT, check=False)
        assert ran.returncode == PtraceDenied.exit_code
        assert f"but not CAP_{missing.upper()}: " in ran.stderr
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.12", NEWEST)
@pytest.mark.parametrize(
    "wrapper",
    [("unshare", "--mount"), ("unshare", "--user"), ("unshare", "--user", "--map-root-user")],
    ids=["mount", "user", "user-root"],
)
def test_a_dropped_root_attaches_across_namespaces(interpreter: Interpreter, wrapper: tuple[str, ...]) -> None:
    if interpreter.root is not None and wrapper == ("unshare", "--user"):
        pytest.skip("chroot needs root inside")
    with running(interpreter, "sleeper", wrapper=wrapper) as target:
        before = resting(target.pid)
        assert answer_of_child(target.pid, privileges.drop).text.strip() == ""
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


# -- what heaptop starts -----------------------------------------------------------------------------------

ACCOUNT = """\
import ctypes, json, sys
lines = open("/proc/self/status").read().splitlines()
fields = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Uid", "Gid", "Groups", "SigIgn", "SigBlk")
found = {line.split(":")[0]: line.split(":")[1].split() for line in lines if line.split(":")[0] in fields}
found["dumpable"] = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
found["securebits"] = ctypes.CDLL(None).prctl(27, 0, 0, 0, 0)
print(json.dumps(found), flush=True)
"""
"""What a program has, by its own account."""


@pytest.mark.sample(2, least=3)
@pytest.mark.parametrize(
    "wrapper",
    [
        (),
        ("setpriv", "--no-new-privs"),
        ("setpriv", "--securebits=+noroot"),
        ("setpriv", "--inh-caps=+chown,+sys_ptrace", "--ambient-caps=+chown"),
        ("setpriv", "--bounding-set=-sys_admin,-chown"),
        ("setpriv", "--bounding-set=-sys_ptrace"),
        ("unshare", "--user", "--map-root-user"),
    ],
    ids=["plain", "no-new-privs", "noroot", "ambient", "bounded", "no-ptrace", "user"],
)
def test_a_program_that_heaptop_runs_has_all_it_had(wrapper: Sequence[str], tmp_path: Path) -> None:
    program, output = tmp_path / "account.py", tmp_path / "output"
    program.write_text(ACCOUNT)
    alone = subprocess.run(
        [*wrapper, sys.executable, str(program)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    command = [*wrapper, *HEAPTOP, "run", "--output", str(output), "--", str(program)]
    with pty_terminal(command, 100, 30, ENVIRONMENT) as terminal:
        assert terminal.until(lambda: output.exists() and output.read_text().endswith("\n")), terminal.text
    assert json.loads(output.read_text()) == json.loads(alone.stdout)


@pytest.mark.pythons("3.12")
def test_heaptop_keeps_four_capabilities_beside_a_program_that_it_runs(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    program, output = tmp_path / "sleeping.py", tmp_path / "output"
    program.write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [*HEAPTOP, "run", "--python", interpreter.path, "--output", str(output), "--", str(program)]
    with pty_terminal(command, 100, 30, ENVIRONMENT) as terminal:
        try:
            assert terminal.shows("Bands by type"), terminal.text
            assert held(terminal.pid) == (KEPT, KEPT)
            assert eventually(lambda: len(children(terminal.pid)) == 1), "the helper of the attach ends"
            (child,) = children(terminal.pid)
            assert held(child) == held(os.getpid())
        finally:
            for child in children(terminal.pid):
                if str(program) in command_line(child):
                    os.kill(child, signal.SIGKILL)


@pytest.mark.pythons("3.12")
def test_what_a_program_fails_to_start_by_is_reported(interpreter: Interpreter, tmp_path: Path) -> None:
    """Also where it is started by way of another program."""
    for name, said in (("gone", "No such file"), ("forbidden", "Permission denied")):
        python = tmp_path / name
        if name == "forbidden":
            python.write_text("")
        command = [*HEAPTOP, "run", "--python", str(python), "--output", str(tmp_path / "output"), "--", "prog.py"]
        with pty_terminal(command, 100, 30, ENVIRONMENT) as terminal:
            assert terminal.shows("could not be started", said), terminal.text
