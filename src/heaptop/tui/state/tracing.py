"""What the screen asks and says of tracemalloc, which stands in where there is no native core.

This module never switches anything on: a person does, by the key that answers the question.
"""

from __future__ import annotations

from dataclasses import dataclass

from heaptop.analysis.samples.tracing import COST, ENDS, TELLS, TELLS_NOT
from heaptop.protocol.messages import TRACEMALLOC, Sampler


@dataclass(frozen=True, slots=True)
class Offer:
    """What was asked for and has to be agreed to first."""

    interval: int
    depth: int
    why: str
    """Why there is no native core: a sentence without its full stop."""


def offer_for(state: Sampler | None, interval: int, depth: int) -> Offer | None:
    """The question to put in place of sampling at ``interval``; None where there is none to put."""
    if not interval or state is None or state.on or not state.offer:
        return None
    return Offer(interval, depth, state.text)


def offer_text(offer: Offer, pid: int) -> tuple[str, str]:
    """Title and text of the question whether tracemalloc may be switched on."""
    lines = [
        *([f"The native core cannot be used there: {offer.why}.", ""] if offer.why else []),
        f"tracemalloc can be switched on in its place. {TELLS}",
        f"While it is on, {COST}.",
        f"{TELLS_NOT}.",
        f"{ENDS}.",
        "",
        "y   switch it on; key r, and leaving, switch it off again",
        "n   leave it",
        "q   detach and quit",
    ]
    return f"May tracemalloc be switched on in process {pid}?", "\n".join(lines)


def is_traced(state: Sampler | None) -> bool:
    """Whether it is on, or was when figures were taken last."""
    return state is not None and state.means == TRACEMALLOC
