"""The file of a heap dump: what is packed is unpacked, and what is not as it was packed is refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from heaptop.__main__ import main
from heaptop.cli.commands import diff
from heaptop.dumps.captured_source import CapturedSource
from heaptop.dumps.format import (
    END,
    HEAD_BYTES,
    IMAGE,
    MAX_PIECE,
    PIECE,
    STATE,
    BlockHead,
    BlockPacker,
    BlockUnpacker,
    is_dump,
    pack_header,
    unpack_header,
)
from heaptop.dumps.reader import begins_as_dump
from heaptop.dumps.writer import LEAST_PIECE, DumpFile, DumpParts, asked_pieces
from heaptop.errors import CodecMissing, DumpFailed, DumpTooNew, NotADump, ProtocolError
from heaptop.protocol.dumped import DumpInfo
from heaptop.protocol.images import DUMP_SECTIONS, Dumped, Question
from heaptop.protocol.source import Event, Received
from heaptop.recordings import compression
from heaptop.recordings.recording_state import RecordingState
from tests.fakes.source import FakeSource

INFO = DumpInfo("0.1.0", 4711, "shop.py", "3.12.1", "shop", 1.7e9, 5, "sizes", 100, 200)


def test_a_header_is_read_as_it_was_written() -> None:
    data = pack_header(INFO)
    assert is_dump(data)
    info, codec, length = unpack_header(data + b"more", "file")
    assert (info, codec.number, length) == (INFO, compression.BEST.number, len(data))


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_half_a_header_is_no_heap_dump(cut: int) -> None:
    with pytest.raises(NotADump):
        unpack_header(pack_header(INFO)[:cut], "file")


@pytest.mark.parametrize(
    "change",
    [
        {"wall": float("nan")},
        {"wall": 1e300},
        {"wall": -1.0},
        {"sampled": float("inf")},
        {"values": "secrets"},
        {"origin": "live"},
    ],
    ids=str,
)
def test_what_no_dump_says_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(NotADump):
        unpack_header(pack_header(replace(INFO, **change)), "file")  # type: ignore[arg-type]


def test_a_newer_file_is_refused_with_its_number() -> None:
    data = bytearray(pack_header(INFO))
    data[8] = 9
    with pytest.raises(DumpTooNew, match="format 9"):
        unpack_header(bytes(data), "file")


def test_a_file_of_another_codec_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(pack_header(INFO))
    data[10] = 7
    with pytest.raises(DumpTooNew):
        unpack_header(bytes(data), "file")
    data[10] = 0
    monkeypatch.setattr(compression, "ZSTD", None)
    with pytest.raises(CodecMissing):
        unpack_header(bytes(data), "file")


@pytest.mark.parametrize("kind", [STATE, IMAGE, PIECE, END])
def test_a_block_is_read_as_it_was_written(kind: int) -> None:
    block = BlockPacker().pack(kind, b"content" * 1000)
    head = BlockHead.unpack(block[:HEAD_BYTES])
    assert head is not None
    assert (head.kind, head.length) == (kind, len(block) - HEAD_BYTES)
    assert BlockUnpacker(compression.BEST).unpack(head, block[HEAD_BYTES:]) == b"content" * 1000


def test_a_changed_block_is_refused() -> None:
    block = BlockPacker().pack(PIECE, b"content" * 1000)
    head = BlockHead.unpack(block[:HEAD_BYTES])
    assert head is not None
    for place in range(HEAD_BYTES):
        changed = bytearray(block[:HEAD_BYTES])
        changed[place] ^= 1
        assert BlockHead.unpack(bytes(changed)) is None, place
    payload = bytearray(block[HEAD_BYTES:])
    payload[-1] ^= 1
    with pytest.raises(ProtocolError):
        BlockUnpacker(compression.BEST).unpack(head, bytes(payload))


def test_a_piece_that_grows_beyond_its_size_is_refused() -> None:
    block = BlockPacker().pack(PIECE, bytes(MAX_PIECE + 1))
    head = BlockHead.unpack(block[:HEAD_BYTES])
    assert head is not None
    assert head.length < 10_000
    with pytest.raises(ProtocolError, match="too large"):
        BlockUnpacker(compression.BEST).unpack(head, block[HEAD_BYTES:])


def written(path: Path, answer: Callable[[Question], Dumped]) -> None:
    def ask(question: Question, kind: type[Dumped]) -> Dumped:
        return answer(question)

    with DumpFile(str(path)) as file:
        file.write(INFO, DumpParts([], [], []), asked_pieces(INFO, ask, lambda done, total: None))


@pytest.mark.parametrize(
    "answer",
    [
        lambda question: Dumped(1, b"x", question.number, question.offset + 1, 1 << 30),
        lambda question: Dumped(1, bytes(LEAST_PIECE), question.number, question.offset, 1 << 30),
        lambda question: Dumped(1, bytes(LEAST_PIECE), question.number, question.offset + 1, 1 << 30),
        lambda question: Dumped(1, bytes(MAX_PIECE + 1), question.number + 1, 0, 1),
    ],
    ids=["a byte at a time", "the same again", "without end", "a piece too large"],
)
def test_what_cannot_be_a_heap_ends_the_dump_and_leaves_no_file(
    tmp_path: Path, answer: Callable[[Question], Dumped]
) -> None:
    with pytest.raises(DumpFailed, match="cannot be part"):
        written(tmp_path / "file", answer)
    assert not (tmp_path / "file").exists()


def test_what_does_not_fit_together_ends_no_session_and_gives_no_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard's session goes on for days."""

    def fail(*_: object) -> None:
        raise ProtocolError("a stack that is not there")

    monkeypatch.setattr(RecordingState, "feed", fail)
    source, events = CapturedSource(FakeSource()), list[Event]()
    source.open(events.append)
    source._through.attach()  # type: ignore[attr-defined]
    source._through.tick()  # type: ignore[attr-defined]
    assert any(isinstance(event, Received) for event in events)
    with pytest.raises(DumpFailed) as refused:
        source.state()
    assert refused.value.why == "a stack that is not there"


def test_an_empty_name_is_no_name_for_a_dump() -> None:
    with pytest.raises(DumpFailed):
        DumpFile("")


def test_a_dump_ends_behind_its_last_section(tmp_path: Path) -> None:
    asked: list[tuple[int, int]] = []

    def answer(question: Question) -> Dumped:
        asked.append((question.number, question.offset))
        return Dumped(1, b"x", question.number + 1, 0, 1)

    written(tmp_path / "file", answer)
    assert asked == [(section, 0) for section in range(DUMP_SECTIONS)]
    assert begins_as_dump(str(tmp_path / "file"))


def test_diff_reads_two_files_whatever_they_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second name without a slash and without .heapdump was looked for among the processes."""
    asked: list[str] = []

    def source_of(target: str, *_: object, **__: object) -> tuple[None, str]:
        asked.append(target)
        if len(asked) == 2:
            raise DumpFailed("Both were asked for.")
        return None, target

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(diff, "source_of", source_of)
    for name in ("before", "4711"):
        written(tmp_path / name, lambda question: Dumped(1, b"x", question.number + 1, 0, 1))
    for second, meant in (("before", "./before"), ("4711", "4711")):
        asked.clear()
        assert main(["diff", "before", second]) == DumpFailed.exit_code
        assert asked == ["./before", meant]


@pytest.mark.parametrize(
    "command",
    [["open", "/nowhere/x.heapdump"], ["why", "x.heapdump", "dict"], ["diff", "x.heapdump", "1"]],
    ids=" ".join,
)
def test_a_dump_that_is_not_there_says_what_one_is(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == NotADump.exit_code
    assert "A heap dump is a file written by `heaptop dump`." in capsys.readouterr().err


def test_a_redaction_that_a_signal_ends_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(dump: object, file: DumpFile) -> dict[str, str]:
        file._append(b"half a file")
        assert (tmp_path / "out").exists()
        os.kill(os.getpid(), signal.SIGTERM)
        return {}

    monkeypatch.setattr("heaptop.dumps.reader.HeapDump", lambda path: nullcontext())
    monkeypatch.setattr("heaptop.dumps.redacting.redact", half)
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the signal would have killed heaptop"))
    try:
        assert main(["redact", str(tmp_path / "it"), "-o", str(tmp_path / "out")]) == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "command",
    [
        "redact it -o it",
        "redact it -o linked",
        "redact it -o symbolic",
        "redact it -o out --names it",
        "redact it -o out --names out",
        "export it --to parquet -o it",
        "export it --to parquet -o linked",
        "dump core -o core",
    ],
)
def test_no_command_overwrites_the_file_that_it_reads(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    contents = {"it": pack_header(INFO), "core": b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + b"\4\0" + bytes(64)}
    for name, content in contents.items():
        Path(name).write_bytes(content)
    Path("linked").hardlink_to("it")
    Path("symbolic").symlink_to("it")
    assert main([*command.split(), "--force"]) == 2
    assert "would overwrite" in capsys.readouterr().err
    assert {name: Path(name).read_bytes() for name in contents} == contents
    assert {path.name for path in tmp_path.iterdir()} == {*contents, "linked", "symbolic"}
