"""A count may begin in the middle of a list, where the last one has found it: it is right whatever the guess is."""

from __future__ import annotations

from tests.interpreters import Interpreter
from tests.support.native import Counted, decode, told_in_lines

NODES = 20_001


def test_a_guess_changes_nothing(interpreter: Interpreter) -> None:
    answers = told_in_lines(interpreter, "core_middle.py")
    counted: dict[str, Counted] = {name: decode(answer) for name, answer in answers}
    assert len(counted) == 16
    plain = counted["none"].stats["objects"]
    for name, each in counted.items():
        assert each.total("__main__", "Node") == NODES, name
        assert abs(each.stats["objects"] - plain) < 100, name  # the answers themselves
        assert each.stats["complete"], name
    middles = {name: each.stats["middle"] for name, each in counted.items()}
    assert middles["inside"] != middles["none"], "it was taken, and is not so far from the middle"
    assert middles["first"] == middles["young"] == middles["another ring"] == middles["a ring that is torn"]
    assert 0 not in {middle for name, middle in middles.items() if name != "frozen"}
    assert middles["found again"] == middles["found by the last"]
