"""Symbols read from a process's memory are those of the file on disk: pyelftools and the dynamic linker are asked."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import struct
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_D_TAG, ENUM_E_MACHINE, ENUM_P_TYPE_BASE
from elftools.elf.hash import ELFHashTable, GNUHashTable
from hypothesis import given
from hypothesis import strategies as st

from heaptop.injector.inspect import elf, preflight
from heaptop.injector.inspect.elf import ElfImage, gnu_hash, images, sysv_hash
from heaptop.injector.inspect.memory import RemoteFault, RemoteMemory, read_mappings
from tests import interpreters
from tests.interpreters import Interpreter
from tests.support.processes import running

pytestmark = pytest.mark.slow

SAMPLE = 300
"""Symbols of a file that are compared, picked at random: libpython has some thousands."""


@given(st.binary(max_size=60).filter(lambda name: b"\0" not in name))
def test_the_hashes_are_pyelftools(name: bytes) -> None:
    text = name.decode("latin-1")
    if text.isascii():  # what pyelftools hashes is text, which it encodes as UTF-8
        assert gnu_hash(name) == GNUHashTable.gnu_hash(text)
        assert sysv_hash(name) == ELFHashTable.elf_hash(text)


@pytest.mark.parametrize("name", [name for name in vars(elf) if name.startswith(("PT_", "DT_", "EM_"))])
def test_the_numbers_are_pyelftools(name: str) -> None:
    assert getattr(elf, name) == {**ENUM_P_TYPE_BASE, **ENUM_D_TAG, **ENUM_E_MACHINE}[name]


@cache
def on_disk(path: Path) -> tuple[dict[str, int], set[str]]:
    """The symbols that the file defines, once each and outside thread-local storage, by value; and those that it
    only asks for."""
    with path.open("rb") as stream:
        (dynamic,) = (part for part in ELFFile(stream).iter_segments() if isinstance(part, DynamicSegment))
        symbols = [symbol for symbol in dynamic.iter_symbols() if symbol.name]
    there = [symbol for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"]
    times = Counter(symbol.name for symbol in there)
    plain = {
        symbol.name: symbol["st_value"]
        for symbol in there
        if symbol["st_info"]["type"] != "STT_TLS" and times[symbol.name] == 1
    }
    return plain, {symbol.name for symbol in symbols} - times.keys()


def bias(pid: int, path: str, file: Path) -> int:
    """Where the file's addresses begin in the process, by its first loadable segment."""
    start = min(mapping.start for mapping in read_mappings(pid) if mapping.path == path)
    with file.open("rb") as stream:
        first = next(part for part in ELFFile(stream).iter_segments() if part["p_type"] == "PT_LOAD")
        return start - (first["p_vaddr"] & ~0xFFF)


def check(pid: int, image: ElfImage, file: Path) -> int:
    """Compare a sample; how many symbols it was."""
    defined, undefined = on_disk(file)
    names = random.Random(0).sample(sorted(defined), min(SAMPLE, len(defined)))
    base = bias(pid, image.path, file)
    assert {name: image.lookup(name) for name in names} == {name: base + defined[name] for name in names}
    for name in sorted(undefined)[:50]:
        assert image.lookup(name) is None, name
    for name in ("", "no_such_symbol", "PyRun_SimpleStrin", "x" * 300):
        assert image.lookup(name) is None
    return len(names)


@pytest.mark.sample(2)
@pytest.mark.pythons(*interpreters.SAMPLE, stress=interpreters.SUPPORTED)
def test_every_file_of_a_live_interpreter(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target, RemoteMemory(target.pid) as memory:
        found = images(memory, read_mappings(target.pid))
        compared = {image.path: check(target.pid, image, file_of(interpreter, image.path)) for image in found}
        assert sum(compared.values()) > SAMPLE
        python = preflight.check(target.pid).interpreter
        assert compared[python.path] == SAMPLE
        assert {"PyRun_SimpleString", "Py_AddPendingCall"} <= on_disk(file_of(interpreter, python.path))[0].keys()


def file_of(interpreter: Interpreter, path: str) -> Path:
    """The kernel names files as heaptop's root sees them, those in a chroot too."""
    return Path(path) if interpreter.root is None or path.startswith(str(interpreter.root)) else interpreter.root / path


def test_the_dynamic_linker_agrees() -> None:
    """In this process: addresses are what dlsym says, in whichever file it finds them."""
    names = ("PyRun_SimpleString", "Py_AddPendingCall", "PyGILState_Ensure", "_PyRuntime", "Py_IsInitialized")
    with RemoteMemory(os.getpid()) as memory:
        found = images(memory, read_mappings(os.getpid()))
        for name in names:
            expected = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
            assert expected in [image.lookup(name) for image in found], name


SOURCE = "\n".join(f"int function_{i}(void) {{ return {i}; }}" for i in range(500)) + "\nint data_1 = 5;\n"


@pytest.mark.parametrize("style", ["sysv", "gnu", "both"])
@pytest.mark.parametrize("fate", ["as built", "stripped", "deleted"])
def test_hash_tables_of_both_kinds(style: str, fate: str, tmp_path: Path) -> None:
    source, library, kept = tmp_path / "many.c", tmp_path / "libmany.so", tmp_path / "kept.so"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,--hash-style={style}", source, "-o", library], check=True)
    if fate == "stripped":
        subprocess.run(["strip", library], check=True)
    shutil.copy(library, kept)
    loaded = ctypes.CDLL(str(library))
    if fate == "deleted":
        library.unlink()
    with RemoteMemory(os.getpid()) as memory:
        name = f"{library} (deleted)" if fate == "deleted" else str(library)
        (image,) = (each for each in images(memory, read_mappings(os.getpid())) if each.path == name)
        assert (elf.DT_HASH in image.dynamic) == (style != "gnu")
        assert (elf.DT_GNU_HASH in image.dynamic) == (style != "sysv")
        assert check(os.getpid(), image, kept) == SAMPLE
        assert image.lookup("function_7") == ctypes.cast(loaded.function_7, ctypes.c_void_p).value


@given(st.binary(max_size=200), st.integers(0, 199))
def test_garbage_is_no_image_and_no_crash(data: bytes, at: int) -> None:
    """A header that lies leads to a fault or to nothing, never to an endless loop or another exception."""
    fields = (3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", *fields)
    raw = bytearray((header + bytes(300))[:300])
    raw[at : at + len(data)] = data
    buffer = ctypes.create_string_buffer(bytes(raw), 4096)
    with RemoteMemory(os.getpid()) as memory:
        try:
            image = ElfImage.at(memory, ctypes.addressof(buffer), "made up")
            if image is not None:
                image.lookup("PyRun_SimpleString")
        except (RemoteFault, struct.error):
            pass


@pytest.mark.parametrize("tag", [elf.DT_GNU_HASH, elf.DT_HASH])
def test_a_chain_without_an_end_is_left(tag: int) -> None:
    reads = 0

    class Endless(RemoteMemory):
        """Says of every table that it has one bucket, and of every entry that another follows."""

        def read(self, address: int, size: int) -> bytes:
            nonlocal reads
            reads += 1
            if size == 16:
                return struct.pack("<IIII", 1, 1, 1, 0)
            if size == 8 and tag == elf.DT_GNU_HASH:
                return b"\xff" * size  # a bloom filter that lets everything through
            return struct.pack("<I", 0x7FFFFFFE) * (size // 4)

    with Endless(os.getpid()) as memory:
        image = ElfImage(memory, 0x1000, "made up", 2, elf.EM_X86_64)
        image.dynamic.update({elf.DT_SYMTAB: 0x2000, elf.DT_STRTAB: 0x3000, tag: 0x4000})
        assert image.lookup("PyRun_SimpleString") is None
    if tag == elf.DT_HASH:
        assert reads < 8, "a circle is left at once"
    else:
        assert reads < 4 * elf.LONGEST_CHAIN


def test_machines_have_the_names_of_elf() -> None:
    assert {number: ENUM_E_MACHINE[f"EM_{name.upper()}"] for number, name in elf.MACHINES.items()} == {
        number: number for number in elf.MACHINES
    }
    assert elf.machine_name(183) == "aarch64"
    assert elf.machine_name(0xFFFE) == str(0xFFFE)
