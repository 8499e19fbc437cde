"""Leak hunts of ``heaptop serve`` in live processes: what they name, what they refuse, and that whatever ends one
leaves the process as it was."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

from prometheus_client.parser import text_string_to_metric_families

from tests import interpreters
from tests.interpreters import Interpreter
from tests.support import native
from tests.support.attaching import attach_once, is_held, resting
from tests.support.building import TARGETS
from tests.support.control_groups import joining, leave_room, memory_group
from tests.support.leaking import is_as_it_was
from tests.support.processes import Facts, Target, difference, eventually, running
from tests.support.serving import RULE, Serve, serving

MIB = 1 << 20
PATIENCE = 240.0
"""Seconds until a hunt has begun, or ended."""


@pytest.fixture
def word() -> str:
    """That no other command line has."""
    native.core()
    return f"served-{uuid.uuid4().hex}"


@contextmanager
def leaking(interpreter: Interpreter, word: str) -> Iterator[Target]:
    interpreter.place(TARGETS / "leaks" / "backdrop.py")
    with running(interpreter, "leaks/sessions_dict", word) as target:
        yield target


def rules(word: str, *, hunt: int) -> str:
    return f'hunt = {hunt}\nhunt_cooldown = "1h"\n{RULE.format(word=word)}'


def first_hunt(serve: Serve) -> str:
    """The line of its end. Six censuses come before it, and up to ten seconds until the host looks at them."""
    ended = eventually(lambda: [line for line in serve.events("hunt") if "result=began" not in line], PATIENCE)
    assert ended, serve.process.stderr()
    return ended[0]


def hunts(serve: Serve) -> dict[str, float]:
    """By outcome."""
    return {
        sample.labels["outcome"]: sample.value
        for family in text_string_to_metric_families(serve.get("metrics").decode())
        for sample in family.samples
        if sample.name == "heaptop_hunts_total"
    }


def suspects(serve: Serve) -> list[dict[str, str]]:
    return [
        sample.labels
        for family in text_string_to_metric_families(serve.get("metrics").decode())
        for sample in family.samples
        if sample.name == "heaptop_leak_suspect_bytes_per_second" and sample.value > 0
    ]


@pytest.mark.sample(1)
@pytest.mark.pythons("3.9", "3.12", "3.14")
def test_metrics_name_type_site_and_holder_of_a_leak(interpreter: Interpreter, word: str, tmp_path: Path) -> None:
    with leaking(interpreter, word) as target:
        before = Facts.of(target.pid)
        with serving(tmp_path / "fleet.toml", rules(word, hunt=10)) as serve:
            assert "result=leak" in first_hunt(serve)
            assert eventually(lambda: hunts(serve) == {"leak": 1}), serve.process.stderr()
            leaks = [each for each in suspects(serve) if each["verdict"] == "leak"]
            (leak,) = [each for each in leaks if each["type"] == "__main__.Session"]
            assert leak["site"].endswith("create_session")
            assert leak["holder"] == "module __main__ .store ._sessions"
            (process,) = serve.processes()["attached"]
            assert process["hunt"]["verdict"] == "leak"
            assert "create_session" in process["hunt"]["suspects"][0]
            assert process["census_age_seconds"] is not None
            assert serve.metrics()["heaptop_leak_hunt_age_seconds"]["served"] >= 0
            metrics = serve.metrics()
            assert not any(metrics.get("heaptop_refusals_total", {}).values())
            assert metrics["heaptop_gc_pause_seconds_count"]["served"] > 0
            assert metrics["heaptop_gc_pause_seconds_sum"]["served"] > 0
            uses = metrics["heaptop_resident_use_bytes"]
            assert uses.keys() >= {"live", "files", "stacks", "own"}
            assert 0 < sum(uses.values()) < 1.1 * metrics["heaptop_resident_bytes"]["served"]
            assert 0 < metrics["heaptop_memory_left_bytes"]["served"] < metrics["heaptop_memory_limit_bytes"]["served"]
            assert serve.end(signal.SIGTERM) == 0
        assert eventually(lambda: is_as_it_was(target))
        assert difference(before, resting(target.pid), allow_pages=True) == []
        assert not target.said()


@pytest.mark.sample(1)
@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL], ids=lambda way: way.name)
def test_ended_in_the_middle_of_a_hunt_it_leaves_the_process_as_it_was(
    interpreter: Interpreter, way: signal.Signals, word: str, tmp_path: Path
) -> None:
    with leaking(interpreter, word) as target:
        with serving(tmp_path / "fleet.toml", rules(word, hunt=600)) as serve:
            assert eventually(lambda: bool(serve.events("hunt")), PATIENCE), serve.process.stderr()
            (began,) = serve.events("hunt")
            assert "result=began" in began
            task = Path(f"/proc/{target.pid}/task")
            assert eventually(lambda: any(children(each) for each in task.iterdir())), "a clone answers"
            assert serve.end(way) == (-way if way == signal.SIGKILL else 0)
        assert eventually(lambda: is_as_it_was(target))
        assert not is_held(target.pid)
        attach_once(target.pid, census=True)
        assert target.alive
        assert not target.said()


def children(task: Path) -> str:
    try:
        return (task / "children").read_text()
    except OSError:
        return ""  # the thread has ended


def test_where_a_snapshot_has_no_room_no_hunt_begins(word: str, tmp_path: Path) -> None:
    with memory_group() as group, leaking_fast(word, joining(group)) as target:
        leave_room(group, 60 * MIB)
        with serving(tmp_path / "fleet.toml", rules(word, hunt=8)) as serve:
            assert eventually(lambda: serve.attached() == {target.pid}), serve.process.stderr()
            leave_room(group, 24 * MIB)
            refused = first_hunt(serve)
            assert "result=refused" in refused
            assert "MiB of memory are free" in refused
            assert len(serve.events("hunt")) == 1
            assert eventually(lambda: hunts(serve) == {"refused": 1})
            assert suspects(serve) == []
            assert serve.end(signal.SIGTERM) == 0
        assert eventually(lambda: is_as_it_was(target))
        assert target.alive


@contextmanager
def leaking_fast(word: str, wrapper: tuple[str, ...]) -> Iterator[Target]:
    try:
        interpreter = interpreters.get("3.12")
    except interpreters.MissingInterpreter as error:
        pytest.skip(str(error))
    with running(interpreter, "leaking_fast", "100000", word, wrapper=wrapper) as target:
        yield target
