"""heaptop.phase: what a listener is told, in whatever way a program uses it; and nothing without one."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import itertools
import logging
import logging.config
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import heaptop
from heaptop import phases


class Listener:
    """Keeps what it was told; says what is open, and fails when an end has no beginning."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, bool]] = []

    def __call__(self, name: str, number: int, begins: bool) -> None:
        self.told.append((name, number, begins))

    def words(self) -> list[str]:
        return [("+" if begins else "-") + name for name, _, begins in self.told]

    def open(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for name, number, begins in self.told:
            if begins:
                assert number not in found
                found[number] = name
            else:
                assert found.pop(number) == name
        return found


@pytest.fixture
def listener() -> Iterator[Listener]:
    told = Listener()
    with listening(told):
        yield told


@contextlib.contextmanager
def listening(told: Listener) -> Iterator[None]:
    assert heaptop._listener is None
    heaptop._listener = told
    try:
        yield
    finally:
        heaptop._listener = None


def entered() -> object:
    return phases._entered.get()


def test_a_block_is_a_phase(listener: Listener) -> None:
    with heaptop.phase("load") as one:
        assert listener.words() == ["+load"]
        assert one.name == "load"
    assert listener.words() == ["+load", "-load"]
    assert listener.open() == {}
    assert entered() is None


def test_nothing_is_kept_or_changed_without_a_listener() -> None:
    one = heaptop.phase("load")
    with one, one:
        pass
    assert one._open is None
    assert entered() is None
    assert heaptop.phase("load")(lambda: 5)() == 5


def test_an_exception_ends_it_and_goes_on(listener: Listener) -> None:
    with pytest.raises(KeyError, match="x"), heaptop.phase("load"):
        raise KeyError("x")
    assert listener.words() == ["+load", "-load"]


@pytest.mark.parametrize("name", [5, None, b"load"])
def test_a_name_is_a_str(name: object) -> None:
    with pytest.raises(TypeError, match="named by a str"):
        heaptop.phase(name)  # type: ignore[arg-type]


def test_the_listener_comes_and_goes_in_the_middle() -> None:
    told = Listener()
    over = heaptop.phase("over")
    with heaptop.phase("before"), listening(told):
        with heaptop.phase("within"):
            pass
        over.__enter__()
    # both end when nobody listens any more
    over.__exit__(None, None, None)
    assert told.words() == ["+within", "-within", "+over"]
    assert over._open == []
    assert entered() is None


def test_one_that_began_under_one_listener_ends_under_the_next() -> None:
    first, second = Listener(), Listener()
    one = heaptop.phase("load")
    with listening(first):
        one.__enter__()
    with listening(second):
        one.__exit__(None, None, None)
    assert [number for _, number, _ in first.told] == [number for _, number, _ in second.told]


def test_one_object_nests_in_itself_and_in_others(listener: Listener) -> None:
    a, b = heaptop.phase("a"), heaptop.phase("b")
    with a, b, a:
        assert len(listener.open()) == 3
    assert listener.words() == ["+a", "+b", "+a", "-a", "-b", "-a"]
    numbers = [number for _, number, _ in listener.told]
    assert numbers[3:] == numbers[:3][::-1]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
def test_any_order_of_beginnings_and_ends(steps: list[tuple[int, bool]]) -> None:
    """Each end has its beginning, and what was left is not open."""
    told = Listener()
    objects = [heaptop.phase(str(i)) for i in range(4)]
    depth = [0] * 4

    def run() -> None:
        for i, begins in steps:
            if begins or depth[i] == 0:
                objects[i].__enter__()
                depth[i] += 1
            else:
                objects[i].__exit__(None, None, None)
                depth[i] -= 1
        assert len(told.open()) == sum(depth)
        for i in range(4):
            for _ in range(depth[i]):
                objects[i].__exit__(None, None, None)
        assert entered() is None

    with listening(told):
        contextvars.copy_context().run(run)
    assert told.open() == {}
    assert all(not one._open for one in objects)


def test_threads_that_share_an_object_end_their_own(listener: Listener) -> None:
    shared = heaptop.phase("shared")
    numbers: dict[int, list[int]] = {}
    inside = threading.Barrier(4)
    order = [threading.Event() for _ in range(5)]
    order[0].set()

    def work(i: int) -> None:
        with shared:
            inside.wait(30)
            order[i].wait(30)  # those that came first do not leave last
            before = len(listener.told)
        numbers[i] = [number for _, number, _ in listener.told[before:]]
        order[i + 1].set()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert listener.open() == {}
    assert sorted(itertools.chain(*numbers.values())) == sorted({number for _, number, _ in listener.told})


async def test_tasks_that_share_an_object_end_their_own(listener: Listener) -> None:
    shared = heaptop.phase("shared")
    began: dict[str, int] = {}
    ended: dict[str, int] = {}
    both = asyncio.Event()

    async def work(name: str, turns: int) -> None:
        with shared:
            began[name] = listener.told[-1][1]
            if len(began) == 2:
                both.set()
            await both.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
        ended[name] = listener.told[-1][1]

    await asyncio.gather(work("first", 1), work("second", 5))
    assert began == ended
    assert listener.open() == {}


async def test_an_async_with_block_is_a_phase_of_its_own_task(listener: Listener) -> None:
    """Tasks that nest the same two phases, and take turns in them, end their own."""
    outer, inner = heaptop.phase("outer"), heaptop.phase("inner")
    ended: dict[str, list[int]] = {}

    async def work(name: str) -> None:
        async with outer as entered_phase:
            assert entered_phase is outer
            numbers = [listener.told[-1][1]]
            await asyncio.sleep(0)
            async with inner:
                numbers.append(listener.told[-1][1])
                await asyncio.sleep(0)
            assert listener.told[-1][1] == numbers[1]
            await asyncio.sleep(0)
        ended[name] = [*numbers, listener.told[-1][1]]

    await asyncio.gather(*(work(name) for name in "abc"))
    assert all(first == last for first, _, last in ended.values())
    assert listener.open() == {}
    with pytest.raises(KeyError, match="x"):
        async with outer:
            raise KeyError("x")
    assert listener.open() == {}


async def test_a_task_made_in_a_phase_ends_none_but_its_own(listener: Listener) -> None:
    """A task inherits the context: what its maker is in, it neither ends nor leaves open."""
    shared = heaptop.phase("shared")

    async def child() -> None:
        await asyncio.sleep(0)
        async with shared:
            await asyncio.sleep(0)

    async with shared:
        task = asyncio.ensure_future(child())
    assert listener.open() == {}
    await task
    assert (listener.open(), entered()) == ({}, None)
    assert listener.words() == ["+shared", "-shared", "+shared", "-shared"]


def test_a_decorated_function_is_a_phase_and_keeps_its_name(listener: Listener) -> None:
    @heaptop.phase("double")
    def double(x: int, *, more: int = 0) -> int:
        """Twice."""
        if x > 0 and more:
            double(0)
        return 2 * x + more

    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    assert double(5, more=1) == 11
    assert listener.words() == ["+double", "+double", "-double", "-double"]
    assert listener.open() == {}


async def test_a_decorated_coroutine_is_a_phase(listener: Listener) -> None:
    @heaptop.phase("wait")
    async def wait(x: int) -> int:
        await asyncio.sleep(0)
        return x

    assert inspect.iscoroutinefunction(wait)
    coroutine = wait(5)
    assert listener.words() == []  # it was not run yet
    assert await coroutine == 5
    assert listener.words() == ["+wait", "-wait"]
    task = asyncio.ensure_future(wait(5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert listener.open() == {}


def test_a_decorated_generator_is_a_phase_while_it_runs(listener: Listener) -> None:
    @heaptop.phase("items")
    def items() -> Generator[int, int, str]:
        got = yield 1
        yield got
        return "end"

    assert inspect.isgeneratorfunction(items)
    one = items()
    assert listener.words() == []
    assert next(one) == 1
    assert one.send(7) == 7
    assert listener.words() == ["+items"]
    with pytest.raises(StopIteration, match="end"):
        next(one)
    assert listener.words() == ["+items", "-items"]
    left = items()
    next(left)
    left.close()
    assert listener.open() == {}


async def test_a_decorated_async_generator_is_a_phase_while_it_runs(listener: Listener) -> None:
    closed = []

    @heaptop.phase("items")
    async def items() -> AsyncGenerator[int, int]:
        try:
            got = 0
            while True:
                try:
                    got = yield got
                except KeyError:
                    got = -1
                if got == 99:
                    return
        finally:
            closed.append(True)

    assert inspect.isasyncgenfunction(items)
    one = items()
    assert await one.__anext__() == 0
    assert await one.asend(7) == 7
    assert await one.athrow(KeyError("x")) == -1
    assert listener.words() == ["+items"]
    with pytest.raises(StopAsyncIteration):
        await one.asend(99)
    assert (listener.words(), closed) == (["+items", "-items"], [True])
    left = items()
    await left.__anext__()
    await left.aclose()
    assert (listener.open(), closed) == ({}, [True, True])


def test_a_generator_that_goes_from_one_context_to_another_leaves_nothing(listener: Listener) -> None:
    def items() -> Generator[int, None, None]:
        with heaptop.phase("items"):
            yield 1

    for _ in range(5):
        one = items()
        next(one)
        contextvars.copy_context().run(list, one)
        assert listener.open() == {}
    with heaptop.phase("next"):
        assert listener.open() != {}
    assert entered() is None


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What records of the logger ``shop`` say of phases, by way of a handler that dictConfig made."""
    monkeypatch.setattr(phases, "_is_logged", False)
    seen: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(self.format(record))

    handler = {"()": Kept, "filters": ["phases"], "formatter": "plain"}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"phases": {"()": "heaptop.log_phases"}},
            "formatters": {"plain": {"format": "[%(heaptop_phase)s] %(message)s"}},
            "handlers": {"kept": handler},
            "loggers": {"shop": {"handlers": ["kept"], "propagate": False}},
        }
    )
    yield seen
    logging.getLogger("shop").handlers.clear()


def test_log_records_name_their_phases_without_an_agent(logged: list[str]) -> None:
    log = logging.getLogger("shop")

    @heaptop.phase("parse")
    def parse() -> None:
        log.warning("row")

    log.warning("idle")
    with heaptop.phase("import"):
        parse()
        log.warning("written")
    log.warning("idle")
    assert logged == ["[] idle", "[import > parse] row", "[import] written", "[] idle"]
    assert entered() is None


async def test_each_task_logs_its_own_phases(logged: list[str]) -> None:
    log = logging.getLogger("shop")

    async def task(name: str) -> None:
        async with heaptop.phase(name):
            await asyncio.sleep(0)
            log.warning("works")

    async def late() -> None:
        log.warning("late")
        await asyncio.sleep(0.01)
        log.warning("later")

    async with heaptop.phase("all"):
        await asyncio.gather(task("a"), task("b"))
        made = asyncio.ensure_future(late())
        await asyncio.sleep(0)
    await made
    assert logged == ["[all > a] works", "[all > b] works", "[all] late", "[] later"]


def test_log_records_keep_the_phase_of_the_thread_that_made_them(logged: list[str]) -> None:
    keep = heaptop.log_phases()
    record = logging.makeLogRecord({"msg": "x"})
    with heaptop.phase("load"):
        assert keep(record)
    assert keep(record)
    assert record.heaptop_phase == "load"  # type: ignore[attr-defined]


def test_an_agent_is_told_of_phases_that_are_logged(logged: list[str], listener: Listener) -> None:
    with heaptop.phase("load"):
        logging.getLogger("shop").warning("x")
    assert (logged, listener.words(), listener.open()) == (["[load] x"], ["+load", "-load"], {})


def test_a_program_that_imports_it_gets_little_with_it() -> None:
    """In a target nothing of the front end or of the injector is wanted."""
    code = "import sys, heaptop; heaptop.phase('x'); print(sorted(m for m in sys.modules if 'heaptop' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['heaptop', 'heaptop.phases']"
