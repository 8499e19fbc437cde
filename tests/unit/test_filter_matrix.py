"""Every band key against every restriction, on the screen and on the command line: each pair works, or says why not."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from heaptop.analysis.filters.filters import COUNTED, Filter, parse_filter
from heaptop.analysis.reports import sampled_report
from heaptop.analysis.snapshot import retained
from heaptop.errors import UsageError
from heaptop.tui.state.drill import Level
from heaptop.tui.views.bands.view import TITLES, BandsView
from heaptop.tui.views.gc import view as gc
from heaptop.tui.views.lifetimes import view as lifetimes
from heaptop.tui.views.retainers.retainer_levels import INNER, TOP
from heaptop.tui.views.retainers.retainer_levels import RetainersLevel as RetainerLevel

Check = Callable[[Filter], object]

RESTRICTIONS = {
    "type": "type:Session",
    "module": "module:shop",
    "generation": "gen:2",
    "interpreter": "interpreter:1",
    "site": "site:views.py",
    "producer-module": "producer-module:shop",
    "retainer": "retainer:cache",
    "kind": "kind:frame",
    "size": "size>1kB",
    "count": "count>=10",
    "retained": "retained>1kB",
    "lifetime": "lifetime>10MB",
}
COUNTS = ("type", "module", "generation", "interpreter")
"""What a census is grouped by that a clone or a stop takes."""
_ANY = "type module size count"
WORKS = {
    "bands by type": f"{_ANY} generation interpreter site producer-module retainer kind lifetime",
    "bands by module": f"{_ANY} generation interpreter site producer-module retainer kind",
    **{f"bands by {key}": f"{_ANY} generation interpreter" for key in ("generation", "interpreter")},
    "bands by producer": f"{_ANY} site producer-module lifetime",
    "bands by producer-module": f"{_ANY} site producer-module",
    "bands by size": f"{_ANY} site producer-module lifetime",
    "bands by lifetime": "",
    "bands by retainer": f"{_ANY} retainer",
    "bands by kind": f"{_ANY} kind",
    **{f"census by {key}": f"{_ANY} generation interpreter" for key in COUNTS},
    **{
        f"census by {key}": f"{_ANY} site producer-module lifetime"
        for key in ("producer", "producer-module", "handler", "size")
    },
    "census by lifetime": "",
    "census by retainer": "type module kind retainer",
    "census by kind": f"{_ANY} kind retainer",
    "retainers by type": f"{_ANY} kind retainer retained",
    "retainers by new": f"{_ANY} kind retainer retained",
    "retainers by kind": f"{_ANY} kind retainer",
    "retainers by retainers": f"{_ANY} kind retainer",
    "retainers by path": "type module kind retainer",
    "retainers by site": "type module kind retainer",
    "gc by collection": "generation",
    "gc by generation": "generation",
    "gc by phase": "",
    "lifetimes by type": "type module",
    "lifetimes by site": "site",
    "lifetimes by size": "",
    "lifetimes by lifetime": "",
    "lifetimes by age": "",
}
"""What goes together; nothing else does."""


def checks() -> dict[str, Check]:
    found: dict[str, Check] = {}
    for key in TITLES:
        found[f"bands by {key}"] = lambda where, key=key: BandsView._origin(Level(key, where))  # type: ignore[misc]
    for key in COUNTS:
        found[f"census by {key}"] = lambda where, key=key: where.allow(COUNTED, f"Counts by {key}")  # type: ignore[misc]
    for key in sampled_report.REPORTS:
        found[f"census by {key}"] = lambda where, key=key: sampled_report.check_filter(key, where)  # type: ignore[misc]
    for key in retained.KNOWN:
        found[f"census by {key}"] = lambda where, key=key: retained.check_filter(key, where)  # type: ignore[misc]
    for level in dict.fromkeys((*TOP, *INNER)):
        found[f"retainers by {level}"] = partial(RetainerLevel(key=level).admit, types=[])
    for key in gc.KEYS:
        found[f"gc by {key}"] = lambda where, key=key: gc.check_filter(key, where)  # type: ignore[misc]
    for key in lifetimes.KEYS:
        found[f"lifetimes by {key}"] = lambda where, key=key: lifetimes.check_filter(key, where)  # type: ignore[misc]
    return found


CHECKS = checks()


def test_every_band_is_in_the_matrix() -> None:
    assert CHECKS.keys() == WORKS.keys()
    assert all(set(names.split()) <= RESTRICTIONS.keys() for names in WORKS.values())


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("attribute", RESTRICTIONS)
def test_a_pair_works_or_says_why_not(name: str, attribute: str) -> None:
    where = parse_filter(RESTRICTIONS[attribute])
    if attribute in WORKS[name].split():
        CHECKS[name](where)
        CHECKS[name](parse_filter(f"{where} {where}" if attribute not in ("lifetime", "retainer") else f"{where}"))
        return
    with pytest.raises(UsageError) as caught:
        CHECKS[name](where)
    error = caught.value
    assert re.fullmatch(r"\S.* (have no|go together|know) ?.*\.", error.message), error.message
    assert attribute in error.message
    assert re.fullmatch(r"[A-Z].*\.", error.why), error.why
    assert error.fix.endswith(".")
    said = f"{error.message} {error.why}".lower()
    view, _, key = name.partition(" by ")
    figures = {"gc": "collections"}.get(view, "counts"), {"new": "types"}.get(key, key.removesuffix("s"))
    assert any(word in said for word in (view, *figures)), "the other side is named too"


@pytest.mark.parametrize("name", [name for name, works in WORKS.items() if "type" in works.split()])
def test_alternatives_of_what_a_band_knows_work(name: str) -> None:
    CHECKS[name](parse_filter("type:Session or !(module:shop type:/x$/)"))


@pytest.mark.parametrize("name", ["census by kind", "retainers by type", "retainers by path"])
@pytest.mark.parametrize("text", ["retainer:a or type:b", "!retainer:a", "retainer:a retainer:b"])
def test_what_a_snapshot_cannot_be_asked_is_refused(name: str, text: str) -> None:
    with pytest.raises(UsageError, match="accept one retainer term") as caught:
        CHECKS[name](parse_filter(text))
    assert "reports what a set of retainers keeps" in caught.value.why


@pytest.mark.parametrize("name", ["census by retainer", "retainers by retainers"])
def test_retainer_sets_are_filtered_by_any_tree_of_what_they_know(name: str) -> None:
    CHECKS[name](parse_filter("(retainer:a or !retainer:b type:Session) kind:frame"))
    with pytest.raises(UsageError, match="do not accept kind and retainer under one 'or'"):
        CHECKS[name](parse_filter("retainer:a or kind:frame"))
