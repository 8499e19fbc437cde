"""Other keys: no key means two things, and nothing loses its last key."""

from __future__ import annotations

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from heaptop.tui.keys.bindings import QUESTION, Key
from heaptop.tui.keys.remapping import WrongKey, check, keymap, shown_as, textual_name
from heaptop.tui.views import SCREENS

ROWS = [key for table in SCREENS for key in table]
FREE = [key.shown for key in ROWS if not key.everywhere and key.group != QUESTION]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("x", "x"),
        ("X", "X"),
        ("7", "7"),
        ("/", "slash"),
        ("<", "less_than_sign"),
        ("-", "minus"),
        ("ö", "ö"),
        ("ctrl+x", "ctrl+x"),
        ("Ctrl+X", "ctrl+x"),
        ("F5", "f5"),
        ("Space", "space"),
        ("PageUp", "pageup"),
        ("", None),
        (" ", None),
        ("\t", None),
        ("xx", None),
        ("hyper+x", None),
        ("<any>", None),
    ],
)
def test_keys_as_a_person_writes_them(key: str, name: str | None) -> None:
    assert textual_name(key) == name


def test_the_table_writes_its_own_keys_so_too() -> None:
    for row in ROWS:
        if len(row.shown) == 1:
            assert textual_name(row.shown) in row.keys.split(","), row.shown


def test_no_screen_shows_a_key_twice_but_one_that_answers_a_question_or_jumps_in_a_recording() -> None:
    for table in SCREENS:
        shown = [key.shown for key in table if key.group not in {QUESTION, "Recording"}]
        jumps = [key.shown for key in table if key.group == "Recording"]
        ids = [key.id for key in table]
        assert len(shown) == len(set(shown))
        assert len(jumps) == len(set(jumps))
        assert not {"n", "N"}.symmetric_difference({*shown} & {*jumps}) or not jumps, "in a recording these two jump"
        assert len(ids) == len(set(ids))


def keys_of(shown: str, wanted: dict[str, tuple[str, ...]]) -> list[str]:
    """In the first screen that has it."""
    row = next(key for key in ROWS if key.shown == shown)
    return keymap(wanted, SCREENS).get(row.id, row.keys).split(",")


def test_what_is_asked_for_comes_on_top() -> None:
    wanted = {"q": ("ctrl+x", "F9"), "/": ("ctrl+f",)}
    check(wanted, SCREENS)
    assert keys_of("q", wanted) == ["ctrl+x", "f9", "q"]
    assert keys_of("/", wanted) == ["ctrl+f", "slash"]
    assert keys_of("j", wanted) == ["down", "j"]
    assert shown_as(wanted) == {"q": "ctrl+x", "/": "ctrl+f"}


def test_two_keys_can_change_places() -> None:
    wanted = {"m": ("d",), "d": ("m",)}
    check(wanted, SCREENS)
    assert keys_of("m", wanted) == ["d"]
    assert keys_of("d", wanted) == ["m"]


def test_a_key_with_another_name_can_be_given_away() -> None:
    wanted = {"1": ("j",)}
    check(wanted, SCREENS)  # the arrow still goes down
    assert keys_of("j", wanted) == ["down"]
    assert keys_of("1", wanted) == ["j", "1"]


@pytest.mark.parametrize(
    ("wanted", "shown", "said"),
    [
        ({"Q": ("x",)}, "Q", "the help page shows no key `Q`"),
        ({"space": ("ctrl+x",)}, "space", "did you mean `Space`?"),
        ({"q": ("hyper+x",)}, "q", "`hyper+x` is not a key"),
        ({"q": ("ctrl+c",)}, "q", "`ctrl+c` cannot be given to `q`: it quits"),
        ({"q": ("y",)}, "q", "`y` cannot be given to `q`: it answers questions"),
        ({"q": ("ctrl+z",)}, "q", "it suspends heaptop"),
        ({"q": ("ctrl+i",)}, "q", "a terminal sends it for Tab"),
        ({"ctrl+c": ("x",)}, "ctrl+c", "quitting must always be possible"),
        ({"y": ("ctrl+y",)}, "y", "it answers questions"),
        ({"q": ("ctrl+x",), "b": ("F2", "ctrl+x")}, "b", "`ctrl+x` is given to `q` too"),
        ({"q": ("b",)}, "q", "`b` is given to `q`, but it is the key for: group by type, module, ..."),
        ({"b": ("r",), "r": ("F2",), "/": ("q",)}, "/", "`q` is given to `/`, but it is the key for: "),
        ({"T": ("b",)}, "T", "`b` is given to `T`, but it is the key for: "),
    ],
)
def test_what_cannot_be_had_is_said(wanted: dict[str, tuple[str, ...]], shown: str, said: str) -> None:
    with pytest.raises(WrongKey) as caught:
        check(wanted, SCREENS)
    assert caught.value.shown == shown
    assert said in caught.value.said
    assert caught.value.allowed.endswith(".")


WANTED = st.dictionaries(
    st.sampled_from(FREE),
    st.lists(st.sampled_from([*"bdmqxXäQ7/<", "F1", "F2", "ctrl+x", "down", "Space"]), min_size=1, max_size=2),
    max_size=4,
)


@given(WANTED)
@example({"d": ["q"], "q": ["d"]})
def test_what_is_let_pass_leaves_every_key_one_meaning(wanted: dict[str, list[str]]) -> None:
    try:
        check(wanted, SCREENS)
    except WrongKey as error:
        event(error.said)
        return
    changed = keymap(wanted, SCREENS)
    for table in SCREENS:
        mapped: dict[str, list[str]] = {row.shown: changed.get(row.id, row.keys).split(",") for row in table}
        assert all(names and all(names) for names in mapped.values())
        everything = [name for names in mapped.values() for name in names]
        assert len(everything) == len(set(everything))
        for row in table:
            for key in wanted.get(row.shown, ()):
                assert textual_name(key) in mapped[row.shown]
            if row.everywhere or row.group == QUESTION:
                assert mapped[row.shown] == row.keys.split(",")


def test_a_row_of_the_table_is_known_by_its_keys_and_action() -> None:
    assert Key("a,b", "a", "leave", "", "x").binding.id == "a,b leave"
