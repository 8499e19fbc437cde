"""Makes wrong data out of right data, by a seeded generator of random numbers. Knows no format but msgpack's values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

INTS: Final = (-1, 0, 1, 2, 127, 128, 255, 256, 32767, 65535, 65536, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31)
WIDE: Final = (*INTS, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 62), (1 << 63) - 1, -(1 << 63), (1 << 64) - 1)
TEXTS: Final = (
    *(
        "",
        "\0",
        "\n",
        "a" * 5000,
        "\x1b]52;c;Zm9v\x07",
        "\x1b[2J",
        "\u202e",
        "\ud7ff",
        "\U0010ffff",
        "../../etc/passwd",
    ),
    *("shop.models", "%s%n", "<script>", "0", "-1", "None", "a.b:c|d", "é" * 300),
)
FLOATS: Final = (0.0, -0.0, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), 0.1)


def mutate_bytes(random: Random, data: bytes, most: int = 8) -> bytes:
    """Some bytes changed, left out, said twice, or replaced by a number at a boundary."""
    raw = bytearray(data)
    for _ in range(random.randint(1, most)):
        at = random.randrange(len(raw) + 1)
        length = min(1 << random.randrange(10), max(1, len(raw) // 2))
        kind = random.randrange(7)
        if kind == 0 and raw:
            raw[at % len(raw)] ^= 1 << random.randrange(8)
        elif kind == 1 and raw:
            raw[at % len(raw)] = random.randrange(256)
        elif kind == 2:
            del raw[at : at + length]
        elif kind == 3:
            raw[at:at] = raw[random.randrange(len(raw) + 1) :][:length]
        elif kind == 4:
            raw[at:at] = random.randbytes(length)
        elif kind == 5:
            number, form = random.choice(WIDE) & 0xFFFFFFFFFFFFFFFF, random.choice("BHIQ") + ""
            packed = struct.pack("<Q", number)[: struct.calcsize(form)]
            packed = packed[::-1] if random.random() < 0.5 else packed
            raw[at : at + len(packed)] = packed
        else:
            del raw[at:]
    return bytes(raw)


def mutate_value(random: Random, value: Any, most: int = 3) -> Any:
    """A value as msgpack has it, with some of what is in it changed."""
    for _ in range(random.randint(1, most)):
        value = _mutated(random, value)
    return value


def _mutated(random: Random, value: Any) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.95:
        key = random.choice(list(value))
        kind = random.random()
        if kind < 0.05:
            return {name: each for name, each in value.items() if name != key}
        if kind < 0.08:
            return {**value, random.choice(TEXTS): value[key]}
        return {**value, key: _mutated(random, value[key])}
    if isinstance(value, (list, tuple)) and value and random.random() < 0.95:
        items = list(value)
        at = random.randrange(len(items))
        kind = random.random()
        if kind < 0.1:
            del items[at]
        elif kind < 0.2:
            items.insert(at, random.choice(items))
        elif kind < 0.23:
            items = items * random.choice((2, 10, 100))
        elif kind < 0.3:
            random.shuffle(items)
        else:
            items[at] = _mutated(random, items[at])
        return items
    return _leaf(random, value)


def _leaf(random: Random, value: Any) -> Any:
    kind = random.random()
    if kind < 0.08:
        return random.choice((None, True, [], {}, b"", "", 0, 0.0))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice((random.choice(WIDE), value + random.choice((-1, 1)), value ^ 1 << random.randrange(40)))
    if isinstance(value, float):
        return random.choice(FLOATS)
    if isinstance(value, str):
        return random.choice((random.choice(TEXTS), value + random.choice(TEXTS), value[::-1]))
    if isinstance(value, bytes):
        return mutate_bytes(random, value)
    return value


def pieces(random: Random, data: bytes) -> list[bytes]:
    """All of it, cut anywhere."""
    found = []
    while data:
        length = random.choice((1, 3, 4, 5, 100, 5000, len(data)))
        found.append(data[:length])
        data = data[length:]
    return found


def one_of(random: Random, *ways: Callable[[], Any]) -> Any:
    """What one of these returns."""
    return random.choice(ways)()


def some(random: Random, choices: Sequence[Any], most: int) -> list[Any]:
    """Up to so many of these, repeated or not."""
    return [random.choice(choices) for _ in range(random.randint(0, most))]
