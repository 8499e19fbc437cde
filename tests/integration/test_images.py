"""Open snapshots of living programs: they answer, nobody is harmed by them, and nothing is left of them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from heaptop.analysis.leaks.marks import send_pieces, take_pieces
from heaptop.analysis.snapshot.asking import drive
from heaptop.injector.inspect.threads import agent_thread
from heaptop.injector.session import session
from heaptop.injector.session.forecast import Headroom
from heaptop.injector.session.snapshot_cost import private_bytes
from heaptop.protocol.images import (
    GROUPS,
    KINDS,
    OBJECT,
    OBJECTS,
    PATHS,
    RETAINERS,
    AskRequest,
    CloseRequest,
    Groups,
    Image,
    ImageGone,
    ImageRequest,
    Object,
    Objects,
    Question,
    Retainers,
    Selection,
)
from heaptop.protocol.messages import Census, CensusRequest, Failure, Tick
from tests.interpreters import Interpreter
from tests.support.agents import session as agent_session
from tests.support.attaching import resting
from tests.support.control_groups import joining, leave_room, memory_group
from tests.support.images import ALL, Explorer, clones, exploring, is_gone
from tests.support.processes import (
    EXIT_CODE,
    PATIENCE,
    Facts,
    Target,
    difference,
    eventually,
    kept,
    running,
    starting,
    with_proc,
)

FEW: Final = ("3.8", "3.13")
ONE: Final = ("3.12",)
PLANTED: Final = "__main__.Planted"
BOXES: Final = 150_000
"""Three objects each: an image of them takes some 100 ms, and retainer sets as many."""
MIB: Final = 1 << 20
FRAME: Final = KINDS.index("frame")
ROOT: Final = str(Path(__file__).parents[2])


@contextlib.contextmanager
def imaged(interpreter: Interpreter, statement: str = "pass", boxes: int = 0) -> Iterator[Target]:
    """The target, which is as it was at the end, has no clone, and ends as it should."""
    with running(interpreter, "imaged", statement, str(boxes), wrapper=with_proc(interpreter)) as target:
        before = Facts.of(target.pid)
        yield target
        assert difference(before, resting(target.pid)) == []
        assert clones(target.pid) == set()
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


def clone_of(target: Target, explorer: Explorer) -> int:
    """The one there is."""
    (clone,) = clones(target.pid)
    assert not is_gone(clone)
    return clone


def act(target: Target, said: str) -> None:
    target.signal(signal.SIGUSR1)
    assert eventually(lambda: said in target.said()), target.stdout()


# -- what it answers, and to whom ---------------------------------------------------------------------------


def test_it_answers_goes_on_request_and_leaves_nothing(interpreter: Interpreter) -> None:
    """And the agent is not in it: it has what a census has, and what only frames lead to (up to 3.10 a running frame's
    code is met by no census)."""
    with imaged(interpreter) as target:
        for number in (1, 2):
            with exploring(target.pid) as explorer:
                image = explorer.open()
                clone = clone_of(target, explorer)
                (group,) = explorer.paths(PLANTED)
                assert "".join(step.label for step in group.steps).startswith("module __main__.registry")
                all_of_it, counted = explorer.groups(), explorer.counted()
                assert counted - all_of_it == {}
                assert all_of_it - counted - explorer.groups(FRAME) == {}
                assert sum(all_of_it.values()) == image.objects
                gone = explorer.close()
                assert gone == ImageGone(image.image, "it was closed", expected=True)
                assert is_gone(clone)
                assert isinstance(explorer.ask(Question(GROUPS)), Failure)
            if number == 1:
                before = resting(target.pid)
        assert kept(before, resting(target.pid)) == []
        assert target.said() == []


@pytest.mark.pythons(*FEW)
def test_no_child_is_seen_by_who_waits_for_any(interpreter: Interpreter) -> None:
    with imaged(interpreter, "say(children())") as target, exploring(target.pid) as explorer:
        explorer.open()
        act(target, "ECHILD")
        explorer.close()
        explorer.open()
        os.kill(clone_of(target, explorer), signal.SIGKILL)
        gone = explorer.expect(ImageGone)
        assert not gone.expected
        assert "killed by signal 9" in gone.reason
        assert target.said() == ["ECHILD"]


@pytest.mark.pythons(*FEW)
def test_ticks_and_censuses_go_on(interpreter: Interpreter) -> None:
    with imaged(interpreter) as target, exploring(target.pid) as explorer:
        explorer.open()
        first = explorer.groups()
        explorer.expect(Tick)
        explorer.source.census_now()
        census = explorer.expect(Census)
        assert (census.mode, census.complete) == ("clone", True)
        explorer.expect(Tick)
        assert explorer.groups() == first


@pytest.mark.pythons(*FEW)
def test_questions_are_answered_in_the_middle_of_a_census(interpreter: Interpreter) -> None:
    with imaged(interpreter, boxes=BOXES) as target, exploring(target.pid) as explorer:
        explorer.open()
        image = clone_of(target, explorer)
        counting = stopped_census(target, explorer, image)
        try:
            assert explorer.paths(PLANTED)
            assert isinstance(explorer.close(), ImageGone)
            assert is_gone(image)
        finally:
            os.kill(counting, signal.SIGCONT)
        assert explorer.expect(Census).complete


@pytest.mark.pythons(*FEW)
def test_questions_are_answered_in_the_middle_of_a_census_in_slices(interpreter: Interpreter) -> None:
    with agent_session(interpreter, "heap_mixed.py") as target:
        target.start_agent()
        assert target.give_core().loaded
        target.send(ImageRequest(1, 60_000_000_000))
        image = target.expect(Image).image
        target.send(CensusRequest(2, mode="python", slice_ns=100_000, rest_ns=3_000_000))
        target.send(AskRequest(3, image, Question(GROUPS).pack(3)))
        assert target.expect(Groups).id == 3
        target.send(CloseRequest(4, "nobody needs it"))
        assert target.expect(ImageGone) == ImageGone(image, "nobody needs it", expected=False)
        assert target.expect(Census).mode == "python"
        target.send(AskRequest(5, image, Question(GROUPS).pack(5)))
        assert target.expect(Failure) == Failure(5, "that snapshot is closed")


def stopped_census(target: Target, explorer: Explorer, image: int) -> int:
    """The pid of a clone that would count, were it not stopped."""
    for _ in range(20):
        explorer.source.census_now()
        end = time.monotonic() + 1
        while time.monotonic() < end:
            for found in clones(target.pid) - {image}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(found, signal.SIGSTOP)
                if eventually(lambda: state(found) != "R") and state(found) == "T":  # noqa: B023  asked at once
                    return found
    pytest.fail("no census could be stopped")


def state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


@pytest.mark.pythons(*FEW)
def test_an_answer_waits_until_the_interpreter_is_free(interpreter: Interpreter) -> None:
    with imaged(interpreter, "say('holding'); keep_the_lock(2)") as target, exploring(target.pid) as explorer:
        explorer.open()
        first = explorer.groups()
        act(target, "holding")
        assert explorer.groups() == first
        assert eventually(lambda: "held" in target.said())


# -- the target goes on ---------------------------------------------------------------------------------------


@pytest.mark.pythons(*FEW)
def test_what_the_target_changes_stays_as_it_was(interpreter: Interpreter) -> None:
    with imaged(interpreter, "change()", boxes=1000) as target, exploring(target.pid) as explorer:
        explorer.open()
        first = explorer.groups(), explorer.paths(PLANTED), planted_text(explorer)
        act(target, "changed")
        assert (explorer.groups(), explorer.paths(PLANTED), planted_text(explorer)) == first


@pytest.mark.pythons(*ONE)
@pytest.mark.parametrize("outside", [True, False], ids=["seen from outside", "said by the clone"])
def test_what_it_costs_is_said(interpreter: Interpreter, outside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if outside and os.geteuid() != 0:
        pytest.skip("to look at a clone takes CAP_SYS_PTRACE")
    if not outside:
        monkeypatch.setattr(session, "private_bytes", lambda pid, clone: None)
    with imaged(interpreter, "change()", boxes=1000) as target, exploring(target.pid) as explorer:
        explorer.open(keep=120.0)
        before = explorer.cost()
        assert before.copied is not None
        enough = before.copied + 48 * MIB
        act(target, "changed")
        eventually(lambda: (explorer.cost().copied or 0) >= enough)  # the longer a look took, the later is the next
        after = explorer.costs[-1]
        assert 0 < after.left < before.left < 120.0
        assert (after.image, after.own) == (1, before.own)
        assert after.copied is not None
        assert before.copied < 16 * MIB
        assert 48 * MIB <= after.copied - before.copied < 64 * MIB


@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace needs root")
@pytest.mark.pythons(*ONE)
def test_its_cost_is_seen_in_another_pid_namespace(interpreter: Interpreter) -> None:
    with running(interpreter, "imaged", wrapper=("unshare", "--pid", "--fork")) as target:
        (pid,) = map(int, Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text().split())
        with exploring(pid) as explorer:
            image = explorer.open()
            (clone,) = clones(pid)
            assert clone != image.pid
            assert (private_bytes(pid, image.pid) or 0) > MIB
            assert explorer.cost().copied is not None


def planted_text(explorer: Explorer) -> str:
    """As the inspector shows it: the only text that would go with the planted object."""
    (group,) = explorer.paths(PLANTED)
    meant = Selection(types=(explorer.type_id("str"),), below=(group.example,))
    found = explorer.ask(Question(OBJECTS, meant))
    assert isinstance(found, Objects)
    (row,) = found.rows
    text = explorer.ask(Question(OBJECT, Selection(addresses=(row.address,)), values=True))
    assert isinstance(text, Object)
    assert "planted text" in text.preview
    return text.preview


@pytest.mark.pythons(*FEW)
def test_a_fork_has_no_part_in_it(interpreter: Interpreter) -> None:
    statement = "bury() if 'child' in registry else fork()"
    with imaged(interpreter, statement) as target, exploring(target.pid) as explorer:
        explorer.open()
        first = explorer.groups()
        target.signal(signal.SIGUSR1)
        assert eventually(target.said)
        _, child, shared, waited = target.said()[0].split()
        assert (shared, waited) == ("False", "ECHILD")
        assert clones(int(child)) == set()
        assert explorer.groups() == first
        with exploring(int(child)) as other:
            other.open()
            assert other.paths(PLANTED)
            assert explorer.groups() == first
        act(target, "buried True")
        assert explorer.groups() == first
        assert target.said()[1:] in (["SIGCHLD", "buried True"], ["buried True", "SIGCHLD"])


# -- its end --------------------------------------------------------------------------------------------------


@pytest.mark.pythons(*FEW)
def test_it_ends_when_its_time_is_over(interpreter: Interpreter) -> None:
    with imaged(interpreter) as target, exploring(target.pid) as explorer:
        explorer.open(keep=5.0)  # from before it is built
        clone = clone_of(target, explorer)
        assert explorer.expect(ImageGone) == ImageGone(1, "its time was over", expected=True)
        assert is_gone(clone)


@pytest.mark.pythons(*FEW)
def test_a_second_one_closes_the_first(interpreter: Interpreter) -> None:
    with imaged(interpreter) as target, exploring(target.pid) as explorer:
        first = explorer.open()
        clone = clone_of(target, explorer)
        second = explorer.open()
        assert explorer.gone == [ImageGone(first.image, "it was closed", expected=True)]
        assert second.image == first.image + 1
        assert is_gone(clone)
        assert clone_of(target, explorer) != clone
        assert explorer.paths(PLANTED)


@pytest.mark.pythons(*FEW)
@pytest.mark.parametrize("moment", ["building", "asked", "open"])
def test_it_ends_with_a_detach(interpreter: Interpreter, moment: str) -> None:
    with imaged(interpreter, boxes=BOXES) as target:
        with exploring(target.pid) as explorer:
            if moment == "building":
                explorer.source.image(60.0)
                assert eventually(lambda: clones(target.pid))
            else:
                image = explorer.open()
                if moment == "asked":
                    explorer.source.ask(image.image, Question(RETAINERS))
            (clone,) = clones(target.pid)
            explorer.source.close(PATIENCE)
        assert eventually(lambda: agent_thread(target.pid) is None)
        assert is_gone(clone)
        assert target.said() == []


MARKING: Final = """\
import sys
sys.path.insert(0, sys.argv[2])
from heaptop.analysis.leaks.marks import send_pieces, take_pieces
from heaptop.analysis.snapshot.asking import drive
from tests.support.images import exploring
with exploring(int(sys.argv[1])) as explorer:
    image = explorer.open()
    while True:
        pieces = drive(take_pieces(image), explorer.ask)
        assert drive(send_pieces(pieces), explorer.ask) == image.objects
        print("marked", len(pieces), flush=True)
"""


def kill_heaptop(target: Target, program: str, word: str, delay: float = 0.0) -> None:
    """Run a heaptop that opens a snapshot, and kill it when it has said the word: clone and agent end."""
    command = [sys.executable, "-c", program, str(target.pid), ROOT]
    with starting(command, environment={"PYTHONPATH": f"{ROOT}/src"}, pipe=True) as heaptop:
        assert eventually(lambda: word in heaptop.stdout() or not heaptop.alive, 4 * PATIENCE)
        assert heaptop.alive, heaptop.stderr()
        (clone,) = clones(target.pid)
        time.sleep(delay)
        heaptop.signal(signal.SIGKILL)
        heaptop.process.wait()
    assert eventually(lambda: is_gone(clone))
    assert eventually(lambda: agent_thread(target.pid) is None)
    assert target.said() == []


@pytest.mark.sample(2)
@pytest.mark.pythons(*FEW)
@pytest.mark.parametrize("delay", [0.0, 0.003, 0.02, 0.1])
def test_a_heaptop_that_is_killed_in_a_mark_leaves_nothing(interpreter: Interpreter, delay: float) -> None:
    """Neither a mapping or descriptor (as :func:`imaged` sees), nor a child, nor the agent."""
    with imaged(interpreter, boxes=2 * BOXES) as target:
        kill_heaptop(target, MARKING, "marked", delay)


@pytest.mark.pythons(*FEW)
def test_marks_of_a_living_program_tell_what_is_new(interpreter: Interpreter) -> None:
    """In several pieces, through the agent: what was there is known, and no other."""
    with imaged(interpreter, "registry['new'] = [Planted(str(each)) for each in range(500)]", 2 * BOXES) as target:
        pieces: tuple[bytes, ...] = ()
        for number in range(3):
            with exploring(target.pid) as explorer:
                image = explorer.open()
                known = drive(send_pieces(pieces), explorer.ask)
                new = explorer.ask(Question(GROUPS, Selection((explorer.type_id(PLANTED),), seen=(0,))))
                assert isinstance(new, Groups)
                assert sum(row.count for row in new.rows) >= (0, 450, 0)[number] if pieces else known == 0
                pieces = drive(take_pieces(image), explorer.ask)
                assert len(pieces) > 1
                assert sum(map(len, pieces)) < 3 * image.objects
            if number == 0:
                target.signal(signal.SIGUSR1)
                assert eventually(lambda: planted(target) > 500)


def planted(target: Target) -> int:
    with exploring(target.pid) as explorer:
        explorer.open()
        return explorer.groups()[PLANTED]


HEAPTOP: Final = """\
import sys
sys.path.insert(0, sys.argv[2])
from tests.support.images import exploring
with exploring(int(sys.argv[1])) as explorer:
    explorer.open()
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.pythons(*FEW)
def test_it_ends_with_a_heaptop_that_is_killed(interpreter: Interpreter) -> None:
    with imaged(interpreter) as target:
        kill_heaptop(target, HEAPTOP, "open")


@pytest.mark.pythons(*FEW)
@pytest.mark.parametrize("how", ["os._exit(7)", "sys.exit(7)", "os.kill(os.getpid(), signal.SIGKILL)", "again()"])
def test_it_ends_with_the_target(interpreter: Interpreter, how: str) -> None:
    with running(interpreter, "imaged", how) as target, exploring(target.pid) as explorer:
        explorer.open()
        clone = clone_of(target, explorer)
        target.signal(signal.SIGUSR1)
        if how == "again()":
            assert eventually(lambda: "again" in target.said())
        else:
            assert target.process.wait(PATIENCE) == (-signal.SIGKILL if "kill" in how else 7)
        assert eventually(lambda: is_gone(clone))
        assert target.stderr() == ""


@pytest.mark.pythons(*ONE)
def test_it_ends_at_its_limit_of_memory(interpreter: Interpreter) -> None:
    with imaged(interpreter, boxes=BOXES) as target, exploring(target.pid) as explorer:
        failed = explorer.until(Image, explorer.source.image(60.0, memory=4 * MIB))
        assert isinstance(failed, Failure)
        assert failed.text == "it would take more memory than it may"
        explorer.expect(ImageGone)
        explorer.open()
        assert explorer.paths(PLANTED)


@pytest.mark.pythons(*ONE)
def test_it_is_ended_before_memory_runs_out(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [1 << 40]
    monkeypatch.setattr(session, "room", lambda pid: Headroom(left[0]))
    with imaged(interpreter) as target, exploring(target.pid) as explorer:
        explorer.open()
        explorer.cost()
        left[0] = 8 * MIB
        gone = explorer.expect(ImageGone)
        assert not gone.expected
        assert gone.reason.endswith(
            "only 8 MiB were left: it was closed so that the program does not run out of memory"
        )
        failed = explorer.until(Image, explorer.source.image(60.0))
        assert isinstance(failed, Failure)
        assert "only 8 MiB of memory are free, and a clone may need" in failed.text


@pytest.fixture
def group() -> Iterator[Path]:
    with memory_group() as folder:
        yield folder


@pytest.mark.pythons(*ONE)
@pytest.mark.parametrize(
    ("left", "end"),
    [(30, "MiB of memory are free"), (45, "killed by signal 9|MiB were left"), (77, "MiB were left"), (200, "")],
    ids=["refused", "killed", "ended", "enough"],
)
def test_it_takes_no_memory_that_the_target_needs(interpreter: Interpreter, group: Path, left: int, end: str) -> None:
    """Of a control group with so many MiB left, when the target changes 48 MiB: the kernel, short of memory at once,
    ends the clone and not the target; where there is more, heaptop does."""
    wrapper = joining(group)
    with running(interpreter, "imaged", "change()", wrapper=wrapper) as target, exploring(target.pid) as explorer:
        leave_room(group, left * MIB)
        made = explorer.until(Image, explorer.source.image(60.0))
        assert isinstance(made, Failure) == (end == "MiB of memory are free")
        act(target, "changed")
        if isinstance(made, Failure):
            assert end in made.text
        elif end:
            gone = explorer.expect(ImageGone)
            assert not gone.expected
            assert re.search(end, gone.reason)
        else:
            explorer.cost()
            explorer.cost()
            assert explorer.gone == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons(*ONE)
@pytest.mark.parametrize("mode", ["stop", "python"])
def test_there_is_none_without_a_clone(interpreter: Interpreter, mode: str) -> None:
    with imaged(interpreter) as target, exploring(target.pid, mode=mode) as explorer:
        failed = explorer.until(Image, explorer.source.image(60.0))
        assert isinstance(failed, Failure)
        assert f"mode {mode} was chosen; attach with --mode clone" in failed.text


# -- given up -------------------------------------------------------------------------------------------------


@pytest.mark.pythons(*FEW)
def test_the_building_is_cancelled(interpreter: Interpreter) -> None:
    with imaged(interpreter, boxes=BOXES) as target, exploring(target.pid) as explorer:
        for _ in range(20):
            id = explorer.source.image(60.0)
            assert eventually(lambda: clones(target.pid))
            (clone,) = clones(target.pid)
            os.kill(clone, signal.SIGSTOP)
            explorer.source.give_up(id)
            if isinstance(explorer.until(Image, id), Failure):
                break
            explorer.close()  # it was there before it stood still
        else:
            pytest.fail("no building could be cancelled")
        assert explorer.expect(ImageGone).expected
        assert is_gone(clone)
        explorer.open()
        assert explorer.paths(PLANTED)


@pytest.mark.pythons(*FEW)
@pytest.mark.parametrize("by", ["give_up", "close_snapshot"])
def test_one_that_waits_for_its_turn_is_never_made(interpreter: Interpreter, by: str) -> None:
    with imaged(interpreter, boxes=BOXES) as target, exploring(target.pid) as explorer:
        counting = stopped_census(target, explorer, 0)
        try:
            id = explorer.source.image(60.0)
            if by == "give_up":
                explorer.source.give_up(id)
            else:
                explorer.source.close_snapshot()
            assert isinstance(explorer.until(Image, id), Failure)
        finally:
            os.kill(counting, signal.SIGCONT)
        assert explorer.expect(Census).complete
        explorer.expect(Tick)
        assert clones(target.pid) == set()


@pytest.mark.pythons(*ONE)
def test_questions_are_cancelled(interpreter: Interpreter) -> None:
    """The one that is being answered, which is partial then, and the one behind it; another one is answered in full."""
    with imaged(interpreter, boxes=BOXES) as target, exploring(target.pid) as explorer:
        image = explorer.open()
        clone = clone_of(target, explorer)
        os.kill(clone, signal.SIGSTOP)  # else the first answer may be whole before it is given up
        assert eventually(lambda: state(clone) == "T")
        first, second, third = (explorer.source.ask(image.image, Question(RETAINERS)) for _ in range(3))
        explorer.source.give_up(first)
        explorer.source.give_up(second)
        assert explorer.until(Retainers, second) == Failure(second, "cancelled")
        os.kill(clone, signal.SIGCONT)
        partial, whole = explorer.until(Retainers, first), explorer.expect(Retainers, third)
        assert isinstance(partial, Failure) or not partial.complete
        assert whole.complete
        assert explorer.paths(PLANTED)
        assert set(target.said()) <= {"SIGCHLD"}  # its child was stopped and went on


# -- for long -------------------------------------------------------------------------------------------------


def known(explorer: Explorer) -> list[str]:
    """What all that a view shows is made of."""
    planted = Selection(types=(explorer.type_id(PLANTED),))
    listed = explorer.ask(Question(OBJECTS, planted, limit=ALL))
    assert isinstance(listed, Objects)
    some = (Selection(addresses=(row.address,)) for row in listed.rows[::100])
    asked = [Question(GROUPS, limit=ALL), Question(PATHS, planted), Question(RETAINERS, planted)]
    asked += [Question(OBJECT, each, values=True) for each in some]
    answers = (listed, *map(explorer.ask, asked))
    assert not any(isinstance(answer, Failure) for answer in answers)
    return [repr(answer).partition(", ")[2] for answer in answers]  # all but the id


@pytest.mark.pythons(*FEW)
def test_a_target_that_changes_all_it_has(
    interpreter: Interpreter, is_whole: bool, request: pytest.FixtureRequest
) -> None:
    """Ten minutes under --stress: all that time it answers the same, the target goes round, and nothing is left."""
    seconds = 600.0 if request.config.getoption("--stress") else 2.0 if is_whole else 0.5
    with running(interpreter, "changing", options=("-W", "ignore")) as target:
        before = resting(target.pid)
        with exploring(target.pid) as explorer:
            target.signal(signal.SIGUSR1)
            image = explorer.open(keep=seconds + 100)
            clone = clone_of(target, explorer)
            first = known(explorer)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                assert known(explorer) == first
                explorer.source.census_now()
                assert explorer.expect(Census).complete
                cost = explorer.cost()
                assert cost.image == image.image
            assert not is_gone(clone)
            assert known(explorer) == first
            assert explorer.close().expected
            assert explorer.gone == [ImageGone(image.image, "it was closed")]
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: any(line.startswith("quiet") for line in target.said()))
        assert difference(before, resting(target.pid)) == []
        assert clones(target.pid) == set()
        assert [line.split()[0] for line in target.said()] == ["quiet"]
        assert int(target.said()[0].split()[1]) > 10
        with exploring(target.pid) as explorer:
            explorer.open()
            clone = clone_of(target, explorer)
            target.signal(signal.SIGUSR1)
            assert target.terminate() == EXIT_CODE
        assert eventually(lambda: is_gone(clone))
        assert target.stderr() == ""
