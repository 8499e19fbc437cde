"""What ends a recording that nobody watches."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from heaptop.__main__ import main
from heaptop.analysis.samples.sampling import Sampling
from heaptop.cli.terminal import ProgressLine
from heaptop.protocol.source import RecordingStatus
from heaptop.recordings.reader import Recording
from heaptop.watching import recording
from heaptop.watching.hunting import LAST_WORDS, HuntWatch
from heaptop.watching.recording import ended_by_signals, missing
from tests.fakes.source import FakeSource
from tests.unit.test_cli_leaks import Growing, LeakDoors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_what_was_said_is_taken_whole_before_it_ends(number: signal.Signals) -> None:
    """Sums that a message was half added to would be told in the last look."""
    watch = HuntWatch(FakeSource(), ProgressLine(), "again", Sampling())
    before = signal.getsignal(number)
    with ended_by_signals(), watch.patience():
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            watch._next()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_recording_that_is_still_being_written_is_not_whole() -> None:
    """A disk that is too slow at the end is not waited for without end."""
    assert "disk" in missing(RecordingStatus("night.heaptop", 1000, on=True))
    assert missing(RecordingStatus("night.heaptop", 1000, on=False, error="disk full")) == "disk full"
    assert not missing(RecordingStatus("night.heaptop", 1000, on=False))


def test_where_ctrl_c_is_ignored_it_stays_so() -> None:
    watch = HuntWatch(FakeSource(), ProgressLine(), "again", Sampling())
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ended_by_signals(), watch.patience():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


class Stuck(Growing):
    """Gets a signal after its first snapshot, and makes no second one."""

    def __init__(self, at_second: Callable[[], None]) -> None:
        super().__init__()
        self.at_second = at_second

    def image(self, keep: float, memory: int = 0) -> int:
        if "image" not in self.done:
            return super().image(keep, memory)
        self.at_second()
        return -2

    def close_snapshot(self) -> None:
        is_first = "close" not in self.done
        super().close_snapshot()
        if is_first:
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("limit", "at_second", "why"),
    [
        (0.05, lambda: None, "it takes more than 0.05 s"),
        (3600.0, lambda: signal.raise_signal(signal.SIGTERM), "it was stopped"),
        (3600.0, lambda: signal.raise_signal(signal.SIGINT), "it was stopped"),
    ],
    ids=["late", "SIGTERM", "SIGINT"],
)
def test_a_last_check_that_takes_long_or_is_stopped_is_left_out(
    limit: float,
    at_second: Callable[[], None],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who sends SIGTERM kills some seconds later. The file says what is missing from it."""
    monkeypatch.setattr(recording, "LAST_CHECK", limit)
    alarm = signal.getsignal(signal.SIGALRM)
    doors, path = LeakDoors(monkeypatch), tmp_path / "a.heaptop"
    doors.make = lambda: Stuck(at_second)
    assert main(["record", "4711", "-o", str(path)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert LAST_WORDS in said
    assert f"the last check is missing: {why}" in said
    with Recording.open(path) as made:
        assert not made.damage
    assert main(["report", str(path)]) == 0
    told = capsys.readouterr().out
    assert f"note: the last check is missing: {why}" in told
    assert "unclear" in told, "one mark alone says nothing"
    assert signal.getsignal(signal.SIGALRM) is alarm


def test_the_last_check_is_within_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now, checks = [100.0], list[float]()
    image = Growing.image

    def slow(source: Growing, keep: float, memory: int = 0) -> int:
        checks.append(now[0] - 100)
        now[0] += 5
        return image(source, keep, memory)

    def pass_by(watch: HuntWatch, left: float, words: object) -> None:
        now[0] += max(left, 0)

    monkeypatch.setattr(Growing, "image", slow)
    monkeypatch.setattr(HuntWatch, "wait", pass_by)
    monkeypatch.setattr(recording.time, "monotonic", lambda: now[0])
    doors = LeakDoors(monkeypatch)
    doors.make = Growing
    assert main(["record", "4711", "-o", str(tmp_path / "a.heaptop"), "--for", "30", "--marks", "12"]) == 0
    assert "the time is up" in capsys.readouterr().out
    assert now[0] - 100 == 30
    assert checks[0] == 0
    assert checks[-1] == 25
    assert len(checks) >= 4
