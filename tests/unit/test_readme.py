"""The pages' tables are true, every command, every exit code, and no more; and pages lead to what there is."""

import re
from pathlib import Path

import pytest

from heaptop.analysis.filters.filter_reader import ATTRIBUTES
from heaptop.cli import COMMANDS
from heaptop.cli.config_file import BY_NAME
from heaptop.errors import UsageError, all_errors
from heaptop.tui.views import VIEWS
from tests.support import json_schemas

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len(page("README.md").splitlines()) <= 150


def test_the_line_that_the_readme_and_its_picture_name_allocates_the_demos_sessions() -> None:
    source = page("src/heaptop/demo/shop/sessions.py").splitlines()
    pages = page("README.md"), page("docs/leaks.svg")
    lines = [int(line) for text in pages for line in re.findall(r"sessions\.py:(\d+)", text)]
    assert len(lines) >= 3
    assert {source[line - 1].strip().partition("(")[0] for line in lines} == {"session = Session"}


def test_every_error_with_a_code_of_its_own_is_in_the_table() -> None:
    rows = re.findall(r"^\| (\d\d) \| (\w+) \|", page("docs/exit-codes.md"), re.MULTILINE)
    table = {name: int(code) for code, name in rows}
    own = {error.__name__: error.exit_code for error in all_errors() if error.exit_code > UsageError.exit_code}
    shared = own.pop("FrameTooLarge")
    assert shared == table["ProtocolError"]
    assert table == own


def test_every_command_is_in_the_table() -> None:
    named = set(re.findall(r"`heaptop (\w+)", page("docs/commands.md")))
    assert {command.name for command in COMMANDS} <= named


def test_the_targets_make_does_are_the_ones_named() -> None:
    targets = set(re.findall(r"^make (\w+)", page("README.md"), re.MULTILINE))
    rules = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets
    assert targets <= rules


def test_every_setting_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `\[?(\w+)\]?` \|", page("docs/settings.md"), re.MULTILINE))
    assert named == {*BY_NAME, "keys"}


def test_every_field_of_a_filter_is_on_its_page() -> None:
    text = page("docs/filters.md")
    assert [field for field in ATTRIBUTES if f"`{field}:" not in text] == []


def test_every_json_document_is_in_the_table() -> None:
    named = re.findall(r"^\| \[`([\w.]+)`\]\(schema/\w+-(\d+)\.json\)", page("docs/json.md"), re.MULTILINE)
    assert {f"{name}/{version}" for name, version in named} == {*json_schemas.schemas()}


def test_every_view_is_in_the_table() -> None:
    named = dict(re.findall(r"^\| \[(\d+) (\w+(?: map)?)\]", page("docs/views.md"), re.MULTILINE))
    assert named == {str(number): view.TITLE for number, view in enumerate(VIEWS.values(), 1)}


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


def test_the_site_has_every_page() -> None:
    nav = set(re.findall(r": ([\w/-]+\.md)$", page("mkdocs.yml"), re.MULTILINE))
    assert nav == {str(each.relative_to(ROOT / "docs")) for each in ROOT.glob("docs/**/*.md")}


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
