"""Other keys for what the binding table offers: as a person's ``heaptop.toml`` asks for them.

A key is named as the help page shows it. What is asked for comes on top: the key itself continues working, so that a
sentence which names it stays true, unless another line gives it away. Made here are Textual's keymap, and the keys as
the screens show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final
from unicodedata import name

from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from heaptop.tui.keys.bindings import QUESTION, Key

Tables = Sequence[Sequence[Key]]
"""In each the keys that a person has at the same time; one of them must not mean two things."""

Wanted = Mapping[str, Sequence[str]]
"""For a key as it is shown, the keys that are to do the same, as a person writes them."""

_NAMED: Final = frozenset(key.value for key in Keys if key.value[0] != "<")
_NEVER: Final = {
    "ctrl+z": "it suspends heaptop",
    "ctrl+h": "a terminal sends it for Backspace",
    "ctrl+i": "a terminal sends it for Tab",
    "ctrl+m": "a terminal sends it for Enter",
}


class WrongKey(Exception):
    """What is wrong with the line for ``shown``: ``said`` without a full stop, and what is allowed."""

    def __init__(self, shown: str, said: str, allowed: str) -> None:
        super().__init__(said)
        self.shown, self.said, self.allowed = shown, said, allowed


def textual_name(key: str) -> str | None:
    """``slash`` for ``/``, ``ctrl+x`` for itself; None for what is no key."""
    if len(key) == 1:
        return _character_name(key) if key.isprintable() and key != " " else None
    lower = key.lower()
    return lower if lower in _NAMED else None


def _character_name(key: str) -> str:
    """As Textual names what a terminal sends."""
    if key.isalnum():
        return key
    found = name(key, key).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(found, found)


def check(wanted: Wanted, tables: Tables) -> None:
    """Raise WrongKey where a line names a key that nobody shows, or asks for one that cannot be had."""
    listed = sorted((key for table in tables for key in table), key=_is_fixed)  # a fixed one stands for its namesakes
    rows = {key.shown: key for key in listed}
    for shown, keys in wanted.items():
        row = rows.get(shown)
        if row is None:
            near = get_close_matches(shown, rows, 1, 0.5)
            said = f"the help page shows no key `{shown}`" + (f"; did you mean `{near[0]}`?" if near else "")
            raise WrongKey(shown, said, f"It shows {' '.join(dict.fromkeys(rows))}.")
        if row.everywhere or row.group == QUESTION:
            why = "quitting must always be possible" if row.everywhere else "it answers questions"
            raise WrongKey(shown, f"the key `{shown}` cannot be given to another: {why}", "Leave this line out.")
        for key in keys:
            _check_key(shown, key, tables)
    _check_clashes(wanted, tables)


def _check_key(shown: str, key: str, tables: Tables) -> None:
    found = textual_name(key)
    if found is None:
        allowed = 'A key is one character, or written as "ctrl+x", "f5", "space", "pageup", "shift+up".'
        raise WrongKey(shown, f"`{key}` is not a key", allowed)
    taken = next((row for table in tables for row in table if _is_fixed(row) and found in row.keys.split(",")), None)
    if found in _NEVER or taken is not None:
        why = _NEVER.get(found) or ("it quits" if taken and taken.everywhere else "it answers questions")
        raise WrongKey(shown, f"`{key}` cannot be given to `{shown}`: {why}", "Choose another key.")


def _is_fixed(row: Key) -> bool:
    return row.everywhere or row.group == QUESTION


def _check_clashes(wanted: Wanted, tables: Tables) -> None:
    """A key may be asked for by one line only; and by none where what it did before has no other key then."""
    askers: dict[str, str] = {}
    for shown, keys in wanted.items():
        for key in keys:
            asker = askers.setdefault(textual_name(key) or "", shown)
            if asker != shown:
                raise WrongKey(shown, f"`{key}` is given to `{asker}` too", "A key can have one action only.")
    mapped = _mapped(wanted, tables)
    for row in (row for table in tables for row in table if not mapped[row.id]):
        taker = next(askers[each] for each in row.keys.split(",") if each in askers)
        key = next(key for key in wanted[taker] if textual_name(key) in row.keys.split(","))
        said = f"`{key}` is given to `{taker}`, but it is the key for: {row.description}"
        raise WrongKey(taker, said, f"Choose another key, or give `{row.shown}` another one too.")


def _mapped(wanted: Wanted, tables: Tables) -> dict[str, tuple[str, ...]]:
    """The keys of each row by its id. A row of several tables has those that are its own in all of them, as Textual
    knows it by its id alone."""
    found: dict[str, tuple[str, ...]] = {}
    for table in tables:
        here = {row.shown for row in table}
        for row in table:
            names = _keys_of(row, wanted, here)
            found[row.id] = tuple(name for name in found.get(row.id, names) if name in names)
    return found


def _keys_of(row: Key, wanted: Wanted, here: Iterable[str]) -> tuple[str, ...]:
    """Textual's names: what is asked for, then those of the row that no other row of its screen was given."""
    asked = [textual_name(key) or "" for key in wanted.get(row.shown, ())]
    given_away = {
        textual_name(key) for shown, keys in wanted.items() if shown != row.shown and shown in here for key in keys
    }
    return tuple(dict.fromkeys([*asked, *(each for each in row.keys.split(",") if each not in given_away)]))


def keymap(wanted: Wanted, tables: Tables) -> dict[str, str]:
    """For Textual: the keys of each row that is not as the table has it, by the row's id."""
    keys = {row.id: row.keys for table in tables for row in table}
    mapped = {id: ",".join(names) for id, names in _mapped(wanted, tables).items()}
    return {id: names for id, names in mapped.items() if names != keys[id]}


def shown_as(wanted: Wanted) -> dict[str, str]:
    """For the screens: how a key is written that they know by another name."""
    return {shown: keys[0] for shown, keys in wanted.items()}
