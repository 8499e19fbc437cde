"""``heaptop leaks`` in the zoo: programs with one planted leak each, and some that only look as if they had one."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.interpreters import Interpreter
from tests.support import zoo
from tests.support.processes import need_package
from tests.support.zoo import BACKLOGS, HARMLESS, LEAKS, Outcome, rank, shortcomings

SESSIONS: dict[str, Any] = {
    "type": "__main__.Session",
    "site": "leaks/sessions_dict.py:18 SessionStore.create_session",
    "retainer": "module __main__ .store",
    "path": ["module __main__", ".store", "._sessions", "dict[*]", "__main__.Session"],
}


@pytest.mark.timeout(900)
@pytest.mark.pythons("3.12")
def test_the_zoo(interpreter: Interpreter, is_whole: bool) -> None:
    """Every other program; all, on all Pythons, by ``make zoo``: that takes minutes on each."""
    for planted in LEAKS.values():
        if planted.package:
            need_package(interpreter, planted.package)
    programs = zoo.programs_for(interpreter)
    assert len(programs) == len(LEAKS) + len(BACKLOGS) + len(HARMLESS)
    programs = programs if is_whole else programs[::2]
    outcomes = zoo.judge_all(interpreter, programs)
    assert [outcome.program for outcome in outcomes] == programs
    short = shortcomings(outcomes)
    assert not short, "\n".join(short)


def test_each_program_has_its_answer() -> None:
    programs = {file.stem: file.read_text() for file in zoo.FOLDER.glob("*.py") if file.stem != "backdrop"}
    assert programs.keys() == {*LEAKS, *BACKLOGS, *HARMLESS}
    for name, source in programs.items():
        planted = LEAKS.get(name)
        assert source.count("the leak") == (planted is not None), name
        kind = "Harmless: " if name in HARMLESS else "A backlog: " if name in BACKLOGS else ""
        about = ast.get_docstring(ast.parse(source)) or ""
        assert about.startswith(kind), name
        assert about.startswith(("Harmless: ", "A backlog: ")) == (planted is None), name
        assert planted is None or f"def {planted.site}(" in source, name


def test_an_answer_is_right_in_type_site_and_holder() -> None:
    planted = LEAKS["sessions_dict"]
    assert rank([SESSIONS], planted) == 1
    wrong = [
        SESSIONS | {"type": "__main__.SessionStore"},
        SESSIONS | {"site": "leaks/sessions_dict.py:22 log_out"},
        SESSIONS | {"site": ""},
        SESSIONS | {"path": ["module __main__", ".session"]},
    ]
    assert rank(wrong, planted) == 0
    assert rank([*wrong, SESSIONS], planted) == 5


def test_the_promise_is_nine_in_ten_first_all_in_three_and_nothing_harmless_called_a_leak() -> None:
    good = [Outcome(name, "leak", 1, "") for name in LEAKS] + [Outcome(name, "unclear", 0, "") for name in HARMLESS]
    good += [Outcome(name, "backlog", 0, "") for name in BACKLOGS]
    assert shortcomings(good) == []
    tenth = len(LEAKS) // 10
    second = [Outcome(each.program, "leak", 2, "") for each in good]
    assert shortcomings(second[:tenth] + good[tenth:]) == []
    assert shortcomings(second[: tenth + 1] + good[tenth + 1 :]) == [
        f"first suspect right in {len(LEAKS) - tenth - 1} of {len(LEAKS)}"
    ]
    fourth = Outcome("audit_list", "leak", 4, "rows")
    assert shortcomings([*good[1:], fourth]) == ["audit_list: not in the first three: rows"]
    assert shortcomings([*good[:-1], Outcome("heavy_churn", "leak", 0, "rows")]) == ["heavy_churn: leak: rows"]
    assert shortcomings([*good[:-1], Outcome("heavy_churn", "backlog", 0, "rows")]) == ["heavy_churn: backlog: rows"]
    assert shortcomings([*good[:-1], Outcome("mails_behind", "unclear", 0, "rows")]) == ["mails_behind: unclear: rows"]
    assert shortcomings([*good[:-1], Outcome("heavy_churn", "", 0, "refused")]) == ["heavy_churn: failed: refused"]
