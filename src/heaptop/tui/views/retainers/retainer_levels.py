"""The levels of view 3: what is looked into, what of it is shown, and in which words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.filters.kept_samples import retainer_term
from heaptop.analysis.snapshot.retaining import AMOUNTS, NAMES, narrowed
from heaptop.errors import UsageError
from heaptop.protocol.images import Selection, Unit
from heaptop.protocol.messages import TypeName
from heaptop.tui.state import drill
from heaptop.tui.state.snapshot_client import QuerySubject

By = Literal["type", "path", "retainers", "kind", "site", "new"]
TOP: Final[tuple[By, ...]] = ("type", "path", "retainers", "kind", "site", "new")
INNER: Final[tuple[By, ...]] = ("path", "retainers", "kind", "site", "type")
ALL: Final = QuerySubject("everything")
NEW: Final = QuerySubject("what is new", new=True)
FIRST_PATHS: Final = 300
MOST_PATHS: Final = 2_000
FIRST_LINKS: Final = 100
MOST_LINKS: Final = 1_000
_FIGURES: Final = {
    "type": "Types",
    "new": "Types",
    "path": "Paths",
    "retainers": "Retainer sets",
    "kind": "Kinds",
    "site": "Sites",
}
BY_WORDS: Final = {"retainers": "by retainer set", "kind": "by kind of root", "new": "what is new since the mark"}
NOW: Final = -1  # In place of an image's number: the one that is open when it is examined first


@dataclass
class ExpandedNodes:
    """What of a tree the reader has expanded."""

    open: set[str] = field(default_factory=set)
    unfolded: set[str] = field(default_factory=set)  # First steps of what would be one line, of which each has its own
    begun: bool = False


@dataclass(frozen=True, slots=True)
class RetainersLevel(drill.Level):
    """What is looked into, and what of it is shown: ``rows`` of it by the key, the ``units`` of a retainer set, its
    ``objects``, or one ``object`` and what is around it."""

    key: By = "type"
    what: Literal["rows", "units", "objects", "object"] = "rows"
    subject: QuerySubject = ALL
    title: str = ""
    kinds: tuple[int, ...] = ()
    retainers: tuple[int, ...] = ()
    modules: bool = False
    excluded: tuple[int, ...] = ()  # These two are of `retainers`: how they were distinguished
    path: tuple[int, ...] = ()
    below: tuple[int, ...] = ()  # The object with which they would go
    units: tuple[Unit, ...] = ()
    address: int = 0
    image: int = 0  # The snapshot that it means something in; 0: in all of them
    as_list: bool = False
    paths: int = FIRST_PATHS
    links: int = FIRST_LINKS
    expanded: ExpandedNodes = field(default_factory=ExpandedNodes)
    apart: bool = False  # It was asked from another view: it lies in nothing that was looked into here before

    @classmethod
    def of_object(cls, address: int, image: int) -> RetainersLevel:
        """In the snapshot of this number; 0 for the one that is open when it is examined first."""
        return cls(what="object", address=address, title=hex(address), image=image or NOW)

    @property
    def table(self) -> By:
        """Which table shows its rows."""
        return "type" if self.key == "new" else self.key

    @property
    def is_tree(self) -> bool:
        return self.what == "rows" and self.key == "path"

    @property
    def is_all(self) -> bool:
        """All there is, as far as the filter lets it through."""
        return self.subject == ALL and not (self.kinds or self.retainers or self.path or self.below)

    @property
    def is_some(self) -> bool:
        """Objects of some types or producers, of which few keep one another: what they retain is a figure of its own,
        where of all that is kept by something it is but the same as that something's."""
        return bool(self.subject.types or self.subject.stacks)

    @property
    def allowed(self) -> tuple[str, ...]:
        """What a filter may ask of what is shown."""
        if self.what in ("units", "object"):
            return ()
        if self.what == "objects" or self.key in ("path", "site"):
            return NAMES
        return AMOUNTS if self.key in ("type", "new") else AMOUNTS[:-1]

    @property
    def is_narrowed(self) -> bool:
        """Whether the snapshot is asked for what passes the filter alone."""
        return self.what == "objects" or self.key in ("path", "retainers", "site")

    def shown_by(self, key: By, types: Sequence[TypeName], *, is_top: bool) -> RetainersLevel:
        """The same objects by another key, without the filter where that does not go together with it."""
        if not is_top:
            inner = replace(self, key=key, as_list=False, where=EVERYTHING, given=EVERYTHING)
        elif key == "new":
            inner = RetainersLevel(key=key, subject=NEW, title=NEW.title)
        else:
            inner = RetainersLevel(key=key)
        try:
            inner.admit(self.where, types)
        except UsageError:
            return inner
        return replace(inner, where=self.where, given=EVERYTHING if is_top else self.given)

    def admit(self, where: Filter, types: Sequence[TypeName]) -> None:
        """
        Raises:
            UsageError: a filter asks for something that is not known of what is shown, or more than one question to the
                snapshot has room for.
        """
        self._allow(where)
        if self.is_narrowed:
            narrowed(where, types, Selection())

    def _allow(self, where: Filter) -> None:
        if where and not self.allowed:
            raise UsageError(
                f"{self.figures} have no {where.attributes[0]}.",
                why="The neighbours of one object, and one retainer set, cannot be filtered.",
                fix="Press Esc to go back to rows that can be filtered.",
            )
        where.allow(self.allowed, self.figures)
        if self.is_sets:
            other = where.beyond("type", "module", "kind").entangled(("kind",))
            if other:
                raise UsageError(
                    f"Retainer sets do not accept kind and {other} under one 'or'.",
                    why="kind selects objects before retainer sets are built.",
                    fix=f"Write kind next to {other}, or leave one of them out.",
                )
            return
        if "retainer" not in where.attributes:
            return
        if self.retainers:
            raise UsageError(
                "One retainer is chosen already.",
                why="A snapshot reports what any one of several retainers keeps, not what all of them keep together.",
                fix="Group by retainer set (key b): there the filter shows the sets that contain both.",
            )
        retainer_term(where, self.figures)

    @property
    def inner_keys(self) -> tuple[By, ...]:
        """By what a level that is not the top one can be shown."""
        one = {"type": len(self.subject.types) == 1, "site": bool(self.subject.stacks)}
        return tuple(key for key in INNER if not one.get(key))

    @property
    def is_sets(self) -> bool:
        """Whether its rows are retainer sets."""
        return self.what == "rows" and self.key == "retainers"

    @property
    def figures(self) -> str:
        """The notice that what is asked for is not in this snapshot."""
        return _FIGURES[self.key] if self.what == "rows" else "Objects"

    @property
    def crumb(self) -> str:
        """What it is called where it was looked into."""
        return {"units": "one retainer set", "objects": f"along {self.title}"}.get(self.what, self.title)

    def words(self, units: str, since: str) -> str:
        """What is behind the view's name.

        Args:
            units: by which retainer sets are distinguished.
            since: how long ago the mark was set.
        """
        if self.what != "rows":
            return {"object": ", one object", "objects": ", objects", "units": ", members"}[self.what]
        of = "" if not self.subject.new else " of what is new" if self.key == "new" else " new"
        if self.subject.new and since:
            of += f" since the mark {since} ago, at least,"
        if self.key == "new":
            return of.rstrip(",")
        tree = "path" if self.as_list else "tree"
        by = {"retainers": units, "path": tree, "site": "≈ sampled site"}.get(self.key, self.key)
        return f"{of} by {by}"
