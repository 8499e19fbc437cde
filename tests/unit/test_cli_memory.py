"""``heaptop census --memory``: what it prints, and what it asks of the target."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest

from heaptop.__main__ import main
from heaptop.errors import AgentLost
from heaptop.protocol.messages import Failure, Malloc, Memory, MemoryRequest, Message, Region
from heaptop.protocol.source import Behind, Deliver, Ended, Event, Received, never_behind
from tests.fakes.source import OUTSIDE, FakeAgent
from tests.support.doors import ATTACHED, SEEN, TYPES, Doors, ScriptedSource, census


@dataclass
class Answering(ScriptedSource):
    """Answers what memory is used for, once it is asked."""

    answer: Event = field(default_factory=lambda: Ended(None))
    _deliver: Deliver | None = None

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver = deliver
        super().open(deliver)

    def memory_now(self) -> None:
        super().memory_now()
        assert self._deliver is not None
        self._deliver(self.answer)


def said(**changes: object) -> Memory:
    (answer,) = FakeAgent().answer(MemoryRequest(1))
    assert isinstance(answer, Memory)
    return replace(answer, **{"outside": OUTSIDE, **changes})  # type: ignore[arg-type]


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> Doors:
    return Doors(monkeypatch)


def asked_for(doors: Doors, message: Message, **counted: object) -> Answering:
    events = (ATTACHED, Received(TYPES), Received(census(**counted)))
    doors.source = source = Answering(events, answer=Received(message))
    return source


def test_the_document_of_memory_sums_to_rss(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    source = asked_for(doors, said())
    assert main(["census", "4711", "--memory", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["pid"], document["mode"], document["live"]) == (4711, "python", 10_000)
    rows = {row["key"]: row["bytes"] for row in document["rows"]}
    assert rows["live"] == 10_000
    assert sum(rows.values()) == document["rss"] == sum(region.rss for region in OUTSIDE.regions)
    assert source.asked == ["open", "memory_now", "close"]


def test_the_text_of_memory_marks_estimates_and_names_files_and_threads(
    doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    asked_for(doors, said())
    assert main(["census", "4711", "--memory"]) == 0
    out = capsys.readouterr().out
    lines = [line.split("  ") for line in out.splitlines()]
    assert any("≈3.81 MiB" in line and "free in pools" in line for line in lines), out
    assert any("5.72 MiB" in [cell.strip() for cell in line] and "mapped files" in line for line in lines), out
    assert "43.7 MiB  100.0 %  resident" in out
    assert "/usr/bin/python3.11" in out
    assert "thread 4243 worker" in out
    assert "2.00 MiB are in huge pages" in out
    assert "malloc's 3 large blocks, 8.58 MiB, have mappings of their own" in out
    assert "longest pause 3 ms" in out
    assert "malloc queried in 60 µs" in out
    assert "memory read from outside in 38 ms: no thread was stopped" in out
    assert "estimated: counted in slices" in out
    assert "what sys.getsizeof leaves out" in out
    assert "partial" not in out
    assert "no better mode" not in out


def test_a_malloc_that_was_not_asked_took_no_time(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    asked_for(doors, said(malloc=None, malloc_gap="There is no native core."))
    assert main(["census", "4711", "--memory"]) == 0
    out = capsys.readouterr().out
    assert "There is no native core." in out
    assert "malloc queried" not in out


def test_what_the_census_lacks_is_said(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    lacking = {
        "mode": "stop", "mode_reason": "no clone could be made", "complete": False, "cut": "the time limit",
        "sizeof_guessed": 1_234,
    }  # fmt: skip
    asked_for(doors, said(), **lacking)
    assert main(["census", "4711", "--memory"]) == 0
    out = capsys.readouterr().out
    assert "mode stop" in out
    assert "no better mode: no clone could be made\n" in out
    assert "partial: the time limit\n" in out
    assert "1,234 objects have a __sizeof__" in out
    (live,) = (line for line in out.splitlines() if "live Python objects" in line)
    assert live.strip().startswith("≈9.77 KiB")
    assert "approximate" not in out
    asked_for(doors, said(), **lacking)
    assert main(["census", "4711", "--memory", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {key: document[key] for key in lacking} == lacking


def test_a_size_that_may_be_wrong_is_not_printed(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    narrow = Malloc(12_582_912, 9_000_000, 3_582_912, 9_000_000, 3, True)
    large = replace(OUTSIDE, regions=(*OUTSIDE.regions, Region("chunk", "", 1 << 20, 8 << 30)))
    asked_for(doors, said(malloc=narrow, outside=large))
    assert main(["census", "4711", "--memory"]) == 0
    out = capsys.readouterr().out
    assert "8.58 MiB" not in out
    assert "malloc's 3 large blocks have mappings of their own" in out
    assert "the figure has 32 bits" in out


@pytest.mark.parametrize("letters", ["\x1b[31m", "\x9b2J", "\x07", "\udc9b"], ids=ascii)
def test_nothing_that_the_target_named_reaches_the_terminal_raw(
    letters: str, doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = ("file", "stack", "shared", "anonymous")
    odd = tuple(Region(kind, f"odd{letters}{kind}", 1 << 20, 2 << 20) for kind in kinds)
    outside = replace(OUTSIDE, regions=odd, gaps=(f"A gap{letters}.",))
    library = f"/x{letters}.so"
    answer = said(outside=outside, malloc=None, malloc_gap=f"It is that of {library}.", malloc_library=library)
    asked_for(doors, answer, mode="stop", mode_reason=f"why{letters}", complete=False, cut=f"what{letters}")
    assert main(["census", "4711", "--memory"]) == 0
    out = capsys.readouterr().out
    assert out.count("odd") == 4
    for words in ("A gap", "It is that of /x", "no better mode: why", "partial: what"):
        assert words in out
    assert [letter for letter in out if not (letter.isprintable() or letter == "\n")] == []


def test_top_cuts_the_mappings_and_sums_the_others(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    more = tuple(Region("file", f"/lib/{i}.so", 1 << 20, 2 << 20) for i in range(9))
    asked_for(doors, said(outside=replace(OUTSIDE, regions=(*OUTSIDE.regions, *more))))
    assert main(["census", "4711", "--memory", "--top", "2"]) == 0
    out = capsys.readouterr().out
    assert "/lib/0.so" in out
    assert "/lib/1.so" not in out
    assert "8.00 MiB 16.0 MiB mapped file (8 more)" in [" ".join(line.split()) for line in out.splitlines()]


def test_a_kernel_that_says_nothing(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    asked_for(doors, said(outside=None))
    assert main(["census", "4711", "--memory"]) == 0
    assert "does not show" in capsys.readouterr().out


def test_a_failure_is_told(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    asked_for(doors, Failure(2, "out of memory in the target"))
    assert main(["census", "4711", "--memory"]) == AgentLost.exit_code
    assert "could not report its memory use: out of memory" in " ".join(capsys.readouterr().err.split())


def test_an_end_before_the_answer_is_told(doors: Doors) -> None:
    doors.source = Answering(SEEN, answer=Ended(None))
    assert main(["census", "4711", "--memory"]) == AgentLost.exit_code


@pytest.mark.parametrize("more", [["--by", "module"], ["--where", "type:dict"]], ids=" ".join)
def test_it_explains_the_whole_process(more: list[str], doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["census", "4711", "--memory", *more]) == 2
    assert doors.calls == []
    assert "does not combine with --by or --where" in " ".join(capsys.readouterr().err.split())
