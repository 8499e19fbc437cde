"""Copy and save what the screen shows: a row to the clipboard, the table or the screen as it is seen to a file.

:mod:`heaptop.tui.state.saving` writes it. Nothing is copied or saved that the screen does not show.
"""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import TYPE_CHECKING

from heaptop.analysis.text.recorded_times import RecordedSpan, utc
from heaptop.errors import HeaptopError, UsageError
from heaptop.protocol.text import printable
from heaptop.tui.state.control.prompts import Prompt
from heaptop.tui.state.saving import MOST_COPIED, SCREENS, TABLES, SavedTable, ending_of, file_name, table_text, write
from heaptop.tui.state.sheet import WIDE
from heaptop.tui.terminal.drawn import drawn_lines
from heaptop.tui.widgets.header import Header

if TYPE_CHECKING:
    from heaptop.tui.screens.live import LiveScreen


class SavingControl:
    """Copies and saves what one screen shows."""

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen

    def action_copy(self) -> str:
        """To the clipboard of the terminal, wherever that is: it takes what OSC 52 brings."""
        text = "" if self._screen.state.paneled else self._screen.view.copied
        size = len(text.encode("utf-8", "replace"))
        if not text:
            return "there is no row to copy"
        if size > MOST_COPIED:
            return f"{size:,} bytes are more than a terminal's clipboard takes: s saves them"
        self._screen.app.copy_to_clipboard(text.encode("utf-8", "replace").decode())
        return f"copied {len(text):,} character{'s' * (len(text) != 1)}, if the terminal takes OSC 52"

    def action_save(self) -> None:
        """Ask for the name of a file first."""
        if not self._screen.state.paneled:
            self._screen.state.prompts.ask(FilePrompt(self), self.proposed_name)

    @property
    def proposed_name(self) -> str:
        """Of a file for what is shown."""
        screen = self._screen
        ending = TABLES[0] if screen.view.page is not None else SCREENS[0]
        return file_name(screen.session.target.pid, screen.view.NAME, time(), ending)

    def save(self, name: str) -> Callable[[], object]:
        """Write the table; of a screen only the name is examined, the rest follows once that is no longer seen.

        Raises:
            HeaptopError: it cannot be written under this name.
        """
        if self._screen.heaptop.read_only:
            raise UsageError("This page is read-only: nothing is saved on the server.", fix="")
        ending = ending_of(name)
        page = self._screen.view.page if ending in TABLES else None
        if page is not None:
            write(name, table_text(page, self._about(page), ending))
            saved = f"saved {len(page.rows):,} row{'s' * (len(page.rows) != 1)} in {name}"
            return lambda: self._screen.outcome(saved)
        if ending in TABLES:
            raise UsageError("There is no table here: use .txt or .svg", fix="")
        # The first refresh lays the screen out without the field, the second one draws that.
        refreshed = self._screen.call_after_refresh
        return lambda: refreshed(refreshed, self._save_screen, name, ending)

    def _save_screen(self, name: str, ending: str) -> None:
        screen = self._screen
        try:
            is_picture = ending == ".svg"
            write(name, screen.app.export_screenshot() if is_picture else "\n".join(drawn_lines(screen)) + "\n")
        except HeaptopError as error:
            screen.outcome(error.message)
        else:
            screen.outcome(f"saved the screen in {name}")

    def _about(self, page: SavedTable) -> list[tuple[str, str]]:
        """What must be known of a table that is examined elsewhere: all words around it on the screen."""
        screen = self._screen
        header = screen.query_one(Header)
        shown = screen.state.display.shown
        left, right = screen.words
        about = [
            ("heaptop", left),
            ("saved", utc(time())),
            ("moment", utc(RecordedSpan.of(shown).at(shown.time_ns).timestamp()) if shown is not None else ""),
            ("filter", str(screen.view.where)),
            ("screen", "  ".join(header.render_line(line).text for line in range(header.size.height))),
            ("note", screen.note),
            ("shown", right),
            ("remark", screen.help_page.first),
            ("missing", f"{page.missing:,} rows not loaded yet" if page.missing else ""),
            ("columns shown", "those of this narrow screen; a wider one has more" if screen.size.width < WIDE else ""),
        ]
        return [(name, " ".join(text.split())) for name, text in about if text]


class FilePrompt(Prompt):
    """The name of the file that is saved."""

    LABEL = " save as"
    PLACEHOLDER = f"a file name that ends in {', '.join(TABLES)}, {' or '.join(SCREENS)}"
    TAKE = "save"
    DROP = "cancel"

    def __init__(self, saving: SavingControl) -> None:
        self._saving = saving

    def accepted(self, text: str) -> Callable[[], object]:
        return self._saving.save(printable(text.strip()))
