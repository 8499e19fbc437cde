"""The living sampled blocks, one by one: 33 bytes each, in columns that grow to the largest id.

This module never sums; what blocks stand for is said by :mod:`heaptop.census.estimate`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from heaptop.census.estimate import chance

ID_LIMIT: Final = 1 << 24
FREE: Final = -2
"""The stack of a row that no sample has now."""


class Sample(NamedTuple):
    """A sampled block."""

    id: int
    stack: int
    """A node of :attr:`Samples.stacks`, or :data:`NO_FRAME` or :data:`FORGOTTEN`."""
    type: int
    """A position in :attr:`Samples.types`, or :data:`UNKNOWN_TYPE`."""
    size: int
    interval: int
    """Bytes from one sample to the next when it was allocated."""
    birth: int
    """The sampler's clock then: bytes allocated since sampling began."""
    domain: int
    """A position in ``DOMAINS``."""

    @property
    def blocks(self) -> float:
        """How many blocks it stands for, 1 or more; ``blocks * size`` is how many bytes."""
        return 1.0 / chance(self.size, self.interval)


T = TypeVar("T")


class LivingColumns(NamedTuple):
    """The living samples, a column each; rows that no sample has now are among them."""

    stack: array[int]
    type: array[int]
    size: array[int]
    interval: array[int]
    birth: array[int]

    def places(self, clock_to: Callable[[int], T], begin: int, end: int) -> Counter[tuple[int, int, int, int, T]]:
        """How many of the rows from ``begin`` to before ``end`` are alike: (stack, type, size, interval,
        ``clock_to(birth)``). Where many are, a fraction of the time that it takes to go through them one by one."""
        part = slice(begin, end)
        rows = zip(*(column[part] for column in self), strict=True)
        return Counter(
            (stack, kind, size, interval, clock_to(birth))
            for stack, kind, size, interval, birth in rows
            if stack != FREE
        )

    def born_by(self, clock: int, begin: int, end: int) -> Counter[tuple[int, int, int, int]]:
        """Likewise of those that were born at this clock or before: (stack, type, size, interval)."""
        part = slice(begin, end)
        rows = zip(*(column[part] for column in self), strict=True)
        return Counter(
            (stack, kind, size, interval)
            for stack, kind, size, interval, birth in rows
            if birth <= clock and stack != FREE
        )


class LivingBlocks:
    """The living by the sampler's numbers."""

    def __init__(self) -> None:
        self._count = 0
        self._stack = array("i")
        self._type = array("i")
        self._size = array("Q")
        self._interval = array("Q")
        self._birth = array("Q")
        self._domain = array("B")

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        return number < len(self._stack) and self._stack[number] != FREE

    def __iter__(self) -> Iterator[Sample]:
        return (self[number] for number, stack in enumerate(self._stack) if stack != FREE)

    def __getitem__(self, number: int) -> Sample:
        """One that lives."""
        return Sample(
            number,
            self._stack[number],
            self._type[number],
            self._size[number],
            self._interval[number],
            self._birth[number],
            self._domain[number],
        )

    def add(self, sample: Sample) -> None:
        """It was born; its number is free."""
        number = sample.id
        if number >= len(self._stack):
            self._grow(number)
        self._stack[number] = sample.stack
        self._type[number] = sample.type
        self._size[number] = sample.size
        self._interval[number] = sample.interval
        self._birth[number] = sample.birth
        self._domain[number] = sample.domain
        self._count += 1

    def retype(self, number: int, kind: int) -> None:
        """One that lives is of this type."""
        self._type[number] = kind

    def remove(self, number: int) -> None:
        """One that lived has died."""
        self._stack[number] = FREE
        self._count -= 1

    @property
    def rows(self) -> int:
        """Of the columns: one more than the largest id that there was room for."""
        return len(self._stack)

    def pieces(self, size: int) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """All of them, so many rows at a time: the first id, and columns as :meth:`of` takes them."""
        end = len(self._stack)
        while end and self._stack[end - 1] == FREE:
            end -= 1
        for first in range(0, end, size):
            part = slice(first, min(first + size, end))
            yield first, tuple(column[part].tobytes() for column in self._columns)

    @classmethod
    def of(cls, columns: Sequence[bytes]) -> tuple[LivingBlocks, Counter[tuple[int, int, int, int]]]:
        """From stacks, types, sizes, intervals, births and domains; and how many there are of each stack, type, size
        and interval. Raises ValueError where columns are not whole, or not equally long."""
        new = cls()
        for column, packed in zip(new._columns, columns, strict=True):
            column.frombytes(packed)
        if len({len(column) for column in new._columns}) > 1:
            raise ValueError("columns of several lengths")
        alike = Counter(zip(new._stack, new._type, new._size, new._interval, strict=True))
        for key in [key for key in alike if key[0] == FREE]:
            del alike[key]
        new._count = alike.total()
        return new, alike

    def extend(self, more: LivingBlocks) -> None:
        """Others, as rows behind all that there are."""
        for column, other in zip(self._columns, more._columns, strict=True):
            column.extend(other)
        self._count += more._count

    @property
    def latest(self) -> int:
        """The latest birth that any row knows of; 0 without rows."""
        return max(self._birth, default=0)

    @property
    def _columns(self) -> tuple[array[int], ...]:
        return self._stack, self._type, self._size, self._interval, self._birth, self._domain

    def columns(self) -> LivingColumns:
        """A copy of what is known of all of them."""
        return LivingColumns(self._stack[:], self._type[:], self._size[:], self._interval[:], self._birth[:])

    def copy(self) -> LivingBlocks:
        """As they are now."""
        new = LivingBlocks()
        new._count, new._domain = self._count, self._domain[:]
        new._stack, new._type, new._size, new._interval, new._birth = self.columns()
        return new

    def _grow(self, number: int) -> None:
        """Make room for this id: half as much again, so that growing costs little altogether."""
        more = max(number + 1, min(len(self._stack) * 3 // 2, ID_LIMIT), 64) - len(self._stack)
        self._stack.extend([FREE] * more)
        for column in (self._type, self._size, self._interval, self._birth, self._domain):
            column.frombytes(bytes(more * column.itemsize))
