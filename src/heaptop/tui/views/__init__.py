"""The registry of views, and the keys that follow from it. A new view is a module and its place in :data:`VIEWS`."""

from __future__ import annotations

from typing import Final

from heaptop.tui.keys.bindings import PICKER, RECORDING, SEVERAL, live_keys, view_key
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
from heaptop.tui.views.waste.view import WasteView

_KINDS: Final[tuple[type[View], ...]] = (
    BandsView,
    ProducersView,
    RetainersView,
    LeaksView,
    HeapMapView,
    LifetimesView,
    SizesView,
    GcView,
    MemoryView,
    WasteView,
)
"""In the order of keys `[` and `]`."""
VIEWS: Final = {view.NAME: view for view in _KINDS}
LIVE: Final = live_keys(
    (view_key(view.NUMBER, view.NAME, view.TITLE, view.ABOUT) for view in _KINDS),
    (key for view in _KINDS for key in view.KEYS),
)
"""Keys of the live screen."""
SCREENS: Final = ((*LIVE, *RECORDING, *SEVERAL), PICKER)  # Keys that a person has at the same time
