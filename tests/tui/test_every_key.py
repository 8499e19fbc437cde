"""Every key of every binding table is pressed, and does something that can be seen: a key without an entry here fails.

An entry says what is looked at, and what it is once the key was pressed; before, it must have been something else. So
there is no entry without an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.command import CommandPalette
from textual.geometry import Size

from heaptop.analysis.bands.table import SORTS
from heaptop.protocol.source import ProcessRow
from heaptop.tui.keys import bindings
from heaptop.tui.keys.bindings import PICKER, RECORDING, SEVERAL, Key
from heaptop.tui.screens import picker
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.screens.picker import SORTS as SORTS_OF_PROCESSES
from heaptop.tui.screens.picker import PickerScreen
from heaptop.tui.state.control.recording import UNRECORDABLE
from heaptop.tui.state.sampling_words import WITHOUT_C
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.views.retainers.view import RetainersView
from heaptop.tui.widgets.filter_bar import FilterBar
from heaptop.tui.widgets.help_screen import HelpScreen
from tests.fakes.source import FakeSource
from tests.support.recorded import written
from tests.tui.several import in_tabs
from tests.tui.support import Stage, on_stage
from tests.tui.test_picker import picking
from tests.tui.test_recording import LAST, TICKS, Watched, opened

pytestmark = pytest.mark.usefixtures("plain_environment", "utc")


@dataclass(frozen=True)
class Check:
    """What a press of one key does."""

    seen: Callable[[Any], object]
    """What is looked at, on the stage."""
    then: object
    """What that is after the press, and was not before."""
    before: tuple[str, ...] = ()
    """Keys that are pressed first."""
    ready: Callable[[Any], object] = lambda stage: True
    """What is waited for between them and the key."""


def table(stage: Stage) -> Any:
    return stage.live.table


def sort(stage: Stage) -> tuple[str, bool]:
    return stage.bands._chosen


def editing(stage: Stage) -> bool:
    return stage.app.screen.query_one(FilterBar).editing


def retainers(stage: Stage) -> RetainersView:
    return stage.live.query_one(RetainersView)


def at_rest(stage: Stage) -> bool:
    """A snapshot is open, and has answered all that it was asked."""
    live = stage.live
    return live.client.is_open and not live.client.is_busy and not live.hunting.is_busy and bool(retainers(stage)._rows)


def marked(stage: Stage) -> bool:
    return len(stage.live.hunting.marks) == 1 and not stage.live.hunting.is_busy


MOVING: dict[str, Check] = {
    "row(1)": Check(lambda stage: table(stage).cursor, 1),
    "row(-1)": Check(lambda stage: table(stage).cursor, 0, ("j",)),
    "page(1)": Check(lambda stage: table(stage).cursor > 3, True),
    "page(-1)": Check(lambda stage: table(stage).cursor < 18, True, ("G",)),
    "shift(-8)": Check(lambda stage: table(stage)._shift < 0, True, ("G",)),
    "shift(8)": Check(lambda stage: table(stage)._shift, 0, ("G", "h")),
    "top_prefix": Check(lambda stage: table(stage).cursor, 0, ("G", "g")),
    "top": Check(lambda stage: table(stage).cursor, 0, ("G",)),
    "bottom": Check(lambda stage: table(stage).cursor, 19),
    "palette": Check(lambda stage: isinstance(stage.app.screen, CommandPalette), True),
    "help": Check(lambda stage: isinstance(stage.app.screen, HelpScreen), True),
}


def has_drawn(stage: Stage) -> bool:
    """As on a terminal: what stands there is known."""
    stage.app._shown.size = stage.app.size
    return True


ANYWHERE: dict[str, Check] = {
    "suspend": Check(lambda stage: "no shell can resume heaptop" in stage.text, True),
    "redraw": Check(lambda stage: stage.app._shown.size == Size(0, 0), True, (), has_drawn),
}
ON_LIVE: dict[str, Check] = {
    **MOVING,
    **{
        f"view('{name}')": Check(lambda stage: stage.live.view.NAME, name, ("2",) if name == "bands" else ())
        for name in VIEWS
    },
    "next_view(-1)": Check(lambda stage: stage.live.view.NAME, [*VIEWS][-1]),
    "next_view(1)": Check(lambda stage: stage.live.view.NAME, "producers"),
    "last_view": Check(lambda stage: stage.live.view.NAME, "lifetimes", ("6", "8")),
    "cycle_key": Check(lambda stage: stage.bands.words[0], "Bands by module"),
    "variant": Check(lambda stage: stage.live.view.words[0], f"Producers ≈ sampled tree, live{WITHOUT_C}", ("2",)),
    "filter": Check(editing, True),
    "drill": Check(lambda stage: stage.bands.depth, 2, ("b",)),
    "back": Check(lambda stage: stage.bands.depth, 1, ("b", "enter")),
    "why": Check(lambda stage: stage.live.view.NAME, "retainers"),
    "pause": Check(lambda stage: "paused" in stage.text, True),
    "rate": Check(lambda stage: stage.source.sampling[-1], (8 << 10, 128)),
    "depth": Check(lambda stage: stage.source.sampling[-1], (64 << 10, 512)),
    "census": Check(lambda stage: stage.source.census_requests, 1),
    "snapshot": Check(lambda stage: stage.live.client.is_open, True),
    "shut": Check(lambda stage: stage.live.client.is_open, False, ("3",), at_rest),
    "mark": Check(marked, True),
    "look": Check(lambda stage: stage.live.hunting.found is not None, True, ("m",), marked),
    "mark_named": Check(lambda stage: "mark name" in stage.text, True),
    "exclude": Check(lambda stage: len(retainers(stage)._finder.excluded), 1, ("3", "b", "b"), at_rest),
    "pin": Check(lambda stage: (table(stage)._cursor, table(stage).cursor), (0, 2), ("j", "j")),
    "match(1)": Check(lambda stage: table(stage).cursor, 12, ("slash", *"Basket", "enter", "escape", "g", "g")),
    "match(-1)": Check(lambda stage: table(stage).cursor, 12, ("slash", *"Basket", "enter", "escape", "g", "g")),
    "unfold": Check(lambda stage: "› main" in stage.text, False, ("2", "b", "j", "j", "enter", "j")),
    "tag": Check(lambda stage: len(retainers(stage)._tagged), 1, ("3", "b", "j"), at_rest),
    "zoom(1)": Check(
        lambda stage: stage.live.view.crumbs, ("zoomed in",), ("5",), lambda stage: table(stage).window is not None
    ),
    "zoom(-1)": Check(
        lambda stage: stage.live.view.crumbs, (), ("5", "z"), lambda stage: table(stage).window is not None
    ),
    "values": Check(lambda stage: "Show values" in stage.text, True),
    "sort_column(-1)": Check(sort, ([*SORTS][[*SORTS].index("bytes") - 1], True)),
    "sort_column(1)": Check(sort, ([*SORTS][[*SORTS].index("bytes") + 1], True)),
    "invert": Check(sort, ("bytes", False)),
    "follow": Check(lambda stage: table(stage).follow, True),
    "copy": Check(lambda stage: stage.app.clipboard.split("\t")[0] == table(stage).row_key, True),
    "save": Check(lambda stage: "save as heaptop-4242-bands-" in stage.text, True),
    "answer(True)": Check(lambda stage: stage.live.client.values, True, ("V",)),
    "answer(False)": Check(lambda stage: stage.live.state.questions, (), ("V",)),
    "record": Check(lambda stage: stage.live.state.status.text, UNRECORDABLE),
    "leave": Check(lambda stage: stage.source.closed, True),
    **ANYWHERE,
}
ON_RECORDING: dict[str, Check] = {
    "step(-1)": Check(lambda stage: stage.minutes, LAST - 1),
    "step(1)": Check(lambda stage: stage.minutes, LAST, ("comma",), lambda stage: stage.minutes == LAST - 1),
    "tenths(-1)": Check(lambda stage: stage.minutes < LAST - 1, True),
    "tenths(1)": Check(lambda stage: stage.minutes, LAST, ("comma",), lambda stage: stage.minutes == LAST - 1),
    "jump(1)": Check(
        lambda stage: "this recording has no jumps" in stage.text, True, (), lambda stage: stage.live.state.heap
    ),
    "jump(-1)": Check(
        lambda stage: "this recording has no jumps" in stage.text, True, (), lambda stage: stage.live.state.heap
    ),
    "moment": Check(lambda stage: "go to" in stage.text, True),
}


def listing(stage: Stage) -> Any:
    """What the picker's list is read from."""
    return stage.app.screen_stack[1]._picker.processes.__self__  # type: ignore[attr-defined]


def more_processes(stage: Stage) -> bool:
    """There are some that the list does not show yet."""
    more = [ProcessRow(9000 + n, "shop", "3.12.1", 1_000_000, f"python worker{n}.py", True) for n in range(16)]
    listing(stage).rows = [*listing(stage).rows[:4], *more]
    return True


def a_long_reason(stage: Stage) -> bool:
    """There is more to read than a row has room for."""
    reason = "a reason with many words"
    if reason[:5] not in stage.text:
        listing(stage).rows = [ProcessRow(9000, "shop", "3.12.1", 1_000_000, "python w.py", False, 9 * reason)]
        stage.app.screen.action_reload()  # type: ignore[attr-defined]
    return reason[:5] in stage.text


def picker_shift(stage: Stage) -> int:
    return int(stage.app.screen_stack[1].table._shift)  # type: ignore[attr-defined]


def a_group(stage: Stage) -> bool:
    """The first one has started another, and the list shows it."""
    worker = ProcessRow(9000, "shop", "3.12.1", 1_000_000, "python worker.py", True, parent=4242)
    first = next(row for row in listing(stage).rows if row.pid == 4242)
    if "9000" not in stage.text:
        listing(stage).rows = [first, worker]
        stage.app.screen.action_reload()  # type: ignore[attr-defined]
    return "9000" in stage.text


def order(stage: Stage) -> tuple[str, bool]:
    screen = stage.app.screen_stack[1]
    assert isinstance(screen, PickerScreen)
    return screen._sort, screen._descending


def cursor(stage: Stage) -> int:
    return stage.app.screen_stack[1].table.cursor  # type: ignore[attr-defined, no-any-return]


ON_PICKER: dict[str, Check] = {
    "attach": Check(lambda stage: any(isinstance(each, LiveScreen) for each in stage.app.screen_stack), True),
    "filter": Check(editing, True),
    "back": Check(lambda stage: stage.app.screen._filter, "", ("slash", "s", "enter")),  # type: ignore[attr-defined]
    "reload": Check(lambda stage: "9000" in stage.text, True, (), more_processes),
    "row(1)": Check(cursor, 1),
    "row(-1)": Check(cursor, 0, ("j",)),
    "page(1)": Check(cursor, 3),
    "page(-1)": Check(cursor, 0, ("G",)),
    "shift(-8)": Check(picker_shift, 0, ("l",), a_long_reason),
    "shift(8)": Check(picker_shift, 8, (), a_long_reason),
    "top_prefix": Check(cursor, 0, ("G", "g")),
    "top": Check(cursor, 0, ("G",)),
    "bottom": Check(cursor, 3),
    "palette": MOVING["palette"],
    "help": MOVING["help"],
    "leave": Check(lambda stage: stage.app.is_running, False),
    "attach_group": Check(lambda stage: listing(stage).joined, [[4242, 9000]], (), a_group),
    "sort_column(-1)": Check(order, (SORTS_OF_PROCESSES[SORTS_OF_PROCESSES.index("rss") - 1], False)),
    "sort_column(1)": Check(order, ("growth", True)),
    "invert": Check(order, ("rss", False)),
    **ANYWHERE,
}
ON_SEVERAL: dict[str, Check] = {
    "tab(1)": Check(lambda stage: stage.tabs.shown, 1),
    "tab(-1)": Check(lambda stage: stage.tabs.shown, 3),
}
CHECKS: Mapping[str, tuple[tuple[Key, ...], dict[str, Check]]] = {
    "LIVE": (LIVE, ON_LIVE),
    "RECORDING": (RECORDING, ON_RECORDING),
    "PICKER": (PICKER, ON_PICKER),
    "SEVERAL": (SEVERAL, ON_SEVERAL),
}


def waits_for_map(stage: Stage) -> bool:
    shown = stage.app.screen
    return isinstance(shown, LiveScreen) and getattr(shown.table, "window", shown) is None


def presses(name: str) -> list[Any]:
    """Every key by every name that it has."""
    keys = CHECKS[name][0]
    return [pytest.param(each, key, id=f"{each}-{key.action}") for key in keys for each in key.keys.split(",")]


async def pressed(stage: Stage, name: str, check: Check | None) -> None:
    """Press it, and see that it did what its entry says."""
    assert check is not None, "this key has no entry in tests/tui/test_every_key.py"
    for key in check.before:
        await stage.press(key)
        await stage.until(lambda: not waits_for_map(stage), "there is a map to move in")
        await stage.settled()
    await stage.until(lambda: check.ready(stage), "all is ready for the key")
    assert check.seen(stage) != check.then, "it is so before the key is pressed"
    await stage.press(name)
    await stage.until(lambda: check.seen(stage) == check.then, f"{name} has done what it is for: {check.then}")


def test_every_table_and_every_action_is_here() -> None:
    tables = {name for name, each in vars(bindings).items() if isinstance(each, tuple) and name.isupper()}
    tables = {name for name in tables if name[0] != "_"} - {"HEAPTOP"} | {"LIVE"}  # the one is a part of the other
    assert tables == set(CHECKS), "a table of keys has no entries"
    for keys, checks in CHECKS.values():
        assert {key.action for key in keys} == set(checks)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "key"), presses("LIVE"))
async def test_each_key_does_what_it_says_on_a_process(name: str, key: Key) -> None:
    source = FakeSource()
    source.sample(64 << 10, 128)
    async with on_stage(censuses=4, source=source) as stage:
        await pressed(stage, name, ON_LIVE.get(key.action))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "key"), presses("RECORDING"))
async def test_each_key_does_what_it_says_on_a_recording(tmp_path: Path, name: str, key: Key) -> None:
    async with opened(written(tmp_path / "night.heaptop", TICKS)) as stage:
        await stage.at(LAST)
        assert isinstance(stage, Watched)
        await pressed(stage, name, ON_RECORDING.get(key.action))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "key"), presses("PICKER"))
async def test_each_key_does_what_it_says_in_the_picker(monkeypatch: pytest.MonkeyPatch, name: str, key: Key) -> None:
    monkeypatch.setattr(picker, "REFRESH_SECONDS", 1000.0)
    async with picking((50, 12)) as (stage, _):
        await pressed(stage, name, ON_PICKER.get(key.action))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "key"), presses("SEVERAL"))
async def test_each_key_does_what_it_says_on_several_processes(name: str, key: Key) -> None:
    async with in_tabs() as stage:
        await pressed(stage, name, ON_SEVERAL.get(key.action))
