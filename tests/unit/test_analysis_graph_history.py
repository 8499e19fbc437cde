"""Graph censuses as moments: names that stay from image to image, nothing left out, filters both ways, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.bands.bands import bands
from heaptop.analysis.bands.table import table
from heaptop.analysis.filters.attributes import Origin, band_key
from heaptop.analysis.filters.filters import COUNTED, EVERYTHING, LIVE_BLOCKS, origin_of, parse_filter
from heaptop.analysis.heap.graph_history import GraphHistory, retainer_cells, set_labels
from heaptop.errors import UsageError
from heaptop.protocol.images import KINDS, NO_TYPE, Group, Groups, Image, Retainers, RetainerSet, Unit
from heaptop.protocol.messages import TypeName
from heaptop.tui.state.drill import Level, into

TYPES = (TypeName("shop.models", "Session"), TypeName("builtins", "dict"), TypeName("shop.models", "Session"))
MODULE, FRAME, RUNTIME, _, C, NONE = range(len(KINDS))
CACHE = Unit("module app.cache ._sessions", MODULE, 0x10)
RECENT = Unit("module app.views .recent", MODULE, 0x20)
ROWS = Unit("frame worker() local rows", FRAME, 0)
STATIC = Unit("held by C .__mro__", C, 0x30)
OTHER_STATIC = Unit("held by C", C, 0x40)
GARBAGE = Unit("held by nothing [*]", NONE, 0x50)
UNITS = (RECENT, CACHE, ROWS, STATIC, OTHER_STATIC, GARBAGE)
SETS = (
    RetainerSet((1,), False, 0, 10, 1000),
    RetainerSet((0, 1), False, 0, 4, 400),
    RetainerSet((2,), False, 1, 2, 200),
    RetainerSet((), True, 1, 1, 150),
    RetainerSet((3, 4), False, 1, 1, 90),
    RetainerSet((5,), False, 1, 1, 60),
)


def image(time: int = 0, objects: int = 22, size: int = 2100) -> Image:
    return Image(1, 1, time * 10**9, 3, 5, 7, 11, 13, objects, 17, size, (), 0, True)


def groups(*rows: tuple[int, int, int, int]) -> Groups:
    return Groups(2, tuple(Group(*row, 0) for row in rows))


def retainers(*rows: RetainerSet, units: tuple[Unit, ...] = UNITS) -> Retainers:
    return Retainers(3, 3, units, rows)


def history(*sets: RetainerSet) -> GraphHistory:
    out = GraphHistory()
    out.take(image(), TYPES, groups((0, MODULE, 12, 1300), (1, FRAME, 10, 800)), retainers(*(sets or SETS)))
    return out


def test_a_set_is_named_by_its_labels_in_an_order_of_their_own() -> None:
    """Positions follow the sizes of an image, and addresses its objects: neither stays."""
    cells = retainer_cells(TYPES, retainers(*SETS))
    assert [cell.retainer for cell in cells] == [
        "module app.cache ._sessions",
        "module app.cache ._sessions + module app.views .recent",
        "frame worker() local rows",
        "(more than 3)",
        "held by C",
        "held by nothing",
    ]
    turned = retainers(RetainerSet((0, 1), False, 0, 4, 400), units=(CACHE, RECENT))
    assert retainer_cells(TYPES, turned)[0] == cells[1]


def test_what_has_no_retainer_says_so() -> None:
    assert set_labels(RetainerSet((), False, 0, 1, 1), (), 3) == ("(no retainer)",)
    assert set_labels(RetainerSet((), True, 0, 1, 1), (), 7) == ("(more than 7)",)


def test_what_an_answer_had_no_room_for_is_a_band() -> None:
    (moment,) = history().retainers.records
    assert sum(cell.bytes for cell in moment.cells) == 2100
    assert (moment.cells[-1].retainer, moment.cells[-1].count, moment.cells[-1].bytes) == ("(smaller ones)", 3, 200)
    (moment,) = history().kinds.records
    assert [(cell.kind, cell.bytes) for cell in moment.cells] == [("module", 1300), ("frame", 800)]


def test_types_that_read_alike_are_one_and_frames_have_a_name() -> None:
    """A class that was made twice has two numbers."""
    out = GraphHistory()
    told = groups((0, MODULE, 1, 10), (2, MODULE, 2, 20), (NO_TYPE, FRAME, 1, 0))
    out.take(image(0, 4, 30), TYPES, told, retainers())
    (moment,) = out.kinds.records
    assert [(cell.type.full, cell.kind, cell.count, cell.bytes) for cell in moment.cells] == [
        ("shop.models.Session", "module", 3, 30),
        ("frame", "frame", 1, 0),
    ]


# -- bands and filters --------------------------------------------------------------------------------------


def found(key: str, where: str) -> dict[str, int]:
    asked = parse_filter(where)
    kept = history()
    taken = kept.kinds if origin_of(band_key(key), asked) is Origin.KINDS else kept.retainers
    rows = table(taken.records, key, asked)
    chart = bands(taken.records, key, asked, 10)
    assert {band.name: band.bytes[-1] for band in chart.bands} == {row.name: row.bytes for row in rows}
    return {row.name: row.bytes for row in rows}


@pytest.mark.parametrize(
    ("key", "where", "rows"),
    [
        ("type", "retainer:cache", {"shop.models.Session": 1400}),
        ("type", "retainer:CACHE,worker", {"shop.models.Session": 1400, "dict": 200}),
        ("module", "retainer:recent", {"shop.models": 400}),
        ("type", "retainer:*cache*", {"shop.models.Session": 1400}),
        ("type", "retainer:module?app.views?.recent", {"shop.models.Session": 400}),
        ("type", "retainer:cache !retainer:+", {"shop.models.Session": 1000}),
        ("type", "retainer:(more", {"dict": 150}),
        ("type", "kind:module", {"shop.models.Session": 1300}),
        ("type", "kind:=frame", {"dict": 800}),
        ("type", "!kind:module,c", {"dict": 800}),
        ("kind", "type:Session", {"module": 1300}),
        ("kind", "module:builtins", {"frame": 800}),
        ("retainer", "type:dict retainer:held", {"held by C": 90, "held by nothing": 60}),
        ("retainer", "type:dict size>400 retainer:held", {"held by C": 90, "held by nothing": 60}),
        ("retainer", "type:dict size>1MB", {}),
    ],
)
def test_bands_under_a_filter(key: str, where: str, rows: dict[str, int]) -> None:
    assert found(key, where) == rows


@pytest.mark.parametrize(
    ("key", "where", "wrong"),
    [
        ("kind", "retainer:cache", "kind and retainer"),
        ("retainer", "kind:c", "kind and retainer"),
        ("generation", "retainer:cache", "generation and retainer"),
        ("producer", "kind:frame", "producer and kind"),
        ("retainer", "site:views", "site and retainer"),
        ("kind", "lifetime>1MB", "lifetime and kind"),
        ("type", "gen:2 kind:c", "generation and kind"),
    ],
)
def test_what_no_figures_know(key: str, where: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=f"{wrong} do not go together") as caught:
        origin_of(band_key(key), parse_filter(where))
    assert caught.value.why.startswith("Only ")


@pytest.mark.parametrize("known", [COUNTED, LIVE_BLOCKS, ()])
@pytest.mark.parametrize("term", ["retainer:cache", "kind:c"])
def test_other_figures_say_why_they_know_none(known: tuple[str, ...], term: str) -> None:
    with pytest.raises(UsageError, match="have no") as caught:
        parse_filter(term).allow(known, "Collections")
    assert "nothing keeps dead ones" in caught.value.why


@pytest.mark.parametrize("row", range(len(SETS)))
def test_a_band_that_is_looked_into_has_no_more_and_no_less(row: int) -> None:
    """Names are full of what the syntax of filters takes for its own."""
    awkward = (Unit("module app.cache ._all [*] .user", MODULE, 1), *UNITS[1:])
    kept = retainers(*SETS, units=awkward)
    out = GraphHistory()
    out.take(image(), TYPES, groups(), kept)
    band = retainer_cells(TYPES, kept)[row]
    level = into(Level("retainer"), band.retainer)
    assert level is not None
    assert level.key == "type"
    inside = table(out.retainers.records, "type", level.where)
    assert [(one.name, one.bytes) for one in inside] == [(band.type.full, band.bytes)]
    assert parse_filter(str(level.where)) == level.where


def test_a_kind_that_is_looked_into_shows_its_types() -> None:
    level = into(Level("kind"), "frame")
    assert level == Level("type", parse_filter("kind:=frame"))
    assert into(level, "dict") is None, "what a type's frames are nobody counts"


# -- over time ----------------------------------------------------------------------------------------------


def test_what_has_not_changed_is_shared() -> None:
    out = GraphHistory()
    for time, size in enumerate((1000, 1000, 1200)):
        told = groups((0, MODULE, 5, 500), (1, FRAME, 7, size))
        out.take(image(time, 12, 500 + size), TYPES, told, retainers())
    first, second, third = (moment.cells for moment in out.kinds.records)
    assert [a is b for a, b in zip(first, second, strict=True)] == [True, True]
    assert [a is b for a, b in zip(second, third, strict=True)] == [True, False]


@given(st.integers(3, 40), st.integers(2, 6), st.integers(1, 60))
def test_it_stays_within_its_limits_and_ends_with_now(length: int, limit: int, cells: int) -> None:
    out = GraphHistory(limit, cells)
    for time in range(length):
        told = groups(*((0, kind, 1, 10 + time) for kind in range(len(KINDS))))
        out.take(image(time, 6, 6 * (10 + time)), TYPES, told, retainers(SETS[0]))
    for moments in (out.kinds, out.retainers):
        times = [moment.time_ns for moment in moments.records]
        assert len(times) <= limit
        assert len(times) == 2 or sum(len(moment.cells) for moment in moments.records) <= cells
        assert times == sorted(set(times))
        assert times[0] == 0
        assert times[-1] == (length - 1) * 10**9


def test_bands_go_on_from_image_to_image() -> None:
    out = GraphHistory()
    for time, size in enumerate((1000, 1500)):
        row = RetainerSet((0,), False, 0, 10, size)
        out.take(image(time, 10, size), TYPES, groups(), retainers(row, units=(CACHE,)))
    (band,) = bands(out.retainers.records, "retainer", EVERYTHING, 3).bands
    assert (band.name, band.bytes) == ("module app.cache ._sessions", (1000, 1500))
