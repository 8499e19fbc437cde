"""What the tables and panes of view 3 look like: columns by width, and how each figure is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final, TypeVar, overload

from rich.style import Style

from heaptop.analysis.filters.attributes import generation_label
from heaptop.analysis.heap.path_words import placed, step_text, step_words, type_name
from heaptop.analysis.snapshot.retaining import (
    FreedIfDropped,
    Measure,
    PathTree,
    RetainerRow,
    TreeRow,
    short_name,
    texts_down,
    unit_text,
)
from heaptop.analysis.text.units import format_bytes, format_count, format_number
from heaptop.protocol.images import KINDS, NO_TYPE, Link, Object, ObjectRow, Place, Unit
from heaptop.protocol.messages import TypeName
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.raster import AXIS, EMPTY, StyleRun
from heaptop.tui.charts.sparkline import meter
from heaptop.tui.state.sheet import CellText, Column, Sheet
from heaptop.tui.text import clip

R = TypeVar("R")
TAGGED: Final = "●"
_RANKS: Final = {
    "bar": 0, "kinds": 1, "kind": 1, "types": 2, "share": 3, "frees": 4, "count": 5, "bytes": 6, "retained": 7,
}  # fmt: skip
"""What goes first where names would have too little room."""
_DIM: Final = Style(dim=True)
_BOLD: Final = Style(bold=True)
_NONE: Final = CellText("")


@dataclass(frozen=True)
class RetainerFacts:
    """What a table is drawn with."""

    width: int
    look: ChartStyle
    types: Sequence[TypeName] = ()
    sort: str = ""
    descending: bool = True
    nothing: str = ""
    tagged: frozenset[int] = frozenset()
    wide: bool = False
    site: Callable[[int], str] = lambda stack: ""  # Of a stack; empty where it is not known

    def mark(self, address: int) -> str:
        return f"{TAGGED} " if address in self.tagged else ""


def _percent(part: float) -> str:
    return f"{part:.1%}" if part < 0.9995 else "100%"


# -- rows by type, kind, retainer set ------------------------------------------------------------------------

ROW_COLUMNS: Final = {
    "type": ("name", "kinds", "count", "bytes", "share", "bar", "retained"),
    "kind": ("name", "count", "bytes", "share", "bar", "types"),
    "retainers": ("name", "count", "bytes", "share", "bar", "types"),
    "site": ("name", "count", "bytes", "share", "bar"),
}
_TITLES: Final = {"type": "Type", "kind": "Kind of root", "retainers": "Retainers", "site": "Allocated at"}


def row_columns(key: str) -> tuple[str, ...]:
    """The columns that rows can be sorted by."""
    return tuple(name for name in ROW_COLUMNS[key] if name not in ("bar", "types", "kinds"))


def row_sheet(rows: Sequence[RetainerRow], key: str, facts: RetainerFacts) -> Sheet[RetainerRow]:
    """The table of rows that are distinguished by ``key``."""
    names = [name for name in ROW_COLUMNS[key] if facts.wide or name not in ("bar", "types")]
    widths = {
        "name": (_TITLES[key], 0),
        "kinds": ("Kind", 24 if facts.wide else 9),
        "count": ("Sampled" if key == "site" else "Objects", 8),
        "bytes": ("≈ bytes" if key == "site" else "Own bytes", 9),
        "retained": ("Retained", 9),
        "share": ("Share", 6),
        "bar": ("", facts.width // 12),
        "types": ("Largest types", facts.width // 4),
    }
    total = sum(row.bytes for row in rows) or 1
    largest = max((row.bytes for row in rows), default=0) or 1
    tint = Style.parse(facts.look.palette.band(0))

    def draw(row: RetainerRow) -> list[CellText]:
        if row.left_out:
            return [CellText(facts.mark(row.units[0].address) + row.name, _DIM), *[_NONE] * (len(names) - 1)]
        mark = facts.mark(row.units[0].address) if len(row.units) == 1 else ""
        pieces = {
            "name": CellText(mark + row.name, Style(dim=row.rest), (mark + row.short,) if row.short else ()),
            "kinds": CellText(_several(row.kinds), _DIM, (_several(row.kinds, short=True),)),
            "count": CellText(format_count(row.count) if row.count else ""),
            "bytes": CellText(format_bytes(row.bytes)),
            "retained": CellText(format_bytes(row.retained)),
            "share": CellText(_percent(row.bytes / total)),
            "bar": CellText(meter(row.bytes / largest, facts.width // 12, ascii_only=facts.look.ascii_only), tint),
            "types": CellText(", ".join(short_name(name) for name, _ in row.types[:6]), _DIM),
        }
        return [pieces[name] for name in names]

    columns = _columns(names, widths, keep_tail=key != "kind")
    exact: list[tuple[str, Callable[[RetainerRow], str | int]]] = [
        ("objects", lambda row: row.count if not row.left_out else ""),
        ("own_bytes", lambda row: row.bytes if not row.left_out else ""),
    ]
    if "retained" in ROW_COLUMNS[key]:
        exact.append(("retained_bytes", lambda row: row.retained))
    if "types" in ROW_COLUMNS[key]:
        exact.append(("types", lambda row: ", ".join(name for name, _ in row.types)))
    if key == "retainers":
        exact += _exact_place(lambda row: row.units[0].place if len(row.units) == 1 else None)
    return Sheet(
        columns, rows, lambda row: row.key, draw, facts.look, facts.sort, facts.descending, facts.nothing, exact
    )  # fmt: skip


def _columns(names: Sequence[str], widths: Mapping[str, tuple[str, int]], *, keep_tail: bool) -> tuple[Column, ...]:
    """``keep_tail``: of names that are too long, show the end."""
    left = ("name", "kinds", "kind", "bar", "types")
    return tuple(
        Column(name, *widths[name], name not in left, keep_tail and name == "name", _RANKS.get(name, 1))
        for name in names
    )


def _exact_place(place: Callable[[R], Place | None]) -> list[tuple[str, Callable[[R], str | int]]]:
    """Of a saved table: where the frame of a row is, in full."""

    def part(name: str) -> Callable[[R], str | int]:
        return lambda row: getattr(place(row), name, "") or ""

    return [("frame_file", part("file")), ("frame_line", part("line")), ("frame_thread", part("thread"))]


def _several(parts: Sequence[tuple[str, int]], *, short: bool = False) -> str:
    """``module and 3 other kinds``; ``module +3`` where there is no room for that."""
    if len(parts) < 2:
        return parts[0][0] if parts else ""
    others = len(parts) - 1
    return f"{parts[0][0]} +{others}" if short else f"{parts[0][0]} and {others} other kind{'s' * (others > 1)}"


def unit_sheet(units: Sequence[Unit], drop: FreedIfDropped | None, facts: RetainerFacts) -> Sheet[Unit]:
    """The members of a retainer set, and what would go with each alone."""

    def draw(unit: Unit) -> list[CellText]:
        alone = drop.alone.get(unit.address) if drop is not None and not unit.several else None
        frees = f"{format_bytes(alone[1])}" if alone is not None else ""
        mark = facts.mark(unit.address)
        name = CellText(mark + unit_text(unit), shorter=(mark + unit.label,))
        return [name, CellText(KINDS[unit.kind], _DIM), CellText(frees)]

    columns = (
        Column("name", "Retainer", 0, right=False, keep_tail=True),
        Column("kind", "Kind", 11, right=False),
        Column("frees", "Frees", 9),
    )
    return Sheet(columns, units, lambda unit: f"{unit.label}#{unit.address}", draw, facts.look, nothing=facts.nothing)


# -- the tree ------------------------------------------------------------------------------------------------


def tree_columns(*, by_retained: bool) -> tuple[str, ...]:
    """The columns that the tree can be sorted by; what everything retains is always all."""
    return ("count", "bytes", "retained") if by_retained else ("count", "bytes")


def tree_sheet(
    rows: Sequence[TreeRow],
    tree: PathTree | None,
    steps: Mapping[int, ObjectRow],
    measure: Measure,
    facts: RetainerFacts,
    *,
    by_retained: bool,
    as_list: bool,
) -> Sheet[TreeRow]:
    """Paths, from the root down or each in one line.

    Args:
        steps: the objects that steps lead to, by address, as far as they are known.
    """
    narrow = ("name", "count", measure, "share", *([] if as_list else ["frees"]))
    wide = ("name", "count", "bytes", *(["retained"] if by_retained else []), "share", "bar", "frees", "kind")
    names = wide if facts.wide else narrow
    widths = {
        "name": ("What keeps it" if not as_list else "Path", 0),
        "count": ("Objects", 8),
        "bytes": ("Own bytes", 9),
        "retained": ("Retained", 10),
        "share": ("Share", 6),
        "bar": ("", facts.width // 16),
        "frees": ("Frees", 10),
        "kind": ("Kind", 11),
    }
    tint = Style.parse(facts.look.palette.band(0))

    def draw(row: TreeRow) -> list[CellText]:
        node = row.node
        if tree is None or row.what == "rest":
            return _rest(tree, names)
        share = tree.share(node, measure)
        exact = "" if tree.is_exact(node) else "≤"
        pieces = {
            "name": _list_name(row, facts) if as_list else _tree_name(row, facts),
            "count": CellText(format_count(node.count)),
            "bytes": CellText(format_bytes(node.bytes)),
            "retained": CellText(exact + format_bytes(tree.most(node))),
            "share": CellText((exact if measure == "retained" else "") + _percent(share)),
            "bar": CellText(meter(share, facts.width // 16, ascii_only=facts.look.ascii_only), tint),
            "frees": CellText(format_bytes(steps[node.address].retained) if node.address in steps else ""),
            "kind": CellText(KINDS[node.kind], _DIM),
        }
        return [pieces[name] for name in names]

    return Sheet(
        _columns(names, widths, keep_tail=as_list), rows, lambda row: row.key, draw, facts.look,
        measure, facts.descending, facts.nothing, _exact_paths(tree),
    )  # fmt: skip


def _exact_paths(tree: PathTree | None) -> list[tuple[str, Callable[[TreeRow], str | int]]]:
    """Of a saved tree: its figures as numbers."""

    def place(row: TreeRow) -> Place | None:
        return row.node.place

    return [
        ("path", lambda row: row.node.text),
        ("type", lambda row: row.node.type),
        ("objects", lambda row: row.node.count if tree is None or row.what != "rest" else tree.other[0]),
        ("own_bytes", lambda row: row.node.bytes if tree is None or row.what != "rest" else tree.other[1]),
        ("retained_bytes_at_most", lambda row: tree.most(row.node) if tree is not None and row.what != "rest" else ""),
        *_exact_place(place),
    ]


def _rest(tree: PathTree | None, names: Sequence[str]) -> list[CellText]:
    if tree is None:
        return [_NONE] * len(names)
    count, size = tree.other
    number = tree.answer.other_groups
    known = {
        "name": CellText(f"… {number:,} other path{'s' * (number != 1)}: Enter shows more"),
        "count": CellText(format_count(count)),
        "bytes": CellText(format_bytes(size)),
    }
    return [known.get(name, _NONE) for name in names]


def _tree_name(row: TreeRow, facts: RetainerFacts) -> CellText:
    node, indent = row.node, "  " * row.depth
    if row.what == "own":
        return CellText(f"{indent}  ({'itself' if node.count == 1 else 'these'})", _DIM)
    first = indent + {"open": "▾ ", "closed": "▸ "}.get(row.what, "  ")
    mark, times = facts.mark(node.address), " ×n" if node.repeated else ""
    kind = f"  {short_name(node.type)}" if node.type != "module" else ""
    passed = "".join(f"{step.label} " for step in row.folded)
    full, label = (f"{first}{mark}{passed}{text}{times}" for text in (placed(node.label, node.place), node.label))
    return CellText(f"{full}{kind}".rstrip(), shorter=(f"{label}{kind}".rstrip(), label), indent=len(first))


def _list_name(row: TreeRow, facts: RetainerFacts) -> CellText:
    node = row.node
    first = node.groups[0].steps[:1] if node.groups else ()
    mark, kind = facts.mark(node.address), short_name(node.type)
    full = placed(node.text, first[0].place if first else None)
    return CellText(f"{mark}{full}  {kind}", shorter=(f"{mark}{node.text}  {kind}",))


# -- objects -------------------------------------------------------------------------------------------------

PAGE: Final = 200  # Objects that are asked for at once


@dataclass(frozen=True)
class ObjectPages(Sequence["ObjectRow | None"]):
    """A list of objects of which some pages are known: None for those of the others."""

    total: int
    pages: Mapping[int, Sequence[ObjectRow]]  # By number, from 0; each of PAGE rows but the last

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, place: int) -> ObjectRow | None: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ObjectRow | None]: ...
    def __getitem__(self, place: int | slice) -> ObjectRow | Sequence[ObjectRow | None] | None:
        if isinstance(place, slice):
            return [self._at(each) for each in range(*place.indices(self.total))]
        if not -self.total <= place < self.total:
            raise IndexError(place)
        return self._at(place % self.total)

    def _at(self, place: int) -> ObjectRow | None:
        page = self.pages.get(place // PAGE, ())
        return page[place % PAGE] if place % PAGE < len(page) else None


def object_sheet(rows: Sequence[ObjectRow | None], facts: RetainerFacts) -> Sheet[ObjectRow | None]:
    """Objects, largest first."""
    names = ("name", "length", "size", "retained", "generation") + (("kind", "producer") if facts.wide else ())
    widths = {
        "name": ("Object", 0),
        "length": ("Length", 8),
        "size": ("Own bytes", 9),
        "retained": ("Retained", 9),
        "generation": ("Age", 9),
        "kind": ("Kind", 11),
        "producer": ("Allocated at", facts.width // 4),
    }

    def draw(row: ObjectRow | None) -> list[CellText]:
        if row is None:
            return [CellText("…", _DIM), *[_NONE] * (len(names) - 1)]
        pieces = {
            "name": CellText(f"{facts.mark(row.address)}{type_name(facts.types, row.type)} {row.address:#x}"),
            "length": CellText(format_count(row.length) if row.length >= 0 else ""),
            "size": CellText(format_bytes(row.size)),
            "retained": CellText(format_bytes(row.retained)),
            "generation": CellText(generation_label(row.generation), _DIM),
            "kind": CellText(KINDS[row.kind], _DIM),
            "producer": CellText(facts.site(row.stack), _DIM),
        }
        return [pieces[name] for name in names]

    columns = tuple(
        Column(
            name, *widths[name], right=name in ("length", "size", "retained"), keep_tail=name in ("name", "producer")
        )
        for name in names
    )
    return Sheet(
        columns,
        rows,
        lambda row: hex(row.address) if row is not None else "",
        draw,
        facts.look,
        "retained",
        nothing=facts.nothing,
    )


# -- one object ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectLine:
    """A line of what is around one object: a heading, or something that can be examined next."""

    key: str
    text: str
    address: int = 0
    type: int = NO_TYPE
    size: int = -1
    retained: int = -1
    what: str = ""  # `heading`, `step`, `link`; `below` for what would go with it, `more` for links that are not shown
    name: str = ""  # Of a step: what names it as a retainer
    kind: int = 0
    place: Place | None = None  # Of a step or a link that is a frame's
    short: str = ""  # The text without where the frame is


ALONE: Final = "Several objects or a root keep it"
ALONE_SHORT: Final = "Several keep it, or a root"


def object_lines(
    found: Object, frees: Mapping[int, ObjectRow], dominator: Object | None, most: int
) -> list[ObjectLine]:
    """The path to it, whom it goes with, what goes with it, who refers to it, and to what it refers.

    Args:
        most: links of each sort that can be shown.
    """
    lines = [ObjectLine("path", f"Path from the root, {format_number(len(found.path), 'step')}", what="heading")]
    for place, (step, name) in enumerate(zip(found.path, texts_down(found.path), strict=True)):
        known = frees.get(step.address)
        size, retained = (known.size, known.retained) if known is not None else (-1, -1)
        text, short = ("  " * min(place, 8) + words(step) for words in (step_text, step_words))
        what = "step", name, found.row.kind, step.place, short
        lines.append(ObjectLine(f"path/{place}", text, step.address, step.type, size, retained, *what))
    words, short = ("Kept only through", "") if found.dominator else (ALONE, ALONE_SHORT)
    lines.append(ObjectLine("dominator", words, what="heading", short=short))
    if found.dominator:
        above = dominator.row if dominator is not None else None
        label = _way(dominator) if dominator is not None else hex(found.dominator)
        figures = (above.type, above.size, above.retained) if above is not None else (NO_TYPE, -1, -1)
        lines.append(ObjectLine("dominator/0", label, found.dominator, *figures, what="link"))
    row = found.row
    if row.retained > row.size:
        text = "▸ What it alone keeps"
        lines.append(ObjectLine("below", text, size=row.retained - row.size, what="below"))
    lines += _links("Referrers", found.referrers, found.referrer_count, most)
    lines += _links("Referents", found.referents, found.referent_count, most)
    return lines


def _way(found: Object) -> str:
    """The last steps to it: those before are on the path above."""
    labels = [placed(step.label, step.place) for step in found.path if step.label]
    return " ".join(["…", *labels[-2:]] if len(labels) > 3 else labels)


def _links(title: str, links: Sequence[Link], count: int, most: int) -> list[ObjectLine]:
    first = f", the first {len(links):,}" if len(links) < count else ""
    lines = [ObjectLine(title, f"{title}: {format_count(count)}{first}", what="heading")]
    for place, link in enumerate(links):
        text = placed(link.label, link.place) or "(its own)"
        figures = link.address, link.type, link.size, link.retained
        lines.append(ObjectLine(f"{title}/{place}", text, *figures, "link", place=link.place, short=link.label))
    if len(links) < count:
        then = ": Enter" if len(links) < most else " are not shown"
        lines.append(ObjectLine(f"{title}/more", f"… {count - len(links):,} more{then}", what="more"))
    return lines


def line_sheet(lines: Sequence[ObjectLine], facts: RetainerFacts) -> Sheet[ObjectLine]:
    """What is around one object."""

    def draw(line: ObjectLine) -> list[CellText]:
        if line.what in ("heading", "more", "below"):
            style = Style.null() if line.what == "more" else _BOLD
            size = CellText(format_bytes(line.size)) if line.what == "below" else _NONE
            text = CellText(line.text, style, (line.short,) if line.short else ())
            return [text, _NONE, size, *[_NONE] * (len(columns) - 3)]
        kind = type_name(facts.types, line.type) if line.type != NO_TYPE or not line.address else ""
        mark = facts.mark(line.address) or "  "
        indent = len(mark) + len(line.text) - len(line.text.lstrip())
        pieces = [
            CellText(mark + line.text, shorter=(mark + line.short,) if line.short else (), indent=indent),
            CellText(kind, _DIM),
            CellText(format_bytes(line.size) if line.size >= 0 else ""),
            CellText(format_bytes(line.retained) if line.retained >= 0 else ""),
        ]
        return [*pieces, CellText(hex(line.address) if line.address else "", _DIM)] if facts.wide else pieces

    columns = [
        Column("name", "", 0, right=False),
        Column("type", "Type", 28 if facts.wide else 22, right=False, keep_tail=True),
        Column("size", "Own bytes", 9),
        Column("retained", "Retained", 9),
    ]
    if facts.wide:
        columns.append(Column("address", "Address", 18, right=False))
    return Sheet(tuple(columns), lines, lambda line: line.key, draw, facts.look, nothing=facts.nothing)


@dataclass(frozen=True)
class Card:
    """One object in a pane."""

    found: Object
    types: Sequence[TypeName]
    producer: str = ""  # Its stack's site; empty where it was not sampled
    with_path: bool = False  # The path is not shown elsewhere

    @property
    def lines(self) -> list[tuple[str, int]]:
        """Texts, and whether one is worth more or less than others: INK of the raster."""
        found, row = self.found, self.found.row
        length = f" · length {format_count(row.length)}" if row.length >= 0 else ""
        age = generation_label(row.generation)
        lines = [
            (f"{type_name(self.types, row.type)} at {row.address:#x}", EMPTY),
            (f"own {format_bytes(row.size)} · retains {format_bytes(row.retained)}{length} · {age}", EMPTY),
        ]
        if found.preview:
            lines.insert(1, (found.preview, EMPTY))
        by = f"allocated at {self.producer}" if self.producer else "not sampled"
        lines.append((f"kind {KINDS[row.kind]} · {by}", AXIS))
        if found.surplus > 0:
            n = found.surplus
            lines.append((f"{n} reference{'s' * (n != 1)} from outside the heap: C code may hold it", AXIS))
        if self.with_path:
            lines += [("", EMPTY), ("Path from the root", AXIS)]
            lines += [
                (f"{'  ' * min(place, 10)}{step_text(step)}", EMPTY)
                for place, step in enumerate(found.path)
                if step.label
            ]
            lines.append(("", EMPTY))
            links = (found.referrer_count, "referrer"), (found.referent_count, "referent")
            lines.append((", ".join(format_number(*link) for link in links), AXIS))
        return lines


def card_rows(card: Card, width: int, look: ChartStyle) -> list[list[StyleRun]]:
    """The card as rows of a picture, none wider than it."""
    return [[StyleRun(look.text(clip(f" {text}", max(width - 1, 1))), fg, EMPTY)] for text, fg in card.lines]


def text_rows(text: str, width: int, look: ChartStyle) -> list[list[StyleRun]]:
    """A text as rows of a picture, none wider than it."""
    return [[StyleRun(look.text(f" {line}"), AXIS, EMPTY)] for line in wrap(text, max(width - 2, 8))]


def place_rows(place: Place, width: int, look: ChartStyle) -> list[list[StyleRun]]:
    """Where a frame is, in full: beside a table that may have no room for it."""
    line = f":{place.line}" if place.line else ""
    thread = f", thread {place.thread}" if place.thread else ""
    return text_rows(f"the call is now at {place.file}{line}{thread}", width, look)


def drop_rows(
    names: Mapping[int, str], drop: FreedIfDropped | None, room: int, width: int, look: ChartStyle
) -> list[list[StyleRun]]:
    """What was tagged, and what would go with it, in at most ``room`` rows."""
    words = drop.words if drop is not None else "reading what would be freed with it…"
    texts = [(f" {TAGGED} {len(names)} tagged: {words}", EMPTY)]
    shown = list(names.items())
    most = max(room - 1, 1)
    for address, name in shown if len(shown) <= most else shown[: most - 1]:
        alone = drop.alone.get(address) if drop is not None else None
        frees = f"alone {format_bytes(alone[1])}" if alone is not None else ""
        left = clip(name, max(width - 24, 8), keep_tail=True)
        texts.append((f"   {left:<{max(width - 24, 8)}} {frees:>18}", AXIS))
    if len(shown) > most:
        texts.append((f"   and {len(shown) - most + 1} more", AXIS))
    return [[StyleRun(look.text(clip(text, width)), fg, EMPTY)] for text, fg in texts]
