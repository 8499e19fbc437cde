"""Which request, task or job a stack belongs to, by the frames that servers and event loops leave on it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.callers.producer_table import ProducerTables
from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.samples.handlers import ENTRIES, NO_HANDLER
from heaptop.analysis.samples.producers import FORGOTTEN_NAME, NO_FRAME_NAME, Sites, producers
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.stacks import FORGOTTEN, NO_FRAME
from heaptop.analysis.text.code_places import CodePlaces
from tests.unit.sample_cases import Program

LIB, SITE = "/usr/lib/python3.12", "/usr/lib/python3.12/site-packages"
MAIN = "/srv/serve.py <module>:9"
LOOP = (
    f"{LIB}/asyncio/runners.py Runner.run:118",
    f"{LIB}/asyncio/base_events.py BaseEventLoop._run_once:1",
    f"{LIB}/asyncio/events.py Handle._run:84",
)
THREAD = (f"{LIB}/threading.py Thread._bootstrap:1", f"{LIB}/threading.py Thread._bootstrap_inner:1")
RUN = f"{LIB}/threading.py Thread.run:1"
WSGI = (
    f"{SITE}/werkzeug/serving.py WSGIRequestHandler.run_wsgi.<locals>.execute:5",
    f"{SITE}/flask/app.py Flask.__call__:7",
)
FLASK = (*WSGI, f"{SITE}/flask/app.py Flask.full_dispatch_request:1", f"{SITE}/flask/app.py Flask.dispatch_request:1")
STARLETTE = (
    *LOOP,
    f"{SITE}/uvicorn/protocols/http/h11_impl.py RequestResponseCycle.run_asgi:1",
    f"{SITE}/starlette/routing.py Router.app:1",
    f"{SITE}/starlette/_exception_handler.py wrap_app_handling_exceptions.<locals>.wrapped_app:1",
    f"{SITE}/starlette/routing.py request_response.<locals>.app.<locals>.app:1",
)
CELERY = (
    *THREAD,
    f"{SITE}/celery/app/trace.py trace_task:1",
    f"{SITE}/celery/app/trace.py build_tracer.<locals>.trace_task:1",
)
DJANGO = (
    f"{LIB}/wsgiref/handlers.py BaseHandler.run:1",
    f"{SITE}/django/core/handlers/exception.py convert_exception_to_response.<locals>.inner:1",
    f"{SITE}/django/core/handlers/base.py BaseHandler._get_response:1",
)
EXECUTOR = (*THREAD, RUN, f"{LIB}/concurrent/futures/thread.py _WorkItem.run:1")
CLASS_VIEW = f"{SITE}/django/views/generic/base.py View.dispatch:1", "/srv/shop/views.py Cart.get:4"
VIEW, CALLED = "/srv/shop/views.py index:20", "/srv/shop/models.py Session.__init__:3"


def sites(samples: SampledBlocks) -> Sites:
    return Sites(samples, CodePlaces(("/srv", LIB, SITE), ("/usr",)))


def handler(*frames: str) -> str:
    program = Program()
    program.allocate(frames, 100)
    (tally,) = program.run().tallies()
    return sites(program.samples).name(tally.stack, "handler")


@pytest.mark.parametrize(
    ("frames", "want"),
    [
        ((*FLASK, VIEW, CALLED), "request index (shop/views.py)"),
        ((*STARLETTE, VIEW), "request index (shop/views.py)"),
        ((*DJANGO, *CLASS_VIEW), "request Cart.get (shop/views.py)"),
        ((*CELERY, "/srv/shop/jobs.py resize:3"), "celery resize (shop/jobs.py)"),
        ((MAIN, *LOOP, "/srv/shop/jobs.py poll:3", CALLED), "asyncio poll (shop/jobs.py)"),
        ((MAIN, LOOP[0], "/srv/shop/jobs.py poll:3"), "asyncio poll (shop/jobs.py)"),
        ((*THREAD, RUN, "/srv/shop/jobs.py work:3", CALLED), "thread work (shop/jobs.py)"),
        ((*EXECUTOR, CALLED), "executor Session.__init__ (shop/models.py)"),
        ((*THREAD, f"{SITE}/anyio/_backends/_asyncio.py WorkerThread.run:1", VIEW), "executor index (shop/views.py)"),
        # up to Python 3.10 code has no qualified name
        ((f"{SITE}/flask/app.py dispatch_request:1", VIEW), "request index (shop/views.py)"),
    ],
)
def test_the_function_that_a_framework_calls_is_the_handler(frames: tuple[str, ...], want: str) -> None:
    assert handler(*frames) == want


def test_a_task_that_a_request_began_is_a_task() -> None:
    """Its stack begins at the event loop, as that of each task does."""
    assert handler(*STARLETTE, VIEW) == "request index (shop/views.py)"
    assert handler(*LOOP, "/srv/shop/views.py notify:9") == "asyncio notify (shop/views.py)"


def test_the_innermost_dispatcher_decides() -> None:
    """Middleware of one's own comes before it, and hooks run beside it."""
    middleware = "/srv/shop/middleware.py Timing.__call__:5"
    assert handler(WSGI[0], middleware, *FLASK[1:], VIEW) == "request index (shop/views.py)"
    assert handler(WSGI[0], middleware, WSGI[1]) == "request Timing.__call__ (shop/middleware.py)"
    before = "/srv/shop/auth.py load_user:5"
    hook = (*FLASK[:3], f"{SITE}/flask/app.py Flask.preprocess_request:1", before)
    assert handler(*hook) == "request load_user (shop/auth.py)"


def test_wrappers_of_packages_are_passed_and_ones_own_are_named_with_what_they_call() -> None:
    decorated = f"{SITE}/flask_login/utils.py login_required.<locals>.decorated_view:1"
    assert handler(*FLASK, decorated, VIEW) == "request index (shop/views.py)"
    own = "/srv/shop/timing.py timed.<locals>.wrapper:4"
    assert handler(*FLASK, own, decorated, VIEW, CALLED) == "request wrapper › index (shop/views.py)"
    assert handler(*FLASK, own) == "request wrapper (shop/timing.py)"
    other = "/srv/shop/cart.py checkout:4"
    assert handler(*FLASK, own, other) != handler(*FLASK, own, VIEW)


def test_a_recursive_local_function_makes_one_row() -> None:
    walk = "/srv/shop/tree.py index.<locals>.walk:4"
    inner = "/srv/shop/tree.py index.<locals>.walk.<locals>.<listcomp>:5"
    assert handler(*FLASK, walk) == handler(*FLASK, *[walk, inner] * 20) == "request walk (shop/tree.py)"
    ping, pong = "/srv/a.py f.<locals>.ping:1", "/srv/a.py f.<locals>.pong:1"
    assert handler(*FLASK, *[ping, pong] * 20) == "request ping › pong › ping (a.py)"


def test_without_ones_own_code_a_package_is_named_and_the_standard_library_never() -> None:
    assert handler(*DJANGO, f"{SITE}/django/contrib/admin/sites.py AdminSite.index:1") == (
        "request AdminSite.index (django/contrib/admin/sites.py)"
    )
    package = f"{SITE}/sentry_sdk/worker.py Worker._target:1"
    assert handler(*THREAD, RUN, package) == "thread Worker._target (sentry_sdk/worker.py)"
    assert handler(*THREAD, RUN, f"{LIB}/socketserver.py BaseServer.serve_forever:1") == f"thread {NO_HANDLER}"
    assert handler(*LOOP, f"{LIB}/asyncio/selector_events.py BaseSelectorEventLoop._read:1") == f"asyncio {NO_HANDLER}"


def test_what_no_known_entry_called_has_no_handler() -> None:
    assert handler(MAIN, VIEW) == NO_HANDLER
    assert handler(VIEW, CALLED) == NO_HANDLER, "a stack that was cut"
    assert handler(*FLASK) == f"request {NO_HANDLER}", "the dispatcher's own"
    assert handler("/srv/flask_app.py dispatch_request:1", VIEW) == NO_HANDLER
    assert handler("/srv/myflask/app.py dispatch_request:1", VIEW) == NO_HANDLER
    assert handler(f"{SITE}/flask/app.py:88 :88", VIEW) == NO_HANDLER, "tracemalloc knows no functions"


def test_what_has_no_frame_is_called_as_by_site() -> None:
    program = Program()
    program.allocate((), 100)
    made = sites(program.run())
    assert made.name(NO_FRAME, "handler") == NO_FRAME_NAME
    assert made.name(FORGOTTEN, "handler") == FORGOTTEN_NAME


FRAMES = (*FLASK, *STARLETTE, *CELERY, *DJANGO, VIEW, CALLED, MAIN, "/srv/shop/timing.py timed.<locals>.wrapper:4")


@given(st.lists(st.lists(st.sampled_from(FRAMES), max_size=9).map(tuple), min_size=1, max_size=12))
def test_a_handler_depends_on_its_own_stack_alone(stacks: list[tuple[str, ...]]) -> None:
    """Whatever other stacks came before, and in how many messages; and rows by handler sum to all."""
    program = Program()
    together = sites(program.samples)
    numbers: dict[tuple[str, ...], int] = {}
    for frames in stacks:
        program.allocate(frames, 100)
        numbers[frames] = program.stack(*frames)
        program.run()
        for known, number in numbers.items():
            found = together.name(program.samples.stack_of(number), "handler")
            assert found == (handler(*known) if known else NO_FRAME_NAME)
    rows = producers(program.samples, together, "handler")
    assert sum(row.live.bytes for row in rows) == 100 * len(stacks)
    tables = ProducerTables(program.samples, together)
    groups = tables.groups(tables.tallies(program.samples, EVERYTHING), "handler")
    assert {group.name: group.live.bytes for group in groups} == {row.name: row.live.bytes for row in rows}


@pytest.mark.parametrize(("kind", "file", "function"), ENTRIES)
def test_each_entry_leads_to_what_it_calls(kind: str, file: str, function: str) -> None:
    assert handler(f"{SITE}/{file} Some.{function}:1", VIEW) == f"{kind} index (shop/views.py)"
