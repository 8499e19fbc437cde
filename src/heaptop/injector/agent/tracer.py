"""tracemalloc, where there is no native core and a person has agreed to what it costs.

It is switched on from here, on a thread of the target like any other, and asked of each object that a census visits:
a copy of all its traces would hold the GIL for seconds. What it cannot be taken out of safely it is left in:

   another tool hooked in before us, and left meanwhile    our hooks went with it; stop() would write its own back
   another tool hooked in after us, and is there           stop() throws its hook out; when it leaves, it writes ours
                                                           back, which then work without their tables, and crash

The first can be seen, by a block that has no trace. The second cannot be seen from Python, so tracing is not begun
where such a tool is loaded, and not ended once one was. Nor is it begun where stop() itself is not safe
(STOPS_SAFELY). A tracemalloc that the program has switched on is read everywhere: we neither begin nor end it.
"""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import builtin_module, is_builtin, may_have_interpreters

MAX_TRACED_DEPTH = 4
"""Frames of a stack. A loop that does nothing but allocate takes 4 to 9 times its CPU time with one, 5 to 11 times with
4, 10 to 30 times with 16; and the agent itself is such a loop."""
HOOKING = ("memray._memray", "ddtrace.profiling.collector._memalloc", "filprofiler", "scalene.pywhere")
"""Modules that may put hooks of their own into the allocators, at any time once they are there."""
TRACER = "_tracemalloc"
STOPS_SAFELY = ((3, 12, 9), (3, 13, 2), (3, 14, 4))
"""The first releases whose tracemalloc.stop() survives threads that allocate without the GIL (zlib, lzma): before, it
frees what they are about to write to (gh-128679, mended in January 2025; never up to 3.11), or may wait for them for
ever (gh-144763, 3.14, mended in February 2026). The last stands for all that came after it, too."""


def tracing_refusal(s: Any) -> str:
    """Why tracemalloc is not to be used here; empty where it may be: started, or read where the program started it."""
    if TRACER not in sys.builtin_module_names:
        return "this Python has no tracemalloc"
    here: Any = getattr(sys.modules.get(TRACER), "is_tracing", None)
    return "" if is_builtin(here) and here() else start_refusal()


def start_refusal() -> str:
    """Why tracemalloc is not to be switched on; empty where it may be."""
    found = hooking_tool()
    if found:
        return "%s is loaded, and other tools' hooks cannot be removed safely beside its own" % found
    if may_have_interpreters():
        return "there may be several interpreters, and tracemalloc is not safe with them"
    return "" if stops_safely(tuple(sys.version_info[:3])) else CRASHES % tuple(sys.version_info[:3])


CRASHES = (
    "Python %d.%d.%d can crash when tracemalloc is switched off while other threads run (gh-128679); it works from "
    "3.12.9, 3.13.2 and 3.14.4 on, or where the program switched it on itself"
)


def stops_safely(version: tuple[int, ...]) -> bool:
    for first in STOPS_SAFELY:
        if version[:2] == first[:2]:
            return version >= first
    return version > STOPS_SAFELY[-1]


def hooking_tool() -> str:
    return next(iter([name.partition(".")[0] for name in HOOKING if name in sys.modules]), "")


def start_tracing(s: Any, depth: int) -> str:
    """Trace from now on; why not, or an empty text. A tracemalloc that the program has switched on is used as it is."""
    if s.tracing:
        return ""
    text = tracing_refusal(s)
    if text:
        return text
    tracer = builtin_module(TRACER)
    begins = not tracer.is_tracing()
    text = start_refusal() if begins else ""  # once more: the program may have ended its own since
    if text:
        return text
    s.tracer = tracer
    if begins:
        s.started_tracing = True
        tracer.start(min(depth, MAX_TRACED_DEPTH))
    s.tracing = True
    s.epoch += 1
    return ""


LOST_TRACER = "another tool removed tracemalloc's hooks with its own"


def is_traced(tracer: Any) -> bool:
    """Whether what is allocated now gets a trace: then tracemalloc's hooks are where it put them."""
    # more than once: tracemalloc itself may be out of memory for a moment
    return any(tracer._get_object_traceback(bytes(1000)) is not None for _ in range(3))


def stop_tracing(s: Any) -> str:
    """End what :func:`start_tracing` began; why it goes on all the same, or an empty text."""
    s.tracing = False
    text = ""
    if s.started_tracing and s.tracer.is_tracing():
        found = hooking_tool()
        if found:
            return "tracemalloc stays on: %s was loaded since, and its hooks may be on top" % found
        if is_traced(s.tracer):
            s.tracer.stop()
        else:
            s.tracer.clear_traces()
            text = LOST_TRACER
    s.started_tracing = False
    return text
