"""The private names of Textual and Rich that heaptop uses: there, in one room, and each one missed when it moves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import heaptop.tui
from heaptop.tui.terminal import contract

TUI = Path(heaptop.tui.__file__).parent
ROOM = TUI / "terminal"
OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields"}


def test_this_release_of_textual_has_every_private_name() -> None:
    sentence = contract.broken()
    assert sentence is None, f"{sentence}. Find its new name, and change it in {ROOM.name}/ and in contract.NAMES."


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in contract.NAMES.items() for name in names])
def test_a_name_that_moves_is_missed(path: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = name.replace("(self", "(self, more") if "(" in name else f"{name}_"
    monkeypatch.setitem(contract.NAMES, path, (moved,))
    sentence = contract.broken.__wrapped__()
    assert sentence is not None
    assert sentence.startswith(path.partition(".")[0])
    assert f"{path}.{moved}: heaptop draws without it" in sentence


@pytest.mark.parametrize("path", ["textual._compositor.Gone", "textual._gone.Compositor"])
def test_a_class_that_moves_is_missed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(contract.NAMES, path, ())
    assert path in (contract.broken.__wrapped__() or "")


def used(path: Path) -> Iterator[str]:
    """Names that begin with a line, of objects or modules."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and node.module is not None and "._" in node.module:
            yield node.module


def defined(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_only_the_terminal_room_uses_private_names() -> None:
    others = [path for path in TUI.rglob("*.py") if ROOM not in path.parents]
    own = OF_NAMED_TUPLES | {name for path in others for name in defined(path)}
    assert {(path.name, name) for path in others for name in used(path) if name not in own} == set()


def test_the_contract_has_all_that_the_room_uses() -> None:
    known = {name.partition("(")[0] for names in contract.NAMES.values() for name in names}
    known |= {path.rpartition(".")[0] for path in contract.NAMES}
    for path in ROOM.glob("*.py"):
        assert {name for name in used(path) if name not in {*defined(path)}} <= known, path.name
