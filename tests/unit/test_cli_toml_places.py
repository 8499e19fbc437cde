"""Where values stand in a TOML document, compared with what tomllib reads from it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.cli.toml_places import Path, places

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCUMENT = '''\
# a comment with = and [x]
theme = "light"  # theme = "no"
a.b . "c d" = 1
"quo\\u0074ed" = 'it''s'
user_code = [   # ] no end
  "one",
  ["two", { deep = 2 }],
]
text = """
rate = 1
[keys]
\\""" still
"""
when = 1979-05-27 07:32:00
lit = \'\'\'
keys = 1\'\'\'

[keys]
  "]" = "x"
rate = "ctrl+x"
inner = { rate = 5, x = [1, 2] }
[ keys . more ]
rate = 0

[[many]]
rate = 1
[[many]]
rate = 2
[many.sub]
rate = 3
'''.replace("'it''s'", "'its'")


def paths_of(value: Any, path: Path = ()) -> set[Path]:
    """Every path of what tomllib has read."""
    found = {path} if path else set()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        found |= paths_of(inner, (*path, name))
    return found


def test_it_finds_what_is_there_and_nothing_else() -> None:
    assert set(places(DOCUMENT)) == paths_of(tomllib.loads(DOCUMENT))


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        (("theme",), 2, 1),
        (("a", "b", "c d"), 3, 1),
        (("quoted",), 4, 1),
        (("user_code",), 5, 1),
        (("user_code", 0), 6, 3),
        (("user_code", 1, 1, "deep"), 7, 13),
        (("keys",), 18, 1),
        (("keys", "]"), 19, 3),
        (("keys", "rate"), 20, 1),
        (("keys", "inner", "rate"), 21, 11),
        (("keys", "more", "rate"), 23, 1),
        (("many", 0, "rate"), 26, 1),
        (("many", 1, "rate"), 28, 1),
        (("many", 1, "sub", "rate"), 30, 1),
    ],
)
def test_it_says_the_line_and_the_column(path: Path, line: int, column: int) -> None:
    assert places(DOCUMENT)[path] == (line, column)


def test_line_ends_of_windows_are_one_line_each() -> None:
    assert places("a = 1\r\n# x\r\nb = 2\r\n")[("b",)] == (3, 1)


def test_an_empty_document_has_no_places() -> None:
    assert places("") == places("# nothing\n\n") == {}


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=6)
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def written(value: Any) -> str:
    """A value in TOML: inline, as JSON but for the sign of a pair."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(name)} = {written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[\n# , ]\n" + ",\n".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.dictionaries(NAMES, VALUES, max_size=4))
def test_it_reads_as_tomllib_does(top: dict[str, Any], inner: dict[str, Any]) -> None:
    top = {name: value for name, value in top.items() if name != "table"}
    lines = [f"{written(name)} = {written(value)}" for name, value in top.items()]
    lines += ["[table]", *(f"{written(name)} = {written(value)}" for name, value in inner.items())]
    text = "\n".join(lines)
    found = places(text)
    assert set(found) == paths_of(tomllib.loads(text))
    for name in top:
        place = found[(name,)]
        assert text.split("\n")[place.line - 1][place.column - 1 :].startswith(f"{written(name)} = ")
