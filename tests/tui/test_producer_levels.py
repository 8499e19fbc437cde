"""Where keys and rows of view 2 lead, without a screen."""

from __future__ import annotations

import pytest

from heaptop.analysis.callers.producer_table import OlderThanSampling, ProducerGroup
from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.samples.estimate import Estimate
from heaptop.tui.views.producers.producer_levels import FigureShape, ProducersLevel
from heaptop.tui.views.producers.producer_sheets import KnownBlocks

ALL, TRACED = KnownBlocks.ALL, KnownBlocks.TRACED


@pytest.mark.parametrize("shape", [FigureShape.TREE, FigureShape.ICICLE])
def test_all_that_was_allocated_is_shown_only_where_it_is_known(shape: FigureShape) -> None:
    level = ProducersLevel(shape=shape).shown_by("allocated")
    assert (level.by, level.measure(ALL), level.measure(TRACED)) == ("allocated", "allocated", "live")
    assert [*level.bys(ALL)] == ["live", "allocated"]
    assert not level.bys(TRACED)
    assert not ProducersLevel(shape=FigureShape.STACKS).bys(ALL)


def test_a_table_sorted_by_what_was_allocated_becomes_a_tree_of_it() -> None:
    assert ProducersLevel().next_shape("live").chosen == "live"
    tree = ProducersLevel().next_shape("freed")
    assert (tree.shape, tree.chosen) == (FigureShape.TREE, "allocated")
    assert tree.next_shape("live").next_shape("live").shape is FigureShape.TABLE


def test_a_row_opens_its_stacks_and_a_module_its_sites() -> None:
    row = ProducerGroup("app.views", "app.views", 1, 0)
    stacks = ProducersLevel().inside(row)
    assert stacks is not None
    assert (stacks.shape, stacks.name) == (FigureShape.STACKS, "app.views")
    sites = ProducersLevel(key="module", where=parse_filter("type:Session")).inside(row)
    assert sites is not None
    assert (sites.key, sites.where.text) == ("site", "type:Session producer-module:=app.views")
    assert ProducersLevel().inside(OlderThanSampling("(no site)", Estimate(1, 0, 1, 1, 0))) is None


def test_what_a_filter_leaves_is_known_of_live_blocks_alone() -> None:
    for where in ("lifetime>1MB", "retainer:cache"):
        level = ProducersLevel(where=parse_filter(where))
        assert level.known(is_traced=False) is KnownBlocks.LIVE_BLOCKS
        assert level.known(is_traced=True) is TRACED
    assert ProducersLevel(where=parse_filter("type:Session")).known(is_traced=False) is ALL
