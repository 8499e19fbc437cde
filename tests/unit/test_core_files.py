"""Core files as files: what is read of a whole one, and one sentence for each that is cut, changed or hostile."""

from __future__ import annotations

import errno
import os
import struct
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from heaptop.dumps.cores import walking
from heaptop.dumps.cores.backing import Backing, build_id, is_same
from heaptop.dumps.cores.core_memory import CoreMemory
from heaptop.dumps.cores.core_python import CorePython
from heaptop.dumps.cores.elf_core import CoreFile, begins_as_core, read_core
from heaptop.dumps.cores.walker import ENDED
from heaptop.dumps.cores.walking import CoreWalk
from heaptop.errors import DumpDamaged, DumpError, NotADump
from heaptop.injector.inspect.layout import PythonVersion
from heaptop.injector.inspect.memory import RemoteFault
from heaptop.protocol import bounds
from heaptop.protocol.images import ImageTypes, Question, Waste
from heaptop.protocol.messages import TypeName

PAGE = 4096
AT = 0x7F0000000000
CODE = 0x555500000000


def note(name: bytes, kind: int, content: bytes) -> bytes:
    padded = content + bytes(-len(content) % 4)
    named = (name + b"\0").ljust(len(name) + 4 & ~3, b"\0")
    return struct.pack("<III", len(name) + 1, len(content), kind) + named + padded


def process_note(pid: int, arguments: bytes) -> bytes:
    return note(b"CORE", 3, struct.pack("<24xI28x80s", pid, arguments))


def files_note(files: Sequence[tuple[int, int, int, bytes]]) -> bytes:
    head = struct.pack("<QQ", len(files), PAGE) + b"".join(struct.pack("<QQQ", *file[:3]) for file in files)
    return note(b"CORE", 0x46494C45, head + b"".join(file[3] + b"\0" for file in files))


def elf_core(
    segments: Sequence[tuple[int, bytes, int]], notes: bytes = b"", *, shift: int = 0, kind: int = 4, machine: int = 62
) -> bytes:
    """A core whose segments are (address, what the file has, size); ``shift`` moves memory off the file's pages."""
    count = len(segments) + 1
    data_at = 64 + 56 * count + len(notes)
    data_at += -data_at % PAGE + shift
    table = struct.pack("<IIQQQQQQ", 4, 4, 64 + 56 * count, 0, 0, len(notes), 0, 1)
    body, offset = b"", data_at
    for start, content, size in segments:
        table += struct.pack("<IIQQQQQQ", 1, 6, offset, start, 0, len(content), size, PAGE)
        body += content
        offset += len(content)
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack("<16sHHIQQQIHHHHHH", ident, kind, machine, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    return (header + table + notes).ljust(data_at, b"\0") + body


def program(ident: bytes, size: int = 2 * PAGE) -> bytes:
    """The beginning of an ELF file, with a build ID."""
    notes = struct.pack("<III4s", 4, len(ident), 3, b"GNU\0") + ident
    magic = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack("<16sHHIQQQIHHHHHH", magic, 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return (header + struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(notes), 0, 4) + notes).ljust(size, b"p")


@contextmanager
def opened(path: Path, content: bytes) -> Iterator[tuple[int, str]]:
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd, str(path)
    finally:
        os.close(fd)


def read(path: Path, content: bytes) -> CoreFile:
    with opened(path, content) as (fd, name):
        return read_core(fd, name)


def test_a_core_says_of_whom_it_is_and_what_was_mapped(tmp_path: Path) -> None:
    notes = process_note(77, b"python server.py ") + files_note([(CODE, CODE + PAGE, 3, b"/usr/bin/python")])
    core = read(tmp_path / "core", elf_core([(AT, b"a" * PAGE, PAGE), (CODE, b"", PAGE)], notes))
    assert (core.pid, core.command, core.missing) == (77, "python server.py", 0)
    assert [(each.start, each.end, each.stored) for each in core.segments] == [
        (CODE, CODE + PAGE, 0),
        (AT, AT + PAGE, PAGE),
    ]
    assert [(each.start, each.offset, each.path) for each in core.files] == [(CODE, 3 * PAGE, "/usr/bin/python")]
    assert begins_as_core(str(tmp_path / "core"))
    assert not begins_as_core(str(tmp_path))
    assert not begins_as_core(str(tmp_path / "none"))


def test_memory_is_read_across_segments_and_what_is_missing_is_not(tmp_path: Path) -> None:
    content = elf_core([(AT, b"a" * PAGE, PAGE), (AT + PAGE, b"b" * PAGE, 2 * PAGE)], shift=1496)
    with opened(tmp_path / "core", content) as (fd, name):
        memory = CoreMemory(read_core(fd, name), fd, Backing())
        assert memory.read(AT + PAGE - 2, 4) == b"aabb"
        assert memory.u32(AT + PAGE) == 0x62626262
        for address, size in ((AT - 1, 2), (AT + 2 * PAGE, 1), (AT + 2 * PAGE - 1, 2), (-1, 1), (AT, 1 << 40)):
            with pytest.raises(RemoteFault):
                memory.read(address, size)


def test_what_a_core_leaves_out_comes_from_the_same_build_alone(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/lib.so").write_bytes(program(b"right" * 4) + b"x" * PAGE)
    (tmp_path / "other.so").write_bytes(program(b"wrong" * 4) + b"x" * PAGE)
    head = program(b"right" * 4, PAGE)
    notes = files_note([(CODE, CODE + 3 * PAGE, 0, b"/lib.so")])
    content = elf_core([(CODE, head, PAGE), (CODE + PAGE, b"", 2 * PAGE)], notes)
    with opened(tmp_path / "core", content) as (fd, name):
        core = read_core(fd, name)
        found = Backing(root=str(tmp_path / "root"))
        assert CoreMemory(core, fd, found).read(CODE + 2 * PAGE, 4) == b"xxxx"
        found.close()
        for other in (Backing(), Backing(root=str(tmp_path)), Backing(exe=str(tmp_path / "other.so"))):
            with pytest.raises(RemoteFault):
                CoreMemory(core, fd, other).read(CODE + 2 * PAGE, 4)
            assert list(other.refused) == ["/lib.so"]
            other.close()


def test_files_that_a_core_names_are_opened_only_where_they_are_files_of_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading one of the kernel's may take something from others: /proc/kmsg."""
    os.mkfifo(tmp_path / "pipe")
    names = [b"/proc/self/mem", b"/proc/kmsg", b"/dev/zero", bytes(tmp_path / "pipe"), bytes(tmp_path)]
    places = [(CODE + number * PAGE, name) for number, name in enumerate(names)]
    notes = files_note([(start, start + PAGE, 0, name) for start, name in places])
    content = elf_core([(start, program(b"right" * 4, PAGE), PAGE) for start, _ in places], notes)
    with opened(tmp_path / "core", content) as (fd, name):
        core, backing = read_core(fd, name), Backing()
        monkeypatch.setattr(os, "open", lambda path, *_: pytest.fail(f"opened {path}"))
        CoreMemory(core, fd, backing)
        assert {*backing.refused} == {os.fsdecode(each) for each in names}


def test_a_core_that_names_many_files_takes_no_memory_for_the_beginning_of_each(tmp_path: Path) -> None:
    start, count = AT, 2000
    files = [(start + number * PAGE, start + (number + 1) * PAGE, 0, b"/none/%d" % number) for number in range(count)]
    content = elf_core([(start, program(b"right" * 4, PAGE) * count, count * PAGE)], files_note(files))
    with opened(tmp_path / "core", content) as (fd, name):
        core, backing = read_core(fd, name), Backing()
        tracemalloc.start()
        CoreMemory(core, fd, backing)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(backing.refused) == count
    assert peak < count * PAGE / 2


def test_builds_are_told_apart_by_their_id_and_else_by_their_header() -> None:
    assert build_id(program(b"12345678")) == b"12345678"
    assert is_same(program(b"1" * 20), program(b"1" * 20, 4 * PAGE))
    assert not is_same(program(b"1" * 20), program(b"2" * 20))
    plain, longer = b"\x7fELF".ljust(64, b"1"), b"\x7fELF".ljust(64, b"2")
    assert is_same(plain, plain + b"more")
    assert not is_same(plain, longer)
    assert not is_same(b"\x7fELF", b"\x7fELF")


def test_a_cut_core_says_how_much_is_missing(tmp_path: Path) -> None:
    whole = elf_core([(AT, b"a" * PAGE, PAGE), (AT + PAGE, b"b" * PAGE, PAGE)])
    core = read(tmp_path / "core", whole[:-PAGE])
    assert core.missing == PAGE
    with opened(tmp_path / "core", whole[:-PAGE]) as (fd, name), pytest.raises(RemoteFault):
        CoreMemory(read_core(fd, name), fd, Backing()).read(AT + PAGE, 1)


def headed(table: bytes, at: int, number: bytes) -> bytes:
    """A core with another table of segments, and with ``number`` at a place of its header."""
    head = bytearray(elf_core([])[:64])
    head[56:58] = struct.pack("<H", len(table) // 56)
    head[at : at + len(number)] = number
    return bytes(head) + table


HOSTILE = {
    "sections elsewhere": headed(b"", 40, struct.pack("<QIHHHH", 1 << 63, 0, 64, 56, 0xFFFF, 0)),
    "sections behind its end": headed(b"", 40, struct.pack("<QIHHHH", 1 << 40, 0, 64, 56, 0xFFFF, 0)),
    "too many notes together": headed(struct.pack("<IIQQQQQQ", 4, 4, 0, 0, 0, 8 << 20, 0, 1) * 9, 0, b""),
    "not at a page": elf_core([(AT + 1, b"a" * PAGE, PAGE)]),
    "no whole page": elf_core([(AT, b"a" * 100, 100)]),
    "more stored than there is": elf_core([(AT, b"a" * 2 * PAGE, PAGE)]),
    "over the end": elf_core([((1 << 47) - PAGE, b"", 1 << 47)]),
    "around the end": elf_core([(AT, b"", (1 << 64) - PAGE)]),
    "twice": elf_core([(AT, b"a" * PAGE, 2 * PAGE), (AT + PAGE, b"b" * PAGE, PAGE)]),
    "files twice": elf_core(
        [], files_note([(CODE, CODE + 2 * PAGE, 0, b"/a"), (CODE + PAGE, CODE + 2 * PAGE, 0, b"/b")])
    ),
    "a file before itself": elf_core([], files_note([(CODE, CODE - PAGE, 0, b"/a")])),
    "too many files": elf_core([], note(b"CORE", 0x46494C45, struct.pack("<QQ", 1 << 60, PAGE))),
    "a long name": elf_core([], files_note([(CODE, CODE + PAGE, 0, b"/" + b"a" * 5000)])),
    "too many notes": elf_core([])[:64] + struct.pack("<IIQQQQQQ", 4, 4, 0, 0, 0, 1 << 40, 0, 1),
    "notes elsewhere": elf_core([])[:64] + struct.pack("<IIQQQQQQ", 4, 4, 1 << 63, 0, 0, 100, 0, 1),
    "no segments": elf_core([])[:56] + bytes(8) + elf_core([])[64:],
    "a table elsewhere": elf_core([])[:32] + b"\xff" * 8 + elf_core([])[40:],
    "cut in its table": elf_core([(AT, b"a" * PAGE, PAGE)])[:100],
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_core_is_one_sentence(tmp_path: Path, how: str) -> None:
    with pytest.raises(DumpDamaged) as caught:
        read(tmp_path / "core", HOSTILE[how])
    assert caught.value.message.startswith(f"The core file {tmp_path}/core is damaged: ")
    assert caught.value.message.count(". ") == 0


NOTES = {
    "other kinds": b"".join(struct.pack("<III4s", 4, 0, 1000 + number, b"CORE") for number in range(1 << 18)),
    "a vector": note(b"CORE", 6, b"".join(struct.pack("<QQ", 10 + number, 1 << 40) for number in range(1 << 18))),
    "names": note(b"CORE", 0x46494C45, struct.pack("<QQQQQ", 1, PAGE, CODE, CODE + PAGE, 0) + b"/a" + bytes(5 << 20)),
}


@pytest.mark.parametrize("how", NOTES)
def test_notes_take_no_more_memory_than_a_few_times_their_size(tmp_path: Path, how: str) -> None:
    content = elf_core([], NOTES[how])
    with opened(tmp_path / "core", content) as (fd, name):
        tracemalloc.start()
        core = read_core(fd, name)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert core.entry == 0
    assert peak < 5 * len(content)


def unbegun_walk() -> CoreWalk:
    walk = CoreWalk.__new__(CoreWalk)
    walk._core = CoreFile("core", 0, 0.0, (), (), 1, "", 0, 0)
    return walk


@pytest.mark.parametrize(
    "content", [b"", b"{", b"1", b"[[], 1]", b'["cut", "x"]', b'["cut"]', b'["no such", 1]', b"[" * 100_000, b"\xff"]
)
def test_whatever_a_walk_ends_with_is_one_sentence(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = unbegun_walk()
    monkeypatch.setattr(walk, "_receive", lambda: (ENDED, content))
    with pytest.raises(DumpDamaged, match="its walk failed"):
        walk._answer()


def test_a_walk_that_collides_after_it_has_begun_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process ends with any number."""
    walk = unbegun_walk()
    monkeypatch.setattr(walk, "_send", lambda data: None)
    monkeypatch.setattr(walk, "_receive", lambda: (ENDED, b'["collides", 4096]'))
    with pytest.raises(DumpDamaged, match="its walk failed"):
        walk.ask(Question(1), Waste)


def test_a_core_that_was_written_before_1970_has_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "core", elf_core([(AT, b"a" * PAGE, PAGE)])) as (fd, name):
        os.utime(name, (-10, -10))
        assert read_core(fd, name).wall == 0.0


def test_types_that_a_walk_makes_up_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = unbegun_walk()
    with pytest.raises(DumpDamaged, match="not in order"):
        walk._types([ImageTypes(1, 1, (TypeName("a", "b"),))])
    monkeypatch.setattr(bounds, "TYPES", 0)
    with pytest.raises(DumpDamaged, match="core is damaged"):
        walk._types([ImageTypes(1, 0, (TypeName("a", "b"), TypeName("a", "c")))])


def test_where_no_process_can_be_started_a_walk_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(walking.subprocess, "Popen", refuse)
    with opened(tmp_path / "core", elf_core([(AT, b"a" * PAGE, PAGE)])) as (fd, name):
        memory = CoreMemory(read_core(fd, name), fd, Backing())
        with pytest.raises(BlockingIOError):
            CoreWalk(memory, CorePython(PythonVersion(3, 12), 0, {}), 1 << 30, lambda *_: None)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x7fELF", b"x" * 100, elf_core([], kind=3), elf_core([], machine=183)],
    ids=["empty", "short", "another file", "a program", "another machine"],
)
def test_what_is_no_core_of_such_a_process_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(NotADump):
        read(tmp_path / "core", content)


def test_any_byte_of_a_core_may_be_any_byte(tmp_path: Path) -> None:
    """No other error than those with a sentence."""
    notes = process_note(77, b"python") + files_note([(CODE, CODE + PAGE, 0, b"/usr/bin/python")])
    whole = elf_core([(AT, b"a" * PAGE, PAGE), (CODE, b"", PAGE)], notes)
    for at in range(64 + 3 * 56 + len(notes)):
        for value in (0, 1, 0x7F, 0xFF):
            changed = bytearray(whole)
            changed[at] = value
            try:
                core = read(tmp_path / "core", bytes(changed))
            except DumpError:
                continue
            assert core.pid < 1 << 31
            assert len(core.segments) <= 2
