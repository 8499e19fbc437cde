"""The heap of a process at rest is the same in its snapshot, in a heap dump, in a core file and in a copy: objects with
their types, bytes, dominators and retained sizes, and what ``heaptop why`` answers of the program's own types."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.interpreters import MUSL, SUPPORTED, Interpreter
from tests.support import native
from tests.support.dumped_heaps import BY_INTERNED_NAMES, BY_THE_ATTACH
from tests.support.equal_heaps import PACKAGES, PROGRAMS, Difference, at_rest, difference, heaps_of
from tests.support.processes import EXIT_CODE, need_package

USES_SSL: Final = ("asyncio_idle", "watchers_asyncio", "checkout_flask", "orders_sqlalchemy")
KNOWN_TO_C: Final = {**dict.fromkeys(USES_SSL, 3_700), "thumbnails_numpy": 300}
"""So many objects, at most, are kept where only C code knows: in the state of ``_ssl``, and as the namespaces of
numpy's functions."""
RETAINED: Final = 0.005
"""Share of the objects, at most, that retain less or more since an attach has made other holders of texts and dicts."""
DOMINATORS: Final = 0.1
"""Likewise, of those that were asked for."""


@pytest.mark.pythons(*SUPPORTED, *MUSL)
@pytest.mark.sample(8, least=2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_heap_is_the_same_in_each_way_to_see_it(interpreter: Interpreter, program: str, tmp_path: Path) -> None:
    """The dump's is that of its snapshot, and the copy's that of the core, without an exception. These two were made
    before the attach, and differ from the others by what it makes, and by what only C code knows."""
    native.core()
    if shutil.which("gdb") is None:
        pytest.skip("gdb, which writes core files, is not installed")
    if program in PACKAGES:
        need_package(interpreter, PACKAGES[program])
    with at_rest(interpreter, program) as target:
        heaps = heaps_of(target, tmp_path)
        assert target.said() == []
        assert target.terminate() == EXIT_CODE
    assert difference(heaps.snapshot, heaps.dump).everything == []
    assert difference(heaps.core, heaps.copy).everything == []
    check_before_the_attach(interpreter, program, difference(heaps.snapshot, heaps.copy))


def check_before_the_attach(interpreter: Interpreter, program: str, without: Difference) -> None:
    most = (BY_INTERNED_NAMES if interpreter.version >= (3, 14) else BY_THE_ATTACH)[0]
    most += KNOWN_TO_C.get(program, 0)
    assert without.missing.total() + without.new.total() <= most, (without.missing, without.new)
    assert {*without.sizes} <= {"dict", "list", "str"}, "what an attach adds something to; a text gets its UTF-8"
    assert without.retained.total() <= RETAINED * without.all, without.retained
    assert without.dominators.total() <= DOMINATORS * without.asked, without.dominators
    assert without.own == []
