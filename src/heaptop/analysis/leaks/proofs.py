"""What was proven in a leak hunt, and stays so until it is refuted.

A check may be unable to tell: something large was allocated meanwhile, a container was replaced, the last interval was
short. That is no evidence against what earlier checks have proven. Evidence against it is: they go again (*no leak*),
there are fewer objects than when it was last confirmed, their number has hardly grown since (for :data:`FLAT` checks,
where more than two intervals had shown growth), the call that held them has returned, or their container has a bound or
is a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heaptop.analysis.leaks.suspects import numberless
from heaptop.analysis.leaks.verdicts import ENDED, SLOWER, WEAK, Judgement
from heaptop.analysis.text.units import format_count, format_number
from heaptop.protocol.findings import LEAK, NO_LEAK, OBJECTS, UNCLEAR, UNREACHED, Suspect

FLAT: Final = 2  # Checks with hardly any growth that refute what more than so many intervals have shown; else one does

STILL: Final = "not refuted since"

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """A leak as it was when it was last confirmed."""

    suspect: Suspect
    since: Suspect  # The same at the first check that called it a leak
    total: int  # Objects then; -1 where that is not known


class Proofs:
    """All that is proven since one mark."""

    def __init__(self) -> None:
        self._proofs: dict[Key, Proof] = {}

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        """What is proven to leak, as it was when it was last confirmed."""
        return tuple(proof.suspect for proof in self._proofs.values())

    def kept(
        self,
        suspects: Sequence[Suspect],
        check: int,
        intervals: Sequence[float],
        everywhere: Callable[[str], tuple[Judgement, int]],
        explained: Collection[Key] = (),
    ) -> tuple[list[Suspect], list[str]]:
        """The suspects of this check with what was proven before, and notes on what is refuted.

        Args:
            check: its number, from 1.
            intervals: seconds between the marks, and from the last one until now.
            everywhere: of a type's full name, what all its objects are judged to be, and how many there are.
            explained: the suspects whose container says why they collect, by its bound or as a queue.
        """
        found, notes = [], list[str]()
        seen, seconds = set(), sum(intervals)
        proofs: dict[Key, Proof] = {}
        for suspect in suspects:
            each, key = suspect, key_of(suspect)
            before = self._proofs.get(key)
            seen.add(key)
            if each.verdict == LEAK:
                proven = before.since if before is not None else each
                each = replace(
                    each,
                    proven_check=proven.proven_check or check,
                    proven_seconds=proven.proven_seconds if before is not None else seconds,
                    confirmed_check=check,
                    confirmed_seconds=seconds,
                )
                proofs[key] = Proof(each, before.since if before is not None else each, _total(each))
            elif before is not None:
                why = each.evidence[0] if key in explained else _of_another_call(before, each, sum(intervals[:-1]))
                total = _total(each) if each.counted == before.suspect.counted else -1
                why = why or _against(before, Judgement(each.verdict, each.evidence), total, check)
                why = why or _by_addresses(before)
                if why:
                    notes.append(_refuted(before, why))
                else:
                    proofs[key] = before
                    each = _unconfirmed(each, before, each.evidence)
            found.append(each)
        for key, before in self._proofs.items():
            if key in seen:
                continue
            judged, now = everywhere(before.suspect.type)
            if now and before.suspect.counted != OBJECTS:  # their number does not show how large they are
                unseen = check - before.suspect.confirmed_check >= FLAT
                judged, now = Judgement(NO_LEAK if unseen else UNCLEAR, (f"it was not found for {FLAT} checks",)), -1
            if any(each.type == before.suspect.type and each.verdict == LEAK for each in found):
                continue  # it is held otherwise now
            why = _against(before, judged, now, check) if now else "none of them is left"
            if why:
                notes.append(_refuted(before, why))
            else:
                proofs[key] = before
                found.append(_unconfirmed(before.suspect, before, ("what holds them was not found",)))
        self._proofs = proofs
        return found, notes


def key_of(suspect: Suspect) -> Key:
    """What makes it the same one at another check. Names that differ by a number are alike."""
    if suspect.type == UNREACHED:
        return suspect.type, suspect.site
    return suspect.type, numberless(suspect.retainer)


def proven_words(suspect: Suspect) -> str:
    """``proven at check 3 (20 s), last confirmed at check 5 (40 s)``; empty for what is not proven."""
    if not suspect.proven_check:
        return ""
    words = f"proven at check {suspect.proven_check} ({suspect.proven_seconds:.3g} s after the first mark)"
    if suspect.confirmed_check == suspect.proven_check:
        return words
    return f"{words}, last confirmed at check {suspect.confirmed_check} ({suspect.confirmed_seconds:.3g} s)"


def _against(before: Proof, judged: Judgement, now: int, check: int) -> str:
    """Why it is refuted; empty where nothing speaks against it."""
    checks = check - before.suspect.confirmed_check
    shown = len(before.suspect.series) - 1
    is_flat = checks >= (FLAT if shown > FLAT else 1)
    is_guess = judged.evidence[0].startswith(WEAK)
    if judged.verdict == NO_LEAK and not is_guess and (judged.evidence[0] != ENDED or is_flat):
        return judged.evidence[0]
    if min(now, before.total) >= 0:
        if now < before.total:
            return f"now {format_count(now)}, before {format_count(before.total)}"
        if now == before.total and is_flat:
            return f"there have been {format_count(now)} for {format_number(checks, 'check')}"
        if judged.evidence[0] == SLOWER and is_flat:
            return SLOWER
    return ""


def _of_another_call(before: Proof, now: Suspect, marked: float) -> str:
    """Why what a running call holds is not what a call held when it was proven; empty where it may be.

    Args:
        marked: seconds from the first mark to the last one.
    """
    at_mark = now.series[-2] if len(now.series) > 1 and marked >= before.suspect.confirmed_seconds else -1
    if now.kind != "frame" or not 0 <= at_mark < before.total:
        return ""
    counts = f"{format_count(at_mark)} at the last mark, before {format_count(before.total)}"
    return f"{counts}: the call that held them has returned"


def _by_addresses(before: Proof) -> str:
    """Why a proof ends at the first check that does not confirm it: it rested on addresses alone."""
    is_known = any(total >= 0 for total in before.suspect.series[:-1])
    return "" if is_known else "it was based on survivors by address alone, and this check does not confirm it"


def _refuted(before: Proof, why: str) -> str:
    return f"{before.suspect.type} was called a leak, {proven_words(before.suspect)}; that is refuted: {why}"


def _unconfirmed(now: Suspect, before: Proof, why: Sequence[str]) -> Suspect:
    """It stays listed, with the figures of now where there are some."""
    known = before.suspect
    return replace(
        now,
        verdict=LEAK,
        proven_check=known.proven_check,
        proven_seconds=known.proven_seconds,
        confirmed_check=known.confirmed_check,
        confirmed_seconds=known.confirmed_seconds,
        evidence=(f"{proven_words(known)}; {STILL}", *(f"this check: {each}" for each in why[:1]), *why[1:]),
    )


def _total(suspect: Suspect) -> int:
    return suspect.series[-1] if suspect.series else -1
