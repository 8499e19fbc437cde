"""Recordings that were made to exhaust whoever reads them: a few kilobytes each, most of them.

:func:`make` writes one; :data:`KINDS` names them. What heaptop's own classes would refuse to write is packed by hand.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgpack

from heaptop.protocol.messages import BIRTH, CodeName, Codes, Hello, Message, Sampler, Samples, Tick, TypeName, Types
from heaptop.protocol.recorded import KeptStacks, Likenesses, LiveBlocks, RecordingInfo
from heaptop.recordings.format import (
    COUNT,
    DICTIONARY,
    KEY,
    NOTE,
    TICK,
    BlockHeader,
    SegmentCodec,
    frames,
    pack_alone,
    pack_header,
)

SECOND: Final = 10**9
LARGEST: Final = (1 << 63) - 1
ABOUT: Final = RecordingInfo("1", 1, "shop", "3.11", "joe", "ptrace", 0, SECOND, 1.7e9)
_HELLO: Final = Hello(1, "", 1, "3.11.0", "/x", (), True, SECOND)
BEGIN: Final = frames([ABOUT, _HELLO])
"""What a KEY begins with."""
_SAMPLER: Final = Sampler(0, SECOND, True, 1000, 10, (1000,), 1)
_CENSUS: Final[dict[str, Any]] = {
    "id": 0, "mode": "clone", "complete": True, "cut": "", "duration_ns": 1, "pause_ns": 1, "cpu_ns": 1,
    "agent_bytes": 1, "sizeof_guessed": 0,
}  # fmt: skip
_FINDINGS: Final[dict[str, Any]] = {
    "time_ns": SECOND, "marks": [["a", 1, 1, 1]], "verdict": "leak", "count": 1, "bytes": 1, "suspects": [],
    "lints": [], "growths": [],
}  # fmt: skip

Block = tuple[int, bytes]


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def raw(kind: str, fields: dict[str, Any]) -> bytes:
    """A message as no class of heaptop's would say it."""
    return framed(msgpack.packb([kind, fields]))


def whole(key: bytes, blocks: Iterable[Block] = ()) -> bytes:
    """A recording of a KEY and of these blocks, a second apart."""
    segment = SegmentCodec(key[:DICTIONARY])
    out = [pack_header(ABOUT), pack_alone(KEY, 1, SECOND, key)]
    for number, (kind, content) in enumerate(blocks, 2):
        pack = segment.pack if kind in (TICK, COUNT) else pack_alone
        out.append(pack(kind, number, number * SECOND, content))
    return b"".join(out)


def _said(*messages: Message) -> bytes:
    return BEGIN + frames(messages)


def _column(code: str, numbers: Iterable[int]) -> bytes:
    return array(code, numbers).tobytes()


def _tick(time_ns: int, figure: int = 1) -> Tick:
    return Tick(0, time_ns, figure, figure, True, (0, 0, 0), 0, 1, 1)


def _nothing(times: int, item: bytes) -> bytes:
    """A frame of arrays of nothing, which take eight times as much memory and more."""
    items = b"\xdd\x00\x03\xff\xff" + item * 0x3FFFF
    return framed(b"\x92\xa5types\x82\xa5first\x00\xa5names\xdd" + times.to_bytes(4, "big") + items * times)


def _likenesses(number: int) -> bytes:
    """As many living blocks, none like another."""
    said: list[Message] = [_SAMPLER]
    pieces = [range(first, min(first + (1 << 16), number)) for first in range(0, number, 1 << 16)]
    for ids in pieces:
        n = len(ids)
        sizes, intervals = _column("Q", (each + 1 for each in ids)), _column("Q", [1000]) * n
        said.append(Likenesses(ids[0] + 1, bytes(4 * n), b"\xff" * 4 * n, sizes, intervals))
    for ids in pieces:
        n = len(ids)
        said.append(LiveBlocks(SECOND, 10, ids[0], _column("i", (each + 1 for each in ids)), bytes(8 * n), bytes(n)))
    return _said(*said)


def _live_blocks(number: int) -> bytes:
    """As many pieces of living blocks, all alike."""
    one = Likenesses(1, bytes(4), b"\xff" * 4, _column("Q", [64]), _column("Q", [1000]))
    row = _column("i", [1]) * 65536
    live_blocks = [LiveBlocks(SECOND, 10, each << 16, row, bytes(8 << 16), bytes(1 << 16)) for each in range(number)]
    return _said(_SAMPLER, one, *live_blocks)


def stacks(number: int, depth: int, name: str = "g") -> bytes:
    """As many blocks, each of a stack of its own, all of these so deep."""
    chain = KeptStacks(1, _column("i", range(depth)), bytes(4 * depth), _column("i", [1]) * depth)
    leaves = KeptStacks(
        depth + 1, _column("i", [depth]) * number, bytes(4 * number), _column("i", range(1, number + 1))
    )
    likenesses = Likenesses(
        1, _column("i", range(depth + 1, depth + number + 1)), b"\xff" * 4 * number, _column("Q", [64]) * number,
        _column("Q", [1000]) * number,
    )  # fmt: skip
    live_blocks = LiveBlocks(SECOND, 10, 0, _column("i", range(1, number + 1)), bytes(8 * number), bytes(number))
    return _said(_SAMPLER, Codes(0, (CodeName("f", name, 1),)), chain, leaves, likenesses, live_blocks)


def _births(first: int, number: int, time: int) -> bytes:
    born = (BIRTH.pack(first + each, 0, 1, 64 + first + each, 0, 0, 0, 0) for each in range(number))
    return frames([Samples(time * SECOND, 1 << 20, b"".join(born), b""), _tick(time * SECOND)])


def _census(rows: list[list[int]], time: int = 1) -> bytes:
    return raw("census", {**_CENSUS, "time_ns": time * SECOND, "rows": rows})


def nested_heads(size: int) -> bytes:
    """Heads, each of a block that reaches to the end of the file and is not whole."""
    number = size // len(BlockHeader(TICK, 2, SECOND, 0, 0).pack())
    heads = [
        BlockHeader(TICK, 2 + each, 2 * SECOND, (number - each - 1) * size // number, 0).pack()
        for each in range(number)
    ]
    return whole(BEGIN) + b"".join(heads)


def censuses(keys: int, rows: int) -> bytes:
    """As many KEYs, each with a census of so many rows that pack to nothing."""
    types = frames([Types(0, (TypeName("m", "t"),))])
    said = (BEGIN + types + _census([[0, 2, 1, 1]] * rows, each) for each in range(1, keys + 1))
    return pack_header(ABOUT) + b"".join(
        pack_alone(KEY, each, each * SECOND, content) for each, content in enumerate(said, 1)
    )


def _types(number: int, name: str = "t") -> bytes:
    names = [["m", name]] * (1 << 16)
    return BEGIN + b"".join(raw("types", {"first": each << 16, "names": names}) for each in range(number))


def _looks(number: int) -> bytes:
    growth = [["type", [["x", 1, 1, 1, 1, None, None]] * 100_000]]
    look = raw("findings", {**_FINDINGS, "growths": growth})
    return whole(BEGIN, [*[(NOTE, look)] * number, (KEY, BEGIN)])


def _suspect(rate: float, *more: object) -> bytes:
    suspect = ["leak", "t", 1, 1, rate, "s", [], 1.0, 1, "r", "h", [], "dict", 1, 0, 0, [], [], [], "s", *more]
    return whole(BEGIN, [(NOTE, raw("findings", {**_FINDINGS, "suspects": [suspect]})), (KEY, BEGIN)])


def _ends() -> bytes:
    """The largest numbers that there are."""
    said = _said(Types(0, (TypeName("m", "t"),)))
    census = {**_CENSUS, "time_ns": LARGEST, "duration_ns": LARGEST, "rows": [[0, 2, 1 << 62, 1 << 62]]}
    return whole(said + raw("census", census) + frames([_tick(LARGEST, LARGEST)]))


_MAKERS: Final[dict[str, Callable[[], bytes]]] = {
    "zeros": lambda: whole(BEGIN + bytes(300 << 20)),
    "types": lambda: whole(_types(128)),
    "nothing": lambda: whole(BEGIN + _nothing(128, b"\xc0") * 2),
    "arrays": lambda: whole(BEGIN + _nothing(4, b"\x91\xc0") * 5),
    "deep nesting": lambda: whole(BEGIN + framed(b"\x92\xa5types" + b"\x91" * (1 << 20))),
    "rows": lambda: whole(
        _types(2) + b"".join(_census([[i, 2, 1000 + i, 100000 + i] for i in range(1 << 17)]) for _ in range(9))
    ),
    "likenesses": lambda: whole(_likenesses(1 << 18)),
    "living": lambda: whole(_live_blocks(255)),
    "high number": lambda: whole(
        _said(_SAMPLER, Samples(SECOND, 1, BIRTH.pack((1 << 24) - 1, 0, 1, 64, 0, 0, 0, 0), b""))
    ),
    "births": lambda: whole(
        _said(_SAMPLER), [(TICK, _births(20_000 * each, 20_000, each + 2)) for each in range(50)]
    ),
    "deep stacks": lambda: whole(stacks(10_000, 20_000)),
    "many stacks": lambda: whole(stacks(50_000, 1000)),
    "long names": lambda: whole(stacks(5_000, 30, "g" * (1 << 20))),
    "looks": lambda: _looks(100),
    "collections": lambda: whole(
        BEGIN,
        [
            (TICK, raw("gc", {"events": [[each * SECOND, 2, 1, 1, LARGEST, None]] * 100_000, "dropped": 0}))
            for each in range(60)
        ],
    ),
    "not a number": lambda: _suspect(float("nan")),
    "no share": lambda: _suspect(1.0, True, 0, 0.0, 0, 0.0, "", [["request x", float("nan")]]),
    "huge rate": lambda: _suspect(1e308),
    "ends": _ends,
    "nested heads": lambda: nested_heads(800_000),
    "beginnings": lambda: whole(BEGIN) + b"\xf5blk" * 200_000,
    "text": lambda: whole(
        _said(Types(0, tuple(TypeName("\0" * (1 << 20), "\x1b" * (1 << 20)) for _ in range(4))))
        + _census([[each, 2, 1, 1] for each in range(4)])
    ),
    "wrong places": lambda: whole(_said() + _census([[5, 2, 1, 1]])),
}  # fmt: skip
KINDS: Final = tuple(_MAKERS)


def make(kind: str, path: Path) -> Path:
    """Write the one of this kind."""
    path.write_bytes(_MAKERS[kind]())
    return path
