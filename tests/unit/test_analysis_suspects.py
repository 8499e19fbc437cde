"""From answers to suspects: which places are looked at, which type is named, and what a person reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heaptop.analysis.heap.path_words import path_words
from heaptop.analysis.leaks.container_growth import container_growth_sentence, grown_containers
from heaptop.analysis.leaks.marks import Holder, Mark, MarkContext, Trends
from heaptop.analysis.leaks.suspects import (
    UNKNOWN_SITE,
    Candidate,
    Site,
    TypeRanks,
    TypeSum,
    arrows,
    candidates,
    holder_words,
    holding_words,
    is_large_enough,
    less,
    main_site,
    near_sites,
    sentence,
    type_sums,
    type_to_name,
)
from heaptop.analysis.leaks.verdicts import judge
from heaptop.analysis.samples.estimate import Sums
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.kept_sites import handler_words
from heaptop.protocol.findings import LEAK, NO_LEAK, UNCLEAR, MarkFacts, Suspect
from heaptop.protocol.images import (
    KINDS,
    NO_TYPE,
    PATHS,
    AccumulationPoint,
    Group,
    Groups,
    PathGroup,
    Paths,
    Points,
    Question,
    StackBlocks,
    Step,
)
from heaptop.protocol.messages import TypeName
from tests.unit.hunting_cases import SUSPECT as A_SUSPECT
from tests.unit.sample_cases import Program, sampler

NAMES = (
    "dict",
    "list",
    "str",
    "module",
    "app.Session",
    "logging.Logger",
    "sqlalchemy.orm.State",
    "app.Part",
    "function",
    "tuple",
    "multidict._multidict.Headers",
    "hamt_array_node",
    "ContextVar",
)
TYPES = [TypeName(*name.rpartition(".")[::2]) for name in NAMES]
"""By id."""
MODULE, FRAME, C, NONE = (KINDS.index(name) for name in ("module", "frame", "c", "none"))
NOTHING = Points(0, 0, 0, ())


def id_of(name: str) -> int:
    return NAMES.index(name)


def path(text: str) -> tuple[Step, ...]:
    """``module app/module, ._sessions/dict@7, [*]/app.Session``: label, type, and address where there is one object."""
    steps = []
    for each in text.split(", "):
        label, _, rest = each.partition("/")
        name, _, address = rest.partition("@")
        steps.append(Step(label, id_of(name) if name else NO_TYPE, int(address or 0)))
    return tuple(steps)


def group(key: int, text: str, count: int, size: int = 100, kind: int = MODULE) -> PathGroup:
    return PathGroup(key, kind, count, count * size, count * size, key, path(text))


def paths(*groups: PathGroup) -> Paths:
    count, size = sum(each.count for each in groups), sum(each.bytes for each in groups)
    return Paths(0, count, size, size, groups)


def point(address: int, text: str, heads: int, head: str, *, kind: int = MODULE, size: int = 100) -> AccumulationPoint:
    steps = path(text)
    weight = heads * size
    return AccumulationPoint(
        address,
        steps[-1].type,
        kind,
        64,
        weight,
        heads,
        9,
        heads,
        weight,
        heads,
        id_of(head),
        heads,
        weight,
        example=1,
        path=steps,
    )


def points(*found: AccumulationPoint) -> Points:
    return Points(0, sum(each.count for each in found), sum(each.bytes for each in found), found)


def words(found: Candidate) -> str:
    return " ".join(path_words(found.steps))


# -- places --------------------------------------------------------------------------------------------------


def test_what_a_point_explains_is_not_looked_at_again() -> None:
    found = candidates(
        points(point(7, "module app/module@1, ._sessions/dict@7", 100, "app.Session")),
        paths(
            group(1, "module app/module@1, ._sessions/dict@7, [*]/app.Session", 100),
            group(2, "module app/module@1, ._sessions/dict@7, [*]/app.Session, .name/str", 100),
            group(3, "module app/module@1, .log/list@8, [*]/str", 40),
        ),
        TYPES,
    )
    assert [(words(each), each.heads) for each in found] == [("module app ._sessions", 100), ("module app .log", 40)]
    assert found[0].selection((4,), (0, 1)).below == (7,)
    assert found[1].selection().path == (3,)


def test_points_that_read_alike_are_one_place() -> None:
    texts = [f"module app/module@1, ._by_key/dict@2, [*]/list@{each}" for each in (7, 8)]
    (found,) = candidates(
        points(*(point(7 + n, text, 50, "app.Session") for n, text in enumerate(texts))), paths(), TYPES
    )
    assert (found.heads, found.places, found.holder) == (100, 2, None)
    assert found.selection().below == (7, 8)
    assert holder_words(found, TYPES) == "module app → ._by_key → [*] and 1 other alike"


def test_what_hangs_on_a_new_object_is_one_place() -> None:
    """Modules that are loaded again and again, each with what it has."""
    found = candidates(
        NOTHING,
        paths(
            *(group(n, f"module rules_{n}/module@{n}", 1) for n in range(1, 30)),
            *(group(100 + n, f"module rules_{n}/module@{n}, .LIMITS/dict@{n + 50}", 1, 2_000) for n in range(1, 30)),
            *(group(200 + n, f"module rules_{n}/module@{n}, .LIMITS/dict@{n + 50}, [*]/str", 9) for n in range(1, 30)),
        ),
        TYPES,
    )
    assert [(each.heads, each.places, TYPES[each.head_type].full) for each in found] == [(29, 29, "module")]
    assert len(found[0].groups) == 87
    assert holder_words(found[0], TYPES) == "module rules_1 and 28 others alike"


def test_what_one_object_holds_for_many_threads_is_one_place() -> None:
    (found,) = candidates(
        NOTHING,
        paths(
            group(1, "module app/module@1, .local/tuple@2, .client of a thread/app.Session", 20),
            group(2, "module app/module@1, .local/tuple@2, .client of a thread/app.Session, .parts/list", 20, 900),
        ),
        TYPES,
    )
    assert (words(found), TYPES[found.head_type].full, found.bytes) == ("module app .local", "app.Session", 20_000)


def test_garbage_of_one_class_is_one_place() -> None:
    found = candidates(
        NOTHING,
        paths(
            group(1, "held by nothing/app.Session", 50, kind=NONE),
            group(2, "held by nothing/app.Part, .session/app.Session", 9, kind=NONE),
            group(3, "held by nothing/app.Part", 9, kind=NONE),
            group(4, "held by nothing/logging.Logger, .parent/dict", 30, kind=NONE),
        ),
        TYPES,
    )
    assert [sorted(each.key for each in one.groups) for one in found] == [[1, 2, 3], [4]]
    assert holder_words(found[0], TYPES) == "nothing: uncollected garbage"


def test_what_c_holds_goes_by_its_type() -> None:
    found = candidates(
        NOTHING,
        paths(group(1, "held by C/app.Session", 50, kind=C), group(2, "held by C/list", 30, kind=C)),
        TYPES,
    )
    assert [TYPES[each.head_type].full for each in found] == ["app.Session", "list"]
    assert holder_words(found[0], TYPES) == "C"


def test_a_frame_is_known_by_the_paths_below_it() -> None:
    found = candidates(
        points(point(0, "frame main()/", 60, "app.Session", kind=FRAME)),
        paths(
            group(1, "frame main()/, local rows/list@5, [*]/app.Session", 60, kind=FRAME),
            group(2, "frame other()/, local rows/list@6, [*]/app.Session", 20, kind=FRAME),
        ),
        TYPES,
    )
    assert [(words(each), each.selection().path) for each in found] == [
        ("frame main()", (1,)),
        ("frame other() local rows", (2,)),
    ]


def test_a_selection_has_room_in_a_question() -> None:
    many = [group(n, f"module rules_{n}/module@{n}", 1) for n in range(1, 5_000)]
    (found,) = candidates(NOTHING, paths(*many), TYPES)
    selection = found.selection(tuple(range(9_000)), tuple(range(200)))
    assert (len(selection.path), len(selection.types)) == (2_000, 2_000)
    Question(PATHS, selection).pack(1)


def test_little_is_no_place() -> None:
    groups = [group(n, f"module app/module@1, .{'abc'[n]}/list@{n + 2}, [*]/str", (500, 3, 20)[n]) for n in range(3)]
    found = candidates(Points(0, 523, 52_300, ()), paths(*groups), TYPES)
    assert [words(each) for each in found] == ["module app .a", "module app .c"]


@pytest.mark.parametrize(
    ("held", "size", "new", "large"),
    [
        (16, 1, 1 << 30, True),
        (5, 1 << 20, 1 << 30, False),
        (5, 1 << 20, 1 << 24, True),
        (1, 1 << 20, 1 << 24, False),
        (1, 1 << 23, 1 << 24, True),
        (1, 28, 28, False),
    ],
)
def test_how_much_is_named(held: int, size: int, new: int, large: bool) -> None:
    assert is_large_enough(held, size, new) == large


# -- types ---------------------------------------------------------------------------------------------------


def sums(**counts: int) -> list[TypeSum]:
    """Of types, the last part of each name given, with as many bytes as objects."""
    found = []
    for name, count in counts.items():
        id = next(id for id, type in enumerate(TYPES) if type.qualname.rpartition(".")[2] == name)
        found.append(TypeSum(TYPES[id], (id,), count, count, count))
    return found


@pytest.fixture(scope="module")
def ranks() -> TypeRanks:
    """By where code lies: app and its like are the user's, sqlalchemy is a library."""
    sampling = Sampling()
    sampling.feed(replace(sampler(1), path=("/srv", "/usr/lib/python3/site-packages"), prefixes=("/usr",)))
    program = Program(samples=sampling.samples)
    program.allocate(("/srv/app.py make",), 10)
    program.allocate(("/usr/lib/python3/site-packages/sqlalchemy/orm.py load",), 10)
    program.run()
    return TypeRanks(sampling)


@pytest.mark.parametrize(
    ("counts", "heads", "head", "named"),
    [
        ({"Session": 100, "dict": 100, "str": 900}, 100, "app.Session", "app.Session"),
        ({"Session": 100, "dict": 100}, 100, "dict", "app.Session"),
        ({"Session": 49, "dict": 100}, 100, "dict", "dict"),
        ({"Session": 60, "State": 100}, 100, "sqlalchemy.orm.State", "app.Session"),
        ({"State": 100, "dict": 100}, 100, "dict", "sqlalchemy.orm.State"),
        ({"Session": 100, "Logger": 100}, 100, "logging.Logger", "app.Session"),
        ({"function": 100, "tuple": 100, "Logger": 90}, 100, "tuple", "function"),
        ({"State": 100, "Headers": 90}, 100, "tuple", "sqlalchemy.orm.State"),
        ({"State": 100, "Logger": 100}, 100, "logging.Logger", "logging.Logger"),
        ({"function": 100, "tuple": 100, "Logger": 100}, 100, "function", "function"),
        ({"str": 100, "tuple": 100, "Logger": 100}, 100, "tuple", "logging.Logger"),
        ({"str": 300}, 300, "str", "str"),
        ({"hamt_array_node": 4, "dict": 90, "ContextVar": 90}, 4, "hamt_array_node", "ContextVar"),
        ({"str": 300}, 10, "list", "str"),
    ],
)
def test_which_type_is_named(ranks: TypeRanks, counts: dict[str, int], heads: int, head: str, named: str) -> None:
    found = type_to_name(sums(**counts), heads, TYPES[id_of(head)], ranks)
    assert found is not None
    assert found.type.full == named


def test_nothing_new_has_no_type(ranks: TypeRanks) -> None:
    assert type_to_name([], 10, TYPES[0], ranks) is None


def test_classes_of_one_name_are_one() -> None:
    types = [TypeName("rules", "Rule"), TypeName("", "str"), TypeName("rules", "Rule")]
    rows = (Group(0, 0, 5, 50, 60), Group(2, 0, 6, 70, 80), Group(0, 1, 1, 10, 10))
    (found,) = type_sums(Groups(0, rows), types)
    assert found == TypeSum(types[0], (0, 2), 12, 130, 150)


# -- sites and sentences -------------------------------------------------------------------------------------

SITE = Site("app/views.py:88 create_session", (), 1.0, 49, 49)
SUSPECT = replace(
    A_SUSPECT, type="app.Session", point=7, example=8, holding="all held by module app.cache → ._sessions (dict)"
)


@pytest.mark.parametrize(
    ("suspect", "site", "said"),
    [
        (
            SUSPECT,
            SITE,
            "≥1,240 app.Session (≥3.10 MiB including everything new there, still growing 21/s, ≈53.8 KiB/s) "
            "allocated at app/views.py:88 in create_session, all held by module app.cache → ._sessions (dict)",
        ),
        (
            replace(SUSPECT, verdict=NO_LEAK, held=310),
            replace(SITE, share=0.83, of=12),
            "≥310 of ≥1,240 new app.Session (≥3.10 MiB including everything new there) allocated at "
            "app/views.py:88 in create_session (83 % of 12 samples), all held by module app.cache → ._sessions "
            "(dict)",
        ),
        (
            SUSPECT,
            replace(SITE, samples=1, of=1),
            "≥1,240 app.Session (≥3.10 MiB including everything new there, still growing 21/s, ≈53.8 KiB/s) "
            "allocated at app/views.py:88 in create_session (1 sample), all held by module app.cache → ._sessions "
            "(dict)",
        ),
        (
            replace(SUSPECT, verdict=UNCLEAR, held=1, count=1),
            None,
            "≥1 app.Session (≥3.10 MiB including everything new there) allocated at an unknown site (no sample "
            "among them), all held by module app.cache → ._sessions (dict)",
        ),
        (
            SUSPECT,
            replace(SITE, label="(no Python frame)", is_own=False),
            "≥1,240 app.Session (≥3.10 MiB including everything new there, still growing 21/s, ≈53.8 KiB/s) "
            "allocated near (no Python frame) (from samples of other new objects there), all held by module app.cache "
            "→ ._sessions (dict)",
        ),
    ],
)
def test_the_sentence_of_a_suspect_says_what_is_known_of_it(suspect: Suspect, site: Site | None, said: str) -> None:
    assert sentence(suspect, site) == said


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (
            "module asyncio.events/module, ._loop/list, ._ready/list, coroutine main() local c/list, .rooms/dict",
            "module asyncio.events → … → coroutine main() local c → .rooms",
        ),
        ("module _asyncio/module, ._tasks/list, [*]/list", "module _asyncio → ._tasks → [*]"),
        (
            "module asyncio_chat.rooms/module, .streams/dict, [*]/list, coroutine feed() local lines/list",
            "module asyncio_chat.rooms → .streams → [*] → coroutine feed() local lines",
        ),
        (
            "module app/module, .streams/dict, [*]/list, coroutine feed() local lines/list",
            "module app → .streams → [*] → coroutine feed() local lines",
        ),
    ],
)
def test_how_an_event_loop_holds_a_call_that_waits_is_left_out(way: str, said: str) -> None:
    assert arrows(path(way)) == said


def test_what_is_nothing_but_itself_has_nothing_beside_it() -> None:
    numbers = replace(SUSPECT, verdict=NO_LEAK, type="int", bytes=1_240 * 28)
    assert "≥1,240 int (≥33.9 KiB) allocated" in sentence(numbers, SITE, 1_240 * 28)
    assert "(≥33.9 KiB including everything new there)" in sentence(numbers, SITE, 1_200 * 28)


def test_between_two_marks_there_may_be_fewer() -> None:
    said = sentence(replace(SUSPECT, held=310, rate=0.0), SITE, least=False)
    assert said.startswith("310 of ≥1,240 new app.Session (3.10 MiB including everything new there)")


@pytest.mark.parametrize(("counted", "rate"), [("objects", 81_920.0), ("items", 160.0), ("bytes", 20.0)])
def test_bytes_a_second_are_of_what_is_counted(counted: str, rate: float) -> None:
    """A container that grew by 512 items is still one object."""
    grown = replace(SUSPECT, count=1, bytes=4_096, rate=20.0, generations=(256, 256), counted=counted)
    assert grown.byte_rate == rate


def test_held_is_said_where_nothing_else_holds_them() -> None:
    at_point = points(point(7, "module app/module@1, ._sessions/dict@7", 100, "app.Session"))
    keys = group(1, "module app/module@1, .recent/dict@8, (a key)/str", 100)
    litter = group(2, "held by nothing/app.Part", 100, kind=NONE)
    held, reached, garbage = candidates(at_point, paths(keys, litter), TYPES)
    assert holding_words(held, TYPES, 100) == "all held by module app → ._sessions (dict)"
    assert holding_words(held, TYPES, 1) == "held by module app → ._sessions (dict)"
    assert holding_words(reached, TYPES, 100) == "all reached from module app → .recent"
    assert holding_words(garbage, TYPES, 100) == "all held by nothing: uncollected garbage"


def test_of_names_it_is_said_how_many_one_of_them_reaches() -> None:
    at_names = points(point(7, "module app/module@1, .__dict__/dict@7", 100, "app.Session"))
    (found,) = candidates(at_names, paths(), TYPES)
    found = replace(found, steps=path("module app/module@1, .recent/dict@8"))
    assert holding_words(found, TYPES, 100, 60) == "≥60 of them reached from module app → .recent"
    assert holding_words(found, TYPES, 100, 100) == "all reached from module app → .recent"


@pytest.mark.parametrize(("rate", "said"), [(21.4, "21/s"), (1.24, "1.2/s"), (0.05, "3.0/min")])
def test_the_sentence_has_the_rate_in_a_unit_that_reads_well(rate: float, said: str) -> None:
    assert f"still growing {said}, ≈" in sentence(replace(SUSPECT, rate=rate), SITE)


def test_bytes_grow_as_what_is_new_there_is_large() -> None:
    assert "still growing 2.0/s, ≈5.12 KiB/s)" in sentence(replace(SUSPECT, rate=2.0), SITE)
    half = replace(SUSPECT, held=620, bytes=SUSPECT.bytes // 2, rate=2.0)
    assert "still growing 2.0/s, ≈2.56 KiB/s)" in sentence(half, SITE), "and half of what comes"


def test_the_site_is_that_of_most_bytes() -> None:
    program = Program(1_000, samples=(sampling := Sampling()).samples)
    small, large = program.stack("main", "small:3"), program.stack("main", "large:7")
    for _ in range(2):
        program.allocate(("main", "small:3"), 10)
        program.allocate(("main", "large:7"), 10)
    program.run()
    blocks = [StackBlocks(small, 3, 3 * 20), StackBlocks(large, 2, 2 * 9_000)]
    site = main_site(blocks, sampling)
    assert site is not None
    assert site.label.endswith("app.py:7 large")
    assert (site.samples, site.of, len(site.stack)) == (2, 5, 2)
    assert site.share == pytest.approx(18_000 / 21_000, abs=0.01)
    assert main_site([], sampling) is None
    assert main_site(less(blocks, blocks), sampling) is None
    assert less(blocks, [StackBlocks(large, 1, 9_000)]) == [blocks[0], StackBlocks(large, 1, 9_000)]


def test_the_handlers_of_a_suspect_are_those_of_all_its_samples() -> None:
    """Also where the site is in code that several handlers call; the largest comes first."""
    program = Program(samples=(sampling := Sampling()).samples)
    dispatch, shared = "/lib/site-packages/flask/app.py Flask.dispatch_request", "/srv/shop.py remember:7"
    stacks = [(dispatch, f"/srv/shop.py {view}:1", shared) for view in ("index", "login")]
    stacks.append(("/srv/shop.py main:1", shared))
    for stack, size in zip(stacks, (100, 600, 300), strict=True):
        program.allocate(stack, size)
    program.run()
    rows = [StackBlocks(program.stack(*stack), 1, size) for stack, size in zip(stacks, (100, 600, 300), strict=True)]
    site = main_site(rows, sampling)
    assert site is not None
    assert site.label.endswith("shop.py:7 remember")
    names = [each.name for each in site.handlers]
    assert names == ["request login (srv/shop.py)", "(no handler)", "request index (srv/shop.py)"]
    assert [each.share for each in site.handlers] == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    suspect = replace(A_SUSPECT, handlers=site.handlers, samples=9)
    assert handler_words(suspect) == f"≈60% {names[0]}, 30% {names[1]}, 10% {names[2]}"
    largest = replace(suspect, handlers=site.handlers[:1])
    assert handler_words(largest) == "≈60% request login (srv/shop.py), 40% others"
    assert handler_words(replace(largest, samples=1)) == "≈60% request login (srv/shop.py), 40% others (1 sample)"
    assert handler_words(replace(suspect, handlers=())) == ""
    only = main_site(rows[:1], sampling)
    assert only is not None
    assert handler_words(replace(suspect, handlers=only.handlers)) == "request index (srv/shop.py)"
    unknown = main_site(rows[2:], sampling)
    assert unknown is not None
    assert unknown.handlers == (), "nothing is said where nothing is known"
    program.allocate((dispatch,), 100)
    program.run()
    own = main_site([StackBlocks(program.stack(dispatch), 1, 100)], sampling)
    assert own is not None
    assert own.handlers == (), "what the framework allocates itself"


def test_a_site_in_the_standard_library_comes_after_all_others_but_stray_ones() -> None:
    """Beside each member of a chat room there are transports and protocols that asyncio makes by itself."""
    program = Program(samples=(sampling := Sampling()).samples)
    sampling.feed(replace(sampler(1), prefixes=("/usr",)))
    stacks = {
        ("/usr/lib/python3.13/asyncio/streams.py connection_made:3",): 800,
        ("/srv/site-packages/anyio/streams.py receive:9",): 150,
        ("/srv/chat.py join:6",): 50,
    }
    for stack, size in stacks.items():
        program.allocate(stack, size)
    program.run()
    rows = [StackBlocks(program.stack(*stack), 1, size) for stack, size in stacks.items()]
    mostly = [replace(rows[0], count=8_000, bytes=8_000 * 800), rows[2]]
    found = [main_site(some, sampling) for some in (rows, rows[::2], rows[:1], mostly)]
    assert [(each and each.label.rpartition("/")[2], each and round(each.share, 2)) for each in found] == [
        ("streams.py:9 receive", 0.15),
        ("chat.py:6 join", 0.06),
        ("streams.py:3 connection_made", 1.0),
        ("streams.py:3 connection_made", 1.0),
    ]


def test_the_site_is_that_of_most_bytes_at_the_rates_of_then() -> None:
    """A block that was sampled at a low rate stands for more than one that was at a high one."""
    rates = 1 << 20, 1 << 10
    program = Program(*rates, samples=(sampling := Sampling()).samples)
    early, late = program.stack("main", "early:3"), program.stack("main", "late:7")
    program.allocate(("main", "early:3"), 100, rate=0)
    for _ in range(3):
        program.allocate(("main", "late:7"), 100, rate=1)
    program.run()
    site = main_site([StackBlocks(early, 1, 100), StackBlocks(late, 3, 300)], sampling)
    assert site is not None
    assert site.label.endswith("app.py:3 early")
    of_early, of_late = (
        Sums.of([(100, rate)] * times).rounded_bytes for rate, times in zip(rates, (1, 3), strict=True)
    )
    assert site.share == pytest.approx(of_early / (of_early + of_late))


# -- what grows in place -------------------------------------------------------------------------------------


def mark(number: int, *holders: tuple[int, Holder], least: int = 0) -> Mark:
    facts = MarkFacts("", 10 * number, 0, 0)
    return Mark(facts, {}, Trends(dict(holders), least), MarkContext())


def buffer(length: int) -> tuple[int, Holder]:
    return 7, Holder("bytearray", length, length + 57, length + 57)


def test_a_buffer_that_grows_in_place() -> None:
    marks = [mark(each, buffer(100_000 * (each + 1))) for each in range(3)]
    now = Trends(dict([buffer(400_000), (8, Holder("list", 9, 100, 900_000))]))
    (found,) = grown_containers(marks, now, explained=())
    assert (found.address, found.grown, found.sizes) == (7, 300_000, (100_000, 200_000, 300_000, 400_000))
    assert judge(found.course((10.0,) * 3)).verdict == LEAK
    assert found.words == "at the marks and now: 100,000, 200,000, 300,000 and 400,000 long"
    assert container_growth_sentence(found, LEAK, "module app → .LOG", 10_000.0) == (
        "1 bytearray grew in place (+293 KiB, now 400,000 long, still growing 10,000/s): module app → .LOG"
    )
    assert container_growth_sentence(found, LEAK, "module app → .LOG", 0.3).endswith(
        "still growing 0.3/s): module app → .LOG"
    )
    assert grown_containers(marks, now, explained=(7,)) == []


@pytest.mark.parametrize(("rate", "said"), [(20_480.0, "20.0 KiB/s"), (0.5, "30 B/min"), (0.01, "36 B/h")])
def test_one_that_has_no_length_goes_by_its_bytes(rate: float, said: str) -> None:
    """What a snapshot knows no length of: array.array, collections.deque, io.BytesIO, io.StringIO."""

    def stream(size: int) -> tuple[int, Holder]:
        return 7, Holder("_io.BytesIO", -1, size, size)

    marks = [mark(0, stream(100 << 10)), mark(1), mark(2, stream(300 << 10))]
    (found,) = grown_containers(marks, Trends(dict([stream(4 << 20)])), explained=())
    assert found.sizes == (100 << 10, -1, 300 << 10, 4 << 20)
    assert found.words == "at the marks and now: 100 KiB, ?, 300 KiB and 4.00 MiB large"
    assert container_growth_sentence(found, LEAK, "module app → .LOG", rate) == (
        f"1 _io.BytesIO grew in place (+3.90 MiB, now 4.00 MiB large, still growing {said}): module app → .LOG"
    )


def test_one_that_was_not_among_the_largest_grew_at_least_by_what_it_is_larger() -> None:
    marks = [mark(0, least=50_000), mark(1, buffer(200_000))]
    (found,) = grown_containers(marks, Trends(dict([buffer(300_000)])), explained=())
    assert (found.grown, found.sizes) == (300_057 - 50_000, (-1, 200_000, 300_000))
    assert judge(found.course((10.0,) * 2)).verdict == UNCLEAR


HARDLY = {
    "a resize": (Holder("list", 1_000_000, 8 << 20, 8 << 20), Holder("list", 1_000_000, 9 << 20, 9 << 20)),
    "0.3 % longer": (Holder("dict", 9_970_000, 300 << 20, 0), Holder("dict", 10_000_000, 310 << 20, 0)),
    "0.1 % larger": (Holder("_io.BytesIO", -1, 90 << 20, 0), Holder("_io.BytesIO", -1, (90 << 20) + (96 << 10), 0)),
}


@pytest.mark.parametrize(("before", "now"), HARDLY.values(), ids=HARDLY)
def test_what_hardly_grew_for_its_size_is_none(before: Holder, now: Holder) -> None:
    assert grown_containers([mark(0, (7, before)), mark(1, (7, before))], Trends({7: now}), explained=()) == []


def test_another_object_at_its_address_is_not_it() -> None:
    marks = [mark(0, (7, Holder("list", 3, 80, 80)))]
    assert grown_containers(marks, Trends(dict([buffer(300_000)])), explained=()) == []


def test_a_suspect_without_a_sample_has_the_site_of_what_is_held_below_the_same_retainer() -> None:
    module = replace(
        A_SUSPECT,
        type="module",
        site="",
        stack=(),
        retainer="module rules_3052",
        sentence=f"≥681 module (≥1.18 MiB) {UNKNOWN_SITE}, all reached from module rules_3052",
    )
    small = replace(A_SUSPECT, retainer="module rules_7 .OTHER", site="app/other.py:1 other", bytes=10)
    text = replace(A_SUSPECT, retainer="module rules_2388 .LIMITS", site="app/rules.py:34 load_rules", bytes=2 << 20)
    elsewhere = replace(A_SUSPECT, retainer="module rules_of_others", site="app/far.py:1 far", bytes=9 << 20)
    found = near_sites([module, small, text, elsewhere])
    assert found[1:] == [small, text, elsewhere]
    assert (found[0].site, found[0].stack, found[0].site_is_own) == (text.site, text.stack, False)
    near = "allocated near app/rules.py:34 in load_rules (from samples of other new objects there), all"
    assert near in found[0].sentence
    assert near_sites([module, elsewhere])[0] == module, "of those elsewhere nothing follows"
