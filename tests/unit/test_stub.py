"""The machine code is what stub.S says, and both sides agree on the request block."""

import ctypes
import re
import shutil
from types import SimpleNamespace

import pytest

from heaptop.injector.entry import assemble, stub, stub_code
from heaptop.injector.entry.hijack import Pages


@pytest.mark.skipif(shutil.which("as") is None, reason="no assembler here; CI has one")
def test_generated_code_is_what_the_source_assembles_to() -> None:
    code, offsets = assemble.assemble()
    assert code == stub_code.CODE
    assert offsets == stub_code.OFFSETS


def test_offsets_in_the_source_are_those_of_params() -> None:
    source = assemble.HERE.joinpath("stub.S").read_text()
    constants = dict(re.findall(r"\.set\s+(\w+),\s+(\d+)", source))
    names = {name.lower(): int(value) for name, value in constants.items()}
    ours = {name for name, _ in stub.Params._fields_}
    shared = ours & names.keys()
    assert len(shared) >= 20
    assert {name: stub.Params.offset(name) for name in shared} == {name: names[name] for name in shared}
    assert names["bootstrap"] == stub.BOOTSTRAP_OFFSET


def test_offsets_in_the_source_are_those_of_the_journal() -> None:
    source = assemble.HERE.joinpath("stub.S").read_text()
    constants = {name.lower(): int(value) for name, value in re.findall(r"\.set\s+(\w+),\s+(\d+)", source)}
    names = {name for name, _ in stub.Journal._fields_}
    assert {name: getattr(stub.Journal, name).offset for name in names} == {name: constants[name] for name in names}
    assert stub.JOURNAL_OFFSET - stub.DATA_OFFSET >= stub.BOOTSTRAP_OFFSET + stub.BOOTSTRAP_ROOM


def test_block_and_code_fit_their_pages() -> None:
    assert ctypes.sizeof(stub.Params) <= stub.BOOTSTRAP_OFFSET
    assert len(stub.CODE) <= stub.PAGE
    assert stub.STACK_TOP % 16 == 0


def test_a_count_that_the_target_has_changed_is_written_all_the_same() -> None:
    written: list[bytes] = []
    memory = SimpleNamespace(write=lambda address, data: written.append(data))
    Pages(0).write_field(memory, "queued", -4)  # type: ignore[arg-type]
    assert written == [b"\xfc\xff\xff\xff"]
