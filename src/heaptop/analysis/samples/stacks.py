"""The stacks that samples were taken with, and the code on them: by the sampler's numbers, and by ours, which stay."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from itertools import count, zip_longest
from operator import lt
from typing import Final

from heaptop.errors import ProtocolError
from heaptop.protocol.bounds import CODE_BYTES, CODES, MEAN_NAME, NUMBERS
from heaptop.protocol.messages import CodeName, Codes, Message, StackNode, Stacks
from heaptop.protocol.recorded import PIECE, KeptNumbers, KeptStacks

NO_FRAME: Final = 0  # The stack of a block that no Python code was running for
FORGOTTEN: Final = -1  # The stack of what is no longer distinguished
STACK_LIMIT: Final = 1 << 20
DEPTH_LIMIT: Final = 1024 + 64  # Frames of a stack, at most: the agent keeps 1024, and reports whose they are
_MAX_LINE: Final = (1 << 31) - 1


class StackTree:
    """Stacks as nodes of one tree. Node 0 is its root and no frame; a node's number is above its parent's."""

    __slots__ = ("codes", "depths", "lines", "parents")

    def __init__(self) -> None:
        self.parents = array("i", [0])  # The caller's node; 0 for none
        self.codes = array("i", [-1])  # Positions in Samples.codes
        self.lines = array("i", [0])  # The line that was being executed; 0 where it is not known
        self.depths = array("H", [0])  # Frames of the stack that ends there

    def __len__(self) -> int:
        return len(self.parents)

    def path(self, stack: int, frames: int | None = None) -> list[int]:
        """The nodes of a stack, innermost first, at most so many; empty for :data:`NO_FRAME` and :data:`FORGOTTEN`."""
        nodes: list[int] = []
        while stack > 0 and (frames is None or len(nodes) < frames):
            nodes.append(stack)
            stack = self.parents[stack]
        return nodes

    def add(self, parent: int, code: int, line: int) -> int:
        """A new node; its number. Its parent has fewer than :data:`DEPTH_LIMIT` frames."""
        self.depths.append(self.depths[parent] + 1)
        self.parents.append(parent)
        self.codes.append(code)
        self.lines.append(line)
        return len(self.parents) - 1


class ReportedStacks:
    """Code and stacks from the sampler. ``[number]`` is our number of one of its stacks: what is equal
    has one over all sessions."""

    def __init__(self, limit: int = STACK_LIMIT, most_codes: int = CODES) -> None:
        self._limit = limit
        self._most_codes = min(limit, most_codes)
        self.codes: list[CodeName] = []  # Code by our number, each once
        self.tree = StackTree()
        self._code_bytes = 0  # characters of all of it
        self._code_numbers: dict[CodeName, int] = {}
        self._stack_numbers: dict[tuple[int, int, int], int] = {}
        self._codes = array("i")  # the sampler's number of a code -> ours
        self._stacks = array("i", [0])
        self._anew = True
        self.forgotten = 0  # Stacks that are not distinguished, because there were too many

    def __len__(self) -> int:
        """How many stacks the session has sent."""
        return len(self._stacks)

    def __getitem__(self, said: int) -> int:
        """Our number of a stack."""
        return self._stacks[said]

    def reported_as(self, ours: Collection[int]) -> tuple[int, ...]:
        """The sampler's numbers of these stacks: it distinguishes more, and has none for those of sessions before."""
        return tuple(said for said, own in enumerate(self._stacks) if said and own in ours)

    def may_begin_anew(self) -> None:
        """Samples were made void: the sampler may number from the beginning."""
        self._anew = True

    def feed_codes(self, message: Codes) -> None:
        """Raises ProtocolError where numbers leave a gap. Nothing was taken then."""
        restart = message.first == 0 and self._anew
        _check_numbers(message.first + len(message.names))
        if message.first != len(self._codes) and not restart:
            raise ProtocolError(
                f"The agent named code from number {message.first}; number {len(self._codes)} comes next."
            )
        if restart:
            self._codes = array("i")  # ours stay: what is equal keeps its number
            self._stacks = array("i", [0])
        self._anew = False
        for name in message.names:
            self._codes.append(self._code(name))

    def _code(self, name: CodeName) -> int:
        number = self._code_numbers.get(name)
        if number is None:
            length = len(name.file) + len(name.function)
            most_bytes = min(CODE_BYTES, self._most_codes * MEAN_NAME)
            if len(self.codes) >= min(self._most_codes, CODES) or self._code_bytes + length > most_bytes:
                return FORGOTTEN
            self._code_bytes += length
            number = self._code_numbers[name] = len(self.codes)
            self.codes.append(name)
        return number

    def feed_stacks(self, message: Stacks) -> None:
        """Raises ProtocolError where numbers leave a gap, or point at what was never sent. Nothing was taken then."""
        if message.first != len(self._stacks):
            raise ProtocolError(
                f"The agent sent stacks from number {message.first}; number {len(self._stacks)} comes next."
            )
        _check_numbers(message.first + len(message.nodes))
        for number, node in enumerate(message.nodes, message.first):
            if not (0 <= node.parent < number and 0 <= node.code < len(self._codes)):
                raise ProtocolError(f"Stack {number} has a caller or code that was never sent.")
            if not 0 <= node.line <= _MAX_LINE:
                raise ProtocolError(f"Stack {number} is in line {node.line}.")
        for node in message.nodes:
            number = self._stack_node(node)
            self.forgotten += number == FORGOTTEN
            self._stacks.append(number)

    def _stack_node(self, node: StackNode) -> int:
        parent, code = self._stacks[node.parent], self._codes[node.code]
        if FORGOTTEN in (parent, code):
            return FORGOTTEN
        key = (parent, code, node.line)
        number = self._stack_numbers.get(key)
        if number is None:
            if len(self.tree) >= self._limit or self.tree.depths[parent] >= DEPTH_LIMIT:
                return FORGOTTEN
            number = self._stack_numbers[key] = self.tree.add(*key)
        return number

    # -- as one piece ------------------------------------------------------------------------------------------

    def kept(self) -> Iterator[Message]:
        """All of it, for another that knows nothing yet."""
        tree, codes = self.tree, tuple(self.codes)
        for first in range(0, len(codes), PIECE):
            yield Codes(first, codes[first : first + PIECE])
        for first in range(1, len(tree), PIECE):
            part = slice(first, first + PIECE)
            yield KeptStacks(first, *(column[part].tobytes() for column in (tree.parents, tree.codes, tree.lines)))
        numbers = (self._codes, self._stacks[1:])
        pieces = [[said[i : i + PIECE].tobytes() for i in range(0, len(said), PIECE)] for said in numbers]
        for place, (reported_codes, reported_stacks) in enumerate(zip_longest(*pieces, fillvalue=b"")):
            yield KeptNumbers(reported_codes, reported_stacks, place > 0)

    def feed_kept_stacks(self, message: KeptStacks) -> None:
        """Raises ProtocolError where they do not continue where the tree ends, or point at what was never sent."""
        parents, codes, lines = (_ints(column) for column in (message.parents, message.codes, message.lines))
        fits = len(parents) == len(codes) == len(lines) > 0 and message.first == len(self.tree)
        if not (fits and len(self.tree) + len(parents) <= self._limit and min(*parents, *codes, *lines) >= 0):
            raise ProtocolError(f"Stacks kept from number {message.first} on do not fit what was kept before.")
        if max(codes) >= len(self.codes) or not all(map(lt, parents, count(message.first))):
            raise ProtocolError("A stack that was kept has a caller or code that was not.")
        depths = array("H", self.tree.depths)
        for parent in parents:
            if depths[parent] >= DEPTH_LIMIT:
                raise ProtocolError(f"A stack was kept of more than {DEPTH_LIMIT} frames.")
            depths.append(depths[parent] + 1)
        self.tree.depths = depths
        self._stack_numbers.update(zip(zip(parents, codes, lines, strict=True), count(message.first)))
        self.tree.parents += parents
        self.tree.codes += codes
        self.tree.lines += lines

    def feed_numbers(self, message: KeptNumbers) -> None:
        """Raises ProtocolError where they mean what was never sent."""
        codes, stacks = _ints(message.codes), _ints(message.stacks)
        for numbers, end in ((codes, len(self.codes)), (stacks, len(self.tree))):
            if numbers and not FORGOTTEN <= min(numbers) <= max(numbers) < end:
                raise ProtocolError("The sampler's numbers mean stacks or code that were not kept.")
        if not message.on:
            self._codes, self._stacks = array("i"), array("i", [0])
        _check_numbers(max(len(self._codes) + len(codes), len(self._stacks) + len(stacks)))
        self._codes += codes
        self._stacks += stacks
        self._anew = True  # it may be so: samples were made void perhaps, and no message came since


def _check_numbers(end: int) -> None:
    if end > NUMBERS:
        raise ProtocolError(f"The sampler numbers {end:,} stacks or pieces of code; {NUMBERS:,} are the most.")


def _ints(packed: bytes) -> array[int]:
    """A column of 32 bits. Raises ProtocolError where the last is not whole."""
    column = array("i")
    try:
        column.frombytes(packed)
    except ValueError as error:
        raise ProtocolError("A column of stacks is incomplete.") from error
    return column
