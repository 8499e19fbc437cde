"""Prints what keeps objects alive, for a person: ``heaptop why``.

This module never reads the command line, never attaches, and asks nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from heaptop.analysis.filters.attributes import generation_label
from heaptop.analysis.heap.path_words import KIND_WORDS, path_text, placed, type_name
from heaptop.analysis.snapshot.why import (
    GARBAGE,
    Rest,
    Types,
    elided,
    shown_paths,
)
from heaptop.analysis.text.units import format_bytes, format_count
from heaptop.cli.output.retained import fitted
from heaptop.cli.terminal import stdout_columns
from heaptop.protocol.images import KINDS, Image, Link, Object, PathGroup, Paths, Step


def why_lines(paths: Paths, name: str, most: int | None) -> list[str]:
    """The total, the largest paths, and what they leave out."""
    shown, rest = shown_paths(paths, most)
    lines = [_total(paths, name), "", *fitted(("OBJECTS", "SIZE", "RETAINED", "KEPT BY"), [_row(g) for g in shown])]
    if rest.groups:
        lines.append(_rest(rest, paths))
    return lines


def why_notices(paths: Paths, image: Image, most: int | None) -> list[str]:
    """What the figures are worth."""
    said = notices(shown_paths(paths, most)[0], image)
    if not paths.complete:
        said.append("partial: the snapshot stopped early; there may be more paths")
    return said


def _total(paths: Paths, name: str) -> str:
    objects = "1 object" if paths.count == 1 else f"{format_count(paths.count)} objects"
    return f"{objects} of {name}: {format_bytes(paths.bytes)}, retained size {format_bytes(paths.retained)}"


def _row(group: PathGroup) -> tuple[str, ...]:
    path = " ".join(path_text(group.steps)) or KINDS[group.kind]
    return format_count(group.count), format_bytes(group.bytes), format_bytes(group.retained), path


def _rest(rest: Rest, paths: Paths) -> str:
    share = f": {100 * (paths.bytes - rest.bytes) / paths.bytes:.1f} % of the bytes are above" if paths.bytes else ""
    groups = "1 other path" if rest.groups == 1 else f"{format_count(rest.groups)} other paths"
    return f"({groups}, {format_count(rest.count)} objects, {format_bytes(rest.bytes)}{share})"


def notices(shown: Sequence[PathGroup], image: Image) -> list[str]:
    """What has to be known to read paths such as these."""
    lines = []
    if any(step.repeated for group in shown for step in group.steps):
        lines.append("×n: one or more such steps in a row, between objects of one type")
    if any(group.kind == GARBAGE for group in shown):
        lines.append(garbage(image))
    return lines


def garbage(image: Image) -> str:
    """How much of the heap nothing keeps, and what will become of it."""
    total = next(total for total in image.kinds if total.kind == GARBAGE)
    cycles = "1 cycle" if image.cycles == 1 else f"{format_count(image.cycles)} cycles"
    fate = "the next full collection frees what it can" if image.gc_enabled else "gc is disabled: nothing frees it"
    size = f"{format_count(total.objects)} objects, {format_bytes(total.bytes)}"
    return f"garbage in the whole heap: {size}, in {cycles} that nothing else keeps; {fate}"


# -- one object -----------------------------------------------------------------------------------------------


def object_lines(found: Object, dominator: Object | None, types: Types, image: Image) -> list[str]:
    """What it is, what it goes with, who refers to it and to what it refers."""
    row = found.row
    group = PathGroup(0, row.kind, 1, row.size, row.retained, row.address, found.path)
    facts = [
        ("size", f"{format_bytes(row.size)}, retained size {format_bytes(row.retained)}"),
        ("generation", generation_label(row.generation)),
        ("root", KIND_WORDS[KINDS[row.kind]]),
        ("path", _path(found.path)),
        ("dominator", _dominator(dominator, types)),
    ]
    if found.surplus:
        facts.append(("held by C", f"{format_count(found.surplus)} references from no object"))
    what = f"{type_name(types, row.type)} at {hex(row.address)}"
    lines = [f"{what}: {found.preview}" if found.preview else what]
    lines += [*(f"  {name:<10}  {_cut(text, 14)}" for name, text in facts), ""]
    lines += _links("referred to by", found.referrers, found.referrer_count, types)
    lines += ["", *_links("refers to", found.referents, found.referent_count, types)]
    said = notices([group], image)
    return [*lines, "", *said] if said else lines


def _path(steps: Sequence[Step]) -> str:
    return " ".join(path_text(steps)) or "it is a root itself"


def _dominator(dominator: Object | None, types: Types) -> str:
    if dominator is None:
        return "none: no single object keeps it"
    row = dominator.row
    return f"{type_name(types, row.type)} at {hex(row.address)}, {format_bytes(row.retained)}: {_path(dominator.path)}"


def _cut(text: str, before: int) -> str:
    columns = stdout_columns()
    return elided(text.split(" "), None if columns is None else max(columns - before, 1))


def _links(title: str, links: Sequence[Link], count: int, types: Types) -> list[str]:
    if not links:
        return [f"{title}: nothing" if not count else f"{title}: {format_count(count)} objects"]
    rows = [
        (
            format_bytes(link.size),
            format_bytes(link.retained),
            hex(link.address) if link.address else "",
            f"{type_name(types, link.type)} {placed(link.label, link.place)}".rstrip(),
        )
        for link in links
    ]
    lines = [f"{title}:", *fitted(("SIZE", "RETAINED", "ADDRESS", "OBJECT AND REFERENCE"), rows)]
    return [*lines, f"({format_count(count - len(links))} more)"] if count > len(links) else lines
