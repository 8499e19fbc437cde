"""Takes one census from a source and prints it: what ``heaptop census`` does once its arguments are read.

This module never reads the command line and never attaches by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from heaptop.analysis.bands.report import attach_pause_ns, census_json, census_rows, longest_pause_ns
from heaptop.analysis.bands.table import TableRow
from heaptop.analysis.filters.attributes import BandKey
from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.heap.history import Amount
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.units import filtered_words, format_bytes, format_count, format_duration_ns, format_share
from heaptop.choices import TIMEOUT
from heaptop.cli.terminal import ProgressLine, table
from heaptop.protocol.messages import Census
from heaptop.protocol.source import Source
from heaptop.watching.source_watch import CensusResult, SourceWatch

if TYPE_CHECKING:
    from heaptop.documents import CensusJson


def take_census(
    source: Source,
    progress: ProgressLine,
    *,
    memory: bool = False,
    sampling: Sampling | None = None,
    seconds: float = 0.0,
    timeout: float = TIMEOUT,
) -> CensusResult:
    """Attach, wait for the first census, and for what memory is used for if that is requested, then detach.

    With ``sampling`` allocations are sampled into it for so many ``seconds``, and the census is made after that.

    ``timeout`` is in seconds, as :class:`~heaptop.watching.source_watch.SourceWatch` has it.

    Errors: as :class:`~heaptop.watching.source_watch.SourceWatch`; SamplerRefused.
    """
    with SourceWatch(source, progress, sampling, timeout=timeout) as watch:
        taken = watch.census()
        if sampling is not None:
            watch.sample(seconds)
            taken = watch.census()
        return replace(taken, memory=watch.memory()) if memory else taken


def as_json(taken: CensusResult, by: BandKey, where: Filter, top: int | None) -> CensusJson:
    """The document of ``--json``, with at most ``top`` rows (all for None)."""
    target, hello = taken.attached.target, taken.attached.hello
    stopped = taken.attached.stopped_ns
    return census_json(
        taken.record, pid=target.pid, python=hello.python, by=by.name, where=where, top=top, stopped_ns=stopped
    )


def as_lines(taken: CensusResult, by: BandKey, where: Filter, top: int | None) -> list[str]:
    """A table of at most ``top`` rows (all for None), its total, and what the figures are worth."""
    rows = census_rows(taken.record, by.name, where)
    whole = census_rows(taken.record, by.name) if where else rows
    shown, rest = rows[:top], rows[top:] if top is not None else ()
    everything = _sum(rows)
    lines = [(row.name, [row]) for row in shown]
    if rest:
        lines.append((f"({len(rest)} more)", list(rest)))
    lines.append(("total", list(rows)))
    cells = []
    for name, summed in lines:
        amount = _sum(summed)
        about = "≈" if any(row.guessed for row in summed) else ""
        size = about + format_bytes(amount.bytes)
        cells.append((format_count(amount.count), size, format_share(amount.bytes, everything.bytes), name))
    header = ("OBJECTS", "SIZE", "SHARE", by.title.upper())
    hidden = sum(row.hidden for row in rows)
    said = filtered_words(len(whole) - len(rows), _sum(whole).bytes - everything.bytes)
    return [*table(header, cells, left=frozenset({3})), "", *census_notices(taken, where, hidden, said)]


def _sum(rows: Sequence[TableRow]) -> Amount:
    return Amount(sum(row.count or 0 for row in rows), sum(row.bytes for row in rows))


def _cost(census: Census, stopped_ns: int) -> str:
    """What the process and heaptop spent on it: of a file that is known in part, and for a core file nothing stood
    still."""
    took = f"took {format_duration_ns(census.duration_ns)}"
    if not census.pause_ns:
        return f"counted in a file, {took}"
    pause = f"longest pause {format_duration_ns(longest_pause_ns(census, stopped_ns))}"
    if census.pauses is not None:
        attach = format_duration_ns(attach_pause_ns(census, stopped_ns))
        pause += f" (attach {attach}, census {format_duration_ns(census.pause_ns)})"
    if census.agent_bytes:
        took += f" and {format_duration_ns(census.cpu_ns)} of CPU, agent {format_bytes(census.agent_bytes)}"
    return f"mode {census.mode}, {pause}, {took}"


def census_notices(taken: CensusResult, where: Filter, hidden: int, filtered: str = "") -> list[str]:
    """Whose census it is, what it cost, and what its figures are worth; ``hidden`` is in bytes, ``filtered`` says what
    the filter leaves out."""
    census, target = taken.record.census, taken.attached.target
    notices = [f"{target.command} (pid {target.pid}, Python {taken.attached.hello.python})"]
    if where:
        notices.append(f"only {where}: {filtered}")
    notices.append(_cost(census, taken.attached.stopped_ns))
    if census.mode_reason:
        notices.append(f"no better mode: {census.mode_reason}")
    if not census.complete:
        notices.append(f"partial: {census.cut}")
    if census.mode == "python":
        notices.append("estimated: counted in slices while the program ran and its heap changed")
    if census.sizeof_guessed:
        notices.append(
            f"{format_count(census.sizeof_guessed)} objects have a __sizeof__ that heaptop does not call, such as "
            "those written in Python: their basic size is used (≈)"
        )
    if census.owned:
        mapped = f", {format_bytes(census.mapped)} of it mapped" if census.mapped else ""
        notices.append(
            f"included: {format_bytes(census.owned)} that objects own natively, beyond sys.getsizeof{mapped}"
        )
    if census.at_least:
        notices.append(
            f"{format_count(census.at_least)} objects own memory of a C library, and its size is unknown: "
            "at least what is shown (≈)"
        )
    if hidden:
        notices.append(
            f"not included: {format_bytes(hidden)} of attributes stored without a dict, which sys.getsizeof leaves out"
        )
    return notices
