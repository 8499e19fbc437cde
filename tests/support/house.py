"""What docs/design/house.md says of the code, counted: ``python -m tests.support.house [FOLDER]``.

``FOLDER`` is another checkout's ``src/heaptop``. Import cycles are counted by ``lint-imports``.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2] / "src" / "heaptop"
LONG_CLASS: Final = 300
LONG_FUNCTION: Final = 60
LONG_MODULE: Final = 600


def lines(path: Path) -> int:
    """Lines of a file, with comments and docstrings."""
    return len(path.read_text(encoding="utf-8").splitlines())


def statements(tree: ast.Module) -> int:
    """Lines that a statement begins on, without docstrings: what neither comments nor line breaks change."""
    return len({node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt) and not _is_text(node)})


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def rooms(root: Path, paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Each file with the folder below the root that it is in; ``.`` for the root's own."""
    for path in paths:
        parts = path.relative_to(root).parts
        yield (parts[0] if len(parts) > 1 else "."), path


def main(root: Path) -> None:
    python = sorted(root.rglob("*.py"))
    c = sorted([*root.rglob("*.c"), *root.rglob("*.h")])
    trees = {path: ast.parse(path.read_bytes()) for path in python}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]

    sizes: Counter[str] = Counter()
    begun: Counter[str] = Counter()
    for room, path in rooms(root, python):
        sizes[room] += lines(path)
        begun[room] += statements(trees[path])
    print("lines of Python, and statements, by room")
    for room, size in sizes.most_common():
        print(f"  {size:7,} {begun[room]:7,}  {room}")
    print(f"  {sizes.total():7,} {begun.total():7,}  all Python")
    print(f"  {sum(map(lines, c)):7,}          all C")

    folders = Counter(path.parent for path in (*python, *c)).most_common(6)
    print("files in a folder:", ", ".join(f"{number} {folder.relative_to(root)}" for folder, number in folders))
    for what, kinds, limit in (
        ("classes", (ast.ClassDef,), LONG_CLASS),
        ("functions", (ast.FunctionDef, ast.AsyncFunctionDef), LONG_FUNCTION),
    ):
        found = [((node.end_lineno or 0) - node.lineno + 1, node.name) for _, node in nodes if isinstance(node, kinds)]
        long = sorted([each for each in found if each[0] > limit], reverse=True)
        print(f"{what} of more than {limit} lines:", len(long), ", ".join(f"{name} {size}" for size, name in long))
    modules = [(lines(path), str(path.relative_to(root))) for path in python if lines(path) > LONG_MODULE]
    print(f"modules of more than {LONG_MODULE} lines:", len(modules), sorted(modules, reverse=True))

    classes = [(node.name, path) for path, node in nodes if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
    twice = [name for name, times in Counter(name for name, _ in classes).items() if times > 1]
    print("public class names used twice:", len(twice), ", ".join(twice))
    tests = [node for _, node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"]
    chained = [
        other
        for _, node in nodes
        if isinstance(node, ast.If)
        for other in node.orelse[:1]
        if isinstance(other, ast.If) and any(call in tests for call in ast.walk(other.test))
    ]
    print("calls of isinstance:", len(tests), "of which in an elif:", len(chained))
    bodies = [
        [each for each in node.body if not _is_text(each)]
        for _, node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    print("functions:", len(bodies), "of which of one statement:", sum(len(body) == 1 for body in bodies))
    told = [
        text
        for _, node in nodes
        for body in [getattr(node, "body", None)]
        if isinstance(body, list)
        for before, text in pairwise(body)
        if isinstance(before, (ast.AnnAssign, ast.Assign)) and _is_text(text)
    ]
    print("docstrings of attributes and constants:", len(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
