"""The shape of the house: what lives where, and that nothing of one machine is written down."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

import heaptop

ROOT = Path(__file__).parents[2]
LINKS = ("protocol", "injector", "tui")


@pytest.mark.parametrize("name", LINKS)
def test_folders_at_the_top_are_links_into_the_package(name: str) -> None:
    link = ROOT / name
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == ROOT / "src" / "heaptop" / name


def test_everything_installed_is_in_one_tree() -> None:
    assert [path for path in (ROOT / "src").rglob("*") if path.is_symlink()] == []


MOST_MODULES = 24
"""Of a room; what has more is two."""


def test_a_room_has_some_twenty_modules() -> None:
    rooms = {path.parent for path in (ROOT / "src").rglob("*.py") if "native" not in path.parts}
    counted = {str(room.relative_to(ROOT)): len([*room.glob("*.py")]) - 1 for room in rooms}
    assert {room: modules for room, modules in counted.items() if modules > MOST_MODULES} == {}


def test_every_room_says_what_it_is_for() -> None:
    rooms = {path.parent for path in (ROOT / "src" / "heaptop").rglob("*.py")}
    assert [room for room in rooms if not (room / "__init__.py").read_text().startswith('"""')] == []


def test_no_two_public_classes_share_a_name() -> None:
    modules = defaultdict(list)
    for path in (ROOT / "src" / "heaptop").rglob("*.py"):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(ROOT)))
    assert len(modules) > 500
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


def test_commands_and_api_ask_snapshots_by_watching_alone() -> None:
    """So a program gets the figures of the command: none of them words a question of its own."""
    rooms = [ROOT / "src" / "heaptop" / room for room in ("cli", "mcp", "inside", "api")]
    asking = [
        path.name for room in rooms for path in room.rglob("*.py") if re.search(r"\bQuestion\b", path.read_text())
    ]
    assert asking == []
    assert "Question(" in (ROOT / "src" / "heaptop" / "watching" / "queries.py").read_text()


@pytest.mark.parametrize("folder", ["bench", "art"])
def test_what_nothing_else_runs_still_imports_what_there_is(folder: str) -> None:
    missing = []
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("heaptop", "tests"):
                names = [name.name for name in node.names]
                module = __import__(node.module or "", fromlist=names)  # submodules among them too
                missing += [f"{path.name}: {node.module}.{name}" for name in names if not hasattr(module, name)]
    assert missing == []


def test_the_tests_run_this_tree() -> None:
    assert heaptop.__file__ is not None
    assert Path(heaptop.__file__).resolve().parent == ROOT / "src" / "heaptop"


def test_no_tracked_file_names_a_place_of_one_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    # Written in two halves, so that this file does not name them either.
    places = re.compile(r"(?<![\w}])/(wor" r"k|roo" r"t)/[a-z.]|https?://(deb|pypi|registry)\.")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    texts = {path: path.read_text(errors="replace") for path in files if path.is_file() and not path.is_symlink()}
    found = [f"{path.relative_to(ROOT)}: {match[0]}" for path, text in texts.items() for match in places.finditer(text)]
    assert found == []
