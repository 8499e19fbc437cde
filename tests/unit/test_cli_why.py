"""``heaptop why`` and ``heaptop census --by retainer|kind``: what they print, and that they leave in order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from heaptop.__main__ import main
from heaptop.cli import terminal
from heaptop.errors import (
    AgentLost,
    AmbiguousType,
    ImageLost,
    ImageRefused,
    NotInHeap,
    PauseTooLong,
    TargetExited,
    UsageError,
)
from heaptop.protocol.images import FIRST_ID, KINDS, OBJECT, PATHS, RETAINERS, ImageGone, Question
from heaptop.protocol.messages import Core, Failure, TypeName
from heaptop.protocol.source import Behind, Deliver, never_behind
from tests.fakes.graph import Planted, PlantedHeap, Reference, Root
from tests.fakes.shop import SESSIONS, shop
from tests.fakes.source import FakeSource
from tests.support.doors import Doors


class Frozen(FakeSource):
    """Of a target that clones can be made of."""

    def __init__(self, plant: Callable[[int], PlantedHeap] = shop) -> None:
        super().__init__()
        self.agent.mode = "clone"
        self.agent.images.plant = plant
        self.keeps: list[float] = []
        self.instead: Callable[[], None] | None = None
        """What happens when it is asked something."""

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver, behind)
        self.attach()
        self.tick()

    def image(self, keep: float, memory: int = 0) -> int:
        self.keeps.append(keep)
        return super().image(keep, memory)

    def ask(self, image: int, question: Question) -> int:
        if self.instead is None:
            return super().ask(image, question)
        self.instead()
        return FIRST_ID + 1


class FrozenDoors(Doors):
    """Behind them is another source each time."""

    source: Any

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.make: Callable[[], FakeSource] = Frozen

    def _attach(self, pid: int, options: Any) -> Any:
        self.source = self.make()
        return super()._attach(pid, options)


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> FrozenDoors:
    return FrozenDoors(monkeypatch)


Said = pytest.CaptureFixture[str]


def document(arguments: list[str], capsys: Said) -> Any:
    assert main([*arguments, "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out)


def complaint(arguments: list[str], capsys: Said) -> tuple[int, str]:
    code = main(arguments)
    said = capsys.readouterr()
    assert said.out == ""
    return code, " ".join(said.err.split())


# -- why TYPE -------------------------------------------------------------------------------------------------


def test_the_document_of_why_has_counts_paths_and_snapshot(doors: FrozenDoors, capsys: Said) -> None:
    found = document(["why", "4711", "models.Session"], capsys)
    assert {key: found[key] for key in ("pid", "type", "count", "complete")} == {
        "pid": doors.source.target.pid,
        "type": "shop.models.Session",
        "count": SESSIONS,
        "complete": True,
    }
    first = found["paths"][0]
    assert first["path"] == ["module shop.cache", "._sessions", "dict[*]", "shop.models.Session"]
    assert (first["count"], first["bytes"], first["kind"]) == (SESSIONS, found["bytes"], "module")
    assert first["retained"] > first["bytes"]
    assert found["pause_ms"] > 0
    assert doors.source.closed
    (kind, pid, options), keep = doors.calls[0], doors.source.keeps
    assert (kind, pid, options.sample_interval) == ("attach", 4711, 0)
    assert options.interval > 3_600, "one census and no more"
    assert keep == [300.0]


def test_a_process_whose_census_ran_in_mode_stop_still_has_its_snapshot(doors: FrozenDoors, capsys: Said) -> None:
    source = Frozen()
    doors.make = lambda: source
    source.agent.mode, source.agent.mode_reason = "stop", "it has few objects in much memory"
    assert document(["why", "4711", "models.Session"], capsys)["count"] == SESSIONS


def test_the_text_of_why_has_objects_sizes_and_retainer(doors: FrozenDoors, capsys: Said) -> None:
    assert main(["why", "4711", "Session"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"80 objects of shop.models.Session: 24.4 KiB, retained size \S+ KiB", lines[0])
    assert lines[2].split() == ["OBJECTS", "SIZE", "RETAINED", "KEPT", "BY"]
    assert lines[3].split(maxsplit=5)[::5] == ["80", "module shop.cache ._sessions [*]"]
    assert lines[4] == ""
    assert "paused for" in lines[-1] or "paused for" in lines[-2]
    assert "garbage" not in "\n".join(lines)


def test_paths_beyond_the_limit_are_summed(doors: FrozenDoors, capsys: Said) -> None:
    everything = document(["why", "4711", "str"], capsys)
    assert main(["why", "4711", "str", "--limit", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if re.match(r" *\d+ .* (module|frame|held) ", line)]
    assert len(shown) == 2
    rest = everything["paths"][2:]
    assert len(rest) > 2
    count = sum(path["count"] for path in rest)
    (said,) = [line for line in lines if "other paths" in line]
    assert said.startswith(f"({len(rest)} other paths, {count} objects, ")
    assert re.search(r": \d+\.\d % of the bytes are above\)$", said)
    assert main(["why", "4711", "str", "--limit", "0"]) == 0
    assert "other path" not in capsys.readouterr().out


@pytest.mark.parametrize(("columns", "elides"), [(None, False), (44, True)])
def test_paths_are_cut_for_a_terminal_and_never_in_a_pipe(
    columns: int | None, elides: bool, doors: FrozenDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "_columns", lambda stream: columns)
    assert main(["why", "4711", "Session"]) == 0
    row = capsys.readouterr().out.splitlines()[3]
    assert ("…" in row) is elides
    assert row.endswith("[*]")
    assert elides is (len(row) <= 44)


def garbage(_: int) -> PlantedHeap:
    """Three nodes of a ring that nothing keeps, and a chain of five that a module does."""
    node, place = TypeName("app", "Node"), 0x1000
    chain = [
        Planted(place + 64 * n, node, 48, (Reference(".next", place + 64 * (n + 1)),) if n < 4 else ())
        for n in range(5)
    ]
    ring = [
        Planted(0x8000 + 64 * n, TypeName("app", "Ring"), 48, (Reference(".next", 0x8000 + 64 * ((n + 1) % 3)),))
        for n in range(3)
    ]
    module = Planted(0x100, TypeName("builtins", "module"), 72, (Reference(".chain", place),))
    return PlantedHeap((module, *chain, *ring), (Root("module", "module app", 0x100),))


def test_garbage_is_told_with_its_cycles(doors: FrozenDoors, capsys: Said) -> None:
    doors.make = lambda: Frozen(garbage)
    found = document(["why", "4711", "Ring"], capsys)
    assert {path["kind"] for path in found["paths"]} == {"none"}
    assert (found["garbage"]["count"], found["garbage"]["bytes"]) == (3, 144)
    assert main(["why", "4711", "Ring"]) == 0
    text = capsys.readouterr().out
    assert "garbage in the whole heap: 3 objects, 144 B, in 1 cycle that nothing else keeps" in text


def test_steps_that_stand_for_several_are_explained(doors: FrozenDoors, capsys: Said) -> None:
    doors.make = lambda: Frozen(garbage)
    assert main(["why", "4711", "Node"]) == 0
    text = capsys.readouterr().out
    assert ".next ×n" in text
    assert "×n: one or more such steps in a row" in text


def test_retainer_sets_beside_the_paths(doors: FrozenDoors, capsys: Said) -> None:
    found = document(["why", "4711", "Session", "--retainers", "2"], capsys)
    assert sum(row["count"] for row in found["retainers"]) == SESSIONS
    assert found["retainers"][0]["name"] == "module shop.cache ._sessions"
    asked = doors.source.agent.images.asked
    assert [(each.what, each.number) for each in asked] == [(PATHS, 3), (RETAINERS, 2)]
    assert main(["why", "4711", "Session", "--retainers", "2"]) == 0
    assert "RETAINERS" in capsys.readouterr().out


# -- why ADDRESS ----------------------------------------------------------------------------------------------


def example(capsys: Said, type: str = "Session") -> str:
    return str(document(["why", "4711", type], capsys)["paths"][0]["example"])


def test_why_of_one_object_has_its_dominator_and_references(doors: FrozenDoors, capsys: Said) -> None:
    address = example(capsys)
    found = document(["why", "4711", address], capsys)
    assert (found["type"], found["count"], found["address"]) == ("shop.models.Session", 1, address)
    assert found["paths"][0]["path"] == ["module shop.cache", "._sessions", "dict[*]", "shop.models.Session"]
    assert found["dominator"]["type"] == "dict"
    assert found["dominator"]["path"] == ["module shop.cache", "._sessions", "dict"]
    assert found["referrer_count"] == len(found["referrers"]) >= 1
    assert found["referent_count"] == len(found["referents"]) >= 1
    assert main(["why", "4711", address, "--limit", "1"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"shop.models.Session at {address}")
    assert "  path        module shop.cache ._sessions [*]\n" in text
    assert f"({found['referent_count'] - 1} more)" in text


def test_values_are_shown_only_when_asked_for(doors: FrozenDoors, capsys: Said) -> None:
    address = example(capsys, "str")
    hidden, shown = (document(["why", "4711", address, *more], capsys)["preview"] for more in ([], ["--values"]))
    assert re.fullmatch(r"\d+ characters?", hidden)
    assert shown.startswith("'")
    asked = [each for each in doors.source.agent.images.asked if each.what == OBJECT]
    assert [each.values for each in asked] == [True, *[False] * (len(asked) - 1)], "not of what it goes with"


# -- census ---------------------------------------------------------------------------------------------------


def test_a_census_by_kind_sums_to_all_objects(doors: FrozenDoors, capsys: Said) -> None:
    found = document(["census", "4711", "--by", "kind"], capsys)
    assert {row["name"] for row in found["rows"]} <= set(KINDS)
    assert found["total"]["count"] == sum(row["count"] for row in found["rows"]) == found["snapshot"]["objects"]
    assert found["mode"] == "clone"
    assert found["retainers"] is None
    only = document(["census", "4711", "--by", "kind", "--where", "kind:none"], capsys)
    assert only["rows"] == [row for row in found["rows"] if row["name"] == "none"] != []
    assert main(["census", "4711", "--by", "kind"]) == 0
    assert "garbage (kind:none)" in capsys.readouterr().out


def test_a_census_by_retainer_has_the_largest_first(doors: FrozenDoors, capsys: Said) -> None:
    arguments = ["census", "4711", "--by", "retainer"]
    found = document([*arguments, "--top", "3"], capsys)
    assert (found["shown"], len(found["rows"]), found["retainers"]) == (3, 3, 3)
    assert found["total"]["count"] == found["snapshot"]["objects"]
    sizes = [row["bytes"] for row in found["rows"]]
    assert sizes == sorted(sizes, reverse=True)
    only = document([*arguments, "--where", "type:Session", "--retainers", "1"], capsys)
    assert only["total"]["count"] == SESSIONS
    assert only["retainers"] == 1
    (question,) = doors.source.agent.images.asked[-1:]
    assert (question.what, question.number, len(question.selection.types)) == (RETAINERS, 1, 1)


def test_by_kind_of_what_some_retainers_keep(doors: FrozenDoors, capsys: Said) -> None:
    arguments = ["census", "4711", "--by", "kind", "--where"]
    found = document([*arguments, "retainer:nothing,_sessions type:Session"], capsys)
    assert found["total"]["count"] == SESSIONS
    assert found["filtered"]["count"] == found["snapshot"]["objects"] - SESSIONS
    (question,) = doors.source.agent.images.asked[-1:]
    assert question.selection.retainers
    code, text = complaint([*arguments, "retainer:nobody"], capsys)
    assert code == UsageError.exit_code
    assert "No retainer in the heap matches retainer:nobody." in text


def test_by_retainer_of_some_kinds(doors: FrozenDoors, capsys: Said) -> None:
    found = document(["census", "4711", "--by", "retainer", "--where", "kind:frame"], capsys)
    (question,) = doors.source.agent.images.asked[-1:]
    assert question.selection.kinds == (KINDS.index("frame"),)
    assert all("frame" in row["name"] or row["retainers"] is None for row in found["rows"])
    assert found["filtered"]["count"] == found["snapshot"]["objects"] - found["total"]["count"] > 0


def test_sets_that_are_too_large_are_named_as_that(doors: FrozenDoors, capsys: Said) -> None:
    shared = Planted(0x9000, TypeName("app", "Shared"), 64)
    modules = [
        Planted(0x100 * n, TypeName("builtins", "module"), 72, (Reference(".cache", 0x1000 * n),)) for n in (1, 2)
    ]
    caches = [Planted(0x1000 * n, TypeName("builtins", "list"), 56, (Reference("[*]", 0x9000),)) for n in (1, 2)]
    roots = (Root("module", "module a", 0x100), Root("module", "module b", 0x200))
    doors.make = lambda: Frozen(lambda _: PlantedHeap((shared, *modules, *caches), roots))
    arguments = ["census", "4711", "--by", "retainer", "--where", "type:Shared"]
    (row,) = document([*arguments, "--retainers", "1"], capsys)["rows"]
    assert row == {"name": "(more than 1)", "count": 1, "bytes": 64, "retainers": None}
    (row,) = document([*arguments, "--retainers", "2"], capsys)["rows"]
    assert row["retainers"] == ["module a .cache", "module b .cache"]
    assert main([*arguments, "--retainers", "1"]) == 0
    assert "of several sets" in capsys.readouterr().out


# -- what goes wrong ------------------------------------------------------------------------------------------

WHY = ["why", "4711", "Session"]
BY_RETAINER = ["census", "4711", "--by", "retainer"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["why", "4711", "0xzz"], "'0xzz' is not an address."),
        ([*WHY, "--values"], "--values shows the content of one object: give an ADDRESS."),
        (["why", "4711", "0x10", "--retainers", "2"], "give a TYPE"),
        ([*WHY, "--mode", "python"], "--mode python cannot take"),
        ([*BY_RETAINER, "--mode", "stop"], "--mode stop cannot take"),
        ([*BY_RETAINER, "--where", "generation:2"], "Counts by retainer have no generation."),
        ([*BY_RETAINER, "--for", "3"], "--for goes with --by producer"),
        (["census", "4711", "--by", "kind", "--retainers", "2"], "--retainers needs --by retainer"),
    ],
)
def test_a_wrong_command_line_touches_nothing(
    arguments: list[str], says: str, doors: FrozenDoors, capsys: Said
) -> None:
    code, text = complaint(arguments, capsys)
    assert code == UsageError.exit_code
    assert says in text
    assert doors.calls == []


@pytest.mark.parametrize(
    ("what", "error", "says"),
    [
        ("Sesion", NotInHeap, "The heap has no objects of type Sesion. Similar names: shop.models.Session"),
        ("Sesion", NotInHeap, "`heaptop census 4711 --top 0`"),
        ("0x10", NotInHeap, "No object begins at 0x10 in process 4711."),
    ],
)
def test_what_is_not_there(what: str, error: Any, says: str, doors: FrozenDoors, capsys: Said) -> None:
    code, text = complaint(["why", "4711", what], capsys)
    assert code == error.exit_code
    assert says.replace("4711", str(doors.source.target.pid)) in text or says in text
    assert doors.source.closed


def test_a_name_of_several_types(doors: FrozenDoors, capsys: Said) -> None:
    heap = PlantedHeap(tuple(Planted(64 * n, TypeName(f"m{n}", "Row"), 16) for n in (1, 2)), ())
    doors.make = lambda: Frozen(lambda _: heap)
    code, text = complaint(["why", "4711", "Row"], capsys)
    assert code == AmbiguousType.exit_code
    assert "Row names 2 types: m1.Row m2.Row" in text


def slices(source: Frozen) -> None:
    source.agent.mode, source.agent.mode_reason = "python", "heaptop has no native core for this machine"


def refused(source: Frozen) -> None:
    source.agent.images.refusal = "it would take more memory than it may"


def long_pause(source: Frozen) -> None:
    source.agent.pause_ns = 412_000_000


def no_answer(source: Frozen) -> None:
    source.instead = lambda: source.say(Failure(FIRST_ID + 1, "no memory"))


def too_many_references(source: Frozen) -> None:
    source.instead = lambda: source.say(Failure(FIRST_ID + 1, "there are too many references for a graph"))


def goes(source: Frozen) -> None:
    source.instead = lambda: source.say(ImageGone(1, "its time was over"))


def dies(source: Frozen) -> None:
    source.instead = lambda: source.end(TargetExited("Process 4711 ended."))


@pytest.mark.parametrize("command", [WHY, BY_RETAINER], ids=["why", "census"])
@pytest.mark.parametrize(
    ("fate", "error", "says"),
    [
        (slices, ImageRefused, "could be made: heaptop has no native core for this machine."),
        (refused, ImageRefused, "could be made: it would take more memory than it may."),
        (long_pause, PauseTooLong, "--pause-budget 619`"),
        (no_answer, ImageLost, "could not answer: no memory."),
        (goes, ImageLost, "was lost: its time was over."),
        (dies, TargetExited, "Process 4711 ended."),
    ],
)
def test_no_answer_is_an_error_that_says_why(
    command: list[str], fate: Callable[[Frozen], None], error: Any, says: str, doors: FrozenDoors, capsys: Said
) -> None:
    source = Frozen()
    doors.make = lambda: source
    fate(source)
    code, text = complaint(command, capsys)
    assert code == error.exit_code
    assert says in text
    assert "--mode python" not in text, "it would not help"
    assert source.closed


class Telling(Frozen):
    """Says this before it has counted anything."""

    def __init__(self, message: Core | Failure) -> None:
        super().__init__()
        self.message = message

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        FakeSource.open(self, deliver, behind)
        self.attach()
        self.say(self.message)


@pytest.mark.parametrize(
    ("message", "error", "says"),
    [
        (
            Core(3, "b", False, False, "libpython is not the one it says it is"),
            ImageRefused,
            "libpython is not the one",
        ),
        (Failure(3, "out of memory in the target"), AgentLost, "Try again: `heaptop why 4711 Session`."),
    ],
)
def test_it_does_not_wait_for_a_count_that_cannot_help(
    message: Core | Failure, error: Any, says: str, doors: FrozenDoors, capsys: Said
) -> None:
    doors.make = lambda: Telling(message)
    code, text = complaint(WHY, capsys)
    assert code == error.exit_code
    assert says in text


def test_what_would_fail_again_is_not_to_be_retried(doors: FrozenDoors, capsys: Said) -> None:
    source = Frozen()
    too_many_references(source)
    doors.make = lambda: source
    code, text = complaint(WHY, capsys)
    assert code == ImageLost.exit_code
    assert "too many references" in text
    assert "Retry" not in text
    assert f"`heaptop census {source.target.pid}`" in text


def test_control_c_detaches(doors: FrozenDoors, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Frozen()
    doors.make = lambda: source
    source.agent.images.progress, source.agent.images.hold = 2, True
    shown: list[str] = []

    def show(self: object, text: str) -> None:
        shown.append(text)
        if len(shown) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal.ProgressLine, "show", show)
    assert main(WHY) == 130
    assert source.closed
    assert capsys.readouterr().out == ""
    assert any(re.match(r"[a-z ]+, \d+ %, .*B \d\.\d s", text) for text in shown), shown
