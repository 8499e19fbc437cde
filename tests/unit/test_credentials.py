"""Files are accessed with exactly the rights of the user that is named, and the thread is itself again afterwards."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from heaptop.credentials import acting_as
from heaptop.injector.inspect.memory import RemoteMemory
from tests.support.outside import NOBODY, become_nobody, in_child, keep_capabilities
from tests.support.processes import eventually, starting

SYS_PTRACE, DAC_READ_SEARCH, SETGID, SETUID = 19, 2, 6, 7

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users need root")


def credentials() -> dict[str, str]:
    """Of the calling thread."""
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if line.startswith(("Uid", "Gid", "Groups", "Cap")))


@needs_root
def test_files_are_the_users_and_the_thread_is_itself_afterwards(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for folder in (each for each in tmp_path.parents if each.name.startswith(("pytest-", "popen-"))):
        folder.chmod(folder.stat().st_mode | 0o001)
    before = credentials()
    with acting_as(NOBODY, NOBODY):
        number = os.open(tmp_path / "made", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.close(number)
        inside = credentials()
    made = (tmp_path / "made").stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (NOBODY, NOBODY, 0o600)
    assert inside["Groups"].strip() == ""
    assert credentials() == before


@needs_root
def test_rights_of_root_do_not_help(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    before = credentials()
    with pytest.raises(PermissionError), acting_as(NOBODY, NOBODY):
        secret.open()
    assert credentials() == before
    assert secret.read_text() == "root's"


@needs_root
def test_other_threads_keep_theirs() -> None:
    before = credentials()
    acts, seen, ends = threading.Event(), [], threading.Event()

    def act() -> None:
        with acting_as(NOBODY, NOBODY):
            acts.set()
            ends.wait(60)
        seen.append(credentials())

    thread = threading.Thread(target=act)
    thread.start()
    try:
        assert acts.wait(60)
        assert credentials() == before
    finally:
        ends.set()
        thread.join()
    assert seen == [before]


def test_nobody_cannot_act_as_root() -> None:
    def work() -> str:
        before = credentials()
        with pytest.raises(PermissionError), acting_as(0, 0):
            pass
        assert credentials() == before
        with acting_as(os.geteuid(), 0):  # as oneself, always
            pass
        return "done"

    assert in_child(work, become_nobody if os.geteuid() == 0 else lambda: None) == "done"


@pytest.mark.parametrize("uid", [-1, 1 << 32, 0xFFFFFFFF])
def test_what_is_no_user_is_refused(uid: int) -> None:
    before = credentials()
    with pytest.raises(PermissionError), acting_as(uid, 0):
        pass
    assert credentials() == before


@needs_root
def test_memory_of_another_user_is_written_without_dac_override() -> None:
    """As heaptop, which gives up what it does not need."""
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sleep", "600"]
    with starting(command) as target:
        assert eventually(lambda: Path(f"/proc/{target.pid}/comm").read_text() == "sleep\n")

        def work() -> str:
            with pytest.raises(PermissionError):
                os.close(os.open(f"/proc/{target.pid}/mem", os.O_RDWR))
            RemoteMemory(target.pid, writable=True).close()
            return "opened"

        keep = (SYS_PTRACE, DAC_READ_SEARCH, SETGID, SETUID)
        assert in_child(work, lambda: keep_capabilities(*keep)) == "opened"
