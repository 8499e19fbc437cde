"""What tests that are about every view do on each: keys of the view, and a filter. A new view has its line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Scene:
    """One view; + among keys is some ticks."""

    tables: list[list[str]]
    """Keys that lead through all its tables, after its own key."""
    down: tuple[str, ...] = ()
    """Keys that lead a level down; empty where there is none."""
    where: str = "type:Session"
    """A filter that can be typed there, also a level down; empty for none."""


SCENES: Final = {
    "bands": Scene([["b"] * 9], ("b", "enter"), "size>1kB"),
    "producers": Scene([["b"] * 4, ["enter"], ["escape", "b", "enter"], ["escape", "v"]], ("enter",)),
    "retainers": Scene([["b"] * 6, ["enter"], ["v"], ["enter"], ["enter"]], ("j", "j", "enter")),
    "leaks": Scene([["m", "+", "m", "+", "m"], ["b"] * 8, ["enter"]]),
    "heap_map": Scene([["b"] * 5], ("z",)),
    "lifetimes": Scene([["b"] * 5, ["v"], ["enter"]], ("enter",), ""),
    "sizes": Scene([["b"] * 2, ["v"], ["enter"]], ("enter",)),
    "gc": Scene([["b"] * 3], where="gen:2"),
    "memory": Scene([["+", "b", "+", "enter"]], ("+", "enter"), "size>1kB"),
    "waste": Scene([["+"]]),
}
