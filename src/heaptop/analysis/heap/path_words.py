"""What is called how in an open snapshot: sorts of roots, types, steps of paths."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import basename
from typing import Final

from heaptop.protocol.images import Place, Step
from heaptop.protocol.messages import TypeName

KIND_WORDS: Final = {
    "module": "a name in a module, builtins or sys",
    "frame": "a local variable of a running call",
    "runtime": "the interpreter itself",
    "interpreter": "another interpreter of the process",
    "c": "held by C: an extension, or a running call",
    "none": "garbage",
}
"""Of :data:`heaptop.protocol.images.KINDS`."""
FRAME: Final = TypeName("", "frame")  # Stands for the type of what is no object


def type_of(types: Sequence[TypeName], id: int) -> TypeName:
    """The type with this id of an image; :data:`FRAME` for :data:`~heaptop.protocol.images.NO_TYPE`."""
    return types[id] if id < len(types) else FRAME


def type_name(types: Sequence[TypeName], id: int) -> str:
    """``module.qualname``; a frame has none."""
    return type_of(types, id).full


def placed(label: str, place: Place | None) -> str:
    """``frame work() local rows · leaky.py:25 · thread worker``: a label that begins with a frame, with where that is.

    The variable goes first: in a narrow column the end is not seen.
    """
    if place is None or not place.file:
        return label
    where = f"{basename(place.file)}:{place.line}" if place.line else basename(place.file)
    thread = f" · thread {place.thread}" if place.thread else ""
    return f"{label} · {where}{thread}"


def one_place(place: Place | None, other: Place | None) -> Place | None:
    """What holds of both."""
    if place == other or place is None or other is None:
        return place if place == other else None
    return Place(place.file, 0, "") if place.file == other.file else None


def step_words(step: Step) -> str:
    """``.next ×n`` for one that represents several; what has no label is the dict or the type behind the one before."""
    return f"{step.label} ×n" if step.repeated else step.label


def path_words(steps: Sequence[Step]) -> list[str]:
    """A path, step by step; one that has no label (what a root is itself) is left out. They name it: they are the same
    for every snapshot."""
    return [step_words(step) for step in steps if step.label]


def step_text(step: Step) -> str:
    """The step for a person, with where its frame is."""
    return placed(step_words(step), step.place)


def path_text(steps: Sequence[Step]) -> list[str]:
    """The path for a person, likewise."""
    return [step_text(step) for step in steps if step.label]
