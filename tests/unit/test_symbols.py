"""Names of functions by address, from files that may hold anything."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from heaptop.injector.inspect import symbols
from heaptop.injector.inspect.symbols import DYNSYM, HEADER, SECTION, SYMBOL, SYMTAB
from tests.support.building import program_with

FUNCTION = (0x12, 0, 1)
"""A global function, in a section."""


def elf(*tables: tuple[int, bytes, int], texts: bytes = b"\0one\0two\0") -> bytes:
    """A file with these tables of symbols, each with its type and the section of its names: 1 is ``texts``."""
    content, sections = bytearray(HEADER.size), [SECTION.pack(*[0] * 10)]
    for kind, data, link in [(3, texts, 0), *tables]:
        sections.append(SECTION.pack(0, kind, 0, 0, len(content), len(data), link, 0, 0, 0))
        content += data
    head = HEADER.pack(3, 62, 1, 0, 0, len(content), 0, 64, 0, 0, SECTION.size, len(sections), 0)
    content[: HEADER.size] = b"\x7fELF".ljust(16, b"\0") + head[16:]
    return bytes(content) + b"".join(sections)


def table(*functions: tuple[int, int, int]) -> bytes:
    """Functions by name, start and size."""
    return b"".join(SYMBOL.pack(name, *FUNCTION, start, size) for name, start, size in functions)


def named(folder: Path, content: bytes, *addresses: int) -> Mapping[int, str]:
    path = folder / "library.so"
    path.write_bytes(content)
    return symbols.names(os.getpid(), str(path), addresses)


def test_an_address_has_the_name_of_the_function_that_it_is_in(tmp_path: Path) -> None:
    content = elf((SYMTAB, table((1, 100, 10), (5, 200, 10), (1, 220, 5)), 1))
    found = named(tmp_path, content, 99, 100, 109, 110, 200, 215, 219, 224, 225)
    assert found == {100: "one", 109: "one", 200: "two", 224: "one"}


def test_the_whole_table_is_preferred_to_that_of_the_linker(tmp_path: Path) -> None:
    content = elf((SYMTAB, table((5, 100, 10)), 1), (DYNSYM, table((1, 100, 10), (1, 200, 9)), 1))
    assert named(tmp_path, content, 105, 205) == {105: "two", 205: "one"}


def test_functions_of_a_real_program_have_their_names() -> None:
    path = program_with("preload_cases.c", options=["-rdynamic", "-pthread"])
    listed = subprocess.run(["nm", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    (start,) = [int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(" T leak")]
    for pid in (0, os.getpid()):
        assert symbols.names(pid, str(path), [start + 1, start]) == {start: "leak", start + 1: "leak"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x7fELF",
        elf((SYMTAB, table((1, 100, 10)), 77)),
        elf((SYMTAB, table((1, 100, 10)), 1))[: -SECTION.size - 1],
        elf((SYMTAB, table((1, 100, 10)), 1))[: -SECTION.size],
        elf((SYMTAB, table((1 << 31, 100, 10)), 1)),
        elf((SYMTAB, table((1, 100, 10)), 1), texts=b"\0" + b"a" * 100_000),
        elf((SYMTAB, table((1, 100, 10)), 1))[:40] + struct.pack("<Q", (1 << 64) - 1) + bytes(64),
    ],
)
def test_a_file_that_is_cut_or_broken_names_nothing(tmp_path: Path, content: bytes) -> None:
    assert named(tmp_path, content, 105) == {}


def test_only_the_first_table_of_its_kind_is_read(tmp_path: Path) -> None:
    assert named(tmp_path, elf((SYMTAB, b"", 1), *[(SYMTAB, table((1, 100, 10)), 1)] * 3000), 105) == {}


def test_a_library_of_the_working_folder_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert named(tmp_path, elf((SYMTAB, table((1, 100, 10)), 1)), 105) == {105: "one"}
    assert symbols.names(0, "library.so", [105]) == symbols.names(os.getpid(), "library.so", [105]) == {}


def test_a_pipe_in_place_of_a_library_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.so")
    for pid in (0, os.getpid()):
        assert symbols.names(pid, str(tmp_path / "pipe.so"), [105]) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_a_library_that_the_targets_user_may_not_read_is_not_read(tmp_path: Path) -> None:
    target = subprocess.Popen(["sleep", "600"], user=65534, group=65534, extra_groups=[])
    try:
        path = tmp_path / "secret.so"
        path.write_bytes(elf((SYMTAB, table((1, 100, 10)), 1)))
        path.chmod(0o600)
        assert symbols.names(target.pid, str(path), [105]) == {}
        assert symbols.names(os.getpid(), str(path), [105]) == {105: "one"}
    finally:
        target.kill()
        target.wait()
