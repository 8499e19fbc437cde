"""Limits that several modules share, and small functions on values that the program or a request may have made."""

from __future__ import annotations

from typing import Any

MAX_NAME = 512
MAX_PATHS = 256
MAX_WAITING = 16
"""Requests, and questions to a snapshot."""
NAMES_PER_MESSAGE = 2_000
BATCH = 256


def bounded(value: Any, default: int, low: int, high: int) -> int:
    return min(max(value, low), high) if type(value) is int else default


def joined(*reasons: str) -> str:
    return "; ".join([reason for reason in reasons if reason])


def texts(values: Any) -> list[str]:
    """Those that are plain strings, as short ones; an application may put anything into ``sys.path``."""
    if type(values) is not list and type(values) is not tuple:
        return []
    return [value[:MAX_NAME] for value in values if type(value) is str][:MAX_PATHS]


def take_all(rows: list[Any]) -> list[Any]:
    """Empty a list that other threads append to, and return what was in it. The list stays: a thread may have looked
    it up already, and append to it only after this."""
    found = rows[:]
    del rows[: len(found)]
    return found


def take_batch(queue: list[Any]) -> list[Any]:
    batch = queue[-BATCH:]
    del queue[-BATCH:]
    return batch


def text_field(s: Any, name: str) -> str:
    found = s.request.get(name)
    return found[:MAX_NAME] if type(found) is str else ""
