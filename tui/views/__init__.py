"""The registry of views: one line a view, in the order of `[` and `]`. A new view is a module and a line here."""

from __future__ import annotations

from typing import Final

from heaptop.tui.views.bands import BandsView
from heaptop.tui.views.base import View

VIEWS: Final[dict[str, type[View]]] = {
    BandsView.NAME: BandsView,
}
