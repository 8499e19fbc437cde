"""What ends a recording that nobody watches."""

from __future__ import annotations

import signal

import pytest

from heaptop.analysis.samples.sampling import Sampling
from heaptop.cli.hunting import HuntWatch
from heaptop.cli.recording import ended_by_signals, missing
from heaptop.cli.terminal import ProgressLine
from heaptop.protocol.source import RecordingStatus
from tests.fakes.source import FakeSource


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
