"""The process in which a core's heap is walked. It is started for one core, and imports nothing of heaptop but the
native core.

It reads a plan from its standard input, then questions; it writes what the native core answers. The walk itself is in a
child that maps the core and can do nothing but compute (``native/cores``).

::

    heaptop                      this process                       its child
      plan, with files ────────► core_begin ──── clone ───────────► maps the core, walks it
           ◄── PROGRESS ──────── image_look                           │ answers
           ◄── ANSWER ────────── image_take ◄─────────────────────────┘
      question ────────────────► image_ask ────────────────────────► …
           ◄── ENDED ─────────── core_end                            (it cannot go on)
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import struct
import sys
import threading
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from typing import Any, Final

LENGTH: Final = struct.Struct("<I")
HEAD: Final = struct.Struct("<cI")
PROGRESS, ANSWER, ENDED = b"P", b"A", b"E"
STEP: Final = struct.Struct("<IQQ")  # Of PROGRESS: phase, done, total
WAIT_NS: Final = 100_000_000
ANSWERED, READY, ALONE = 1, 2, -1  # States of `image_look`
END: Final = 0x7FFF_FFFF_F000  # Of the addresses that a program may have
ADDR_COMPAT_LAYOUT: Final = 0x0200000  # `personality(2)`: memory is mapped upward, wherever the stack may grow to
ADDR_NO_RANDOMIZE: Final = 0x0040000  # `personality(2)`: memory is placed as the limits say, and not at random below
ASK_PERSONALITY: Final = 0xFFFFFFFF
STACK: Final = 8 << 20  # Bytes of the stack that walks: a thread has as much as the limit allows otherwise


def main() -> None:
    """With the address below which a core has nothing, and which of the attempts this is."""
    below, attempt, placed = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["placed"]
    if not placed:
        _place(below, exactly=attempt == 0)
        os.execv(sys.executable, [*sys.orig_argv, "placed"])
    # The first stack of a process is at the end of all addresses, as that of the core is: the child lets go of it.
    threading.stack_size(STACK)
    walk = threading.Thread(target=_walk)
    walk.start()
    walk.join()


def _walk() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    plan = json.loads(_read(LENGTH.unpack(_read(LENGTH.size))[0]))
    pieces = _read(plan.pop("size"))
    core = _load(plan.pop("library"))
    core.core_begin({**plan, "pieces": pieces})
    while _answer(core):
        question = _read(LENGTH.unpack(_read(LENGTH.size))[0])
        core.image_ask(question)


def _place(below: int, *, exactly: bool) -> None:
    """Have a program that takes this one's place get its memory right below an address, as far as this is allowed.

    The kernel leaves room for as much stack as the limit allows, and maps everything else below that.
    """
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard == resource.RLIM_INFINITY or hard >= END - below:
        resource.setrlimit(resource.RLIMIT_STACK, (END - below, hard))
    libc = ctypes.CDLL(None)
    now: int = libc.personality(ctypes.c_ulong(ASK_PERSONALITY))
    if now != -1:  # a container may forbid either
        other = now & ~(ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT)
        libc.personality(ctypes.c_ulong(other | (ADDR_NO_RANDOMIZE if exactly else 0)))


def _load(path: str) -> Any:
    loader = ExtensionFileLoader("_core", path)
    core = loader.create_module(ModuleSpec("_core", loader, origin=path))
    loader.exec_module(core)
    return core


def _answer(core: Any) -> bool:
    """Wait for the child's answer and send it, or how the child has ended. Whether it lives."""
    while core.image_wait(WAIT_NS):
        state, phase, done, total, _, _ = core.image_look()
        if state == ANSWERED:
            _write(ANSWER, core.image_take())
            return True
        if state == ALONE:
            break
        _write(PROGRESS, STEP.pack(phase, done, total))
    how, address = core.core_end()
    _write(ENDED, json.dumps([how, address]).encode())
    return False


def _read(size: int) -> bytes:
    """From standard input. Its end is heaptop's, and this process's."""
    data = b""
    while len(data) < size:
        part = os.read(0, min(size - len(data), 1 << 20))
        if not part:
            sys.exit(0)
        data += part
    return data


def _write(kind: bytes, content: bytes) -> None:
    left = memoryview(HEAD.pack(kind, len(content)) + content)
    while left:
        left = left[os.write(1, left) :]
