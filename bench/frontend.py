"""What the screen costs: a tick from its bytes to strips, the first frame, bytes on the line, a long table, and rest.

    python bench/frontend.py                       all of it, in some four minutes
    python bench/frontend.py --only tick start     parts: tick, start, line, scroll, rest
    python bench/frontend.py --runs 9              medians of nine (default seven)

``tick``: 500 samples from 5,000 sites that are known, and a census of 2,000 types, of every tenth of which there are
more or fewer than before, as the agent's bytes, in each view at 200x50: CPU time from decoding to the strips of a
frame, by its parts, and the bytes of that frame; beside all of the screen drawn anew, and beside Textual's DataTable
with the rows of the same census. It is a busy second: 500 samples are 32 MB allocated at the default rate, each at a
moment and from a site of its own, nearly as many die, and each is born without a type, which the census then tells.
Tick and census are answered one by one, and each is a frame of its own, as on a screen that is not behind. ``later`` is
what a view that is not looked at would need of a tick, which is worked in when the frame has been drawn. ``start``:
from the command to the first bytes of a frame in a pty, which says what is attached to, wall clock and CPU time.
``line``: bytes a second at the pty in each view of the demo, which is busy, and frames a second. ``scroll``: a table of
10,000 rows, CPU time and bytes of a page, beside DataTable. ``rest``: what heaptop uses of a core, of a target that
does nothing. Wall-clock times count on a quiet machine only; CPU times are up to twice as long on a busy one.

It exits with 1 where a promise is broken, with 2 where one was not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.promises import Promise, together  # noqa: E402
from rich.color import ColorSystem  # noqa: E402
from tests.fakes import source as testing  # noqa: E402
from tests.support.processes import running, this_python  # noqa: E402
from tests.support.pty_terminal import PtyTerminal, pty_terminal  # noqa: E402
from textual._compositor import CompositorUpdate  # noqa: E402
from textual.app import App, ComposeResult  # noqa: E402
from textual.geometry import Size  # noqa: E402
from textual.screen import Screen  # noqa: E402
from textual.widgets import DataTable  # noqa: E402

from heaptop.protocol.codec import decode, encode  # noqa: E402
from heaptop.protocol.messages import (  # noqa: E402
    BIRTH,
    DEATH,
    Census,
    CensusRequest,
    CodeName,
    Message,
    SamplerRequest,
    Samples,
    StackNode,
    TickRequest,
    Types,
)
from heaptop.protocol.registry import REPLIES  # noqa: E402
from heaptop.protocol.source import Received  # noqa: E402
from heaptop.tui.app import make_app  # noqa: E402
from heaptop.tui.charts.chart_style import ChartStyle  # noqa: E402
from heaptop.tui.charts.palette import choose  # noqa: E402
from heaptop.tui.screens.live import LiveScreen  # noqa: E402
from heaptop.tui.state.sheet import CellText, Column, Sheet  # noqa: E402
from heaptop.tui.terminal.plain import collect_seldom  # noqa: E402
from heaptop.tui.terminal.shown_cells import ShownCells  # noqa: E402
from heaptop.tui.views import VIEWS  # noqa: E402
from heaptop.tui.widgets.virtual_table import VirtualTable  # noqa: E402

SIZE: Final = (200, 50)
TYPES: Final = 2_000
SITES: Final = 5_000
BORN: Final = 500
"""Samples that a tick brings, each from another site: none of what is known of one serves the next."""
MOVING: Final = 10
"""Of one type in so many there are more or fewer at each census; of the others as many as before."""
ROWS: Final = 10_000
PARTS: Final = ("tick", "start", "line", "scroll", "rest")


# -- a tick --------------------------------------------------------------------------------------------------


def large_agent() -> testing.FakeAgent:
    """The fake agent with a heap of 2,000 types and a program of 5,000 sites: what its tables are is patched."""
    shapes = list(testing.Shape)
    testing.HEAP = tuple(  # type: ignore[misc]
        testing._Population(
            f"shop.part{at // 40}",
            f"Kind{at}",
            testing.Shape.STEADY if at % MOVING else shapes[at // MOVING % 4],
            50 + at % 700,
            64 + 16 * (at % 50),
            ((1, 5), (2, 95)) if at % 3 == 0 else ((2, 100),) if at % 3 == 1 else testing._LEAF,
        )
        for at in range(TYPES)
    )
    testing.BYTES_PER_TICK = BORN << 16  # type: ignore[misc]
    files = SITES // 10
    testing.CODES = tuple(  # type: ignore[misc]
        CodeName(f"/srv/shop/part{at % files}.py", f"make{at}", 10 + at // files) for at in range(SITES)
    )
    testing.STACKS = tuple(  # type: ignore[misc]
        StackNode(0 if at < 20 else 1 + at % 20, at, 12 + at // files) for at in range(SITES)
    )
    return testing.FakeAgent()


def allocate(tick: int) -> None:
    """Which sites allocate at this tick: all of them at the first, then some, by turns."""
    sites = range(SITES) if not tick else range(tick * BORN, (tick + 1) * BORN)
    testing.ALLOCATIONS = tuple(  # type: ignore[misc]
        testing._Allocation(1 + site % SITES, 64 << site % 6, 1, site % 7, f"Kind{site % TYPES}") for site in sites
    )


class Ticks:
    """What the agent says, tick after tick, as bytes."""

    def __init__(self) -> None:
        self._agent = large_agent()
        self._requests = 0

    def begin(self) -> list[bytes]:
        return [encode(message) for message in self._agent.answer(SamplerRequest(0, 65_536, 32))]

    def next(self) -> tuple[list[bytes], list[bytes]]:
        """What a tick is answered by, and a census."""
        agent = self._agent
        allocate(self._requests)
        agent.advance()
        self._requests += 1
        tick = agent.answer(TickRequest(2 * self._requests))
        census = agent.answer(CensusRequest(2 * self._requests + 1))
        return [encode(_spread(message)) for message in tick], [encode(_spread(message)) for message in census]


def _spread(message: Message) -> Message:
    """The same births and deaths, each at a moment of its own within the tick: the fake agent's come all at once."""
    if not isinstance(message, Samples):
        return message
    births, deaths = [*BIRTH.iter_unpack(message.births)], [*DEATH.iter_unpack(message.deaths)]
    begin, tick = message.clock - testing.BYTES_PER_TICK, testing.BYTES_PER_TICK
    return replace(
        message,
        births=b"".join(
            BIRTH.pack(*record[:2], begin + tick * at // len(births), *record[3:]) for at, record in enumerate(births)
        ),
        deaths=b"".join(DEATH.pack(*record[:2], begin + tick * at // len(deaths)) for at, record in enumerate(deaths)),
    )


class Frames:
    """The strips that an app would have sent to a terminal."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._drawn: list[CompositorUpdate] = []
        self._came = asyncio.Event()
        app._display = self._display  # type: ignore[method-assign]

    def _display(self, screen: Screen[object], update: object) -> None:
        if isinstance(update, CompositorUpdate):
            self._drawn.append(update)
            self._came.set()

    async def after(self, work: Callable[[], object]) -> tuple[float, list[CompositorUpdate]]:
        """CPU ms from the beginning of ``work`` to the strips of the frame that it leads to, and these; not at all
        where nothing is drawn."""
        await asyncio.sleep(0.3)
        self._drawn.clear()
        self._came.clear()
        begin = time.process_time()
        work()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._came.wait(), 2)
        return 1e3 * (time.process_time() - begin), list(self._drawn)


class Rows(App[None]):
    """The peer: a DataTable with the rows of a census."""

    def compose(self) -> ComposeResult:
        yield DataTable()


async def data_table(censuses: Sequence[Census], names: Sequence[str]) -> float:
    """CPU ms of a census on a DataTable: its cells updated, sorted, and drawn."""
    app = Rows()
    spent = []
    async with app.run_test(size=SIZE):
        frames, table = Frames(app), app.query_one(DataTable)
        for title in ("Type", "Generation", "Objects", "Bytes"):
            table.add_column(title, key=title)
        rows = {(row.type, row.generation) for census in censuses for row in census.rows}
        for kind, generation in sorted(rows):
            table.add_row(names[kind], generation, 0, 0, key=f"{kind} {generation}")

        def show(census: Census) -> None:
            for row in census.rows:
                key = f"{row.type} {row.generation}"
                table.update_cell(key, "Objects", row.count)
                table.update_cell(key, "Bytes", row.bytes)
            table.sort("Bytes", reverse=True)

        for census in censuses:
            took, _ = await frames.after(lambda census=census: show(census))
            spent.append(took)
    return statistics.median(spent)


class Taking:
    """A live screen that is given what the agent said, and what that cost."""

    def __init__(self, live: LiveScreen, frames: Frames) -> None:
        self._live, self._frames = live, frames
        self._shown = ShownCells()
        self.censuses: list[Census] = []
        self._parts: list[list[float]] = []

    async def take(self, payloads: Sequence[bytes]) -> None:
        took, drawn = await self._frames.after(partial(self._take, payloads))
        spent = self._parts[-1]
        sent = sum(len(self._shown.update(each, Size(*SIZE), ColorSystem.TRUECOLOR)) for each in drawn)
        begin = time.process_time()
        self._live.session.sampling.work_in()
        later = 1e3 * (time.process_time() - begin)
        self._parts[-1] = [took, *spent, took - sum(spent), later, sent]

    def _take(self, payloads: Sequence[bytes]) -> None:
        times = [time.process_time()]
        messages = [decode(payload, REPLIES) for payload in payloads]
        times.append(time.process_time())
        for message in messages:
            if isinstance(message, Census):
                self.censuses.append(message)
            if message is not None:
                self._live.state.feed(Received(message))
        times.append(time.process_time())
        self._live._draw()
        times.append(time.process_time())
        self._parts.append([1e3 * (after - before) for before, after in pairwise(times)])

    @property
    def medians(self) -> list[float]:
        """CPU ms of all, of decoding, taking in, showing, strips, and of what is done later; and bytes. The first run
        does not count."""
        return [statistics.median(part) for part in zip(*self._parts[1:], strict=True)]

    @property
    def worst(self) -> float:
        return max(part[0] for part in self._parts[1:])


async def ticks(runs: int) -> list[Promise]:
    """Each view: from the bytes of a tick to strips, and from those of a census."""
    said = Ticks()
    source = testing.FakeSource(testing.FakeAgent())
    app = make_app(source)
    promises, names, taken = [], [], []
    async with app.run_test(size=SIZE) as pilot:
        source.attach()
        live = next(screen for screen in app.screen_stack if isinstance(screen, LiveScreen))
        for payload in chain(said.begin(), *(chain(*said.next()) for _ in range(30))):
            message = decode(payload, REPLIES)
            assert message is not None
            if isinstance(message, Types):
                names += [name.full for name in message.names]
            source._send(Received(message))
        live._take_events()
        await pilot.pause()
        frames = Frames(app)
        collect_seldom()  # as the app does in a terminal
        heads = ("a frame", "decoded", "taken in", "shown", "strips", "later", "bytes", "worst", "anew")
        print(f"{'CPU ms':12}{'':8}" + "".join(f"{head:>9}" for head in heads))
        for name in VIEWS:
            live.action_view(name)
            for _ in range(3):
                await pilot.pause(0.2)
            tick, census, anew = Taking(live, frames), Taking(live, frames), []
            for _ in range(runs + 1):
                answers = said.next()
                await tick.take(answers[0])
                await census.take(answers[1])
                took, _ = await frames.after(live.refresh)
                anew.append(took)
            for of, one in (("tick", tick), ("census", census)):
                figures = (*one.medians, one.worst)
                columns = "".join(f"{figure:9,.{0 if at == 6 else 1}f}" for at, figure in enumerate(figures))
                print(f"{name:12}{of:8}{columns}{statistics.median(anew[1:]):9.1f}", flush=True)
                promises.append(Promise(f"a {of} in view {name}, CPU ms", 16, False, one.medians[0]))
            taken += census.censuses
    print(f"DataTable   {await data_table(taken[-runs:], names):17.1f}   the same rows")
    return promises


# -- in a terminal -------------------------------------------------------------------------------------------


def heaptop(*words: str) -> list[str]:
    return [sys.executable, "-m", "heaptop", *words]


ENVIRONMENT: Final = {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": ""}


def used(pid: int) -> float:
    """Seconds of processor time of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def leave(terminal: PtyTerminal) -> None:
    terminal.press("q")
    terminal.until(lambda: terminal.process.poll() is not None)


def starts(runs: int) -> list[Promise]:
    """From the command to the first bytes of a frame."""
    walls, spent = [], []
    with running(this_python(), "heap_growing") as target:
        for _ in range(runs + 1):
            begin = time.monotonic()
            with pty_terminal(heaptop("attach", str(target.pid)), *SIZE, ENVIRONMENT) as terminal:
                terminal.until(lambda: terminal.first_frame is not None)
                spent.append(1e3 * used(terminal.pid))
                walls.append(1e3 * ((terminal.first_frame or float("nan")) - begin))
                terminal.shows("live")
                leave(terminal)
    wall = statistics.median(walls[1:])
    print(f"start: first frame after {wall:.0f} ms ({min(walls[1:]):.0f} to {max(walls[1:]):.0f}),", end=" ")
    print(f"{statistics.median(spent[1:]):.0f} ms of CPU")
    return [Promise("first frame after the start, ms", 400, False, wall, 0)]


def lines(seconds: float) -> list[Promise]:
    """Bytes a second in each view, of a program that is busy."""
    promises = []
    with pty_terminal(heaptop("demo"), *SIZE, ENVIRONMENT) as terminal:
        terminal.shows("live", "row 1 of")
        for name, view in VIEWS.items():
            terminal.press(str(view.NUMBER))
            time.sleep(2)
            begin, sent, frames, cpu = time.monotonic(), terminal.bytes_read, terminal.frames, used(terminal.pid)
            time.sleep(seconds)
            took = time.monotonic() - begin
            rate, often = (terminal.bytes_read - sent) / took / 1e3, (terminal.frames - frames) / took
            share = 100 * (used(terminal.pid) - cpu) / took
            print(f"line: {name:12}{rate:6.1f} kB/s {often:5.1f} frames/s {share:5.1f} % of a core", flush=True)
            promises.append(Promise(f"at the pty in view {name}, kB/s", 20, False, rate))
            promises.append(Promise(f"frames in view {name}, 1/s", 10, False, often))
        leave(terminal)
    return promises


class Long(App[None]):
    """Our table of many rows, alone."""

    def compose(self) -> ComposeResult:
        yield VirtualTable()

    def on_mount(self) -> None:
        columns = (Column("name", "Name", 0, right=False), Column("count", "Count", 12), Column("bytes", "Bytes", 12))
        self.query_one(VirtualTable).show(
            Sheet(
                columns=columns,
                rows=range(ROWS),
                key=str,
                draw=lambda row: (CellText(f"shop.models.Kind{row}"), CellText(f"{row:,}"), CellText(f"{row * 64:,}")),
                look=ChartStyle.of(choose("dark", {}), ascii_only=False),
            )
        )


class LongPeer(App[None]):
    """The same rows in Textual's own table."""

    def compose(self) -> ComposeResult:
        yield DataTable(cursor_type="row")

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        table.add_columns("Name", "Count", "Bytes")
        table.add_rows([(f"shop.models.Kind{row}", f"{row:,}", f"{row * 64:,}") for row in range(ROWS)])


async def scrolls(runs: int) -> list[Promise]:
    """A page down in 10,000 rows: CPU time to strips, and what is sent."""
    medians = []
    for app in (Long(), LongPeer()):
        spent, sizes, shown = [], [], ShownCells()
        async with app.run_test(size=SIZE):
            frames = Frames(app)
            for _ in range(runs + 1):
                if isinstance(app, Long):
                    took, drawn = await frames.after(partial(app.query_one(VirtualTable).page, 1))
                else:
                    took, drawn = await frames.after(app.query_one(DataTable).action_page_down)
                spent.append(took)
                sizes.append(sum(len(shown.update(each, Size(*SIZE), ColorSystem.TRUECOLOR)) for each in drawn))
        medians.append(statistics.median(spent[1:]))
        name = "heaptop" if isinstance(app, Long) else "DataTable"
        print(f"scroll: {name:10}{medians[-1]:6.1f} ms of CPU, {statistics.median(sizes[1:]):,.0f} bytes a page")
    return [Promise("a page of 10,000 rows, CPU ms", 16, False, medians[0])]


def rests(seconds: float) -> list[Promise]:
    """What it uses of a core while the target does nothing."""
    with (
        running(this_python(), "sleeper") as target,
        pty_terminal(heaptop("attach", str(target.pid)), *SIZE, ENVIRONMENT) as terminal,
    ):
        terminal.shows("live", "row 1 of")
        time.sleep(5)
        before, sent, begin = used(terminal.pid), terminal.bytes_read, time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - begin
        share, rate = 100 * (used(terminal.pid) - before) / took, (terminal.bytes_read - sent) / took
        leave(terminal)
    print(f"rest: {share:.1f} % of a core, {rate:.0f} bytes/s")
    return [Promise("of an idle target, % of a core", 5, False, share)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--runs", type=int, default=7, help="medians of so many (default 7)")
    args = parser.parse_args()
    parts: dict[str, Callable[[], list[Promise]]] = {
        "start": lambda: starts(args.runs),
        "line": lambda: lines(5),
        "rest": lambda: rests(20),
        "scroll": lambda: asyncio.run(scrolls(args.runs)),
        "tick": lambda: asyncio.run(ticks(args.runs)),
    }
    promises = [promise for name, measure in parts.items() if name in args.only for promise in measure()]
    for promise in promises:
        print(promise)
    return int(together(promise.verdict for promise in promises))


if __name__ == "__main__":
    sys.exit(main())
