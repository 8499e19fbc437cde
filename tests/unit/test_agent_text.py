"""The agent's modules, and the one text that is made of them."""

from __future__ import annotations

import ast
import socket
import traceback
from pathlib import Path
from typing import Any

import pytest

from heaptop.injector import agent
from heaptop.protocol.registry import REQUESTS

FOLDER = Path(agent.__file__).parent
OURS = "heaptop.injector.agent."
FOR_TYPES = {"__future__", "collections.abc", "typing"}


def tree(module: str) -> ast.Module:
    return ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))


def defined(statement: ast.stmt) -> list[str]:
    """The names that a statement at the top gives a meaning to."""
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        return sorted({name.id for name in names if isinstance(name.ctx, ast.Store)})  # not those whose items are set
    return []


class Bare(ast.NodeTransformer):
    """What is left of a module where nobody reads it: no docstrings, annotations or imports."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign | None:
        return None if node.value is None else ast.Assign(targets=[node.target], value=node.value)


def test_the_text_is_the_code_of_all_modules() -> None:
    written = ast.parse(agent.source()).body
    code = [statement for module in agent.MODULES for statement in Bare().visit(tree(module)).body]
    assert [ast.dump(statement) for statement in written] == [ast.dump(statement) for statement in code]


def test_each_module_of_the_agent_is_sent() -> None:
    assert sorted(agent.MODULES) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def test_a_module_imports_names_of_those_before_it_only() -> None:
    """They share one dict in the target: what is imported is there by then, and has the same name."""
    known: dict[str, set[str]] = {}
    for module in agent.MODULES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Import):
                assert [(name.name, name.asname) for name in node.names] == [("sys", None)], module
            elif isinstance(node, ast.ImportFrom) and node.module not in FOR_TYPES:
                assert node.module is not None
                assert node.module.startswith(OURS), f"{module}: a target may have no {node.module}"
                there = known[node.module[len(OURS) :]]
                for name in node.names:
                    assert name.name in there, f"{module}: {name.name}"
                    assert name.asname is None
        known[module] = {name for statement in tree(module).body for name in defined(statement)}


def test_no_two_modules_define_the_same_name() -> None:
    names = [name for module in agent.MODULES for name in {n for s in tree(module).body for n in defined(s)}]
    assert len(names) == len(set(names))


def test_no_two_modules_answer_the_same_request() -> None:
    kinds = [kind for module in agent.MODULES for kind in requests(tree(module))]
    assert sorted(kinds) == sorted(set(kinds))
    assert {*kinds, "tick?", "sampler?", "ask?", "cancel?", "close?", "detach?"} == {one.KIND for one in REQUESTS}


def requests(module: ast.Module) -> list[str]:
    """The kinds that a module has an item of WORK for."""
    targets = [target for one in module.body if isinstance(one, ast.Assign) for target in one.targets]
    items = [one for one in targets if isinstance(one, ast.Subscript) and ast.unparse(one.value) == "WORK"]
    return [str(ast.literal_eval(one.slice)) for one in items]


def test_each_line_of_the_text_has_its_place_in_a_module() -> None:
    lines = agent.source().splitlines()
    for number, line in enumerate(lines, 1):
        file, there = agent.place(number)
        original = (FOLDER / file).read_text(encoding="utf-8").splitlines()[there - 1]
        letters = iter(original)
        assert all(letter in letters for letter in line), f"{file}:{there}: what is sent is written there, and more"
    for beyond in (0, -1, len(lines) + 1):
        with pytest.raises(ValueError, match="no line"):
            agent.place(beyond)


def begun() -> tuple[dict[str, Any], bytes]:
    """The agent's dict as the bootstrap leaves it to main, and what is still to be read."""
    space: dict[str, Any] = {"__name__": "heaptop_agent"}
    sent = agent.framed_source()
    for _ in range(2):
        size = int.from_bytes(sent[:4], "big")
        exec(sent[4 : 4 + size], space)
        sent = sent[4 + size :]
    return space, sent


def loaded() -> dict[str, Any]:
    """The agent's dict, filled as in a target: by the bootstrap's exec of two pieces, and the loader's of the rest."""
    space, others = begun()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(others)
        space["load"](theirs.fileno())
    return space


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("check_socket", (None,)), ("_unpack_at", (b"", 0, 0)), ("answer", (None, 0, None)), ("send_census", (None,))],
)
def test_a_traceback_in_a_target_leads_to_the_line_of_a_module(function: str, arguments: tuple[Any, ...]) -> None:
    """Whichever piece a function came with."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- whatever it is
        loaded()[function](*arguments)
    frame = traceback.extract_tb(caught.tb)[1]
    assert frame.name == function
    assert frame.lineno is not None
    file, line = agent.place(frame.lineno)
    (found,) = [node for node in tree(file[:-3]).body if isinstance(node, ast.FunctionDef) and node.name == function]
    assert found.lineno < line <= (found.end_lineno or 0)
    sent, written = agent.source().splitlines(), (FOLDER / file).read_text(encoding="utf-8").splitlines()
    assert sent[frame.lineno - 1] in written[line - 1]


def test_the_source_is_of_3_8() -> None:
    tree = ast.parse(agent.source(), feature_version=(3, 8))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.ClassDef), "a class is a cycle that only the collector frees"
    assert len(agent.source().encode()) < agent.MAX_SOURCE


def test_no_piece_of_the_agent_takes_long_to_compile() -> None:
    """The GIL is held for as long as a piece takes: some 1.5 µs for each node of its syntax tree."""
    for piece in agent.pieces():
        assert sum(1 for _ in ast.walk(ast.parse(piece, feature_version=(3, 8)))) <= 1.1 * agent.MAX_PIECE, piece[:80]


def test_the_first_pieces_load_the_others_and_give_way_after_each() -> None:
    space, others = begun()
    assert "converse" not in space
    known: list[int] = []
    space["rest_if_due"] = lambda s: known.append(len(space))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(others + b"more")
        held, early = space["load"](theirs.fileno())
    assert callable(space["converse"])
    assert len(known) == len(agent.pieces()) - 2
    assert known == sorted(known)
    assert held > 0
    assert early == b"more"


@pytest.mark.parametrize("sent", [b"", b"\0", b"\0\0\0\5abc", b"\x7f\xff\xff\xff"])
def test_an_agent_that_comes_in_parts_only_is_not_begun(sent: bytes) -> None:
    space, _ = begun()
    space["clear_modules"] = lambda: None
    conversed: list[Any] = []
    space["converse"] = lambda *arguments: conversed.append(arguments)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(sent)
        ours.shutdown(socket.SHUT_WR)
        space["main"](theirs.fileno(), "token")
    assert conversed == []
