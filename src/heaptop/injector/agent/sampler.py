"""The sampler of allocations: on, off, and what it has sampled. It is the native core's, or tracemalloc."""

from __future__ import annotations

from typing import Any

from heaptop.injector.agent.base import FUNCTION
from heaptop.injector.agent.clock import clock, cpu_clock, rest
from heaptop.injector.agent.core import core_failure
from heaptop.injector.agent.outbox import intervals_in, sampler_state, send_reliably, send_unsent
from heaptop.injector.agent.pacing import MOST_INTERVAL, QUOTA, next_interval
from heaptop.injector.agent.tracer import LOST_TRACER, is_traced, start_tracing, stop_tracing
from heaptop.injector.agent.values import bounded, joined

MAX_INTERVAL = 1 << 40
MAX_DEPTH = 1024
MAX_TARGET = 100_000
MOST_MEMORY = 64 << 20
"""Of the tables: SAMPLE_BYTES of the core, which it takes for 0."""
PACE = 500_000_000
"""Nanoseconds that pass at least between two choices of the interval: there may be a read for a census in between."""
SAMPLES_PER_READ = 4_000
READS_PER_TICK = 16
"""What is more than this many reads can carry comes with the next tick."""
SAMPLES_SLICE = 1_500_000
"""Nanoseconds of our own CPU time that reads may take between two rests; a read takes 1 ms, where all is new."""
SAMPLES_REST = 0.003
COVERED = 20
"""How often removing hooks that lie under another's is tried, every :data:`COVERED_REST` seconds."""
COVERED_REST = 0.02


def sampler(s: Any, number: int) -> None:
    """Switch sampling on, off, or to another rate; answer with Sampler."""
    interval = bounded(s.sampler_request.get("interval"), 0, 0, MAX_INTERVAL)
    depth = bounded(s.sampler_request.get("depth"), 128, 1, MAX_DEPTH)
    target = bounded(s.sampler_request.get("target"), 0, 0, MAX_TARGET)
    if target:
        interval = min(interval, MOST_INTERVAL)
    s.sampler_id = number
    text = ""
    if not interval:
        text = joined(stop_sampling(s), stop_tracing(s))
    elif s.core is None:
        text = s.core_reason
        if s.sampler_request.get("tracer") is True:
            text = start_tracing(s, depth)
    else:
        try:
            if s.sampling:
                if target and s.sampling_target:
                    interval = s.core.sample_stats()["interval"]
                s.core.sample_set(interval, depth, QUOTA * target)
            else:
                text = start_sampling(s, interval, depth, target)
            s.sampling_target, s.paced_ns = target, 0
        except (OSError, RuntimeError, MemoryError) as error:
            text = core_failure(error)
    send_sampler(s, text)


def start_sampling(s: Any, interval: int, depth: int, target: int) -> str:
    """Begin; why not, or an empty text."""
    exact = s.sampler_request.get("exact") is True
    memory = bounded(s.sampler_request.get("memory"), 0, 0, MOST_MEMORY)
    options = {"interval": interval, "depth": depth, "seed": 0, "bytes": memory, "own": own_code(s), "reborn": exact}
    options["quota"] = QUOTA * target
    s.hooked = True
    s.core.sample_start(options)
    refusal = s.core.sample_stats()["reborn_refusal"]
    if refusal:
        return joined("exact sites are not available: " + refusal, stop_sampling(s))
    s.sampling = True
    s.epoch += 1
    s.core_epoch = s.samples_dropped = 0
    s.typed = b""  # of samples that are no more
    return ""


def own_code(s: Any) -> list[Any]:
    """What of ours runs on the target's threads: it is not the program that allocates there."""
    return [function.__code__ for function in (s.callback, s.leave, s.listener) if type(function) is FUNCTION]


def send_sampler(s: Any, text: str) -> None:
    stats = s.core.sample_stats() if s.sampling else {}
    s.intervals_sent = -1  # where there is no memory to send it, it goes with the next samples
    send_reliably(s, "sampler", sampler_state(s, s.epoch, text, stats))
    s.intervals_sent, s.exact_sent = intervals_in(stats), stats.get("reborn", False)


def watch_tracing(s: Any) -> None:
    """Say when somebody else has ended what we began."""
    if not s.tracing:
        return
    text = ""
    if not s.tracer.is_tracing():
        text = "the program has stopped tracemalloc"
    elif not is_traced(s.tracer):
        text = LOST_TRACER
    if text:
        stop_tracing(s)
        send_sampler(s, text)


def send_samples(s: Any) -> None:
    """What was sampled since the last time, with what a census has found living samples to be.

    That (``s.typed``) goes with the first read after it: a number may stand for another sample later. What is waiting
    is read in small parts, each one call of C; where the next may not fit the slice, we rest without the GIL before it.
    """
    if not s.sampling:
        unhook(s)
        watch_tracing(s)
        return
    send_unsent(s)  # one read at a time: a tick in the middle of a census may have had no memory for its own
    begin, cost = cpu_clock(), 0
    for _ in range(READS_PER_TICK):
        before = cpu_clock()
        if before - begin + cost > SAMPLES_SLICE:
            rest(s, SAMPLES_REST)
            begin = before
        s.read = s.core.sample_read(SAMPLES_PER_READ)
        s.read_typed = s.typed
        s.typed = b""
        stats = s.read[-1]
        send_unsent(s)
        cost = cpu_clock() - before
        if not stats["more"] or not s.sampling:
            break
    if s.sampling and s.sampling_target:
        pace(s, stats)


def pace(s: Any, stats: dict[str, Any]) -> None:
    """Choose the interval by what was allocated since the last choice, and give the core another quota."""
    now = clock()
    elapsed, allocated = now - s.paced_ns, stats["clock"] - s.paced_clock
    if elapsed < PACE:
        return
    interval = stats["interval"]
    if s.paced_ns:
        interval = next_interval(interval, allocated * 1e9 / elapsed, s.sampling_target, stats["live"])
    try:
        s.core.sample_set(interval, stats["depth"], QUOTA * s.sampling_target)
    except RuntimeError:
        return  # a thread that does not run has the lock: at the next tick
    s.paced_ns, s.paced_clock = now, stats["clock"]


def stop_sampling(s: Any) -> str:
    """Stop sampling; returns what could not be taken out of the allocators, or an empty text."""
    s.sampling = False
    text = ""
    for _ in range(COVERED):
        text = unhook(s)
        if not text:
            break
        rest(s, COVERED_REST)
    return text


def unhook(s: Any) -> str:
    """Take the sampler's hooks out, as far as that can be; until it could, it is tried again at each tick."""
    if not s.hooked:
        return ""
    text = str(s.core.sample_stop())
    s.hooked = bool(text)
    return text
