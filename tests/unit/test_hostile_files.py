"""Files that a hostile target names are opened only where that does no harm, and what it says is read with a limit."""

from __future__ import annotations

import itertools
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heaptop.errors import NotPython
from heaptop.injector import processes
from heaptop.injector.entry import hijack, stub
from heaptop.injector.inspect import proc, process, target_files
from heaptop.injector.inspect.memory import (
    Mapping,
    RemoteFault,
    RemoteMemory,
    anonymous_code,
    mapping_at,
    read_mappings,
)
from heaptop.protocol.text import LONGEST
from tests.support import building
from tests.support.processes import eventually, starting

HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202e\u2028\x7f"
LookUp = Callable[[int, str], int]
WAYS: tuple[LookUp, ...] = (target_files.look_up, target_files.look_up_by_hand)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """A folder that is taken for a target's root, beside a secret."""
    (tmp_path / "secret").write_text("of the host")
    inside = tmp_path / "root"
    (inside / "app").mkdir(parents=True)
    (inside / "app" / "shop.py").write_text("here")
    (inside / "secret").write_text("of the target")
    (inside / "out").symlink_to(tmp_path / "secret")
    (inside / "up").symlink_to("../../secret")
    (inside / "absolute").symlink_to("/secret")
    (inside / "circle").symlink_to("circle")
    folder = os.open(inside, os.O_PATH)
    yield folder
    os.close(folder)


@pytest.mark.parametrize("look_up", WAYS)
def test_a_link_never_leads_out_of_the_root(root: int, look_up: LookUp) -> None:
    def read(path: str) -> str | None:
        try:
            found = look_up(root, path)
        except OSError:
            return None
        try:
            return target_files.read_regular(found).decode()
        finally:
            os.close(found)

    before = len(os.listdir("/proc/self/fd"))
    assert read("/app/shop.py") == read("/app/../../app/./shop.py") == "here"
    assert read("/absolute") == read("/up") == read("/../secret") == "of the target"
    assert read("/out") is None
    assert read("/circle") is None
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("look_up", WAYS)
def test_a_magic_link_is_not_followed(look_up: LookUp) -> None:
    root = os.open("/", os.O_PATH)
    try:
        for path in ("/proc/self/exe", "/proc/self/root/etc/passwd", f"/proc/{os.getpid()}/cwd"):
            with pytest.raises(OSError, match="symbolic links"):
                os.close(look_up(root, path))
    finally:
        os.close(root)


@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/version", "/dev/ptmx", "/dev/null", "/sys/kernel/notes"])
def test_what_is_no_real_file_is_not_opened(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(proc, "read", lambda name, limit=0: opened.append(str(name)) or b"")
    root = os.open("/", os.O_PATH)
    found = target_files.look_up(root, path)
    try:
        with pytest.raises(OSError, match="regular"):
            target_files.read_regular(found)
    finally:
        os.close(found)
        os.close(root)
    assert opened == []


def test_the_writer_of_a_pipe_does_not_notice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert target_files.read(os.getpid(), str(tmp_path / "pipe.py")) == b""
    with pytest.raises(OSError, match="No such device"):  # nobody reads
        os.open(tmp_path / "pipe.py", os.O_WRONLY | os.O_NONBLOCK)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_a_file_that_the_targets_user_may_not_read_is_not_read(tmp_path: Path) -> None:
    target = subprocess.Popen(["sleep", "600"], user=65534, group=65534, extra_groups=[])
    try:
        assert target_files.read(target.pid, "/etc/shadow") == b""
        assert target_files.read(target.pid, "/etc/passwd") == Path("/etc/passwd").read_bytes()
        assert target_files.read(os.getpid(), "/etc/shadow") == Path("/etc/shadow").read_bytes()
    finally:
        target.kill()
        target.wait()


def test_a_command_line_of_256_mib_is_read_in_part(tmp_path: Path) -> None:
    with starting([building.program("hostile/long_command_line.c")]) as target:
        assert eventually(lambda: target.stdout() or not target.alive)
        if not target.alive:
            pytest.skip(f"the kernel does not let it: {target.stderr()}")
        code = f"""if True:
            from heaptop.injector.inspect import proc
            from heaptop.injector.inspect import process
            line = process.command_line({target.pid})
            argv = proc.arguments({target.pid}, 5)
            print(len(line), line[-1], len(argv))
            # Of this program alone: ru_maxrss has the parent's in it, whose memory a vfork shares.
            print(next(each.split()[1] for each in open("/proc/self/status") if each.startswith("VmHWM")))"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        length, end, _, peak = done.stdout.split()
        assert (int(length), end) == (LONGEST + 1, "…")
        assert int(peak) << 10 < 150 << 20


def test_who_keeps_a_reader_waiting_costs_one_process_and_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    kill = os.kill
    monkeypatch.setattr(proc.os, "kill", lambda pid, number: None)  # no signal ends a wait for some file systems
    for _ in range(5):
        with pytest.raises(proc.TooSlow):
            proc.within(0.01, lambda: time.sleep(600), "test")
    assert [*proc._given_up.values()] == ["test"]
    assert proc.within(10, lambda: 7, "another") == 7
    assert eventually(lambda: proc._bury() or len(proc._given_up) == 1), "who has answered ends by itself"
    (held,) = proc._given_up
    kill(held, signal.SIGKILL)
    assert eventually(lambda: proc._bury() or not proc._given_up)
    assert proc.within(10, lambda: 7, "test") == 7
    assert eventually(lambda: proc._bury() or not proc._given_up)


def test_a_reader_answers_in_turn_and_keeps_nothing_of_heaptops_open() -> None:
    def read(what: str) -> list[str]:
        if what == "fail":
            raise NotPython("It is not.", why="So.")
        if what == "end":
            os._exit(1)
        return os.listdir("/proc/self/fd")

    with proc.Reader(read) as reader:
        for _ in range(2):
            with pytest.raises(NotPython) as caught:
                reader.ask("fail", 10, "fail")
            assert (caught.value.message, caught.value.why) == ("It is not.", "So.")
        with pytest.raises(proc.TooSlow, match="has ended"):
            reader.ask("end", 10, "end")
        assert len(reader.ask("open", 10, "open")) == 2, "the link to heaptop, and the listing itself"  # by a new child


def test_names_that_are_read_move_no_cursor() -> None:
    rename = "import sys, time; open('/proc/self/comm', 'wb').write(b'\\x1b]52;c;x\\x07\\xff'); time.sleep(600)"
    with starting([sys.executable, "-S", "-c", rename, HOSTILE]) as target:
        assert eventually(lambda: "52;c" in process.read_facts(target.pid).name)
        facts = process.read_facts(target.pid)
        found = processes.described([target.pid])[0]
        for text in (facts.name, facts.command, facts.executable, found.command, *found.argv):
            assert text.isprintable()
        assert "aGk=" in facts.command


def test_looking_for_pages_reads_one_page_of_each_mapping() -> None:
    """A target with 20,000 executable mappings of a megabyte made an attach take many seconds."""
    reads = 0

    class Counting(RemoteMemory):
        def read(self, address: int, size: int) -> bytes:
            nonlocal reads
            reads += 1
            raise RemoteFault

    size = 1 << 20
    mappings = [Mapping(n * 2 * size, n * 2 * size + size, "r-xp", 0, "00:00", 0, "") for n in range(1, 1001)]
    with Counting(os.getpid()) as memory:
        assert hijack.find_pages(memory, mappings) is None
    assert reads == len(mappings)


def test_mappings_that_may_be_pages_are_read_as_the_others_are() -> None:
    size = mmap.PAGESIZE
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_EXEC):
        found = anonymous_code(os.getpid())
        assert found
        assert found == [each for each in read_mappings(os.getpid()) if each.permissions == "r-xp" and not each.path]


def test_the_mapping_that_has_an_address_is_found() -> None:
    mappings = read_mappings(os.getpid())
    assert len(mappings) > 10
    for mapping in mappings:
        for address in (mapping.start, mapping.end - 1):
            assert mapping_at(address, os.getpid()) == mapping
    assert mapping_at(0, os.getpid()) is None
    gap = next(each.end for each, behind in itertools.pairwise(mappings) if each.end < behind.start)
    assert mapping_at(gap, os.getpid()) is None


def test_pages_are_found_behind_executable_memory_that_the_kernel_joined_them_to() -> None:
    class Joined(RemoteMemory):
        def read(self, address: int, size: int) -> bytes:
            assert (address, size) == (0x5000, len(stub.MAGIC))
            return stub.MAGIC

    mapping = Mapping(0x1000, 0x6000, "r-xp", 0, "00:00", 0, "")
    with Joined(os.getpid()) as memory, pytest.raises(AssertionError):
        hijack.find_pages(memory, [mapping])  # goes on to the parameters, which this memory does not have
