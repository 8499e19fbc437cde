"""What keeps objects alive: which type a person meant, words for the paths to it, and ``heaptop why --json``.

Words and documents are made from the snapshot's answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from heaptop.analysis.bands.report import NS_PER_MS
from heaptop.analysis.heap.path_words import step_words, type_name
from heaptop.errors import AmbiguousType, NotInHeap, UsageError
from heaptop.protocol.images import KINDS, NO_TYPE, Image, Link, Object, ObjectRow, PathGroup, Paths, Step
from heaptop.protocol.messages import TypeName

if TYPE_CHECKING:
    from heaptop.documents import ObjectJson, ObjectRowJson, PathJson, ReferenceJson, SnapshotJson, WhyJson

Types = Sequence[TypeName]  # Of an image, by id
GARBAGE: Final = KINDS.index("none")
NEAR: Final = 5  # Names that are proposed in place of one that is not there
ALIKE: Final = 0.7  # Of 1, how much of a name has to be the same for that
LISTED: Final = 20  # Names that are listed where several are meant


# -- what was meant -------------------------------------------------------------------------------------------


def address_of(text: str) -> int | None:
    """The address that was typed; None for what does not look like one.

    Raises:
        UsageError: it begins like an address and is none.
    """
    if not text.lower().startswith("0x"):
        return None
    try:
        address = int(text, 16)
    except ValueError:
        address = -1
    if not 0 < address < 1 << 64:
        raise UsageError(f"{text!r} is not an address.", fix="Write it as in repr(): 0x7f30c2a41d90.")
    return address


def types_called(types: Types, name: str) -> tuple[int, ...]:
    """The ids of the one type that is called so: by ``module.qualname``, or else by the end of that, from a dot on.
    There are several ids where several classes share all of their name.

    Raises:
        NotInHeap, AmbiguousType
    """
    wanted = name.removeprefix("builtins.")
    fitting = [type.full for type in types if type.full == wanted]
    if not fitting:
        fitting = [type.full for type in types if type.full.endswith("." + wanted)]
    names = sorted(set(fitting))
    if not names:
        raise NotInHeap(f"The heap has no objects of type {name}.{_near(types, wanted)}")
    if len(names) > 1:
        listed = "\n".join(f"    {each}" for each in names[:LISTED])
        more = f"\n    ({len(names) - LISTED} more)" if len(names) > LISTED else ""
        raise AmbiguousType(f"{name} names {len(names)} types:\n\n{listed}{more}")
    return tuple(id for id, type in enumerate(types) if type.full == names[0])


def _near(types: Types, name: str) -> str:
    """A paragraph of names that are nearly the same; empty where none is."""
    last = name.rpartition(".")[2].lower()
    by_last: dict[str, list[str]] = {}
    for type in types:
        by_last.setdefault(type.full.rpartition(".")[2].lower(), []).append(type.full)
    close = [full for each in get_close_matches(last, by_last, NEAR, ALIKE) for full in by_last[each]]
    of_module = sorted(type.full for type in types if type.full.startswith(name + "."))
    inside = sorted(full for each, fulls in by_last.items() if last in each for full in fulls)
    near = list(dict.fromkeys([*of_module, *close, *inside]))[:NEAR]
    return "\n\nSimilar names:\n\n" + "\n".join(f"    {each}" for each in near) if near else ""


# -- paths ----------------------------------------------------------------------------------------------------


def elided(words: Sequence[str], width: int | None) -> str:
    """Words in one line of at most ``width`` columns (None: any number), those in the middle giving way first."""
    text = " ".join(words)
    if width is None or len(text) <= width:
        return text
    for kept in range(len(words) - 1, 1, -1):
        front = (kept + 1) // 2
        text = " ".join([*words[:front], "…", *words[front - kept :]])
        if len(text) <= width:
            return text
    front = max(width - 1, 0) // 2
    back = max(width - 1 - front, 0)
    return text[:front] + "…" + text[len(text) - back :] if width > 2 else text[:width]


def path_json(steps: Sequence[Step], types: Types) -> list[str]:
    """``["module app.cache", "._sessions", "dict[*]", "app.Session"]``: what an item is taken from goes before it,
    and the last is the type of what is kept."""
    path = []
    before = NO_TYPE
    for step in steps:
        of_item = step.label.startswith("[") and before != NO_TYPE
        path.append((type_name(types, before) if of_item else "") + step_words(step))
        before = step.type
    return [each for each in path if each] + ([type_name(types, steps[-1].type)] if steps else [])


@dataclass(frozen=True, slots=True)
class Rest:
    """What is beyond the paths that are listed."""

    groups: int
    count: int
    bytes: int


def shown_paths(paths: Paths, most: int | None) -> tuple[tuple[PathGroup, ...], Rest]:
    """The largest (all that came for None), and what they leave out."""
    shown = paths.groups[:most]
    left = len(paths.groups) - len(shown) + paths.other_groups
    count, size = (sum(getattr(group, name) for group in shown) for name in ("count", "bytes"))
    return shown, Rest(left, paths.count - count, paths.bytes - size)


# -- documents ------------------------------------------------------------------------------------------------


def image_json(image: Image) -> SnapshotJson:
    """What every document has of the snapshot."""
    garbage = next((total for total in image.kinds if total.kind == GARBAGE), None)
    return {
        "pause_ms": image.pause_ns / NS_PER_MS,
        "build_ms": image.build_ns / NS_PER_MS,
        "snapshot": {"objects": image.objects, "references": image.edges, "bytes": image.bytes, "memory": image.memory},
        "garbage": {
            "count": garbage.objects if garbage else 0,
            "bytes": garbage.bytes if garbage else 0,
            "cycles": image.cycles,
            "gc_enabled": image.gc_enabled,
        },
        "gaps": list(image.gaps),
    }


def why_json(
    paths: Paths, image: Image, types: Types, name: str, *, pid: int, python: str, most: int | None
) -> WhyJson:
    """What keeps objects of a type, at most ``most`` paths (all for None)."""
    shown, rest = shown_paths(paths, most)
    return {
        "schema": "heaptop.why",
        "version": 1,
        "pid": pid,
        "python": python,
        "type": name,
        "count": paths.count,
        "bytes": paths.bytes,
        "retained": paths.retained,
        "complete": paths.complete,
        "paths": [_path_group(group, types) for group in shown],
        "other": {"groups": rest.groups, "count": rest.count, "bytes": rest.bytes},
        "retainers": None,
        **image_json(image),
    }


def _path_group(group: PathGroup, types: Types) -> PathJson:
    return {
        "count": group.count,
        "bytes": group.bytes,
        "retained": group.retained,
        "kind": KINDS[group.kind],
        "path": path_json(group.steps, types),
        "example": hex(group.example),
    }


def object_json(
    found: Object, dominator: Object | None, image: Image, types: Types, *, pid: int, python: str
) -> ObjectJson:
    """One object: as in :func:`why_json`, with a path to it, and who refers to it and what it refers to."""
    row = found.row
    group = PathGroup(0, row.kind, 1, row.size, row.retained, row.address, found.path)
    return {
        "schema": "heaptop.object",
        "version": 1,
        "pid": pid,
        "python": python,
        "count": 1,
        "complete": True,
        "paths": [_path_group(group, types)],
        **_row(row, types),
        "preview": found.preview,
        "dominator": {**_row(dominator.row, types), "path": path_json(dominator.path, types)} if dominator else None,
        "held_by_c": found.surplus,
        "referrers": _links(found.referrers, types),
        "referrer_count": found.referrer_count,
        "referents": _links(found.referents, types),
        "referent_count": found.referent_count,
        **image_json(image),
    }


def _row(row: ObjectRow, types: Types) -> ObjectRowJson:
    return {
        "address": hex(row.address),
        "type": type_name(types, row.type),
        "bytes": row.size,
        "retained": row.retained,
        "generation": row.generation,
        "kind": KINDS[row.kind],
        "length": row.length if row.length >= 0 else None,
    }


def _links(links: Iterable[Link], types: Types) -> list[ReferenceJson]:
    return [
        {
            "label": link.label,
            "address": hex(link.address) if link.address else None,
            "type": type_name(types, link.type),
            "bytes": link.size,
            "retained": link.retained,
        }
        for link in links
    ]
