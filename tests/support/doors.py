"""Stands in for the injector and the front end, so that the commands between them are tested alone.

Nothing here touches a process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import heaptop.dumps.reader  # noqa: F401  (with the real api, before another one is in its place)
from heaptop.errors import HeaptopError
from heaptop.protocol.messages import Census, Hello, Row, TypeName, Types
from heaptop.protocol.source import Attached, Behind, Deliver, Ended, Event, Received, TargetInfo, never_behind

TARGET = TargetInfo(pid=4711, command="python shop.py", python="3.12.1", user="alice")
HELLO = Hello(
    protocol=1,
    token="t",
    pid=7,
    python="3.12.1",
    executable="/usr/bin/python3",
    capabilities=("census.python",),
    gc_enabled=True,
    time_ns=1,
)
ATTACHED = Attached(TARGET, HELLO, "ptrace", 1_000_000)
TYPES = Types(0, (TypeName("shop.models", "Session"), TypeName("builtins", "dict"), TypeName("builtins", "str")))


def census(**changes: Any) -> Census:
    """A complete census in Python mode: 10 sessions, 30 dicts, 60 strings; 10,000 bytes in all."""
    fields: dict[str, Any] = {
        "id": 1,
        "time_ns": 2,
        "mode": "python",
        "complete": True,
        "cut": "",
        "rows": (Row(0, 2, 10, 1_000), Row(1, 2, 20, 4_000), Row(1, 0, 10, 2_000), Row(2, -1, 60, 3_000)),
        "duration_ns": 50_000_000,
        "pause_ns": 3_000_000,
        "cpu_ns": 25_000_000,
        "agent_bytes": 2_000_000,
        "sizeof_guessed": 0,
    }
    return Census(**{**fields, **changes})


SEEN: tuple[Event, ...] = (ATTACHED, Received(TYPES), Received(census()))
"""An attach that went well, up to the first count."""


@dataclass
class ScriptedSource:
    """Delivers the events it was given, at once, from :meth:`open`; and remembers what it was asked to do."""

    events: Sequence[Event]
    target: TargetInfo = TARGET
    asked: list[str] = field(default_factory=list)

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self.asked.append("open")
        for event in self.events:
            deliver(event)

    def census_now(self) -> None:
        self.asked.append("census_now")

    def memory_now(self) -> None:
        self.asked.append("memory_now")

    def sample(self, interval: int, depth: int, tracer: bool = False) -> None:
        self.asked.append("sample")

    def decide(self, accept: bool, stop: bool = False) -> None:
        self.asked.append(f"decide {accept}")

    def cancel(self) -> None:
        self.asked.append("cancel")

    def close(self, timeout: float = 5.0) -> None:
        self.asked.append("close")


@dataclass
class FakeApp:
    """Opens the source as the front end does, and quits at once, with the error the source ended with.

    With an opening it makes the source first; with a picker it chooses the first process of the list, if there is one.
    """

    source: Any
    options: dict[str, Any]
    opening: Any = None

    def run(self) -> HeaptopError | None:
        if self.opening is not None:
            self.source = self.opening.connect()
        picker = self.options.get("picker")
        if picker is not None:
            rows = picker.processes()
            if not rows:
                return None
            self.source = picker.connect(rows[0].pid)
        if self.options.get("several") is not None:
            return None
        ends: list[Ended] = []
        self.source.open(lambda event: ends.append(event) if isinstance(event, Ended) else None)
        return ends[0].error if ends else None


@dataclass(frozen=True)
class FakeOptions:
    """The injector's options, with its defaults."""

    wait: float = 10.0
    allow_seccomp: bool = False
    override_remote_debug: bool = False
    backend: str | None = None
    interval: float = 1.0
    max_share: float = 0.2
    mode: str = "clone"
    pause_budget: float = 0.1
    sample_interval: int = 0
    sample_target: int = 0
    sample_depth: int = 128
    sample_exact: bool = False
    tracer: bool = False


@dataclass(frozen=True)
class FakeCheck:
    """One line of a diagnosis."""

    name: str
    ok: bool | None
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class FakeDiagnosis:
    """What the doctor found; nothing amiss by default."""

    checks: tuple[FakeCheck, ...] = ()
    error: HeaptopError | None = None

    @property
    def attachable(self) -> bool:
        return self.error is None

    def to_json(self) -> dict[str, object]:
        return {"attachable": self.attachable}


class Doors:
    """What the commands see in place of ``heaptop.injector.api`` and ``heaptop.tui.app``: set ``source``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source: ScriptedSource = ScriptedSource(())
        self.calls: list[tuple[Any, ...]] = []
        """What was attached to or launched, with the options."""
        self.apps: list[FakeApp] = []
        self.diagnosis = FakeDiagnosis()
        self.api = ModuleType("heaptop.injector.api")
        self.api.__dict__.update(
            AttachOptions=FakeOptions,
            attach_source=self._attach,
            launch_source=self._launch,
            diagnose=lambda pid: self.diagnosis,
        )
        monkeypatch.setattr("heaptop.cli.terminal.has_terminal", lambda: True)
        monkeypatch.setattr("heaptop.injector.inspect.preflight.check", self._look)
        app = ModuleType("heaptop.tui.app")
        app.__dict__.update(make_app=self._make_app)
        monkeypatch.setitem(sys.modules, "heaptop.injector.api", self.api)
        monkeypatch.setitem(sys.modules, "heaptop.tui.app", app)

    @staticmethod
    def _look(pid: int) -> SimpleNamespace:
        facts = SimpleNamespace(command=TARGET.command, user=TARGET.user)
        return SimpleNamespace(facts=facts, interpreter=SimpleNamespace(version=TARGET.python))

    def _attach(self, pid: int, options: FakeOptions) -> ScriptedSource:
        self.calls.append(("attach", pid, options))
        return self.source

    def _launch(self, argv: Sequence[str], **rest: Any) -> ScriptedSource:
        self.calls.append(("launch", list(argv), rest))
        return self.source

    def _make_app(self, source: Any = None, opening: Any = None, **options: Any) -> FakeApp:
        self.apps.append(FakeApp(source, options, opening))
        return self.apps[-1]
