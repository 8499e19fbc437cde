"""What grew between marks: by site, where every block is sampled, and by retainer."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.heap.history import Amount, History
from heaptop.analysis.leaks.growth import BirthIntervals, retainer_growth, site_growth
from heaptop.analysis.leaks.marks import Mark, MarkContext, Trends
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.findings import GrownRow, MarkFacts
from heaptop.protocol.images import PathGroup, Paths, Step
from tests.unit.sample_cases import Program, sampler


class Marked:
    """A sampled program, marked now and then."""

    def __init__(self, interval: int = 1) -> None:
        self.sampling = Sampling()
        self.sampling.feed(sampler(interval))
        self.program = Program(interval, samples=self.sampling.samples)
        self.marks: list[Mark] = []

    @property
    def around(self) -> MarkContext:
        self.program.run()
        return MarkContext.of(History(), self.sampling)

    def mark(self) -> None:
        self.marks.append(Mark(MarkFacts("", 0, 0, 0), {}, Trends(), self.around))

    def rows(self) -> dict[str, GrownRow]:
        """By function."""
        growth = site_growth(self.marks, self.around, self.sampling)
        assert growth is not None
        return {row.name.rpartition(" ")[2]: row for row in growth.rows}


def test_growth_by_site_counts_what_came_since_the_mark() -> None:
    marked = Marked()
    allocate, free = marked.program.allocate, marked.program.free
    old = [allocate(("main", "keep:3"), 100) for _ in range(10)]
    allocate(("main", "idle:9"), 50)
    marked.mark()
    for block in [*old[:4], *(allocate(("main", "keep:3"), 100) for _ in range(7))][:6]:
        free(block)  # four old ones, two of those born since
    marked.mark()
    for _ in range(3):
        allocate(("main", "keep:3"), 100)
    rows = marked.rows()
    assert rows.keys() == {"keep"}
    keep = rows["keep"]
    assert (keep.count, keep.bytes, keep.now, keep.now_bytes) == (4, 400, 14, 1_400)
    assert (keep.born, keep.died, keep.generations, keep.error) == (10, 2, (5, 3), 0)


def test_an_estimate_has_its_interval() -> None:
    marked = Marked(interval=1_000)
    marked.mark()
    for _ in range(10):
        marked.program.allocate(("main", "keep:3"), 100)
    keep = marked.rows()["keep"]
    assert 9_000 < keep.bytes < 12_000
    assert 4_000 < keep.error < 12_000


def test_samples_that_were_given_up_say_nothing_of_growth() -> None:
    marked = Marked()
    marked.mark()
    marked.sampling.feed(sampler(1, epoch=2))
    assert site_growth(marked.marks, marked.around, marked.sampling) is None


def path(label: str, count: int) -> PathGroup:
    return PathGroup(
        1, 0, count, 10 * count, 10 * count, 1, (Step("module app", 0, 1), Step(label, 1, 2), Step("[*]", 2, 0))
    )


def kept(complete: bool = True, **counts: int) -> Trends:
    sums = {(f"module app .{name}", "app.Item"): Amount(count, 10 * count) for name, count in counts.items()}
    return Trends(kept=sums, all_kept=complete)


def test_growth_by_retainer_is_what_came_less_what_went() -> None:
    new = Paths(0, 45, 450, 450, (path(".queue", 40), path(".other", 5)))
    growth = retainer_growth(new, kept(queue=60, other=5, gone=0), kept(queue=50, gone=7))
    rows = {row.name: (row.count, row.now, row.born, row.died) for row in growth.rows}
    assert rows == {
        "module app .queue": (10, 60, 40, 30),
        "module app .other": (5, 5, 5, 0),
        "module app .gone": (-7, 0, 0, 7),
    }
    assert growth.complete


def test_old_objects_that_another_path_leads_to_are_no_growth() -> None:
    """A path is a shortest one, and may change: what it begins with then has objects that were there at the mark."""
    new = Paths(0, 40, 400, 400, (path(".timers", 40),))
    growth = retainer_growth(new, kept(timers=1_000), kept(loop=960))
    row = next(row for row in growth.rows if row.name == "module app .timers")
    assert (row.count, row.bytes, row.now, row.born, row.died) == (40, 400, 1_000, 40, None)


def test_what_a_retainer_held_is_not_always_known() -> None:
    growth = retainer_growth(Paths(0, 40, 400, 400, (path(".queue", 40),)), kept(queue=60), kept(complete=False))
    (row,) = growth.rows
    assert (row.count, row.now, row.born, row.died) == (40, 60, 40, None)
    assert not growth.complete


def test_intervals_and_marks_seen() -> None:
    three = BirthIntervals(3, (0, 1, 2))
    assert three.new == (0, 1, 2)
    assert replace(three, until=1).new == (2,)
    assert [three.birth_interval(seen) for seen in range(5)] == [2, 1, 0, None, None]


@given(st.data())
def test_an_object_is_new_by_the_first_mark_that_has_seen_it(data: st.DataObject) -> None:
    """Also where not all marks are compared with."""
    marks = data.draw(st.integers(1, 9))
    compared = tuple(sorted(data.draw(st.sets(st.integers(0, marks - 1), min_size=1))))
    until = data.draw(st.none() | st.sampled_from(compared[1:] or (None,)))
    intervals = BirthIntervals(marks, compared, until)
    for first in range(marks + 1):
        begun = [place for place, mark in enumerate(compared) if mark < first]
        seen = marks - first
        assert intervals.birth_interval(seen) == (begun[-1] if begun else None)
        assert (seen in intervals.new) == (compared[0] < first and (until is None or first <= until))
        there = [intervals.was_there(seen, place) for place in range(len(compared))]
        assert there == [first <= mark for mark in compared]

