"""A recording shows each of its moments as it was, and nothing else, whatever has become of the file."""

from __future__ import annotations

import os
import random
import resource
import stat
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
import zstandard

from heaptop.analysis.reports.recorded import Recorded
from heaptop.errors import NotARecording, ProtocolError, RecordingExists, RecordingFailed, RecordingTooNew
from heaptop.protocol.codec import encode
from heaptop.protocol.messages import Failure, Message
from heaptop.protocol.recorded import RecordingInfo
from heaptop.protocol.source import Attached, Ended, Event, Received, RecordingStatus, Seek, SeekDone, WholeCourse
from heaptop.recordings import blocks, format, reader, recordable_source, writer
from heaptop.recordings.format import SegmentCodec, frames, pack_alone, pack_header
from heaptop.recordings.reader import Recording
from heaptop.recordings.recordable_source import RecordableSource
from heaptop.recordings.recording_state import RecordingState
from heaptop.recordings.replay import NO_PROCESS, ReplaySource
from heaptop.recordings.writer import RecordingWriter, create
from tests.fakes.source import SECOND, TOKEN, FakeSource
from tests.unit.recording_cases import WALL, Made, findings, played
from tests.unit.test_analysis_kept_state import known
from tests.unit.test_analysis_samples import KNOWN, grown_by_turns


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few ticks make several."""
    monkeypatch.setattr(blocks, "SEGMENT_BLOCKS", 7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.heaptop"


def figures(told: Recorded) -> tuple[object, ...]:
    """What is shown of a moment."""
    latest = told.history.latest
    assert latest is not None
    sampling = told.sampling
    shown = known(sampling.samples), sampling.sampling_status
    return latest.time_ns, latest.cells, told.history.ticks[-1], *shown


def made_with_figures(path: Path, ticks: int) -> tuple[Made, dict[int, tuple[object, ...]]]:
    """A recording, and what was known at each of its moments: a block ends with its tick."""
    then: dict[int, tuple[object, ...]] = {}
    made = Made(path).begin().run(1)
    made.on_tick = lambda watched: then.update({watched.history.ticks[-1].time_ns: figures(watched)})
    return made.run(ticks).end(), then


def test_each_moment_is_shown_as_it_was(path: Path) -> None:
    made, then = made_with_figures(path, 40)
    with Recording.open(path) as recording:
        assert not recording.damage
        assert {*then} == {*recording.moments}
        assert len(recording.moments) == 41
        for moment, known_then in then.items():
            assert figures(played(recording, moment)) == known_then
            told = played(recording, moment + 1, since=recording.first_ns)
            assert figures(told) == known_then
            assert told.shown is not None
            assert (told.shown.since_ns, told.shown.time_ns) == (recording.first_ns, moment)
        assert figures(played(recording)) == figures(made.watched)


def test_all_that_was_said_is_said_again(path: Path) -> None:
    made, _ = made_with_figures(path, 30)
    with Recording.open(path) as recording:
        told = played(recording, since=recording.first_ns)
    live = made.watched
    assert told.target == live.target
    assert told.hello == replace(live.hello, token="")  # type: ignore[type-var]
    assert len(told.history.records) == len(live.history.records) == 31
    assert told.history.records[0].cells == live.history.records[0].cells
    seen = [row.time_ns for row in told.sampling.gc.rows]
    assert seen == [row.time_ns for row in live.sampling.gc.rows][-len(seen) :]
    assert len(seen) > 30


def test_the_past_is_told_with_the_moment(path: Path) -> None:
    made_with_figures(path, 40)
    with Recording.open(path) as recording:
        times = [snapshot.time_ns for snapshot in played(recording).history.records]
    assert times == sorted(set(times))
    assert times[0] == recording.first_ns - SECOND  # the census that was there when the first tick came
    assert len(times) == 41


def test_where_censuses_are_large_some_are_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, then = made_with_figures(path, 40)
    monkeypatch.setattr(reader, "MOST_COUNTED", 5_000)
    monkeypatch.setattr(reader, "MOST_PAST", 20_000)
    with Recording.open(path) as recording:
        for moment in recording.moments[-8:]:
            told = played(recording, moment)
            assert figures(told) == then[moment]
            assert len(told.history.records) < 20
        assert len(played(recording, since=0).history.records) == 41


def test_times_are_told_as_on_a_clock(path: Path) -> None:
    made = Made(path).begin().run(30).end()
    with Recording.open(path) as recording:
        moment = recording.moments[17]
        shown = played(recording, moment).shown
        assert recording.about.pid == made.fake.target.pid
        for said in (recording.wall(moment), shown.wall if shown is not None else 0.0):
            assert said == pytest.approx(WALL + moment / SECOND, abs=0.001)


def test_a_recording_can_begin_in_the_middle_and_again(path: Path, tmp_path: Path) -> None:
    made = Made(path).run(20)
    made.begin().run(10)
    made.source.end_recording()
    made.run(1)
    assert not made.last.on
    assert not made.last.error
    assert made.last.bytes == path.stat().st_size
    made.path = tmp_path / "b.heaptop"
    made.begin().run(10).end()
    for file, moments in ((path, 11), (made.path, 12)):
        with Recording.open(file) as recording:
            assert len(recording.moments) == moments
            told = played(recording)
    assert figures(told) == figures(made.watched)


def test_what_was_found_is_in_it_to_the_end(path: Path) -> None:
    made = Made(path).begin().run(15)
    notes = [findings(number) for number in range(3)]
    made.source.note(notes[0])
    made.run(20)
    made.source.note(notes[1])
    made.run(1)
    made.source.note(notes[2])  # and nothing comes after it
    made.end()
    with Recording.open(path) as recording:
        assert list(recording.findings) == notes
        assert played(recording).findings == notes
        assert played(recording, recording.first_ns).findings == []
        assert played(recording, recording.moments[-4]).findings == notes[:1]


def test_names_and_counts_are_in_it_and_no_values(path: Path) -> None:
    made = Made(path).begin().run(3)
    made.source.image(60.0)
    made.run(3).end()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with Recording.open(path) as recording:
        said = list(recording.events(since=0))
        assert not any(isinstance(event, Attached) and event.hello.token for event in said)
        content = b"".join(recording._content(block) for block in recording._blocks if block.head.kind != format.KEY)
    assert TOKEN.encode() not in content
    assert b"image" not in content


def test_what_is_kept_does_not_grow_with_what_was_said() -> None:
    recording_state = RecordingState()
    for message in KNOWN:
        recording_state.feed(message)
    assert grown_by_turns(recording_state.feed) < 100_000


# -- files that are not as they were ----------------------------------------------------------------------------


def moments_of(path: Path) -> dict[int, tuple[object, ...]]:
    with Recording.open(path) as recording:
        return {moment: figures(played(recording, moment)) for moment in recording.moments}


@pytest.fixture
def whole(path: Path) -> dict[int, tuple[object, ...]]:
    Made(path).begin().run(12).end()
    return moments_of(path)


@pytest.mark.slow
def test_what_is_cut_anywhere_is_read_to_the_last_whole_block(path: Path, whole: dict[int, tuple[object, ...]]) -> None:
    with Recording.open(path) as recording:
        ends = [block.at + block.head.length for block in recording._blocks]
        times = [block.head.time_ns for block in recording._blocks]
    for cut in range(recording.size - 1, -1, -1):
        os.truncate(path, cut)
        if cut < ends[0]:
            with pytest.raises(NotARecording):
                Recording.open(path)
            continue
        with Recording.open(path) as recording:
            there = [time for end, time in zip(ends, times, strict=True) if end <= cut]
            assert list(recording.moments) == sorted(set(there))
            assert bool(recording.damage) == (cut not in ends)
            if cut in (ends[3], ends[3] + 1, ends[-1] - 1):
                assert figures(played(recording, there[-1])) == whole[there[-1]]


@pytest.mark.slow
def test_a_bit_that_fell_over_gives_no_wrong_figure(path: Path, whole: dict[int, tuple[object, ...]]) -> None:
    data = path.read_bytes()
    wild = random.Random(6)
    unread = 0
    for _ in range(60):
        broken = bytearray(data)
        broken[wild.randrange(len(data))] ^= 1 << wild.randrange(8)
        path.write_bytes(broken)
        try:
            with Recording.open(path) as recording:
                assert recording.damage
                last = recording.moments[-1]
                some = wild.sample(recording.moments, 2)
                for moment in (*some, last):
                    assert figures(played(recording, moment)) == whole[moment]
                assert len(recording.moments) >= len(whole) - 9  # a segment at most
        except (NotARecording, RecordingTooNew):
            unread += 1
    assert unread < 10  # the header is a small part


def test_what_is_no_recording_is_said(tmp_path: Path, path: Path) -> None:
    with pytest.raises(NotARecording, match="No such file"):
        Recording.open(path)
    with pytest.raises(NotARecording, match="directory"):
        Recording.open(tmp_path)
    for content in (b"", b"\x7fELF" + bytes(100), b"heaptop\x1a", b"heaptop\x1a" + bytes(40)):
        path.write_bytes(content)
        with pytest.raises(NotARecording):
            Recording.open(path)


def test_a_newer_format_is_refused(path: Path) -> None:
    Made(path).begin().run(3).end()
    with path.open("r+b") as file:
        file.seek(8)
        file.write((format.FORMAT + 1).to_bytes(2, "little"))
    with pytest.raises(RecordingTooNew, match=r"format 3; this heaptop reads up to 2"):
        Recording.open(path)


ABOUT = RecordingInfo("1", 1, "shop", "3.11", "joe", "ptrace", 0, SECOND, float(WALL))


def file_of(path: Path, *said: tuple[int, Sequence[Message]], about: RecordingInfo = ABOUT) -> Path:
    """A recording of a KEY and of these blocks, as another than heaptop may have made it."""
    key = frames([ABOUT])
    segment = SegmentCodec(key)
    blocks = [pack_header(about), pack_alone(format.KEY, 1, SECOND, key)]
    for number, (kind, messages) in enumerate(said, 2):
        pack = segment.pack if kind in (format.TICK, format.COUNT) else pack_alone
        blocks.append(pack(kind, number, number * SECOND, frames(messages)))
    path.write_bytes(b"".join(blocks))
    return path


def test_blocks_that_say_nothing_are_read(path: Path) -> None:
    with Recording.open(file_of(path, (format.COUNT, ()), (format.TICK, ()), (format.KEY, ()))) as recording:
        assert len(recording.moments) == 4
        for moment in recording.moments:
            assert played(recording, moment).history.latest is None
            assert played(recording, moment, since=0).history.latest is None


@pytest.mark.parametrize("wall", [float("nan"), float("inf"), -float("inf"), -1.0, float(1 << 35), 1e300])
def test_a_time_that_no_calendar_has_is_refused(path: Path, wall: float) -> None:
    never = replace(ABOUT, wall=wall)
    with pytest.raises(NotARecording, match="time"):
        Recording.open(file_of(path, about=never))
    with Recording.open(file_of(path, (format.KEY, [never]))) as recording:
        assert recording.wall(recording.first_ns) == WALL
        with pytest.raises(ProtocolError, match="time"):
            recording.wall(recording.last_ns)
        with pytest.raises(ProtocolError, match="time"):
            played(recording)


@pytest.mark.parametrize("kind", [format.NOTE, format.TICK])
def test_a_hunt_without_a_mark_is_refused(path: Path, kind: int) -> None:
    with Recording.open(file_of(path, (kind, [replace(findings(1), marks=())]), (format.TICK, ()))) as recording:
        with pytest.raises(ProtocolError, match="mark"):
            played(recording)
        if kind == format.NOTE:
            with pytest.raises(ProtocolError, match="mark"):
                recording.findings  # noqa: B018


def test_counts_are_unpacked_one_by_one(path: Path) -> None:
    size, number = 1 << 19, 20
    counts = [(format.COUNT, [Failure(0, "x" * (1 << 17))] * (size >> 17))] * number
    with Recording.open(file_of(path, *counts)) as recording:
        tracemalloc.start()
        try:
            for since in (None, 0):
                for _ in recording.events(since=since):
                    pass
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 5 * size


def test_a_past_of_large_counts_is_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Made(path).begin().run(40).end()
    monkeypatch.setattr(reader, "MOST_KEPT", 20_000)
    with Recording.open(path) as recording:
        told = [figures(played(recording, moment)) for moment in recording.moments]
        assert 0 < sum(len(encode(message)) for kept in recording._past.values() for message in kept) <= 20_000
    assert told == [*moments_of(path).values()]


@pytest.mark.parametrize("size", [None, 1 << 31, 1 << 40])
def test_a_block_that_says_no_size_or_a_large_one_is_refused(path: Path, size: int | None) -> None:
    if size is None:
        payload = zstandard.ZstdCompressor(write_content_size=False).compress(b"")
    else:
        payload = b"\x28\xb5\x2f\xfd\xc0\x00" + size.to_bytes(8, "little")
    file_of(path)
    with path.open("ab") as file:
        file.write(format.BlockHeader(format.COUNT, 2, 2 * SECOND, len(payload), crc32(payload)).pack() + payload)
    with Recording.open(path) as recording, pytest.raises(ProtocolError):
        played(recording)


# -- writing that goes wrong --------------------------------------------------------------------------------------


def test_what_is_there_is_not_written_over(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(RecordingExists):
        Made(path).begin()
    assert path.read_text() == "mine"
    made = create(str(path), force=True)
    assert path.read_text() == "mine"
    assert stat.S_IMODE(os.fstat(made.fd).st_mode) == 0o600
    made.take_place()
    os.close(made.fd)
    assert not path.read_bytes()
    assert [*path.parent.iterdir()] == [path]
    with pytest.raises(RecordingFailed):
        create(str(path / "in a file"))


@contextmanager
def small_files(limit: int) -> Iterator[None]:
    """No file may grow beyond this: what a disk does that is full in the middle of a block. Within a test, since a log
    that pytest writes to is a file too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_ends_the_recording_and_not_the_session(path: Path) -> None:
    limit = 10_000
    made = Made(path).begin()
    with small_files(limit):
        deadline = time.monotonic() + 30
        while not (made.tapings and made.last.error) and time.monotonic() < deadline:
            made.run(1)
    assert not made.last.on
    assert "File too large" in made.last.error
    made.run(5).end()
    assert isinstance(made.events[-1], Ended)
    assert len(made.watched.history.ticks) == made.fake.agent.ticks
    with Recording.open(path) as recording:
        assert not recording.damage  # the half block was taken back
        assert len(recording.moments) > 1
        assert path.stat().st_size <= limit


def test_the_size_after_an_error_is_that_of_the_file(path: Path) -> None:
    writing = RecordingWriter(create(str(path)), ABOUT)
    with small_files(10_000):
        for number in range(1, 30):
            writing.append(pack_alone(format.NOTE, number, number, random.Random(number).randbytes(1_000)))
        writing.close()
    assert "File too large" in writing.error
    assert writing.size == path.stat().st_size <= 10_000


def test_a_disk_that_never_answers_does_not_hold_the_session_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_WAITING", 10_000)
    stuck = writer.threading.Event()
    monkeypatch.setattr(RecordingWriter, "_put", lambda self, data: stuck.wait(30))
    monkeypatch.setattr(RecordingWriter.close, "__defaults__", (0.1,))
    made = Made(path).begin().run(60)
    assert "too slow" in made.last.error
    stuck.set()
    made.end()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Nothing is written before it is set."""
    lets, put = threading.Event(), RecordingWriter._put

    def slowly(self: RecordingWriter, data: bytes) -> None:
        lets.wait(30)
        put(self, data)

    monkeypatch.setattr(RecordingWriter, "_put", slowly)
    yield lets
    lets.set()


def test_the_end_of_a_tape_is_not_waited_for_in_a_session(path: Path, tmp_path: Path, slow: threading.Event) -> None:
    made = Made(path).begin().run(5)
    began = time.monotonic()
    made.source.end_recording()
    made.run(1)
    made.path = tmp_path / "b.heaptop"
    made.begin().run(5)
    assert time.monotonic() - began < 5
    assert (made.last.on, made.last.path) == (True, str(path)), "it is incomplete yet, and no other is begun"
    slow.set()
    deadline = time.monotonic() + 30
    while made.last.path == str(path) and time.monotonic() < deadline:
        made.run(1)
    made.end()
    ends = [recording_status for recording_status in made.tapings if not recording_status.on]
    assert [(end.path, end.error) for end in ends] == [(str(path), ""), (str(made.path), "")]
    for end in ends:
        assert end.bytes == Path(end.path).stat().st_size
        with Recording.open(end.path) as recording:
            assert not recording.damage


def test_a_tape_that_never_ends_is_given_up(path: Path, slow: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordable_source, "PATIENCE", 0.5)
    made = Made(path).begin().run(5)
    made.source.end_recording()
    deadline = time.monotonic() + 30
    while made.last.on and time.monotonic() < deadline:
        made.run(1)
    assert "does not answer" in made.last.error


class LateSource(FakeSource):
    """Ends some time after its :meth:`close` has given up to wait for it."""

    def close(self, timeout: float = 5.0) -> None:
        threading.Timer(0.5, super().close).start()


def test_a_close_waits_until_it_was_told_how_the_tape_ended(path: Path) -> None:
    fake, events = LateSource(), list[Event]()
    source = RecordableSource(fake)
    source.open(events.append)
    source.begin_recording(str(path))
    speaks = threading.Thread(target=lambda: (fake.attach(), fake.tick(3)))
    speaks.start()
    speaks.join()
    source.close(0.1)
    assert isinstance(events[-1], Ended)
    (told,) = [event for event in events if isinstance(event, RecordingStatus) and not event.on]
    assert (told.error, told.bytes) == ("", path.stat().st_size)


def test_a_file_for_which_nobody_ever_came_is_taken_back(path: Path) -> None:
    made = Made(path).begin()
    assert path.exists()
    made.end()
    assert not path.exists()


def test_a_file_is_replaced_once_there_is_something_to_record(path: Path) -> None:
    path.write_text("mine")
    made = Made(path)
    made.source.begin_recording(str(path), force=True)
    assert path.read_text() == "mine"
    made.run(3)
    assert [*path.parent.iterdir()] == [path]
    made.end()
    with Recording.open(path) as recording:
        assert len(recording.moments) == 3


def test_an_attach_that_fails_leaves_the_old_file(path: Path) -> None:
    path.write_text("mine")
    made = Made(path)
    made.source.begin_recording(str(path), force=True)
    made.end()
    assert path.read_text() == "mine"
    assert [*path.parent.iterdir()] == [path]


def test_a_file_that_cannot_take_its_place_is_told_and_given_up(path: Path) -> None:
    path.write_text("mine")
    made = Made(path)
    made.source.begin_recording(str(path), force=True)
    path.unlink()
    path.mkdir()
    made.run(1)
    assert not made.last.on
    assert "directory" in made.last.error
    assert [*path.parent.iterdir()] == [path]


def test_a_source_that_was_never_opened_gives_its_file_up(path: Path) -> None:
    source = RecordableSource(FakeSource())
    source.begin_recording(str(path))
    source.close()
    assert not path.exists()


def test_a_recording_that_begins_after_the_end_gives_its_file_up(path: Path) -> None:
    made = Made(path).run(2).end()
    made.source.begin_recording(str(path))
    made.source.close()
    assert not path.exists()


# -- thinning -------------------------------------------------------------------------------------------------------


def test_at_its_largest_size_older_ticks_are_left_out(path: Path) -> None:
    largest = 60_000
    made = Made(path, max_size=largest).begin().run(200).end()
    assert made.last.thinned
    assert path.stat().st_size <= largest
    assert not list(path.parent.glob("*.thinner"))
    with Recording.open(path) as recording:
        assert recording.thinned
        assert not recording.damage
        assert recording.last_ns == made.fake.agent.time_ns
        gaps = [after - before for before, after in zip(recording.moments, recording.moments[1:], strict=False)]
        assert gaps[0] > gaps[-1] == SECOND
        assert figures(played(recording)) == figures(made.watched)
        # What is told since is told without a gap.
        shown = played(recording, since=recording.first_ns).shown
        assert shown is not None
        assert recording.first_ns < shown.since_ns


def test_what_cannot_be_made_smaller_ends(path: Path) -> None:
    made = Made(path, max_size=3_000).begin().run(30)
    made.end()
    ended = [recording_status for recording_status in made.tapings if recording_status.error]
    assert len(ended) == 1
    assert "size limit" in ended[0].error
    with Recording.open(path) as recording:
        assert recording.moments


# -- as a source ------------------------------------------------------------------------------------------------------


def test_a_recording_is_a_source(path: Path) -> None:
    made, then = made_with_figures(path, 20)
    recording = Recording.open(path)
    source = ReplaySource(recording)
    events: writer.queue.SimpleQueue[object] = writer.queue.SimpleQueue()
    source.open(events.put)
    shown = take(events, recording.last_ns)
    assert figures(shown) == figures(made.watched)
    course = events.get(timeout=10)
    assert isinstance(course, WholeCourse), "once, how all of it went"
    latest = shown.history.latest
    assert latest is not None
    assert course.heap[-1] == (latest.time_ns, latest.total.bytes)
    assert course.rss[-1][1] == shown.rss
    moment = recording.moments[9]
    source.seek(moment)
    shown = take(events, moment)
    assert figures(shown) == then[moment]
    id = source.image(1.0)
    failure = events.get(timeout=10)
    assert isinstance(failure, Received)
    assert (failure.message.request, failure.message.text) == (id, NO_PROCESS)  # type: ignore[attr-defined]
    source.close()
    assert events.get(timeout=10) == Ended(None)
    source.close()


def take(events: writer.queue.SimpleQueue[object], moment: int) -> Recorded:
    """What is known once it has shown this moment."""
    told = Recorded("played")
    event = None
    while not (isinstance(event, SeekDone) and told.time_ns == moment):
        event = events.get(timeout=10)
        if isinstance(event, Attached):
            told = Recorded("played")
        assert isinstance(event, (Attached, Seek, Received, SeekDone))
        told.feed(event)
    assert told.history.ticks[-1].time_ns == moment
    return told
