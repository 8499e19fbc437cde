"""What a filter is made of: patterns of names, bounds on figures, and the tree of and, or and not over them.

A tree is asked in two steps: :meth:`given` takes the names of a cell, which stay, and leaves an answer or what depends
on figures alone, which move from tick to tick.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from typing import Final, Literal, TypeAlias

from heaptop.analysis.samples.clock import LifetimeBound

LONGEST_NAME: Final = 500
"""Characters of a name that a regular expression is tried on: names of a hostile length are no reason to wait."""
Names: TypeAlias = Callable[[str], tuple[str, ...]]
"""What something is called, by attribute: the whole name first, then parts of it."""


@dataclass(frozen=True, slots=True)
class FilterFigures:
    """What can be bounded, of a type or of a row."""

    size: int
    count: int
    retained: int = 0


Rest: TypeAlias = Callable[[FilterFigures], bool]  # What a tree asks of figures, once names are known

# -- patterns ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pattern:
    """One alternative of an attribute's value."""

    text: str  # What is looked for, without the signs that say how
    how: Literal["in", "exact", "glob", "regex"] = "in"
    compiled: re.Pattern[str] | None = None

    @classmethod
    def bare(cls, text: str) -> Pattern:
        """Text as it is typed: a glob where it holds ``*`` or ``?``."""
        if "*" in text or "?" in text:
            return cls(text, "glob", re.compile(translate(text.lower())))
        return cls(text)

    @classmethod
    def regex(cls, text: str) -> Pattern:
        """
        Raises:
            re.error: it is none. Also OverflowError and RecursionError, where it is beyond measure.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a later Python may read otherwise is read as now
            return cls(text, "regex", re.compile(text, re.IGNORECASE))

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether it is in the first name; one of any other sort may fit any of them."""
        if self.how == "in":
            return self.text.lower() in names[0].lower()
        if self.how == "exact":
            return self.text in names
        assert self.compiled is not None
        if self.how == "glob":
            return any(self.compiled.match(name.lower()) for name in names)
        return any(self.compiled.search(name[:LONGEST_NAME]) for name in names)

    def __str__(self) -> str:
        if self.how == "regex":
            return f"/{self.text}/"
        if self.how == "glob":
            return self.text
        sign = "=" if self.how == "exact" else ""
        return sign + (quoted(self.text) if _needs_quotes(self.text, sign) else self.text)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _needs_quotes(text: str, sign: str) -> bool:
    """Whether it would be read as something else, or not to its end."""
    if not sign and (text[0] in "=/" or "*" in text or "?" in text):
        return True
    return text[0] == '"' or "," in text or not _is_balanced(text) or re.search(r"\s", text) is not None


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return not depth


# -- terms ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameTerm:
    """An attribute whose value must be one of several patterns."""

    attribute: str
    patterns: tuple[Pattern, ...]

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether it lets something through that is called so."""
        return any(pattern.fits(names) for pattern in self.patterns)

    def given(self, names: Names) -> bool | Rest:
        return self.fits(names(self.attribute))

    def __str__(self) -> str:
        return f"{self.attribute}:{','.join(map(str, self.patterns))}"


Sign: TypeAlias = Literal[">", ">=", "<", "<=", "="]
SIGNS: Final[dict[str, Sign]] = {">=": ">=", "<=": "<=", ">": ">", "<": "<", "=": "="}


@dataclass(frozen=True, slots=True)
class BoundTerm:
    """A bound on what the cell's type, or the row, amounts to: a field of :class:`FilterFigures`."""

    measure: str
    sign: Sign
    bound: int
    written: str  # The bound as it was typed

    def holds(self, figures: FilterFigures) -> bool:
        value: int = getattr(figures, self.measure)
        if self.sign == ">":
            return value > self.bound
        if self.sign == "<":
            return value < self.bound
        if self.sign == "=":
            return value == self.bound
        return value >= self.bound if self.sign == ">=" else value <= self.bound

    def given(self, names: Names) -> bool | Rest:
        return self.holds

    def __str__(self) -> str:
        return f"{self.measure}{self.sign}{self.written}"


@dataclass(frozen=True, slots=True)
class LifetimeTerm:
    """Only what lives longer than this. No cell has it: it selects the samples that figures are made of, and these all
    pass."""

    bound: LifetimeBound
    written: str

    def given(self, names: Names) -> bool | Rest:
        return True

    def __str__(self) -> str:
        return f"lifetime>{self.written}"


# -- the tree ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Not:
    """What the part does not let through; made by :func:`negated`."""

    part: Node

    def given(self, names: Names) -> bool | Rest:
        found = self.part.given(names)
        if isinstance(found, bool):
            return not found
        return lambda figures: not found(figures)

    def __str__(self) -> str:
        return f"!({self.part})" if isinstance(self.part, And | Or) else f"!{self.part}"


def _joined(parts: Iterable[Node], names: Names, *, settles: bool) -> bool | Rest:
    """What parts come to of which one that answers ``settles`` is enough for that."""
    rests: list[Rest] = []
    for part in parts:
        found = part.given(names)
        if not isinstance(found, bool):
            rests.append(found)
        elif found is settles:
            return settles
    if len(rests) < 2:
        return rests[0] if rests else not settles
    join = any if settles else all
    return lambda figures: join(rest(figures) for rest in rests)


@dataclass(frozen=True, slots=True)
class And:
    """What all parts let through; made by :func:`all_of`."""

    parts: tuple[Node, ...]

    def given(self, names: Names) -> bool | Rest:
        return _joined(self.parts, names, settles=False)

    def __str__(self) -> str:
        return " ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """What one part lets through; made by :func:`any_of`."""

    parts: tuple[Node, ...]

    def given(self, names: Names) -> bool | Rest:
        return _joined(self.parts, names, settles=True)

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


Term: TypeAlias = NameTerm | BoundTerm | LifetimeTerm
Node: TypeAlias = NameTerm | BoundTerm | LifetimeTerm | Not | And | Or


def negated(node: Node) -> Node:
    return node.part if isinstance(node, Not) else Not(node)


def all_of(nodes: Iterable[Node]) -> Node | None:
    """Their conjunction, flat; None of none."""
    parts = [part for node in nodes for part in (node.parts if isinstance(node, And) else (node,))]
    return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def any_of(nodes: Iterable[Node]) -> Node | None:
    """Their disjunction, flat; None of none."""
    parts = [part for node in nodes for part in (node.parts if isinstance(node, Or) else (node,))]
    return Or(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def conjuncts(node: Node) -> Iterator[Node]:
    """The parts that must all hold, with what is negated as a whole taken apart (De Morgan)."""
    match node:
        case And(parts):
            for part in parts:
                yield from conjuncts(part)
        case Not(Or(parts)):
            for part in parts:
                yield from conjuncts(negated(part))
        case _:
            yield node


def disjuncts(node: Node) -> Iterator[Node]:
    """The parts one of which must hold, likewise."""
    match node:
        case Or(parts):
            for part in parts:
                yield from disjuncts(part)
        case Not(And(parts)):
            for part in parts:
                yield from disjuncts(negated(part))
        case _:
            yield node


def terms(node: Node) -> Iterator[Term]:
    """Its leaves, from the left."""
    match node:
        case Not(part):
            yield from terms(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms(part)
        case _:
            yield node


def asked(node: Node) -> frozenset[str]:
    """What its terms ask about."""
    return frozenset(attribute_of(term) for term in terms(node))


def attribute_of(term: Term) -> str:
    if isinstance(term, NameTerm):
        return term.attribute
    return term.measure if isinstance(term, BoundTerm) else "lifetime"
