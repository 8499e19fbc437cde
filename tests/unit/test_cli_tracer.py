"""``heaptop census`` where there is no native core: tracemalloc is offered, and used if it was asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heaptop.__main__ import main
from heaptop.errors import SamplerRefused
from tests.fakes.source import FakeSource
from tests.support.doors import Doors

CENSUS = ["census", "4711", "--by", "producer", "--for", "0.01"]


class TracedSource(FakeSource):
    """Of a target that the native core cannot be used in."""

    def __init__(self, *, tracer: bool) -> None:
        super().__init__()
        self.agent.sampler_text, self.agent.offer = "the self-check says no", True
        self._tracer = tracer

    def open(self, *arguments: Any) -> None:
        super().open(*arguments)
        self.attach()
        self.sample(65_536, 128, self._tracer)
        self.tick(3)

    def census_now(self) -> None:
        super().census_now()
        self.tick()


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> Doors:
    return Doors(monkeypatch)


def words(text: str) -> str:
    return " ".join(text.split())


def test_where_sampling_is_refused_tracemalloc_is_proposed(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = TracedSource(tracer=False)
    assert main(CENSUS) == SamplerRefused.exit_code
    said = capsys.readouterr()
    assert "cannot be sampled: the self-check says no." in words(said.err)
    assert "add `--tracemalloc`" in words(said.err)
    assert "CPU time" not in said.err
    assert not doors.calls[0][2].tracer


def test_it_is_used_and_its_cost_said_first(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = TracedSource(tracer=True)
    assert main([*CENSUS, "--tracemalloc", "--json"]) == 0
    assert doors.calls[0][2].tracer
    said = capsys.readouterr()
    assert "2.6 to 5.7 times its CPU time" in words(said.err)
    assert "even if the program called tracemalloc.start() meanwhile" in words(said.err)
    document = json.loads(said.out)
    assert (document["sampled"]["means"], document["sampled"]["interval"]) == ("tracemalloc", 1)
    assert document["sampled"]["not_sampled"] == ""
    rows = {row["name"]: row for row in document["rows"]}
    row = rows["shop/views.py:88"]
    assert row["low"] == row["high"] == row["bytes"] > 0
    assert (row["count"], row["bytes"]) == (18 + 6, 18 * 312 + 6 * 240)
    assert rows["(other sites)"]["count"] == 3
    assert sum(row["bytes"] for row in rows.values()) == document["total"]["bytes"]


def test_the_table_has_no_estimates(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = TracedSource(tracer=True)
    assert main([*CENSUS, "--tracemalloc", "--mode", "python"]) == 0
    text = capsys.readouterr().out
    table, _, notices = text.partition("\n\n")
    assert table.split("\n")[0].split() == ["OBJECTS", "LIVE", "ALLOCATED", "AT"]
    assert "≈" not in table
    assert "at most 4 frames per stack" in notices
    assert "tracemalloc has no lifetimes, no block sizes and no freed memory" in notices


@pytest.mark.parametrize("by", ["size", "lifetime"])
def test_what_it_cannot_tell_is_said_before_anything_is_touched(
    by: str, doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["census", "4711", "--by", by, "--tracemalloc"]) == 2
    assert "needs the native core: tracemalloc has no" in words(capsys.readouterr().err)
    assert doors.calls == []
