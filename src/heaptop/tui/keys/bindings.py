"""Tables of keys: bindings, footers, help pages and the palette are made from them.

``action`` names a method ``action_…`` of the screen that has the key, of the view that it shows, or of one of its
controllers. A key that one view alone has is with that view (``View.KEYS``); :func:`live_keys` joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Key:
    """One line of the table."""

    keys: str  # Textual's names, separated by commas
    shown: str  # As help and footer write it, in ASCII
    action: str
    description: str
    group: str
    footer: str = ""  # Its word in the footer; empty where the footer has no room for it
    click: str = ""  # The action of a click on that word, where it is not the key's own: of several keys with one word
    everywhere: bool = False
    """Works on every screen and while a text is being typed: a binding of the app, not of one screen."""
    word: str = ""  # Its word in the footers of views that offer it by name: offered()
    otherwise: str = ""  # Shown where the key does nothing: on views that do not offer it

    @property
    def name(self) -> str:
        """The action without its arguments."""
        return self.action.partition("(")[0]

    @property
    def id(self) -> str:
        """What Textual's keymap knows it by."""
        return f"{self.keys} {self.action}"

    @property
    def binding(self) -> Binding:
        return Binding(
            self.keys,
            self.action,
            self.footer or self.description,
            show=bool(self.footer),
            key_display=self.shown,
            priority=self.everywhere,
            id=self.id,
        )


_MOVE: Final = (
    Key("down,j", "j", "row(1)", "down (arrow too)", "Move"),
    Key("up,k", "k", "row(-1)", "up (arrow too)", "Move"),
    Key("left,h", "h", "shift(-8)", "scroll names left", "Move"),
    Key("right,l", "l", "shift(8)", "scroll names right", "Move"),
    Key("pagedown", "PgDn", "page(1)", "a page down", "Move"),
    Key("pageup", "PgUp", "page(-1)", "a page up", "Move"),
    Key("g", "gg", "top_prefix", "first row", "Move"),
    Key("home", "Home", "top", "first row", "Move"),
    Key("G,end", "G", "bottom", "last row", "Move"),
)
_FIND: Final = (
    Key("colon,ctrl+p", ":", "palette", "every command by name", "heaptop"),
    Key("question_mark", "?", "help", "help: this page", "heaptop", "help"),
)
_EVERYWHERE: Final = (
    Key("ctrl+c,ctrl+q", "ctrl+c", "leave", "the same, from anywhere", "heaptop", everywhere=True),
    Key("ctrl+z", "ctrl+z", "suspend", "suspend heaptop; fg resumes", "heaptop", everywhere=True),
    Key("ctrl+l", "ctrl+l", "redraw", "redraw the screen", "heaptop", everywhere=True),
)
"""Keys that every screen with a table has."""

QUESTION: Final = "Question"
"""The group of keys that answer what a person is asked; while nothing is asked, they may do something else."""

_LOOK: Final = (
    Key("left_square_bracket", "[", "next_view(-1)", "previous view", "Views"),
    Key("right_square_bracket", "]", "next_view(1)", "next view", "Views"),
    Key("minus", "-", "last_view", "last view shown", "Views"),
    Key("b", "b", "cycle_key", "group by type, module, ...", "View", "group", otherwise="no other grouping here"),
    Key("v", "v", "variant", "switch layout: tree, icicle", "View", "layout", otherwise="no other layout here"),
    Key("slash", "/", "filter", "filter as you type", "View", "filter"),
    Key(
        *("enter", "Enter", "drill", "open this row", "View", "open"),
        otherwise="nothing more inside this row",
    ),
    Key("escape,backspace", "Esc", "back", "back one level, drop filter", "View"),
    Key("w", "w", "why", "what keeps this row alive", "View", "why", otherwise="no row here has retainers"),
    Key("space", "Space", "pause", "pause the display only", "View", "pause"),
    Key("r", "r", "rate", "sampling rate, or off", "Census and sampling", "rate"),
    Key("R", "R", "depth", "frames per stack; retainers: N", "Census and sampling"),
    Key("c", "c", "census", "take a census now", "Census and sampling", "census"),
    Key("o", "o", "snapshot", "take a new snapshot", "Snapshot", word="snapshot"),
    Key("x", "x", "shut", "close snapshot, or cancel", "Snapshot", word="close"),
    Key("m", "m", "mark", "mark, and check what is new", "Snapshot", word="mark"),
    Key("d", "d", "look", "check what is new, no mark", "Snapshot", word="check"),
    Key("M", "M", "mark_named", "named mark; may collect first", "Snapshot", word="name"),
)
_TABLE: Final = (
    Key("V", "V", "values", "show values (asks first)", "Snapshot", word="values"),
    Key("less_than_sign", "<", "sort_column(-1)", "sort: column to the left", "Table", "sort"),
    Key("greater_than_sign", ">", "sort_column(1)", "sort: column to the right", "Table", "sort"),
    Key("i", "i", "invert", "reverse the order", "Table", "reverse"),
    Key("f", "f", "follow", "follow this row", "Table", "follow"),
    Key("p", "p", "pin", "pin this row to the top", "Table"),
    Key("n", "n", "match(1)", "next match of the last filter", "Table"),
    Key("N", "N", "match(-1)", "previous match", "Table"),
    Key("y", "y", "copy", "copy this row", "Table", "copy"),
    Key("s", "s", "save", "save the table or screen", "Table", "save"),
    Key("y", "y", "answer(True)", "yes", QUESTION, "allow"),
    Key("n", "n", "answer(False)", "no", QUESTION, "decline"),
)

HEAPTOP: Final = (
    *_FIND,
    Key("q", "q", "leave", "detach and quit", "heaptop", "quit"),
    Key("ctrl+r", "ctrl+r", "record", "start or stop recording", "heaptop"),
    *_EVERYWHERE,
)
"""Keys of the live screen that no view needs."""


def view_key(number: int, name: str, title: str, about: str) -> Key:
    """The key of a view: its number, or 0 for the tenth."""
    digit = str(number % 10)
    return Key(digit, digit, f"view({name!r})", f"{title}: {about}", "Views", "views", "next_view(1)", word=title)


def live_keys(views: Iterable[Key], own: Iterable[Key]) -> tuple[Key, ...]:
    """Keys of the live screen: those of its views' numbers, and those that only some views have, among the others of
    their groups."""
    groups = grouped((*views, *_LOOK, *own, *_TABLE, *_MOVE, *HEAPTOP))
    return tuple(key for keys in groups.values() for key in keys)


RECORDING: Final = (
    Key("comma", ",", "step(-1)", "one step back", "Recording", "step", "step(1)"),
    Key("full_stop", ".", "step(1)", "one step forward", "Recording", "step", "step(1)"),
    Key("left_parenthesis", "(", "tenths(-1)", "a tenth back", "Recording", "tenth", "tenths(1)"),
    Key("right_parenthesis", ")", "tenths(1)", "a tenth forward", "Recording", "tenth", "tenths(1)"),
    Key("n", "n", "jump(1)", "next jump of heap or RSS", "Recording", "jump", "jump(1)"),
    Key("N", "N", "jump(-1)", "previous jump", "Recording", "jump", "jump(1)"),
    Key("T", "T", "moment", "go to a time: +90m, -1h, 02:13", "Recording", "time"),
)
"""Keys of the live screen that only a recording has."""

SEVERAL: Final = (
    Key("tab", "Tab", "tab(1)", "next process", "Several processes", "process", "tab(1)"),
    Key("shift+tab", "S-Tab", "tab(-1)", "previous process", "Several processes"),
)
"""Keys of the live screen that it has where several processes are attached to."""

PICKER: Final = (
    Key("enter", "Enter", "attach", "attach, or show what prevents it", "Processes", "attach"),
    Key("a", "a", "attach_group", "attach to it and its children", "Processes", "with children"),
    Key("slash", "/", "filter", "filter as you type", "Processes", "filter"),
    Key("escape,backspace", "Esc", "back", "drop the filter", "Processes"),
    Key("less_than_sign", "<", "sort_column(-1)", "sort: column to the left", "Processes", "sort"),
    Key("greater_than_sign", ">", "sort_column(1)", "sort: column to the right", "Processes", "sort"),
    Key("i", "i", "invert", "reverse the order", "Processes", "reverse"),
    Key("r", "r", "reload", "refresh the list", "Processes", "refresh"),
    *_MOVE,
    *_FIND,
    Key("q", "q", "leave", "quit", "heaptop", "quit"),
    *_EVERYWHERE,
)
"""Keys of the process picker."""


_TYPING: Final = (
    Key("enter", "Enter", "take_text", "", "Typing"),
    Key("escape", "Esc", "drop_text", "", "Typing"),
    Key("ctrl+c,ctrl+q", "ctrl+c", "leave", "quit", "heaptop", "quit", everywhere=True),
)
"""While a text is typed; the field itself has them."""


def typing_keys(take: str, drop: str) -> tuple[Key, ...]:
    """What keys do while a text is typed, in the words of what it is for; no ``take`` where that does nothing."""
    words = {"take_text": take, "drop_text": drop}
    keys = [replace(key, footer=word, description=word) for key in _TYPING if (word := words.get(key.action, "quit"))]
    return tuple(keys)


def bindings(table: Iterable[Key], *, everywhere: bool = False) -> list[BindingType]:
    """The table as Textual takes it: the keys of one screen, or those that work everywhere."""
    return [key.binding for key in table if key.everywhere == everywhere]


def offered(table: Sequence[Key], actions: Sequence[str]) -> tuple[Key, ...]:
    """Of the keys of the live screen those for the footer of one view: the views, these actions in their order,
    copying, saving, help and leaving.

    ``action=word`` is an action with a word of this view's own."""
    by_action = {key.action: key for key in reversed(table)}
    keys = [key for key in table if key.group == "Views"]
    for each in (*actions, "copy", "save", "help", "leave"):
        action, _, word = each.partition("=")
        key = by_action[action]
        keys.append(replace(key, footer=word or key.footer or key.word))
    return tuple(keys)


def grouped(table: Iterable[Key]) -> dict[str, list[Key]]:
    """The lines of each group, in the table's order."""
    groups: dict[str, list[Key]] = {}
    for key in table:
        groups.setdefault(key.group, []).append(key)
    return groups
