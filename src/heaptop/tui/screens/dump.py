"""A heap dump or core file on the live screen: one moment of a heap, and no process.

What only a process could do is not offered, and the key that would do it reports why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from heaptop.protocol.source import HeapFile, Source
from heaptop.tui.keys.bindings import Key
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.state.session import AttachPhase
from heaptop.tui.state.snapshot_client import SnapshotStage
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.views.base import View
from heaptop.tui.views.leaks.view import LeaksView
from heaptop.tui.widgets.help_screen import HelpPage

_OPEN: Final = "a file is one snapshot, which stays open"
_ONE_MOMENT: Final = "a file shows one moment: `heaptop diff` compares two files"
_NO_SAMPLER: Final = "a file has no sampler to change"
LACKING: Final = {
    "snapshot": _OPEN,
    "mark": _ONE_MOMENT,
    "mark_named": _ONE_MOMENT,
    "look": _ONE_MOMENT,
    "rate": _NO_SAMPLER,
    "census": "a file has no process to take a census of",
    "record": "a file does not change: there is nothing to record",
    "pause": "a file does not change: there is nothing to pause",
}
"""Actions that need a process, and the message that is shown instead."""
_PARTLY: Final = frozenset({"shut"})
"""Not offered: what they would close stays open. They still cancel what takes long."""
_LEAKS: Final = f"view({LeaksView.NAME!r})"


class DumpScreen(LiveScreen):
    """The live screen of a file, without the view of what comes and stays."""

    KEYS: ClassVar[Sequence[Key]] = tuple(
        key for key in LIVE if key.name not in LACKING.keys() | _PARTLY and key.action != _LEAKS
    )
    LACKS: ClassVar[Mapping[str, str]] = LACKING
    SHOWN: ClassVar[Mapping[str, type[View]]] = {name: view for name, view in VIEWS.items() if view is not LeaksView}
    LEAVING = "quits"

    def __init__(self, source: Source, file: HeapFile, *, user_code: Sequence[str] = ()) -> None:
        super().__init__(source, way_back=False, user_code=user_code)
        self._file = file

    def _take_events(self) -> None:
        super()._take_events()
        if self.session.phase is AttachPhase.LIVE and self.client.stage is SnapshotStage.NONE:
            self.client.open()
            self.client.over = True  # there is no other one

    @property
    def _has_values(self) -> bool:
        return self._file.values == "all"

    def _known(self, keys: Sequence[Key]) -> Sequence[Key]:
        return keys if self._has_values else [key for key in keys if key.name != "values"]

    @property
    def _footer_keys(self) -> Sequence[Key]:
        known = {key.action for key in self.keys_now}
        return [key for key in super()._footer_keys if key.action in known]

    @property
    def keys_now(self) -> Sequence[Key]:
        return self._known(super().keys_now)

    def help_of(self, name: str) -> HelpPage:
        page = super().help_of(name)
        return replace(page, keys=self._known(page.keys))

    def action_view(self, name: str) -> None:
        if name in self.SHOWN:
            self.act("view", name)
        else:
            self.outcome(_ONE_MOMENT)

    def action_shut(self) -> None:
        if self.client.is_busy:
            self.act("shut")
        else:
            self.outcome(_OPEN)

    def action_values(self) -> None:
        if self._has_values:
            self.act("values")
        else:
            self.outcome(f"this {self._file.what} has no values of objects")

    def action_depth(self) -> None:
        if hasattr(self.view, "action_depth"):
            self.act("depth")
        else:
            self.outcome(_NO_SAMPLER)
