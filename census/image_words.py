"""What is called how in an open snapshot: sorts of roots, types, steps of paths. This module never asks one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from heaptop.protocol.images import Step
from heaptop.protocol.messages import TypeName

KIND_WORDS: Final = {
    "module": "from modules: by names of modules, builtins and sys",
    "frame": "from frames: by local variables of calls under way",
    "runtime": "from the interpreter itself",
    "interpreter": "from another interpreter of the process",
    "c": "held by C: an extension, or a call under way",
    "none": "garbage",
}
"""Of :data:`heaptop.protocol.images.KINDS`."""
FRAME: Final = TypeName("", "frame")
"""Stands for the type of what is no object."""


def type_of(types: Sequence[TypeName], id: int) -> TypeName:
    """The type with this id of an image; :data:`FRAME` for :data:`~heaptop.protocol.images.NO_TYPE`."""
    return types[id] if id < len(types) else FRAME


def type_name(types: Sequence[TypeName], id: int) -> str:
    """``module.qualname``; a frame has none."""
    return type_of(types, id).full


def step_words(step: Step) -> str:
    """``.next ×n`` for one that stands for several; what has no label is the dict or the type behind the one before."""
    return f"{step.label} ×n" if step.repeated else step.label


def path_words(steps: Sequence[Step]) -> list[str]:
    """A path, step by step; one that has no label (what a root is itself) is left out."""
    return [step_words(step) for step in steps if step.label]
