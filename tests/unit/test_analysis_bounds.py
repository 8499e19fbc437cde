"""Containers that have a bound, or are emptied by somebody: what that says of what collects in them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from heaptop.analysis.leaks.bounds import CACHE, LINK, Fill, by_fill, fill_of, fill_of_all, fill_question, is_of_items
from heaptop.analysis.leaks.marks import Holder
from heaptop.analysis.leaks.suspects import TypeSum
from heaptop.analysis.leaks.verdicts import Judgement, Turnover, judge
from heaptop.protocol.findings import BACKLOG, LEAK, NO_LEAK, UNCLEAR
from heaptop.protocol.images import ObjectRow, Objects, Step
from heaptop.protocol.messages import TypeName

QUEUE = "queue.Queue"


def fill(
    *lengths: int, bound: int = 1_000, holder: str = CACHE, retained: int = 0, changes: tuple[int, ...] = ()
) -> Fill:
    """At marks ten seconds apart."""
    return Fill(holder, bound, lengths, (10.0,) * (len(lengths) - 1), retained, changes)


def course(*totals: int, old: int = -1, born: tuple[int, ...] | None = None) -> Turnover:
    """Of as many objects at such marks: if nothing else is said, all of them stay."""
    rises = tuple(after - before for before, after in pairwise(totals))
    return Turnover((10.0,) * len(rises), rises if born is None else born, totals[0] if old < 0 else old, totals)


GROWING = course(100, 300, 500, 700)
UNKNOWN = Turnover((10.0,) * 3, (200, 200, 200), 100, (-1, -1, -1, 700))
PASSING = Turnover((10.0,) * 3, (0, 5, 1_000), 0, (200, 400, 700, 1_005))
"""What goes through a queue at once: as far as survivors tell, it is short-lived."""


def said(found: Fill, how: Turnover = GROWING) -> tuple[str, str]:
    judged = by_fill(judge(how), found, how)
    return judged.verdict, judged.evidence[0]


# -- bounds --------------------------------------------------------------------------------------------------


def test_what_is_full_at_two_moments_is_no_leak() -> None:
    assert said(fill(100, 600, 1_000, 1_000), UNKNOWN) == (NO_LEAK, "an lru_cache at its maxsize of 1,000")
    assert said(fill(1_000, 1_000), course(100, 300)) == (NO_LEAK, "an lru_cache at its maxsize of 1,000")
    told = by_fill(Judgement(NO_LEAK, ("as many are freed as are new",)), fill(1_000, 1_000, 1_000), GROWING)
    assert told.evidence == ("an lru_cache at its maxsize of 1,000", "as many are freed as are new")
    same = by_fill(Judgement(NO_LEAK, ("as many are freed as are new",)), fill(1_000, 1_000), GROWING, are_items=False)
    assert same == told, "a place that is used again makes an item pass for an older one"


def test_by_how_much_a_container_is_longer_than_at_the_first_mark() -> None:
    assert fill(100, 300, -1, 700).grown == 600
    assert fill(-1, 300, 500, 700).grown == 0


def test_what_collects_in_older_items_is_not_excused_by_a_bound() -> None:
    for found in (fill(1_000, 1_000, 1_000, 1_000), fill(100, 300, 500, 700), waiting(100, 300, 500, 700)):
        assert by_fill(judge(UNKNOWN), found, UNKNOWN, are_items=False) == judge(UNKNOWN)


def test_one_item_too_many_is_what_a_cache_has_before_it_evicts() -> None:
    assert said(fill(1_001, 1_000, 1_000, 1_001), UNKNOWN)[0] == NO_LEAK
    assert said(fill(2, 3, bound=2), course(1, 2))[0] == NO_LEAK


def test_a_full_container_does_not_excuse_that_there_are_more_at_each_mark() -> None:
    several = course(1_000, 1_300, 1_500, 1_700)
    judged = by_fill(judge(several), fill(1_000, 1_000, 1_000, 1_000), several)
    assert (judged.verdict, judged.evidence[-1]) == (LEAK, "an lru_cache at its maxsize of 1,000")
    among_its_items = by_fill(judge(GROWING), fill(1_000, 1_000, 1_000, 1_000), GROWING)
    assert among_its_items.verdict == NO_LEAK, "no more than it has items can be there"


def test_what_has_just_become_full_is_unclear() -> None:
    why = "an lru_cache has just reached its maxsize of 1,000: another mark shows whether it stays there"
    assert said(fill(400, 600, 800, 1_000)) == (UNCLEAR, why)


def test_what_fills_is_unclear_and_says_until_when() -> None:
    words = "fills until 1,000, in ≈ 15 s at this rate, with ≈ 14.3 KiB then: an lru_cache, now 700"
    assert said(fill(100, 300, 500, 700, retained=10_240)) == (UNCLEAR, words)
    far = fill(100, 300, 500, 700, bound=10**7, retained=7_000 << 10, holder="collections.deque")
    assert said(far)[1] == (
        "fills until 10.0 M, in ≈ 6 days at this rate, with ≈ 95.4 GiB then: a collections.deque, now 700"
    )


def test_several_that_are_alike_have_their_bounds_together() -> None:
    deque = "collections.deque"
    shards = [fill(10, 20, 30, 40, bound=100, holder=deque, retained=400) for _ in range(8)]
    together = fill_of_all(shards)
    assert together is not None
    words = "fills until 800, in ≈ 60 s at this rate, with ≈ 7.81 KiB then: 8 × collections.deque, now 320"
    assert said(together, course(80, 160, 240, 320)) == (UNCLEAR, words)
    full = fill_of_all([fill(90, 100, 100, 100, bound=100, holder=deque) for _ in range(8)])
    assert full is not None
    assert said(full, UNKNOWN) == (NO_LEAK, "8 × collections.deque at its maxlen of 800 together")


def test_bounds_of_several_say_nothing_where_one_is_new_or_has_none() -> None:
    known = fill(10, 20, 30, 40, bound=100)
    assert fill_of_all([known, fill(-1, 20, 30, 40, bound=100)]) is None, "there are more of them at each mark"
    assert fill_of_all([known, fill(10, 20, 30, 40, bound=0)]) is None
    assert fill_of_all([known, fill(10, 20, 130, 240, bound=100)]) is None
    assert fill_of_all([known, None]) is None
    assert fill_of_all([]) is None


def test_with_two_marks_it_is_provisional() -> None:
    words = "fills until 1,000, in ≈ 35 s at this rate: an lru_cache, now 300; set a third mark (key m, or --marks 3)"
    assert said(fill(100, 300), course(100, 300)) == (UNCLEAR, words)


def test_where_earlier_lengths_are_not_known_no_time_is_said() -> None:
    assert said(fill(-1, -1, -1, 700))[1] == "fills until 1,000: an lru_cache, now 700"


def test_a_container_that_does_not_fill_excuses_nothing() -> None:
    assert said(fill(700, 700, 700, 700))[0] == LEAK
    assert said(fill(900, 850, 800, 700))[0] == LEAK


def test_a_bound_that_is_exceeded_is_none() -> None:
    judged = by_fill(judge(GROWING), fill(1_100, 1_200, 1_300, 1_400), GROWING)
    assert (judged.verdict, judged.evidence[0]) == (LEAK, judge(GROWING).evidence[0])
    assert judged.evidence[-1] == "its maxsize of 1,000 is not enforced: it holds 1,400"


def test_what_is_no_leak_stays_so_while_its_container_fills() -> None:
    told = Judgement(NO_LEAK, ("as many are freed as are new",))
    assert by_fill(told, fill(100, 300, 500, 700), GROWING) == told


# -- queues --------------------------------------------------------------------------------------------------


def waiting(*lengths: int, **others: object) -> Fill:
    return replace(fill(*lengths, bound=0, holder=QUEUE), **others)


def test_a_queue_without_a_bound_that_grows_is_a_backlog_with_both_rates() -> None:
    found = waiting(100, 300, 500, 700, changes=(1_000, 2_000, 3_000, 4_400))
    assert said(found) == (BACKLOG, "a queue.Queue grows by 20/s, its consumer takes 60/s")
    still = waiting(100, 300, 500, 700, changes=(100, 300, 500, 700))
    assert said(still) == (BACKLOG, "a queue.Queue grows by 20/s, and nothing is taken out")


def test_a_queue_that_survivors_take_for_short_lived_objects_is_judged_by_its_length() -> None:
    assert judge(PASSING).verdict != LEAK
    assert said(waiting(200, 400, 700, 1_005), PASSING)[0] == BACKLOG
    assert said(waiting(-1, 400, 700, 1_005), PASSING)[0] == BACKLOG
    assert said(waiting(-1, -1, 700, 1_005), PASSING)[0] == judge(PASSING).verdict


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (course(1_000, 1_500, 2_000, old=200, born=(700, 1_100)), ", its consumer takes at least 40/s"),
        (course(1_000, 1_500, 2_000, old=980, born=(480, 540)), ""),
        (course(1_000, 1_500, 2_000, old=0, born=(0, 2_000)), ", its consumer takes at least 150/s"),
    ],
)
def test_where_a_queue_does_not_count_its_consumer_takes_at_least_what_is_seen_to_be_gone(
    how: Turnover, words: str
) -> None:
    assert said(waiting(1_000, 1_500, 2_000), how) == (BACKLOG, f"a queue.Queue grows by 50/s{words}")


def test_a_queue_without_a_length_is_judged_by_what_it_holds() -> None:
    found = waiting(-1, -1, -1, -1, holder="_queue.SimpleQueue")
    assert said(found) == (BACKLOG, "a _queue.SimpleQueue grows by 20/s")
    assert said(found, UNKNOWN) == (UNCLEAR, "a _queue.SimpleQueue holds them: they may be waiting for their turn")


def test_a_queue_between_two_marks_may_be_a_backlog() -> None:
    words = "it may be a backlog: a queue.Queue grows by 20/s; set a third mark (key m, or --marks 3)"
    assert said(waiting(100, 300), course(100, 300)) == (UNCLEAR, words)


def test_a_queue_that_does_not_grow_at_each_mark_is_unclear() -> None:
    assert said(waiting(100, 500, 300, 700)) == (
        UNCLEAR,
        "a queue.Queue holds them: they may be waiting for their turn",
    )


def test_a_queue_with_a_bound_is_no_backlog() -> None:
    assert said(replace(waiting(100, 300, 500, 700), bound=1_000))[0] == UNCLEAR
    words = "a queue.Queue at its maxsize of 700"
    assert said(replace(waiting(300, 500, 700, 700), bound=700), UNKNOWN) == (NO_LEAK, words)


def test_another_container_without_a_bound_changes_nothing() -> None:
    for bound in (0, -1):
        found = fill(100, 300, 500, 700, bound=bound, holder="collections.deque")
        assert by_fill(judge(GROWING), found, GROWING) == judge(GROWING)


def test_a_list_that_is_cleared_of_what_is_gone_has_room_for_what_is_in_use() -> None:
    """51 cursors in use, and those that are gone since the last time."""
    assert said(fill(20, 90, 160, 230, bound=200, holder="sqlite3.Connection"))[0] == UNCLEAR
    assert said(fill(20, 200, 400, 600, bound=200, holder="sqlite3.Connection"))[0] == LEAK


# -- which container, and of what ------------------------------------------------------------------------------

TYPES = [
    TypeName(*name)
    for name in (
        ("", "module"),
        ("queue", "Queue"),
        ("collections", "deque"),
        ("cachetools", "LRUCache"),
        ("", "dict"),
        ("shop", "Store"),
        ("_queue", "SimpleQueue"),
        ("sqlite3", "Connection"),
        ("", "list"),
    )
]
MODULE, OF_QUEUE, DEQUE, LRU, DICT, STORE, SIMPLE, CONNECTION, LIST = range(len(TYPES))


def found_in(*objects: tuple[int, int, int]) -> Fill | None:
    """At the end of a path through objects: type, length and bound of each."""
    steps = [Step(f".step{place}", type, place + 1) for place, (type, _, _) in enumerate(objects)]
    rows = [
        ObjectRow(place + 1, type, 100, 5_000, 2, 0, length, 0, bound, 7)
        for place, (type, length, bound) in enumerate(objects)
    ]
    question = fill_question(steps)
    assert question is not None
    asked = tuple(row for row in rows if row.address in question.selection.addresses)
    holders = {row.address: Holder("", row.length // 2, 1, 1, 5) for row in rows}
    return fill_of(steps, Objects(1, len(asked), asked), TYPES, lambda row: [None, holders[row.address]], (1.0, 1.0))


@pytest.mark.parametrize(
    ("objects", "holder", "bound", "lengths"),
    [
        ([(DEQUE, 80, 100)], "collections.deque", 100, (-1, 40, 80)),
        ([(OF_QUEUE, -1, 100), (DEQUE, 80, 0)], "queue.Queue", 100, (-1, 40, 80)),
        ([(OF_QUEUE, -1, 0), (DEQUE, 80, 0)], "queue.Queue", 0, (-1, 40, 80)),
        ([(OF_QUEUE, -1, -1), (DEQUE, 80, 0)], "queue.Queue", -1, (-1, 40, 80)),
        ([(SIMPLE, -1, -1)], "_queue.SimpleQueue", 0, (-1, -1, -1)),
        ([(LRU, 60, 100), (DICT, 80, -1)], "cachetools.LRUCache", 100, (-1, 30, 60)),
        ([(STORE, -1, 100), (DICT, 80, -1)], "shop.Store", 100, (-1, 40, 80)),
        ([(STORE, -1, 2**31 - 1), (DICT, 80, -1)], "shop.Store", 0, (-1, 40, 80)),
        ([(STORE, -1, 100)], "shop.Store", -1, (-1, -1, -1)),
        ([(STORE, -1, 100), (DICT, 80, -1), (DICT, 8, -1)], "dict", -1, (-1, 4, 8)),
        ([(MODULE, -1, -1), (DICT, 80, -1)], "dict", -1, (-1, 40, 80)),
        ([(CONNECTION, -1, -1), (LIST, 80, -1)], "sqlite3.Connection", 200, (-1, 40, 80)),
        ([(CONNECTION, -1, -1), (DICT, 80, -1)], "dict", -1, (-1, 40, 80)),
    ],
)
def test_the_bound_is_the_containers_own_or_that_of_whose_container_it_is(
    objects: list[tuple[int, int, int]], holder: str, bound: int, lengths: tuple[int, ...]
) -> None:
    found = found_in(*objects)
    assert found is not None
    assert (found.holder, found.bound, found.lengths) == (holder, bound, lengths)


def test_what_is_several_or_a_frame_is_not_asked_about() -> None:
    assert fill_question([Step("frame work() local jobs", 0, 0)]) is None
    assert fill_question([Step("module shop", MODULE, 1), Step("[*]", DICT, 0)]) is None
    assert fill_question([]) is None


def sums(name: str, count: int) -> TypeSum:
    module, _, last = name.rpartition(".")
    return TypeSum(TypeName(module, last), (1,), count, 0, 0)


def test_a_bound_is_of_items_and_not_of_what_older_items_collect() -> None:
    events, sessions = sums("shop.Event", 5_000), sums("shop.Session", 90)
    assert is_of_items(sessions, [sessions, events], sessions.type, 100)
    assert is_of_items(events, [sessions, events], sessions.type, 100), "each item with fifty of them is new"
    assert not is_of_items(events, [events], sessions.type, 100), "they collect in sessions that were there"
    links = sums(LINK, 0)
    assert is_of_items(sessions, [sessions], links.type, 90), "a full cache takes its links again"
    assert not is_of_items(events, [events], links.type, 90)
