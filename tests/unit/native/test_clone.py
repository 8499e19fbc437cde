"""The snapshot child, made in the process that runs the tests: how it ends, what is told of it, what it has on."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import snapshots
from tests.support.outside import NOBODY, in_child
from tests.support.processes import eventually
from tests.support.snapshots import OOM_FIRST, OWN_TABLE, Status, Work, begin, end, library, outcome, reason

FOREVER = 3_600_000
"""Milliseconds that a child waits for what a test does with it."""
PAGE = 4096
CLONE_CALL, PRCTL_CALL, CLOSE_RANGE_CALL = 56, 157, 436
BLOCKABLE = [number for number in range(1, 65) if number not in (signal.SIGKILL, signal.SIGSTOP)]
OWN_SIGNALS = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGTRAP,
    signal.SIGABRT,
    signal.SIGSYS,
    signal.SIGALRM,
}
"""The child's faults and its timer."""


@pytest.fixture(autouse=True)
def at_rest() -> Iterator[None]:
    """Ends and reaps what a test leaves of its snapshot."""
    yield
    library().abort_it()
    library().release()


def own_table_is_possible() -> bool:
    release = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
    return release >= (5, 9)


def waiting_child(*, descriptor: bool = False) -> int:
    """The pid of a child that is through its preparations, and waits."""
    assert begin(Work.WAIT, FOREVER, descriptor=descriptor) == 0
    pid = int(library().pid())
    assert eventually(lambda: snapshots.data() == b"here")
    return pid


def descriptors() -> set[int]:
    """Those open in this process, without the one that looking takes."""
    return {int(each) for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")}


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def signals_in(mask: int) -> set[int]:
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


# -- how it ends ---------------------------------------------------------------------------------------------


def test_a_result_comes_back() -> None:
    assert outcome(Work.FINISH) is Status.OK
    assert snapshots.data() == b"done"
    assert library().pause_ns() > 0
    assert library().pid() == 0


@pytest.mark.parametrize(
    ("work", "argument", "status", "detail", "words"),
    [
        (Work.FAIL, 42, Status.FAILED, 42, "failed with code 42"),
        (Work.FAIL, -errno.ENOMEM, Status.FAILED, -errno.ENOMEM, f"failed with code -{errno.ENOMEM}"),
        (Work.CRASH, 0x88, Status.CRASHED, signal.SIGSEGV, "a memory access (SIGSEGV), address 0x88"),
        (Work.DIVIDE, 0, Status.CRASHED, signal.SIGFPE, "an arithmetic fault (SIGFPE)"),
        (Work.OVERFLOW_STACK, 0, Status.CRASHED, signal.SIGSEGV, "a memory access (SIGSEGV)"),
        (Work.LEAVE, 0, Status.LOST, 0, "ended without a result"),
        (Work.LEAVE, 3, Status.LOST, 0, "ended without a result"),
    ],
)
def test_a_failure_is_told_in_words_and_the_next_one_runs(
    work: Work, argument: int, status: Status, detail: int, words: str
) -> None:
    assert outcome(work, argument) is status
    assert library().detail() == detail
    assert words in reason()
    assert outcome(Work.FINISH) is Status.OK


def test_a_child_that_hangs_ends_itself() -> None:
    assert outcome(Work.HANG, wall_ms=100) is Status.HUNG
    assert reason() == "the snapshot process was not done after 0.1 s and was ended"
    assert outcome(Work.FINISH) is Status.OK


def test_a_child_that_cannot_even_run_is_killed_by_the_parent() -> None:
    assert begin(Work.WAIT, FOREVER, wall_ms=100) == 0
    os.kill(library().pid(), signal.SIGSTOP)
    assert eventually(lambda: library().poll_once() != Status.RUNNING)
    assert Status(library().poll_once()) is Status.HUNG


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGKILL, "the kernel was short of memory, or somebody did it"), (signal.SIGSEGV, "a memory access")],
)
def test_a_killed_child_is_told_from_a_result(number: signal.Signals, words: str) -> None:
    os.kill(waiting_child(), number)
    assert end() is (Status.KILLED if number == signal.SIGKILL else Status.CRASHED)
    assert words in reason()
    assert outcome(Work.FINISH) is Status.OK


def test_an_abort_ends_it_at_once() -> None:
    pid = waiting_child()
    assert snapshots.abort() is Status.ABORTED
    assert not Path(f"/proc/{pid}").exists()
    assert reason() == "the snapshot process was ended before it was done"


def test_an_abort_after_the_end_keeps_the_result() -> None:
    assert begin(Work.FINISH) == 0
    assert eventually(lambda: snapshots.has_ended(library().pid()))
    assert snapshots.abort() is Status.OK
    assert snapshots.data() == b"done"


def test_its_descriptor_is_readable_when_it_has_ended_and_not_before() -> None:
    pid = waiting_child(descriptor=True)
    descriptor = int(library().fd())
    assert select.select([descriptor], [], [], 0)[0] == []
    assert not os.get_inheritable(descriptor)
    os.kill(pid, signal.SIGKILL)
    assert select.select([descriptor], [], [], 60)[0] == [descriptor]
    assert Status(library().poll_once()) is Status.KILLED


def test_one_at_a_time() -> None:
    pid = waiting_child()
    assert begin(Work.FINISH) == -errno.EBUSY
    library().release()
    assert library().pid() == pid
    assert Path(f"/proc/{pid}").exists()
    assert snapshots.refusal(errno.EBUSY) == "the last snapshot process is still there"


def test_nothing_stays_behind() -> None:
    assert outcome(Work.FINISH) is Status.OK
    assert outcome(Work.FAIL, 1) is Status.FAILED
    library().release()
    before = descriptors()
    for described in (False, True) * 10:
        assert begin(Work.FINISH, descriptor=described) == 0
        assert end() is Status.OK
        library().release()
    assert descriptors() == before
    assert library().mapping() is None
    assert library().poll_once() == Status.NONE


# -- what the parent's other children and descriptors see of it ----------------------------------------------------


def unseen(call: Callable[[], object]) -> bool:
    """Whether a wait says that there is no child at all."""
    try:
        call()
    except ChildProcessError:
        return True
    return False


def test_wait_does_not_see_it() -> None:
    """In a process of its own, which has no other children."""

    def work() -> str:
        pid = waiting_child()
        waits = [
            lambda: os.waitpid(-1, os.WNOHANG),
            lambda: os.waitpid(-1, 0),
            lambda: os.waitpid(0, os.WNOHANG | os.WUNTRACED | os.WCONTINUED),
            lambda: os.waitpid(pid, os.WNOHANG),
            lambda: os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG),
        ]
        live_blocks = [unseen(each) for each in waits]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: snapshots.has_ended(pid))
        ended = [unseen(each) for each in waits]
        return f"{all(live_blocks)} {all(ended)} {end().name}"

    assert in_child(work, lambda: None) == "True True KILLED"


def test_a_blocking_wait_gets_its_own_child_only() -> None:
    def work() -> str:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert begin(Work.FINISH) == 0
        assert eventually(lambda: snapshots.has_ended(library().pid()))
        assert process.stdin is not None
        process.stdin.close()
        own = os.waitpid(-1, 0)[0] == process.pid
        return f"{own} {end().name}"

    assert in_child(work, lambda: None) == "True OK"


def test_who_waits_for_everything_takes_the_status_and_not_the_result() -> None:
    every_child = 0x40000000  # __WALL

    def work() -> str:
        assert begin(Work.FINISH) == 0
        pid = int(library().pid())
        first = os.waitpid(-1, every_child) == (pid, 0) and end() is Status.OK and snapshots.data() == b"done"
        assert begin(Work.LEAVE, 5) == 0
        os.waitpid(-1, every_child)
        return f"{first} {end().name}"

    assert in_child(work, lambda: None) == "True LOST"


def test_a_closed_connection_ends_though_the_child_lives() -> None:
    near, far = socket.socketpair()
    reader, writer = os.pipe()
    with far, open(reader, "rb") as stream:
        waiting_child()
        near.close()
        os.close(writer)
        far.settimeout(60)
        assert far.recv(1) == b""
        assert stream.read() == b""


@pytest.mark.skipif(not own_table_is_possible(), reason="close_range came with Linux 5.9")
def test_it_has_no_descriptors_and_takes_no_number() -> None:
    before = descriptors()
    pid = waiting_child()
    assert os.listdir(f"/proc/{pid}/fd") == []
    assert library().fd() == -1
    assert descriptors() == before
    assert library().guards() == OWN_TABLE | OOM_FIRST


def test_files_that_took_the_descriptors_number_are_left_alone() -> None:
    assert begin(Work.FINISH, descriptor=True) == 0
    number = int(library().fd())
    mine = os.memfd_create("mine")
    try:
        os.dup2(mine, number)
        assert end() is Status.OK
        library().release()
        os.write(number, b"mine")
        os.close(number)
    finally:
        os.close(mine)


def test_a_forked_child_forgets_it() -> None:
    pid = waiting_child(descriptor=True)
    address, descriptor = int(library().mapping()), int(library().fd())

    def forget() -> str:
        mapped = f"{address:x}-" in Path("/proc/self/maps").read_text()
        library().end()
        library().abort_it()
        library().release()
        kept = descriptor in descriptors()
        own = outcome(Work.FINISH)
        library().release()
        return f"{mapped} {kept} {own.name}"

    assert in_child(forget, lambda: None) == "False False OK"
    assert Status(library().poll_once()) is Status.RUNNING
    assert library().pid() == pid


# -- what it has on -----------------------------------------------------------------------------------------------


def test_it_dies_first_last_and_alone() -> None:
    pid = waiting_child()
    if own_table_is_possible():
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
    assert Path("/proc/self/oom_score_adj").read_text() != "1000\n"
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)
    assert Path(f"/proc/{pid}/comm").read_text() == "heaptop census\n"
    assert re.search(r"Max core file size +0 ", Path(f"/proc/{pid}/limits").read_text())
    assert status_of(pid)["Threads"] == "1"
    assert int(status_of(pid)["PPid"]) == os.getpid()


def test_only_its_own_faults_and_timer_reach_it() -> None:
    caught: list[int] = []
    former = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    try:
        assert outcome(Work.SEE_SIGNALS) is Status.OK
    finally:
        signal.signal(signal.SIGUSR1, former)
    handled, blocked = struct.unpack("QQ", snapshots.data())
    assert signals_in(handled) == OWN_SIGNALS
    assert signals_in(blocked) == set(BLOCKABLE) - OWN_SIGNALS
    assert caught == []


def test_the_threads_own_mask_is_as_before() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        assert outcome(Work.FINISH) is Status.OK
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])


def test_what_is_sent_to_the_process_group_is_not_for_it() -> None:
    pid = waiting_child()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGUSR1):
        os.kill(pid, number)
    assert not eventually(lambda: snapshots.has_ended(pid), 0.2)
    assert status_of(pid)["State"][0] in "RS"


def test_a_clone_that_crashes_dumps_no_core(tmp_path: Path) -> None:
    """Its own handler for a fault needs a stack; where that has run out the kernel would dump."""

    def prepare() -> None:
        os.chdir(tmp_path)
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)

    assert in_child(lambda: outcome(Work.OVERFLOW_STACK).name, prepare) == "CRASHED"
    assert list(tmp_path.iterdir()) == []


# -- when it cannot be made, or ended -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EPERM, errno.EAGAIN, errno.ENOMEM, errno.ENOSYS])
def test_a_clone_that_is_refused_is_an_errno_and_a_sentence(error: int) -> None:
    def work() -> str:
        before = descriptors()
        got = begin(Work.FINISH)
        left = library().mapping() is None and descriptors() == before
        return f"{got} {left} {Status(library().poll_once()).name}"

    assert in_child(work, lambda: library().refuse(CLONE_CALL, error)) == f"{-error} True NONE"
    sentence = snapshots.refusal(error)
    assert sentence is not None
    assert len(sentence) > 20


def test_a_filter_that_kills_the_child_kills_nobody_else() -> None:
    timer_call = 38  # setitimer, which the child alone uses

    def work() -> str:
        return f"{outcome(Work.FINISH).name}: {reason()}"

    answer = in_child(work, lambda: library().forbid(timer_call))
    assert answer.startswith("CRASHED: the snapshot process was ended by a seccomp filter (SIGSYS)")


def test_an_unknown_errno_has_no_sentence() -> None:
    assert snapshots.refusal(errno.EXDEV) is None


def test_a_limit_of_processes_is_eagain() -> None:
    def prepare() -> None:
        library()  # loaded while it may be read
        os.setresgid(NOBODY, NOBODY, NOBODY)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        os.setresuid(NOBODY, NOBODY, NOBODY)

    assert in_child(lambda: str(begin(Work.FINISH)), prepare) == str(-errno.EAGAIN)


def test_a_limit_of_address_space_is_enomem() -> None:
    def work() -> str:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
        got = begin(Work.FINISH, size=1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        return str(got)

    assert in_child(work, lambda: None) == str(-errno.ENOMEM)


def test_it_needs_no_descriptor_and_one_that_is_asked_for_may_be_refused() -> None:
    def work() -> str:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        return f"{outcome(Work.FINISH).name} {begin(Work.FINISH, descriptor=True)}"

    assert in_child(work, library) == f"OK {-errno.EMFILE}"


def test_locked_memory_is_not_filled_by_the_reservation() -> None:
    lock_future = 2

    def work() -> str:
        if ctypes.CDLL(None, use_errno=True).mlockall(lock_future):
            return f"mlockall is refused here: {os.strerror(ctypes.get_errno())}; it needs CAP_IPC_LOCK"
        filled = mmap.mmap(-1, 1 << 20)
        assert begin(Work.WAIT, FOREVER, size=1 << 30) == 0
        text = Path("/proc/self/status").read_text()
        filled.close()
        return "kB: " + text.partition("VmLck:")[2].split()[0] + " " + text.partition("RssShmem:")[2].split()[0]

    found = in_child(work, library)
    if not found.startswith("kB: "):
        pytest.skip(found)
    locked, shared = map(int, found.split()[1:])
    assert locked >= 1 << 10, "what is mapped from then on is locked"
    assert shared < 2 << 10  # the megabyte above is of that kind too; a gigabyte was reserved


@pytest.mark.skipif(not own_table_is_possible(), reason="close_range came with Linux 5.9")
def test_without_close_range_the_table_stays_shared_and_untouched() -> None:
    def work() -> str:
        near, far = socket.socketpair()
        assert begin(Work.WAIT, FOREVER) == 0
        near.close()
        ended = far.recv(1) == b""
        return f"{library().guards()} {ended} {snapshots.abort().name}"

    assert in_child(work, lambda: library().refuse(CLOSE_RANGE_CALL, errno.ENOSYS)) == "0 True ABORTED"


@pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")
def test_a_target_that_may_not_kill_it_any_more_still_ends_it() -> None:
    def work() -> str:
        pid = waiting_child()
        os.setresuid(NOBODY, NOBODY, NOBODY)
        try:
            os.kill(pid, 0)
        except PermissionError:
            return "denied " + snapshots.abort().name
        return "allowed"

    assert in_child(work, lambda: None) == "denied ABORTED"


def test_it_ends_with_its_parent() -> None:
    def work() -> str:
        return str(waiting_child())  # the forked process exits now

    pid = int(in_child(work, lambda: None))
    assert eventually(lambda: not Path(f"/proc/{pid}").exists() or status_of(pid)["State"][0] == "Z")


def test_it_ends_with_its_thread_though_the_kernel_was_not_asked() -> None:
    """As when the program is executed anew before the child could ask for a signal at its parent's death."""

    def work() -> str:
        pids: list[int] = []
        thread = threading.Thread(target=lambda: pids.append(waiting_child()))
        thread.start()
        thread.join()
        ended = eventually(lambda: status_of(pids[0])["State"][0] == "Z")
        return f"{ended} {snapshots.abort().name}"

    assert in_child(work, lambda: library().refuse(PRCTL_CALL, errno.EPERM)) == "True ABORTED"


def test_record_locks_survive_it(tmp_path: Path) -> None:
    """They belong to a table of descriptors: a second owner's close, or an exec, would let go of them."""
    with (tmp_path / "lock").open("w") as stream:
        fcntl.lockf(stream, fcntl.LOCK_EX)
        assert outcome(Work.FINISH) is Status.OK

        def is_locked() -> str:
            with (tmp_path / "lock").open("r+") as other:
                try:
                    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    return "locked"
            return "free"

        assert in_child(is_locked, lambda: None) == "locked"


# -- the result ---------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_said_and_stays_inside() -> None:
    assert outcome(Work.FILL, size=PAGE) is Status.OK
    assert library().overflow() == 1
    assert library().used() <= library().capacity()
    assert snapshots.data() == (b"0123456789abcdef" * PAGE)[: library().used()]


@given(st.lists(st.binary(max_size=3 * PAGE), max_size=12), st.integers(0, 4 * PAGE))
def test_bytes_are_kept_in_order_and_in_bounds(pieces: list[bytes], size: int) -> None:
    """What does not fit changes nothing."""
    room = library()
    assert room.room_open(size) == 0
    try:
        capacity = int(room.room_capacity())
        assert capacity >= size
        expected, whole = b"", True
        for piece in pieces:
            fits = len(expected) + len(piece) <= capacity
            assert (room.room_append(piece, len(piece)) == 0) is fits
            whole = whole and fits
            expected += piece if fits else b""
        assert ctypes.string_at(room.room_data(), room.room_used()) == expected
        assert room.room_overflow() == (not whole)
    finally:
        room.room_close()


@pytest.mark.parametrize("over", [0, 1])
def test_the_last_byte_fits_and_no_more(over: int) -> None:
    room = library()
    assert room.room_open(PAGE) == 0
    try:
        size = int(room.room_capacity()) + over
        assert (room.room_append(bytes(size), size) < 0) == bool(over)
        assert room.room_used() == (0 if over else size)
        assert (room.room_append(b"x", 1) < 0) == (not over)
    finally:
        room.room_close()


def test_an_impossible_size_is_enomem() -> None:
    assert library().room_open(2**64 - 1) == -errno.ENOMEM
    assert library().room_open(1 << 62) == -errno.ENOMEM
