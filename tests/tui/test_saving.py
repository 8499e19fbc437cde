"""Copying a row and saving what is shown: in every view, in full, with every mark, and never over another file."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop import files
from heaptop.analysis.callers.producer_table import ProducerTables
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.retaining import PathTree, list_rows
from heaptop.errors import SaveFailed, UsageError
from heaptop.protocol.images import PathGroup, Paths, Step
from heaptop.protocol.messages import TypeName
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.state.saving import SavedTable, cells, ending_of, page, row_text, table_text, write
from heaptop.tui.state.sheet import CellText, Column, Sheet
from heaptop.tui.terminal.drawn import drawn_lines
from heaptop.tui.views import VIEWS
from heaptop.tui.views.producers.producer_sheets import ProducerFacts, table_sheet
from heaptop.tui.views.retainers.retainer_sheets import RetainerFacts, tree_sheet
from tests.fakes.source import FakeSource
from tests.support.recorded import written
from tests.tui.support import LARGE, SMALL, Stage, on_stage
from tests.tui.test_recording import LAST, TICKS, opened
from tests.unit.sample_cases import Program, sampler

pytestmark = pytest.mark.usefixtures("plain_environment", "utc")
COLUMNS = (Column("band", "", 3), Column("name", "Type", 0), Column("bytes", "Bytes", 9), Column("bar", "", 8))


def sheet(rows: list[tuple[str, str] | None]) -> Sheet[tuple[str, str] | None]:
    return Sheet(
        COLUMNS,
        rows,
        lambda row: row[0] if row else "",
        lambda row: [
            CellText(" A "),
            CellText(row[0] if row else "…"),
            CellText(row[1] if row else ""),
            CellText("████"),
        ],
        ChartStyle.of(DARK, ascii_only=False),
    )


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- text ----------------------------------------------------------------------------------------------------


@given(st.text(max_size=30), st.text(max_size=30))
def test_nothing_a_terminal_would_obey_gets_out(name: str, figure: str) -> None:
    text = row_text(sheet([]), (name, figure))
    assert all(char.isprintable() or char == "\t" for char in text)
    assert text.count("\t") <= 1


def test_what_is_only_drawn_is_left_out() -> None:
    assert cells(sheet([]), ("shop.Session", "≈4.1 MiB")) == ("shop.Session", "≈4.1 MiB")
    assert page(sheet([("a", "1"), None, ("b", "2")])) == SavedTable(
        (("name", "Type"), ("bytes", "Bytes")), [("a", "1"), ("b", "2")], missing=1
    )


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=12)), max_size=5))
def test_each_form_holds_the_same(rows: list[tuple[str, str]]) -> None:
    whole = page(sheet([*rows]))
    about = [("heaptop", "1 Bands"), ("filter", "type:a\nb")]
    table = table_text(whole, about, ".csv").splitlines()
    assert table[:2] == ["# heaptop: 1 Bands", "# filter: type:a b"]
    assert [tuple(row) for row in csv.reader(table[3:])] == whole.rows
    tsv = table_text(whole, about, ".tsv").split("\n")[2:-1]
    assert [tuple(line.split("\t")) for line in tsv] == [("Type", "Bytes"), *whole.rows]
    read = json.loads(table_text(whole, about, ".json"))
    assert [tuple(row.values()) for row in read["rows"]] == whole.rows
    assert read["columns"] == {"name": "Type", "bytes": "Bytes"}


def test_a_file_is_its_owners_and_is_never_written_over(here: Path) -> None:
    write("a.tsv", "≈1\n")
    assert (here / "a.tsv").read_text(encoding="utf-8") == "≈1\n"
    assert (here / "a.tsv").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="exists already"):
        write("a.tsv", "2")
    (here / "link.tsv").symlink_to(here / "elsewhere")
    with pytest.raises(UsageError, match="exists already"):
        write("link.tsv", "2")
    assert not (here / "elsewhere").exists()


def test_what_cannot_be_written_says_why_and_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SaveFailed, match="no such file or directory"):
        write("nowhere/a.tsv", "1")
    with pytest.raises(SaveFailed, match="null"):
        write("a\0.tsv", "1")
    if Path("/dev/full").exists():
        (here / "full.tsv").touch()
        full = os.open("/dev/full", os.O_WRONLY)
        with monkeypatch.context() as patch:
            patch.setattr(files, "create_new", lambda path: full)
            patch.setattr(files, "_is_regular", lambda fd: True)
            with pytest.raises(SaveFailed, match="no space left"):
                write("full.tsv", "1")
        assert not (here / "full.tsv").exists(), "half a table is worse than none"


def test_the_ending_says_how() -> None:
    assert [ending_of(name) for name in ("a.tsv", "b.CSV", "x/c.json", "d.txt", "e.svg")] == [
        ".tsv", ".csv", ".json", ".txt", ".svg",
    ]  # fmt: skip
    for wrong in ("", "a", "a.png", ".tsv"):
        with pytest.raises(UsageError, match="End the name in"):
            ending_of(wrong)


# -- the keys ------------------------------------------------------------------------------------------------


async def save(stage: Stage, name: str) -> None:
    """Save under another name than the proposed one."""
    await stage.press("s", "ctrl+u")
    await stage.type(name)
    await stage.press("enter")
    await stage.settled()


@pytest.mark.parametrize("name", VIEWS)
async def test_every_view_copies_and_saves(here: Path, name: str) -> None:
    source = FakeSource()
    source.sample(64 << 10, 128)
    async with on_stage(LARGE, source=source) as stage:
        if name == "leaks":
            await stage.press("m")
            await stage.until(lambda: not stage.live.hunting.is_busy, "the mark is set")
            await stage.ticks(3)
        await stage.press(str(VIEWS[name].NUMBER % 10))
        if name == "memory":
            await stage.ticks(1)
        await stage.settled()
        await stage.until(lambda: stage.live.view.copied, "there is something to copy")
        await stage.press("y")
        copied = stage.app.clipboard
        assert f"copied {len(copied):,} characters" in stage.text
        assert copied
        whole = stage.live.view.page
        await save(stage, "it.tsv")
        if whole is None:
            assert "× There is no table here" in stage.text
            await stage.press("escape")
            await save(stage, "it.txt")
            await stage.until((here / "it.txt").exists, "the screen is saved")
            saved = (here / "it.txt").read_text(encoding="utf-8")
            assert "Heap map by type" in saved, saved
            return
        lines = (here / "it.tsv").read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith(f"# heaptop: {VIEWS[name].NUMBER} {VIEWS[name].TITLE}")
        assert any(line.startswith("# screen: heaptop pid 4242") for line in lines)
        rows = [line for line in lines if not line.startswith("# ")][1:]
        assert len(rows) == stage.live.view.table.row_count
        assert copied.split("\t")[0] in rows[0]
        assert f"saved {len(rows)} row" in stage.text


async def test_a_table_is_saved_in_full_with_its_filter_and_its_marks(here: Path) -> None:
    source = FakeSource()
    source.sample(64 << 10, 128)
    async with on_stage(SMALL, source=source) as stage:
        await stage.press("slash")
        await stage.type("!type:dict")
        await stage.press("enter")
        await save(stage, "it.json")
        read = json.loads((here / "it.json").read_text(encoding="utf-8"))
        assert read["filter"] == "!type:dict"
        assert read["columns"]["bytes"] == "Bytes"
        shown = stage.bands.table.sheet
        assert shown is not None
        assert [row["exact_bytes"] for row in read["rows"]] == [row.bytes for row in shown.rows]
        assert len(read["rows"]) == stage.bands.table.row_count > 12, "more than the screen shows"
        assert any(row["name"] == "sqlalchemy.orm.state.InstanceState" for row in read["rows"]), "uncut"
        assert "≈" in read["screen"], "what is approximate is so in the file too"
        assert "narrow" in read["columns shown"]
        assert stage.live.view.where, "the filter holds on"


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_sites_are_saved_with_their_places_in_full_and_figures_as_numbers(
    here: Path, size: tuple[int, int]
) -> None:
    """Whatever the screen has room for."""
    source = FakeSource()
    source.sample(64 << 10, 128)
    async with on_stage(size, source=source, censuses=4) as stage:
        await stage.press("2")
        await stage.settled()
        await save(stage, "it.json")
        rows = json.loads((here / "it.json").read_text(encoding="utf-8"))["rows"]
        site = next(row for row in rows if row["name"] == "shop/views.py:88 create_session")
        assert (site["file"], site["line"], site["function"]) == ("/srv/shop/views.py", 88, "create_session")
        assert site["live_bytes_low"] <= site["live_bytes"] <= site["live_bytes_high"]
        assert all(type(site[name]) is int for name in ("live_bytes", "allocated_bytes", "live_blocks"))
        assert site["allocated_bytes"] == pytest.approx(site["live_bytes"] + (site["freed_bytes"] or 0), abs=2)
        await stage.press("b")
        await stage.settled()
        await save(stage, "it.tsv")
        lines = [line.split("\t") for line in (here / "it.tsv").read_text(encoding="utf-8").splitlines()]
        heading = next(line for line in lines if not line[0].startswith("#"))
        assert heading[heading.index("file") :][:5] == ["file", "line", "function", "live_bytes", "live_bytes_low"]
        assert "direct_bytes" in heading
        assert any("/srv/shop/views.py" in line and "create_session" in line for line in lines)


def test_what_was_not_seen_is_no_number() -> None:
    """Of what no sample was seen of there need not be none."""
    program = Program()
    program.allocate(("main", "keep"), 100)
    program.free(program.allocate(("main", "free"), 100))
    sampling = Sampling()
    for message in (sampler(1 << 16), *program.messages()):
        sampling.feed(message)
    sites = ProducerTables(sampling.samples, sampling.sites).groups(sampling.samples.tallies(), "site")
    look = ChartStyle.of(DARK, ascii_only=False)
    by_site = {row["name"]: row for row in as_dicts(table_sheet(sites, ProducerFacts("site", 200, look)))}
    left, gone = (next(row for name, row in by_site.items() if name.endswith(end)) for end in (" keep", " free"))
    assert left["live_bytes"] > 0
    assert [gone[name] for name in ("live_bytes", "live_bytes_low", "live_bytes_high", "live_blocks")] == [""] * 4
    assert gone["freed_bytes"] > 0


def test_paths_that_were_not_told_are_saved_with_what_is_left_for_them() -> None:
    told = PathGroup(1, 0, 3, 30, 90, 7, (Step("module app", 0, 1),))
    tree = PathTree(Paths(1, 10, 100, 300, (told,), other_groups=2), [TypeName("builtins", "dict")])
    rows = list_rows(tree, "bytes")
    look = ChartStyle.of(DARK, ascii_only=False)
    sheet = tree_sheet(rows, tree, {}, "bytes", RetainerFacts(80, look), by_retained=True, as_list=True)
    first, rest = as_dicts(sheet)
    assert (first["path"], first["objects"], first["own_bytes"], first["retained_bytes_at_most"]) == (
        "module app", 3, 30, 90
    )  # fmt: skip
    assert (rest["path"], rest["objects"], rest["own_bytes"], rest["retained_bytes_at_most"]) == ("", 7, 70, "")


def as_dicts(sheet: Sheet[Any]) -> list[dict[str, Any]]:
    """The rows of the saved table, by the keys of its columns."""
    whole = page(sheet)
    return [dict(zip([key for key, _ in whole.columns], row, strict=True)) for row in whole.rows]


async def test_what_keeps_is_saved_in_full_and_as_numbers(here: Path) -> None:
    async with on_stage(SMALL, source=FakeSource(), censuses=1) as stage:
        await stage.press("3")
        await stage.until(lambda: stage.live.view.table.row_count > 3, "there are types")
        await save(stage, "types.json")
        types = json.loads((here / "types.json").read_text(encoding="utf-8"))["rows"]
        assert all(type(row[name]) is int for row in types for name in ("objects", "own_bytes", "retained_bytes"))
        await stage.press("b")
        await stage.until(lambda: "by tree" in stage.text and stage.live.view.table.row_count > 3, "there are paths")
        await save(stage, "paths.json")
        paths = json.loads((here / "paths.json").read_text(encoding="utf-8"))["rows"]
        assert {row["path"] for row in paths} >= {"module shop.cache", "frame worker() local rows"}
        assert {"frame_file", "frame_line", "frame_thread"} <= paths[0].keys()


async def test_a_name_that_is_taken_can_be_changed(here: Path) -> None:
    (here / "it.tsv").write_text("mine")
    async with on_stage() as stage:
        await save(stage, "it.tsv")
        assert "× That file exists already." in stage.text
        assert (here / "it.tsv").read_text() == "mine"
        await stage.press("ctrl+u")
        await stage.type("it.bmp")
        await stage.press("enter")
        assert "× End the name in .tsv" in stage.text
        assert "heaptop --help" not in stage.text, "no advice about the command line"
        await stage.press("escape")
        assert "×" not in stage.text.splitlines()[2]
        assert not (here / "it.bmp").exists()


@pytest.mark.parametrize("ending", ["svg", "txt"])
async def test_the_screen_as_it_is_seen(here: Path, ending: str) -> None:
    async with on_stage() as stage:
        before = stage.text
        await save(stage, f"it.{ending}")
        await stage.until(lambda: "saved the screen" in stage.text, "it is saved")
        text = (here / f"it.{ending}").read_text(encoding="utf-8")
        if ending == "txt":
            assert text == before
        else:
            assert text.startswith("<svg")
            assert "shop.models.Session" in text


async def test_while_something_is_asked_y_says_yes_and_nothing_else() -> None:
    async with on_stage() as stage:
        await stage.press("V")
        await stage.press("s", "y")
        assert stage.live.client.values
        assert not stage.app.clipboard
        await stage.press("y")
        assert stage.app.clipboard


async def test_a_stack_is_copied_whole_and_a_path_from_its_root() -> None:
    source = FakeSource()
    source.sample(64 << 10, 128)
    async with on_stage(source=source) as stage:
        await stage.press("2", "enter", "j", "j", "y")
        lines = stage.app.clipboard.splitlines()
        assert lines[0] == "shop/views.py:88 create_session"
        assert lines[1].startswith("Stack 1 of 2")
        assert not any("Stack 2" in line for line in lines)
        assert len(lines) > 3
        await stage.press("1", "w")
        await stage.until(lambda: stage.live.view.table.row_count > 3, "its paths are there")
        await stage.press("home", "j", "j", "y")
        assert stage.app.clipboard.startswith("module shop.cache ._"), "not just the last step"


async def test_what_is_too_much_for_a_clipboard_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_stage() as stage:
        monkeypatch.setattr(VIEWS["bands"], "copied", "x" * 60_000)
        await stage.press("y")
        assert "60,000 bytes are more than a terminal's clipboard takes" in stage.text
        assert not stage.app.clipboard


async def test_a_recording_says_of_which_moment_it_is(tmp_path: Path, here: Path) -> None:
    async with opened(written(tmp_path / "night.heaptop", TICKS)) as stage:
        await stage.at(LAST)
        await stage.press("y")
        assert stage.app.clipboard
        await save(stage, "it.tsv")
        text = (here / "it.tsv").read_text(encoding="utf-8")
        assert "# moment: 2026-" in text or "# moment: 20" in text
        assert "recording · 15:45:40" in text


async def test_without_rows_nothing_is_copied() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("type:nowhere")
        await stage.press("enter")
        await stage.settled()
        await stage.press("y")
        await stage.until(lambda: "there is no row to copy" in stage.text, "it is said")
        assert not stage.app.clipboard


@pytest.mark.parametrize("keys", [(), ("2",), ("7",), ("8",)], ids=str)
async def test_the_text_of_a_screen_is_what_stands_on_the_terminal(keys: tuple[str, ...], tmp_path: Path) -> None:
    async with opened(written(tmp_path / "night.heaptop")) as stage:
        await stage.press(*keys)
        await stage.until(stage.text.strip, "it is drawn")
        await stage.until(lambda: drawn_lines(stage.app.screen) == stage.text.splitlines(), "both are the same")
