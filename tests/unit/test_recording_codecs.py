"""Recordings are compressed with what this Python has, say so, and are read with the same bounds whatever it is."""

from __future__ import annotations

import json
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from heaptop.errors import CodecMissing, ProtocolError, RecordingTooNew
from heaptop.recordings import compression
from heaptop.recordings.compression import ZLIB, Codec, PackagedZstd
from heaptop.recordings.format import SegmentCodec, content_size, key_dictionary, unpack_alone
from heaptop.recordings.reader import Recording
from tests.interpreters import Interpreter
from tests.unit.recording_cases import Made, received

CONTENT = b"".join(b"census %d of type number %d\n" % (number, number % 45) for number in range(40_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.heaptop"


def recorded(path: Path) -> list[object]:
    """Record a session there; all that its reader says."""
    Made(path).begin().run(30).end()
    return read(path)


def read(path: Path) -> list[object]:
    with Recording.open(path) as recording:
        assert not recording.damage
        return [event for moment in recording.moments for event in received(recording.events(moment))]


def test_without_zstd_a_recording_is_written_with_zlib_and_shows_the_same(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = recorded(tmp_path / "with-zstd.heaptop")
    monkeypatch.setattr(compression, "ZSTD", None)
    monkeypatch.setattr(compression, "BEST", ZLIB)
    assert recorded(path) == expected
    monkeypatch.undo()
    assert read(path) == expected


def test_a_recording_in_zstd_needs_zstd_and_the_error_says_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(path)
    monkeypatch.setattr(compression, "ZSTD", None)
    with pytest.raises(CodecMissing) as caught:
        Recording.open(path)
    assert str(path) in caught.value.message
    assert "pip install zstandard" in caught.value.fix


def test_the_header_names_the_codec_and_an_older_heaptop_still_reads_zstd(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(path)
    assert path.read_bytes()[8:12] == b"\x01\x00\x00\x00"  # format 1, which had zeros there
    monkeypatch.setattr(compression, "BEST", ZLIB)
    path.unlink()
    recorded(path)
    assert path.read_bytes()[8:12] == b"\x02\x00\x01\x00"


def test_a_codec_of_a_newer_heaptop_is_refused(path: Path) -> None:
    recorded(path)
    with path.open("r+b") as file:
        file.seek(10)
        file.write(b"\x09")
    with pytest.raises(RecordingTooNew, match="does not know"):
        Recording.open(path)


@pytest.mark.parametrize("codec", [PackagedZstd(), ZLIB], ids=lambda codec: codec.name)
@pytest.mark.parametrize("dictionary", [b"", b"short", CONTENT[:100_000]], ids=len)
def test_what_is_packed_is_unpacked_with_the_same_dictionary(codec: Codec, dictionary: bytes) -> None:
    segment, pack = SegmentCodec(dictionary, codec), codec.compressor(dictionary)
    for content in (b"", b"x", CONTENT, bytes(3 << 20)):
        payload = pack(content)
        assert content_size(codec, payload[:18]) == len(content)
        assert segment.unpack(payload) == content


@pytest.mark.parametrize("codec", [PackagedZstd(), ZLIB], ids=lambda codec: codec.name)
@pytest.mark.parametrize(
    "damage",
    [
        lambda payload: b"",
        lambda payload: payload[:5],
        lambda payload: payload[:-10],
        lambda payload: payload[: len(payload) // 2],
        lambda payload: payload[:20] + bytes(100) + payload[120:],
        lambda payload: bytes(len(payload)),
    ],
    ids=["empty", "no size", "cut at its end", "cut in half", "overwritten", "zeros"],
)
def test_a_damaged_payload_is_refused(codec: Codec, damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ProtocolError):
        unpack_alone(codec, damage(codec.compressor(b"")(CONTENT)))


def test_a_zlib_payload_that_claims_less_than_it_has_is_refused_before_all_of_it_is_unpacked() -> None:
    bomb = zlib.compress(bytes(64 << 20))
    with pytest.raises(ProtocolError, match="wrong length"):
        unpack_alone(ZLIB, (1_000).to_bytes(8, "little") + bomb)
    with pytest.raises(ProtocolError, match="too large"):
        unpack_alone(ZLIB, (64 << 20).to_bytes(8, "little") + bomb, 1 << 20)
    assert len(key_dictionary(ZLIB, (64 << 20).to_bytes(8, "little") + bomb)) == 1 << 18


BY_BUILTIN = """\
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("codecs", sys.argv[1])
codecs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(codecs)
said = json.load(sys.stdin)
names = "dictionary", "content", "payload", "damaged"
dictionary, content, payload, damaged = (bytes.fromhex(said[name]) for name in names)
codec = codecs.BuiltinZstd()
def unpacked(payload):
    read, pieces = codec.decompressor(dictionary)(payload), []
    while piece := read(1000):
        assert len(piece) <= 1000
        pieces.append(piece)
    return b"".join(pieces)
assert type(codecs.BEST) is codecs.BuiltinZstd
assert unpacked(payload) == content
assert codec.content_size(payload[:18]) == len(content)
assert unpacked(payload[:-1]) != content
try:
    unpacked(damaged)
except codec.errors:
    pass
else:
    raise AssertionError("a damaged payload was unpacked")
print(json.dumps({"payload": codec.compressor(dictionary)(content).hex()}))
"""


@pytest.mark.parametrize("dictionary", [b"", b"short", CONTENT[:100_000]], ids=len)
@pytest.mark.pythons("3.14")
@pytest.mark.slow
def test_the_zstd_of_python_and_that_of_the_package_read_each_other(
    interpreter: Interpreter, dictionary: bytes, tmp_path: Path
) -> None:
    module = tmp_path / "recording_compression.py"  # beside programs, ``compression`` would hide Python's own
    module.write_bytes(Path(compression.__file__).read_bytes())
    ours = PackagedZstd()
    payload = ours.compressor(dictionary)(CONTENT)
    damaged = payload[:20] + bytes(100) + payload[120:]
    said = {"dictionary": dictionary, "content": CONTENT, "payload": payload, "damaged": damaged}
    done = subprocess.run(
        interpreter.command(["-I", "-c", BY_BUILTIN, interpreter.place(module)]),
        input=json.dumps({name: value.hex() for name, value in said.items()}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = bytes.fromhex(json.loads(done.stdout)["payload"])
    assert content_size(ours, theirs[:18]) == len(CONTENT)
    assert SegmentCodec(dictionary, ours).unpack(theirs) == CONTENT
