"""Recordings of one folder: what is below it can be read, and nothing else, whatever a name or a link says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from heaptop.errors import NotARecording, UsageError
from heaptop.mcp.recordings import RecordingsFolder
from heaptop.mcp.summaries import diff_answer, recording_answer
from tests.support.hostile_names import NAMED
from tests.support.recorded import written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recordings in it, and one beside it."""
    (tmp_path / "in" / "monday").mkdir(parents=True)
    written(tmp_path / "in" / "old.heaptop", 5)
    written(tmp_path / "in" / "monday" / "new.heaptop", 5)
    written(tmp_path / "out.heaptop", 5)
    os.utime(tmp_path / "in" / "old.heaptop", (1, 1))
    return tmp_path / "in"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_recordings_are_listed_the_newest_first(folder: Path) -> None:
    (folder / "link.heaptop").symlink_to(folder.parent / "out.heaptop")
    (folder / "loop").symlink_to(folder)
    (folder / f"{NAMED[:-2]}.heaptop").write_bytes(b"")
    (folder / "notes.txt").write_text("no recording")
    os.mkfifo(folder / "pipe.heaptop")
    assert RecordingsFolder(folder).names() == ["monday/new.heaptop", "old.heaptop"]


def test_one_is_read_by_its_name(folder: Path) -> None:
    before = descriptors()
    with RecordingsFolder(folder).opened("monday/new.heaptop") as recording:
        answer = recording_answer("monday/new.heaptop", recording, 5)
        changed = diff_answer("type", recording.changes(), 5)
    assert answer.lines[0].startswith("Recording ‹monday/new.heaptop› of process ")
    assert answer.document["untrusted"]["seconds"] == recording.seconds
    assert answer.text.count("Next: ") == 1
    assert changed.document["untrusted"]["by"] == "type"
    assert descriptors() == before


@pytest.mark.parametrize(
    "name",
    [
        "../out.heaptop",
        "monday/../../out.heaptop",
        "/etc/passwd",
        "",
        ".",
        "monday",
        "monday/",
        "none.heaptop",
        "old.heaptop/x",
        "old\0.heaptop",
        "link.heaptop",
        "outside/out.heaptop",
        "pipe.heaptop",
        "null.heaptop",
        "x" * 5_000,
    ],
)
def test_nothing_else_can_be_opened(folder: Path, name: str) -> None:
    (folder / "link.heaptop").symlink_to(folder.parent / "out.heaptop")
    (folder / "outside").symlink_to(folder.parent)
    (folder / "null.heaptop").symlink_to("/dev/null")
    os.mkfifo(folder / "pipe.heaptop")
    before = descriptors()
    with pytest.raises(NotARecording, match="There is no recording"), RecordingsFolder(folder).opened(name):
        pytest.fail("it was opened")
    assert descriptors() == before


def test_a_file_that_is_no_recording_is_an_error_by_its_name(folder: Path) -> None:
    (folder / "bad.heaptop").write_bytes(b"no recording at all")
    before = descriptors()
    with pytest.raises(NotARecording, match=r"bad\.heaptop"), RecordingsFolder(folder).opened("bad.heaptop"):
        pytest.fail("it was opened")
    assert descriptors() == before


def test_the_folder_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        RecordingsFolder(tmp_path / "none")
