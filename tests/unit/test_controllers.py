"""The controllers of the live screen, on a source that says what a test wants: no screen, no event loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.filters.predicates import NameTerm
from heaptop.choices import ADAPTIVE, HUNTING, SamplingRate
from heaptop.errors import TargetExited
from heaptop.protocol.images import FIRST_ID
from heaptop.protocol.messages import Decision, Failure
from heaptop.protocol.source import RecordingStatus
from heaptop.tui.state.control.hunt import HuntControl
from heaptop.tui.state.control.live_state import LiveState
from heaptop.tui.state.control.recording import UNRECORDABLE, RecordingControl
from heaptop.tui.state.control.sampling import SamplingControl
from heaptop.tui.state.control.snapshot import SnapshotControl
from heaptop.tui.state.control.status_line import LAST, NOTICE_SECONDS, StatusLine
from tests.fakes.source import FakeSource

PAUSE = Decision(1, "stop", "no core", 300_000_000, 100_000_000)


class ViewOfNothing:
    """The view that is shown, as far as controllers ask."""

    FROZEN = False
    SHOWS_HUNT = False
    wants_graph = wants_memory = False
    where: Filter = EVERYTHING
    kept_by: NameTerm | None = None

    def set_where(self, where: Filter) -> None:
        self.where = where


class RecordableSource(FakeSource):
    """One that notes where it was to be recorded into."""

    def __init__(self) -> None:
        super().__init__()
        self.recordings: list[str] = []

    def begin_recording(self, path: str) -> None:
        self.recordings.append(path)
        self.announce(RecordingStatus(path, 0, True))

    def end_recording(self) -> None:
        self.announce(RecordingStatus(self.recordings[-1], 4096, False))

    def note(self, found: object) -> None:
        raise AssertionError("nothing is found here")


def live_on(source: FakeSource, *, censuses: int = 3) -> LiveState:
    """Attached, and counted so many times."""
    live = LiveState(source)
    view = ViewOfNothing()
    live.view = lambda: view
    live.open()
    source.attach()
    source.tick(censuses)
    live.take_events()
    live.refresh()
    return live


def next_events(live: LiveState, source: FakeSource) -> None:
    source.tick()
    live.take_events()
    live.refresh()


# -- questions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", [True, False])
def test_a_long_pause_is_decided_once(accept: bool) -> None:
    source = FakeSource()
    live = live_on(source)
    source.say(PAUSE)
    live.take_events()
    (question,) = live.questions
    assert live.answer(question, accept) == ""
    assert source.decisions == [accept]
    assert live.questions == ()
    assert live.answer(question, True) == "nothing to confirm"
    assert source.decisions == [accept]


def test_the_other_pause_is_chosen_only_where_it_is_offered() -> None:
    source = FakeSource()
    live = live_on(source)
    for decision, offered in ((PAUSE, False), (replace(PAUSE, mode="clone", stop_ns=50_000_000), True)):
        source.say(decision)
        live.take_events()
        (question,) = live.questions
        assert ("mode stop" in question.text) == (question.stop is not None) == offered
        live.answer(question, True, stop=True)
        assert source.stops == ([True] if offered else [])
    assert live.questions == ()


def test_a_snapshot_s_pause_is_asked_about_also_when_a_census_comes_meanwhile() -> None:
    source = FakeSource()
    live = live_on(source)
    source.say(replace(PAUSE, request=FIRST_ID, mode="clone"))
    source.tick()
    live.take_events()
    (question,) = live.questions
    assert "snapshot" in question.title
    assert "no snapshots in this session" in question.text
    live.answer(question, False)
    assert source.decisions == [False]


def test_a_snapshots_pause_is_not_asked_about_once_the_snapshot_is_cancelled() -> None:
    source = FakeSource()
    live = live_on(source)
    source.say(replace(PAUSE, request=FIRST_ID, mode="clone"))
    source.say(Failure(FIRST_ID + 1, "cancelled"))
    live.take_events()
    assert live.questions, "another request was cancelled"
    source.say(Failure(FIRST_ID, "cancelled"))
    live.take_events()
    assert live.questions == ()
    assert source.decisions == []


@pytest.mark.parametrize("way", ["the target exits", "a person leaves", "it is counted after all"])
def test_a_question_that_means_nothing_any_more_is_withdrawn(way: str) -> None:
    source = FakeSource()
    live = live_on(source)
    source.say(PAUSE)
    live.take_events()
    (question,) = live.questions
    if way == "a person leaves":
        live.leaving = True
    elif way == "the target exits":
        source.end(TargetExited("Process 4242 ended with exit code 1."))
    else:
        source.tick()
    live.take_events()
    assert live.questions == ()
    assert live.answer(question, True) == "nothing to confirm"
    assert source.decisions == []


def test_values_are_shown_after_yes_only_and_hidden_at_once() -> None:
    live = live_on(FakeSource())
    control = SnapshotControl(live, [3, 5])
    control.action_values()
    live.answer(live.questions[0], None)
    assert not live.client.values, "Esc is no"
    control.action_values()
    live.answer(live.questions[0], True)
    assert live.client.values
    control.action_values()
    assert not live.client.values
    assert live.questions == ()


# -- controllers ---------------------------------------------------------------------------------------------


def test_a_snapshot_is_taken_and_closed_and_says_where_it_is_seen() -> None:
    live = live_on(FakeSource())
    control = SnapshotControl(live, [3, 4, 5])
    assert control.action_snapshot() == "taking a snapshot: views 3, 4 and 5 show it"
    live.take_events()
    assert live.client.is_open
    assert control.action_shut() == "the snapshot is closed"
    live.take_events()
    assert not live.client.is_open
    assert control.action_shut() == "no snapshot is open"


def test_no_snapshot_is_taken_of_a_process_that_has_ended() -> None:
    source = FakeSource()
    live = live_on(source)
    source.end(TargetExited("Process 4242 ended with exit code 1."))
    live.take_events()
    assert SnapshotControl(live, [3]).action_snapshot() == "the process exited"
    assert HuntControl(live).action_mark() == "the process exited"
    assert SamplingControl(live).action_sample(SamplingRate(65_536)) == "the process exited"
    assert live.action_census() == "the process exited"


def test_behind_the_last_rate_sampling_is_off_and_comes_back_with_the_rate_it_had() -> None:
    source = FakeSource()
    source.sample(65_536, 128)  # as an attach does
    live = live_on(source)
    control = SamplingControl(live)
    rates = []
    for _ in range(5):
        control.action_rate()
        next_events(live, source)
        rates.append(SamplingRate(source.sampling[-1][0], source.targets[-1]))
    assert rates == [SamplingRate(8_192), ADAPTIVE, SamplingRate(524_288), SamplingRate(0), SamplingRate(524_288)]


def test_more_or_less_frames_leave_a_rate_that_follows_the_program() -> None:
    source = FakeSource()
    source.sample(65_536, 128, target=500)
    live = live_on(source)
    SamplingControl(live).action_depth()
    assert (source.sampling[-1], source.targets[-1]) == ((65_536, 512), 500)


@pytest.mark.parametrize(
    ("rate", "is_others", "more"),
    [(ADAPTIVE, False, True), (ADAPTIVE, True, False), (SamplingRate(65_536), False, False)],
)
def test_a_hunt_samples_more_where_nobody_chose_a_rate(rate: SamplingRate, is_others: bool, more: bool) -> None:
    source = FakeSource()
    source._target = replace(source.target, is_others=is_others)
    source.sample(rate.interval, 64, target=rate.target)
    live = live_on(source)
    HuntControl(live).action_mark()
    next_events(live, source)
    HuntControl(live).action_mark()
    assert source.targets == ([200, HUNTING.target] if more else [rate.target])
    assert {depth for _, depth in source.sampling} == {64}


def test_another_users_process_is_sampled_otherwise_only_after_yes() -> None:
    source = FakeSource()
    source._target = replace(source.target, is_others=True)
    live = live_on(source)
    control, asked = SamplingControl(live), len(source.sampling)
    control.action_sample(SamplingRate(65_536))
    assert live.answer(live.questions[0], False) == "sampling stays as it is"
    assert len(source.sampling) == asked
    control.action_sample(SamplingRate(65_536))
    live.answer(live.questions[0], True)
    control.action_sample(SamplingRate(8_192))
    assert [rate for rate, _ in source.sampling[asked:]] == [65_536, 8_192], "yes holds for the session"


def test_a_mark_is_named_first_and_may_collect() -> None:
    live = live_on(FakeSource())
    HuntControl(live).action_mark_named()
    then = live.prompts.accept("before the import")
    assert then is not None
    then()
    assert "before the import" in live.questions[0].text
    assert live.answer(live.questions[0], None) == "no mark was set"
    assert not live.hunting.is_busy


def test_a_recording_begins_and_ends_by_the_same_key() -> None:
    source = RecordableSource()
    live = live_on(source)
    control = RecordingControl(live, lambda: 0.0)
    control.action_record()
    live.take_events()
    assert live.status.notice == f"recording into {source.recordings[0]}"
    control.action_record()
    live.take_events()
    assert live.status.notice == f"recorded: {source.recordings[0]}, 4.00 KiB"
    assert len(source.recordings) == 1


def test_what_cannot_be_recorded_says_so() -> None:
    live = live_on(FakeSource())
    RecordingControl(live).action_record()
    assert live.status.notice == UNRECORDABLE


# -- what is shown -------------------------------------------------------------------------------------------


def test_a_held_display_stays_as_it_was_while_the_session_goes_on() -> None:
    source = FakeSource()
    live = live_on(source)
    live.action_pause()
    held, tick = live.display, live.display.tick
    next_events(live, source)
    next_events(live, source)
    assert live.display is held
    assert live.display.tick is tick
    assert live.waiting == 2
    live.action_pause()
    live.refresh()
    assert live.waiting is None
    assert live.display.censuses == 5


def test_a_notice_stays_for_its_time_and_gives_way_to_what_a_key_came_to() -> None:
    now = [0.0]
    status = StatusLine(lambda: now[0])
    status.show_notice("recording into a.heaptop")
    status.stuck("")
    assert status.notice == "recording into a.heaptop"
    status.outcome("census requested")
    assert status.notice == "census requested"
    now[0] = NOTICE_SECONDS
    assert status.notice == ""


def test_words_that_have_no_room_beside_the_view_are_in_the_footer() -> None:
    status = StatusLine(lambda: 0.0)
    status.outcome(LAST)
    there = status.arrange("Bands", "row 2 of 2", "", "", width=60, hidden=False)
    assert (there.right, there.footer) == (f"{LAST} · row 2 of 2", "")
    narrow = status.arrange("Bands by type", "row 2 of 2", "", "", width=24, hidden=False)
    assert narrow.footer == LAST
