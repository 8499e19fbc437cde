"""Words about the cell under the cursor of the heap map, and about the object that is examined there.

It is what KBDB says of an object that was clicked (§4.1): root, type, site, generation, size, and the path from the
root to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from heaptop.analysis.filters.attributes import generation_label
from heaptop.analysis.snapshot.heap_map import CellContents
from heaptop.analysis.snapshot.retaining import short_name
from heaptop.analysis.text.units import format_bytes, format_count
from heaptop.protocol.findings import Suspect
from heaptop.protocol.images import KINDS, Object
from heaptop.protocol.messages import UNTRACKED
from heaptop.tui.state.hunting_words import verdict_sign
from heaptop.tui.views.heap_map.heap_map_marks import KIND_WORDS, NO_GENERATION
from heaptop.tui.views.heap_map.heap_map_questions import MapAnswers

Line = tuple[str, str]  # A label, empty where it is the one above, and a text

NONE_PASS = ("", "nothing here matches the filter")
UNMARKED = ("", "no mark yet: m sets one, d shows what is new")


def gap_lines(low: int, high: int) -> list[Line]:
    return [("gap", f"{low:x} +{format_bytes(high - low)}: no object, skipped")]


def cell_lines(
    answers: MapAnswers, record: CellContents | None, low: int, high: int, hint: str, *, wide: bool
) -> list[Line]:
    """``hint``: what a key does next. ``wide``: there are lines enough."""
    place = f"{low:x} +{format_bytes(high - low)}"
    if record is None:
        return [("cell", f"{place}: {'asking…' if answers.is_asking else 'unknown'}")]
    if not record.bytes:
        return [("cell", f"{place}: no object")]
    age = generation_label(UNTRACKED if record.generation == NO_GENERATION else record.generation)
    first = ("cell", f"{place}: {record.taken / 10:.0f}% taken, most: {answers.type_name(record.type)}")
    words = f"{age} · {_kept_by(record.kind)}"
    return [first, ("", words), ("", hint)] if wide else [first, ("", f"{words} · {hint}")]


def suspect_lines(suspects: Sequence[tuple[int, Suspect]]) -> list[Line]:
    """Of a cell in which suspects collect, with their ranks."""
    return [("suspect", _suspect_words(rank, each)) for rank, each in suspects]


def _suspect_words(rank: int, suspect: Suspect) -> str:
    what = f"{format_count(suspect.count)} {short_name(suspect.type)}"
    where = f"the {short_name(suspect.holder)} at {suspect.point:#x}"
    return f"{rank} {verdict_sign(suspect.verdict)} {suspect.verdict}: {what} in {where}; Enter opens it"


def _kept_by(kind: int) -> str:
    words = KIND_WORDS[kind]
    return words if KINDS[kind] in ("c", "none") else f"kept by {words}"


def object_lines(answers: MapAnswers, site: str, *, wide: bool) -> list[Line]:
    """Of the object that retains most in the cell. ``wide``: each step of the path has a line."""
    if answers.largest is None or not answers.largest.rows:
        return []
    total, row = answers.largest.total, answers.largest.rows[0]
    most = f", retains most of {format_count(total)} here" if total > 1 else ""
    known = answers.object[1] if answers.object is not None and answers.object[0].address == row.address else None
    words = [f"{format_bytes(row.size)}, retains {format_bytes(row.retained)}", generation_label(row.generation)]
    if known is not None and known.preview:
        words.append(known.preview)
    lines = [
        ("type", f"{answers.type_name(row.type)} at {row.address:#x}{most}"),
        ("size", " · ".join(words)),
        ("site", site or "not sampled"),
    ]
    return lines if known is None else [*lines, *_path(answers, known, wide)]


def _path(answers: MapAnswers, known: Object, wide: bool) -> list[Line]:
    """From the root on."""
    if not known.path:
        return [("root", _kept_by(known.row.kind))]
    root, *steps = known.path
    if not wide:
        return [("root", " › ".join([root.label, *(step.label for step in steps)]))]
    lines = [("root", f"{root.label}  {answers.type_name(root.type)}")]
    for step in steps:
        label = f"{step.label} and up" if step.repeated else step.label
        lines.append(("" if len(lines) > 1 else "path", f"{label}  {answers.type_name(step.type)}"))
    return lines
