"""``heaptop detach``: ends an agent that somebody else's heaptop left behind, without touching a thread.

The agent's socket is copied out of the target (pidfd_getfd) and shut down: the agent reads the end of its session
and cleans up as it always does. Nothing is stopped, written or run in the target.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import Final

from heaptop.errors import HeaptopError, InterpreterBusy, NoAgent, TransportFailed
from heaptop.injector.entry.hijack import is_signed, take_link
from heaptop.injector.inspect import preflight
from heaptop.injector.inspect.process import ProcessFacts, read_facts, wait_until
from heaptop.injector.inspect.threads import agent_thread

PATIENCE: Final = 10.0


def remove_agent(pid: int) -> str:
    """Remove the agent of ``pid`` and report what was done.

    Raises NoAgent, PtraceDenied, ProcessNotFound, or InterpreterBusy when the agent cannot run yet to clean up
    (it will, as soon as the interpreter lets it).
    """
    try:
        return _remove(pid)
    except HeaptopError as error:
        error.about(pid)
        raise


def _remove(pid: int) -> str:
    facts = read_facts(pid)
    preflight.check_state(facts)
    agent = agent_thread(pid)
    if agent is None:
        raise NoAgent(f"No agent runs in process {pid} ({facts.name}).")
    _shut_down(facts, agent[1])
    if not wait_until(lambda: agent_thread(pid) != agent, PATIENCE):
        raise InterpreterBusy(
            f"The agent in process {pid} was asked to detach and has not done so within {PATIENCE:g} s.",
            why="The program is in a long call into C, and the agent can act only between two lines of Python.",
            fix="Nothing to do: it cleans up when the program runs Python code again.",
        )
    return f"The agent in process {pid} ({facts.name}) cleaned up and detached."


def _shut_down(facts: ProcessFacts, descriptor: int) -> None:
    try:
        copy = take_link(facts.pid, descriptor, facts.live_tid)
    except PermissionError:
        raise preflight.denied(facts) from None
    except OSError as error:
        if error.errno == errno.ENOSYS:
            raise TransportFailed(
                f"The agent's socket in process {facts.pid} cannot be reached on this kernel.",
                why="Copying a descriptor out of a process (pidfd_getfd) came with Linux 5.6.",
                fix="Quit the heaptop that is attached: the agent cleans up when its socket closes.",
            ) from None
        raise NoAgent(f"The agent's socket in process {facts.pid} is gone: {error}.") from None
    with copy:
        if not is_signed(copy):
            raise NoAgent(f"Descriptor {descriptor} of process {facts.pid} is not an agent's socket.")
        with contextlib.suppress(OSError):
            copy.shutdown(socket.SHUT_RDWR)
