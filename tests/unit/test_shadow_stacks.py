"""A process with a shadow stack would be killed by a call that is made for it: it is refused before it is touched."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from heaptop.errors import InjectionDenied
from heaptop.injector.backends.ptrace import PtraceBackend
from heaptop.injector.inspect import preflight, process
from heaptop.injector.requests import AttachOptions, Request


@pytest.fixture
def sleeping() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        assert program.stdin is not None
        yield program.pid
        program.stdin.write(b"\n")


@pytest.mark.parametrize(("features", "refused"), [("shstk wrss", True), ("wrss", False), (None, False)])
def test_a_shadow_stack_is_a_refusal_of_ptrace(
    sleeping: int, monkeypatch: pytest.MonkeyPatch, features: str | None, refused: bool
) -> None:
    status = process._status

    def with_features(pid: int) -> dict[str, str]:
        found = status(pid)
        found.pop("x86_Thread_features", None)
        return {**found, "x86_Thread_features": features} if features is not None else found

    monkeypatch.setattr(process, "_status", with_features)
    seen = preflight.check(sleeping)
    error = PtraceBackend().refusal(Request(AttachOptions(), "token", lambda phase, seconds: None, checked=seen))
    assert isinstance(error, InjectionDenied) == refused
    if error is not None and refused:
        assert "shadow stack" in error.message
        assert "heaptop run" in (error.fix or "")
