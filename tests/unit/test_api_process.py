"""``heaptop.api.Process`` over a target in process: what one call comes to does not spoil the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from unittest.mock import patch

import pytest

from heaptop.api.process import Process
from heaptop.errors import AgentLost, NotInHeap, PauseTooLong, SamplerRefused, UsageError
from heaptop.protocol.images import FIRST_ID, KINDS, Question, Retainers, RetainerSet, Unit
from heaptop.protocol.messages import Core, Decision, Failure, TypeName
from heaptop.protocol.source import Behind, Deliver, never_behind
from heaptop.recordings.recordable_source import RecordableSource
from tests.fakes.shop import shop
from tests.fakes.source import FakeSource


class PromptTarget(FakeSource):
    """Attaches as soon as it is opened, and answers at once, unless it is told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.agent.mode = "clone"
        self.before_census: Callable[[], bool] = lambda: True
        """Whether to count."""
        self.before_image: Callable[[], None] = lambda: None
        self.before_query: Callable[[], None] = lambda: None
        self.closed_snapshots = 0
        self.loads_core = True

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver, behind)
        self.attach()
        if not self.loads_core:
            self.say(Core(1, "", False, False, "the self-check failed"))
        self.tick()

    def census_now(self) -> None:
        super().census_now()
        if self.before_census():
            self.tick()

    def image(self, keep: float, memory: int = 0) -> int:
        self.before_image()
        return super().image(keep, memory)

    def ask(self, image: int, question: Question) -> int:
        self.before_query()
        return super().ask(image, question)

    def close_snapshot(self) -> None:
        self.closed_snapshots += 1
        super().close_snapshot()


@pytest.fixture
def target() -> PromptTarget:
    return PromptTarget()


@pytest.fixture
def process(target: PromptTarget) -> Iterator[Process]:
    with Process(RecordableSource(target), 0.05, 5.0, None) as attached:
        yield attached


def test_a_declined_pause_of_a_snapshot_lets_censuses_go_on(target: PromptTarget, process: Process) -> None:
    target.before_image = lambda: target.say(Decision(FIRST_ID, "clone", "", 90_000_000, 50_000_000))
    with pytest.raises(PauseTooLong), process.snapshot():
        pytest.fail("it is above the budget")
    assert target.decisions == [False]
    assert process.census().count


def test_a_declined_pause_of_a_census_is_no_refused_snapshot(target: PromptTarget, process: Process) -> None:
    def ask() -> bool:
        target.say(Decision(1, "stop", "", 90_000_000, 50_000_000))
        return False

    target.before_census = ask
    with pytest.raises(PauseTooLong):
        process.census()
    assert target.decisions == [False]


def test_a_snapshot_that_is_cancelled_while_it_is_made_is_closed(target: PromptTarget, process: Process) -> None:
    target.before_image = process.cancel
    with pytest.raises(CancelledError), process.snapshot():
        pytest.fail("it was cancelled")
    assert target.closed_snapshots == 1


def test_a_cancelled_query_leaves_the_next_one_its_own_answer(target: PromptTarget, process: Process) -> None:
    target.agent.images.plant = shop
    with process.snapshot() as snapshot:
        target.before_query = process.cancel
        with pytest.raises(CancelledError):
            snapshot.why("Session")
        target.before_query = lambda: None
        assert snapshot.why("Session").count == sum(row.count for row in snapshot.retainers("Session"))
        assert snapshot.waste("type:Session").complete


def test_dominators_are_the_largest_first_of_a_type_or_below_an_object(target: PromptTarget, process: Process) -> None:
    target.agent.images.plant = shop
    with process.snapshot() as snapshot:
        largest = snapshot.dominators(most=5)
        assert len(largest) == 5
        assert [each.retained for each in largest] == sorted((each.retained for each in largest), reverse=True)
        assert all(each.retained >= each.bytes for each in largest)
        sessions = snapshot.dominators("Session", most=3)
        assert {each.type.rpartition(".")[2] for each in sessions} == {"Session"}
        assert len(sessions) == 3
        below = snapshot.dominators(below=sessions[0].address)
        assert sum(each.bytes for each in below) + sessions[0].bytes == sessions[0].retained
        assert [each.dominator for each in below if each.dominator == sessions[0].address]
        with pytest.raises(NotInHeap):
            snapshot.dominators(below=16)
        with pytest.raises(NotInHeap):
            snapshot.dominators("Sesion")


def test_a_number_that_no_snapshot_takes_is_a_value_error(target: PromptTarget, process: Process) -> None:
    target.agent.images.plant = shop
    with process.snapshot() as snapshot:
        for ask in (
            lambda: snapshot.dominators(most=-1),
            lambda: snapshot.why("Session", most=-1),
        ):
            with pytest.raises(ValueError, match=r"most must be between 0 and 4,294,967,295, not -1"):
                ask()
        with pytest.raises(ValueError, match=r"number must be between 0 and 4,294,967,295, not 4,294,967,296"):
            snapshot.retainers("Session", number=1 << 32)
        with pytest.raises(ValueError, match=r"below must be between 0 and .*, not -16"):
            snapshot.dominators(below=-16)
        assert snapshot.dominators(most=0) == ()
        assert snapshot.dominators(most=1)


def test_a_cancelled_check_between_rounds_leaves_the_next_one_its_own_answer(
    target: PromptTarget, process: Process
) -> None:
    target.agent.images.plant = shop
    with process.rounds() as rounds:
        target.before_image = process.cancel
        with pytest.raises(CancelledError):
            rounds.check()
        assert target.closed_snapshots == 1
        target.before_image = lambda: None
        assert rounds.check() is None
        found = rounds.check(last=True)
    assert found is not None
    assert len(found.marks) == 2


def test_rows_by_retainer_sum_to_all_objects_also_where_there_was_no_room_for_some(process: Process) -> None:
    with process.snapshot() as snapshot:
        watch = snapshot._watch
        watch.types = [TypeName("shop", "Session")]
        one = Unit("module shop .cache", KINDS.index("module"), 0)
        answer = Retainers(1, 3, (one,), (RetainerSet((0,), False, 0, 10, 500),), other_count=4, other_bytes=90)
        with patch.object(watch, "ask", lambda question, kind: answer):
            rows = snapshot.retainers("Session")
    assert [(row.name, row.count, row.bytes) for row in rows] == [
        ("module shop .cache", 10, 500),
        ("(small sets)", 4, 90),
    ]


def test_a_census_is_of_a_moment_after_it_was_asked_for(target: PromptTarget, process: Process) -> None:
    def cancel() -> bool:
        process.cancel()
        return True

    target.before_census = cancel
    with pytest.raises(CancelledError):
        process.census()
    target.before_census = lambda: True
    late = process.census()
    assert late.time_ns == target.agent.time_ns


def test_a_census_that_fails_is_an_error_at_once(target: PromptTarget, process: Process) -> None:
    def fail() -> bool:
        target.say(Failure(1, "only 3 MiB of memory are free"))
        return False

    target.before_census = fail
    with pytest.raises(AgentLost, match="3 MiB"):
        process.census()


def test_sites_are_refused_where_nothing_is_sampled(target: PromptTarget, process: Process) -> None:
    with pytest.raises(SamplerRefused):
        process.sites(seconds=0.01)
    with pytest.raises(UsageError, match="no sites by"):
        process.sites(by="line")


def test_sites_are_lines_of_the_programs_own_code(target: PromptTarget) -> None:
    own = "/usr/lib/python3/site-packages/sqlalchemy"
    target.sample(65_536, 128)
    with Process(RecordableSource(target), 0.05, 5.0, None, [own]) as process:
        target.tick(8)
        names = [site.name for site in process.sites(seconds=0.1)]
    assert "sqlalchemy/orm/state.py:77 InstanceState.__init__" in names


def test_a_process_without_the_native_core_is_counted(target: PromptTarget) -> None:
    target.loads_core = False
    with Process(RecordableSource(target), 0.05, 5.0, None) as process:
        assert process.census().count
