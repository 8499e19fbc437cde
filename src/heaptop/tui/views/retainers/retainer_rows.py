"""What a row of view 3 represents, and what it opens. Nothing is queried or drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heaptop.analysis.filters.kept_samples import MOST_ASKED
from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.snapshot.retaining import Measure, RetainerRow, TreeRow, names_only, opened_below
from heaptop.protocol.images import NO_TYPE, ObjectRow, Place, Unit
from heaptop.protocol.messages import TypeName
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.views.retainers.retainer_finder import Finder
from heaptop.tui.views.retainers.retainer_levels import MOST_LINKS, MOST_PATHS, ExpandedNodes, RetainersLevel
from heaptop.tui.views.retainers.retainer_sheets import ObjectLine

# -- what it represents --------------------------------------------------------------------------------------


def named(row: object) -> tuple[str, int]:
    """The name and the address of the one object that a row represents; 0 where there is none."""
    if isinstance(row, RetainerRow):
        row = row.units[0] if len(row.units) == 1 else None
    match row:
        case Unit():
            return row.label, 0 if row.several else row.address
        case TreeRow():
            return row.node.text, row.node.address
        case ObjectLine():
            return row.name or row.text.strip(), row.address
        case ObjectRow():
            return "", row.address
    return "", 0


def tag_of(row: object, types: Sequence[TypeName]) -> str:
    """What it is called among what is tagged."""
    name, address = named(row)
    if isinstance(row, ObjectRow | ObjectLine) and row.type != NO_TYPE:
        return f"{name}  {type_name(types, row.type)} {address:#x}".strip()
    return name


def example_of(row: object) -> int:
    """The address of the object that a row represents, or of one of its objects; 0 where there is none."""
    if isinstance(row, TreeRow) and row.node.ends and not row.node.address:
        return row.node.ends[0].example
    return named(row)[1]


def place_of(row: object) -> Place | None:
    """Where its frame is."""
    return row.node.place if isinstance(row, TreeRow) else row.place if isinstance(row, ObjectLine) else None


def path_of(row: object) -> str:
    """The path from the root on; empty where it has none."""
    if isinstance(row, TreeRow):
        return row.node.text if row.what != "rest" else ""
    return row.name if isinstance(row, ObjectLine) and row.what == "step" else ""


def retainer_of(row: object) -> tuple[str, int] | None:
    """Label and address of what can be excluded from retainer sets; None where nothing can be."""
    if isinstance(row, ObjectRow) or (isinstance(row, ObjectLine) and row.what != "step"):
        return None
    label, address = named(row)
    units = row.units if isinstance(row, RetainerRow) else (row,)
    if len(units) == 1 and isinstance(units[0], Unit):
        address = units[0].address  # of several that read alike too: all are meant
    return label, address


def subject_of(row: object, level: RetainersLevel, types: Sequence[TypeName]) -> QuerySubject | None:
    """The objects of which one may ask what keeps them alive; None where there are none."""
    match row:
        case RetainerRow() if level.what == "rows" and level.table == "type":
            return replace(level.subject, title=row.name, types=(row.name,))
        case RetainerRow() if level.key == "site":
            return _of_site(row, level)
        case ObjectRow() | ObjectLine() if row.type != NO_TYPE:
            name = type_name(types, row.type)
            return QuerySubject(name, types=(name,))
    name, address = named(row)
    return QuerySubject(name, address=address) if address else None


def _of_site(row: RetainerRow, level: RetainersLevel) -> QuerySubject | None:
    """What the site has allocated, of what is looked into; of the stacks that more was allocated by, where there are
    more than one question has room for."""
    if not row.stacks:
        return None
    return replace(level.subject, title=row.name, stacks=row.stacks[:MOST_ASKED])


# -- what it opens -------------------------------------------------------------------------------------------


def shown_more(row: object, level: RetainersLevel, measure: Measure) -> RetainersLevel | None:
    """The level with what is below a row shown, or no longer; None where that is no matter of this row."""
    match row:
        case TreeRow(what="rest") if level.paths < MOST_PATHS:
            return replace(level, paths=MOST_PATHS)
        case TreeRow(what="open"):
            level.expanded.open.discard(row.node.key)
            return level
        case TreeRow(what="closed"):
            level.expanded.open.update(opened_below(row.node, measure))
            return level
        case ObjectLine(what="more") if level.links < MOST_LINKS:
            return replace(level, links=MOST_LINKS)
    return None


def level_inside(row: object, level: RetainersLevel, finder: Finder) -> RetainersLevel | str | None:
    """The level that a row opens; what to answer where it does not, and None where nothing is to be expected of it."""
    match row:
        case RetainerRow():
            return _inside_row(row, level, finder)
        case Unit():
            return _inside_retainer(row, level, finder)
        case TreeRow(what="rest"):
            return f"the {MOST_PATHS:,} largest paths are shown; filter for others"
        case TreeRow():
            keys = tuple(group.key for group in row.node.ends)
            return replace(level, what="objects", path=keys, title=row.node.text, image=finder.image)
        case ObjectLine(what="below"):
            title = f"what {level.title} retains"
            return RetainersLevel(key="type", below=(level.address,), title=title, image=level.image)
        case ObjectLine(what="more"):
            return f"no more than {MOST_LINKS:,} are shown"
        case ObjectLine() if not row.address or row.address == level.address:
            return None
        case ObjectLine() | ObjectRow():
            return RetainersLevel.of_object(row.address, finder.image)
    return None


def _inside_row(row: RetainerRow, level: RetainersLevel, finder: Finder) -> RetainersLevel | str | None:
    if row.left_out or row.rest:
        return None
    if level.key == "retainers":
        return _inside_set(row, level, finder)
    inner = replace(_paths(level), where=names_only(level.where), title=row.name)
    if level.key == "kind":
        return replace(inner, kinds=(row.kind,), title=f"kind {row.key}")
    if level.key == "site":
        subject = _of_site(row, level)
        return replace(inner, subject=subject) if subject is not None else None
    return replace(inner, subject=replace(level.subject, title=row.name, types=(row.name,)))


def _inside_set(row: RetainerRow, level: RetainersLevel, finder: Finder) -> RetainersLevel | str | None:
    if row.many:
        return "too many retainers to separate; key R raises N"
    if len(row.units) == 1:
        return _inside_retainer(row.units[0], level, finder)
    return replace(level, what="units", units=row.units, image=finder.image) if row.units else None


def _inside_retainer(unit: Unit, level: RetainersLevel, finder: Finder) -> RetainersLevel | None:
    """What has this retainer, alone or with others."""
    if not unit.address:
        return None
    return replace(
        _paths(level),
        what="rows",
        where=names_only(level.where.without("retainer")),
        title=f"what {unit.label} keeps (alone or not)",
        retainers=(unit.address,),
        modules=finder.modules,
        excluded=finder.left_out,
        image=finder.image,
    )


def _paths(level: RetainersLevel) -> RetainersLevel:
    """A level's objects by their paths."""
    return replace(level, key="path", expanded=ExpandedNodes(), as_list=False)
