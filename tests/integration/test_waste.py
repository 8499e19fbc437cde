"""What a heap could do without, against what was planted and counted by the program itself, on every interpreter."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from heaptop.protocol.framing import FrameReader
from heaptop.protocol.images import (
    INTERNED_COUNTED,
    INTERNED_FREED,
    NO_TYPE,
    OBJECT,
    WASTE,
    WASTES,
    Question,
    Selection,
    Waste,
)
from tests.interpreters import Interpreter
from tests.support.building import TARGETS
from tests.support.images import ALL, Explorer, exploring
from tests.support.processes import PATIENCE, running, with_proc

MAIN: Final = "__main__."
SECRET: Final = b"hunter2"


def ask(explorer: Explorer, selection: Selection, limit: int = ALL) -> Waste:
    found = explorer.ask(Question(WASTE, selection, limit=limit))
    assert isinstance(found, Waste), found
    return found


def short(name: str) -> str:
    return name.rpartition(".")[2]


def rows(explorer: Explorer, found: Waste) -> dict[tuple[str, str], list[int]]:
    """By sort and type: objects, bytes, detail. Instances that could have slots: by the number of those as well."""
    told: dict[tuple[str, str], list[int]] = {}
    for row in found.rows:
        sort, name, detail = WASTES[row.sort], short(explorer.types[row.type].full), row.detail
        if sort == "slots":
            name, detail = f"{name} of {detail}", 0
        sums = told.setdefault((sort, name), [0, 0, 0])
        for i, figure in enumerate((row.count, row.bytes, detail)):
            sums[i] += figure
    return told


def holders(explorer: Explorer, found: Waste, sort: str) -> Counter[str]:
    """Objects by the type of their holder."""
    told: Counter[str] = Counter()
    for row in found.rows:
        if WASTES[row.sort] == sort:
            told["" if row.holder == NO_TYPE else explorer.types[row.holder].full] += row.count
    return told


def check_sums(found: Waste) -> None:
    """Totals are of the rows, and nothing is in more than there is."""
    assert found.other_rows == 0
    assert [total.sort for total in found.totals] == [*range(len(WASTES))]
    for total in found.totals:
        mine = [row for row in found.rows if row.sort == total.sort]
        assert (total.count, total.bytes, total.own) == tuple(
            sum(getattr(row, name) for row in mine) for name in ("count", "bytes", "own")
        )
    assert all(row.own <= row.bytes for row in found.rows)
    assert [row.bytes for row in found.rows] == sorted((row.bytes for row in found.rows), reverse=True)


def test_it_is_what_the_program_counts_itself(interpreter: Interpreter) -> None:
    interpreter.place(TARGETS / "waste_reference.py")
    with running(interpreter, "waste_planted", wrapper=with_proc(interpreter)) as target:
        wanted: Any = ast.literal_eval(target.detail)
        with exploring(target.pid) as explorer:
            image = explorer.open()
            found = ask(explorer, Selection(below=(wanted["holder"],)))
            assert found.complete
            check_sums(found)
            assert rows(explorer, found) == {key: [*row] for key, row in wanted["rows"].items()}
            assert sum(row.own for row in found.rows) == wanted["own"]
            assert {WASTES[t.sort]: t.kept for t in found.totals if t.kept} == wanted["kept"]
            held = holders(explorer, found, "duplicate")
            assert held[MAIN + "Owner"] in range(6, 9), "nine of one content, of which one stays, which may be any"
            for row in found.rows:
                assert row.path[0].label.startswith("module __main__")
                assert row.path[-1].type == row.type
            whole = ask(explorer, Selection())
            check_sums(whole)
            assert sum(row.own for row in whole.rows if row.example) <= image.bytes
            (interned,) = [t for t in whole.totals if WASTES[t.sort] == "interned"]
            if interpreter.version < (3, 12):
                assert (whole.interned, interned.count) == (INTERNED_FREED, 0)
            else:
                assert whole.interned == INTERNED_COUNTED
                if interpreter.version < (3, 13):
                    assert interned.count >= 500
                    assert interned.bytes >= wanted["interned"]
                else:
                    assert interned.bytes < 500_000


@pytest.mark.pythons("3.8", "3.13")
def test_no_content_leaves_the_program(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret is there five times, and found; none of the bytes that come over the socket has it, as long as values
    are off."""
    came = bytearray()
    feed = FrameReader.feed

    def taped(reader: FrameReader, data: bytes) -> Iterator[bytes]:
        came.extend(data)
        return feed(reader, data)

    monkeypatch.setattr(FrameReader, "feed", taped)
    interpreter.place(TARGETS / "waste_reference.py")
    with running(interpreter, "waste_planted", wrapper=with_proc(interpreter)) as target:
        wanted: Any = ast.literal_eval(target.detail)
        with exploring(target.pid) as explorer:
            explorer.open()
            below = Selection(below=(wanted["holder"],))
            for selection in (Selection(), below):
                assert ask(explorer, selection).totals[WASTES.index("duplicate")].count >= 4
            assert b"waste" in came
            assert SECRET not in came
            assert b"planted 1" not in came
            explorer.ask(Question(OBJECT, Selection(addresses=(wanted["secret"],)), values=True))
            assert SECRET in came, "it would be seen if it came"


@pytest.mark.pythons("3.9", "3.14")
def test_the_command_prints_what_could_be_saved(interpreter: Interpreter) -> None:
    interpreter.place(TARGETS / "waste_reference.py")
    with running(interpreter, "waste_planted", wrapper=with_proc(interpreter)) as target:
        command = [sys.executable, "-m", "heaptop", "waste", str(target.pid)]
        done = subprocess.run(
            [*command, "--where", "module:__main__", "--json"],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert (done.returncode, done.stderr) == (0, "")
        found = json.loads(done.stdout)
        (plain,) = [row for row in found["rows"] if row["type"] == "__main__.Plain" and row["detail"] == 3]
        assert (plain["sort"], plain["count"], plain["holder"]) == ("slots", 95, "module __main__")
        assert found["total"] <= found["sum"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("could be saved: ≈")
        assert re.search(r"free in arenas +- +Python's allocator", done.stdout)
        assert "seen.setdefault(s, s)" in done.stdout
        assert target.alive
