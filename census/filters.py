"""The filter algebra: ``type:Session,Token size>1MB !module:sqlalchemy``, read once and applied everywhere.

This module never looks at a heap by itself: a :class:`Filter` answers for one cell at a time.

::

    filter      = { term }                            terms are AND-ed; none at all lets everything through
    term        = ["!"] ( attribute ":" patterns | measure ("<" | ">") size | lifetime | patterns )
    attribute   = "type" | "module" | "generation" | "gen"      a bare word is a pattern for the type
                | "site" | "producer" | "producer-module"       of sampled blocks: who allocated them
                | "retainer" | "kind"                           of frozen objects: by what they are kept
    patterns    = pattern { "," pattern }             alternatives
    pattern     = text | "=" text                     case-insensitive; "=": the whole name, as written
    measure     = "size" | "count"                    of the cell's whole type at that moment
                | "retained"                          of an open snapshot: bytes that would go with it
    lifetime    = "lifetime" ">" (bytes | time)       of sampled blocks, in bytes allocated meanwhile or in time

Text is a substring, or a glob for the whole name when it holds ``*`` or ``?``. A type is matched by its full
name (``shop.models.Session``); a glob may also match the bare class name (``Sess*``). A site is matched by all of
``shop/views.py:88 create_session``; a glob may also match its file or its function. Retainers are
matched by all of ``module app.cache ._sessions + frame main() local rows``; a glob may also match one of them. A kind
is that of the root: ``module``, ``frame``, ``runtime``, ``interpreter``, ``c`` or ``none``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fnmatch import translate
from typing import Final

from heaptop.census.attributes import (
    BandKey,
    Origin,
    generation_label,
    kind_of,
    producer_module_of,
    retainer_of,
    site_of,
)
from heaptop.census.clock import LifetimeBound, parse_lifetime
from heaptop.census.graph_history import GraphCell
from heaptop.census.history import Amount, AnyCell, Moment
from heaptop.census.units import parse_size
from heaptop.errors import UsageError
from heaptop.protocol.messages import TypeName

LATER: Final = ("age",)
"""Attributes of the design that need data which this version does not collect."""

_ALIASES: Final = {"gen": "generation", "producer": "site"}
COUNTED: Final = ("type", "module", "generation", "size", "count")
"""What a census knows."""
SAMPLED: Final = ("type", "module", "site", "producer-module", "size", "count")
"""What is known of sampled blocks that live or lived."""
LIVING: Final = (*SAMPLED, "lifetime")
"""What is known of sampled blocks that live."""
ORIGINS: Final = {
    "type": Origin.ANY,
    "module": Origin.ANY,
    "generation": Origin.CENSUS,
    "site": Origin.SAMPLES,
    "producer-module": Origin.SAMPLES,
    "retainer": Origin.RETAINERS,
    "kind": Origin.KINDS,
}
"""The attributes of names, and which figures know of each."""
FROZEN: Final = ("retainer", "kind")
"""What is known of an object of a frozen snapshot alone."""
_KNOWERS: Final = {
    Origin.CENSUS: "a census knows",
    Origin.SAMPLES: "a sampled block knows",
    Origin.KINDS: "a count by kind of root knows",
    Origin.RETAINERS: "a count by retainer set knows",
}
MEASURES: Final = ("size", "count", "retained")
"""Figures that can be bounded; ``retained`` is known of rows of an open snapshot alone."""
_SYNTAX: Final = (
    "Terms are separated by spaces: type:Session, module:app, generation:2, size>1MB, count<10; "
    "! in front negates, a comma separates alternatives, = in front of a value asks for the exact name."
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One alternative of an attribute's value."""

    text: str
    """As written, with the ``=`` of an exact one."""
    exact: bool
    glob: re.Pattern[str] | None

    @classmethod
    def of(cls, text: str) -> Pattern:
        if text.startswith("="):
            return cls(text, True, None)
        glob = re.compile(translate(text.lower())) if "*" in text or "?" in text else None
        return cls(text, False, glob)

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether it fits the first name; an exact pattern or a glob may fit any of them."""
        if self.exact:
            return self.text[1:] in names
        if self.glob is not None:
            return any(self.glob.match(name.lower()) for name in names)
        return self.text.lower() in names[0].lower()


def _names(attribute: str, cell: AnyCell) -> tuple[str, ...]:
    if attribute == "type":
        return cell.type.full, cell.type.qualname
    if attribute == "module":
        return (cell.type.module,)
    if attribute == "site":
        site = site_of(cell)
        return site, site.partition(":")[0], site.rpartition(" ")[2]
    if attribute == "producer-module":
        return (producer_module_of(cell),)
    if attribute == "kind":
        return (kind_of(cell),)
    if attribute == "retainer":
        return retainer_of(cell), *(cell.retainers if isinstance(cell, GraphCell) else ())
    return generation_label(cell.generation), str(cell.generation)


@dataclass(frozen=True, slots=True)
class NameTerm:
    """An attribute whose value must be one of several patterns, or none of them when ``negated``."""

    attribute: str
    patterns: tuple[Pattern, ...]
    negated: bool

    def matches(self, cell: AnyCell) -> bool:
        return self.fits(_names(self.attribute, cell))

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether it lets something through that is called so."""
        return any(pattern.fits(names) for pattern in self.patterns) is not self.negated


@dataclass(frozen=True, slots=True)
class BoundTerm:
    """A bound, exclusive, on what the cell's type amounts to: ``size`` in bytes, ``count`` in objects, ``retained`` in
    bytes."""

    measure: str
    above: bool
    bound: int
    negated: bool

    def matches(self, total: Amount) -> bool:
        return self.holds(total.bytes if self.measure == "size" else total.count)

    def holds(self, value: int) -> bool:
        """Whether the figure that it bounds may be this one."""
        return (value > self.bound if self.above else value < self.bound) is not self.negated


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunction of terms. ``text`` is the normal form: ``parse_filter(str(f)) == f`` for every filter."""

    text: str
    names: tuple[NameTerm, ...]
    """Terms that give the same answer for a type and generation at every moment."""
    bounds: tuple[BoundTerm, ...]
    """Terms on a type's total, whose answer moves from snapshot to snapshot."""
    lifetime: LifetimeBound | None = None
    """Only what lives longer than this, which no cell knows: see :mod:`heaptop.census.eventual`."""

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        """False for the filter that lets everything through."""
        return bool(self.names or self.bounds or self.lifetime)

    @property
    def attributes(self) -> tuple[str, ...]:
        """What its terms ask about."""
        asked = (*(term.attribute for term in self.names), *(term.measure for term in self.bounds))
        return (*asked, "lifetime") if self.lifetime is not None else asked

    def allow(self, known: Collection[str], what: str) -> None:
        """Whether figures that know of no more than these attributes can be restricted so.

        Args:
            what: the figures, as the first word of a sentence, in the plural: ``Collections``.

        Raises:
            UsageError: some term asks about something else.
        """
        wrong = next((name for name in self.attributes if name not in known), None)
        if wrong is not None:
            if wrong in FROZEN:
                raise UsageError(
                    f"{what} know no {wrong}.",
                    why="It is known of what lives in a frozen snapshot alone; what died is kept by nothing.",
                    fix=f"Leave {wrong} out, or look at Bands or Retainers (views 1 and 3).",
                )
            raise UsageError(
                f"{what} know no {wrong}.",
                why=f"They are told apart by {', '.join(known)} alone." if known else "They are sums of all there is.",
                fix=f"Leave {wrong} out." + (" By producer it is known." if wrong == "lifetime" else ""),
            )

    def matches(self, cell: AnyCell, total: Amount | None = None) -> bool:
        """Whether the cell passes, when its type amounts to ``total``: to the cell alone, when not given."""
        return self.fits_name(cell) and self.fits_total(total or Amount(cell.count, cell.bytes))

    def without(self, attribute: str) -> Filter:
        """The same filter, which lets any value of an attribute of names through. Its text stays: it still says what
        is shown."""
        return replace(self, names=tuple(term for term in self.names if term.attribute != attribute))

    def fits_name(self, cell: AnyCell) -> bool:
        """Whether the terms on the cell's type, module and generation let it through."""
        return all(term.matches(cell) for term in self.names)

    def fits_total(self, total: Amount) -> bool:
        """Whether the terms on size and count let a type through that amounts to this."""
        return all(term.matches(total) for term in self.bounds)

    def select(self, snapshot: Moment) -> Iterator[AnyCell]:
        """The snapshot's cells that pass, with the totals of their types taken from the same snapshot."""
        totals = _type_totals(snapshot) if self.bounds else {}
        return (cell for cell in snapshot.cells if self.matches(cell, totals.get(cell.type)))


def _type_totals(snapshot: Moment) -> dict[TypeName, Amount]:
    sums: dict[TypeName, list[int]] = {}
    for cell in snapshot.cells:
        entry = sums.setdefault(cell.type, [0, 0])
        entry[0] += cell.count
        entry[1] += cell.bytes
    return {name: Amount(count, size) for name, (count, size) in sums.items()}


EVERYTHING: Final = Filter("", (), ())
"""The filter that lets every cell through: what ``parse_filter("")`` gives."""


def parse_filter(text: str) -> Filter:
    """Read a filter.

    Raises:
        UsageError: bad syntax, with a pointer at the word; or a term on data this version does not collect.
    """
    words = [_Word(text, word.start(), word[0]) for word in re.finditer(r"\S+", text)]
    terms = [word.term() for word in words]
    if not terms:
        return EVERYTHING
    lifetimes = [term for _, term in terms if isinstance(term, LifetimeBound)]
    if len(lifetimes) > 1:
        raise words[-1].wrong("There is one bound on lifetimes at most.")
    return Filter(
        text=" ".join(form for form, _ in terms),
        names=tuple(term for _, term in terms if isinstance(term, NameTerm)),
        bounds=tuple(term for _, term in terms if isinstance(term, BoundTerm)),
        lifetime=lifetimes[0] if lifetimes else None,
    )


def origin_of(key: BandKey, where: Filter) -> Origin:
    """Which figures have the bands of ``key`` under this filter; where several have, those of the census.

    Raises:
        UsageError: no figures know all of it.
    """
    if any(term.measure == "retained" for term in where.bounds):
        raise UsageError(
            "Bands know no retained bytes.",
            why="What would go with objects is known of an open snapshot alone.",
            fix="Leave retained out, or look at Retainers (view 3).",
        )
    wanted = {key.name: key.origin} | {term.attribute: ORIGINS[term.attribute] for term in where.names}
    if where.lifetime is not None:
        wanted["lifetime"] = Origin.SAMPLES
    first = {origin: name for name, origin in reversed(wanted.items())}
    found = [origin for origin in _KNOWERS if origin in first]
    if len(found) > 1:
        one, other = (first[origin] for origin in found[:2])
        raise UsageError(
            f"{one} and {other} do not go together.",
            why=" and ".join(f"only {_KNOWERS[origin]} the {first[origin]}" for origin in found[:2]).capitalize() + ".",
            fix=f"Leave {one} or {other} out.",
        )
    return found[0] if found else Origin.CENSUS


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the filter and where it stands: what an error points at."""

    text: str
    start: int
    word: str

    def wrong(self, what: str, fix: str = _SYNTAX) -> UsageError:
        line = re.sub(r"\s", " ", self.text)
        pointer = " " * self.start + "^" * len(self.word)
        return UsageError(f"{what}\n\n    {line}\n    {pointer}", fix=fix)

    def term(self) -> tuple[str, NameTerm | BoundTerm | LifetimeBound]:
        """Its normal form, and what it means."""
        body = self.word.removeprefix("!")
        sign = "!" if body != self.word else ""
        if not body or body.startswith("!"):
            raise self.wrong("A term is missing after '!'.")
        measure = re.match(r"([A-Za-z-]+)([<>])(.*)", body)
        if measure is None:
            form, term = self._name(body, bool(sign))
            return sign + form, term
        if measure[1].lower() == "lifetime":
            return self._lifetime(measure[2], measure[3], bool(sign))
        form, bound = self._bound(measure[1].lower(), measure[2], measure[3], bool(sign))
        return sign + form, bound

    def _name(self, body: str, negated: bool) -> tuple[str, NameTerm]:
        attribute, colon, value = body.partition(":")
        if not colon:
            attribute, value = "type", body
        attribute = _ALIASES.get(attribute.lower(), attribute.lower())
        if attribute in LATER:
            raise self._later(attribute)
        if attribute not in ORIGINS:
            raise self.wrong(f"{attribute!r} is not an attribute.")
        patterns = tuple(Pattern.of(part) for part in value.split(","))
        if any(pattern.text in ("", "=") for pattern in patterns):
            raise self.wrong(f"A value of {attribute!r} is empty.")
        return f"{attribute}:{value}", NameTerm(attribute, patterns, negated)

    def _bound(self, measure: str, sign: str, value: str, negated: bool) -> tuple[str, BoundTerm]:
        if measure in LATER:
            raise self._later(measure)
        if measure not in MEASURES:
            raise self.wrong(f"{measure!r} is not a measure: size and count are, and retained in view 3.")
        try:
            bound = parse_size(value)
        except UsageError as error:
            raise self.wrong(error.message, error.fix) from None
        return f"{measure}{sign}{value}", BoundTerm(measure, sign == ">", bound, negated)

    def _lifetime(self, sign: str, value: str, negated: bool) -> tuple[str, LifetimeBound]:
        if sign == "<" or negated:
            raise self.wrong("A lifetime can only be bounded from below: what lives may live long yet.")
        try:
            return f"lifetime>{value}", parse_lifetime(value)
        except UsageError as error:
            raise self.wrong(error.message, error.fix) from None

    def _later(self, attribute: str) -> UsageError:
        return self.wrong(
            f"The filter {attribute!r} needs data that this version does not collect.",
            "Filter by type, module, generation, site, producer-module, retainer, kind, size or count.",
        )
