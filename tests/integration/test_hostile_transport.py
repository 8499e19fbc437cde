"""Targets that attack the channel: what lies at a name, who holds the socket, who is there already."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from heaptop.errors import (
    AgentLost,
    AlreadyAttached,
    InjectionFailed,
    InterpreterBusy,
    NoAgent,
    TracedTarget,
    TransportFailed,
)
from heaptop.injector import processes
from heaptop.injector.api import diagnose, remove_agent
from heaptop.injector.entry import helper_client, hijack
from heaptop.injector.inspect import process
from heaptop.injector.inspect.threads import AGENT_NAMES, agent_thread, thread_name
from heaptop.protocol.source import Attached
from tests.interpreters import OLDEST, Interpreter, since
from tests.support.attaching import attach_once, is_held, opened, resting
from tests.support.outside import NOBODY, answer, answer_of_child, keep_capabilities
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, difference, eventually, running
from tests.support.tampering import BEGIN, HANGING, MAIN, OLD_KERNEL, SLOW_NAMES, SLOW_RECEIVE, TARGET_VARIABLE

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and other users need root")

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
AS_NOBODY_IN_A_NAMESPACE = (*AS_NOBODY, "unshare", "--user", "--map-root-user", "--mount")


# -- what lies at a name ---------------------------------------------------------------------------------------


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of root's that nobody else may read."""
    file = tmp_path / f"victim-{os.getpid()}"
    file.write_text("root's\n")
    file.chmod(0o600)
    for folder in (tmp_path, *tmp_path.parents):  # so that the target finds it
        if not folder.stat().st_mode & 1:
            folder.chmod(folder.stat().st_mode | 1)
    return file


def state(file: Path) -> tuple[int, int, int, str]:
    found = file.stat()
    return found.st_uid, found.st_gid, found.st_mode, file.read_text()


@needs_root
@pytest.mark.pythons("3.11-debian")
def test_a_mount_over_our_socket_changes_no_file(
    interpreter: Interpreter, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a user who is root in a namespace of its own only."""
    check_mounts_over(interpreter, AS_NOBODY_IN_A_NAMESPACE, (), "ptrace", victim, monkeypatch)


@needs_root
@pytest.mark.pythons(OLDEST, *since("3.14"))
@pytest.mark.parametrize("backend", ["ptrace", "pep768"])
def test_a_mount_over_our_files_in_a_container_changes_no_file(
    interpreter: Interpreter, backend: str, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "pep768" and interpreter.version < (3, 14):
        pytest.skip("PEP 768 came with 3.14")
    check_mounts_over(interpreter, ("unshare", "--mount"), ("drop",), backend, victim, monkeypatch)


def check_mounts_over(
    interpreter: Interpreter,
    wrapper: tuple[str, ...],
    arguments: tuple[str, ...],
    backend: str,
    victim: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The helper waits after each name it makes until the target has mounted the victim over it."""
    monkeypatch.setattr(helper_client, "LAUNCHER", BEGIN + SLOW_NAMES + OLD_KERNEL + MAIN)
    inside = interpreter.place(victim)
    victim = Path(f"{interpreter.root or ''}{inside}")
    before = state(victim)
    with running(interpreter, "hostile/over_socket", inside, *arguments, wrapper=wrapper) as target:
        monkeypatch.setenv(TARGET_VARIABLE, str(target.pid))
        for _ in range(3):
            got = answer(target.pid, backend=backend, wait=2.0)
            assert state(victim) == before
            assert got.kind is not None, "it connected in spite of the mount"
            assert target.alive
        assert "heaptop-" not in Path(f"/proc/{target.pid}/mountinfo").read_text(), "our names are gone"


@needs_root
@pytest.mark.parametrize("mode", [0o755, 0o777], ids=["of-root", "of-everybody"])
def test_a_folder_that_the_targets_user_does_not_own_alone_is_left_out(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's, which a target may have mounted there: root could write to it. One where others may remove our files."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    for above in tmp_path.parents:
        if not above.stat().st_mode & 1:
            above.chmod(above.stat().st_mode | 1)
    monkeypatch.setattr(hijack, "SOCKET_FOLDERS", (str(folder),))
    with pytest.raises(TransportFailed):
        hijack.listen_in_target(os.getpid(), NOBODY, NOBODY)
    assert list(folder.iterdir()) == []


@needs_root
def test_which_file_system_a_folder_is_on_is_read_with_heaptops_own_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 5.14 the target's user may not read heaptop's /proc/self/fdinfo."""
    looked: list[list[str]] = []
    check = hijack.check_serverless

    def rights() -> list[str]:
        status = Path("/proc/thread-self/status").read_text().splitlines()
        return [line for line in status if line.startswith(("Uid:", "Gid:", "CapEff:"))]

    def watched(pid: int, folder: int) -> None:
        looked.append(rights())
        check(pid, folder)

    monkeypatch.setattr(hijack, "check_serverless", watched)
    with hijack.listen_in_target(os.getpid(), NOBODY, NOBODY) as listener:
        assert os.stat(listener.inside).st_uid == NOBODY
    assert looked == [rights()] * len(looked)
    assert looked


@needs_root
@pytest.mark.pythons("3.11-debian")
@pytest.mark.parametrize("kernel", ["old", "new"])
def test_another_users_process_with_few_capabilities(
    interpreter: Interpreter, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What heaptop keeps: CAP_DAC_READ_SEARCH, CAP_SETGID, CAP_SETUID and CAP_SYS_PTRACE."""
    if kernel == "old":
        monkeypatch.setattr(helper_client, "LAUNCHER", BEGIN + OLD_KERNEL + MAIN)
    with running(interpreter, "sleeper", wrapper=AS_NOBODY) as target:
        got = answer_of_child(target.pid, lambda: keep_capabilities(2, 6, 7, 19))
        assert got.kind is None, got.text
        assert target.terminate() == EXIT_CODE


# -- who holds the socket --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["pipe", "file", "inet", "datagram"])
def test_looking_at_what_is_no_agents_socket_keeps_no_descriptor(what: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        if what == "pipe":
            number, other = os.pipe()
            stack.callback(os.close, number)
            stack.callback(os.close, other)
        elif what == "file":
            number = stack.enter_context((tmp_path / "file").open("w")).fileno()
        elif what == "inet":
            number = stack.enter_context(socket.socket(socket.AF_INET)).fileno()
        else:
            number = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)).fileno()
        before = sorted(os.listdir("/proc/self/fd"))
        for _ in range(50):
            assert hijack.has_hung_up(os.getpid(), number)
        assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.sample(2, least=3)
@pytest.mark.timeout(180)
@pytest.mark.pythons("3.8", "3.12")
def test_a_target_that_reads_from_our_end_is_given_up_in_time(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper reads a moment after its poll, so that the thief comes between."""
    monkeypatch.setattr(helper_client, "LAUNCHER", BEGIN + SLOW_RECEIVE + MAIN)
    with running(interpreter, "hostile/thief") as target:
        for _ in range(10):  # until the thief was quick enough
            got = answer(target.pid, wait=3.0)
            if "stolen" in target.said():
                break
        assert target.said() == ["stolen"]
        assert got.kind in (InterpreterBusy, InjectionFailed, AgentLost), got.text
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.timeout(180)
@pytest.mark.pythons("3.12")
def test_a_helper_that_hangs_is_killed(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it hangs in. The target goes on, and the next attach gets in."""
    monkeypatch.setattr(helper_client, "LAUNCHER", BEGIN + HANGING + MAIN)
    monkeypatch.setattr(helper_client, "PATIENCE", 0.5)
    monkeypatch.setattr(helper_client, "HELPER_END", 0.5)
    with running(interpreter, "sleeper") as target:
        before = resting(target.pid)
        got = answer(target.pid, wait=0.5)
        assert got.kind is InjectionFailed
        assert "did not answer" in got.message
        assert eventually(lambda: not is_held(target.pid))
        monkeypatch.undo()
        attach_once(target.pid, census=True)
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.said() == []


# -- who is there already --------------------------------------------------------------------------------------


@contextlib.contextmanager
def holding_the_lock(pid: int, how: str) -> Iterator[None]:
    """A process of another user that has the name of heaptop's lock on ``pid``."""
    program = (
        "import socket, sys, time\n"
        "link = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[1]))\n"
        "link.bind('\\0' + sys.argv[2])\n"
        "if sys.argv[3] == 'listening': link.listen(int(sys.argv[4]))\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    kind, state, backlog = {
        "datagram": ("SOCK_DGRAM", "", "0"),
        "silent": ("SOCK_STREAM", "", "0"),
        "listening": ("SOCK_STREAM", "listening", "100"),
        "full": ("SOCK_STREAM", "listening", "0"),
    }[how]
    name = f"heaptop-attach-{pid}-{process.start_time(pid)}"
    with contextlib.ExitStack() as stack:
        holder = subprocess.Popen(
            [*AS_NOBODY, "/usr/bin/python3", "-c", program, kind, name, state, backlog], stdout=subprocess.PIPE
        )
        stack.callback(holder.wait, PATIENCE)
        stack.callback(holder.kill)
        assert holder.stdout is not None
        stack.callback(holder.stdout.close)
        assert holder.stdout.readline() == b"held\n"
        if how == "full":
            link = stack.enter_context(socket.socket(socket.AF_UNIX))
            link.connect("\0" + name)
        yield


@needs_root
@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("how", ["datagram", "silent", "listening", "full"])
def test_another_user_cannot_lock_heaptop_out(interpreter: Interpreter, how: str) -> None:
    with running(interpreter, "sleeper") as target, holding_the_lock(target.pid, how):
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE


@needs_root
@pytest.mark.pythons("3.12")
def test_without_the_lock_only_one_of_two_gets_in(interpreter: Interpreter, is_whole: bool) -> None:
    """Another user holds it, and heaptops come at the same moment."""
    with running(interpreter, "threads8") as target, holding_the_lock(target.pid, "listening"):
        before = resting(target.pid)
        for _ in range(5 if is_whole else 2):
            with contextlib.ExitStack() as stack:
                tries = [stack.enter_context(opened(target.pid)) for _ in range(3)]
                got_in = 0
                for attempt in tries:
                    try:
                        attempt.event(Attached)
                        got_in += 1
                    except (AlreadyAttached, TracedTarget):
                        pass
                assert got_in <= 1
                assert target.alive
            assert eventually(lambda: agent_thread(target.pid) is None)
        attach_once(target.pid, census=True)
        assert [each for each in difference(before, resting(target.pid)) if "thread" not in each] == []
        assert target.terminate() == EXIT_CODE
        assert target.said() == []
        assert target.stderr() == ""


@pytest.mark.pythons("3.12")
def test_this_user_waits_for_its_own_heaptop(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        name = f"\0heaptop-attach-{target.pid}-{process.start_time(target.pid)}"
        with socket.socket(socket.AF_UNIX) as holder:
            holder.bind(name)
            holder.listen(1000)
            assert answer(target.pid).kind is AlreadyAttached
        attach_once(target.pid)


@pytest.mark.timeout(180)
@pytest.mark.pythons("3.8", "3.12")
@pytest.mark.parametrize("what", ["pair", "inet", "file", "closed"])
def test_a_thread_that_fakes_the_agents_name_is_seen_through(interpreter: Interpreter, what: str) -> None:
    """What was seen is said, at once, and no socket of the program's is shut down."""
    with running(interpreter, "hostile/faking", what) as target:
        before = Facts.of(target.pid)
        with pytest.raises(AlreadyAttached) as caught, opened(target.pid) as attachment:
            attachment.event(Attached)
        assert f"of process {target.pid} has the name of heaptop's agent" in caught.value.message
        assert "descriptor" in caught.value.why
        for seen in (diagnose(target.pid).error, processes.refusal(target.pid)):
            assert isinstance(seen, AlreadyAttached)
            assert seen.message == f"Another heaptop seems to be attached to process {target.pid}."
            assert "the program gave a thread of its own that name" in seen.why
        assert max((each.seconds for each in attachment.waited), default=0.0) < PATIENCE / 2, "the whole wait"
        with pytest.raises(NoAgent):
            remove_agent(target.pid)
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []
        assert target.terminate() == EXIT_CODE
        assert target.said() == []


@pytest.mark.pythons("3.8", "3.12")
def test_the_first_thread_is_no_agent_whatever_its_name(interpreter: Interpreter) -> None:
    """A child that an agent's thread has forked has that name, and a copy of its socket."""
    with running(interpreter, "hostile/faking", "first") as target:
        with pytest.raises(NoAgent):
            remove_agent(target.pid)
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE


@pytest.mark.parametrize("number", [3, 9_999, 10_000, 1_048_575])
def test_the_name_of_a_thread_has_the_whole_number(number: int) -> None:
    name = thread_name(number)
    assert len(name) <= 15
    match = AGENT_NAMES.fullmatch(name.decode())
    assert match is not None
    assert int(match[1] or match[2]) == number
