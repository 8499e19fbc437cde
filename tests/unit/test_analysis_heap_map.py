"""The heap map's arithmetic: addresses and places, windows, what is known of cells, letters that stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.snapshot.heap_map import (
    LEAST_CELL,
    CellContents,
    KnownCells,
    Layout,
    MapLetters,
    MapWindow,
    fitting,
)
from heaptop.protocol.images import CELL, NO_TYPE, Selection

ALL = Selection()
TWO = ((0x1010, 0x1400), (0x9000, 0x9200))

extents = st.lists(
    st.tuples(st.integers(0, 1 << 47), st.integers(1, 1 << 24)).map(lambda each: (each[0], each[0] + each[1])),
    min_size=1,
    max_size=6,
)
cells = st.integers(12, 28).map(lambda power: 1 << power)
"""Large enough for the largest map to have a countable number of places."""
sizes = st.tuples(st.integers(1, 120), st.integers(1, 90))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("moved"), st.integers(-500, 500)),
        st.tuples(st.just("to"), st.integers(-3, 1 << 20)),
        st.tuples(st.just("paged"), st.integers(-3, 3)),
        st.tuples(st.just("panned"), st.integers(-50, 50)),
        st.tuples(st.just("zoomed"), st.integers(-5, 3)),
    ),
    max_size=8,
)


def record(bytes: int, type: int = 3) -> bytes:
    return CELL.pack(bytes, type if bytes else NO_TYPE, min(1000, bytes), 2, 0)


# -- addresses and places ------------------------------------------------------------------------------------


def test_a_gap_is_one_place() -> None:
    layout = Layout(TWO, 512)
    assert layout.count == 4
    assert [layout.address(place) for place in range(4)] == [0x1000, 0x1200, 0x1400, 0x9000]
    assert [layout.bounds(place) for place in (1, 2, 3)] == [
        (0x1200, 0x1400, False),
        (0x1400, 0x9000, True),
        (0x9000, 0x9200, False),
    ]
    assert [layout.place(address) for address in (0, 0x13FF, 0x1400, 0x8FFF, 0x9000, 1 << 60)] == [0, 1, 2, 2, 3, 3]


def test_the_first_address_in_use() -> None:
    layout = Layout(TWO, 512)
    assert [layout.first(place) for place in range(4)] == [0x1010, 0x1200, 0x1400, 0x9000]


def test_extents_of_one_cell_are_one() -> None:
    assert Layout(TWO, 0x8000).runs == ((0, 0, 0x10000),)
    assert Layout(((0x1000, 0x1200), (0x1200, 0x1400)), 512).count == 2
    assert Layout(TWO[::-1], 512).runs == Layout(TWO, 512).runs


def test_what_is_empty_is_on_no_map() -> None:
    assert Layout(((5, 5),), 16).count == 0


@given(extents, cells, st.data())
def test_places_and_addresses_are_each_others_inverse(
    extents: list[tuple[int, int]], cell: int, data: st.DataObject
) -> None:
    layout = Layout(extents, cell)
    place = data.draw(st.integers(0, layout.count - 1))
    low, high, is_gap = layout.bounds(place)
    assert low == layout.address(place)
    assert layout.place(low) == layout.place(high - 1) == place
    assert is_gap or high - low == cell
    inside = any(begin < high and end > low for begin, end in extents)
    assert inside is not is_gap, "a cell has some of an extent, and a gap none"


@given(extents, cells, st.data())
def test_every_address_of_an_extent_is_in_a_cell(
    extents: list[tuple[int, int]], cell: int, data: st.DataObject
) -> None:
    layout = Layout(extents, cell)
    begin, end = data.draw(st.sampled_from(extents))
    address = data.draw(st.integers(begin, end - 1))
    low, high, is_gap = layout.bounds(layout.place(address))
    assert low <= address < high
    assert not is_gap


@given(extents, cells, st.data())
def test_pieces_are_all_cells_between_two_places(
    extents: list[tuple[int, int]], cell: int, data: st.DataObject
) -> None:
    layout = Layout(extents, cell)
    first = data.draw(st.integers(0, layout.count - 1))
    end = data.draw(st.integers(first + 1, min(layout.count, first + 300)))
    found = {
        begin + number: low + number * cell
        for begin, low, high in layout.pieces(first, end)
        for number in range((high - low) // cell)
    }
    assert found == {place: layout.address(place) for place in range(first, end) if not layout.bounds(place)[2]}


@given(extents, st.integers(1, 20_000))
def test_the_smallest_cells_of_which_all_have_room(extents: list[tuple[int, int]], room: int) -> None:
    layout = fitting(extents, room)
    assert layout.count <= room or layout.cell == 1 << 48
    assert layout.cell == LEAST_CELL or layout.sized(layout.cell // 2).count > room


# -- windows -------------------------------------------------------------------------------------------------


def is_sound(window: MapWindow) -> bool:
    count = window.layout.count
    return (
        0 <= window.top <= max(count - window.room, 0)
        and window.top <= window.cursor < window.end <= count
        and window.layout.address(window.cursor) <= window.focus
        and window.focus < window.layout.bounds(window.cursor)[1]
    )


@given(extents, sizes, steps, sizes)
def test_no_key_leads_off_the_map(
    extents: list[tuple[int, int]], size: tuple[int, int], steps: list[tuple[str, int]], other: tuple[int, int]
) -> None:
    window = MapWindow.whole(extents, *size)
    assert is_sound(window)
    for name, argument in steps:
        window = getattr(window, name)(argument)
        assert is_sound(window), name
    assert is_sound(window.resized(*other))
    assert is_sound(MapWindow.whole([(begin, end + (1 << 21)) for begin, end in extents], *size).kept(window))


@given(extents, sizes, st.integers(1, 12), st.data())
def test_zooming_in_and_out_comes_back(
    extents: list[tuple[int, int]], size: tuple[int, int], closer: int, data: st.DataObject
) -> None:
    whole = MapWindow.whole(extents, *size)
    window = whole.to(data.draw(st.integers(0, whole.layout.count - 1)))
    near = window.zoomed(closer)
    assert near.layout.cell == max(window.layout.cell >> closer, LEAST_CELL)
    assert near.focus == window.focus
    assert near.zoomed(-60).cursor == window.cursor


def test_zooming_keeps_the_cursor_where_it_is_on_the_screen() -> None:
    window = MapWindow.whole([(0, 1 << 20)], 16, 16).to(100)
    near = window.zoomed(1)
    assert near.cursor - near.top == window.cursor - window.top == 100


def test_it_is_zoomed_out_no_further_than_to_all() -> None:
    window = MapWindow.whole([(0, 1 << 20)], 16, 16)
    assert window.zoomed(-1) == window
    assert window.is_whole
    assert not window.zoomed(1).is_whole


def test_it_is_zoomed_in_no_further_than_to_one_object() -> None:
    window = MapWindow.whole([(0, 1 << 20)], 16, 16).zoomed(40)
    assert window.layout.cell == LEAST_CELL
    assert window.zoomed(1) == window


def test_a_row_beyond_the_screen_pans_by_a_row() -> None:
    window = MapWindow.whole([(0, 1 << 20)], 16, 16).zoomed(2).to(0)
    assert window.to(255).top == 0
    assert window.to(256).top == 16
    assert window.to(256).moved(-240).top == 16
    assert window.to(256).moved(-256).top == 0


def test_a_page_is_a_screen() -> None:
    window = MapWindow.whole([(0, 1 << 20)], 16, 16).zoomed(2).to(5)
    assert (window.paged(1).top, window.paged(1).cursor) == (256, 261)
    assert window.paged(1).paged(-1) == window
    assert window.paged(99).cursor == window.layout.count - 1


def test_panning_takes_the_cursor_along_only_where_it_must() -> None:
    window = MapWindow.whole([(0, 1 << 20)], 16, 16).zoomed(2).to(35)
    assert window.panned(2).cursor == 35
    assert window.panned(3).cursor == 51
    assert window.panned(3).panned(-3).top == window.top


def test_what_is_whole_is_whole_on_another_screen() -> None:
    window = MapWindow.whole([(0, 1 << 20)], 16, 16)
    assert window.resized(64, 64).layout.cell == window.layout.cell // 16
    near = window.zoomed(3)
    assert near.resized(20, 10).layout.cell == near.layout.cell


def test_another_image_is_looked_at_from_where_this_one_was() -> None:
    window = MapWindow.whole([(0, 1 << 20)], 16, 16).zoomed(3).to(1000)
    kept = MapWindow.whole([(0, 1 << 21)], 16, 16).kept(window)
    assert (kept.layout.cell, kept.focus, kept.top) == (window.layout.cell, window.focus, window.top)
    gone = MapWindow.whole([(1 << 30, 1 << 31)], 16, 16).kept(window)
    assert gone.cursor == 0


# -- what is known -------------------------------------------------------------------------------------------


FAR = ((0x1010, 0x1400), (0x900_0000, 0x900_0200))


def test_only_what_was_not_answered_is_missing() -> None:
    known, layout = KnownCells(), Layout(FAR, 512)
    assert known.missing(ALL, layout, 0, 4) == [(0x1000, 0x1400), (0x900_0000, 0x900_0200)]
    known.take(ALL, 512, 0x1000, record(100))
    assert known.missing(ALL, layout, 0, 4) == [(0x1200, 0x1400), (0x900_0000, 0x900_0200)]
    assert known.missing(Selection(types=(1,)), layout, 0, 1) == [(0x1000, 0x1200)]
    known.take(ALL, 512, 0x1200, record(0))
    assert known.missing(ALL, layout, 0, 3) == []
    assert known.get(ALL, 512, 0x1000) == CellContents(100, 3, 100, 2, 0)
    assert known.get(ALL, 512, 0x1200) == CellContents(0, NO_TYPE, 0, 2, 0)


def test_what_is_near_is_asked_for_at_once() -> None:
    assert KnownCells().missing(ALL, Layout(TWO, 512), 0, 4) == [(0x1000, 0x9200)]
    assert KnownCells().missing(ALL, Layout(FAR, 0x40000), 0, 4) == [(0, 0x904_0000)]


@given(extents, cells, st.data())
def test_all_that_is_missing_is_asked_for(extents: list[tuple[int, int]], cell: int, data: st.DataObject) -> None:
    known, layout = KnownCells(), Layout(extents, cell)
    first = data.draw(st.integers(0, layout.count - 1))
    end = data.draw(st.integers(first + 1, min(layout.count, first + 200)))
    wanted = {low for place in range(first, end) for low, _, is_gap in [layout.bounds(place)] if not is_gap}
    already = data.draw(st.sets(st.sampled_from(sorted(wanted)))) if wanted else set()
    for address in already:
        known.take(ALL, cell, address, record(1))
    missing = known.missing(ALL, layout, first, end)
    asked = [range(low, high, cell) for low, high in missing]
    assert all(any(address in each for each in asked) for address in wanted - already)
    assert all(each[0] in wanted - already and each[-1] in wanted - already for each in asked)


def test_until_a_cell_is_known_a_larger_or_smaller_one_will_do() -> None:
    known = KnownCells()
    known.take(ALL, 512, 0x1000, record(100) + record(200, type=4))
    assert known.like(ALL, 256, 0x1300) == known.get(ALL, 512, 0x1200)
    assert known.like(ALL, 1024, 0x1000) == known.get(ALL, 512, 0x1000)
    assert known.like(ALL, 256, 0x1400) is None
    assert known.like(Selection(seen=(0,)), 512, 0x1000) is None


# -- letters -------------------------------------------------------------------------------------------------

names = st.lists(st.sampled_from([f"type{number}" for number in range(60)]), unique=True, max_size=20)


@given(st.lists(names, min_size=1, max_size=8))
def test_who_is_shown_has_a_letter_of_its_own_and_keeps_it(rounds: list[list[str]]) -> None:
    slots, before = MapLetters(), dict[str, int]()
    for each in rounds:
        slots.assign(each)
        shown = {name: slots.slots[name] for name in each[: MapLetters.COLOURS]}
        assert len(set(shown.values())) == len(shown)
        assert len(set(slots.slots.values())) == len(slots.slots)
        assert all(0 <= slot < MapLetters.LETTERS for slot in shown.values())
        assert all(shown[name] == before[name] for name in shown if name in before)
        before = dict(slots.slots)


def test_colours_are_told_apart_as_long_as_there_are_enough() -> None:
    slots = MapLetters()
    slots.assign([f"a{number}" for number in range(10)])
    slots.assign(["a3", *(f"b{number}" for number in range(9))])
    shown = [slots.slots[name] for name in ("a3", *(f"b{number}" for number in range(9)))]
    assert len({slot % MapLetters.COLOURS for slot in shown}) == 10
    assert slots.slots["a3"] == 3
