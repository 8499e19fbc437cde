"""The table of what each test left on the heap, and what it cost to find out."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, Final

from heaptop.analysis.text.units import format_bytes, format_change, format_count, format_duration_ns, format_number
from heaptop.protocol.text import printable

ROWS: Final = 20  # Tests that are named


class HeapReport:
    """What was counted after each test, by name."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, dict[str, Any]]] = []
        self._refusals: dict[str, int] = {}  # Tests without a count, by the reason

    def add(self, name: str, left: dict[str, Any]) -> None:
        if "refusal" in left:
            self._refusals[left["refusal"]] = self._refusals.get(left["refusal"], 0) + 1
        else:
            self._rows.append((name, left))

    def lines(self) -> Iterator[str]:
        """The largest first."""
        for reason, count in self._refusals.items():
            yield f"{format_number(count, 'test')} not counted: {printable(reason)}"
        if not self._rows:
            yield "nothing was counted"
            return
        ranked = sorted(self._rows, key=lambda row: -row[1]["bytes"])
        yield f"{'left':>11} {'objects':>9}  {'most by type':34}  test"
        for name, left in ranked[:ROWS]:
            most = f"{printable(left['type'])} {format_change(left['type_bytes'])}" if left["type"] else ""
            yield (
                f"{format_change(left['bytes']):>11} {format_change(left['count'], bytes_=False):>9}  {most:34}  "
                f"{printable(name)}"
            )
        if rest := ranked[ROWS:]:
            yield (
                f"{format_change(sum(left['bytes'] for _, left in rest)):>11} "
                f"{format_change(sum(left['count'] for _, left in rest), bytes_=False):>9}  "
                f"{format_number(len(rest), 'other test')}"
            )
        usual = round(statistics.median(left["bytes"] for _, left in ranked))
        yield f"half of all tests left {format_bytes(usual)} or less: pytest keeps its report of each test"
        took = [left["seconds"] for _, left in ranked]
        pause = max(left["pause"] for _, left in ranked)
        yield (
            f"counted {format_count(len(took))} times in {format_duration_ns(round(sum(took) * 1e9))}: "
            f"{format_duration_ns(round(sum(took) / len(took) * 1e9))} a test, with a full collection; "
            f"longest pause of a census {format_duration_ns(round(pause * 1e9))}"
        )
