"""The README's tables are true, every command, every exit code, and no more; and pages lead to what there is."""

import re
from pathlib import Path

import pytest

from heaptop.cli import COMMANDS
from heaptop.errors import UsageError, all_errors

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_error_with_a_code_of_its_own_is_in_the_table() -> None:
    table = {name: int(code) for code, name in re.findall(r"^\| (\d+) \| (\w+) \|", README, re.MULTILINE)}
    own = {error.__name__: error.exit_code for error in all_errors() if error.exit_code > UsageError.exit_code}
    shared = own.pop("FrameTooLarge")
    assert shared == table["ProtocolError"]
    assert table == own


def test_every_command_is_in_the_table() -> None:
    named = set(re.findall(r"`heaptop (\w+)", README))
    assert {command.name for command in COMMANDS} <= named


def test_the_targets_make_does_are_the_ones_named() -> None:
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    rules = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets
    assert targets <= rules


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = []
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    assert missing == []


def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_by_their_path_exist(page: Path) -> None:
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.py)`", page.read_text(encoding="utf-8"))
    roots = (ROOT, ROOT / "src" / "heaptop", ROOT / "src" / "heaptop" / "analysis", ROOT / "tests")
    missing = [path for path in named if "NAME" not in path and not any((root / path).exists() for root in roots)]
    assert missing == []
