"""The entry of PEP 768: asks the interpreter itself, from 3.14 on, to run a script at its next safe point.

Only ``/proc/PID/mem`` is written: a path, a flag and a bit, as ``sys.remote_exec`` does (CPython 3.14,
``Python/remote_debugging.c``). No thread is stopped, so another tracer is no hindrance. The script never runs while
the main thread is blocked in a lock. Runs in the helper process.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heaptop.errors import (
    FinalizedInterpreter,
    InjectionFailed,
    InterpreterBusy,
    ProcessNotFound,
    RemoteDebuggingDisabled,
    UnsupportedPython,
)
from heaptop.injector.agent import bootstrap
from heaptop.injector.entry import hijack
from heaptop.injector.entry.plan import AttachPlan
from heaptop.injector.inspect import layout
from heaptop.injector.inspect.memory import RemoteFault, RemoteMemory
from heaptop.injector.inspect.process import agent_stack_size
from heaptop.injector.inspect.threads import naming

PATH_LIMIT: Final = 512  # `MAX_SCRIPT_PATH_SIZE`; the target's own figure is checked too


SCRIPT: Final = """\
def start():
    modules = __spec__.__init__.__globals__["sys"].modules
    names = "posix", "_thread", "_socket"
    posix, _thread, _socket = [modules.get(name) or __import__(name) for name in names]
    begin = _thread.start_new_thread
    if type(begin) is not type(len):
        begin = modules["gevent.monkey"].get_original("_thread", "start_new_thread")
    if posix.getpid() == {pid}:
        new = [_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC) for _ in range(4)]
        new[3].connect({path!r})
        number = new[3].detach()
        text = {text!r}.replace("{descriptor}", str(number)).replace("{inode}", str(posix.fstat(number).st_ino))
        usual = _thread.stack_size({stack})
        try:
            begin(exec, (text, {{}}))
        finally:
            _thread.stack_size(usual)
try:
    start()
except BaseException:
    pass
"""
"""What the target runs at its safe point. gevent replaces ``_thread``; a greenlet that blocks would stop it all.

Nothing is imported that is there: a program may have replaced ``__import__``, and be in the middle of its function.
Of four sockets one is not 0, 1 or 2, where a program that has closed those may still write."""

DESCRIPTOR, INODE = 987654321, 987654322
"""Stand for the socket's descriptor and inode, which are known in the target only."""


def _script(path: str, token: str, pid: int, stack: int) -> str:
    text = naming(DESCRIPTOR) + bootstrap(DESCRIPTOR, token, pid, INODE)
    return SCRIPT.format(pid=pid, stack=stack, path=path, text=text, descriptor=DESCRIPTOR, inode=INODE)


@dataclass(frozen=True, slots=True)
class RemoteDebugPlace:
    """Addresses in the target, found through ``_Py_DebugOffsets``."""

    enabled: int
    eval_breaker: int
    pending: int
    path: int
    path_size: int

    @classmethod
    def find(cls, memory: RemoteMemory, runtime: int, version: tuple[int, int]) -> RemoteDebugPlace:
        """For the main thread. Raises UnsupportedPython when the structures are not the ones known."""
        support = layout.VERSIONS[version].debugger_support if version in layout.VERSIONS else 0
        known = support and runtime and memory.read(runtime, 8) == layout.DEBUG_OFFSETS_COOKIE
        if not known or memory.u64(runtime + 8) >> 16 != version[0] << 8 | version[1]:
            raise UnsupportedPython(f"The PEP 768 offsets of Python {version[0]}.{version[1]} are unknown.")
        breaker, own, enabled, pending, path, size = struct.unpack("<6Q", memory.read(runtime + support, 48))
        interpreter = memory.u64(runtime + memory.u64(runtime + layout.RUNTIME_INTERPRETERS_HEAD))
        threads_main = memory.u64(runtime + layout.INTERPRETER_THREADS_MAIN)
        thread = memory.u64(interpreter + threads_main) if interpreter else 0
        if not thread:
            raise FinalizedInterpreter("The interpreter has no main thread.")
        base = thread + own
        return cls(interpreter + enabled, thread + breaker, base + pending, base + path, min(size, PATH_LIMIT))


def is_enabled(memory: RemoteMemory, runtime: int, version: tuple[int, int]) -> bool:
    """``config.remote_debug`` of the target. Raises UnsupportedPython, RemoteFault."""
    return memory.u32(RemoteDebugPlace.find(memory, runtime, version).enabled) == 1


@contextlib.contextmanager
def requested(plan: AttachPlan, memory: RemoteMemory) -> Iterator[hijack.Listener]:
    """Ask the target to connect to us; what was written is taken back on the way out."""
    place = RemoteDebugPlace.find(memory, plan.runtime, plan.version)
    was_enabled = memory.u32(place.enabled)
    if was_enabled != 1 and not plan.override_remote_debug:
        raise RemoteDebuggingDisabled(f"Process {plan.pid} was started with remote debugging disabled.")
    if memory.u32(place.pending):
        raise InterpreterBusy(
            f"Another remote debugger call is pending in process {plan.pid}.",
            why="PEP 768 has one slot, and another script occupies it.",
        )
    with hijack.listen_in_target(plan.pid, plan.uid, plan.gid) as listener, _script_file(plan, listener) as path:
        encoded = os.fsencode(path) + b"\0"
        if len(encoded) > place.path_size:
            raise InjectionFailed(f"The script's path is longer than the {place.path_size} bytes there are for it.")
        try:
            memory.write(place.path, encoded)
            if was_enabled != 1:
                memory.write(place.enabled, struct.pack("<i", 1))
            memory.write(place.pending, struct.pack("<i", 1))
            breaker = memory.u64(place.eval_breaker)
            memory.write(place.eval_breaker, struct.pack("<Q", breaker | layout.STOP_BIT))
            yield listener
        except RemoteFault:
            raise ProcessNotFound(f"Process {plan.pid} exited before heaptop attached.") from None
        finally:
            with contextlib.suppress(RemoteFault):
                memory.write(place.pending, struct.pack("<i", 0))
                if was_enabled != 1:
                    memory.write(place.enabled, struct.pack("<i", was_enabled))


@contextlib.contextmanager
def _script_file(plan: AttachPlan, listener: hijack.Listener) -> Iterator[str]:
    """The script beside the socket, readable by the target's user alone; yields its path in the target.

    The target opens it by its name, which is how PEP 768 works: it does so as itself, and gets at best its own files.
    """
    name = Path(listener.name).with_suffix(".py").name
    try:
        with open(listener.create(name), "w", encoding="utf-8") as file:
            file.write(_script(listener.inside, plan.token, plan.nspid, agent_stack_size(plan.live_tid)))
        yield str(Path(listener.inside).with_suffix(".py"))
    finally:
        listener.unlink(name)
