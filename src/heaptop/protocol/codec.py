"""Messages to bytes and back: msgpack of ``[kind, {field: value}]``, checked against the annotations.

Whatever the bytes are, :func:`decode` gives a message whose every field has the annotated type and a sane value, or
None for a kind it does not know, or raises ProtocolError. Text comes out printable, on one line: the names in it are
the target's choice. It never takes more than a bounded amount of memory (see :data:`MAX_ITEMS`).

The fields of a message travel by name, so that a newer peer may add some: unknown ones are ignored, and one
with a default may be missing. Dataclasses inside a message (Row, TypeName, GcEvent) travel as plain arrays in
field order, because there are thousands of them; a newer peer may append to them, and an older one may leave out
what stands last and has a default.

The checkers are built once a class, at import, from its annotations: ``int`` (64 bit, signed; not negative
unless :data:`BOUNDS` says so), ``bool``, ``str``, ``bytes``, ``float``, ``X | None``, ``tuple[X, ...]``,
``tuple[X, Y]`` and dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from itertools import chain
from operator import attrgetter
from struct import Struct
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgpack

from heaptop.errors import ProtocolError, VersionMismatch
from heaptop.protocol.bounds import NAME
from heaptop.protocol.images import CELL, KINDS, WASTES
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    MAX_BLOCK,
    MAX_CLOCK,
    MAX_INTERVAL,
    NO_INTERPRETER,
    PERMANENT,
    PROTOCOL_VERSION,
    TYPED,
    UNTRACKED,
    Hello,
    Message,
)
from heaptop.protocol.recorded import BYTE, INT, LEAST_BIN, LONG, MOST_BIN, TALLY
from heaptop.protocol.text import printable

MAX_ITEMS: Final = 1 << 18  # Items in one array or map. A frame of 32 MiB cannot announce more than this in five bytes.

MAX_TEXT: Final = 1 << 20  # Bytes of one string

MAX_ARRAYS: Final = 1 << 20  # Arrays and maps in one frame: an empty one is a byte on the wire and some sixty in memory

MAX_VALUES: Final = 1 << 21
"""Items of all arrays and maps in one frame: nil is a byte on the wire and eight in memory. A census with
:data:`MAX_ITEMS` rows has fewer."""

MAX_KNOWN: Final = 1 << 14
"""Records of numbers that are remembered from one message to the next, a few hundred bytes each."""

MAX_INT: Final = (1 << 63) - 1

_OF_A_KIND: Final = ("KindTotal", "Group", "PathGroup", "ObjectRow", "Unit", "AccumulationPoint")

BOUNDS: Final[dict[tuple[str, str], tuple[int, int]]] = {
    ("Row", "generation"): (UNTRACKED, PERMANENT),
    ("Row", "interpreter"): (NO_INTERPRETER, MAX_INT),
    ("GcEvent", "generation"): (0, PERMANENT),
    ("Failure", "request"): (-1, MAX_INT),
    ("Tick", "threads"): (-1, MAX_INT),
    ("Sampler", "interval"): (0, MAX_INTERVAL),
    ("Sampler", "intervals"): (1, MAX_INTERVAL),
    ("MallocBlocks", "size"): (1, MAX_INT),
    ("MallocBlocks", "interval"): (1, MAX_INTERVAL),
    ("Samples", "clock"): (0, MAX_CLOCK),
    ("GcEvent", "clock"): (0, MAX_CLOCK),
    ("ObjectRow", "generation"): (UNTRACKED, PERMANENT),
    ("ObjectRow", "length"): (-1, MAX_INT),
    ("ObjectRow", "bound"): (-1, MAX_INT),
    ("ObjectRow", "changes"): (-1, MAX_INT),
    **{(name, field): (-MAX_INT, MAX_INT) for name in ("GrownRow", "Findings") for field in ("count", "bytes")},
    ("Suspect", "series"): (-1, MAX_INT),
    ("AccumulationPoint", "length"): (-1, MAX_INT),
    **{(name, "kind"): (0, len(KINDS) - 1) for name in _OF_A_KIND},
    **{(name, "sort"): (0, len(WASTES) - 1) for name in ("WasteRow", "WasteTotal")},
}
"""What an int field, or the ints in it, may be, where that is not 0 to 2⁶³ − 1."""

NAMES: Final = frozenset(
    (
        *(("TypeName", field) for field in ("module", "qualname")),
        *(("CodeName", field) for field in ("file", "function")),
        ("Phase", "name"),
    )
)
"""Fields that hold a name: see :data:`~heaptop.protocol.bounds.NAME`."""

RECORDS: Final[dict[tuple[str, str], tuple[Struct, dict[int, tuple[str, int, int]]]]] = {
    ("Samples", "births"): (BIRTH, {2: ("clock", 0, MAX_CLOCK), 3: ("size", 1, MAX_BLOCK)}),
    ("Samples", "deaths"): (DEATH, {2: ("clock", 0, MAX_CLOCK)}),
    ("Samples", "typed"): (TYPED, {}),
    ("Cells", "cells"): (CELL, {4: ("kind", 0, len(KINDS) - 1)}),
    **{("KeptStacks", field): (INT, {}) for field in ("parents", "codes", "lines")},
    **{("KeptNumbers", field): (INT, {}) for field in ("codes", "stacks")},
    **{("Tallied", field): (TALLY, {2: ("bin", LEAST_BIN, MOST_BIN)}) for field in ("freed", "lost")},
    **{("Likenesses", field): (INT, {}) for field in ("stacks", "types")},
    **{("Likenesses", field): (LONG, {}) for field in ("sizes", "intervals")},
    ("LiveBlocks", "likenesses"): (INT, {}),
    ("LiveBlocks", "births"): (LONG, {}),
    ("LiveBlocks", "domains"): (BYTE, {}),
}
"""Fields of packed records: whole ones, in which the numbers at these places have these names and bounds."""

Check = Callable[[object], object]  # Takes what msgpack gave and returns the field's value, or raises _Wrong


class _Wrong(Exception):
    """A value does not fit its annotation; ``str()`` completes the sentence "the field is …"."""


# -- checkers, one a sort of annotation ---------------------------------------------------------------------


def _plain(kind: type) -> Check:
    def check(value: object) -> object:
        if type(value) is not kind:
            raise _Wrong(f"{_called(value)}, not {kind.__name__}")
        return value

    return check


def _int(low: int, high: int) -> Check:
    def check(value: object) -> object:
        if type(value) is not int:  # bool is an int to isinstance(), and not here
            raise _Wrong(f"{_called(value)}, not int")
        if not low <= value <= high:
            raise _Wrong(f"{value}, outside {low} to {high}")
        return value

    return check


def _many(inner: Check, at_once: Callable[[tuple[Any, ...]], tuple[object, ...] | None] | None = None) -> Check:
    """``at_once`` may have all of them checked; None where it did not, or found something wrong."""

    def check(value: object) -> object:
        if type(value) is not tuple:
            raise _Wrong(f"{_called(value)}, not array")
        if at_once is not None and (checked := at_once(value)) is not None:
            return checked
        try:
            return tuple(map(inner, value))
        except _Wrong as error:
            raise _Wrong(f"an array with an item that is {error}") from None

    return check


def _fixed(inner: Sequence[Check]) -> Check:
    def check(value: object) -> object:
        if type(value) is not tuple or len(value) != len(inner):
            raise _Wrong(f"{_called(value)}, not array of {len(inner)}")
        return tuple(one(item) for one, item in zip(inner, value, strict=True))

    return check


def _record(kind: type) -> Check:
    checks = tuple(_checks(kind).values())
    names = tuple(_checks(kind))
    need = sum(field.default is MISSING for field in fields(kind))

    def check(value: object) -> object:
        if type(value) is not tuple or len(value) < need:
            raise _Wrong(f"{_called(value)}, not {kind.__name__} as array of {need}")
        values: list[object] = []
        try:
            for one, item in zip(checks, value, strict=False):
                values.append(one(item))
        except _Wrong as error:
            raise _Wrong(f"a {kind.__name__} whose {names[len(values)]} is {error}") from None
        return kind(*values)

    return check


def _numbers(kind: type) -> Callable[[tuple[Any, ...]], tuple[object, ...] | None] | None:
    """Checks many records of ints column by column, which takes half as long as one by one: a census has thousands.
    Most of them are as in the census before: those are the same objects, which need not be made again."""
    if set(get_type_hints(kind).values()) != {int}:
        return None
    need = sum(field.default is MISSING for field in fields(kind))
    bounds = [BOUNDS.get((kind.__name__, field.name), (0, MAX_INT)) for field in fields(kind)]
    width = len(bounds)
    known: dict[tuple[int, ...], object] = {}

    def check(keys: tuple[Any, ...]) -> tuple[object, ...] | None:
        if set(map(type, keys)) != {tuple} or len(set(map(len, keys))) != 1 or len(keys[0]) < need:
            return None
        if len(keys[0]) > width:
            keys = tuple([key[:width] for key in keys])
        if set(map(type, chain.from_iterable(keys))) != {int}:  # before they are compared: True is equal to 1
            return None
        records = tuple(map(known.get, keys))
        if None not in records:
            return records
        unknown = [key for key, record in zip(keys, records, strict=True) if record is None]
        for (low, high), column in zip(bounds, zip(*unknown, strict=True), strict=False):
            if min(column) < low or max(column) > high:
                return None
        new = {key: kind(*key) for key in unknown}
        records = tuple([record or new[key] for key, record in zip(keys, records, strict=True)])
        if len(known) + len(new) > MAX_KNOWN:  # none but those of this message
            known.clear()
            new = dict(zip(keys, records, strict=True)) if len(keys) <= MAX_KNOWN else {}
        known.update(new)
        return records

    return check


def _called(value: object) -> str:
    """What a value is, in the words of the wire."""
    if value is None:
        return "nil"
    if type(value) is tuple:
        return f"array of {len(value)}"
    return "map" if type(value) is dict else type(value).__name__


def _text() -> Check:
    """Names are the target's choice, and go to a terminal."""
    plain = _plain(str)
    return lambda value: printable(str(plain(value)))


def _name() -> Check:
    """One of thousands that are kept: cut where no honest agent's is longer."""
    plain = _plain(str)

    def check(value: object) -> object:
        name = str(plain(value))
        return printable(name if len(name) <= NAME else f"{name[: NAME - 1]}…")

    return check


def _packed(one: Struct, bounds: dict[int, tuple[str, int, int]]) -> Check:
    plain = _plain(bytes)

    def check(value: object) -> object:
        data = plain(value)
        assert isinstance(data, bytes)
        if len(data) % one.size:
            raise _Wrong(f"{len(data)} bytes, not records of {one.size}")
        for place, (name, low, high) in bounds.items():
            numbers = [record[place] for record in one.iter_unpack(data)]
            if numbers and not low <= min(numbers) <= max(numbers) <= high:
                raise _Wrong(f"records with a {name} of {min(numbers)} to {max(numbers)}, outside {low} to {high}")
        return data

    return check


def _checker(hint: Any, bounds: tuple[int, int]) -> Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is int:
        return _int(*bounds)
    if hint is str:
        return _text()
    if hint in (bool, bytes, float):
        return _plain(hint)
    if origin in (Union, UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        check = _checker(arguments[0], bounds)
        return lambda value: None if value is None else check(value)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        inner = arguments[0]
        record = isinstance(inner, type) and is_dataclass(inner)
        return _many(_checker(inner, bounds), _numbers(inner) if record else None)
    if origin is tuple:
        return _fixed([_checker(one, bounds) for one in arguments])
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    raise TypeError(f"the codec has no rule for the annotation {hint!r}")


def _checks(kind: type) -> dict[str, Check]:
    """A checker for every field, in the order of the class."""
    hints = get_type_hints(kind)
    return {
        field.name: _packed(*RECORDS[kind.__name__, field.name])
        if (kind.__name__, field.name) in RECORDS
        else _name()
        if (kind.__name__, field.name) in NAMES
        else _checker(hints[field.name], BOUNDS.get((kind.__name__, field.name), (0, MAX_INT)))
        for field in fields(kind)
    }


# -- one codec a message class ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Codec:
    """What decoding one kind of message needs, worked out once."""

    kind: type[Message]
    checks: dict[str, Check]
    optional: frozenset[str]

    @classmethod
    def of(cls, kind: type[Message]) -> _Codec:
        defaults = (
            field.name
            for field in fields(kind)  # type: ignore[arg-type]  # every message is a dataclass; its base is not
            if field.default is not MISSING
        )
        return cls(kind, _checks(kind), frozenset(defaults))

    def build(self, values: dict[object, object]) -> Message:
        name = self.kind.KIND
        checked: dict[str, object] = {}
        for field, check in self.checks.items():
            if field not in values:
                if field in self.optional:
                    continue
                raise ProtocolError(f"The message {name!r} has no field {field!r}.")
            try:
                checked[field] = check(values[field])
            except _Wrong as error:
                raise ProtocolError(f"The field {field!r} of the message {name!r} is {error}.") from None
        return self.kind(**checked)


_CODECS: Final[dict[type[Message], _Codec]] = {}


def _codec(kind: type[Message]) -> _Codec:
    """Of one kind: made with the first message of it, as making all would slow down every start."""
    codec = _CODECS.get(kind)
    if codec is None:
        codec = _CODECS[kind] = _Codec.of(kind)
    return codec


def _as_array(value: object) -> object:
    """msgpack's hook for what it does not know: a dataclass inside a message becomes its fields."""
    if is_dataclass(value) and not isinstance(value, (Message, type)):
        return [getattr(value, field.name) for field in fields(value)]
    raise TypeError(f"{type(value).__name__} has no form on the wire")


def encode(message: Message) -> bytes:
    """The payload of a frame. Lone surrogates in strings become ``?``: msgpack strings are UTF-8.

    Raises:
        ProtocolError: a value has no form on the wire, such as an int beyond 64 bits.
    """
    values = {name: attrgetter(name)(message) for name in _codec(type(message)).checks}
    try:
        return bytes(msgpack.packb([message.KIND, values], default=_as_array, unicode_errors="replace"))
    except (ValueError, TypeError, OverflowError) as error:
        raise ProtocolError(f"The message {message.KIND!r} cannot be packed: {error}.") from error


def _unpack(payload: bytes) -> tuple[str, dict[object, object]]:
    arrays = items = 0

    def count(value: Any) -> Any:
        nonlocal arrays, items
        arrays += 1
        items += len(value)
        if arrays > MAX_ARRAYS:
            raise ValueError(f"more than {MAX_ARRAYS} arrays and maps")
        if items > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} items")
        return tuple(value) if type(value) is list else value

    hook = count if len(payload) > MAX_ARRAYS else None  # each takes a byte at least

    try:
        pair = msgpack.unpackb(
            payload,
            raw=False,
            unicode_errors="replace",
            strict_map_key=True,
            use_list=False,
            list_hook=hook,
            object_hook=hook,
            max_str_len=MAX_TEXT,
            max_bin_len=MAX_TEXT,
            max_ext_len=MAX_TEXT,
            max_array_len=MAX_ITEMS,
            max_map_len=MAX_ITEMS,
        )
    # msgpack's own errors derive from ValueError, most of them; MemoryError and RecursionError are how a
    # hostile nesting ends with the C and with the pure Python unpacker.
    except (ValueError, TypeError, RecursionError, MemoryError, msgpack.UnpackException) as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise ProtocolError(f"A frame of {len(payload)} bytes is not msgpack: {reason}.") from None
    match pair:
        case (str(kind), dict(values), *_):
            return kind, values
    raise ProtocolError(f"A frame of {len(payload)} bytes is not a pair of kind and fields.")


def decode(payload: bytes, kinds: Sequence[type[Message]]) -> Message | None:
    """The message in a frame's payload; None when its kind is not among ``kinds``, which a reader skips.

    ``kinds`` is ``REPLIES`` on heaptop's side, ``REQUESTS`` on the agent's, and ``RECORDED`` in a recording.

    Raises:
        ProtocolError: not msgpack, not a pair, a missing field, a wrong type or a number out of bounds; the
            sentence names kind and field.
    """
    name, values = _unpack(payload)
    for kind in kinds:
        if name == kind.KIND:
            return _codec(kind).build(values)
    return None


# -- the first message of a session -------------------------------------------------------------------------


def read_hello(payload: bytes, token: str) -> Hello:
    """Decode and check the first frame of a session.

    The version is examined before anything else, since another version's hello may have other fields.

    Raises:
        VersionMismatch: the agent speaks another version.
        ProtocolError: it is not a hello, or not from the agent that was given ``token``.
    """
    name, values = _unpack(payload)
    if name != Hello.KIND:
        raise ProtocolError(f"The first message is {name[:40]!r} and not a hello.")
    version = values.get("protocol")
    if type(version) is int:
        _check_version(version)
    hello = _codec(Hello).build(values)
    assert isinstance(hello, Hello)
    if hello.token != token:
        raise ProtocolError("The agent that answered is not the one that was started: wrong token.")
    return hello


def _check_version(version: int) -> None:
    if version != PROTOCOL_VERSION:
        raise VersionMismatch(f"The agent uses protocol version {version}; this heaptop uses {PROTOCOL_VERSION}.")
