"""What a recording takes to be read is bounded by its size, whatever it says."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from heaptop.__main__ import main
from heaptop.errors import NotARecording, ProtocolError, RecordingError, RecordingTooLarge
from heaptop.protocol.messages import Census
from heaptop.recordings import allowance, reader
from heaptop.recordings.allowance import Allowance
from heaptop.recordings.compression import ZSTD
from heaptop.recordings.exports import EXPORTERS
from heaptop.recordings.format import KEY, NOTE, TICK, BlockHeader, frames, messages, unpack_alone
from heaptop.recordings.reader import Recording
from tests.support.recorded import written
from tests.targets.hostile import recordings as hostile
from tests.unit.recording_cases import Made, played

pytestmark = pytest.mark.slow

SPACE = 600 << 20
"""Bytes of address space that reading one may take, all of heaptop included."""
GUARD = 150
"""Seconds after which it is taken for endless: many times what it takes on a busy machine."""

READ = (0, 40, 50, 54)
"""Exit codes: it is read, or refused with a sentence."""
OPEN = """
import sys
from queue import SimpleQueue
from heaptop.errors import HeaptopError
from heaptop.protocol.source import Ended, SeekDone
from heaptop.recordings.replay import ReplaySource
from heaptop.recordings.reader import Recording
try:
    source = ReplaySource(Recording.open(sys.argv[1]))
except HeaptopError as error:
    sys.exit(error.exit_code)
said = SimpleQueue()
source.open(lambda event: said.put(event) if isinstance(event, (Ended, SeekDone)) else None)
event = said.get()
source.close()
sys.exit(event.error.exit_code if isinstance(event, Ended) and event.error else 0)
"""


@pytest.fixture(scope="module")
def made() -> dict[str, Path]:
    """Those that were written already, by kind."""
    return {}


def crafted(kind: str, made: dict[str, Path], folder: pytest.TempPathFactory) -> Path:
    if kind not in made:
        made[kind] = hostile.make(kind, folder.mktemp("hostile") / "a.heaptop")
    return made[kind]


def run_bounded(*argv: str) -> tuple[int, str]:
    """Exit code and stderr of a Python that has so much space."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))

    done = subprocess.run(
        [sys.executable, *argv],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=GUARD,
        preexec_fn=bound,
    )
    return done.returncode, done.stderr.decode()


COMMANDS = {
    "report": ["-m", "heaptop", "report", "FILE"],
    "diff": ["-m", "heaptop", "diff", "FILE", "--json"],
    "json": ["-m", "heaptop", "export", "FILE", "--to", "json"],
    "open": ["-c", OPEN, "FILE"],
}
SAMPLE = ("types", "living", "wrong places")
"""Kinds that every command is tried on, one each of: refused for its size, held in memory, and wrong in what it says;
the others are tried by ``report``, and by every command under --stress."""
TRIED = [
    pytest.param(kind, command, marks=[] if command == "report" or kind in SAMPLE else pytest.mark.stress)
    for command in COMMANDS
    for kind in hostile.KINDS
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("kind", "command"), TRIED)
def test_what_a_crafted_recording_takes_is_bounded(
    kind: str, command: str, made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = crafted(kind, made, tmp_path_factory)
    code, said = run_bounded(*[str(path) if each == "FILE" else each for each in COMMANDS[command]])
    assert code in READ, said
    assert "Traceback" not in said
    assert "MemoryError" not in said


@pytest.mark.sample(4)
@pytest.mark.parametrize("to", list(EXPORTERS))
@pytest.mark.parametrize("kind", ["deep stacks", "many stacks", "long names"])
def test_what_stacks_are_written_out_to_is_bounded(
    kind: str, to: str, made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = crafted(kind, made, tmp_path_factory)
    code, said = run_bounded("-m", "heaptop", "export", str(path), "--to", to)
    assert code in READ, said
    assert "Traceback" not in said


def test_the_sentence_names_the_bound(
    made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    path = crafted("types", made, tmp_path_factory)
    assert main(["report", str(path)]) == 54
    said = " ".join(capsys.readouterr().err.split())
    assert f"96 MiB and {allowance.TIMES} times its size, 1 GiB at most" in said
    assert "made to exhaust" in said
    assert "socket" not in said


# -- the index -----------------------------------------------------------------------------------------------------


def bytes_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes that opening it asks the system for."""
    found, pread = [0], os.pread

    def counted(fd: int, length: int, at: int) -> bytes:
        data = pread(fd, length, at)
        found[0] += len(data)
        return data

    with monkeypatch.context() as patched:
        patched.setattr(reader.os, "pread", counted)
        Recording.open(path).close()
    return found[0]


@pytest.mark.parametrize("kind", ["nested heads", "beginnings", "sound", "cut blocks"])
def test_a_file_is_read_once_or_so_however_damaged_it_is(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.heaptop"
    if kind == "sound":
        Made(path, watch=False).begin().run(400).end()
    elif kind == "cut blocks":
        data = bytearray(Made(path, watch=False).begin().run(400).end().path.read_bytes())
        at = 0
        while (at := data.find(b"\xf5blk", at + 1)) > 0:
            data[min(at + 60, len(data) - 1)] ^= 1
        keep = path.read_bytes()[: data.find(b"\xf5blk", 2000)]
        path.write_bytes(keep + data[len(keep) :])
    else:
        hostile.make(kind, path)
    window = 2 << 20  # the header, and the piece that is kept
    assert bytes_read(path, monkeypatch) <= 6 * path.stat().st_size + window


def test_reading_heads_in_heads_grows_with_the_file_and_not_with_its_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for size in (2 << 20, 8 << 20):
        path = tmp_path / f"{size}.heaptop"
        path.write_bytes(hostile.nested_heads(size))
        found.append(bytes_read(path, monkeypatch))
    assert found[1] <= 5 * found[0]


def test_of_many_damaged_places_some_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.heaptop"
    number = 500
    late = [BlockHeader(NOTE, each, hostile.SECOND, 0, 0).pack() for each in range(2, number + 2)]
    key = hostile.whole(hostile.BEGIN, [(KEY, hostile.BEGIN)])
    path.write_bytes(key + b"".join(late))
    with Recording.open(path) as recording:
        assert len(recording.damage) == reader.MOST_DAMAGE + 1
        assert f"and {number - reader.MOST_DAMAGE} more places" in recording.damage[-1]


def test_more_blocks_than_there_can_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_BLOCKS", 50)
    path = tmp_path / "a.heaptop"
    path.write_bytes(hostile.whole(hostile.BEGIN, [(TICK, b"")] * 49))
    Recording.open(path).close()
    path.write_bytes(hostile.whole(hostile.BEGIN, [(TICK, b"")] * 50))
    with pytest.raises(RecordingTooLarge, match="50 blocks"):
        Recording.open(path)


# -- blocks and frames ----------------------------------------------------------------------------------------------


def test_a_block_is_unpacked_up_to_its_limit_and_not_by_what_it_claims() -> None:
    assert ZSTD is not None
    block = hostile.pack_alone(KEY, 1, 1, bytes(10_000))[reader.HEAD_BYTES :]
    assert len(unpack_alone(ZSTD, block, 10_000)) == 10_000
    with pytest.raises(ProtocolError, match="too large"):
        unpack_alone(ZSTD, block, 9_999)
    lies = bytearray(block)
    assert lies[5:7] == (10_000 - 256).to_bytes(2, "little"), "zstd's frame says how long the content is"
    for claim in (9_000, 11_000):
        lies[5:7] = (claim - 256).to_bytes(2, "little")
        with pytest.raises(ProtocolError):
            unpack_alone(ZSTD, bytes(lies), 20_000)


@pytest.mark.parametrize("length", [0, (32 << 20) + 1, (1 << 32) - 1])
def test_frames_are_bounded_as_on_the_wire(length: int) -> None:
    with pytest.raises(ProtocolError):
        list(messages(length.to_bytes(4, "big") + b"\x90"))


def test_frames_of_other_kinds_are_not_decoded() -> None:
    seen: list[int] = []
    content = frames([hostile.ABOUT]) + hostile.framed(b"\x92\xa3xyz\xc1\xc1") + frames([hostile.ABOUT])
    assert list(messages(content, take=seen.append)) == [hostile.ABOUT] * 2
    assert len(seen) == 2


def test_memory_is_looked_at_while_a_moment_is_played() -> None:
    taken = [0]
    allowed = Allowance("a.heaptop", 1000, resident=lambda: taken[0])
    taken[0] = allowed.memory
    allowed.check()
    taken[0] += 1
    with pytest.raises(RecordingTooLarge):
        allowed.check()
    assert allowed.memory == allowance.LEAST + 1000 * allowance.TIMES
    assert Allowance("a.heaptop", 1 << 40).memory == allowance.MOST


def test_what_is_kept_from_moment_to_moment_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who steps through a small file of many large censuses does not gather them all."""
    monkeypatch.setattr(reader, "MOST_KEPT", 100_000)
    path = tmp_path / "a.heaptop"
    path.write_bytes(hostile.censuses(30, 10_000))
    with Recording.open(path) as recording:
        for moment in recording.moments:
            list(recording.events(moment))
        kept = sum(len(one.rows) for known in recording._past.values() for one in known if isinstance(one, Census))
    assert 0 < kept <= 20_000


def test_what_heaptop_records_takes_a_fraction_of_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.heaptop"
    Made(path, watch=False).begin().run(600).end()
    monkeypatch.setattr(allowance, "LEAST_UNPACKED", allowance.LEAST_UNPACKED // 8)
    monkeypatch.setattr(allowance, "TIMES_UNPACKED", allowance.TIMES_UNPACKED // 8)
    with Recording.open(path) as recording:
        assert not recording.damage
        assert played(recording).history.latest is not None
        assert played(recording, since=recording.first_ns).history.latest is not None


# -- what is no file ------------------------------------------------------------------------------------------------


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in (pipe, link, tmp_path / "socket", Path("/dev/zero"), Path("/dev/null"), tmp_path):
            code, said = run_bounded("-m", "heaptop", "report", str(path))
            assert code == 50, said
            assert "regular file" in said or "directory" in said


def test_a_name_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "a\0b"]) == 50
    assert main(["report", "x" * 5000]) == 50


def test_a_file_that_grows_is_read_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path / "a.heaptop", 10)
    with Recording.open(path) as recording:
        before = [recording.moments, played(recording).history.latest]
        with path.open("ab") as file:
            file.write(bytes(1 << 20))
        assert [recording.moments, recording.damage] == [before[0], ()]
        assert played(recording).time_ns == recording.last_ns


def test_a_file_that_shrinks_is_refused_where_it_ends(tmp_path: Path) -> None:
    path = written(tmp_path / "a.heaptop", 30)
    with Recording.open(path) as recording:
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises((ProtocolError, RecordingError)):
            played(recording)


def test_a_file_that_shrinks_while_it_is_indexed_ends_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.heaptop", 30)
    size, pread = path.stat().st_size, os.pread
    monkeypatch.setattr(reader, "_CHUNK", 4096)

    def shrinking(fd: int, length: int, at: int) -> bytes:
        return pread(fd, length, at)[: max(size // 2 - at, 0)]

    with monkeypatch.context() as patched:
        patched.setattr(reader.os, "pread", shrinking)
        try:
            with Recording.open(path) as recording:
                assert recording.damage
        except NotARecording:
            pass


def test_figures_without_a_number_never_become_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("not a number", "no share"):
        assert main(["report", str(hostile.make(kind, tmp_path / kind)), "--json"]) == 40
        said = capsys.readouterr()
        assert said.out == ""
        assert "has a figure that is not a number" in said.err
    assert main(["report", str(hostile.make("ends", tmp_path / "b")), "--json"]) == 0
    json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
