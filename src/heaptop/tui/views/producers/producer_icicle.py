"""The icicle of view 2: names and colours of its boxes, the text for one, and the table beside it.

Sums come from :class:`~heaptop.analysis.callers.call_paths.Amounts`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from heaptop.analysis.callers.call_paths import Amounts, Measure
from heaptop.analysis.callers.producer_table import ProducerTables
from heaptop.analysis.text.units import format_bytes
from heaptop.tui.charts.icicle import BoxStyle
from heaptop.tui.charts.icicle_table import IcicleColumns
from heaptop.tui.charts.palette import REST_SLOT
from heaptop.tui.views.producers.producer_sheets import KnownBlocks, handed_on, seen, spread, title_of, whole
from heaptop.tui.widgets.icicle_chart import IcicleScene

SLOTS: Final = 10  # Colours of the user's own modules; all libraries have one together


class BoxStyles:
    """A function's name, and the colour of its module, which stays the same."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._styles: dict[int, BoxStyle] = {}
        self._tables: ProducerTables | None = None

    def of(self, tables: ProducerTables, function: int) -> BoxStyle:
        if tables is not self._tables:
            self._tables = tables
            self._styles.clear()
        style = self._styles.get(function)
        if style is None:
            slot = REST_SLOT
            if tables.is_user(function):
                slot = self._slots.setdefault(tables.module(function), len(self._slots) % SLOTS)
            style = self._styles[function] = BoxStyle(tables.function(function), slot)
        return style


def icicle_scene(
    amounts: Amounts,
    measure: Measure,
    style: Callable[[int], BoxStyle],
    approximate: frozenset[int],
    known: KnownBlocks,
) -> IcicleScene:
    """``style``: of a function. ``approximate``: the types that free lists hand on."""
    about = "" if known is KnownBlocks.TRACED else "≈"
    title = f"{'all samples' if about else 'everything'} {about}{format_bytes(whole(amounts.total(0, measure)))}"
    figures = box_figures(amounts, measure, approximate, known=known)
    detail = partial(box_words, amounts, measure, about, approximate)
    return IcicleScene(amounts, measure, style, title, detail, figures)


def box_words(amounts: Amounts, measure: Measure, about: str, approximate: frozenset[int], node: int) -> str:
    """Words about one box. ``about``: in front of estimates; empty where figures are exact."""
    mine, all_of_it = amounts.total(node, measure), amounts.total(0, measure) or 1
    above = amounts.total(amounts.paths.parents[node], measure) or 1
    live = amounts.live([node]).estimate(amounts.missed) if measure == "live" and about else None
    unsure = f" {spread(live)}" if live is not None else ""
    own = amounts.own(node, measure)
    itself = f" ({format_bytes(whole(own))} itself)" if own else ""
    parts = f", {mine / above:.1%} of its caller's, {mine / all_of_it:.1%} of all" if node else ""
    mark = handed_on(partial(amounts.total, node), approximate) if measure == "live" else ""
    return f"{measure} {mark or about}{format_bytes(whole(mine))}{unsure}{itself}{parts}"


def box_figures(
    amounts: Amounts, measure: Measure, approximate: frozenset[int], *, known: KnownBlocks
) -> IcicleColumns:
    """Of the boxes of an icicle: with all they call, by themselves, of their caller and of all."""
    is_live = measure == "live"
    has_error = is_live and "error" not in known.value
    errors = [("±", 6)] if has_error else []
    headings = ("≈Live" if is_live else "≈Alloc'd", 9), *errors, ("≈Self", 9), ("≈Part", 6), ("≈Share", 7)
    whole_of_it = amounts.total(0, measure) or 1

    def of(node: int) -> tuple[str, ...]:
        mine, own = amounts.total(node, measure), amounts.own(node, measure)
        above = amounts.total(amounts.paths.parents[node], measure) or 1
        mark = handed_on(partial(amounts.total, node), approximate) if is_live else ""
        cells = [mark + seen(mine), seen(own) if own else "", f"{mine / above:.1%}", f"{mine / whole_of_it:.1%}"]
        if has_error:
            cells.insert(1, spread(amounts.live([node]).estimate(amounts.missed)))
        return tuple(cells)

    return IcicleColumns(tuple((title_of(title, known), width) for title, width in headings), of)
