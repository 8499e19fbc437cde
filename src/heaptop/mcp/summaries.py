"""What the tools answer: pure functions from what ``heaptop.api`` found to summaries with a next step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

from heaptop import api
from heaptop.analysis.snapshot.kept_sites import handler_words
from heaptop.analysis.snapshot.waste import ARENAS, ESTIMATED
from heaptop.analysis.text.recorded_times import utc
from heaptop.analysis.text.units import format_bytes, format_change, format_count, format_number
from heaptop.api.opened import OpenedRecording
from heaptop.errors import HeaptopError
from heaptop.injector.api import Diagnosis
from heaptop.injector.processes import PythonProcess, names
from heaptop.mcp.answers import LONGEST_SENTENCE, Answer, quoted
from heaptop.protocol.findings import GROWING, NO_LEAK, OBJECTS, UNCLEAR, UNREACHED, VERDICTS, Suspect

SUSPECTS: Final = 5
SHOWN: Final = 8  # Rows of a summary
NOTES: Final = 2
LISTED: Final = 15  # Processes of a summary
STEPS: Final = 12  # Of a path, the last ones: those next to the object
FRAMES: Final = 6


# -- processes ------------------------------------------------------------------------------------------------


def processes_answer(listed: Sequence[tuple[PythonProcess, HeaptopError | None]], left_out: int) -> Answer:
    """The largest first. Of a command line only the program's name is shown: arguments may hold secrets."""
    rows: list[dict[str, Any]] = [
        {
            "pid": process.pid,
            "name": _program(process),
            "python": process.python,
            "rss": process.rss,
            "user": process.user,
            "attachable": error is None,
            "error": type(error).__name__ if error else None,
        }
        for process, error in sorted(listed, key=lambda one: -one[0].rss)
    ]
    lines = [f"{len(rows)} Python processes, the largest first:"]
    for row in rows[:LISTED]:
        refused = f", cannot be attached to ({row['error']})" if row["error"] else ""
        program = f"{quoted(row['name'], 40)}, Python {quoted(row['python'], 8)}"
        lines.append(f"- pid {row['pid']}: {program}, {format_bytes(row['rss'])}{refused}")
    if len(rows) > LISTED:
        lines.append(f"{len(rows) - LISTED} smaller ones.")
    if left_out:
        lines.append(f"{left_out} of other users are not listed.")
    next_step = "memory_explained or hunt_leaks with the pid in question; doctor with a pid that cannot be attached to."
    return Answer(tuple(lines), next_step, {"processes": rows})


def _program(process: PythonProcess) -> str:
    """The name of its script, module or program; without its arguments and its folder."""
    # A program that has renamed itself has all of its words in the first argument.
    argv = (process.argv[0].split(" ")[0], *process.argv[1:]) if process.argv else ()
    return min(names(argv), key=lambda name: (len(name), name), default="python")


def doctor_answer(diagnosis: Diagnosis) -> Answer:
    """Whether an attach would work. The line about the process is left out: it quotes the arguments of the program."""
    of = "this machine" if diagnosis.pid is None else f"process {diagnosis.pid}"
    checks = [check for check in diagnosis.checks if check.name != "process" or not check.ok]
    lines = [f"heaptop {'can' if diagnosis.attachable else 'cannot'} attach; checked: {of}."]
    for check in checks:
        if check.ok is False or (check.fix and not check.ok):
            state = "no" if check.ok is False else "unknown"
            fix = f"; fix: {quoted(check.fix)}" if check.fix else ""
            lines.append(f"- {check.name}: {state}, {quoted(check.detail)}{fix}")
    error = diagnosis.error
    if error is not None:
        lines.append(f"{type(error).__name__}: {quoted(error.message)}")
    next_step = (
        "hunt_leaks, census or memory_explained."
        if error is None
        else "show the user the fix; do not run commands that change the machine unless they ask for that."
    )
    rows = [{"name": check.name, "ok": check.ok, "detail": check.detail, "fix": check.fix} for check in checks]
    return Answer(tuple(lines), next_step, {"attachable": error is None, "checks": rows})


# -- one answer of a process ----------------------------------------------------------------------------------


def census_answer(pid: int, census: api.CensusTable, top: int) -> Answer:
    """All live objects, the largest rows first."""
    counted = f"{format_count(census.count)} objects, {format_bytes(census.bytes)}"
    filtered = " that pass the filter" if census.where else ""
    lines = [f"Process {pid} has {counted}{filtered}; it was paused for {census.pause * 1e3:.1f} ms. By {census.by}:"]
    shown = census.rows[:top]
    rows = [
        {"name": row.name, "count": row.count, "bytes": row.bytes, "hidden_bytes": row.hidden_bytes} for row in shown
    ]
    lines += [f"- {quoted(row.name)}: {format_count(row.count)}, {format_bytes(row.bytes)}" for row in shown]
    left = len(census.rows) - len(rows)
    if left > 0:
        lines.append(f"{left} more rows.")
    lines += _doubts(census)
    document = {"mode": census.mode, "complete": census.complete, "estimated": census.estimated, "rows": rows}
    next_step = "why with a type that should not be there; hunt_leaks if memory grows; waste to make the heap smaller."
    return Answer(tuple(lines), next_step, document)


def _doubts(census: api.CensusTable) -> list[str]:
    doubts = ["Estimated: the heap changed while it was counted."] if census.estimated else []
    return doubts if census.complete else [*doubts, f"Partial: {quoted(census.cut)}. The true figures are larger."]


def sites_answer(pid: int, sites: Sequence[api.AllocationSite], seconds: float, top: int) -> Answer:
    """Which lines allocated what is live: estimates."""
    lines = [f"Allocations in process {pid} were sampled for {seconds:g} s. Live bytes by line:"]
    shown = [site for site in sites if site.samples][:top]
    for site in shown:
        between = f"{format_bytes(site.low)} to {format_bytes(site.high)}"
        samples = format_number(site.samples, "sample")
        lines.append(f"- {quoted(site.name)}: ≈{format_bytes(site.bytes)} ({between}, {samples})")
    if not shown:
        lines.append("No samples: nothing was sampled that is live; that does not mean that nothing was allocated.")
    older = sum(site.bytes for site in sites if not site.samples)
    if older:
        lines.append(f"≈{format_bytes(older)} are older than the samples: their lines are unknown.")
    rows = [
        {"site": site.name, "bytes": site.bytes, "low": site.low, "high": site.high, "samples": site.samples}
        for site in shown
    ]
    next_step = "read these lines of the source; hunt_leaks tells which of them stays. More seconds give more samples."
    return Answer(tuple(lines), next_step, {"sites": rows, "older_bytes": older})


def hunt_answer(of: str, found: api.Findings) -> Answer:
    """The verdict, and of each suspect type, line and holder."""
    change = f"{format_change(found.count, bytes_=False)} objects, {format_change(found.bytes)}"
    lines = [f"{of}: {_verdict(found.verdict)}. {change} in {found.seconds:.3g} s, {len(found.marks)} checks."]
    suspects = found.suspects[:SUSPECTS]
    for rank, suspect in enumerate(suspects, 1):
        lines += _suspect_lines(rank, suspect)
    lines += [f"Lint {quoted(lint.name, 40)}: {quoted(lint.sentence)}" for lint in found.lints[:SUSPECTS]]
    lines += _notes(found.notes)
    document = {
        "verdict": _verdict(found.verdict),
        "suspects": [_suspect_row(suspect) for suspect in suspects],
        "lints": [{"name": lint.name, "sentence": lint.sentence} for lint in found.lints[:SUSPECTS]],
        "notes": list(found.notes),
    }
    return Answer(tuple(lines), _after_hunt(found), document)


def _notes(notes: Sequence[str]) -> list[str]:
    """What is partial or not known, in sentences that may name what a target chose."""
    return [f"Note: {quoted(note, LONGEST_SENTENCE)}" for note in notes[:NOTES]]


def _verdict(verdict: str) -> str:
    """One of those that there are: a recording can hold any text."""
    return verdict if verdict in VERDICTS else UNCLEAR


def _suspect_lines(rank: int, suspect: Suspect) -> list[str]:
    grown = f"{format_count(suspect.count)} new objects, {format_bytes(suspect.bytes)}, {suspect.rate:.3g}/s"
    if suspect.type == UNREACHED:
        grown = f"≈{format_count(suspect.count)} new blocks, ≈{format_bytes(suspect.bytes)}, ≈{suspect.rate:.3g}/s"
    if suspect.counted != OBJECTS:
        rate = format_bytes(round(suspect.byte_rate))
        grown = f"as many objects as before, {format_bytes(suspect.bytes)} larger, ≈{rate}/s"
    lines = [f"{rank}. {_verdict(suspect.verdict)}: type {quoted(suspect.type)}, {grown}"]
    if _verdict(suspect.verdict) == NO_LEAK:
        return lines
    if suspect.site:
        lines.append(f"   allocated {'at' if suspect.site_is_own else 'near'} {quoted(suspect.site)}")
    if suspect.handlers:
        lines.append(f"   handler {quoted(handler_words(suspect), LONGEST_SENTENCE)}")
    if suspect.retainer:
        lines.append(f"   held by {quoted(suspect.retainer)}")
    return lines + [f"   because {quoted(reason)}" for reason in suspect.evidence[:1]]


def _suspect_row(suspect: Suspect) -> dict[str, Any]:
    return {
        "verdict": _verdict(suspect.verdict),
        "type": suspect.type,
        "count": suspect.count,
        "bytes": suspect.bytes,
        "objects_per_second": suspect.rate if suspect.counted == OBJECTS else 0.0,
        "bytes_per_second": suspect.byte_rate,
        "site": suspect.site,
        "site_is_own": suspect.site_is_own,
        "handlers": [asdict(each) for each in suspect.handlers],
        "stack": list(suspect.stack[:FRAMES]),
        "retainer": suspect.retainer,
        "holder": suspect.holder,
        "path": list(suspect.path[-STEPS:]),
        "evidence": list(suspect.evidence),
    }


def _after_hunt(found: api.Findings) -> str:
    if _verdict(found.verdict) in GROWING and found.suspects[:1] and found.suspects[0].type == UNREACHED:
        return (
            "read the source where suspect 1 is allocated. No live object uses these blocks: C lost a reference, "
            "a buffer of an extension was not freed, or strings were interned. why cannot find them."
        )
    if _verdict(found.verdict) in GROWING:
        return (
            "read the source where suspect 1 is allocated and where its holder is changed, and show the user the line "
            "that adds without ever removing. why with its type has all paths."
        )
    if _verdict(found.verdict) == UNCLEAR:
        return "hunt again for longer (seconds), while the process does the work that makes it grow."
    return (
        "if RSS still grows, memory_explained shows what it is used for; if not, hunt again while the process does the "
        "work that makes it grow."
    )


def why_answer(pid: int, kept: api.KeptBy, top: int) -> Answer:
    """The paths that keep the objects of a type alive."""
    amount = f"{format_count(kept.count)} objects, {format_bytes(kept.bytes)}, retained {format_bytes(kept.retained)}"
    lines = [f"Process {pid}, type {quoted(kept.type)}: {amount}. Kept alive by:"]
    paths = kept.paths[:top]
    for path in paths:
        steps = quoted(_steps(path.steps), LONGEST_SENTENCE)
        lines.append(f"- {format_count(path.count)} objects ({format_bytes(path.bytes)}), root {path.kind}: {steps}")
    if len(kept.paths) > len(paths):
        lines.append("There may be more paths.")
    if not kept.complete:
        lines.append("Partial: not all paths are known.")
    rows = [
        {
            "count": path.count,
            "bytes": path.bytes,
            "retained": path.retained,
            "kind": path.kind,
            "steps": list(path.steps[-STEPS:]),
        }
        for path in paths
    ]
    next_step = "find in the source where the first path's container is filled, and whether anything removes from it."
    return Answer(tuple(lines), next_step, {"complete": kept.complete, "paths": rows})


def _steps(steps: Sequence[str]) -> str:
    """A path on one line; of a long one both ends, since the root and the object matter most."""
    shown = steps if len(steps) <= STEPS else (*steps[:3], "…", *steps[3 - STEPS :])
    return " → ".join(shown)


def memory_answer(pid: int, memory: api.MemoryByUse) -> Answer:
    """What resident memory is used for."""
    rows = sorted(memory.rows, key=lambda row: -row.bytes)
    lines = [f"Process {pid} has {format_bytes(memory.rss)} of resident memory:"]
    for row in rows:
        share = f"{100 * row.bytes / memory.rss:.0f} %" if memory.rss else "?"
        about = "≥" if row.key == "own" else "≈" if row.approximate else ""
        lines.append(f"- {row.name}: {about}{format_bytes(row.bytes)}, {share}. {row.meaning}")
    lines += _notes(memory.notes)
    document = {
        "rss": memory.rss,
        "rows": [{"use": row.name, "bytes": row.bytes, "approximate": row.approximate} for row in rows],
        "notes": list(memory.notes),
    }
    return Answer(tuple(lines), _after_memory(rows[0].key if rows else ""), document)


def _after_memory(largest: str) -> str:
    if largest == "live":
        return "census shows which types are large, hunt_leaks whether they grow, waste what could be saved."
    if largest in ("pools", "free_pools", "malloc_free"):
        return "the memory is free but not returned: find what made the peak, with allocation_sites under load."
    return "most of it is not Python objects: look at extensions, mapped files and threads; census shows the rest."


def waste_answer(pid: int, report: api.WasteReport, heap: int) -> Answer:
    """What memory could be saved, with advice."""
    of_objects = [each for each in report.sorts if each.sort != ARENAS]
    about = "≈" if any(each.sort in ESTIMATED for each in of_objects) else ""
    total = f"{about}{format_bytes(sum(each.own for each in of_objects))} of {format_bytes(heap)}"
    lines = [f"The objects of process {pid} could save {total}, each byte counted once. The largest:"]
    for row in report.rows[:SHOWN]:
        size = ("≈" if row.estimated else "") + format_bytes(row.bytes)
        of = f" of type {quoted(row.type, 80)}" if row.type else ""
        held = f", held by {quoted(row.holder, 80)}" if row.holder else ""
        objects = f" in {format_number(row.count, 'object')}" if row.count else ""
        lines.append(f"- {row.name}: {size}{objects}{of}{held}. {row.advice}")
    if not report.complete:
        lines.append("Partial: not all of the heap was searched.")
    lines += _notes(report.notes)
    rows = [
        {
            "sort": row.sort,
            "bytes": row.bytes,
            "estimated": row.estimated,
            "count": row.count,
            "type": row.type,
            "holder": row.holder,
            "advice": row.advice,
        }
        for row in report.rows
    ]
    next_step = "apply the first advice where the source makes these objects, then measure again; skip small rows."
    return Answer(tuple(lines), next_step, {"total": report.total, "rows": rows, "notes": list(report.notes)})


# -- recordings -----------------------------------------------------------------------------------------------


def recording_answer(name: str, recording: OpenedRecording, top: int) -> Answer:
    """How memory grew, by types and lines, and what the last leak hunt found."""
    last = recording.census()
    begin, rss = utc(recording.begin), (recording.rss(0.0), recording.rss())
    sizes = " to ".join("unknown" if each is None else format_bytes(each) for each in rss)
    lines = [
        f"Recording {quoted(name)} of process {recording.pid}: {recording.seconds:.0f} s from {begin}.",
        f"RSS {sizes}; at the end {format_count(last.count)} objects, {format_bytes(last.bytes)}.",
    ]
    types = [row for row in recording.changes("type") if row.bytes > row.error][:top]
    sites = [row for row in recording.changes("producer") if row.bytes > row.error][:top]
    lines += ["Types that grew most:", *_changed_lines(types)] if types else ["No type grew."]
    if sites:
        lines += ["Lines whose live bytes grew most (estimated):", *_changed_lines(sites)]
    lines += _doubts(last)
    lines += [f"Damaged: {quoted(each)}" for each in recording.damage[:3]]
    hunt = hunt_answer("Its last leak hunt", recording.findings[-1]) if recording.findings else None
    if hunt is not None:
        lines += hunt.lines
    document: dict[str, Any] = {
        "pid": recording.pid,
        "begin": begin,
        "seconds": recording.seconds,
        "rss": list(rss),
        "types": _changed_rows(types),
        "sites": _changed_rows(sites),
        "hunt": hunt.rows if hunt is not None else None,
    }
    next_step = hunt.next if hunt is not None else "diff compares two moments of it, by type, module or producer."
    return Answer(tuple(lines), next_step, document)


def diff_answer(
    by: str, changes: Sequence[api.Changed], top: int, moments: Sequence[api.CensusTable] = ()
) -> Answer:
    """What changed between two moments: what grew most, and what shrank most. ``moments`` are the censuses of both."""
    changed = [row for row in changes if row.bytes or row.count]
    estimated = ", estimated from samples" if by == "producer" else ""
    total = format_change(sum(row.bytes for row in changed))
    grown = [row for row in changed if row.bytes > row.error][:top]
    shrunk = [row for row in reversed(changed) if row.bytes < -row.error][:top]
    lines = [f"{total} in all, by {by}{estimated}. Grown most:", *_changed_lines(grown)]
    if shrunk:
        lines += ["Shrunk most:", *_changed_lines(shrunk)]
    lines += dict.fromkeys(doubt for moment in moments for doubt in _doubts(moment))
    document = {"by": by, "of": len(changed), "grown": _changed_rows(grown), "shrunk": _changed_rows(shrunk)}
    next_step = "read_recording has what leak hunts found; hunt_leaks finds type, line and holder in a live process."
    return Answer(tuple(lines), next_step, document)


def _changed_lines(rows: Iterable[api.Changed]) -> list[str]:
    return [
        f"- {quoted(row.name)}: {format_change(row.bytes)}"
        + (f" ± {format_bytes(row.error)}" if row.error else "")
        + f", {format_change(row.count, bytes_=False)} objects"
        for row in rows
    ]


def _changed_rows(rows: Iterable[api.Changed]) -> list[dict[str, Any]]:
    return [
        {
            "name": row.name,
            "bytes": row.bytes,
            "error_bytes": row.error,
            "count": row.count,
            "bytes_before": row.before.bytes,
            "bytes_after": row.after.bytes,
        }
        for row in rows
    ]
