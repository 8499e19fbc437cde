"""A program that is sampled, for the tests: what it allocates and frees comes out as the agent's messages."""

from __future__ import annotations

from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    TYPED,
    CodeName,
    Codes,
    Message,
    Sampler,
    Samples,
    StackNode,
    Stacks,
    TypeName,
    Types,
)

EVERYTHING = 1
"""One sample a byte: every block is sampled, and figures are exact."""


def sampler(*intervals: int, epoch: int = 1, on: bool = True) -> Sampler:
    return Sampler(
        id=0,
        time_ns=0,
        on=on,
        interval=intervals[-1] if on and intervals else 0,
        depth=128,
        intervals=intervals,
        epoch=epoch,
    )


class Program:
    """Every block that it allocates is said to be sampled. ``run`` says all that was not said yet."""

    def __init__(self, *intervals: int, samples: SampledBlocks | None = None) -> None:
        self.samples = SampledBlocks() if samples is None else samples
        self.clock = 0
        self.epoch = 1
        self._intervals = intervals or (EVERYTHING,)
        self._free: list[int] = []
        self._next = 0
        self._types: dict[str, int] = {}
        self._new_types: list[TypeName] = []
        self._births: list[bytes] = []
        self._deaths: list[bytes] = []
        self._typed: list[bytes] = []
        self._dying: list[int] = []
        self.start()

    def start(self) -> None:
        """The sampler begins, and numbers code and stacks from the beginning."""
        self._codes: dict[CodeName, int] = {}
        self._stacks: dict[tuple[int, int, int], int] = {}
        self._new_codes: list[CodeName] = []
        self._new_stacks: list[StackNode] = []
        self._free, self._next = [], 0
        self.samples.feed(sampler(*self._intervals, epoch=self.epoch))

    def stop(self) -> None:
        self.run()
        self.samples.feed(sampler(on=False, epoch=self.epoch))
        self.epoch += 1

    def stack(self, *frames: str) -> int:
        """The sampler's number of a stack; frames from the outermost in, each ``function``, ``function:line`` or
        ``file function:line``."""
        node = 0
        for frame in frames:
            file, _, function = frame.rpartition(" ")
            function, _, line = function.partition(":")
            name = CodeName(file or "/srv/app.py", function, 1)
            if name not in self._codes:
                self._codes[name] = len(self._codes)
                self._new_codes.append(name)
            key = (node, self._codes[name], int(line or 0))
            if key not in self._stacks:
                self._stacks[key] = len(self._stacks) + 1
                self._new_stacks.append(StackNode(*key))
            node = self._stacks[key]
        return node

    def type(self, name: str) -> int:
        if name not in self._types:
            self._types[name] = len(self._types)
            self._new_types.append(TypeName("app", name))
        return self._types[name]

    def allocate(self, frames: tuple[str, ...], size: int, type: str = "", rate: int = 0) -> int:
        """A block, its type known from its birth when it is given; its id."""
        self.clock += size
        number = self._free.pop() if self._free else self._next
        self._next = max(self._next, number + 1)
        kind = self.type(type) + 1 if type else 0
        self._births.append(BIRTH.pack(number, self.stack(*frames), self.clock, size, kind, 1, rate, 0))
        return number

    def free(self, number: int, type: str = "") -> None:
        self._deaths.append(DEATH.pack(number, self.type(type) + 1 if type else 0, self.clock))
        self._dying.append(number)

    def find(self, number: int, type: str) -> None:
        """A census finds what a block is."""
        self._typed.append(TYPED.pack(number, self.type(type)))

    def messages(self) -> list[Message]:
        """What the agent says of all this; the program goes on from there."""
        said: list[Message] = []
        if self._new_types:
            said.append(Types(len(self._types) - len(self._new_types), tuple(self._new_types)))
        if self._new_codes:
            said.append(Codes(len(self._codes) - len(self._new_codes), tuple(self._new_codes)))
        if self._new_stacks:
            said.append(Stacks(len(self._stacks) - len(self._new_stacks) + 1, tuple(self._new_stacks)))
        said.append(
            Samples(
                time_ns=self.clock,
                clock=self.clock,
                births=b"".join(self._births),
                deaths=b"".join(self._deaths),
                typed=b"".join(self._typed),
            )
        )
        self._free += self._dying
        self._new_types, self._new_codes, self._new_stacks, self._dying = [], [], [], []
        self._births, self._deaths, self._typed = [], [], []
        return said

    def run(self) -> SampledBlocks:
        for message in self.messages():
            self.samples.feed(message)
        return self.samples


def widgets() -> SampledBlocks:
    """The example of mprof's paper (Zorn and Hilfinger, 1988, §2): 10,000 widgets of 204 bytes, of which the consumer
    frees all but the red ones, so that 4,981 are freed and 1,023,876 bytes are kept."""
    program = Program()
    for number in range(10_000):
        colour = "blue" if number < 4_981 else "red"
        widget = program.allocate(("main", f"make_{colour}_widget", "make_widget"), 204, "Widget")
        if colour == "blue":
            program.free(widget)
    return program.run()
