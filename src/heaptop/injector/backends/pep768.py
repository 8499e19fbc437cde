"""The second backend: PEP 768 (newer CPython), where ptrace is taken or denied. The helper does the writing."""

from __future__ import annotations

from heaptop.errors import (
    FinalizedInterpreter,
    HeaptopError,
    InjectionFailed,
    RemoteDebuggingDisabled,
    UnresponsiveTarget,
    UnsupportedPython,
)
from heaptop.injector.entry import remote_debug
from heaptop.injector.entry.helper_client import connect_by_helper
from heaptop.injector.inspect import layout, preflight
from heaptop.injector.inspect.memory import RemoteFault, RemoteMemory
from heaptop.injector.inspect.preflight import CheckedProcess
from heaptop.injector.inspect.unshown import unshown_error
from heaptop.injector.requests import Connection, Request


def _is_enabled(checked: CheckedProcess) -> bool:
    with RemoteMemory(checked.facts.pid, checked.facts.live_tid, bring_in=True) as memory:
        return remote_debug.is_enabled(memory, checked.interpreter.runtime, checked.interpreter.version.pair)


class Pep768Backend:
    """Stops no thread, but waits for as long as the main thread sleeps in a lock."""

    name = "pep768"

    def refusal(self, request: Request) -> HeaptopError | None:
        checked, options = request.checked, request.options
        if checked is None:
            return InjectionFailed("No process to attach to.")
        version = checked.interpreter.version
        if not version.facts.debugger_support:
            return UnsupportedPython(
                f"Process {checked.facts.pid} runs Python {version}, which has no remote debugging interface.",
                why="PEP 768 came with Python {}.{}.".format(*layout.FIRST_WITH_REMOTE_DEBUG),
            )
        try:
            enabled = preflight.apart(checked.facts.pid, lambda: _is_enabled(checked))
        except (FinalizedInterpreter, UnresponsiveTarget) as error:
            return error
        except (UnsupportedPython, RemoteFault, OSError) as error:
            return InjectionFailed(f"PEP 768's structures were not found in process {checked.facts.pid}: {error}")
        if (unshown := unshown_error("by PEP 768")) is not None:
            return unshown
        if not enabled and not options.override_remote_debug:
            return RemoteDebuggingDisabled(f"Process {checked.facts.pid} was started with remote debugging disabled.")
        return preflight.seccomp_error(checked.facts, options.allow_seccomp, traced=False)

    def connect(self, request: Request) -> Connection:
        return connect_by_helper(self.name, request)
