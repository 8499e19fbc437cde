"""The registry of views: one line a view, in the order of `[` and `]`. A new view is a module and a line here."""

from __future__ import annotations

from typing import Final

from heaptop.tui.views.bands.view import BandsView
from heaptop.tui.views.base import View
from heaptop.tui.views.gc.view import GcView
from heaptop.tui.views.heap_map.view import HeapMapView
from heaptop.tui.views.leaks.view import LeaksView
from heaptop.tui.views.lifetimes.view import LifetimesView
from heaptop.tui.views.memory.view import MemoryView
from heaptop.tui.views.producers.view import ProducersView
from heaptop.tui.views.retainers.view import RetainersView
from heaptop.tui.views.sizes.view import SizesView

VIEWS: Final[dict[str, type[View]]] = {
    BandsView.NAME: BandsView,
    ProducersView.NAME: ProducersView,
    RetainersView.NAME: RetainersView,
    LeaksView.NAME: LeaksView,
    HeapMapView.NAME: HeapMapView,
    LifetimesView.NAME: LifetimesView,
    SizesView.NAME: SizesView,
    GcView.NAME: GcView,
    MemoryView.NAME: MemoryView,
}
