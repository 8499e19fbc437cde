"""The machine code is what stub.S says, and both sides agree on the request block."""

import ctypes
import re
import shutil
from types import SimpleNamespace

import pytest

from heaptop.injector.entry import assemble, stub, stub_code, stub_code_aarch64
from heaptop.injector.entry.hijack import RemoteMappings
from heaptop.injector.inspect import memory


@pytest.mark.skipif(shutil.which("as") is None, reason="no assembler here; CI has one")
def test_generated_code_is_what_the_source_assembles_to() -> None:
    code, offsets = assemble.assemble()
    assert code == stub_code.CODE
    assert offsets == stub_code.OFFSETS


@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-as") is None, reason="no cross assembler here")
def test_generated_code_for_aarch64_is_what_its_source_assembles_to() -> None:
    code, offsets = assemble.assemble("stub_aarch64")
    assert code == stub_code_aarch64.CODE
    assert offsets == stub_code_aarch64.OFFSETS


def test_both_sources_name_the_same_offsets() -> None:
    """A field that is somewhere else for one machine would be written over."""
    sources = [assemble.HERE.joinpath(f"{name}.S").read_text() for name in assemble.SOURCES]
    assert all('.include "stub_fields.S"' in source for source in sources)
    assert not any(re.search(r"\.set\s+(CLAIM|BOOTSTRAP),", source) for source in sources)
    first, second = (dict(re.findall(r"\.set\s+(\w+),\s+(\d+)", source)) for source in sources)
    fields = {name for name in second if name in first and not name.startswith("SYS_")}
    assert len(fields) >= 14
    assert {name: first[name] for name in fields} == {name: second[name] for name in fields}


def test_offsets_in_the_source_are_those_of_params() -> None:
    source = assemble.HERE.joinpath("stub_fields.S").read_text()
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
    assert len(stub.CODE) <= memory.PAGE
    assert stub.STACK_TOP % 16 == 0


def test_a_count_that_the_target_has_changed_is_written_all_the_same() -> None:
    written: list[bytes] = []
    target = SimpleNamespace(write=lambda address, data: written.append(data))
    RemoteMappings(0).write_field(target, "queued", -4)  # type: ignore[arg-type]
    assert written == [b"\xfc\xff\xff\xff"]


@pytest.mark.parametrize(
    ("began", "got", "left", "waited"),
    [
        pytest.param((0, 0), (7, 5), (0, 0), 0, id="a blocked thread has started it"),
        pytest.param((7, 0), (7, 900), (7, 1_000), 900, id="until the agent's thread has the GIL"),
        pytest.param((7, 999_999_999), (8, 1), (0, 0), 2, id="before it has noticed"),
        pytest.param((7, 0), (9, 0), (8, 0), 10**9, id="it gave up, and took the GIL back"),
        pytest.param((7, 0), (0, 0), (0, 0), 0, id="nothing more has come"),
        pytest.param((7, 0), (8, 0), (6, 0), 10**9, id="an earlier attach's was late"),
        pytest.param((1 << 63, 1 << 63), (0, 0), (2**64 - 1, 2**64 - 1), (2**63 - 1) * (10**9 + 1), id="nonsense"),
    ],
)
def test_a_pending_call_waits_from_its_beginning_to_what_ends_it(
    began: tuple[int, int], got: tuple[int, int], left: tuple[int, int], waited: int
) -> None:
    params = stub.Params()
    params.pending_from[:], params.gil_from[:], params.pending_to[:] = began, got, left  # type: ignore[index]
    assert params.pending_ns == waited
