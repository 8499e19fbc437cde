"""The names and signatures that docs/api.md promises to keep are those of ``tests/data/api.txt``.

``HEAPTOP_UPDATE_GOLDENS=1`` writes that file anew. A line that goes or changes needs an entry in the changelog, and a
major version (before 1.0 a minor one); a new line needs a minor version.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from heaptop import api
from heaptop.api import aio
from heaptop.errors import all_errors

STORED = Path(__file__).resolve().parents[1] / "data" / "api.txt"


def public_names() -> Iterator[str]:
    """A line each: what a program may name."""
    for name in sorted(api.__all__):
        yield from _lines(f"api.{name}", getattr(api, name))
    for name, each in sorted(vars(aio).items()):
        is_its_own = getattr(each, "__module__", "") == aio.__name__
        if is_its_own and not name.startswith("_") and (inspect.isclass(each) or inspect.isfunction(each)):
            yield from _lines(f"aio.{name}", each)
    for error in sorted(all_errors(), key=lambda error: error.__name__):
        yield f"errors.{error.__name__}({', '.join(base.__name__ for base in error.__bases__)})"


def _lines(name: str, each: Any) -> Iterator[str]:
    if not inspect.isclass(each):
        yield name + _signature(each)
        return
    yield f"class {name}"
    attributes = {key: value for key, value in inspect.get_annotations(each).items() if "ClassVar" not in value}
    yield from (f"{name}.{key}: {value}" for key, value in attributes.items() if not key.startswith("_"))
    for key, value in sorted(vars(each).items()):
        if isinstance(value, property):
            yield f"{name}.{key}: {value.fget.__annotations__['return']}"
        elif inspect.isfunction(value) and not key.startswith("_"):
            yield f"{name}.{key}{_signature(value)}"
    yield from (f"{name}.{key}" for key in ("__iter__", "__enter__", "__aenter__") if key in vars(each))


def _signature(function: Callable[..., Any]) -> str:
    """Annotations are strings: without their quotes."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))


def test_public_names_and_signatures_are_those_that_were_promised() -> None:
    lines = [*public_names()]
    if os.environ.get("HEAPTOP_UPDATE_GOLDENS"):
        STORED.write_text("".join(f"{line}\n" for line in lines))
    assert lines == STORED.read_text().splitlines()


def test_every_class_in_a_signature_has_a_public_name() -> None:
    signatures = re.findall(r"(?:: |-> )(.+)", re.sub(r" = '[^']*'", "", "\n".join(public_names())))
    named = set(re.findall(r"\b[A-Z]\w+", " ".join(signatures)))
    others = {"Any", "AsyncIterator", "Callable", "False", "Iterator", "None", "Path", "PathLike", "Sequence"}
    assert named - others - {*api.__all__, *vars(aio)} == set()


def test_every_public_class_says_what_it_is() -> None:
    assert [name for name in api.__all__ if not inspect.getdoc(getattr(api, name))] == []
