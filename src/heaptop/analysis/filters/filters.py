"""The filter algebra: ``type:Session,Token size>1MB !module:sqlalchemy``, read once and applied everywhere.

A :class:`Filter` answers for one cell at a time.

::

    filter      = [ either ]                          nothing at all lets everything through
    either      = both { "or" both }
    both        = part { [ "and" ] part }             a blank is "and", and binds tighter than "or"
    part        = ( "!" | "not" ) part | "(" either ")" | term
    term        = attribute ":" patterns | patterns   patterns alone are for the type
                | measure ( ">" | ">=" | "<" | "<=" | "=" ) number
                | "lifetime" ">" ( bytes | time )     of sampled blocks, in bytes allocated meanwhile or in time
    attribute   = "type" | "module" | "generation" | "gen" | "interpreter"
                | "site" | "producer" | "producer-module"       of sampled blocks: who allocated them
                | "retainer" | "kind"                           of frozen objects: by what they are kept
    patterns    = pattern { "," pattern }             alternatives
    pattern     = text | "=" text | "/" regex "/"     case-insensitive; "=": the whole name, as written
    text        = what holds no blank and no comma, or anything between quotes: "main() local rows"
    measure     = "size" | "count"                    of the cell's whole type at that moment
                | "retained"                          of an open snapshot: bytes that would go with it
    number      = 10kB, 1.5MB, 1MiB, of a count 10k   what is typed must be of the measure's sort

Text is a substring, or a glob for the whole name when it holds ``*`` or ``?`` outside of quotes. A type is matched by
its full name (``shop.models.Session``); a glob or a regex may also match the bare class name (``Sess*``). A site is
matched by all of ``shop/views.py:88 create_session``; a glob may also match its file or its function. Retainers are
matched by all of ``module app.cache ._sessions + frame main() local rows``; a glob may also match one of them. A kind
is that of the root: ``module``, ``frame``, ``runtime``, ``interpreter``, ``c`` or ``none``.

A lifetime selects the samples that all figures are made of: it is beside the other terms, never under ``or`` or
``not``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from heaptop.analysis.filters import filter_reader
from heaptop.analysis.filters.attributes import (
    BandKey,
    Origin,
    generation_label,
    interpreter_label,
    kind_of,
    producer_module_of,
    retainer_of,
    site_of,
)
from heaptop.analysis.filters.predicates import (
    FilterFigures,
    LifetimeTerm,
    Names,
    NameTerm,
    Node,
    Rest,
    all_of,
    asked,
    attribute_of,
    conjuncts,
    disjuncts,
    terms,
)
from heaptop.analysis.heap.graph_history import GraphCell
from heaptop.analysis.heap.history import AnyCell, Moment
from heaptop.analysis.samples.clock import LifetimeBound
from heaptop.errors import UsageError
from heaptop.protocol.messages import TypeName

MEASURES: Final = filter_reader.MEASURES
COUNTED: Final = ("type", "module", "generation", "interpreter", "size", "count")  # What a census has
SAMPLED: Final = ("type", "module", "site", "producer-module", "size", "count")
"""What is known of sampled blocks that live or lived."""
LIVE_BLOCKS: Final = (*SAMPLED, "lifetime")  # What is known of sampled blocks that live
ORIGINS: Final = {
    "type": Origin.ANY,
    "module": Origin.ANY,
    "generation": Origin.CENSUS,
    "interpreter": Origin.CENSUS,
    "site": Origin.SAMPLES,
    "producer-module": Origin.SAMPLES,
    "retainer": Origin.RETAINERS,
    "kind": Origin.KINDS,
    "lifetime": Origin.SAMPLES,
}
"""Which figures know of each attribute."""
FROZEN: Final = ("retainer", "kind")  # What is known of an object of a frozen snapshot alone
_KNOWERS: Final = {
    Origin.CENSUS: "a census has",
    Origin.SAMPLES: "a sampled block has",
    Origin.KINDS: "a count by kind of root has",
    Origin.RETAINERS: "a count by retainer set has",
}
PLACEHOLDER: Final = "type:Session (size>1MB or gen:2) !module:re /regex/"  # What an empty line of input shows
FILTER_HELP: Final = r"""Filter: type:Session (or Session)  module:app  gen:2  site:views.py:88
  producer-module:app  retainer:cache  kind:frame  size>1MB  count>=10k
  retained>1MiB  lifetime>10s. A space or `and` joins, `or` separates, ! or
  `not` negates: type:dict,list !(module:re or size<1kB). A comma is an
  alternative; * and ? make a glob of the whole name; /re/ is a regular
  expression; =name is exact; "…" may contain spaces. Not every view has
  all fields: an error names the missing ones, and why."""
"""For the help page: at most 8 lines of 72 columns."""


def _names(cell: AnyCell, attribute: str) -> tuple[str, ...]:
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
    if attribute == "interpreter":
        return interpreter_label(cell.interpreter), str(cell.interpreter)
    return generation_label(cell.generation), str(cell.generation)


@dataclass(frozen=True, slots=True)
class Filter:
    """A tree of terms, or none. ``parse_filter(str(f)) == f`` for every filter that was read."""

    node: Node | None = None
    text: str = field(init=False, compare=False)  # The normal form
    parts: tuple[Node, ...] = field(init=False, compare=False, repr=False)  # What must all hold
    attributes: tuple[str, ...] = field(init=False, compare=False, repr=False)
    """What its terms ask about, in the order of writing."""
    lifetime: LifetimeBound | None = field(init=False, compare=False, repr=False)
    """Only what lives longer than this, which no cell knows: see :mod:`heaptop.analysis.lifetimes.eventual`."""
    bounded: bool = field(init=False, compare=False, repr=False)
    """Whether it asks about figures, whose answer moves from snapshot to snapshot."""

    def __post_init__(self) -> None:
        node = self.node
        parts = () if node is None else tuple(conjuncts(node))
        leaves = () if node is None else tuple(terms(node))
        lifetime = next((part.bound for part in parts if isinstance(part, LifetimeTerm)), None)
        attributes = tuple(dict.fromkeys(map(attribute_of, leaves)))
        found = {
            "text": "" if node is None else str(node),
            "parts": parts,
            "attributes": attributes,
            "lifetime": lifetime,
            "bounded": not set(attributes).isdisjoint(MEASURES),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        """False for the filter that lets everything through."""
        return self.node is not None

    def __and__(self, other: Filter) -> Filter:
        """What both let through."""
        return _of(node for node in (self.node, other.node) if node is not None)

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
                    f"{what} have no {wrong}.",
                    why="Only live objects in a snapshot have it; nothing keeps dead ones.",
                    fix=f"Leave {wrong} out, or use Bands or Retainers (views 1 and 3).",
                )
            raise UsageError(
                f"{what} have no {wrong}.",
                why=f"They are grouped by {', '.join(known)} only." if known else "They are sums over everything.",
                fix=f"Leave {wrong} out." + (" Group by producer instead." if wrong == "lifetime" else ""),
            )

    # -- parts of it -----------------------------------------------------------------------------------------

    def only(self, *attributes: str) -> Filter:
        """What it asks about these alone: the parts that must hold and know of nothing else."""
        return _of(part for part in self.parts if asked(part) <= set(attributes))

    def beyond(self, *attributes: str) -> Filter:
        """The other parts: what asks about something else, maybe about these too."""
        return _of(part for part in self.parts if not asked(part) <= set(attributes))

    def without(self, *attributes: str) -> Filter:
        """What it asks about others than these: the parts that must hold and know of none of them."""
        return _of(part for part in self.parts if asked(part).isdisjoint(attributes))

    def entangled(self, attributes: Collection[str]) -> str:
        """Another attribute that is under one ``or`` with some of these; empty where none does."""
        for part in self.parts:
            mixed = asked(part)
            if mixed.intersection(attributes) and (others := mixed.difference(attributes)):
                return min(others)
        return ""

    def alternatives(self, attribute: str) -> NameTerm | None:
        """The one term that all it asks about an attribute comes to; None where it comes to more: several that must
        hold at once, what is negated, or what is under ``or`` with another."""
        found = [part for part in self.parts if attribute in asked(part)]
        if len(found) != 1:
            return None
        leaves = [*disjuncts(found[0])]
        names = [leaf for leaf in leaves if isinstance(leaf, NameTerm) and leaf.attribute == attribute]
        if len(names) < len(leaves):
            return None
        return NameTerm(attribute, tuple(pattern for term in names for pattern in term.patterns))

    # -- what passes -----------------------------------------------------------------------------------------

    def given(self, names: Names) -> bool | Rest:
        """Whether something goes through that is called so; where that depends on figures, what decides."""
        return True if self.node is None else self.node.given(names)

    def of_cell(self, cell: AnyCell) -> bool | Rest:
        """Likewise of a cell: it holds for every moment."""
        return True if self.node is None else self.node.given(partial(_names, cell))

    def matches(self, cell: AnyCell, total: FilterFigures | None = None) -> bool:
        """Whether the cell passes, when its type amounts to ``total``: to the cell alone, when not given."""
        found = self.of_cell(cell)
        return found if isinstance(found, bool) else found(total or FilterFigures(cell.bytes, cell.count))

    def select(self, snapshot: Moment) -> Iterator[AnyCell]:
        """The snapshot's cells that pass, with the totals of their types taken from the same snapshot."""
        totals = _type_totals(snapshot) if self.bounded else {}
        return (cell for cell in snapshot.cells if self.matches(cell, totals.get(cell.type)))


def _of(nodes: Iterable[Node]) -> Filter:
    node = all_of(nodes)
    return EVERYTHING if node is None else Filter(node)


def _type_totals(snapshot: Moment) -> dict[TypeName, FilterFigures]:
    sums: dict[TypeName, list[int]] = {}
    for cell in snapshot.cells:
        entry = sums.setdefault(cell.type, [0, 0])
        entry[0] += cell.bytes
        entry[1] += cell.count
    return {name: FilterFigures(size, count) for name, (size, count) in sums.items()}


EVERYTHING: Final = Filter()  # The filter that lets every cell through: what `parse_filter("")` gives


def parse_filter(text: str) -> Filter:
    """Read a filter.

    Raises:
        UsageError: bad syntax, with a pointer at the character.
    """
    node = filter_reader.read(text)
    return EVERYTHING if node is None else Filter(node)


def origin_of(key: BandKey, where: Filter) -> Origin:
    """Which figures have the bands of ``key`` under this filter; where several have, those of the census.

    Raises:
        UsageError: no figures know all of it.
    """
    if "retained" in where.attributes:
        raise UsageError(
            f"Bands by {key.name} have no retained size.",
            why="Only a snapshot has retained sizes.",
            fix="Leave retained out, or use Retainers (view 3).",
        )
    wanted = {key.name: key.origin}
    wanted |= {name: ORIGINS[name] for name in where.attributes if name not in MEASURES}
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
