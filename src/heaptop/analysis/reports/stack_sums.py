"""Sampled bytes by the whole stack that allocated them: what flame graphs and profiles are written from.

Exporters turn these sums into a format. Bytes without a stack are included under a name of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.samples.estimate import Sums
from heaptop.analysis.samples.producers import NO_SITE, Frame, live_total, older_than_sampling
from heaptop.errors import RecordingTooLarge
from heaptop.protocol.messages import TypeName

LIVE: Final = "live"
ALLOCATED: Final = "allocated"
OF: Final = (LIVE, ALLOCATED)
"""What may be summed: what lives at the moment, or all that was allocated since sampling began."""


@dataclass(frozen=True, slots=True)
class StackSum:
    """Blocks of one type that were allocated by one stack; estimated, both."""

    stack: int  # Its number; below 0 for what is older than the sampling
    frames: tuple[Frame, ...]  # Innermost first; one at least: where there was none, what represents it, in brackets
    type: TypeName | None  # None where it is not known
    live_bytes: int
    live_count: int
    allocated_bytes: int
    allocated_count: int

    @property
    def text(self) -> int:
        """Characters that its frames take, written out, about."""
        return sum(_FRAME + len(frame.file) + len(frame.function) for frame in self.frames)

    def bytes(self, of: str) -> int:
        """By a word of :data:`OF`."""
        return self.live_bytes if of == LIVE else self.allocated_bytes


MOST_TEXT: Final = 64 << 20
_FRAME: Final = 16  # Characters of a frame beside its names, about
_OLDER: Final = -2  # The stack of what lives and is not followed; -1 is of what is no longer distinguished


def stack_sums(recorded: Recorded, *, older: bool = True, most: int = MOST_TEXT) -> list[StackSum]:
    """One for each stack and type that were sampled, the most living bytes first; with ``older`` also what a census
    has counted beyond the samples, whose allocation was not seen: it is in no ``allocated_bytes``.

    Raises:
        RecordingTooLarge: written out, frame by frame, they would take more than ``most`` characters.
    """
    sampling = recorded.sampling
    samples, sites = sampling.samples, sampling.sites
    live: dict[tuple[int, int], Sums] = {}
    dead: dict[tuple[int, int], Sums] = {}
    for tally in samples.tallies():
        key = tally.stack, tally.type
        live.setdefault(key, Sums()).merge(tally.live)
        dead.setdefault(key, Sums()).merge(tally.freed + tally.lost)
    found = []
    written = 0
    for (stack, kind), sums in live.items():
        allocated = sums + dead[stack, kind]
        found.append(
            StackSum(
                stack=stack,
                frames=sites.frames(stack) or (sites.frame(stack),),
                type=samples.types[kind] if kind >= 0 else None,
                live_bytes=sums.rounded_bytes,
                live_count=sums.rounded_count,
                allocated_bytes=allocated.rounded_bytes,
                allocated_count=allocated.rounded_count,
            )
        )
        written += found[-1].text
        if written > most:
            raise RecordingTooLarge(
                f"The stacks of the recording {recorded.name} would take more than {most:,} characters.",
                why="Frames that many stacks share are written once for each of them.",
            )
    latest = recorded.history.latest
    if older and latest is not None:
        rest = older_than_sampling(latest.total, live_total(samples))
        name = Frame("", NO_SITE, 0, "", "", False)
        if rest.bytes:
            found.append(StackSum(_OLDER, (name,), None, rest.bytes, rest.count, 0, 0))
    return sorted(found, key=lambda one: (-one.live_bytes, -one.allocated_bytes, one.stack))


AllocatedBefore: TypeAlias = Mapping[tuple[int, TypeName | None], tuple[int, int]]
"""Bytes and blocks that were allocated, by stack and type."""


def allocated(sums: Sequence[StackSum]) -> AllocatedBefore:
    """What was allocated up to now."""
    return {(one.stack, one.type): (one.allocated_bytes, one.allocated_count) for one in sums}


def since(sums: Sequence[StackSum], before: AllocatedBefore) -> list[StackSum]:
    """The same stacks, with what each has allocated since then.

    The sampler may move what it knows of a stack to the row of those that it no longer distinguishes: so the whole is
    never more than what all of them grew by.
    """
    left_bytes = max(sum(one.allocated_bytes for one in sums) - sum(size for size, _ in before.values()), 0)
    left_count = max(sum(one.allocated_count for one in sums) - sum(count for _, count in before.values()), 0)
    found = []
    for one in sums:
        size, count = before.get((one.stack, one.type), (0, 0))
        grown = min(max(one.allocated_bytes - size, 0), left_bytes)
        more = min(max(one.allocated_count - count, 0), left_count)
        left_bytes, left_count = left_bytes - grown, left_count - more
        found.append(replace(one, allocated_bytes=grown, allocated_count=more))
    return found
