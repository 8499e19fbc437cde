"""Limits on what an agent may send, and the gate that merges or refuses what is beyond them.

Whoever holds the agent's end of the socket may send anything, for as long as it likes: the program's own code can. An
honest agent stays far below these limits (it names 50,000 types at most: ``MAX_TYPES`` of ``agent/type_table.py``,
``MAX_NAMES`` of ``native/heap/names.h``). Beyond them types are counted as :data:`OTHER_TYPES`, and each census that
has some is marked, and is not complete; frames become ``(other sites)``; what cannot be merged so ends the
session. Tables that thin out by themselves (censuses, ticks, collections, phases, moments) have their limits beside
them.

==================  =====================================================================
limit               of what
==================  =====================================================================
``TYPES``           types named in a session, and in an open snapshot
``TYPE_BYTES``      characters of their names together
``NAME``            characters of one name: of a module, type, file or function
``CODES``           pieces of code distinguished in a session
``CODE_BYTES``      characters of their names together
``NUMBERS``         numbers of code, and of stacks, that a sampler gives in one epoch
``OWN_PAGES``       ranges of heaptop's own pages in one answer
``WAITING``         items (rows, names, bytes of records) that wait for a screen or command
==================  =====================================================================
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Final

from heaptop.errors import ProtocolError
from heaptop.protocol.images import ImageTypes
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    TRACED,
    TYPED,
    Census,
    Memory,
    Message,
    Row,
    Samples,
    Traced,
    TypeName,
    Types,
)

MEAN_NAME: Final = 256  # Characters of a name, on average, that limits of names together are made of
TYPES: Final = 1 << 18
TYPE_BYTES: Final = TYPES * MEAN_NAME
NAME: Final = 1024
CODES: Final = 1 << 18
CODE_BYTES: Final = CODES * MEAN_NAME
NUMBERS: Final = 1 << 22
OWN_PAGES: Final = 1024
WAITING: Final = 1 << 21

OTHER_TYPES: Final = TypeName("", "(other types)")


def check_types(end: int) -> None:
    """Raise ProtocolError where so many types are more than a gate lets through: a recording went through none."""
    if end > TYPES + 1:
        raise ProtocolError(f"Types were named up to number {end - 1:,}; {TYPES:,} is the last.")


class MessageBounds:
    """Lets an agent's messages through, in order, within the limits."""

    def __init__(self, types: int = TYPES, type_bytes: int = TYPE_BYTES) -> None:
        self._types = types
        self._type_bytes = type_bytes
        self._said = 0
        self._bytes = 0
        self._other: int | None = None  # The number of OTHER_TYPES: of the first type that there was no room for
        self._image = -1
        self._image_bytes = 0

    def take(self, message: Message) -> Message | None:
        """What continues of it; None for nothing. Raises ProtocolError where it is beyond what can be merged."""
        match message:
            case Types():
                return self._name(message)
            case ImageTypes():
                self._name_in_image(message)
            case Memory() if len(message.own_pages) > OWN_PAGES:
                raise ProtocolError(f"The agent reports {len(message.own_pages)} page ranges of heaptop.")
            case _ if self._other is not None:
                return self._merged(message, self._other)
        return message

    def _name(self, message: Types) -> Types | None:
        if message.first != self._said:
            raise ProtocolError(f"The agent named types from number {message.first}; number {self._said} comes next.")
        self._said += len(message.names)
        if self._other is not None:
            return None
        for place, name in enumerate(message.names):
            self._bytes += _length(name)
            if message.first + place >= self._types or self._bytes > self._type_bytes:
                self._other = message.first + place
                return Types(message.first, (*message.names[:place], OTHER_TYPES))
        return message

    def _name_in_image(self, message: ImageTypes) -> None:
        if message.id != self._image:
            self._image, self._image_bytes = message.id, 0
        self._image_bytes += sum(map(_length, message.names))
        if message.first + len(message.names) > self._types or self._image_bytes > self._type_bytes:
            raise ProtocolError("The snapshot names more types than heaptop keeps.")

    def _merged(self, message: Message, other: int) -> Message:
        """The same, with all types from ``other`` on as one."""
        match message:
            case Census():
                return self._merged_census(message, other)
            case Samples():
                return replace(
                    message,
                    births=_clamped(BIRTH, message.births, 4, other + 1),
                    deaths=_clamped(DEATH, message.deaths, 1, other + 1),
                    typed=_clamped(TYPED, message.typed, 1, other),
                )
            case Traced():
                return replace(message, rows=_clamped(TRACED, message.rows, 1, other))
        return message

    def _merged_census(self, message: Census, other: int) -> Census:
        beyond = [row for row in message.rows if row.type >= other]
        if not beyond:
            return message
        sums: dict[tuple[int, int], Row] = {}
        for row in beyond:
            place = row.generation, row.interpreter
            known = sums.get(place) or Row(other, row.generation, 0, 0)
            sums[place] = Row(
                other,
                row.generation,
                known.count + row.count,
                known.bytes + row.bytes,
                known.hidden + row.hidden,
                known.guessed + row.guessed,
                row.interpreter,
            )
        said = f"heaptop separates {other:,} types; others are counted as {OTHER_TYPES.full}"
        cut = f"{message.cut}; {said}" if message.cut else said
        rows = (*(row for row in message.rows if row.type < other), *sums.values())
        return replace(message, rows=rows, complete=False, cut=cut)


def _length(name: TypeName) -> int:
    return len(name.module) + len(name.qualname)


def _clamped(record: Struct, packed: bytes, place: int, most: int) -> bytes:
    """Packed records with the number at ``place`` no larger than that."""
    found = [*record.iter_unpack(packed)]
    if all(one[place] <= most for one in found):
        return packed
    return b"".join(record.pack(*one[:place], min(one[place], most), *one[place + 1 :]) for one in found)
