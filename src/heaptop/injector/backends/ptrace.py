"""The first backend: ptrace, by way of the helper process. This module itself never traces."""

from __future__ import annotations

from heaptop.errors import HeaptopError, InjectionFailed
from heaptop.injector.entry.helper_client import connect_by_helper
from heaptop.injector.inspect import preflight
from heaptop.injector.inspect.unshown import UNDER_A_FILTER, unshown_error
from heaptop.injector.requests import Connection, Request


class PtraceBackend:
    """Works on every supported version, also while the main thread sleeps."""

    name = "ptrace"

    def refusal(self, request: Request) -> HeaptopError | None:
        if request.checked is None:
            return InjectionFailed("No process to attach to.")
        facts = request.checked.facts
        return (
            preflight.tracer_error(facts)
            or preflight.shadow_stack_error(facts)
            or (unshown_error(UNDER_A_FILTER) if facts.seccomp else None)
            or preflight.seccomp_error(facts, request.options.allow_seccomp)
        )

    def connect(self, request: Request) -> Connection:
        return connect_by_helper(self.name, request)
