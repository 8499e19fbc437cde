"""A heap dump or core file on the live screen: what it is, and only what can be done with one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import pytest

from heaptop.protocol.source import HeapFile
from heaptop.tui.screens.dump import LACKING
from heaptop.tui.widgets.help_screen import keys_here
from tests.fakes.source import FakeSource
from tests.tui.support import LARGE, SMALL, Stage, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment", "utc")

DUMP: Final = HeapFile("heap dump", "sizes", redacted=False, opaque=0)
CORE: Final = HeapFile("core file", "sizes", redacted=False, opaque=3 << 20)


@asynccontextmanager
async def opened(file: HeapFile = DUMP, size: tuple[int, int] = SMALL, *, attach: bool = True) -> AsyncIterator[Stage]:
    source = FakeSource()
    source._target = replace(source._target, file=file, note=f"{file.what} app.file")
    async with on_stage(size, censuses=1, source=source, attach=attach) as stage:
        yield stage


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (DUMP, "heap dump"),
        (replace(DUMP, redacted=True), "heap dump · redacted"),
        (replace(DUMP, values="all"), "heap dump · with values"),
        (replace(DUMP, values="none"), "heap dump · no lengths"),
        (replace(CORE, redacted=True, values="none"), "core file · redacted · no lengths"),
    ],
)
async def test_the_header_says_what_the_file_is(file: HeapFile, words: str) -> None:
    async with opened(file) as stage:
        assert stage.lines(0, 1)[0].endswith(f" {words}")


async def test_the_header_says_what_is_opaque_and_nothing_of_pauses_and_censuses() -> None:
    async with opened(CORE, LARGE) as stage:
        assert "opaque 3.00 MiB (" in stage.lines(1, 2)[0]
        assert not {"pause", "census", "mode", "every"} & set(stage.lines(1, 2)[0].split())
    async with opened(DUMP, LARGE) as stage:
        assert "opaque" not in stage.lines(1, 2)[0]


async def test_the_wait_is_for_a_file() -> None:
    async with opened(CORE, attach=False) as stage:
        assert "core file app.file" in stage.text
        assert "ttach" not in stage.text, "nothing is attached to"
        assert "○ reading" in stage.text


@pytest.mark.parametrize("view", "1235678")
async def test_no_key_is_offered_that_needs_a_process(view: str) -> None:
    async with opened() as stage:
        await stage.press(view)
        await stage.settled()
        offered = {key.name for key in (*stage.live._footer_keys, *keys_here(stage.live.help_page))}
        assert not offered & {*LACKING, "shut", "values"}
        assert "1-3,5-9,0 views" in stage.lines(-1)[0]


@pytest.mark.parametrize("key", ["o", "m", "M", "d", "r", "c", "ctrl+r", "space", "x", "V", "4", "R"])
async def test_a_key_that_needs_a_process_says_why_it_does_nothing(key: str) -> None:
    async with opened() as stage:
        source, before = stage.source, stage.live.views.name
        await stage.press(key)
        said = stage.live.status.text
        assert said in LACKING.values() or said == "this heap dump has no values of objects"
        assert (stage.live.views.name, source.census_requests, source.sampling) == (before, 0, [])
        assert stage.live.client.is_open


async def test_values_of_a_file_that_has_them_are_shown_as_those_of_a_process() -> None:
    async with opened(replace(DUMP, values="all")) as stage:
        await stage.press("3")
        assert "values" in {key.name for key in stage.live._footer_keys}
        await stage.press("V")
        assert stage.live.state.questions


async def test_a_view_that_was_chosen_before_the_file_was_read_shows_it() -> None:
    async with opened(attach=False) as stage:
        await stage.press("3")
        stage.source.attach()
        await stage.ticks(1)
        await stage.settled()
        assert "no snapshot yet" not in stage.text
        assert stage.live.client.is_open


async def test_memory_that_the_file_does_not_explain_is_no_failed_census() -> None:
    async with opened(CORE) as stage:
        await stage.press("9")
        assert "This file does not say what memory was used for" in stage.text
