"""``heaptop leaks``: what it prints, when it looks, and that it leaves in order, however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heaptop import cli
from heaptop.__main__ import main
from heaptop.analysis.heap.history import History
from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.leaks.lints import LINTS
from heaptop.cli import terminal
from heaptop.cli.commands import leaks
from heaptop.cli.commands.leaks import LEAK_FOUND, UNDECIDED
from heaptop.errors import AgentLost, ImageRefused, PauseTooLong, TargetExited, UsageError
from heaptop.injector.inspect import process
from heaptop.protocol.images import LIVE, Question
from heaptop.protocol.messages import CollectRequest, Failure, Message, Sampler, TypeName
from heaptop.protocol.source import Behind, Deliver, never_behind
from heaptop.watching import hunting
from tests.fakes.graph import Planted, PlantedHeap, Reference, Root
from tests.fakes.shop import MORE_SESSIONS, SESSIONS, growing_shop
from tests.fakes.source import SECOND, FakeSource
from tests.support.doors import Doors

Said = pytest.CaptureFixture[str]
QUICK = ["--for", "0.05"]
"""Nothing has to happen meanwhile: the target's clock moves on at each image."""


def little(image: int) -> PlantedHeap:
    """A dict that has ten more of something in each image."""
    place, carts = 0x10000, range(0x20000, 0x20000 + 64 * 10 * (image + 1), 64)
    return PlantedHeap(
        objects=(
            Planted(0x1000, TypeName("builtins", "module"), 72, (Reference(".carts", place),)),
            Planted(place, TypeName("builtins", "dict"), 500, tuple(Reference("[*]", each) for each in carts)),
            *(Planted(each, TypeName("shop", "Cart"), 48, stack=2) for each in carts),
        ),
        roots=(Root("module", "module shop", 0x1000),),
    )


def still(_: int) -> PlantedHeap:
    return little(1)


def two(image: int) -> PlantedHeap:
    """With as many of something else in a list."""
    heap, at = little(image), 0x80000
    lines = tuple(range(at, at + 64 * 10 * (image + 1), 64))
    more = Planted(0x70000, TypeName("builtins", "list"), 500, tuple(Reference("[*]", each) for each in lines))
    rows = (Planted(each, TypeName("shop", "Line"), 32) for each in lines)
    return PlantedHeap((*heap.objects, more, *rows), (*heap.roots, Root("c", "held by C", more.address)))


class Growing(FakeSource):
    """Of a target that clones can be made of, and whose time passes while nobody looks."""

    def __init__(self, plant: Callable[[int], PlantedHeap] = little, interval: int = 64 << 10) -> None:
        super().__init__(step_ns=5 * SECOND)
        self.agent.mode = "clone"
        self.agent.images.plant = plant
        self.interval = interval
        self.done: list[str] = []
        """What was asked for, in order."""
        self.before_image: Callable[[int], None] = lambda number: None
        """What happens before the image of this number."""

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver, behind)
        if self.interval:
            self.sample(self.interval, 128)
        self.attach()
        self.tick()

    def image(self, keep: float, memory: int = 0) -> int:
        self.done.append("image")
        self.tick()
        self.before_image(self.agent.images.number + 1)
        return super().image(keep, memory)

    def close_snapshot(self) -> None:
        self.done.append("close")
        super().close_snapshot()

    def memory_now(self) -> None:
        self.done.append("memory")
        super().memory_now()
        self.tick()

    def request(self, make: Callable[[int], Message]) -> int:
        if make is CollectRequest:
            self.done.append("collect")
        return super().request(make)


class LeakDoors(Doors):
    """Behind them is another source each time."""

    source: Any

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.make: Callable[[], FakeSource] = Growing

    def _attach(self, pid: int, options: Any) -> Any:
        self.source = self.make()
        return super()._attach(pid, options)


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> LeakDoors:
    """On a machine that may be busy: no mark is left out because others took long."""
    monkeypatch.setattr(hunting, "LATE_SECONDS", 1000.0)
    return LeakDoors(monkeypatch)


def document(capsys: Said, *arguments: str) -> Any:
    assert main(["leaks", "4711", *QUICK, *arguments, "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out)


def complaint(capsys: Said, *arguments: str) -> tuple[int, str]:
    code = main(["leaks", "4711", *QUICK, *arguments])
    said = capsys.readouterr()
    assert said.out == ""
    return code, " ".join(said.err.split())


# -- what is found ------------------------------------------------------------------------------------------------


def test_the_leak_is_the_first_suspect(doors: LeakDoors, capsys: Said) -> None:
    doors.make = lambda: Growing(growing_shop)
    found = document(capsys)
    assert (found["pid"], found["python"]) == (doors.source.target.pid, "3.11.7")
    assert found["verdict"] == "leak"
    first = found["suspects"][0]
    assert (first["rank"], first["verdict"], first["type"]) == (1, "leak", "shop.models.Session")
    assert first["count"] == 3 * MORE_SESSIONS
    assert first["site"].endswith("views.py:88 create_session")
    assert first["retainer"] == "module shop.cache ._sessions"
    assert first["path"] == ["module shop.cache", "._sessions", "dict[*]", "shop.models.Session"]
    assert first["series"] == [SESSIONS + MORE_SESSIONS * each for each in range(4)]
    assert "create_session" in first["sentence"]
    assert not [each for each in found["suspects"] if each["verdict"] == "leak" and each["rank"] > 1]
    start, *between, now = [mark["name"] for mark in found["marks"]]
    assert (start, len(between), now) == ("start", 2, "now")
    assert all(re.fullmatch(r"0\.\d+ s", name) for name in between)
    assert all(mark["rss"] for mark in found["marks"])
    assert {"type", "site", "retainer"} <= set(found["growths"])
    assert found["pause_ms"] > 0


def test_the_text_of_leaks_has_verdict_suspects_and_pauses(doors: LeakDoors, capsys: Said) -> None:
    assert main(["leaks", "4711", *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("leak: +")
    assert lines[0].endswith("4 marks")
    assert lines[2].startswith("  1. leak: ≥30 shop.Cart ")
    assert any(line.startswith("     - ") for line in lines)
    assert lines[-2].endswith("(pid 4242, Python 3.11.7)")
    assert lines[-1] == "paused 4 times for at most 3.1 ms, and checked in clones"


def test_what_does_not_grow_is_no_leak(doors: LeakDoors, capsys: Said) -> None:
    doors.make = lambda: Growing(still)
    found = document(capsys)
    assert (found["verdict"], found["suspects"], found["grown"]["count"]) == ("no leak", [], 0)


def test_two_moments_are_too_few_for_a_verdict(doors: LeakDoors, capsys: Said) -> None:
    found = document(capsys, "--marks", "2")
    assert found["verdict"] == "unclear"
    assert len(found["marks"]) == 2


@pytest.mark.parametrize(("plant", "code"), [(little, LEAK_FOUND), (still, 0)])
def test_a_leak_may_be_an_exit_code(
    plant: Callable[[int], PlantedHeap], code: int, doors: LeakDoors, capsys: Said
) -> None:
    doors.make = lambda: Growing(plant)
    assert main(["leaks", "4711", *QUICK, "--fail-on-leak", "--min-growth", "0"]) == code
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines()[-1] == f"--fail-on-leak {'fails: 1 leak counts' if code else 'passes'}"


def test_a_small_leak_is_no_exit_code_unless_asked_for(doors: LeakDoors, capsys: Said) -> None:
    assert main(["leaks", "4711", *QUICK, "--fail-on-leak"]) == 0
    words = capsys.readouterr().out.splitlines()[-1]
    assert words == "--fail-on-leak passes; not counted: 1 below --min-growth 64.0 KiB"


def test_what_is_ignored_may_stand_in_a_file(doors: LeakDoors, capsys: Said, tmp_path: Path) -> None:
    known = tmp_path / "known leaks"
    known.write_text("# of the release before\n\nshop.Order  # a queue\nshop.Ca*\n")
    options = ["--fail-on-leak", "--min-growth", "0", "--ignore-from", str(known)]
    found = document(capsys, *options)
    assert found["verdict"] == "leak", "what is ignored is shown as before"
    bounds = {"min_growth": 0, "min_rate": 0, "ignored": ["shop.Order", "shop.Ca*"]}
    assert found["gate"] == {**bounds, "decided": True, "failing": []}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ignore", "shop.Cart"], "Add `--fail-on-leak`"),
        (["--min-rate", "1kB"], "Add `--fail-on-leak`"),
        (["--fail-on-leak", "--ignore-from", "/nowhere/there"], "No such file"),
        (["--fail-on-leak", "--marks", "2"], "Give `--marks 3` or more"),
        (["--fail-on-leak", "--ignore-from", "/dev/zero"], "not a regular file"),
    ],
)
def test_wrong_bounds_are_said_before_anything_is_touched(
    options: list[str], words: str, doors: LeakDoors, capsys: Said
) -> None:
    code, text = complaint(capsys, *options)
    assert code == UsageError.exit_code
    assert words in text
    assert doors.calls == []


def test_tables_have_as_many_rows_as_were_asked_for(doors: LeakDoors, capsys: Said) -> None:
    for options, shown in ((["--top", "1"], 1), (["--top", "0"], 2), ([], 2)):
        doors.make = lambda: Growing(two)
        table = document(capsys, *options)["growths"]["type"]
        assert (len(table["rows"]), table["of"]) == (shown, 2)


def test_a_lint_can_be_allowed(doors: LeakDoors, capsys: Said) -> None:
    def make() -> FakeSource:
        source = Growing()

        def grow(image: int) -> None:
            source.agent.garbage = 3 * image
            source.tick()

        source.before_image = grow
        return source

    doors.make = make
    assert [lint["name"] for lint in document(capsys)["lints"]] == ["gc-garbage"]
    assert document(capsys, "--allow", "gc-garbage")["lints"] == []


def test_without_samples_there_is_no_site(doors: LeakDoors, capsys: Said) -> None:
    doors.make = lambda: Growing(interval=0)
    found = document(capsys, "--rate", "off")
    assert [suspect["site"] for suspect in found["suspects"][:1]] == [""]
    assert any("sampling" in note for note in found["notes"])
    source = Growing()
    source.agent.sampler_text = "another tool is there"
    doors.make = lambda: source
    assert document(capsys)["suspects"][0]["site"] == "", "a hunt goes on without"


# -- how it goes --------------------------------------------------------------------------------------------------


def test_one_image_after_the_other(doors: LeakDoors, capsys: Said) -> None:
    document(capsys, "--marks", "3")
    assert doors.source.done == ["memory", "image", "close", "image", "close", "memory", "image", "close"]
    assert doors.source.closed
    (kind, pid, options), *_ = doors.calls
    assert (kind, pid, options.sample_interval, options.interval) == ("attach", 4711, 64 << 10, 1.0)
    assert options.sample_target == 1000


@pytest.mark.parametrize(("rate", "target"), [("8KiB", 0), ("50/s", 50)])
def test_a_hunt_samples_as_asked(rate: str, target: int, doors: LeakDoors, capsys: Said) -> None:
    document(capsys, "--marks", "2", "--rate", rate)
    assert doors.calls[0][2].sample_target == target


def test_garbage_is_collected_before_each_look(doors: LeakDoors, capsys: Said) -> None:
    found = document(capsys, "--marks", "2", "--collect")
    assert doors.source.done == ["collect", "memory", "image", "close", "collect", "memory", "image", "close"]
    assert [mark["collected"] for mark in found["marks"]] == [True, True]
    document(capsys, "--marks", "2")
    assert "collect" not in doors.source.done


def test_the_time_is_divided_evenly(doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    now, checks, took = [100.0], list[float](), [2]
    image = Growing.image

    def note(source: Growing, keep: float, memory: int = 0) -> int:
        checks.append(now[0] - 100)
        now[0] += took[0]
        return image(source, keep, memory)

    def pass_by(watch: hunting.HuntWatch, left: float, words: Callable[[float], str]) -> None:
        now[0] += max(left, 0)

    monkeypatch.setattr(Growing, "image", note)
    monkeypatch.setattr(hunting.HuntWatch, "wait", pass_by)
    monkeypatch.setattr(hunting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(hunting, "LATE_SECONDS", 3.0)
    assert main(["leaks", "4711", "--for", "30", "--marks", "3"]) == 0
    assert checks == pytest.approx([0, 14.4, 28]), "the last check ends when the time does"
    assert now[0] - 100 == 30
    notes = ("", "note: a mark is missing: a check takes", "note: 2 marks are missing: a check takes")
    for took[0], begun, missing in (
        (1, [0, 6.8, 12.6, 19], 0),
        (4, [0, 7.33, 11.33, 16], 0),
        (7, [0, 8.43, 15.5], 1),
        (9, [0, 9], 2),
        (10, [0, 10], 2),
    ):
        checks.clear()
        now[0] = 100.0
        assert main(["leaks", "4711", "--for", "20", "--marks", "4"]) == 0
        assert checks == pytest.approx(begun, abs=0.1), took[0]
        assert now[0] - 100 <= 20 * 1.1 + 3, "it is the time of the whole command"
        said = capsys.readouterr().out
        assert notes[missing] in said
        assert ("missing" in said) == bool(missing)


def test_a_mark_without_time_to_compare_it_is_only_marked(
    doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, compared = LeakHunt.check, list[bool]()

    def noted(hunt: LeakHunt, *given: Any, **named: Any) -> Any:
        compared.append(named["compares"])
        return check(hunt, *given, **named)

    monkeypatch.setattr(LeakHunt, "check", noted)
    monkeypatch.setattr(hunting, "COMPARING", 1e9)
    monkeypatch.setattr(hunting, "LATE_SECONDS", 10.0)
    found = document(capsys, "--marks", "3")
    assert compared == [True, False, True]
    assert (found["verdict"], len(found["marks"])) == ("leak", 3), "the last check compares with all marks"


def test_the_time_of_a_command_begins_with_its_process(
    doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[hunting.Plan] = []
    hunter = hunting.Hunter.__init__

    def noted(self: hunting.Hunter, watch: Any, plan: hunting.Plan, progress: Any) -> None:
        plans.append(plan)
        hunter(self, watch, plan, progress)

    monkeypatch.setattr(hunting.Hunter, "__init__", noted)
    for is_program in (True, False):
        assert cli.run(["leaks", "4711", *QUICK], is_program=is_program) == 0
    capsys.readouterr()
    assert plans[0].begun is not None
    assert plans[1].begun is None, "another program's time began earlier"


@pytest.mark.parametrize(
    ("age", "given", "spent"),
    [(1.25, 30.0, 1.25), (14.0, 6.0, 1.5), (14.0, 600.0, 5.0), (-0.01, 30.0, 0.0)],
)
def test_a_process_that_did_something_else_before_has_most_of_its_time_left(
    monkeypatch: pytest.MonkeyPatch, age: float, given: float, spent: float
) -> None:
    clocks = SimpleNamespace(CLOCK_BOOTTIME=7, clock_gettime=lambda _: 1000.0, monotonic=lambda: 500.0)
    monkeypatch.setattr(leaks, "time", clocks)
    ticks = round((1000.0 - age) * os.sysconf("SC_CLK_TCK"))
    monkeypatch.setattr(process, "start_time", lambda _: ticks)
    assert leaks._process_start(given) == pytest.approx(500.0 - spent)


def test_progress_says_how_far_it_is_and_what_has_grown(
    doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(terminal.ProgressLine, "show", lambda self, text: shown.append(text))
    document(capsys, "--for", "2", "--marks", "3")
    waiting = [text for text in shown if " left" in text]
    assert waiting[0].startswith("mark 1 of 3, 2 s left: RSS ")
    assert waiting[-1].endswith("; so far: unclear")
    assert any("live +" in text for text in waiting)
    assert all(len(text) < 80 for text in waiting)


def test_a_look_that_fails_in_the_middle_is_left_out(doors: LeakDoors, capsys: Said) -> None:
    def make() -> FakeSource:
        source = Growing()

        def fail(image: int) -> None:
            source.agent.images.refusal = "only 3 MiB of memory are free" if len(tried) == 1 else ""
            tried.append(image)

        tried: list[int] = []
        source.before_image = fail
        return source

    doors.make = make
    found = document(capsys)
    assert len(found["marks"]) == 3
    assert any(re.match(r"the mark at 0\.\d+ s is missing: .*3 MiB", note) for note in found["notes"])


def test_a_mark_that_cannot_be_taken_is_left_out(doors: LeakDoors, capsys: Said) -> None:
    class Silent(Growing):
        def ask(self, image: int, question: Question) -> int:
            if question.what == LIVE and image == 2:
                self.agent.images.failure = "it took too long"
            return super().ask(image, question)

    doors.make = Silent
    found = document(capsys)
    assert len(found["marks"]) == 3
    assert any("could not answer: it took too long" in note for note in found["notes"])


def test_a_later_census_may_fail(doors: LeakDoors, capsys: Said) -> None:
    def make() -> FakeSource:
        source = Growing()
        source.before_image = lambda image: source.say(Failure(1, "the clone was too slow"))
        return source

    doors.make = make
    assert document(capsys)["verdict"] == "leak"


# -- ctrl+C -------------------------------------------------------------------------------------------------------


def interrupted(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """A person presses ctrl+C where these words are shown, once for each. The last check has time."""
    monkeypatch.setattr(hunting, "LAST_CHECK", 60.0)
    left, shown = list(words), list[str]()

    def show(self: object, text: str) -> None:
        shown.append(text)
        if left and left[0] in text:
            left.pop(0)
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal.ProgressLine, "show", show)
    return left


def test_ctrl_c_has_the_last_look_taken_at_once(
    doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = interrupted(monkeypatch, "mark 1 of 4")
    assert main(["leaks", "4711", "--for", "600", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [mark["name"] for mark in found["marks"]] == ["start", "now"]
    assert (left, found["verdict"]) == ([], "unclear")
    assert doors.source.closed


def test_a_gate_that_was_interrupted_before_its_third_check_does_not_pass(
    doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(monkeypatch, "mark 1 of 4")
    assert main(["leaks", "4711", "--for", "600", "--fail-on-leak"]) == UNDECIDED
    assert "--fail-on-leak decides nothing: 2 checks" in capsys.readouterr().out


def test_ctrl_c_waits_for_the_message_that_is_taken(
    doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, told = History.feed, list[str]()

    def feed_and_press(history: History, message: Message) -> None:
        if doors.source.agent.images.number == 2 and not told:
            told.append("begun")
            signal.raise_signal(signal.SIGINT)
            told.append("taken")
        feed(history, message)

    monkeypatch.setattr(History, "feed", feed_and_press)
    before = signal.getsignal(signal.SIGINT)
    found = document(capsys)
    assert told == ["begun", "taken"]
    assert [mark["name"] for mark in found["marks"]] == ["start", "now"]
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_in_the_middle_of_a_look(doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Growing()
    source.before_image = lambda image: setattr(source.agent.images, "progress", int(image == 2))
    doors.make = lambda: source
    left = interrupted(monkeypatch, "walking the heap")
    found = document(capsys)
    assert left == []
    assert [mark["name"] for mark in found["marks"]] == ["start", "now"]


@pytest.mark.parametrize("words", [("walking the heap",), ("mark 1 of 4", "walking the heap")])
def test_ctrl_c_before_anything_is_known_and_once_more(
    words: tuple[str, ...], doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Growing()
    source.before_image = lambda image: setattr(source.agent.images, "progress", int(image == len(words)))
    doors.make = lambda: source
    left = interrupted(monkeypatch, *words)
    assert main(["leaks", "4711", "--for", "600"]) == 130
    assert left == []
    assert capsys.readouterr().out == ""
    assert source.closed


@pytest.mark.parametrize("marks", [1, 2])
def test_ctrl_c_waits_no_longer_for_a_check_that_takes_long(
    marks: int, doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process that is busy all the time. What is known is reported."""
    monkeypatch.setattr(hunting, "LAST_CHECK", 0.2)
    source = Growing()
    ask, pressed = source.image, list[bool]()

    def image(keep: float, memory: int = 0) -> int:
        if source.agent.images.number < marks:
            return ask(keep, memory)
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return -2

    monkeypatch.setattr(source, "image", image)
    doors.make = lambda: source
    found = document(capsys)
    assert (pressed, found["verdict"], len(found["marks"])) == ([True], "unclear", marks)
    assert bool(found["growths"]) == (marks > 1), "what grew up to the second mark"
    assert "the last check is missing: it takes more than 0.2 s" in found["notes"]
    assert source.closed


# -- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--mode", "python"), "heaptop leaks needs a snapshot"),
        (("--tracemalloc",), "--tracemalloc cannot replace it. Leave `--tracemalloc` out."),
        (("--allow", "thread"), f"Unknown lint 'thread'. Choose from: {', '.join(LINTS)}."),
    ],
)
def test_a_wrong_command_line_touches_nothing(
    arguments: tuple[str, ...], says: str, doors: LeakDoors, capsys: Said
) -> None:
    code, text = complaint(capsys, *arguments)
    assert code == UsageError.exit_code
    assert says in text
    assert doors.calls == []


@pytest.mark.parametrize("marks", ["1", "101", "x"])
def test_a_wrong_number_of_marks(marks: str, doors: LeakDoors, capsys: Said) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["leaks", "4711", "--marks", marks])
    assert caught.value.code == UsageError.exit_code
    assert doors.calls == []


def slices(source: Growing) -> None:
    source.agent.mode, source.agent.mode_reason = "python", "heaptop has no native core for this machine"


def refused(source: Growing) -> None:
    source.agent.images.refusal = "it would take more memory than it may"


def long_pause(source: Growing) -> None:
    source.agent.pause_ns = 412_000_000


def mute(source: Growing) -> None:
    source.before_image = lambda image: setattr(source.agent.images, "failure", "no memory")


def dies(source: Growing) -> None:
    source.before_image = lambda image: source.end(TargetExited("Process 4711 ended."))


@pytest.mark.parametrize(
    ("fate", "error", "says"),
    [
        (slices, ImageRefused, "could be made: heaptop has no native core for this machine."),
        (refused, ImageRefused, "could be made: it would take more memory than it may."),
        (long_pause, PauseTooLong, "`heaptop leaks 4711 --pause-budget 619`"),
        (mute, ImageRefused, "could be made: no memory."),
        (dies, TargetExited, "Process 4711 ended."),
    ],
)
def test_no_first_mark_is_an_error_that_says_why(
    fate: Callable[[Growing], None], error: Any, says: str, doors: LeakDoors, capsys: Said
) -> None:
    source = Growing()
    fate(source)
    doors.make = lambda: source
    code, text = complaint(capsys)
    assert code == error.exit_code
    assert says in text
    assert source.closed


def test_a_collection_that_fails(doors: LeakDoors, capsys: Said) -> None:
    class Refusing(Growing):
        def request(self, make: Callable[[int], Message]) -> int:
            if make is not CollectRequest:
                return super().request(make)
            self.say(Failure(77, "gc is being replaced"))
            return 77

    doors.make = Refusing
    code, text = complaint(capsys, "--collect")
    assert code == AgentLost.exit_code
    assert "could not collect garbage: gc is being replaced. " in text
    assert "Leave --collect out." in text


def test_what_was_found_is_said_though_the_process_ends(doors: LeakDoors, capsys: Said) -> None:
    source = Growing()
    source.before_image = lambda image: source.end(TargetExited("Process 4711 ended.")) if image == 4 else None
    doors.make = lambda: source
    assert main(["leaks", "4711", *QUICK, "--json"]) == TargetExited.exit_code
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert len(found["marks"]) == 3
    assert found["notes"][-1] == "incomplete: Process 4711 ended"
    assert "Process 4711 ended." in said.err


def test_allocators_that_say_nothing_are_not_waited_for(
    doors: LeakDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Growing, "memory_now", lambda self: None)
    assert document(capsys)["verdict"] == "leak"


def test_sampling_that_ends_is_no_error(doors: LeakDoors, capsys: Said) -> None:
    def make() -> FakeSource:
        source = Growing()
        source.before_image = lambda image: source.say(
            Sampler(9, source.agent.time_ns, False, 0, 128, (64 << 10,), 1, "another tool has dropped the hooks")
        )
        return source

    doors.make = make
    assert document(capsys)["verdict"] == "leak"
