"""The second door: PEP 768 (newer CPython), where ptrace is taken or denied. The helper does the writing."""

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
from heaptop.injector.requests import Connection, Request


def _is_enabled(look: CheckedProcess) -> bool:
    with RemoteMemory(look.facts.pid, look.facts.live_tid, bring_in=True) as memory:
        return remote_debug.is_enabled(memory, look.interpreter.runtime, look.interpreter.version.pair)


class Pep768Backend:
    """Stops no thread, but waits for as long as the main thread sleeps in a lock."""

    name = "pep768"

    def refusal(self, request: Request) -> HeaptopError | None:
        look, options = request.look, request.options
        if look is None:
            return InjectionFailed("There is no process to attach to.")
        version = look.interpreter.version
        if not version.facts.debugger_support:
            return UnsupportedPython(
                f"Process {look.facts.pid} runs Python {version}, which has no remote debugging interface.",
                why="PEP 768 came with Python {}.{}.".format(*layout.FIRST_WITH_REMOTE_DEBUG),
            )
        try:
            enabled = preflight.apart(look.facts.pid, lambda: _is_enabled(look))
        except (FinalizedInterpreter, UnresponsiveTarget) as error:
            return error
        except (UnsupportedPython, RemoteFault, OSError) as error:
            return InjectionFailed(f"PEP 768's structures were not found in process {look.facts.pid}: {error}")
        if not enabled and not options.override_remote_debug:
            return RemoteDebuggingDisabled(f"Process {look.facts.pid} was started with remote debugging disabled.")
        return preflight.seccomp_error(look.facts, options.allow_seccomp, traced=False)

    def connect(self, request: Request) -> Connection:
        return connect_by_helper(self.name, request)
