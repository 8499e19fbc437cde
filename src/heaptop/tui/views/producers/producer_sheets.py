"""What the tables of view 2 look like: columns by width, and how each figure is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from rich.style import Style

from heaptop.analysis.callers.call_paths import Measure
from heaptop.analysis.callers.function_parts import FunctionPart
from heaptop.analysis.callers.producer_table import (
    APPROXIMATE,
    OlderThanSampling,
    ProducerGroup,
    ProducerRow,
    ProducerTables,
)
from heaptop.analysis.samples.estimate import INTERVAL, Estimate, Sums
from heaptop.analysis.samples.producers import Frame, Sites
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sizes import CLASSES
from heaptop.analysis.text.units import format_bytes, format_change, format_count
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.marks import NONE, SHORT_NONE, estimate_text
from heaptop.tui.charts.sparkline import meter, sparkline
from heaptop.tui.state.sheet import WIDE, CellText, Column, Sheet, change_title
from heaptop.tui.views.producers.call_rows import PAGE, CallRow, CallTree, Kind

_TITLES: Final = {
    "site": "Site",
    "function": "Function",
    "module": "Module",
    "chain": "Call stack, innermost first",
    "handler": "Handler of a request, task or thread",
}

_NARROW: Final = {
    "site": ("name", "live", "error", "share", "change", "allocated"),
    "module": ("name", "live", "error", "share", "change", "allocated"),
    "function": ("name", "live", "error", "direct", "allocated", "classes"),
    "chain": ("name", "allocated", "freed", "live", "error", "share"),
    "handler": ("name", "live", "error", "share", "allocated"),
}
_LONG: Final = {
    "site": (
        "name", "live", "error", "range", "count", "share", "bar", "change", "trend", "allocated", "freed", "samples",
    ),
    "function": (
        "name", "live", "error", "range", "share", "bar", "direct", "count", "allocated", "freed", "classes", "samples",
    ),
    "chain": ("name", "allocated", "freed", "live", "error", "range", "count", "share", "bar", "classes", "samples"),
    "handler": ("name", "live", "error", "range", "count", "share", "bar", "allocated", "freed", "samples"),
}  # fmt: skip
_RANKS: Final = {
    name: rank
    for rank, names in enumerate(
        (
            ("range",),
            ("samples", "classes"),
            ("bar", "trend"),
            ("freed", "count"),
            ("share",),
            ("allocated",),
            ("change", "direct"),
            ("error",),
            ("live",),
        )
    )
    for name in names
}
"""What goes first where names would have too little room."""
_SPARK: Final = 16
_PARTS_TITLES: Final = {"size": "By block size", "type": "By type, where known"}


class KnownBlocks(Enum):
    """What is known of the blocks that figures are made of; the columns that cannot be known then."""

    ALL = frozenset[str]()
    LIVE_BLOCKS = frozenset({"allocated", "freed", "classes", "change", "trend"})
    """What lives of them, and is old enough."""
    TRACED = frozenset({"error", "range", "allocated", "freed", "samples"})
    """Figures are tracemalloc's: exact, of objects, and of what lives only."""

    @classmethod
    def of(cls, samples: SampledBlocks) -> KnownBlocks:
        """Of what is summed up."""
        return cls.TRACED if samples.is_traced else cls.LIVE_BLOCKS if samples.only_live else cls.ALL


@dataclass(frozen=True)
class ProducerFacts:
    """What a table is drawn with."""

    key: str
    width: int
    look: ChartStyle
    sort: str = ""
    descending: bool = True
    total: int = 0  # Living bytes of all rows; this and `largest` in the unit of `Sums.bytes`
    largest: int = 0
    approximate: frozenset[int] = frozenset()
    trend: Trend | None = None
    change_ns: int = 0  # How long ago what `trend` begins with was
    nothing: str = ""
    known: KnownBlocks = KnownBlocks.ALL
    place: Callable[[ProducerRow], tuple[str, int, str]] = lambda row: ("", 0, "")
    """File, line and function of a row, in full."""


def whole(value: int) -> int:
    """Bytes or blocks of the unit of ``Sums.bytes``."""
    return Sums.made_of((0, 0, value, 0, 0, 0)).rounded_bytes


def spread(one: Estimate) -> str:
    """``±12%``: the error in parts of the figure; ``exact`` where it is a point."""
    if one.exact:
        return "exact" if one.bytes else ""
    part = one.error / (one.bytes or 1)
    # Never less than it is: what is not exact is not ±0%.
    return f"±{max(part, 0.01):.0%}" if part < 9.995 else "±>999"


def seen(value: int) -> str:
    """Bytes of the unit of ``Sums.bytes``."""
    return format_bytes(whole(value)) if value else NONE


def span(one: Estimate) -> str:
    """``10.1 MiB – 14.2 MiB``."""
    return f"{format_bytes(one.low)} – {format_bytes(one.high)}"


def by_size(parts: Sequence[float], width: int) -> str:
    """``m68 l19 x13``: percent in each size class, the largest first, as many as there is room for."""
    ranked = sorted(zip(parts, CLASSES, strict=False), key=lambda one: -one[0])
    words = [f"{name}{round(part * 100)}" for part, name in ranked if part >= 0.005]
    while len(" ".join(words)) > width:
        words.pop()
    return " ".join(words)


def columns_of(key: str, width: int, known: KnownBlocks = KnownBlocks.ALL) -> tuple[str, ...]:
    """The columns that rows of ``key`` can be sorted by, in their order."""
    return tuple(name for name in _shown(key, width, known) if name not in ("bar", "range", "classes", "trend"))


def _shown(key: str, width: int, known: KnownBlocks) -> tuple[str, ...]:
    names = _LONG["site" if key == "module" else key] if width >= WIDE else _NARROW[key]
    return known_columns(names, known)


def known_columns(names: Sequence[str], known: KnownBlocks) -> tuple[str, ...]:
    """Those of the columns that are known."""
    return tuple(name for name in names if name not in known.value)


def title_of(title: str, known: KnownBlocks) -> str:
    """What is traced is no estimate, and is counted by objects."""
    return title.removeprefix("≈").replace("Blocks", "Objects") if known is KnownBlocks.TRACED else title


def _column(name: str, facts: ProducerFacts) -> Column:
    key, width, known = facts.key, facts.width, facts.known
    if name == "name":
        return Column("name", _TITLES[key], 0, right=False, keep_tail=key in ("site", "module"))
    live = {"function": "Total", "chain": "Kept"}.get(key, "Live")
    title, columns = {
        "live": (live, 10 if width >= WIDE else 9),
        "error": ("±", 5),
        "range": (INTERVAL, 19),
        "count": ("≈Blocks", 8),
        "share": ("≈Share", 7),
        "bar": ("", width // 12),
        "change": (change_title(facts.change_ns, "≈Change "), 12),
        "trend": ("Trend", _SPARK),
        "direct": ("≈Self", 10),
        "allocated": ("≈Alloc'd", 9),
        "freed": ("≈Freed", 10),
        "classes": ("≈% by size", 15 if width >= WIDE else 11),
        "samples": ("Samples", 8),
    }[name]
    return Column(name, title_of(title, known), columns, right=name not in ("bar", "trend"), rank=_RANKS.get(name, 1))


Trend = Callable[[str], tuple[int, ...]]  # What rows held at the last moments, by their keys


def sorted_rows(
    rows: Sequence[ProducerRow], column: str, descending: bool, trend: Trend | None = None
) -> list[ProducerRow]:
    """By a column's figure, or by name; ties by name. What nobody is named for stands last, whatever the order: the
    first row is to name a line. ``trend`` is needed by ``change`` alone."""
    named = [row for row in rows if not isinstance(row, OlderThanSampling)]
    return [*_sorted(named, column, descending, trend), *(row for row in rows if isinstance(row, OlderThanSampling))]


def _sorted(rows: Sequence[ProducerRow], column: str, descending: bool, trend: Trend | None) -> list[ProducerRow]:
    if column == "name":
        return sorted(rows, key=lambda row: row.name, reverse=descending)
    by_name = sorted(rows, key=attrgetter("name"))
    if column == "change":
        return sorted(by_name, key=lambda row: change_of(trend(row.key) if trend else ()), reverse=descending)
    if column in ("live", "share"):
        return sorted(by_name, key=attrgetter("weight"), reverse=descending)
    if column == "error":  # as it is written: in parts of the figure beside it
        return sorted(by_name, key=lambda row: row.figure("error") / (row.weight**2 or 1), reverse=descending)
    return sorted(by_name, key=lambda row: row.figure(column), reverse=descending)


def table_sheet(rows: Sequence[ProducerRow], facts: ProducerFacts) -> Sheet[ProducerRow]:
    """The table of sites, functions, modules, chains or handlers."""
    names = _shown(facts.key, facts.width, facts.known)
    columns = tuple(_column(name, facts) for name in names)

    def draw(row: ProducerRow) -> list[CellText]:
        return [_piece(row, column, facts) for column in columns]

    return Sheet(
        columns=columns,
        rows=rows,
        key=lambda row: row.key,
        draw=draw,
        look=facts.look,
        sort=facts.sort,
        descending=facts.descending,
        nothing=facts.nothing,
        exact=_exact(facts),
    )


def no_site_words(rows: Sequence[ProducerRow], total: int) -> str:
    """``≈63% (no site)``: how much of ``total`` that is, if it is among these rows; empty where it is not."""
    row = next((row for row in rows if isinstance(row, OlderThanSampling)), None)
    if row is None:
        return ""
    share = row.weight / (total or 1)
    return f"{'' if row.live.exact else '≈'}{f'{share:.0%}' if share >= 0.01 else '<1%'} {row.name}"


_EXACT: Final = {
    "live_bytes": "live",
    "live_bytes_low": "low",
    "live_bytes_high": "high",
    "live_blocks": "count",
    "direct_bytes": "direct",
    "allocated_bytes": "allocated",
    "freed_bytes": "freed",
    "samples": "samples",
}
"""Figures of a saved table, and what of a row they are."""


def _exact(facts: ProducerFacts) -> list[tuple[str, Callable[[ProducerRow], str | int]]]:
    """What a saved table has beside: the place in full, and figures as numbers."""
    places = ("file", "line", "function") if facts.key not in ("module", "handler") else ()
    figures = [name for name, part in _EXACT.items() if part != "direct" or facts.key == "function"]
    return [
        *((name, partial(_place_part, facts, place)) for place, name in enumerate(places)),
        *((name, partial(_number, _EXACT[name], facts.known)) for name in figures),
    ]


def _place_part(facts: ProducerFacts, part: int, row: ProducerRow) -> str | int:
    return facts.place(row)[part] or ""


def _number(part: str, known: KnownBlocks, row: ProducerRow) -> str | int:
    """Empty where it is not known, as it is where no sample was seen."""
    if part in ("low", "high"):
        return int(getattr(row.live, part)) if row.live.bytes or known is KnownBlocks.TRACED else ""
    figure = row.figure(part) if part not in known.value else -1
    if figure < 0 or (not figure and part != "samples" and known is not KnownBlocks.TRACED):
        return ""
    return figure if part == "samples" else whole(figure)


def _piece(row: ProducerRow, column: Column, facts: ProducerFacts) -> CellText:
    look, name = facts.look, column.key
    if name == "name":
        return CellText(row.name, Style(dim=isinstance(row, OlderThanSampling)))
    if name == "live":
        if not row.live.bytes:
            nothing = _nothing(facts)
            return CellText(nothing if len(nothing) <= column.width else SHORT_NONE)
        mark = "≈" if isinstance(row, OlderThanSampling) else "?" if _is_approximate(row, facts) else ""
        return CellText(mark + format_bytes(row.live.bytes))
    if name == "error":
        return CellText("" if isinstance(row, OlderThanSampling) and row.live.exact else spread(row.live))
    if name == "range":
        return CellText("" if row.live.exact else span(row.live), Style(dim=True))
    if name == "share":
        return CellText(f"{row.figure('live') / (facts.total or 1):.1%}" if row.figure("live") else "")
    if name == "bar":
        tint = Style.parse(look.palette.band(0))
        share = row.figure("live") / (facts.largest or 1)
        return CellText(meter(share, column.width, ascii_only=look.ascii_only), tint)
    if name in ("change", "trend"):
        return _trend(row, name, facts)
    if name == "classes":
        return CellText(by_size(row.classes, column.width), Style(dim=True))
    figure = row.figure(name)
    if figure < 0:
        return CellText("")
    if name == "samples":
        return CellText(format_count(figure))
    if not figure:
        return CellText("" if name == "count" else _nothing(facts))
    return CellText(format_count(whole(figure)) if name == "count" else format_bytes(whole(figure)))


def _nothing(facts: ProducerFacts) -> str:
    """For no bytes: what is traced is exact."""
    return "0" if facts.known is KnownBlocks.TRACED else NONE


def _is_approximate(row: ProducerRow, facts: ProducerFacts) -> bool:
    return bool(facts.approximate) and row.part_of(facts.approximate) >= APPROXIMATE


def _trend(row: ProducerRow, name: str, facts: ProducerFacts) -> CellText:
    values = facts.trend(row.key) if facts.trend is not None else ()
    if len(values) < 2:
        return CellText("")
    look = facts.look
    if name == "trend":
        return CellText(sparkline(values, _SPARK, ascii_only=look.ascii_only), Style.parse(look.palette.band(0)))
    if isinstance(row, OlderThanSampling):
        return CellText("")
    change = change_of(values)
    if change == 0:
        return CellText("0", Style(dim=True))
    tint = look.palette.shrunk if change < 0 else look.palette.grown
    return CellText(format_change(change), Style.parse(tint))


def change_of(values: Sequence[int]) -> int:
    """Over all of them."""
    return values[-1] - values[0] if values else 0


# -- stacks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StackLine:
    """A line of the list of stacks: a heading, or a frame below it."""

    key: str
    text: str
    frame: Frame | None = None
    is_site: bool = False


def stack_lines(
    stacks: Sequence[ProducerGroup], group: ProducerGroup | None, sites: Sites, known: KnownBlocks = KnownBlocks.ALL
) -> list[StackLine]:
    """Each stack with its figures, and below it its frames, innermost first: of the first :data:`PAGE` stacks."""
    lines = []
    total = group.weight if group is not None else 0
    for number, stack in enumerate(stacks[:PAGE], 1):
        live = stack.live
        traced = known is KnownBlocks.TRACED
        unsure = "" if traced else f" {spread(live)}"
        figures = [f"{format_bytes(live.bytes)}{unsure}, {stack.weight / total:.1%}"] if stack.weight else []
        if traced:
            figures.append(f"{format_count(live.count)} objects")
        else:
            figures.append(f"{estimate_text(live, blocks=True)} blocks live" if live.bytes else NONE)
        if freed := stack.figure("freed"):
            figures.append(f"≈{format_bytes(whole(freed))} freed")
        text = f"Stack {number} of {len(stacks):,}: {', '.join(figures)}"
        lines.append(StackLine(str(stack.stack), text))
        nodes, site = sites.frames(stack.stack), sites.site(stack.stack)
        for place, frame in enumerate(nodes):
            lines.append(StackLine(f"{stack.stack}/{place}", f"    {frame.label}", frame))
        at = next((place for place, frame in enumerate(nodes) if frame == site), None)
        if at is not None:
            at += len(lines) - len(nodes)
            line = lines[at]
            lines[at] = StackLine(line.key, f"  › {line.text.strip()}", line.frame, is_site=True)
    if len(stacks) > PAGE:
        lines.append(StackLine("more", f"{len(stacks) - PAGE:,} smaller stacks are not shown"))
    return lines


def stack_sheet(
    lines: Sequence[StackLine], width: int, look: ChartStyle, source: Callable[[str, int], str]
) -> Sheet[StackLine]:
    """Frames, and beside each its line of source where it can be read."""
    room = width // 2 - 4

    def draw(line: StackLine) -> list[CellText]:
        if line.frame is None:
            return [CellText(line.text, Style(bold=True))]
        text = source(line.frame.file, line.frame.line)
        style = Style(bold=line.is_site, dim=not line.frame.is_user)
        if not text:
            return [CellText(line.text, style)]
        return [CellText(f"{line.text}  {text}" if len(line.text) > room else f"{line.text:<{room}}  {text}", style)]

    return Sheet(
        columns=(Column("name", "Frames, innermost first; › is the site", 0, right=False),),
        rows=lines,
        key=lambda line: line.key,
        draw=draw,
        look=look,
        nothing="No sample here is live.",
        exact=(
            ("file", lambda line: line.frame.file if line.frame is not None else ""),
            ("line", lambda line: line.frame.line if line.frame is not None else ""),
            ("function", lambda line: line.frame.function if line.frame is not None else ""),
        ),
    )


def stack_texts(lines: Sequence[StackLine], place: int) -> list[str]:
    """The whole stack that a line is of."""
    heads = [number for number, line in enumerate(lines) if line.frame is None]
    first = max(number for number in heads if number <= place)
    end = next((number for number in heads if number > first), len(lines))
    return [line.text for line in lines[first:end]]


# -- the tree ------------------------------------------------------------------------------------------------


def tree_columns(width: int, known: KnownBlocks = KnownBlocks.ALL) -> tuple[str, ...]:
    """The columns of the tree."""
    wide = ("error", "range", "count") if width >= WIDE else ()
    return known_columns(("name", "part", "live", *wide, "allocated", "share"), known)


def tree_sheet(
    rows: Sequence[CallRow],
    tree: CallTree,
    tables: ProducerTables,
    width: int,
    look: ChartStyle,
    nothing: str,
    *,
    parts: Sequence[FunctionPart] = (),
    known: KnownBlocks = KnownBlocks.ALL,
    approximate: frozenset[int] = frozenset(),
) -> Sheet[CallRow]:
    """Callers and callees, with the part of the line above on each edge (KPROF, fig. 4), and below them ``parts``.

    Args:
        approximate: the types that free lists hand on.
    """
    names = tree_columns(width, known)
    measure = tree.measure

    def draw(row: CallRow) -> list[CellText]:
        if row.kind in (Kind.TITLE, Kind.MORE):
            return [_heading(row, parts), *[CellText("")] * (len(names) - 1)]
        is_part = row.kind is Kind.PART
        name = CellText(f"      {parts[row.nodes[0]].name}") if is_part else _tree_name(row, tree, tables, look)
        figure, whole = _figure(row, tree, parts), tree.sections[-1]
        figures = {
            "part": _percent(figure(measure), _above(row, tree)),
            "live": ("" if is_part else handed_on(figure, approximate)) + seen(figure("live")),
            "allocated": seen(figure("allocated")),
            "share": _percent(figure(measure), whole.total(0, measure)),
        }
        if width >= WIDE:
            live = _live(row, tree, parts).estimate(whole.missed)
            figures |= {
                "error": spread(live),
                "range": "" if live.exact else span(live),
                "count": format_count(live.count) if live.count else "",
            }
        return [name, *(CellText(figures[each]) for each in names[1:])]

    return Sheet(
        columns=tuple(
            Column(
                name,
                title_of(_TREE_TITLES[name][0], known),
                _TREE_TITLES[name][1],
                right=name != "name",
                rank={"part": 8}.get(name, _RANKS.get(name, 1)),
            )
            for name in names
        ),
        rows=rows,
        key=lambda row: row.key,
        draw=draw,
        look=look,
        sort=measure,
        nothing=nothing,
    )


_TREE_TITLES: Final = {
    "name": ("Function", 0),
    "part": ("≈Part", 6),
    "live": ("≈Live", 9),
    "error": ("±", 5),
    "range": (INTERVAL, 19),
    "count": ("≈Blocks", 8),
    "allocated": ("≈Alloc'd", 9),
    "share": ("≈Share", 7),
}


def _percent(part: int, whole_of_it: int) -> str:
    return f"{part / (whole_of_it or 1):.1%}" if part else ""


def _heading(row: CallRow, parts: Sequence[FunctionPart]) -> CellText:
    if row.kind is Kind.TITLE:
        return CellText(f"  {_PARTS_TITLES[parts[row.nodes[0]].by]}")
    return CellText(f"{'  ' * row.depth}  … {row.more:,} more: Enter shows them")


def _figure(row: CallRow, tree: CallTree, parts: Sequence[FunctionPart]) -> Callable[[Any], int]:
    """Bytes of a line by what is asked, in the unit of ``Sums.bytes``."""
    if row.kind is Kind.PART:
        return parts[row.nodes[0]].amount
    amounts = tree.sections[row.section]
    if row.kind is Kind.OWN:
        return lambda what: sum(amounts.own(node, what) for node in row.nodes)
    return partial(amounts.total, row.nodes[0])


def _live(row: CallRow, tree: CallTree, parts: Sequence[FunctionPart]) -> Sums:
    if row.kind is Kind.PART:
        return parts[row.nodes[0]].live
    amounts = tree.sections[row.section]
    return amounts.own_live(row.nodes) if row.kind is Kind.OWN else amounts.live(row.nodes[:1])


def _above(row: CallRow, tree: CallTree) -> int:
    """Of the line above a line's, likewise."""
    amounts, first = tree.sections[row.section], row.nodes[0]
    if row.kind is Kind.PART:
        first = 0
    return amounts.total(first if row.kind in (Kind.OWN, Kind.PART) else amounts.paths.parents[first], tree.measure)


def handed_on(figure: Callable[[Measure | frozenset[int]], int], types: frozenset[int]) -> str:
    """``?`` where so much of what lives is of these types that its place is approximate.

    Args:
        figure: what is asked for it, as ``Amounts.total`` of a node.
    """
    live = figure("live") if types else 0
    return "?" if live and figure(types) >= APPROXIMATE * live else ""


def _tree_name(row: CallRow, tree: CallTree, tables: ProducerTables, look: ChartStyle) -> CellText:
    indent = "  " * row.depth
    if row.kind is Kind.OWN:
        return CellText(f"{indent}  (self)")
    paths = tree.sections[row.section].paths
    functions = [paths.functions[node] for node in row.nodes]
    closed, opened = ("+ ", "- ") if look.ascii_only else ("▸ ", "▾ ")
    first = indent + {Kind.OPEN: opened, Kind.CLOSED: closed}.get(row.kind, "  ")
    style = Style(dim=not any(map(tables.is_user, functions)))
    calls, file = [*_calls(functions, paths.members, tables)], tables.file(functions[-1])
    file = f" ({file})" if file else ""
    if tree.is_around and row.depth == 0:
        which, none = ("Callers", "Callees")[row.section], ": none" if row.kind is Kind.LEAF else ""
        return CellText(f"{first}{which} of {calls[0]}{file}{none}", style)
    least = 2 if calls[-1].startswith(FOLDED) else 1  # with the user's own function before it
    texts = [calls, *([calls[0], "…", *calls[place:]] for place in range(2, len(calls) - least + 1))]
    if len(calls) > least:
        texts.append([f"… {calls[-least]}", *calls[-least:][1:]])
    names = [first + " › ".join(text) for text in texts]
    return CellText(names[0] + file, style, (*(f"{name}{file}" for name in names[1:]), names[-1]), indent=len(first))


FOLDED: Final = "… "  # What several frames of libraries begin with


def _calls(functions: Sequence[int], members: Mapping[int, Sequence[int]], tables: ProducerTables) -> Iterator[str]:
    """What functions that are one line are called: several of libraries together."""
    for is_library, group in groupby(functions, tables.is_library):
        found = [*group]
        if is_library and len(found) > 1:
            yield f"{FOLDED}{len(found)} library frames"
        else:
            yield from (tables.function(each, members.get(each, ()), with_file=False) for each in found)
