"""A stage whose target is sampled, for the tests of the views that show samples."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from heaptop.protocol.messages import Phase, Phases
from tests.fakes.source import SECOND, START_NS, FakeSource
from tests.tui.support import SMALL, Stage, on_stage

PHASES = Phases(
    (
        Phase("load orders", START_NS + 3 * SECOND, START_NS + 9 * SECOND),
        Phase("parse", START_NS + 4 * SECOND, START_NS + 7 * SECOND),
        Phase("serve", START_NS + 12 * SECOND, None),
    ),
    0,
)


@asynccontextmanager
async def on_sampled_stage(
    size: tuple[int, int] = SMALL, key: str = "6", *, ticks: int = 24, ascii: bool = False, phases: bool = False
) -> AsyncIterator[Stage]:
    """The view of ``key``, on a target that is sampled from its second tick on."""
    source = FakeSource()
    source.sample(65536, 128)
    async with on_stage(size, censuses=ticks, source=source, ascii=ascii) as stage:
        if phases:
            source.say(PHASES)
            await stage.ticks(1)
        await stage.press(key)
        await stage.settled()
        yield stage


def column(stage: Stage, key: str) -> list[str]:
    """The texts of one column of the table that is shown, row by row."""
    sheet = stage.live.view.table.sheet  # type: ignore[attr-defined]  # every view's cursor here is a table's
    place = next(number for number, one in enumerate(sheet.columns) if one.key == key)
    return [sheet.draw(row)[place].text for row in sheet.rows]
