"""Where a view, a command and the header say the same thing, they say the same figure."""

from __future__ import annotations

import pytest

from heaptop.analysis.bands.report import census_json
from heaptop.analysis.bands.table import table
from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.heap.history import History
from heaptop.analysis.rss.memory import live_bytes
from heaptop.protocol.messages import Census, Row, TypeName, Types


def history(hidden: int) -> History:
    history = History()
    history.feed(Types(0, (TypeName("app", "Session"), TypeName("builtins", "dict"))))
    rows = (Row(0, 0, 3, 300, hidden), Row(0, 2, 2, 200, hidden), Row(1, 2, 7, 1400))
    history.feed(Census(1, 1, "clone", True, "", rows, 1, 1, 1, 1, 0))
    return history


@pytest.mark.parametrize("key", ["type", "module", "generation"])
def test_bands_are_what_the_census_says_as_json(key: str) -> None:
    known = history(hidden=80)
    assert known.latest is not None
    shown = {row.name: (row.count, row.bytes, row.hidden) for row in table(known.records, key, EVERYTHING)}
    document = census_json(known.latest, pid=1, python="3.11", by=key)
    assert {row["name"]: (row["count"], row["bytes"], row["hidden_bytes"]) for row in document["rows"]} == shown
    assert document["total"] == {"count": 12, "bytes": 1900, "hidden_bytes": 160}
    assert sum(size for _, size, _ in shown.values()) == known.latest.total.bytes, "as the header says"


def test_live_objects_of_view_9_are_the_heap_and_what_is_hidden() -> None:
    known = history(hidden=80)
    assert known.latest is not None
    assert live_bytes(known.latest) == known.latest.total.bytes + 160
