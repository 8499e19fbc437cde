"""What rows of view 3 represent and open, without a screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.snapshot.retaining import RetainerRow
from heaptop.protocol.images import ObjectRow, Unit
from heaptop.protocol.messages import TypeName
from heaptop.tui.views.retainers.retainer_finder import Finder
from heaptop.tui.views.retainers.retainer_levels import MOST_LINKS, RetainersLevel
from heaptop.tui.views.retainers.retainer_rows import level_inside, retainer_of, shown_more, subject_of, tag_of
from heaptop.tui.views.retainers.retainer_sheets import ObjectLine

TYPES = [TypeName("app", "Session")]
CACHE = Unit("module app .cache", 0, 64)
OBJECT = ObjectRow(4096, 0, 100, 200, 0, 0, -1, 0)


def row(**facts: object) -> RetainerRow:
    return replace(RetainerRow("key", "app.Session", 3, 300), **facts)


def test_a_type_opens_the_paths_of_its_objects() -> None:
    inner = level_inside(row(), RetainersLevel(where=parse_filter("size>1MB type:Session")), Finder())
    assert isinstance(inner, RetainersLevel)
    assert (inner.key, inner.subject.types, inner.where.text) == ("path", ("app.Session",), "type:Session")


def test_a_retainer_set_opens_what_its_only_member_keeps_or_its_members() -> None:
    level = RetainersLevel(key="retainers")
    one = level_inside(row(units=(CACHE,)), level, Finder())
    assert isinstance(one, RetainersLevel)
    assert (one.retainers, one.key) == ((64,), "path")
    two = level_inside(row(units=(CACHE, CACHE)), level, Finder())
    assert isinstance(two, RetainersLevel)
    assert two.what == "units"
    assert isinstance(level_inside(row(many=True), level, Finder()), str), "says what to do"
    assert level_inside(row(units=(CACHE,), left_out=True), level, Finder()) is None


def test_an_object_opens_itself_and_not_the_one_that_is_shown() -> None:
    inner = level_inside(OBJECT, RetainersLevel(what="objects"), Finder())
    assert isinstance(inner, RetainersLevel)
    assert inner.address == 4096
    line = ObjectLine("k", "text", address=4096, what="step")
    assert level_inside(line, inner, Finder()) is None


def test_more_references_are_shown_once_and_then_the_limit_is_named() -> None:
    more = ObjectLine("k", "… more", what="more")
    level = shown_more(more, RetainersLevel(what="object"), "bytes")
    assert level is not None
    assert level.links == MOST_LINKS
    assert shown_more(more, level, "bytes") is None
    assert level_inside(more, level, Finder()) == f"no more than {MOST_LINKS:,} are shown"


def test_only_what_can_be_a_retainer_is_excluded() -> None:
    assert retainer_of(row(units=(CACHE,))) == (CACHE.label, 64)
    assert retainer_of(replace(CACHE, several=True)) == (CACHE.label, 64), "all that read alike"
    assert retainer_of(OBJECT) is None
    finder = Finder()
    assert finder.exclude("module app .cache", 64)
    assert finder.left_out == (64,)
    assert finder.exclude("module app .cache", 64)
    assert finder.left_out == ()
    assert not finder.exclude("unknown", 0)


def test_the_subject_of_an_object_is_its_type_and_its_tag_has_both() -> None:
    subject = subject_of(OBJECT, RetainersLevel(what="objects"), TYPES)
    assert subject is not None
    assert subject.types == ("app.Session",)
    assert tag_of(OBJECT, TYPES) == "app.Session 0x1000"
    assert tag_of(CACHE, TYPES) == CACHE.label


@pytest.mark.parametrize(("where", "keeps"), [("type:Session", True), ("retained>1MB", False)])
def test_another_key_keeps_a_filter_that_goes_together_with_its_rows(where: str, keeps: bool) -> None:
    level = RetainersLevel(where=parse_filter(where)).shown_by("path", TYPES, is_top=True)
    assert level.where == (parse_filter(where) if keeps else EVERYTHING)
    inner = RetainersLevel(key="path", as_list=True, title="app.Session").shown_by("kind", TYPES, is_top=False)
    assert (inner.key, inner.as_list, inner.title) == ("kind", False, "app.Session"), "of the same objects"
