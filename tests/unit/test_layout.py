"""The shape of the house: what lives where, and that nothing of one machine is written down."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import heaptop

ROOT = Path(__file__).parents[2]
FOLDERS = ("protocol", "census", "injector", "recordings", "tui")


@pytest.mark.parametrize("name", FOLDERS)
def test_packages_are_links_to_the_folders_at_the_top(name: str) -> None:
    # A package-dir mapping in their place breaks type checkers and editable installs.
    link = ROOT / "src" / "heaptop" / name
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == ROOT / name


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
