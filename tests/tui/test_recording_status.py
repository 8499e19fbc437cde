"""Key ctrl+r: a session is recorded while it is watched, and the screen says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from heaptop.protocol.source import Recordable, RecordingStatus
from heaptop.recordings.reader import Recording
from heaptop.recordings.recordable_source import RecordableSource
from heaptop.tui.app import make_app
from heaptop.tui.state.control.recording import UNRECORDABLE, recording_notice
from tests.fakes.source import FakeSource
from tests.tui.support import LARGE, Stage, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


async def test_a_session_is_recorded_from_a_key_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fake = FakeSource()
    app = make_app(RecordableSource(fake), ascii=False, theme="dark")
    async with app.run_test(size=LARGE) as pilot:
        stage = Stage(app, fake, pilot)
        await pilot.pause()
        fake.attach()
        await stage.ticks(5)
        await stage.press("ctrl+r")
        await stage.ticks(4)
        assert "● rec " in stage.text
        assert "recording into heaptop-4242-" in stage.text
        await stage.press("ctrl+r")
        await stage.ticks(1)
        assert "● rec" not in stage.text
        assert "recorded: heaptop-4242-" in stage.text
    (path,) = tmp_path.glob("heaptop-4242-*.heaptop")
    with Recording.open(path) as recording:
        assert not recording.damage
        assert len(recording.moments) >= 4


async def test_what_cannot_be_recorded_says_so() -> None:
    async with on_stage(censuses=2) as stage:
        await stage.press("ctrl+r")
        assert UNRECORDABLE in stage.text


def test_what_can_be_recorded_is_told_from_what_cannot() -> None:
    assert isinstance(RecordableSource(FakeSource()), Recordable)
    assert not isinstance(FakeSource(), Recordable)


def test_what_goes_wrong_is_said() -> None:
    on = RecordingStatus("a", 1000, on=True)
    assert recording_notice(on, RecordingStatus("a", 2000, on=True)) == ""
    assert "No space left" in recording_notice(on, RecordingStatus("a", 2000, on=False, error="No space left"))
    assert "older ticks are dropped" in recording_notice(on, RecordingStatus("a", 2000, on=True, thinned=True))
    assert recording_notice(on, RecordingStatus("b", 10, on=True)) == "recording into b"
