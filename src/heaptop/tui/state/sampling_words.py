"""The screen's words for the sampler: its rate, the outcome of a change, and how sure its figures are."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.samples.sampling import NEVER_SAMPLED, Sampling
from heaptop.analysis.samples.sampling_status import SamplingStatus
from heaptop.analysis.samples.tracing import TELLS, TELLS_NOT
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns
from heaptop.choices import ADAPTIVE, NOT_SAMPLED, SamplingRate
from heaptop.protocol.messages import TRACEMALLOC, Sampler

RATES: Final = (512 << 10, 64 << 10, 8 << 10)  # Bytes from one sample to the next, as key r goes through them; then off
DEPTHS: Final = (1, 16, 64, 128, 512)  # Frames of a stack, likewise
DEPTH: Final = 128  # The default of the commands
NEW_NS: Final = 60 * 10**9  # How long it is news that sampling began anew
WITHOUT_C: Final = " · excludes malloc"
"""What C code takes from malloc or PyMem_RawMalloc is not sampled: shown beside the figures."""
UNSAMPLED: Final = "no sample of this site is live"  # Why what keeps alive what a site has allocated cannot be asked


def rate_text(interval: int) -> str:
    """``64 KiB``: as one types it where it is a whole number."""
    for power, unit in ((20, "MiB"), (10, "KiB")):
        if interval >> power and not interval % (1 << power):
            return f"{interval >> power} {unit}"
    return format_bytes(interval)


def rate_of(state: Sampler | None) -> SamplingRate:
    """As it was asked for."""
    if state is None or not state.on:
        return NOT_SAMPLED
    return SamplingRate(ADAPTIVE.interval, state.target) if state.target else SamplingRate(state.interval)


def rate_words(rate: SamplingRate) -> str:
    """``200 samples/s``, ``one sample per 64 KiB``."""
    if rate.target:
        return f"{format_count(rate.target)} samples/s"
    return f"one sample per {rate_text(rate.interval)}" if rate.interval else "off"


def next_rate(now: SamplingRate, began: SamplingRate) -> SamplingRate:
    """The rate that key r comes to from ``now``: from the one that follows the program to fixed ones, ever finer, and
    round; off, once all had their turn.

    ``began``: the rate that the round began with.
    """
    follows = now if now.target else began if began.target else ADAPTIVE
    fixed = sorted({*RATES, *([] if began.target else [began.interval])}, reverse=True)
    finer = next((rate for rate in fixed if now.target or rate < now.interval), None)
    rate = follows if finer is None else SamplingRate(finer)
    return NOT_SAMPLED if rate == began else rate


def change_text(before: Sampler | None, now: Sampler | None, *, asked: bool = False) -> str:
    """What the sampler's last message changed, to be shown once; empty where that is nothing. ``asked``: a person asked
    for it, so that a repeated refusal is shown too."""
    if now is None or now is before:
        return ""
    if not now.on:
        why = f": {now.text}" if now.text else ""
        is_new = before is None or before.on or now.text != before.text
        return f"sampling is off{why}" if is_new or (asked and why) else ""
    if now.means == TRACEMALLOC:
        return "tracemalloc now traces allocations" if before is None or not before.on else ""
    if before is None or not before.on or now.target != before.target:
        return f"sampling rate: {rate_words(rate_of(now))}"
    if now.interval != before.interval and not now.target:
        return f"sampling rate: {rate_words(rate_of(now))}"
    if now.depth != before.depth:
        return f"stacks now have at most {now.depth} {'frame' if now.depth == 1 else 'frames'}"
    return ""


def sampling_status_text(sampling_status: SamplingStatus, now_ns: int, means: str = "figures are from before") -> str:
    """For a line of its own above figures that are made of samples: what they are not; empty where there is nothing.

    Args:
        now_ns: the target's clock.
        means: what it means for these figures that sampling is off.
    """
    why = f" ({sampling_status.why})" if sampling_status.why else ""
    if not sampling_status.on:
        if not sampling_status.ever_on or sampling_status.since_ns is None:
            return ""
        return (
            f"Sampling has been off for {format_duration_ns(max(now_ns - sampling_status.since_ns, 0))}{why}: {means}"
        )
    if sampling_status.void_ns is None or (not why and now_ns - sampling_status.void_ns > NEW_NS):
        return ""
    ago = format_duration_ns(max(now_ns - sampling_status.void_ns, 0))
    return f"Sampling restarted {ago} ago{why}: earlier samples are no longer tracked"


def by_words(key: str, sampling_status: SamplingStatus) -> str:
    """``by ≈ sampled site``, or what it is while nothing is sampled, or all is traced."""
    if sampling_status.means == TRACEMALLOC:
        return f"by {'traced ' if sampling_status.on else ''}{key}{now_words(sampling_status)}"
    prefix = "≈ sampled " if sampling_status.on else "≈ " if sampling_status.ever_on else ""
    return f"by {prefix}{key}{now_words(sampling_status)}"


def now_words(sampling_status: SamplingStatus) -> str:
    """The note in a title on figures that nothing is added to; empty while it is sampled."""
    if sampling_status.on:
        return ""
    return ", not sampled now" if sampling_status.ever_on else ", not sampled"


def sampling_notices(sampling: Sampling) -> list[str]:
    """What the samples are worth, a sentence each; nothing where nobody ever asked for any."""
    state = sampling.state
    if state is None:
        return []
    if not state.on:
        return [not_sampled(sampling)]
    if state.means == TRACEMALLOC:
        return [f"tracemalloc traces allocations, {state.depth} frames at most.", f"{TELLS} {TELLS_NOT}."]
    every = f"every {rate_text(state.interval)} on average"
    if state.target:
        every = f"about {format_count(state.target)} times a second, now {every}"
    lines = [f"Allocations are sampled {every}, {state.depth} frames at most."]
    lines.append(f"Not sampled: {NEVER_SAMPLED}.")
    if state.text:
        lines.append(f"Sampling restarted: {state.text}.")
    if state.approximate:
        lines.append(f"Sites of {', '.join(state.approximate)} are estimates: their memory is reused by free lists.")
    if sampling.samples.dropped:
        lines.append(f"{format_count(sampling.samples.dropped)} samples were lost.")
    return lines


def not_sampled(sampling: Sampling | None) -> str:
    """Why there are no samples, for a view that has nothing else to show."""
    state = sampling.state if sampling is not None else None
    if state is not None and state.on and state.means == TRACEMALLOC:
        return f"{TELLS_NOT}."
    if state is not None and state.text:
        return f"Allocations are not sampled: {state.text}."
    return "Allocations are not sampled: press r."


def is_traced(state: Sampler | None) -> bool:
    """Whether tracemalloc is on, or was when figures were taken last: it is in where there is no native core."""
    return state is not None and state.means == TRACEMALLOC
