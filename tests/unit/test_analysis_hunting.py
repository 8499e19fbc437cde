"""The whole hunt against planted heaps: what leaks is named and called so, what turns over or fills up is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from heaptop.analysis.leaks.hunting import LeakHunt, chosen_marks
from heaptop.analysis.leaks.marks import Trends
from heaptop.analysis.leaks.proofs import Proofs
from heaptop.analysis.leaks.verdicts import Judgement, Turnover, judge
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol import images
from heaptop.protocol.findings import BACKLOG, LEAK, NO_LEAK, UNCLEAR, Findings, Growth, Suspect
from heaptop.protocol.messages import Message, Tick, TypeName, Types
from tests.fakes.graph import Frame, Planted, PlantedHeap, Reference, Root
from tests.fakes.heap import PlantedImage
from tests.fakes.shop import growing_shop, shop
from tests.unit.census_cases import census
from tests.unit.hunting_cases import SUSPECT, Hunting, image_of, put
from tests.unit.sample_cases import Program, sampler


def growth(found: Findings, key: str) -> Growth:
    return next(each for each in found.growths if each.key == key)


def test_the_first_look_only_marks() -> None:
    hunting = Hunting()
    assert hunting.check("start") is None
    assert [mark.facts.name for mark in hunting.hunt.marks] == ["start"]


def test_the_leak_comes_first() -> None:
    found = Hunting().checks(4)
    assert found.verdict == LEAK
    assert [(each.verdict, each.type) for each in found.suspects] == [
        (LEAK, "shop.models.Session"),
        (NO_LEAK, "shop.views.Preview"),
        (NO_LEAK, "shop.billing.Quote"),
    ]
    first = found.suspects[0]
    assert (first.count, first.held, first.generations, first.series) == (90, 90, (30, 30, 30), (80, 110, 140, 170))
    assert (first.retainer, first.holder, first.kind) == ("module shop.cache ._sessions", "dict", "module")
    assert first.path == ("module shop.cache", "._sessions", "dict[*]", "shop.models.Session")
    assert first.rate == 3.0
    assert first.point
    assert first.sentence == (
        "≥90 shop.models.Session (≥81.1 KiB including everything new there, still growing 3.0/s, ≈2.70 KiB/s) "
        "allocated at an unknown site (no sample among them), all held by module shop.cache → ._sessions (dict)"
    )
    assert first.evidence[0].startswith("it grew in every interval")
    assert found.suspects[1].evidence[0] == "as many are freed as are new: 40 at the first mark, 40 now"
    assert found.suspects[2].evidence[0] == "it grew and has stopped"


def test_what_is_where_others_were_is_found() -> None:
    """All of this shop is at new addresses in each image, as if memory had been given back and taken again."""
    found = Hunting(shop).checks(4)
    assert found.suspects[0].type == "shop.models.Session"
    assert found.suspects[0].verdict == LEAK


def test_all_types_are_counted() -> None:
    """Also those of which there is little."""
    addresses = range(0x7000_0000, 0x7000_0000 + 400 * 0x1000, 0x1000)
    many = tuple(Planted(each, TypeName("many", f"Type{each}"), 16) for each in addresses)
    first = growing_shop(1)
    roots = (*first.roots, *(Root("module", "module many", each) for each in addresses))
    found = Hunting(lambda _: PlantedHeap((*first.objects, *many), roots, first.frames)).checks(3)
    assert (found.count, found.bytes, found.verdict) == (0, 0, NO_LEAK)
    assert growth(found, "type") == Growth("type", ())


def test_a_heap_that_stays_is_no_leak_unless_a_lint_says_otherwise() -> None:
    hunting = Hunting(lambda _: growing_shop(1))
    for second in range(3):
        hunting.history.feed(Tick(second, second, (40 + 30 * second) << 20, 0, True, (0, 0, 0), 0, 1, 0))
        found = hunting.check()
    assert found is not None
    assert [lint.name for lint in found.lints] == ["rss"]
    assert (found.suspects, found.verdict) == ((), UNCLEAR)


def few_each(image: int) -> PlantedHeap:
    """One large page more each time."""
    pages = [Planted(0x7000_0000 + each * 0x1000, TypeName("shop.views", "Page"), 90_000) for each in range(image)]
    held = Planted(0x6000_0000, TypeName("", "list"), 216, tuple(Reference("[*]", each.address) for each in pages))
    first = growing_shop(1)
    return PlantedHeap(
        (*first.objects, held, *pages), (*first.roots, Root("module", "module shop.history", held.address))
    )


@pytest.mark.parametrize(("rounds", "verdict"), [(True, LEAK), (False, UNCLEAR)])
def test_one_object_a_round_is_a_leak_where_only_rounds_of_work_were_done(rounds: bool, verdict: str) -> None:
    found = Hunting(few_each, hunt=LeakHunt(rounds=rounds)).checks(5)
    (page,) = (each for each in found.suspects if each.type == "shop.views.Page")
    assert (page.verdict, page.held, page.series) == (verdict, 4, (1, 2, 3, 4, 5))


@pytest.mark.parametrize(("rounds", "verdict"), [(True, LEAK), (False, NO_LEAK)])
def test_rounds_count_alike_however_long_they_take(rounds: bool, verdict: str) -> None:
    """The last check comes late, because the machine is busy: that is no slower growth."""
    hunting = Hunting(hunt=LeakHunt(rounds=rounds))
    hunting.checks(2)
    hunting.number += 60
    planted = PlantedImage(growing_shop(3))
    image = image_of(planted, hunting.number)
    found = put(hunting.hunt.check(image, planted.types, hunting.history, hunting.sampling, mark=None), planted)
    assert found is not None
    (session,) = (each for each in found.suspects if each.type == "shop.models.Session")
    assert (session.verdict, session.held) == (verdict, 60)


def test_by_names_each_variable_has_a_row_of_its_own() -> None:
    """By dominators all that is new in a module is in one place, its dict of names."""

    def module(image: int) -> PlantedHeap:
        texts = [Planted(0x7000_0000 + each * 0x1000, TypeName("", "str"), 9_000) for each in range(40 * (image > 1))]
        tables = [
            Planted(place, TypeName("", "list"), 216, tuple(Reference("[*]", text.address) for text in half))
            for place, half in ((0x6000_0000, texts[:20]), (0x6000_1000, texts[20:]))
        ]
        names = (Reference(".a", tables[0].address), Reference(".b", tables[1].address))
        main = Planted(0x5000_0000, TypeName("", "dict"), 300, names)
        return PlantedHeap((main, *tables, *texts), (Root("module", "module __main__", main.address),))

    found = Hunting(module, hunt=LeakHunt(names=True)).checks(2)
    assert sorted(each.holding for each in found.suspects) == [
        "all reached from module __main__ → .a",
        "all reached from module __main__ → .b",
    ]


def littering_shop(image: int, each: int = 30) -> PlantedHeap:
    """Pages that refer to themselves, and that nothing else refers to, are more and more."""
    pages = [
        Planted(address, TypeName("shop.views", "Page"), 900, (Reference(".itself", address),))
        for address in range(0x7000_0000, 0x7000_0000 + each * image * 0x1000, 0x1000)
    ]
    return PlantedHeap((*growing_shop(1).objects, *pages), growing_shop(1).roots, growing_shop(1).frames)


@pytest.mark.parametrize(
    ("gc_enabled", "each", "verdict"), [(True, 30, NO_LEAK), (True, 900, UNCLEAR), (False, 30, LEAK)]
)
def test_garbage_is_a_leak_where_nobody_collects_it(gc_enabled: bool, each: int, verdict: str) -> None:
    """With gc on, a full collection takes it; what is more than such a collection waits for is unclear."""
    found = Hunting(partial(littering_shop, each=each), gc_enabled=gc_enabled).checks(4)
    (first,) = found.suspects
    assert (first.type, first.kind, first.held, first.verdict) == ("shop.views.Page", "none", 3 * each, verdict)
    assert first.sentence.endswith("all held by nothing: uncollected garbage")


def registering_shop(image: int, each: int = 30) -> PlantedHeap:
    """Pages are registered by weak references, 30 for each mark. So many of the pages are still there, and kept by
    nothing but themselves."""
    littered = littering_shop(image, each)
    references = tuple(
        Planted(address, TypeName("weakref", "ReferenceType"), 72)
        for address in range(0x6000_0000, 0x6000_0000 + 30 * image * 0x1000, 0x1000)
    )
    held = Planted(
        0x5000_0000,
        TypeName("builtins", "set"),
        4_000,
        tuple(Reference(f"[{place}]", each.address) for place, each in enumerate(references)),
    )
    roots = (*littered.roots, Root("module", "module shop.registry", held.address))
    return PlantedHeap((*littered.objects, held, *references), roots, littered.frames)


@pytest.mark.parametrize(
    ("gc_enabled", "each", "verdict", "why"),
    [
        (True, 30, UNCLEAR, "they may refer to garbage: 90 new objects wait for a full collection"),
        (False, 30, UNCLEAR, "they may refer to what leaks elsewhere (90 objects), and go with it"),
        (True, 0, LEAK, "it grew in every interval, as fast in the last as before, and early ones are still there"),
    ],
)
def test_weak_references_are_a_leak_only_where_what_they_refer_to_is_not_there(
    gc_enabled: bool, each: int, verdict: str, why: str
) -> None:
    found = Hunting(partial(registering_shop, each=each), gc_enabled=gc_enabled).checks(4)
    (suspect,) = (each for each in found.suspects if each.type == "weakref.ReferenceType")
    assert (suspect.verdict, suspect.evidence[0]) == (verdict, why)


def test_of_two_moments_weak_references_beside_garbage_stay_unclear() -> None:
    found = Hunting(registering_shop, gc_enabled=True).checks(2)
    (suspect,) = (each for each in found.suspects if each.type == "weakref.ReferenceType")
    assert (suspect.verdict, suspect.evidence[0].partition(":")[0]) == (UNCLEAR, "they may refer to garbage")


def test_survivors_by_address_are_no_leak_where_most_new_ones_of_the_type_are_elsewhere() -> None:
    """What all of the type do says nothing of a small part of them."""
    hunting = Hunting(crowded_shop)
    hunting.checks(3)
    marks = [replace(mark, trends=Trends(all_kept=False)) for mark in hunting.hunt.marks]
    pieces, hunting.hunt = hunting.hunt.pieces, LeakHunt()
    hunting.hunt.marks[:], hunting.hunt.pieces = marks, pieces
    found = hunting.check()
    assert found is not None
    held = next(each for each in found.suspects if "._sessions" in each.retainer)
    assert (held.verdict, held.evidence[0]) == (
        UNCLEAR,
        "the earlier number here is unknown; of all shop.models.Session: most new ones are elsewhere",
    )


def crowded_shop(image: int) -> PlantedHeap:
    """Beside the leak, far more sessions collect somewhere else."""
    places = range(0x7000_0000, 0x7000_0000 + 300 * image * 0x100, 0x100)
    sessions = [Planted(place, TypeName("shop.models", "Session"), 48) for place in places]
    held = tuple(Reference("[*]", each.address) for each in sessions)
    archive, first = Planted(0x6000_0000, TypeName("", "list"), 216, held), growing_shop(image)
    return PlantedHeap(
        (*first.objects, archive, *sessions), (*first.roots, Root("module", "module archive", archive.address))
    )


def test_a_proof_by_addresses_alone_does_not_outlast_a_check_that_cannot_tell() -> None:
    proofs = Proofs()
    unknown = replace(SUSPECT, series=(-1, -1, 40))
    kept, notes = proofs.kept([unknown], 1, (10.0, 10.0), lambda _: (Judgement(LEAK, ("",)), 40))
    assert ([each.verdict for each in kept], notes) == ([LEAK], [])
    later = replace(unknown, verdict=UNCLEAR, series=(-1, -1, -1, 41))
    kept, notes = proofs.kept([later], 2, (10.0, 10.0, 10.0), lambda _: (Judgement(LEAK, ("",)), 40))
    assert [each.verdict for each in kept] == [UNCLEAR]
    assert notes[0].endswith("it was based on survivors by address alone, and this check does not confirm it")


def swelling_shop(image: int) -> PlantedHeap:
    """Twenty reports are made anew each time, each larger than the last ones."""
    place = 0x7000_0000 + image * 0x100_0000
    reports = [Planted(place + each * 0x1_0000, TypeName("shop.views", "Report"), 9_000 * image) for each in range(20)]
    named = Planted(0x6000_0000, TypeName("", "list"), 216, tuple(Reference("[*]", each.address) for each in reports))
    first = growing_shop(1)
    return PlantedHeap((*first.objects, named, *reports), (*first.roots, Root("module", "module reports", 0x6000_0000)))


def test_as_many_as_there_were_may_be_larger() -> None:
    (first,) = Hunting(swelling_shop).checks(4).suspects
    assert (first.type, first.verdict, first.series) == ("shop.views.Report", UNCLEAR, (20, 20, 20, 20))
    assert first.evidence[:2] == (
        "all shop.views.Report together take 527 KiB more than at the first mark",
        "as many are freed as are new: 20 at the first mark, 20 now",
    )


TEXT = TypeName("builtins", "str")


def joining_shop(image: int, each: int = 300_000) -> PlantedHeap:
    """A text that is joined to is another object each time."""
    text = Planted(0x7000_0000 + image * 0x100_0000, TEXT, each * image)
    log = Planted(0x6000_0000, TypeName("shop.log", "Log"), 48, (Reference(".text", text.address),))
    first = growing_shop(1)
    return PlantedHeap((*first.objects, log, text), (*first.roots, Root("module", "module shop.log", log.address)))


def counted_texts(hunting: Hunting, size_at: Callable[[int], int]) -> None:
    """A census of each second."""
    hunting.history.feed(Types(0, (TEXT,)))
    for second in range(10, 41):
        hunting.history.feed(replace(census(second, {(0, 2): (1, size_at(second))}), mode="clone"))


def test_one_object_that_is_made_anew_and_larger_each_time_is_a_leak() -> None:
    hunting = Hunting(joining_shop)
    counted_texts(hunting, lambda second: 30_000 * second)
    found = hunting.checks(4)
    (first,) = (suspect for suspect in found.suspects if suspect.type == "str")
    assert (found.verdict, first.verdict, first.held, first.counted) == (LEAK, LEAK, 1, "bytes")
    assert (first.bytes, first.rate, first.byte_rate) == (900_000, 30_000.0, 30_000.0)
    assert first.series == (300_000, 600_000, 900_000, 1_200_000)
    assert first.evidence[1] == "at the marks and now: 293 KiB, 586 KiB, 879 KiB and 1.14 MiB large"
    assert first.sentence == (
        "1 str is replaced by a larger one each time (+879 KiB, now 1.14 MiB, still growing 29.3 KiB/s) allocated at "
        "an unknown site (no sample among them), held by module shop.log → .text"
    )


@pytest.mark.parametrize(
    ("size_at", "verdict"),
    [
        (lambda second: 30_000 * second if second % 3 else 300_000, NO_LEAK),  # any size: larger at the marks by chance
        (lambda second: 300_000 * (second // 10), UNCLEAR),  # three times larger is no trend
    ],
    ids=["falls-between", "three-steps"],
)
def test_larger_at_the_marks_by_chance_is_no_leak(size_at: Callable[[int], int], verdict: str) -> None:
    hunting = Hunting(joining_shop)
    counted_texts(hunting, size_at)
    found = hunting.checks(4)
    (first,) = (suspect for suspect in found.suspects if suspect.type == "str")
    assert first.verdict == verdict
    assert found.verdict != LEAK


def test_what_no_longer_gets_larger_is_no_leak_any_more() -> None:
    def plant(image: int) -> PlantedHeap:
        return joining_shop(min(image, 4)) if image < 5 else joining_shop(image, 4 * 300_000 // image)

    hunting = Hunting(plant)
    counted_texts(hunting, lambda second: 30_000 * second)
    assert hunting.checks(4).verdict == LEAK
    found = hunting.checks(3)
    assert [suspect.verdict for suspect in found.suspects if suspect.type == "str"] != [LEAK]


def fetching_shop(image: int) -> PlantedHeap:
    """The last text is of any size, larger at each mark by chance; rows of the same type leak."""
    text = Planted(0x7000_0000 + image * 0x100_0000, TEXT, (0, 300_000, 500_000, 520_000, 900_000)[image])
    rows = [Planted(0x9000_0000 + each * 0x1_0000, TEXT, 4_000) for each in range(200 * image)]
    last = Planted(0x6000_0000, TypeName("shop.log", "Fetcher"), 48, (Reference(".last", text.address),))
    held = Planted(0x6100_0000, TypeName("", "list"), 216, tuple(Reference("[*]", row.address) for row in rows))
    first, roots = growing_shop(1), (Root("module", "module shop.log", last.address),)
    objects = (*first.objects, last, text, held, *rows)
    return PlantedHeap(objects, (*first.roots, *roots, Root("module", "module shop.rows", held.address)))


def test_the_growth_of_others_of_its_type_does_not_make_a_text_a_leak() -> None:
    hunting = Hunting(fetching_shop)
    hunting.history.feed(Types(0, (TEXT,)))
    for second in range(10, 41):
        some = 80_000 * second + second * 377_003 % 800_000
        hunting.history.feed(replace(census(second, {(0, 2): (705 + 20 * second, some)}), mode="clone"))
    found = {each.retainer: each.verdict for each in hunting.checks(4).suspects}
    assert (found["module shop.rows"], found["module shop.log"]) == (LEAK, UNCLEAR)


def paging_shop(image: int) -> PlantedHeap:
    """Five of 205 pages are made anew."""
    old = [Planted(0x9000_0000 + each * 0x1_0000, TEXT, 20_000) for each in range(200)]
    new = [Planted(0x7000_0000 + image * 0x100_0000 + each * 0x1_0000, TEXT, 20_000 * image) for each in range(5)]
    held = Planted(0x6100_0000, TypeName("", "dict"), 216, tuple(Reference("dict[*]", e.address) for e in [*old, *new]))
    first = growing_shop(1)
    root = Root("module", "module shop.pages", held.address)
    return PlantedHeap((*first.objects, held, *old, *new), (*first.roots, root))


def test_the_sizes_of_many_are_not_said_of_a_few() -> None:
    hunting = Hunting(paging_shop)
    counted_texts(hunting, lambda second: 4_000_000 + 10_000 * second)
    (first,) = (each for each in hunting.checks(4).suspects if each.type == "str")
    assert (first.verdict, first.counted) == (UNCLEAR, "objects")


def test_the_number_of_objects_refutes_no_growth_in_bytes() -> None:
    proofs, sizes = Proofs(), (300_000, 600_000, 900_000, 1_200_000)
    text = replace(SUSPECT, type="str", held=1, count=1, counted="bytes", generations=(300_000,) * 3, series=sizes)

    def everywhere(_: str) -> tuple[Judgement, int]:
        return Judgement(NO_LEAK, ("as many are freed as are new",)), 5_000

    proofs.kept([text], 1, (10.0,) * 3, everywhere)
    kept, notes = proofs.kept([], 2, (10.0,) * 4, everywhere)
    assert ([each.verdict for each in kept], notes) == ([LEAK], [])
    kept, notes = proofs.kept([], 3, (10.0,) * 5, everywhere)
    assert kept == []
    assert notes[0].endswith("that is refuted: it was not found for 2 checks")


def busy_shop(image: int) -> PlantedHeap:
    """Beside the leak, a request that is in the middle of other work at each look has sessions of its own."""
    place, own = 0x7000_0000 + image * 0x100_0000, (0, 200, 100, 60)[image - 1]
    sessions = [Planted(place + each * 0x100, TypeName("shop.models", "Session"), 48) for each in range(own)]
    held = tuple(Reference("[*]", each.address) for each in sessions)
    in_use = Planted(0x6000_0000, TypeName("", "list"), 216, held)
    first = growing_shop(image)
    return PlantedHeap(
        (*first.objects, in_use, *sessions), (*first.roots, Root("module", "module requests", in_use.address))
    )


@pytest.mark.parametrize(("is_known", "verdict"), [(True, LEAK), (False, UNCLEAR)])
def test_survivors_by_address_alone_are_no_leak_unless_all_of_the_type_grow(is_known: bool, verdict: str) -> None:
    """What takes the addresses of what has gone looks as if it had lived on."""
    hunting = Hunting(busy_shop)
    hunting.checks(3)
    if not is_known:
        marks = [replace(mark, trends=Trends(all_kept=False)) for mark in hunting.hunt.marks]
        pieces, hunting.hunt = hunting.hunt.pieces, LeakHunt()  # one that has proven nothing yet
        hunting.hunt.marks[:], hunting.hunt.pieces = marks, pieces
    found = hunting.check()
    assert found is not None
    held = next(each for each in found.suspects if "._sessions" in each.retainer)
    assert (held.held, held.count, held.verdict) == (90, 150, verdict)
    if not is_known:
        assert held.series == (-1, -1, -1, 170)
        assert held.evidence[0] == (
            "the earlier number here is unknown; of all shop.models.Session: fewer than before: 310 at mark 2, 230 now"
        )


def filling_shop(image: int, holder: TypeName, between: TypeName | None) -> PlantedHeap:
    """Pages are kept by one object, each by a link of its own where there are links."""
    count = 30 * image
    pages = [Planted(0x7000_0000 + each * 0x100, TypeName("shop.views", "Page"), 48) for each in range(count)]
    links = [
        Planted(0x7100_0000 + page.address % 0x100_0000, between, 48, (Reference(".result", page.address),))
        for page in pages
        if between is not None
    ]
    kept = tuple(Reference("[*]", each.address) for each in links or pages)
    itself = Planted(0x6000_0000, holder, 216, kept)
    root = Root("module", "module shop.views", itself.address)
    return PlantedHeap((itself, *links, *pages), (root,))


@pytest.mark.parametrize(
    ("holder", "between", "verdict", "why"),
    [
        ("functools._lru_cache_wrapper", None, LEAK, "it grew in every interval"),
        (
            "functools._lru_cache_wrapper",
            "functools._lru_list_elem",
            UNCLEAR,
            "an lru_cache with a maxsize holds them: it may not be full yet",
        ),
        ("queue.Queue", None, UNCLEAR, "a queue.Queue holds them: they may be waiting for their turn"),
        ("shop.views.Queue", None, LEAK, "it grew in every interval"),
    ],
)
def test_what_may_be_filling_up_is_unclear_without_a_known_bound(
    holder: str, between: str | None, verdict: str, why: str
) -> None:
    def type_of(name: str) -> TypeName:
        module, _, last = name.rpartition(".")
        return TypeName(module, last)

    link = type_of(between) if between is not None else None
    found = Hunting(lambda image: filling_shop(image, type_of(holder), link)).checks(4)
    pages = named(found, "shop.views.Page")
    assert pages is not None
    assert (pages.verdict, pages.held) == (verdict, 90)
    assert pages.evidence[0].startswith(why)


def bounded_shop(image: int, holder: TypeName, inside: TypeName, bound: int, passing: int = 0) -> PlantedHeap:
    """Pages wait in a container of an object that has the bound; many more go through it, which leave their places."""
    count = 30 * image
    place = 0x7000_0000 + image * passing * 0x100
    pages = [Planted(place + each * 0x100, TypeName("shop.views", "Page"), 48) for each in range(count)]
    kept = tuple(Reference("[*]", each.address) for each in pages)
    changes = image * (30 + 2 * passing)
    within = Planted(0x6000_0100, inside, 216, kept, length=count, changes=changes)
    itself = Planted(0x6000_0000, holder, 48, (Reference(".queue", within.address),), bound=bound)
    return PlantedHeap((itself, within, *pages), (Root("module", "module shop.views", itself.address),))


@pytest.mark.parametrize(
    ("holder", "inside", "bound", "passing", "verdict", "why"),
    [
        (
            TypeName("queue", "Queue"),
            TypeName("collections", "deque"),
            0,
            0,
            BACKLOG,
            "a queue.Queue grows by 3.0/s, and nothing is taken out",
        ),
        (
            TypeName("queue", "Queue"),
            TypeName("collections", "deque"),
            0,
            1_000,
            BACKLOG,
            "a queue.Queue grows by 3.0/s, its consumer takes 100/s",
        ),
        (
            TypeName("shop.cache", "Pages"),
            TypeName("", "dict"),
            1_000,
            0,
            UNCLEAR,
            "fills until 1,000, in ≈ 5 min at this rate, with ≈ 48.6 KiB then: a shop.cache.Pages, now 120",
        ),
        (TypeName("shop.cache", "Pages"), TypeName("", "dict"), 0, 0, LEAK, "it grew in every interval"),
        (TypeName("shop.cache", "Pages"), TypeName("", "dict"), 20, 0, LEAK, "it grew in every interval"),
    ],
)
def test_what_a_container_with_a_known_bound_holds(
    holder: TypeName, inside: TypeName, bound: int, passing: int, verdict: str, why: str
) -> None:
    found = Hunting(lambda image: bounded_shop(image, holder, inside, bound, passing)).checks(4)
    pages = named(found, "shop.views.Page")
    assert pages is not None
    assert (pages.verdict, found.verdict) == (verdict, verdict)
    assert pages.evidence[0].startswith(why)
    assert ("still growing" in pages.sentence) == (verdict != UNCLEAR)


class ImageWithTables(PlantedImage):
    """The sampled block of an object that is asked for alone is its table."""

    def answer(self, id: int, question: images.Question) -> Message:
        if question.what == images.STACKS and question.selection.addresses and not question.buffers:
            return images.Blocks(id, (), complete=True)
        return super().answer(id, question)


def caching_shop(image: int, sampled: int, table: int, text: int) -> PlantedHeap:
    """A list of dicts, each with a text of its own; the table of the list was sampled, and some of the texts."""
    texts = [
        Planted(0x7000_0000 + each * 0x100, TypeName("", "str"), 900, stack=text if each % 30 < sampled else 0)
        for each in range(30 * image)
    ]
    dicts = [
        Planted(0x7100_0000 + each.address % 0x100_0000, TypeName("", "dict"), 184, (Reference("[*]", each.address),))
        for each in texts
    ]
    kept = tuple(Reference("[*]", each.address) for each in dicts)
    rows = Planted(0x6000_0000, TypeName("", "list"), 90_000, kept, length=len(kept), stack=table)
    module = Planted(0x5000_0000, TypeName("", "module"), 72, (Reference("._rows", rows.address),))
    return PlantedHeap((module, rows, *dicts, *texts), (Root("module", "module shop.cache", module.address),))


def sites_of_dicts(texts: str, table: str, recycled: tuple[str, ...], dicts: str = "") -> Suspect:
    """Of dicts that collect: their texts, the table of the list that holds them and they themselves were allocated at
    these frames, where any."""
    sampling = Sampling()
    program = Program(1_000, samples=sampling.samples)
    sampling.feed(replace(sampler(1_000), approximate=recycled, prefixes=("/usr",), path=("/srv",)))
    for at in filter(None, (texts, table, dicts)):
        program.allocate((at,), 10)
    program.run()
    numbers = [program.stack(at) if at else 0 for at in (table, texts, dicts)]
    hunting = Hunting(sampling=sampling)
    for number in (1, 2):
        heap = caching_shop(number, 30 if texts else 0, *numbers[:2])
        new = tuple(replace(each, stack=numbers[2]) if each.type.full == "dict" else each for each in heap.objects)
        planted = ImageWithTables(replace(heap, objects=new))
        asking = hunting.hunt.check(image_of(planted, number), planted.types, hunting.history, sampling, mark="mark")
        found = put(asking, planted)
    assert found is not None
    suspect = named(found, "dict")
    assert suspect is not None
    return suspect


STREAMS: Final = "/usr/lib/python3.13/asyncio/streams.py connection_made:3"
KEEP: Final = "/srv/app.py keep:7"
CHURN: Final = "/srv/app.py churn:2"
VALIDATE: Final = "/srv/lib/site-packages/pydantic/adapter.py validate:4"


@pytest.mark.parametrize(
    ("texts", "recycled", "dicts", "words"),
    [
        (KEEP, (), STREAMS, "near app.py:7 in keep (from samples of other new objects there"),
        ("", (), STREAMS, "at asyncio/streams.py:3 in connection_made"),
        ("", ("dict",), CHURN, "near app.py:2 in churn (where their memory was first allocated: free lists reuse it"),
        (KEEP, ("dict",), CHURN, "near app.py:7 in keep (from samples of other new objects there"),
    ],
)
def test_a_site_says_what_was_sampled_and_is_the_programs_own_where_one_is(
    texts: str, recycled: tuple[str, ...], dicts: str, words: str
) -> None:
    assert words in sites_of_dicts(texts, "", recycled, dicts).sentence


def test_the_program_line_that_puts_things_there_goes_before_the_standard_library_that_makes_all_of_them() -> None:
    """A server of the standard library makes files, a dict of the environment and what is in it for each request."""
    suspect = sites_of_dicts(STREAMS, KEEP, (), STREAMS)
    assert "near app.py:7 in keep (where their container grew" in suspect.sentence


@pytest.mark.parametrize(
    ("table", "recycled", "dicts", "words"),
    [
        (KEEP, ("dict",), "", "near app.py:7 in keep (where their container grew"),
        (KEEP, (), VALIDATE, "near app.py:7 in keep (where their container grew"),
        (VALIDATE, (), VALIDATE, "at lib/site-packages/pydantic/adapter.py:4 in validate"),
        ("", (), VALIDATE, "at lib/site-packages/pydantic/adapter.py:4 in validate"),
        (KEEP, (), CHURN, "at app.py:2 in churn"),
    ],
)
def test_the_program_line_that_puts_things_there_goes_before_the_package_that_makes_them(
    table: str, recycled: tuple[str, ...], dicts: str, words: str
) -> None:
    """A web framework reads the body of a request before it calls a view."""
    assert words in sites_of_dicts("", table, recycled, dicts).sentence


def test_what_grows_in_place_has_the_line_that_last_enlarged_it() -> None:
    sampling = Sampling()
    program = Program(1_000, samples=sampling.samples)
    program.allocate(("main", "receive:5"), 10)
    program.run()
    buffer = Planted(0x7000_0000, TypeName("", "bytearray"), 0, length=0, stack=program.stack("main", "receive:5"))
    module = Planted(0x5000_0000, TypeName("", "module"), 72, (Reference(".BUFFER", buffer.address),))
    root = Root("module", "module app", module.address)
    hunting = Hunting(sampling=sampling)
    for number in range(1, 5):
        grown = replace(buffer, size=100_000 * number, length=100_000 * number)
        planted = ImageWithTables(PlantedHeap((module, grown), (root,)))
        asking = hunting.hunt.check(image_of(planted, number), planted.types, hunting.history, sampling, mark="mark")
        found = put(asking, planted)
    assert found is not None
    (suspect,) = found.suspects
    assert (suspect.verdict, suspect.site_is_own) == (LEAK, True)
    assert suspect.sentence == (
        "1 bytearray grew in place (+293 KiB, now 400,000 long, still growing 10,000/s) at srv/app.py:5 in receive: "
        "module app → .BUFFER"
    )


def test_a_view_and_its_base_are_one_array() -> None:
    """What is kept is the view of 112 bytes; the bytes are those of the base, which nothing else has."""
    array, kept = TypeName("numpy", "ndarray"), Planted(0x6000_0000, TypeName("", "list"), 56)
    root = Root("module", "module app", kept.address)

    def plant(number: int) -> PlantedHeap:
        places = range(0x7000_0000, 0x7000_0000 + 50 * number * 0x1_0000, 0x1_0000)
        views = [Planted(place, array, 112, (Reference(".base", place + 0x1000),)) for place in places]
        bases = [Planted(place + 0x1000, array, 0x2000) for place in places]
        items = tuple(Reference("[*]", each.address) for each in views)
        itself = replace(kept, references=items, length=len(items), size=56 + 8 * len(items))
        return PlantedHeap((itself, *views, *bases), (root,))

    (suspect,) = Hunting(plant).checks(4).suspects
    assert (suspect.verdict, suspect.type, suspect.held, suspect.count) == (LEAK, "numpy.ndarray", 150, 150)
    assert (suspect.generations, suspect.series) == ((50, 50, 50), (50, 100, 150, 200))
    assert suspect.bytes >= 150 * (112 + 0x2000)
    assert suspect.sentence.startswith("≥150 numpy.ndarray (≥1.19 MiB, still growing 5.0/s")
    assert suspect.holding == "all held by module app (list)"


def test_an_attribute_called_base_makes_no_view() -> None:
    """Of a class in Python both are counted: what is kept, and what it refers to as its base."""
    scope, kept = TypeName("app", "Scope"), Planted(0x6000_0000, TypeName("", "list"), 56)

    def plant(number: int) -> PlantedHeap:
        places = range(0x7000_0000, 0x7000_0000 + 50 * number * 0x1_0000, 0x1_0000)
        scopes = [Planted(place, scope, 112, (Reference(".base", place + 0x1000),)) for place in places]
        bases = [Planted(place + 0x1000, scope, 112) for place in places]
        items = tuple(Reference("[*]", place) for place in places)
        itself = replace(kept, references=items, length=len(items), size=56 + 8 * len(items))
        return PlantedHeap((itself, *scopes, *bases), (Root("module", "module app", kept.address),))

    (suspect,) = Hunting(plant).checks(4).suspects
    assert (suspect.verdict, suspect.type, suspect.held, suspect.count) == (LEAK, "app.Scope", 300, 300)
    assert suspect.generations == (100, 100, 100)


@pytest.mark.parametrize(("bounded", "verdict"), [(False, LEAK), (True, NO_LEAK)])
def test_a_container_of_a_class_in_python_is_judged_by_its_length(bounded: bool, verdict: str) -> None:
    """A class made from list, of which no item is new."""
    log = Planted(0x7000_0000, TypeName("app", "Log"), 0, is_container=True)
    module = Planted(0x5000_0000, TypeName("", "module"), 72, (Reference(".LOG", log.address),))
    root = Root("module", "module app", module.address)

    def plant(number: int) -> PlantedHeap:
        length = 10_000 * (3 if bounded and number > 1 else number)
        return PlantedHeap((module, replace(log, size=16 * length, length=length)), (root,))

    found = Hunting(plant).checks(4)
    suspects = [each for each in found.suspects if each.type == "app.Log"]
    assert found.verdict == verdict
    assert [each.verdict for each in suspects] == [verdict]
    assert (suspects[0].counted, suspects[0].holder) == ("items", "app.Log")
    assert suspects[0].series == ((10_000, 30_000, 30_000, 30_000) if bounded else (10_000, 20_000, 30_000, 40_000))


@pytest.mark.parametrize(("sampled", "site"), [(20, "app.py:3 make"), (4, "app.py:7 keep"), (0, "app.py:7 keep")])
def test_the_line_that_makes_most_of_what_is_new_goes_before_who_puts_it_there(sampled: int, site: str) -> None:
    """Dicts are recycled: their site is known indirectly. Small parts may have been made anywhere."""
    sampling = Sampling()
    sampling.feed(replace(sampler(1_000), approximate=("dict", "list")))
    program = Program(1_000, samples=sampling.samples)
    stacks = []
    for at in ("keep:7", "make:3"):
        stacks.append(program.stack("main", at))
        program.allocate(("main", at), 10)
    program.run()
    hunting = Hunting(sampling=sampling)
    for number in (1, 2):
        planted = ImageWithTables(caching_shop(number, sampled, *stacks))
        image = image_of(planted, number)
        found = put(hunting.hunt.check(image, planted.types, hunting.history, sampling, mark="mark"), planted)
    assert found is not None
    suspect = named(found, "dict")
    assert suspect is not None
    assert (suspect.site.rpartition("/")[2], suspect.site_is_own) == (site, False)


def mailing_shop(image: int) -> PlantedHeap:
    """Messages wait in a queue: dicts with three dicts in each."""
    dict_type, count = TypeName("", "dict"), 30 * image
    parts = [Planted(0x7100_0000 + each * 0x100, dict_type, 64) for each in range(3 * count)]
    mails = [
        Planted(
            0x7000_0000 + each * 0x100,
            dict_type,
            232,
            tuple(Reference("[*]", part.address) for part in parts[3 * each : 3 * each + 3]),
            length=3,
        )
        for each in range(count)
    ]
    kept = tuple(Reference("[*]", each.address) for each in mails)
    within = Planted(0x6000_0100, TypeName("collections", "deque"), 216, kept, length=count, changes=count)
    itself = Planted(0x6000_0000, TypeName("queue", "Queue"), 48, (Reference(".queue", within.address),), bound=0)
    return PlantedHeap((itself, within, *mails, *parts), (Root("module", "module shop.mails", itself.address),))


def test_a_backlog_counts_messages_and_not_what_is_in_them() -> None:
    (mails,) = Hunting(mailing_shop).checks(4).suspects
    assert (mails.verdict, mails.type, mails.held, mails.rate) == (BACKLOG, "dict", 90, 3.0)
    assert mails.series == (30, 60, 90, 120)
    assert mails.sentence.startswith("≥90 of ≥360 new dict (≥")
    assert "still growing 3.0/s" in mails.sentence


def test_without_an_answer_about_a_container_its_bound_is_not_known() -> None:
    queue, deque = TypeName("queue", "Queue"), TypeName("collections", "deque")
    hunting = Hunting(lambda image: bounded_shop(image, queue, deque, 0))
    hunting.checks(3)
    planted = PlantedImage(hunting.plant(4))
    asking = hunting.hunt.check(image_of(planted, 4), planted.types, hunting.history, hunting.sampling, mark="mark")
    found = put(asking, planted, lambda each: each.what == images.OBJECTS and bool(each.selection.addresses))
    assert found is not None
    pages = named(found, "shop.views.Page")
    assert pages is not None
    assert (pages.verdict, pages.evidence[0]) == (
        UNCLEAR,
        "a queue.Queue holds them: they may be waiting for their turn",
    )


def exporting_shop(image: int) -> PlantedHeap:
    """At each look a call has taken more rows of those that wait; which wait are others each time."""
    taken, waiting = (
        [Planted(place + each * 0x100, TypeName("shop.export", "Row"), 48) for each in range(number)]
        for place, number in ((0x7000_0000, 100 * image), (0x7100_0000 + image * 0x10_0000, 900 - 100 * image))
    )
    in_call, in_line = (
        Planted(place, TypeName("", "list"), 88, tuple(Reference("[*]", row.address) for row in rows), length=len(rows))
        for place, rows in ((0x6000_0000, taken), (0x6000_1000, waiting))
    )
    call = Frame("frame export()", (Reference("frame export() local rows", in_call.address),))
    roots = (Root("module", "module shop.export", in_line.address),)
    return PlantedHeap((in_call, in_line, *taken, *waiting), roots, (call,))


def test_what_a_running_call_holds_is_no_leak_unless_all_of_the_type_grow() -> None:
    """It goes when the call returns, and another look finds the call elsewhere."""
    found = Hunting(exporting_shop).checks(3)
    rows = next(each for each in found.suspects if each.kind == "frame")
    assert (rows.type, rows.series, rows.verdict) == ("shop.export.Row", (100, 200, 300), NO_LEAK)
    assert rows.evidence[0] == (
        "a running call holds them, and may free them when it returns; of all shop.export.Row: "
        "as many are freed as are new: 900 at the first mark, 900 now"
    )


def test_a_leak_proven_in_a_call_is_refuted_when_another_call_holds_less() -> None:
    leak = replace(SUSPECT, kind="frame", retainer="frame work local found")
    proofs = Proofs()
    (proven,), notes = proofs.kept([leak], 2, (10.0, 10.0), lambda _: (Judgement(UNCLEAR, ("",)), 0))
    assert (proven.verdict, notes) == (LEAK, [])
    later = replace(leak, verdict=UNCLEAR, evidence=("it did not grow in every interval",), series=(80, -1, 0, 1_320))
    (kept,), notes = proofs.kept([later], 3, (10.0, 10.0, 10.0), lambda _: (Judgement(UNCLEAR, ("",)), 0))
    assert kept.verdict == UNCLEAR
    assert notes == [
        "app.models.Session was called a leak, proven at check 2 (20 s after the first mark); "
        "that is refuted: 0 at the last mark, before 1,320: the call that held them has returned"
    ]


def test_what_was_counted_between_the_marks_counts() -> None:
    hunting = Hunting()
    hunting.history.feed(Types(0, (TypeName("shop.models", "Session"),)))
    for second in range(10, 41):
        most = 80 + 3 * (second - 10)
        counted = replace(census(second, {(0, 2): (most + second % 10 * 12, 1)}), mode="clone")
        hunting.history.feed(counted)
    first = hunting.checks(4).suspects[0]
    assert (first.type, first.verdict) == ("shop.models.Session", UNCLEAR)
    assert first.evidence[0] == "it fell in between, from 215 to 110; but some of each interval stayed"


def serving_shop(image: int) -> PlantedHeap:
    """Each look finds another request at work: with rows in a list that is as new as they are."""
    place = 0x7000_0000 + (image * 0x1_0000 if image > 1 else 0)
    count = 8 if image == 1 else 20
    rows = [Planted(place + each * 0x100, TypeName("shop.views", "Row"), 900) for each in range(count)]
    held = tuple(Reference("[*]", each.address) for each in rows)
    answer = Planted(0x6000_0000 + image * 0x1000, TypeName("", "list"), 216, held, length=count)
    return PlantedHeap((answer, *rows), (Root("module", "module shop.views", answer.address),))


def test_a_place_that_was_emptied_between_the_marks_is_no_leak() -> None:
    """By chance there were more at each mark. A census in between counted fewer of the type, anywhere."""
    for low, verdict in ((130, LEAK), (20, NO_LEAK)):
        hunting = Hunting()
        hunting.history.feed(Types(0, (TypeName("shop.models", "Session"),)))
        for second in range(10, 41):
            count = low if second in {24, 25, 26} else 80 + 3 * (second - 10)
            hunting.history.feed(replace(census(second, {(0, 2): (count, 1)}), mode="clone"))
        found = hunting.checks(4)
        sessions = named(found)
        assert sessions is not None
        assert sessions.verdict == verdict


def settling_shop(image: int, size: int) -> PlantedHeap:
    """Beside a large cache that turns over, a registry of names grows ever more slowly."""
    pages = [
        Planted(0x7000_0000 + (image * 40 + each) * 0x1_0000, TypeName("shop.views", "Page"), 9_000)
        for each in range(40)
    ]
    count = (0, 9, 17, 18)[image - 1]
    names = [
        Planted(0x6100_0000 + each * 0x100, TypeName("shop.names", "Name"), size) for each in range(count)
    ]
    cache, registry = (
        Planted(place, TypeName("", "list"), 400, tuple(Reference("[*]", each.address) for each in kept), length=count)
        for place, kept, count in ((0x6000_0000, pages, 40), (0x6000_1000, names, count))
    )
    roots = (Root("module", "module shop.views", cache.address), Root("module", "module shop.names", registry.address))
    return PlantedHeap((cache, registry, *pages, *names), roots)


@pytest.mark.parametrize(("checks", "size", "verdict"), [(4, 60, NO_LEAK), (4, 2_000, UNCLEAR), (2, 60, UNCLEAR)])
def test_a_little_that_is_unclear_after_several_intervals_is_no_leak(checks: int, size: int, verdict: str) -> None:
    moments = range(1, 5) if checks > 2 else (1, 3)
    found = Hunting(lambda number: settling_shop(moments[number - 1], size)).checks(checks)
    names = named(found, "shop.names.Name")
    assert names is not None
    assert (names.verdict, found.verdict) == (UNCLEAR, verdict)


def test_a_container_that_has_just_begun_says_nothing_of_those_before_it() -> None:
    """All of the type say that there were as many, in another one."""
    (rows,) = (each for each in Hunting(serving_shop).checks(4).suspects if each.type == "shop.views.Row")
    assert (rows.holder, rows.series) == ("list", (8, 20, 20, 20))
    assert (rows.verdict, rows.evidence[0]) == (NO_LEAK, "as many are freed as are new: 20 at mark 2, 20 now")


def pruned_shop(counts: tuple[int, ...], others: tuple[int, ...], image: int) -> PlantedHeap:
    """References to rows collect in a list, which is another one from the second image on. So many are elsewhere."""
    kept = [reference(0x7000_0000 + (image > 1) * 0x100_0000 + each * 0x100) for each in range(counts[image - 1])]
    elsewhere = [reference(0x7200_0000 + each * 0x100) for each in range(others[image - 1])]
    rows, catalogue = list_of(0x6000_0000 + (image > 1) * 0x1000, kept), list_of(0x6100_0000, elsewhere)
    roots = (Root("module", "module shop.rows", rows.address), Root("module", "module shop.all", catalogue.address))
    return PlantedHeap((rows, catalogue, *kept, *elsewhere), roots)


def reference(address: int) -> Planted:
    return Planted(address, TypeName("shop.views", "Reference"), 80)


def list_of(address: int, items: Sequence[Planted]) -> Planted:
    held = tuple(Reference("[*]", each.address) for each in items)
    return Planted(address, TypeName("", "list"), 56 + 8 * len(items), held, length=len(items))


STEADY_OTHERS, CHANGING_OTHERS = (500,) * 4, (900, 800, 750, 700)


@pytest.mark.parametrize("others", [STEADY_OTHERS, CHANGING_OTHERS])
@pytest.mark.parametrize(("counts", "verdict"), [((170, 44, 113, 186), NO_LEAK), ((0, 44, 113, 186), LEAK)])
def test_a_list_that_replaced_another_since_the_first_mark_is_judged_together_with_that(
    counts: tuple[int, ...], verdict: str, others: tuple[int, ...]
) -> None:
    references = named(Hunting(lambda image: pruned_shop(counts, others, image)).checks(4), "shop.views.Reference")
    assert references is not None
    assert (references.verdict, references.series) == (verdict, counts)


def served(image: int) -> PlantedHeap:
    """Five connections keep 200 references each; one more, made after the first mark, keeps 60 more each time. 300, 240
    and fewer of the type come and go elsewhere."""
    objects: list[Planted] = []
    connections: list[Planted] = []
    for number in range(6 if image > 1 else 5):
        count = 200 if number < 5 else 60 * (image - 1)
        kept = [reference(0x7000_0000 + number * 0x100_0000 + each * 0x100) for each in range(count)]
        history = list_of(0x6000_0000 + number * 0x1000, kept)
        held = (Reference("._history", history.address),)
        connections.append(Planted(0x5000_0000 + number * 0x1000, TypeName("shop.ws", "Connection"), 48, held))
        objects += (*kept, history)
    others = [reference(0x7800_0000 + image * 0x100_0000 + each * 0x100) for each in range(360 - 60 * image)]
    queue, registry = list_of(0x6100_0000, others), list_of(0x6200_0000, connections)
    roots = (Root("module", "module shop.ws", registry.address), Root("module", "module shop.queue", queue.address))
    return PlantedHeap((registry, queue, *connections, *objects, *others), roots)


def test_a_leak_into_a_container_made_after_the_first_mark_is_found_beside_others_like_it() -> None:
    references = named(Hunting(served).checks(4), "shop.views.Reference")
    assert references is not None
    assert (references.verdict, references.series) == (LEAK, (-1, 60, 120, 180))


def test_growth_by_type_module_and_retainer() -> None:
    found = Hunting().checks(4)
    sessions = next(row for row in growth(found, "type").rows if row.name == "shop.models.Session")
    assert (sessions.count, sessions.now, sessions.born, sessions.died) == (90, 170, 90, 0)
    assert sessions.generations == (30, 30, 30)
    previews = next(row for row in growth(found, "type").rows if row.name == "shop.views.Preview")
    assert (previews.count, previews.born, previews.died) == (0, 40, 40)
    for key in ("type", "module"):
        assert sum(row.count for row in growth(found, key).rows) == found.count
        assert sum(row.bytes for row in growth(found, key).rows) == found.bytes
    kept = {row.name: row for row in growth(found, "retainer").rows}
    assert kept["module shop.views ._previews"].count == 0
    assert kept["module shop.views ._previews"].died == kept["module shop.views ._previews"].born
    assert kept["module shop.cache ._sessions"].died == 0


def test_two_marks_do_not_tell_a_leak() -> None:
    found = Hunting().checks(2)
    assert found.verdict == UNCLEAR
    assert {each.verdict for each in found.suspects} == {UNCLEAR, NO_LEAK}


def test_any_two_marks_can_be_compared() -> None:
    hunting = Hunting()
    hunting.checks(3)
    found = hunting.check("last", since=1)
    assert found is not None
    assert [mark.name for mark in found.marks] == ["mark", "mark", "last"]
    assert (found.suspects[0].count, found.suspects[0].series) == (60, (110, 140, 170))


def test_survivors_of_one_stretch() -> None:
    hunting = Hunting()
    hunting.checks(3)
    found = hunting.check(None, since=0, until=1)
    assert found is not None
    assert found.suspects[0].type == "shop.models.Session"
    assert found.suspects[0].held == 30
    assert len(hunting.hunt.marks) == 3


def test_marks_that_are_not_there() -> None:
    hunting = Hunting()
    hunting.checks(2)
    for since, until in ((2, None), (-1, None), (1, 1), (0, 3)):
        with pytest.raises(ValueError, match="no such marks"):
            hunting.check(since=since, until=until)


def test_without_points_paths_tell() -> None:
    hunting = Hunting()
    hunting.checks(3)
    found = hunting.check(refused=[images.POINTS])
    assert found is not None
    assert found.suspects[0].type == "shop.models.Session"
    assert found.suspects[0].retainer == "module shop.cache ._sessions"
    assert "what holds new objects is known from paths only: it was cancelled" in found.notes


def test_a_place_that_cannot_be_looked_at_is_noted() -> None:
    hunting = Hunting()
    hunting.checks(3)
    found = hunting.check(refused=[images.GROUPS])
    assert found is not None
    assert [(each.type, each.evidence[1]) for each in found.suspects] == [
        ("shop.models.Session", "this check: what holds them was not found")
    ], "what earlier checks have proven, and nothing else"
    assert "3 places where new objects collect were not checked: it was cancelled" in found.notes


@pytest.mark.parametrize(
    ("count", "since", "until", "chosen"),
    [
        (0, 0, None, []),
        (1, 0, None, [0]),
        (4, 1, 2, [1, 2, 3]),
        (4, 1, 4, [1, 2, 3]),
        (100, 0, 5, [0, 5, 9, 18, 27, 36, 45, 54, 63, 72, 81, 90, 99]),
        (100, 88, None, list(range(88, 100))),
    ],
)
def test_of_many_marks_some_are_compared_evenly(count: int, since: int, until: int | None, chosen: list[int]) -> None:
    assert chosen_marks(count, since, until) == chosen


# -- what was proven stays until it is refuted ------------------------------------------------------------------

REQUEST = 30 << 20
SESSION = "shop.models.Session"


def with_request(heap: PlantedHeap, number: int = 1) -> PlantedHeap:
    """The same with large buffers, each in a list of a module's: as after large requests."""
    buffers = tuple(
        Planted(0x6000_0000_0000 + each * 2 * REQUEST, TypeName("builtins", "bytearray"), REQUEST)
        for each in range(number)
    )
    held = Planted(
        0x5000_0000_0000,
        TypeName("builtins", "list"),
        88,
        tuple(Reference(f"[{place}]", each.address) for place, each in enumerate(buffers)),
        length=number,
    )
    return PlantedHeap(
        (*heap.objects, *buffers, held), (*heap.roots, Root("module", "module uploads", held.address)), heap.frames
    )


def named(found: Findings, type: str = SESSION) -> Suspect | None:
    return next((each for each in found.suspects if each.type == type), None)


def test_a_large_allocation_hides_no_leak_that_was_proven() -> None:
    hunting = Hunting(lambda number: with_request(growing_shop(number)) if number >= 5 else growing_shop(number))
    before = hunting.checks(4)
    proven = named(before)
    assert proven is not None
    assert (proven.verdict, proven.proven_check, proven.confirmed_check) == (LEAK, 2, 3)
    assert (proven.proven_seconds, proven.confirmed_seconds) == (20.0, 30.0)
    for check in (4, 5, 6):
        found = hunting.check()
        assert found is not None
        kept = named(found)
        assert found.verdict == LEAK
        assert kept is not None, "one large allocation is no evidence against it"
        assert (kept.verdict, kept.proven_check, kept.confirmed_check) == (LEAK, 2, check)
        assert kept.holder == "dict"
        assert kept.held == 30 * check


def test_a_large_allocation_hides_no_leak_that_begins() -> None:
    """That was there from the second image on: what leaks is a thousandth of what is new."""
    found = Hunting(lambda number: with_request(growing_shop(number)) if number >= 2 else growing_shop(number)).checks(
        5
    )
    assert found.verdict == LEAK
    suspect = named(found)
    assert suspect is not None
    assert suspect.verdict == LEAK
    assert suspect.retainer == "module shop.cache ._sessions"


def recorded_calls(image: int) -> PlantedHeap:
    """A mock with two lists of the calls to it; what each call was given is in both."""
    given = [Planted(0x1000_0000 + each * 0x20, TypeName("app", "Number"), 28) for each in range(30 * image)]
    calls, lists = [], []
    for place, name in enumerate(("._calls", "._child_calls")):
        made = [
            Planted(0x2000_0000 + number, TypeName("mock", "Call"), 400, (Reference("[0]", each.address),))
            for number, each in zip(range(place << 20, 1 << 30, 0x400), given, strict=False)
        ]
        items = tuple(Reference("[*]", each.address) for each in made)
        listed = Planted(0x3000_0000 + place * 0x1000, TypeName("mock", f"Calls{place}"), 88, items, length=len(made))
        calls += [*made, listed]
        lists.append(Reference(name, listed.address))
    mock = Planted(0x5000_0000, TypeName("mock", "Mock"), 72, tuple(lists))
    return PlantedHeap((*given, *calls, mock), (Root("module", "module shop.audit", mock.address),))


def test_small_parts_that_several_places_share_do_not_come_before_what_is_there() -> None:
    found = Hunting(recorded_calls).checks(4)
    assert [(each.verdict, each.type, each.bytes) for each in found.suspects] == [
        (LEAK, "mock.Call", 90 * 400),
        (LEAK, "mock.Call", 90 * 400),
        (LEAK, "app.Number", 90 * 28),
    ]


def test_a_check_that_cannot_tell_leaves_what_was_proven() -> None:
    hunting = Hunting()
    hunting.checks(4)
    hunting.number -= 1  # nothing has happened since: it did not grow in every interval
    found = hunting.check()
    assert found is not None
    kept = named(found)
    assert kept is not None
    assert (found.verdict, kept.verdict, kept.proven_check, kept.confirmed_check) == (LEAK, LEAK, 2, 3)
    assert kept.evidence[0] == (
        "proven at check 2 (20 s after the first mark), last confirmed at check 3 (30 s); not refuted since"
    )
    assert kept.evidence[1].startswith("this check: ")


def test_what_was_proven_is_refuted_where_it_stops_or_goes() -> None:
    for after in (growing_shop(1), growing_shop(3)):
        hunting = Hunting()
        hunting.checks(4)
        hunting.plant = lambda _, heap=after: heap  # type: ignore[misc]
        found = hunting.check()
        assert found is not None
        kept = named(found)
        assert kept is None or kept.verdict != LEAK
        assert found.verdict != LEAK
        assert any(note.startswith(f"{SESSION} was called a leak, proven at check 2") for note in found.notes)


def test_what_has_not_grown_for_two_checks_is_refuted() -> None:
    hunting = Hunting()
    hunting.checks(4)
    for _ in range(3):
        hunting.number = 3
        found = hunting.check()
    assert found is not None
    kept = named(found)
    assert kept is None or kept.verdict != LEAK
    assert found.verdict != LEAK


def _of_none(_: str) -> tuple[Judgement, int]:
    return Judgement(UNCLEAR, ("",)), -1


def test_what_two_intervals_have_shown_one_without_growth_refutes() -> None:
    leak = replace(SUSPECT, series=(5, 11, 20))
    ended = replace(SUSPECT, verdict=NO_LEAK, evidence=("it grew and has stopped",), series=(5, 11, 20, 20))
    proofs = Proofs()
    proofs.kept([leak], 2, (10.0, 10.0), _of_none)
    (kept,), notes = proofs.kept([ended], 3, (10.0,) * 3, _of_none)
    assert kept.verdict == NO_LEAK
    assert notes[0].endswith("that is refuted: it grew and has stopped")
    proofs = Proofs()
    proofs.kept([replace(leak, series=(2, 5, 11, 20))], 3, (10.0,) * 3, _of_none)
    (kept,), notes = proofs.kept([replace(ended, series=(2, 5, 11, 20, 20))], 4, (10.0,) * 4, _of_none)
    assert (kept.verdict, notes) == (LEAK, []), "three intervals are not refuted by one"


def test_what_warms_up_is_no_longer_called_a_leak() -> None:
    proofs = Proofs()
    proofs.kept([replace(SUSPECT, series=(64, 120, 145))], 2, (10.0, 10.0), _of_none)
    slower = judge(Turnover((10.0,) * 3, (56, 25, 5), 64, (64, 120, 145, 150)))
    warm = replace(SUSPECT, verdict=slower.verdict, evidence=slower.evidence, series=(64, 120, 145, 150))
    (kept,), notes = proofs.kept([warm], 3, (10.0,) * 3, _of_none)
    assert (kept.verdict, len(notes)) == (UNCLEAR, 1)


def test_a_bound_that_is_read_later_refutes_what_was_proven() -> None:
    log, inside = TypeName("shop.log", "Log"), TypeName("", "list")
    hunting = Hunting(lambda image: bounded_shop(image, log, inside, 0))
    hunting.checks(3)
    assert [each.verdict for each in hunting.hunt._proofs[0].suspects] == [LEAK]
    hunting.plant = lambda image: bounded_shop(image, log, inside, 9_000)
    found = hunting.check()
    assert found is not None
    pages = named(found, "shop.views.Page")
    assert pages is not None
    assert (found.verdict, pages.verdict) == (UNCLEAR, UNCLEAR)
    assert pages.evidence[0].startswith("fills until 9,000")
    assert any("that is refuted: fills until 9,000" in note for note in found.notes)


def test_other_marks_prove_for_themselves() -> None:
    hunting = Hunting()
    hunting.checks(4)
    hunting.number -= 1
    found = hunting.check(since=2)
    assert found is not None
    assert found.verdict != LEAK
