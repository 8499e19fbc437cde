"""The living sampled blocks, one by one: 13 bytes each, in columns that grow to the largest id, and what those that are
alike have in common once.

Sums are estimated in :mod:`heaptop.analysis.samples.estimate`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from heaptop.analysis.samples.estimate import chance

ID_LIMIT: Final = 1 << 24
FREE: Final = 0  # The likeness of a row that no sample has now


class Sample(NamedTuple):
    """A sampled block."""

    id: int
    stack: int  # A node of Samples.stacks, or NO_FRAME or FORGOTTEN
    type: int  # A position in Samples.types, or UNKNOWN_TYPE
    size: int
    interval: int  # Bytes from one sample to the next when it was allocated
    birth: int  # The sampler's clock then: bytes allocated since sampling began
    domain: int  # A position in `DOMAINS`

    @property
    def blocks(self) -> float:
        """How many blocks it represents, 1 or more; ``blocks * size`` is how many bytes."""
        return 1.0 / chance(self.size, self.interval)


T = TypeVar("T")


class Likeness(NamedTuple):
    """What sampled blocks that are alike have in common: fields as in :class:`Sample`."""

    stack: int
    type: int
    size: int
    interval: int


NONE: Final = Likeness(-2, -1, 0, 0)  # Stands where there is none, or none any more


class LiveBlockColumns(NamedTuple):
    """The living samples, a column each; rows that no sample has now are among them."""

    likenesses: Sequence[Likeness]
    likeness: array[int]  # Numbers of these; FREE of no sample
    birth: array[int]

    @property
    def rows(self) -> int:
        return len(self.likeness)

    def alike(self) -> Iterator[tuple[Likeness, int]]:
        """How many there are of each."""
        return ((self.likenesses[number], times) for number, times in Counter(self.likeness).items() if number)

    def places(self, clock_to: Callable[[int], T], begin: int, end: int) -> Counter[tuple[int, int, int, int, T]]:
        """How many of the rows from ``begin`` to before ``end`` are alike: (stack, type, size, interval,
        ``clock_to(birth)``). Where many are, a fraction of the time that it takes to go through them one by one."""
        rows = zip(self.likeness[begin:end], self.birth[begin:end], strict=True)
        alike = Counter((number, clock_to(birth)) for number, birth in rows if number)
        return Counter({(*self.likenesses[number], to): times for (number, to), times in alike.items()})

    def born_by(self, clock: int, begin: int, end: int) -> Counter[Likeness]:
        """Likewise of those that were born at this clock or before."""
        rows = zip(self.likeness[begin:end], self.birth[begin:end], strict=True)
        alike = Counter(number for number, birth in rows if birth <= clock and number)
        return Counter({self.likenesses[number]: times for number, times in alike.items()})


class LiveBlockTable(Generic[T]):
    """The living by the sampler's numbers. ``T`` is what the owner ties to those that are alike, to have it at hand
    when one of them changes."""

    def __init__(self, likenesses: Sequence[Likeness] = (NONE,)) -> None:
        """``likenesses`` by number, :data:`NONE` the first and wherever there is none: of rows that :meth:`extend`
        brings."""
        self.tied: list[T | None] = [None] * len(likenesses)
        """By number of a likeness. It is None again when none that is so lives."""
        self._count = 0
        self._likenesses = list(likenesses)
        self._numbers: dict[tuple[int, int, int, int], int] = {
            likeness: number for number, likeness in enumerate(likenesses) if likeness.size
        }
        self._times = [0] * len(likenesses)
        self._unused = [number for number, likeness in enumerate(likenesses) if number and not likeness.size]
        self._likeness = array("i")
        self._birth = array("Q")
        self._domain = array("B")

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        return self.number_of(number) != FREE

    def __iter__(self) -> Iterator[Sample]:
        return (self[number] for number, likeness in enumerate(self._likeness) if likeness != FREE)

    def __getitem__(self, number: int) -> Sample:
        """One that lives."""
        likeness = self._likenesses[self._likeness[number]]
        return Sample._make((number, *likeness, self._birth[number], self._domain[number]))

    def lives_any(self, numbers: Iterable[int]) -> bool:
        """Whether one of them lives."""
        rows, likeness = len(self._likeness), self._likeness
        return True in [number < rows and likeness[number] != FREE for number in numbers]

    def number_of(self, number: int) -> int:
        """The number of the likeness of this block; :data:`FREE` where it does not live."""
        return self._likeness[number] if number < len(self._likeness) else FREE

    def add(self, number: int, likeness: tuple[int, int, int, int], birth: int, domain: int) -> int:
        """It was born; its number is free. The likeness is given by its fields.

        Returns:
            The likeness's number.
        """
        if number >= len(self._likeness):
            self._grow(number)
        alike = self._likeness[number] = self._enter(likeness)
        self._birth[number] = birth
        self._domain[number] = domain
        self._count += 1
        return alike

    def retype(self, number: int, likeness: tuple[int, int, int, int]) -> int:
        """One that lives has this likeness now: that of another type. Returns as :meth:`add`."""
        before = self._likeness[number]
        alike = self._likeness[number] = self._enter(likeness)
        self._leave(before)
        return alike

    def remove(self, number: int) -> int:
        """One that lived has died.

        Returns:
            Its birth.
        """
        self._leave(self._likeness[number])
        self._likeness[number] = FREE
        self._count -= 1
        return self._birth[number]

    @property
    def likenesses(self) -> Sequence[Likeness]:
        """By number, as the constructor takes them. They grow and change as blocks are born and die."""
        return self._likenesses

    @property
    def rows(self) -> int:
        """Of the columns: one more than the largest id that there was room for."""
        return len(self._likeness)

    def pieces(self, size: int) -> Iterator[tuple[int, tuple[bytes, bytes, bytes]]]:
        """All of them, so many rows at a time: the first id, and numbers of likenesses, births and domains."""
        end = len(self._likeness)
        while end and self._likeness[end - 1] == FREE:
            end -= 1
        for first in range(0, end, size):
            part = slice(first, min(first + size, end))
            yield first, (self._likeness[part].tobytes(), self._birth[part].tobytes(), self._domain[part].tobytes())

    def extend(self, likeness: array[int], birth: array[int], domain: bytes, alike: Mapping[int, int]) -> None:
        """Others, as rows behind all that there are: numbers of :attr:`likenesses` or FREE, and how many there are of
        each but FREE."""
        self._likeness.extend(likeness)
        self._birth.extend(birth)
        self._domain.frombytes(domain)
        for number, times in alike.items():
            self._times[number] += times
            self._count += times

    def columns(self) -> LiveBlockColumns:
        """A copy of what is known of all of them."""
        return LiveBlockColumns(self._likenesses[:], self._likeness[:], self._birth[:])

    def copy(self) -> LiveBlockTable[T]:
        """As they are now, with nothing tied to them."""
        new = LiveBlockTable[T](self._likenesses)
        new._count, new._times, new._domain = self._count, self._times[:], self._domain[:]
        new._likeness, new._birth = self._likeness[:], self._birth[:]
        return new

    def _enter(self, fields: tuple[int, int, int, int]) -> int:
        """Its number, for one block more."""
        number = self._numbers.get(fields)
        if number is None:
            likeness = Likeness._make(fields)
            if self._unused:
                number = self._unused.pop()
                self._likenesses[number] = likeness
            else:
                number = len(self._likenesses)
                self._likenesses.append(likeness)
                self._times.append(0)
                self.tied.append(None)
            self._numbers[likeness] = number
        self._times[number] += 1
        return number

    def _leave(self, number: int) -> None:
        """A block less is of it."""
        self._times[number] -= 1
        if not self._times[number]:
            del self._numbers[self._likenesses[number]]
            self._likenesses[number] = NONE
            self.tied[number] = None
            self._unused.append(number)

    def _grow(self, number: int) -> None:
        """Make room for this id: half as much again, so that growing costs little altogether."""
        more = max(number + 1, min(len(self._likeness) * 3 // 2, ID_LIMIT), 64) - len(self._likeness)
        for column in (self._likeness, self._birth, self._domain):
            column.frombytes(bytes(more * column.itemsize))
