"""View 9: what resident memory is used for, over time and in figures; when it is asked; and every key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from heaptop.analysis.rss.memory import NAMES
from heaptop.analysis.rss.memory_history import OWNERS, UNSEEN, MemoryFacts, MemoryHistory, UseHistory
from heaptop.errors import TargetExited
from heaptop.protocol.messages import (
    OWN_ARENA,
    Malloc,
    MallocBlocks,
    MallocFrame,
    MallocSite,
    MallocSites,
    Memory,
    MemoryRequest,
    OtherMalloc,
    Outside,
    Pymalloc,
    Region,
)
from heaptop.recordings import blocks
from heaptop.recordings.reader import Recording
from heaptop.recordings.recordable_source import RecordableSource
from heaptop.recordings.replay import ReplaySource
from heaptop.tui.app import make_app
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.views.memory.memory_tables import arena_size, parts
from heaptop.tui.views.memory.memory_words import ABOUT, DENIED, FIRST, RECORDED, about
from heaptop.tui.views.memory.view import series
from heaptop.tui.widgets.help_screen import HelpScreen
from tests.fakes.source import OUTSIDE, FakeSource
from tests.tui.sampled import column
from tests.tui.support import LARGE, SIZES, SMALL, Stage, check_golden, on_stage, screen_text

pytestmark = pytest.mark.usefixtures("plain_environment")
KIB, MIB = 1 << 10, 1 << 20
SHOWN = [key for key in NAMES if key != "own"]
"""The rows of a process that nothing of heaptop's was seen in, as in a recording from before that was looked at."""
OWN = (
    Region("own", OWN_ARENA, 2 * MIB, 2 * MIB + 128 * KIB),
    Region("own", "native core: library", 320 * KIB, 328 * KIB),
    Region("own", "sampler: tables", 64 * KIB, 15 * MIB),
)


class Resident(FakeSource):
    """Memory is asked, and answered when a test says: RSS is that of the ticks, and what grows is free in pools."""

    def memory_now(self) -> None:
        self.memory_requests += 1

    def answer(self, **changes: object) -> None:
        (said,) = self.agent.answer(MemoryRequest(1))
        assert isinstance(said, Memory)
        malloc = Malloc(9 * MIB, 7 * MIB, 2 * MIB, 13 * MIB, 3, False)
        self.say(replace(said, malloc=malloc, outside=self.outside(), **changes))  # type: ignore[arg-type]

    def outside(self) -> Outside:
        grown = (self.agent.ticks - 1) * 128 * KIB
        pymalloc = Pymalloc(32 * MIB + grown, 27 * MIB, 3 * MIB + grown, 1280 * KIB, 768 * KIB)
        regions = (
            Region("arena", "", 32 * MIB + grown, 33 * MIB + grown),
            Region("chunk", "", 12 * MIB, 13 * MIB),
            Region("heap", "main", 9 * MIB, 9 * MIB),
            Region("file", "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0", 4 * MIB, 6 * MIB),
            Region("file", "/usr/bin/python3.11", 2 * MIB, 5 * MIB),
            Region("anonymous", "", 3 * MIB + 896 * KIB, 40 * MIB),
            Region("stack", "thread 4243 worker", 768 * KIB, 8 * MIB),
            Region("stack", "main thread", 256 * KIB, 132 * KIB),
            Region("shared", "/dev/shm/board", 64 * KIB, MIB),
            Region("kernel", "[vdso]", 64 * KIB, 64 * KIB),
        )
        return Outside(regions, 0, 0, 0, pymalloc, 38_000_000, ())


class Attended(Resident):
    """With what heaptop itself takes of it."""

    def answer(self, **changes: object) -> None:
        super().answer(own_small=200 * KIB, own_large=160 * KIB, **changes)

    def outside(self) -> Outside:
        """RSS is the same: less is of no name."""
        seen = super().outside()
        less = sum(region.rss for region in OWN)
        others = [replace(each, rss=each.rss - less) if each.kind == "anonymous" else each for each in seen.regions]
        return replace(seen, regions=(*others, *OWN), rss_before=63 * MIB)


@asynccontextmanager
async def on_memory_stage(
    size: tuple[int, int] = SMALL, *, samples: int = 12, ascii: bool = False, source: Resident | None = None
) -> AsyncIterator[Stage]:
    """The view after twelve ticks on which nobody looked, and ``samples`` on which somebody did."""
    source = source or Resident()
    async with on_stage(size, censuses=12, source=source, ascii=ascii) as stage:
        stage.live.state.memory.clock = lambda: 0.0  # it is asked when a test says so, and not by the machine's time
        await stage.press("9")
        for _ in range(samples):
            await stage.ticks(1)
            source.answer()
        if samples:
            await stage.until(lambda: len(stage.live.state.display.memory.samples) == samples, "all answers are drawn")
        await stage.settled()
        yield stage


async def to_row(stage: Stage, key: str) -> None:
    table = stage.live.view.table
    await stage.press("g", "g")
    while table.row_key != key:  # type: ignore[attr-defined]
        await stage.press("j")


# -- what is shown -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_uses_owners_and_inside(size: tuple[int, int]) -> None:
    async with on_memory_stage(size) as stage:
        check_golden("memory-use-{size}", stage.app)
        await stage.press("b")
        assert "Memory by owner" in stage.lines(2)[0]
        assert column(stage, "name")[:3] == ["Python's arenas", "malloc", "mapped files"]
        await stage.press("b")
        await to_row(stage, "pools")
        await stage.press("enter")
        assert "Memory by use  ›  free in pools" in stage.lines(2)[0]
        assert "Free blocks in partly used pools: Python reuses them only for objects of the" in stage.lines(4)[0]
        assert column(stage, "name")[1:3] == ["blocks in use", "free blocks in partly used pools"]
        assert column(stage, "full")[0] == "97.2 %", "what of the arenas is resident"


@pytest.mark.parametrize("size", SIZES)
async def test_memory_of_heaptop_itself_has_a_row_and_parts(size: tuple[int, int]) -> None:
    async with on_memory_stage(size, source=Attended()) as stage:
        await to_row(stage, "own")
        assert "heaptop" in column(stage, "name")
        assert "native core, sampler, agent; RSS was 63.0 MiB before the attach" in stage.text
        await stage.press("enter")
        assert column(stage, "name")[0] == "agent's thread: malloc's arena"
        assert " RSS has changed by +3.88 MiB since the attach." in " ".join(stage.text.split())
        await stage.press("escape", "b")
        assert "heaptop" in column(stage, "name")


async def test_resident_memory_is_ascii_at_both_levels() -> None:
    async with on_memory_stage(ascii=True) as stage:
        assert stage.text.isascii()
        await stage.press("enter")
        assert stage.text.isascii()


async def test_bands_of_memory_differ_by_shade_and_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_memory_stage() as stage:
        chart = "".join(stage.lines(8, 14))
        assert set("█▓▒░") <= set(chart), "bands that touch differ by their shade"
        assert set("ABH~") <= set(chart)


async def test_the_first_line_says_where_the_rest_is() -> None:
    async with on_memory_stage(LARGE) as stage:
        line = next(line for line in stage.text.splitlines() if line.startswith(" RSS"))
        assert line.startswith(" RSS 66.9 MiB: ≈41.4 MiB (61.9 %) ")
        assert "live Python objects; then mapped files 6.00 MiB (9.0 %)" in line
        assert "+1.38 MiB in 11 s; grew most: live Python objects, +7.53 MiB." in line


async def test_the_rows_sum_to_rss() -> None:
    async with on_memory_stage() as stage:
        facts = stage.live.state.display.memory
        assert facts.latest is not None
        assert [row.key for row in facts.latest.explained.rows] == SHOWN
        assert sum(facts.latest.uses.values()) == facts.latest.explained.rss == stage.live.state.display.tick.rss  # type: ignore[union-attr]
        assert sum(facts.samples[-1].owners.values()) == facts.latest.explained.rss


async def test_what_the_row_under_the_cursor_is() -> None:
    async with on_memory_stage() as stage:
        await to_row(stage, "files")
        assert "H: programs, libraries, data" in stage.text
        await stage.press("k")
        assert "H: programs, libraries, data" not in stage.text


async def test_mapped_files_are_listed_by_name() -> None:
    async with on_memory_stage(LARGE) as stage:
        await to_row(stage, "files")
        await stage.press("enter")
        assert column(stage, "name") == ["/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0", "/usr/bin/python3.11"]
        assert column(stage, "full") == ["66.7 %", "40.0 %"]
        assert "the kernel drops them when memory is short" in stage.text
        await stage.press("enter")
        await stage.until(lambda: "nothing more" in stage.text, "it says that there is nothing further")
        await stage.press("escape")
        assert stage.live.view.words[0].startswith("Memory by use")
        assert stage.live.view.table.row_count == len(SHOWN)
        await stage.press("escape")
        assert stage.app.is_running


async def test_what_each_use_is_made_of() -> None:
    async with on_memory_stage() as stage:
        for key, said in (
            ("live", "live objects in all of these"),
            ("free_pools", "all arenas (35 of 1.00 MiB each)"),
            ("malloc_free", "malloc: free in its heaps"),
            ("stacks", "thread 4243 worker"),
            ("shared", "/dev/shm/board"),
            ("rest", "[vdso]"),
        ):
            await to_row(stage, key)
            await stage.press("enter")
            assert said in stage.text
            await stage.press("escape")
            assert said not in stage.text


def read(**changes: object) -> MemoryFacts:
    (said,) = FakeSource().agent.answer(MemoryRequest(1))
    assert isinstance(said, Memory)
    history = MemoryHistory()
    history.feed(replace(said, **{"outside": OUTSIDE, **changes}), ())  # type: ignore[arg-type]  # a test names them
    return history.facts


@pytest.mark.parametrize(
    ("python", "size"), [("3.9.18", 256 * KIB), ("3.10", MIB), ("3.15.0a2", MIB), ("", None), ("2.7.18", None)]
)
def test_how_large_an_arena_is(python: str, size: int | None) -> None:
    assert arena_size(python) == size


def test_mallocs_figures_of_32_bits_are_left_out_where_they_may_have_begun_again() -> None:
    huge = (Region("heap", "main", 5 << 30, 5 << 30), Region("chunk", "", 5 << 30, 5 << 30))
    malloc = Malloc(13 * MIB, 9 * MIB, 4 * MIB, 9 * MIB, 3, True)
    for regions, left in ((OUTSIDE.regions, 3), (huge, 0)):
        facts = read(malloc=malloc, outside=replace(OUTSIDE, regions=regions))
        assert sum(part.kind == "figure" for part in parts(facts, "malloc", None)) == left


async def test_inside_the_free_memory_of_another_allocator_its_name_is_the_crumb() -> None:
    async with on_memory_stage(samples=0) as stage:
        source = stage.source
        assert isinstance(source, Resident)
        source.answer(malloc_name="jemalloc", other_malloc=OtherMalloc(20 * MIB, 2 * MIB, 40 * MIB, MIB))
        await stage.settled()
        await to_row(stage, "malloc_free")
        await stage.press("enter")
        assert "Memory by use  ›  free in jemalloc" in stage.lines(2)[0]


def test_another_malloc_has_the_memory_without_a_name() -> None:
    facts = read(malloc=None, malloc_library="libjemalloc.so.2")
    found = {part.name: part.bytes for part in parts(facts, "malloc", None)}
    assert found["memory of libjemalloc.so.2"] == 1_400_000
    assert [part.name for part in parts(facts, "rest", None)] == ["[vdso]"]


JEMALLOC = Memory(
    0, 0, 1, malloc_library="/usr/lib/libjemalloc.so.2", malloc_name="jemalloc",
    other_malloc=OtherMalloc(20 * MIB, 2 * MIB, 40 * MIB, MIB),
    outside=Outside((Region("anonymous", "", 63 * MIB, 63 * MIB),), 0, 0, 0, None, 0, ()),
)  # fmt: skip


def test_an_allocators_own_figures_are_in_its_rows_by_its_name() -> None:
    history = MemoryHistory()
    history.feed(JEMALLOC, [])
    for key in ("malloc", "malloc_free"):
        figures = {part.name: part.size for part in parts(history.facts, key, None) if part.kind == "figure"}
        assert figures == {
            "jemalloc: in use": 20 * MIB,
            "jemalloc: free in caches and partly used pages": 2 * MIB,
            "jemalloc: unused pages": 40 * MIB,
            "jemalloc: its own tables": MIB,
        }
    found = parts(history.facts, "other", None)
    assert [part.name for part in found if part.size == 20 * MIB] == ["in use in jemalloc"]
    assert all((part.bytes or 0) >= 0 for part in found)


def test_advice_is_beside_what_malloc_keeps_only_where_the_figures_show_that_it_helps() -> None:
    history = MemoryHistory()
    history.feed(JEMALLOC, [])
    assert "background_thread:true" in about(history.facts, "malloc_free")
    assert "background_thread" not in about(history.facts, "rest")
    assert about(read(), "malloc_free") == ABOUT["malloc_free"]


NATIVE = MallocSites(
    MIB, MIB, 9, 0, 0,
    (
        MallocSite("/lib/libz", "inflate", (MallocFrame("/srv/app.py", "load", 4),), "", (MallocBlocks(9, 9, 1, 7),)),
        MallocSite("/lib/libz", "\x1b[", (), "none", (MallocBlocks(5, 5, 1, 1),)),
    ),
)  # fmt: skip


@pytest.mark.parametrize("key", ["other", "malloc"])
def test_where_native_memory_was_allocated_is_in_its_row(key: str) -> None:
    facts = read(outside=replace(OUTSIDE, native=NATIVE))
    found = [(part.name, part.size, part.many) for part in parts(facts, key, None) if part.kind == "site"]
    assert found == [
        ("/srv/app.py:4 libz inflate", 63, "(≈ ±0 B)"),
        ("(no Python stack) libz  [", 5, "(≈ ±0 B)"),
    ]
    assert not [part for part in parts(read(), key, None) if part.kind == "site"]


def test_names_of_the_targets_are_fit_for_a_terminal() -> None:
    regions = (*OUTSIDE.regions, Region("file", "/tmp/\x1b[31mred", 5, 5))
    facts = read(outside=replace(OUTSIDE, regions=regions))
    assert all("\x1b" not in part.name for part in parts(facts, "files", None))


@pytest.mark.parametrize("key", [*NAMES, *OWNERS])
def test_every_row_says_what_it_means_and_what_it_is_made_of(key: str) -> None:
    assert ABOUT[key].count(". ") >= 1, "two sentences"
    assert parts(read(outside=replace(OUTSIDE, regions=(*OUTSIDE.regions, *OWN))), key, MIB)


def test_inside_a_row_the_chart_begins_where_it_was_first_asked() -> None:
    """Not so that of live objects: censuses have counted them before."""
    shown = UseHistory((1_000_000_000, 2_000_000_000), ("live", "files", UNSEEN), ((5, 6), (0, 3), (7, 0)))
    assert (series(shown, "use", "files").times, series(shown, "use", "files").values) == ([2.0], [[3]])
    assert (series(shown, "use", "live").times, series(shown, "use", "live").values) == ([1.0, 2.0], [[5, 6]])
    assert series(shown, "use", "").letters == ["A", "H", "~"]


async def test_rows_are_filtered_by_size_and_what_is_hidden_is_said() -> None:
    async with on_memory_stage() as stage:
        sizes = [row.bytes for row in stage.live.view._rows]  # type: ignore[attr-defined]
        bound = sorted(sizes)[len(sizes) // 2]
        await stage.press("slash")
        await stage.type(f"size>{bound} or size={bound}")
        await stage.press("enter")
        passing = [size for size in sizes if size >= bound]
        assert sorted(row.bytes for row in stage.live.view._rows) == sorted(passing)  # type: ignore[attr-defined]
        hidden = len(sizes) - len(passing)
        assert f" {hidden} row{'s' * (hidden != 1)} filtered out" in stage.text


# -- when it is asked ----------------------------------------------------------------------------------------


async def test_it_is_asked_while_the_view_is_shown_and_no_more_than_once_before_an_answer() -> None:
    source = Resident()
    async with on_stage(LARGE, censuses=2, source=source) as stage:
        live, now = stage.live, [100.0]
        live.state.memory.clock = lambda: now[0]
        live.second()
        assert source.memory_requests == 0, "nobody looks"
        await stage.press("9")
        assert source.memory_requests == 1, "at once"
        assert FIRST.split(":")[0] in stage.text
        now[0] += 50
        live.second()
        assert source.memory_requests == 1, "there is no answer yet"
        source.answer()
        await stage.until(lambda: "every 5 s" in stage.text, "the answer is drawn")
        for later, asked in ((4.9, 1), (0.2, 2)):
            now[0] += later
            live.second()
            assert source.memory_requests == asked
        source.answer(duration_ns=962_000_000)
        await stage.until(lambda: "every 20 s (1 s each)" in stage.text, "it is asked more seldom, and says so")
        now[0] += 19
        live.second()
        assert source.memory_requests == 2
        await stage.press("c")
        assert (source.memory_requests, source.census_requests) == (3, 1), "key c asks at once"
        source.answer()
        await stage.settled()
        now[0] += 100
        await stage.press("space")
        live.second()
        assert source.memory_requests == 3, "paused"
        await stage.press("1", "space")  # the screen's own clock may strike between the two
        live.second()
        assert source.memory_requests == 3, "not shown"
        await stage.press("c")
        assert source.memory_requests == 3, "nor by key c"


async def test_an_answer_that_never_comes_is_not_waited_for() -> None:
    source = Resident()
    async with on_stage(censuses=2, source=source) as stage:
        now = [0.0]
        stage.live.state.memory.clock = lambda: now[0]
        await stage.press("9")
        now[0] += 61
        stage.live.second()
        assert source.memory_requests == 2


# -- what is not known ---------------------------------------------------------------------------------------


async def test_where_the_kernel_does_not_say_it() -> None:
    async with on_memory_stage(LARGE, samples=0) as stage:
        (said,) = stage.source.agent.answer(MemoryRequest(1))
        stage.source.say(said)
        await stage.until(lambda: DENIED in stage.text, "it says why")
        assert "No figures yet." in stage.text
        assert stage.live.view.table.row_count == 0
        assert stage.lines(2)[0] == " 9 Memory by use  ~: not measured", "RSS alone is drawn"


async def test_where_malloc_is_not_asked() -> None:
    """In Python mode: its free memory is a part of the other allocations, and that is said."""
    gap = "Only the native core can query malloc's free memory, and it is not loaded: no core was built."
    async with on_memory_stage(LARGE, samples=0) as stage:
        source = stage.source
        assert isinstance(source, Resident)
        (said,) = source.agent.answer(MemoryRequest(1))
        source.say(replace(said, malloc=None, malloc_gap=gap, outside=source.outside()))
        await stage.until(lambda: gap in stage.text, "it says so")
        assert "malloc_free" not in {row.key for row in stage.live.view._rows}  # type: ignore[attr-defined]
        await stage.press("question_mark")
        await stage.until(lambda: isinstance(stage.app.screen, HelpScreen), "the help is there")
        assert "Only the native core can" in stage.text


async def test_exited_the_last_figures_stay() -> None:
    async with on_memory_stage() as stage:
        before = stage.text.splitlines()[3:22]
        stage.source.end(TargetExited("Process 4242 ended with exit code 1."))
        await stage.until(lambda: "exited" in stage.text, "the screen says exited")
        assert stage.text.splitlines()[3:22] == before
        assert "every 5 s" not in stage.text
        asked = stage.source.memory_requests
        stage.live.second()
        assert stage.source.memory_requests == asked
        await stage.press("j", "enter", "escape", "b")
        assert "Owner" in stage.text


async def test_paused_nothing_moves() -> None:
    async with on_memory_stage() as stage:
        await stage.press("space")
        assert "every 5 s" not in stage.text
        before = stage.text.splitlines()[3:]
        for _ in range(3):
            await stage.ticks(1)
            stage.source.answer()  # type: ignore[attr-defined]
        await stage.press("b", "b")
        assert stage.text.splitlines()[3:] == before
        await stage.press("space")
        assert stage.text.splitlines()[3:] != before


# -- keys ----------------------------------------------------------------------------------------------------


async def test_rows_of_memory_are_sorted_by_each_column() -> None:
    async with on_memory_stage() as stage:

        def order() -> list[str]:
            return [row.key for row in stage.live.view._rows]  # type: ignore[attr-defined]

        by_bytes = order()
        await stage.press("i")
        assert order() == by_bytes[::-1]
        await stage.press("less_than_sign")
        assert order() == SHOWN, "by letter"
        await stage.press("less_than_sign")
        assert order()[:2] == ["live", "pools"], "they have grown most"
        await stage.press("f")
        assert "following" in stage.text


async def test_rows_are_filtered_by_size_alone() -> None:
    async with on_memory_stage() as stage:
        await stage.press("slash")
        await stage.type("type:x")
        assert "× Uses of memory have no types." in stage.text
        await stage.press("escape", "slash")
        await stage.type("size>4.7MiB")
        await stage.press("enter")
        assert set(column(stage, "name")) == {"live Python objects", "mapped files", "free in pools"}
        await stage.press("escape")
        assert stage.live.view.table.row_count == len(SHOWN)


async def test_why_names_are_no_filter_is_said() -> None:
    async with on_memory_stage(LARGE) as stage:
        await to_row(stage, "files")
        await stage.press("enter", "slash")
        await stage.type("libpython")
        assert "× Mappings have no types." in stage.text
        assert "A word alone filters by type name" in stage.text
        await stage.press("escape", "slash")
        await stage.type("size>3MiB")
        await stage.press("enter")
        assert column(stage, "name") == ["/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"]


# -- recordings ----------------------------------------------------------------------------------------------


def recorded(path: Path, samples: int) -> Path:
    fake = Resident()
    taped = RecordableSource(fake, wall=lambda: 1_750_000_000.0)
    taped.open(lambda event: None)
    taped.begin_recording(str(path))
    fake.attach()
    for tick in range(20):
        fake.tick()
        if tick >= 20 - samples:
            fake.answer()
    taped.close()
    return path


@pytest.mark.parametrize("samples", [0, 8])
async def test_a_recording_shows_the_memory_known_at_its_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: int
) -> None:
    """It says what was known at that moment, or that nobody asked."""
    monkeypatch.setattr(blocks, "SEGMENT_BLOCKS", 5)
    player = ReplaySource(Recording.open(recorded(tmp_path / "night.heaptop", samples)))
    app = make_app(player, theme="dark")
    try:
        async with app.run_test(size=LARGE) as pilot:
            stage = Stage(app, player, pilot)  # type: ignore[arg-type]  # which has no fake source to drive
            await stage.until(lambda: any(isinstance(s, LiveScreen) for s in app.screen_stack), "the screen is there")
            await stage.until(lambda: bool(stage.live.state.display.records), "a moment is shown")
            await stage.press("9")
            await stage.settled()
            if samples:
                assert len(stage.live.state.display.memory.samples) == samples, (
                    "those of the segments before are told too"
                )
                assert "Hardly any change in 7 s." in screen_text(app)
                assert "≈+896 KiB" in column(stage, "change"), "free in pools"
                assert "mapped files" in screen_text(app)
                await stage.press(*["left_parenthesis"] * 10)
                await stage.until(lambda: RECORDED.split(":")[0] in stage.text, "the beginning is shown")
            else:
                assert RECORDED.split(":")[0] in screen_text(app)
                assert "RSS 66.4 MiB" in screen_text(app), "ticks know RSS"
    finally:
        player.close()


async def test_uses_and_parts_say_over_how_long_they_changed() -> None:
    async with on_memory_stage() as stage:
        assert "Change 11s" in stage.line("Resident▼")
        await stage.press("enter")
        assert "Change 11s" in stage.line("Resident▼")
