"""Places of code and producers: whose code it is, what it is called on the screen, and who allocated what lives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.heap.history import Amount
from heaptop.analysis.samples.estimate import Estimate, Sums
from heaptop.analysis.samples.producers import (
    NO_FRAME_NAME,
    NO_SITE,
    Sites,
    live_total,
    older_than_sampling,
    producers,
    stacks_at,
)
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.text.code_places import CodePlaces
from heaptop.errors import UsageError
from heaptop.protocol.messages import BIRTH, CodeName, Codes, Samples, StackNode, Stacks
from tests.unit.oracles import stacks_of
from tests.unit.sample_cases import Program

PATH = (
    "/srv/shop",
    "",
    "/srv",
    "/usr/lib/python311.zip",
    "/usr/lib/python3.11",
    "/srv/venv/lib/python3.11/site-packages",
)
PREFIXES = ("/usr", "/srv/venv", "/opt/py+3")
PLACES = CodePlaces(PATH, PREFIXES)
JSON = "/usr/lib/python3.11/json/decoder.py"
ORM = "/srv/venv/lib/python3.11/site-packages/orm/query.py"
VIEWS = "/srv/shop/shop/views.py"


@pytest.mark.parametrize(
    ("file", "module", "short", "is_user"),
    [
        (VIEWS, "shop.views", "shop/views.py", True),
        ("/srv/shop/shop/__init__.py", "shop", "shop/__init__.py", True),
        ("/srv/shop/manage.py", "manage", "manage.py", True),
        ("/srv/other/tool.py", "other.tool", "other/tool.py", True),
        ("/srv/shop.zip/pkg/mod.py", "shop.zip.pkg.mod", "shop.zip/pkg/mod.py", True),
        ("/usr/lib/python3.11/os.py", "os", "os.py", False),
        (JSON, "json.decoder", "json/decoder.py", False),
        ("/usr/lib64/python3.13t/os.py", "os", "python3.13t/os.py", False),
        ("/usr/lib/python311.zip/zipped.py", "zipped", "zipped.py", False),
        ("/usr/lib/python3/dist-packages/apt.py", "apt", "dist-packages/apt.py", False),
        (ORM, "orm.query", "orm/query.py", False),
        ("/home/me/.local/lib/python3.11/site-packages/rich/text.py", "text", "rich/text.py", False),
        ("/opt/py+3/lib/python3.9/abc.py", "abc", "python3.9/abc.py", False),
        ("/opt/pyy3/lib/python3.9/abc.py", "abc", "python3.9/abc.py", True),
        ("/usr/libexec/python3.11/tool.py", "tool", "python3.11/tool.py", True),
        ("/tmp/pkg/__init__.py", "pkg", "pkg/__init__.py", True),
        ("app.py", "app", "app.py", True),
        ("./app.py", "app", "app.py", True),
        ("src/app.pyc", "src.app", "src/app.pyc", True),
        ("<frozen importlib._bootstrap>", "importlib._bootstrap", "<frozen importlib._bootstrap>", False),
        ("<string>", "<string>", "<string>", False),
        ("<stdin>", "<stdin>", "<stdin>", True),
        ("<ipython-input-3-4fcea4c9956c>", "<ipython-input-3-4fcea4c9956c>", "<ipython-input-3-4fcea4c9956c>", True),
        ("", "<unknown>", "<unknown>", False),
    ],
)
def test_a_file_its_module_and_whose_it_is(file: str, module: str, short: str, is_user: bool) -> None:
    for _ in range(2):  # the second time from memory
        assert (PLACES.module(file), PLACES.short(file), PLACES.is_user(file)) == (module, short, is_user)


def test_a_zip_file_on_the_path_is_a_folder() -> None:
    places = CodePlaces(("/srv", "/srv/shop.pyz"), ())
    assert (places.module("/srv/shop.pyz/pkg/__init__.py"), places.is_user("/srv/shop.pyz/pkg/mod.py")) == ("pkg", True)


@pytest.mark.parametrize(
    "entry", ["/srv/venv/lib/python3.11/site-packages/orm", "/srv/venv/lib/python3.11/site-packages/orm/"]
)
def test_user_code_is_the_users_wherever_it_lies(entry: str) -> None:
    places = CodePlaces(PATH, PREFIXES, [entry, JSON])
    assert places.is_user(ORM)
    assert places.is_user(JSON)
    assert not places.is_user("/srv/venv/lib/python3.11/site-packages/ormolu.py")
    assert not places.is_user("/usr/lib/python3.11/json/encoder.py")


@given(st.text("/<>.ab_-py", max_size=30))
def test_any_name_of_a_file_has_a_module_and_a_short_name(file: str) -> None:
    places = CodePlaces(("/a", "/"), ("/b", ""), ("/p",))
    assert places.module(file)
    assert places.short(file)
    assert isinstance(places.is_user(file), bool)


def shop() -> Program:
    program = Program()
    session = (
        "<frozen runpy> run",
        f"{VIEWS} handle:20",
        f"{VIEWS} create_session:88",
        f"{ORM} insert:5",
        f"{JSON} loads:7",
    )
    for _ in range(10):
        program.allocate(session, 100, "Session")
    program.free(program.allocate(session, 100, "Session"))
    program.allocate((f"{VIEWS} handle:20", f"{VIEWS} create_session:90"), 300)
    program.allocate(("/srv/shop/jobs.py tick:3", f"{JSON} loads:9"), 50)
    program.allocate((f"{JSON} main:1", f"{JSON} loads:9"), 20)
    program.allocate((), 7)
    return program


def table(samples: SampledBlocks, key: str) -> list[tuple[str, int, int]]:
    return [(row.name, row.live.bytes, row.live.count) for row in producers(samples, Sites(samples, PLACES), key)]


def test_a_site_is_the_innermost_frame_of_the_users_own_code() -> None:
    samples = shop().run()
    assert table(samples, "site") == [
        ("shop/views.py:88 create_session", 1_000, 10),
        ("shop/views.py:90 create_session", 300, 1),
        ("jobs.py:3 tick", 50, 1),
        ("json/decoder.py:9 loads", 20, 1),
        (NO_FRAME_NAME, 7, 1),
    ]
    assert table(samples, "function") == [
        ("create_session (shop/views.py)", 1_300, 11),
        ("tick (jobs.py)", 50, 1),
        ("loads (json/decoder.py)", 20, 1),
        (NO_FRAME_NAME, 7, 1),
    ]
    assert table(samples, "module") == [
        ("shop.views", 1_300, 11),
        ("jobs", 50, 1),
        ("json.decoder", 20, 1),
        (NO_FRAME_NAME, 7, 1),
    ]


def test_without_user_code_a_site_is_the_innermost_frame_outside_the_standard_library_else_the_innermost() -> None:
    program = Program()
    thread = ("/usr/lib/python3.11/threading.py _bootstrap:1002", "/usr/lib/python3.11/threading.py run:982")
    program.allocate((*thread, f"{ORM} serve:8", f"{ORM} handle:9", f"{JSON} loads:7"), 30)
    program.allocate((*thread, f"{ORM} serve:8", "<string> __init__:1"), 20)
    program.allocate((*thread, "/usr/lib/python3.11/socketserver.py process:3", f"{JSON} loads:9"), 10)
    program.allocate((*thread, "<frozen importlib._bootstrap> load:4"), 5)
    assert table(program.run(), "site") == [
        ("orm/query.py:9 handle", 30, 1),
        ("orm/query.py:8 serve", 20, 1),
        ("json/decoder.py:9 loads", 10, 1),
        ("<frozen importlib._bootstrap>:4 load", 5, 1),
    ]


def test_who_started_a_loop_is_no_site_of_what_the_loop_allocates_by_itself() -> None:
    """Else all that a server allocates on its own has the line that starts it. A test that calls a framework waits for
    its answer."""
    program = Program()
    start = ("/srv/shop/main.py <module>:9", "/srv/shop/main.py main:5")
    loop = (*start, "/usr/lib/python3.11/asyncio/events.py Handle._run:80")
    program.allocate((*loop, "/usr/lib/python3.11/asyncio/streams.py connection_made:3"), 50)
    program.allocate((*loop, f"{ORM} ping:4", f"{JSON} loads:7"), 40)
    program.allocate((*loop, f"{VIEWS} on_client:6", f"{JSON} loads:7"), 30)
    program.allocate(start, 20)
    request = "/lib/site-packages/werkzeug/serving.py WSGIRequestHandler.run_wsgi.<locals>.execute:7"
    program.allocate((*start[:1], request, f"{ORM} ping:8"), 10)
    program.allocate((*start, request, f"{ORM} ping:8"), 5)
    runs_a_loop = (*start[:1], request, f"{VIEWS} fetch:2", *loop[2:])
    program.allocate((*runs_a_loop, "/usr/lib/python3.11/asyncio/streams.py connection_made:3"), 3)
    assert table(program.run(), "site") == [
        ("asyncio/streams.py:3 connection_made", 50, 1),
        ("orm/query.py:4 ping", 40, 1),
        ("shop/views.py:6 on_client", 30, 1),
        ("main.py:5 main", 25, 2),
        ("orm/query.py:8 ping", 10, 1),
        ("shop/views.py:2 fetch", 3, 1),
    ]


def test_a_package_that_runs_a_server_is_the_site_whatever_code_comes_last() -> None:
    program = Program()
    run = "/usr/lib/python3.11/wsgiref/handlers.py BaseHandler.run:9"
    program.allocate((f"{ORM} serve:3", run, f"{JSON} loads:7"), 50)
    program.allocate(("/srv/shop/main.py <module>:9",), 20)
    assert table(program.run(), "site") == [("orm/query.py:3 serve", 50, 1), ("main.py:9 <module>", 20, 1)]


def test_sites_go_on_as_stacks_come() -> None:
    program = shop()
    samples = program.run()
    sites = Sites(samples, PLACES)
    producers(samples, sites, "site")
    program.allocate((f"{VIEWS} handle:20", f"{VIEWS} late:4", f"{ORM} insert:5"), 5_000)
    program.run()
    first = producers(samples, sites, "site")[0]
    assert first.name == "shop/views.py:4 late"
    assert first.frame is not None
    assert (first.frame.file, first.frame.line, first.frame.module, first.frame.is_user) == (
        VIEWS,
        4,
        "shop.views",
        True,
    )


def test_what_is_older_than_the_attach_is_a_row_of_its_own() -> None:
    samples = shop().run()
    older = older_than_sampling(Amount(1_000, 10_000), live_total(samples))
    assert older == Estimate(10_000 - 1_377, 1_000 - 14, 10_000 - 1_377, 10_000 - 1_377, 0)
    rows = producers(samples, Sites(samples, PLACES), "module", older=older)
    assert (rows[0].name, rows[0].frame) == (NO_SITE, None)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert sum(row.live.bytes for row in rows) == 10_000


def test_older_has_the_uncertainty_of_what_was_sampled() -> None:
    sampled = Sums.of([(64, 65_536)] * 4).estimate()
    older = older_than_sampling(Amount(10_000, 900_000), sampled)
    assert older.low == 900_000 - sampled.high < older.bytes < older.high == 900_000 - sampled.low
    assert older_than_sampling(Amount(0, 0), sampled) == Estimate(0, 0, 0, 0, 0)


def test_a_row_opens_into_its_stacks() -> None:
    samples = shop().run()
    sites = Sites(samples, PLACES)
    first, second = stacks_of(samples, sites, "function", "create_session (shop/views.py)")
    assert [frame.label for frame in first.frames] == [
        "json/decoder.py:7 loads",
        "orm/query.py:5 insert",
        "shop/views.py:88 create_session",
        "shop/views.py:20 handle",
        "<frozen runpy> run",
    ]
    assert (first.live.bytes, second.live.bytes, len(second.frames)) == (1_000, 300, 2)
    assert [row.frames for row in stacks_of(samples, sites, "site", NO_FRAME_NAME)] == [()]


def test_stacks_of_a_site() -> None:
    samples = shop().run()
    sites = Sites(samples, PLACES)
    stacks = stacks_at(samples, sites, "shop/views.py:88 create_session")
    assert {sites.name(stack, "site") for stack in stacks} == {"shop/views.py:88 create_session"}
    assert len(stacks) == len(stacks_of(samples, sites, "site", "shop/views.py:88 create_session"))
    assert stacks_at(samples, sites, "nowhere") == set()


def test_a_restriction_and_a_key_that_there_is_not() -> None:
    samples = shop().run()
    sites = Sites(samples, PLACES)
    only = producers(samples, sites, "site", lambda one: samples.type_name(one.type).qualname == "Session")
    assert [row.name for row in only] == ["shop/views.py:88 create_session"]
    assert samples.type_name(-1).full == "(unknown type)"
    with pytest.raises(UsageError):
        producers(samples, sites, "colour")


def test_rows_have_intervals() -> None:
    program = Program(65_536)
    for _ in range(9):
        program.allocate(("main:1",), 64)
    samples = program.run()
    (row,) = producers(samples, Sites(samples, PLACES), "site")
    assert row.live == Sums.of([(64, 65_536)] * 9).estimate()
    assert row.live.low < 9 * 65_536 < row.live.high


def test_code_without_a_file_goes_by_what_the_sampler_calls_it() -> None:
    program = Program()
    program.samples.feed(Codes(0, (CodeName("", "(another interpreter)", 0),)))
    program.samples.feed(Stacks(1, (StackNode(0, 0, 0),)))
    program.samples.feed(Samples(0, 0, BIRTH.pack(0, 1, 0, 64, 0, 1, 0, 0), b""))
    assert {table(program.samples, key)[0] for key in ("site", "function", "module")} == {
        ("(another interpreter)", 64, 1)
    }


@pytest.mark.parametrize(
    ("stack", "function"),
    [
        (("main:1", "create:5", "<listcomp>:5"), "create"),
        (("main:1", "create:5", "<dictcomp>:6", "<setcomp>:7"), "create"),
        (("main:1", "create:5", "create.<locals>.<listcomp>:5"), "create"),
        (("main:1", "<listcomp>:5"), "main"),
        (("<listcomp>:5",), "<listcomp>"),  # the stack was cut above it
        (("/srv/other.py main:1", "<listcomp>:5"), "<listcomp>"),
        (("main:1", "<genexpr>:5"), "<genexpr>"),  # runs where it is consumed
        (("main:1", "<lambda>:5"), "<lambda>"),
    ],
)
def test_a_comprehension_goes_by_the_function_it_stands_in(stack: tuple[str, ...], function: str) -> None:
    """Up to 3.11 it is a frame of its own; from 3.12 on it is none (PEP 709)."""
    program = Program()
    number = program.stack(*stack)
    program.run()
    sites = Sites(program.samples, PLACES)
    assert sites.frame(number).function == function
    assert sites.name(number, "site") == f"app.py:{stack[-1].rpartition(':')[2]} {function}"
