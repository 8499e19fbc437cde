"""Steps of paths: those that lead to one object tell its address, those that stand for several tell none."""

from __future__ import annotations

from heaptop.protocol.images import OBJECTS, Objects, PathGroup, Question, Selection
from tests.interpreters import Interpreter
from tests.support.images import Explorer, exploring
from tests.support.processes import running, with_proc


def one_of(explorer: Explorer, name: str, *labels: str) -> PathGroup:
    """The path of objects of a type that reads like this."""
    found = {tuple(step.label for step in group.steps): group for group in explorer.paths(f"__main__.{name}")}
    return found[labels]


def test_a_step_tells_the_address_of_one_object(interpreter: Interpreter) -> None:
    wrapper = with_proc(interpreter)
    with running(interpreter, "retained_planted", wrapper=wrapper) as target, exploring(target.pid) as explorer:
        explorer.open()
        users = one_of(explorer, "User", "module app.cache", "._sessions", "[*]", ".user")
        module, cache, items, last = users.steps
        assert (users.count, items.address, last.address) == (5, 0, 0)
        found = explorer.ask(Question(OBJECTS, Selection(addresses=(module.address, cache.address))))
        assert isinstance(found, Objects)
        assert {row.address: explorer.types[row.type].full for row in found.rows} == {
            module.address: "module",
            cache.address: "dict",
        }
        alone = one_of(explorer, "HeldByClass", "module __main__", ".Classy", ".kept")
        assert alone.count == 1
        assert all(step.address for step in alone.steps)
        assert alone.steps[-1].address == alone.example
