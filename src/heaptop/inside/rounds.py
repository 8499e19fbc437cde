"""Runs something in rounds, has the helper hunt over them, and words what stays: for tests."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from heaptop.analysis.text.units import format_bytes, format_count, parse_size
from heaptop.errors import UsageError
from heaptop.inside.client import Found, Helper, LeftObjects
from heaptop.protocol.findings import GROWING, UNREACHED
from heaptop.protocol.text import printable

LEAST_ROUNDS: Final = 3  # Fewer prove nothing: growth that slows down would pass for a leak
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class RoundsPlan:
    """What is run, and how much may stay."""

    rounds: int
    warmup: int
    limit: int  # Bytes a round

    @classmethod
    def of(cls, rounds: int = 5, limit: str | int = "64 KiB", warmup: int = 2) -> RoundsPlan:
        """Raises UsageError where one of them is wrong."""
        if not isinstance(rounds, int) or rounds < LEAST_ROUNDS:
            what = f"rounds={rounds!r} is not a number of at least {LEAST_ROUNDS}."
            raise UsageError(what, fix="Leave it out: 5 rounds.")
        if not isinstance(warmup, int) or warmup < 1:
            raise UsageError(f"warmup={warmup!r} is not a number of at least 1.", fix="Leave it out: 2 rounds.")
        return cls(rounds, warmup, parse_size(str(limit)))


def hunt_over(helper: Helper, plan: RoundsPlan, run: Callable[[], object]) -> Found:
    """Run ``run`` in rounds and compare the heap after each. The first round of the warm-up is the caller's.

    Raises HelperFailed, and what ``run`` raises.
    """
    helper.attach()
    helper.begin()
    for _ in range(plan.warmup - 1):
        run()
    gc.collect()
    found = helper.check()
    for left in reversed(range(plan.rounds)):
        run()
        gc.collect()
        found = helper.check(last=not left)
    assert found is not None
    return found


def leaking(found: Found) -> list[LeftObjects]:
    """Where more and more stays, the largest first."""
    return sorted((each for each in found.places if each.verdict in GROWING), key=lambda each: -each.bytes)


def failure(found: Found, plan: RoundsPlan) -> str:
    """What fails a test; empty where what stays is within the limit."""
    places = leaking(found)
    size = sum(each.bytes for each in places) / plan.rounds
    if size <= plan.limit:
        return ""
    head = f"each of {plan.rounds} rounds left ≥{format_bytes(round(size))} behind; the limit is "
    return "\n".join([f"{head}{format_bytes(plan.limit)} a round", *_named(places, plan.rounds), *_notes(found)])


def notice(found: Found, plan: RoundsPlan) -> str:
    """What a person may want to read of a test that passes; empty for nothing."""
    unsure = [each for each in found.places if each.verdict not in (*GROWING, "no leak")]
    unsure = [each for each in unsure if each.bytes > plan.limit * plan.rounds]
    lines = ["new after the rounds, and not proven to be a leak:", *_named(unsure, plan.rounds)] if unsure else []
    return "\n".join([*lines, *_notes(found)])


def _notes(found: Found) -> list[str]:
    return [f"  note: {printable(note)}" for note in found.notes]


def _named(places: Sequence[LeftObjects], rounds: int) -> list[str]:
    lines = []
    for number, each in enumerate(places[:MOST_NAMED], 1):
        bound = "≈" if each.type == UNREACHED else "≥"
        count, size = each.count / rounds, format_bytes(round(each.bytes / rounds))
        lines += [
            f"  {number}. {each.type}: {bound}{_objects(count)}, {bound}{size} a round including everything new there",
            f"     allocated {_where(each)}",
            f"     {each.holding}",
            f"     {each.evidence}; at each check: {', '.join(_known(number) for number in each.series)}",
        ]
    if len(places) > MOST_NAMED:
        lines.append(f"  and {len(places) - MOST_NAMED} more")
    return lines


def _where(place: LeftObjects) -> str:
    if not place.site:
        return "at an unknown line (no sample among them)"
    return f"at {place.site}" if place.site_is_own else f"near {place.site} (indirect samples)"


def _objects(count: float) -> str:
    number = format_count(int(count)) if count >= 10 else f"{count:.1f}".removesuffix(".0")
    return f"{number} object{'s' * (number != '1')}"


def _known(number: int) -> str:
    return format_count(number) if number >= 0 else "?"
