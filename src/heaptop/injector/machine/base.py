"""What heaptop needs to know of a machine: its facts, a stopped thread's registers, and a signal frame.

A module a machine fills this in; nothing else of heaptop's asks which one it runs on. Builds and reads bytes only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

WORD: Final = (1 << 64) - 1
NO_ALTERNATE_STACK: Final = 0x7FFFFFF0
"""Flags of a stack_t that sigaltstack(2) refuses, and rt_sigreturn ignores: the thread keeps the one it has."""

GetSet = Callable[[int], bytes]
"""One register set of the stopped thread, by its note type (``<linux/elf.h>``). Raises OSError."""
SetSet = Callable[[int, bytes], None]
Read = Callable[[int, int], bytes]
"""Bytes of its memory: address, size; empty where it cannot be read."""


def signed(value: int) -> int:
    """A 64-bit register as the kernel's long."""
    return value - (1 << 64) if value >> 63 else value


class UnsafeThread(Exception):
    """A thread has state that heaptop could not put back; ``str()`` says which."""


class Registers(ABC):
    """The general registers of a stopped thread, and the system call that it is at."""

    def __init__(self, values: dict[str, int]) -> None:
        self.values = values

    @abstractmethod
    def copy(self) -> Registers: ...

    @property
    @abstractmethod
    def instruction(self) -> int:
        """The address of the next one."""

    @instruction.setter
    @abstractmethod
    def instruction(self, address: int) -> None: ...

    @property
    @abstractmethod
    def stack(self) -> int: ...

    @property
    @abstractmethod
    def thread_pointer(self) -> int: ...

    @property
    @abstractmethod
    def call(self) -> int:
        """The system call at whose entry or exit the thread stands; negative where there is none."""

    @abstractmethod
    def forget_call(self) -> None:
        """At an entry: it is not made. Elsewhere: the kernel does not take the stop for an interrupted call to make
        again."""

    @abstractmethod
    def choose_call(self, number: int) -> None:
        """At an entry: that one is made."""

    @abstractmethod
    def refuse_call(self) -> None:
        """At an entry: it is not made, and returns ENOSYS."""

    @property
    @abstractmethod
    def result(self) -> int:
        """At a system call's exit: what it returned."""

    @property
    @abstractmethod
    def returned(self) -> int:
        """At the system call at the stub's ``give_back``: what the function returned."""

    @abstractmethod
    def put_frame(self, frame: int, restorer: int) -> None:
        """Have what is run next return to ``restorer``, with that signal frame."""

    @abstractmethod
    def is_at_end(self, frame: int) -> bool:
        """Whether the thread is about to return by that frame."""

    @abstractmethod
    def put_call(self, instruction: int, number: int, arguments: Sequence[int]) -> None:
        """Have a system call made, of at most six arguments."""

    @abstractmethod
    def put_function(self, function: int, arguments: Sequence[int]) -> None:
        """Have a C function called, of at most six arguments."""

    @abstractmethod
    def interrupted(self, read: Read) -> int | None:
        """The number of the system call that the thread was stopped in and makes again; None when there is none."""

    @abstractmethod
    def is_resumed(self, read: Read) -> bool:
        """Whether the kernel resumes by a call of its own, restart_syscall, what the thread was stopped in."""

    @abstractmethod
    def end_wait(self) -> None:
        """Where :meth:`is_resumed`: have that return EINTR instead, as after a signal."""

    def wait_again(self) -> bool:
        """Whether the stop has ended a wait without a time limit with EINTR, which the kernel now makes again instead,
        unless a handler of a signal runs first."""
        return False  # where the kernel forgets the call's number by then


class Machine(ABC):
    """One of the machines that heaptop attaches on."""

    name: ClassVar[str]
    """As uname(2) says it."""
    is_whole: ClassVar[bool]
    """Whether all that heaptop does was shown on live processes there; else it refuses the rest (docs/support.md)."""
    elf_machine: ClassVar[int]
    audit_arch: ClassVar[int]
    calls: ClassVar[Mapping[str, int]]
    """Numbers of system calls. An older one that the machine does not have is left out."""
    syscall_instruction: ClassVar[bytes]
    syscall_and_return: ClassVar[bytes]
    alignment: ClassVar[int]
    """Of instructions."""
    restorer: ClassVar[bytes]
    """The code of an rt_sigreturn, by which debuggers know signal frames."""
    restorer_in: ClassVar[str]
    """Where that is: the name of a mapping, or empty for the C library's code."""
    red_zone: ClassVar[int]
    """Bytes below the stack pointer that a function may use without moving it."""
    frame_room: ClassVar[int]
    """Bytes below an address in which any signal frame fits."""
    descriptor_is_below: ClassVar[bool]
    """Whether glibc's struct pthread is below what the thread pointer leads to; else it begins there."""
    resolves_late: ClassVar[bool]
    """Whether it shows only when the thread leaves its stop how the kernel continues what that has interrupted."""

    @abstractmethod
    def registers(self, get: GetSet) -> Registers: ...

    @abstractmethod
    def put_registers(self, registers: Registers, put: SetSet) -> None: ...

    @abstractmethod
    def vectors(self, get: GetSet) -> dict[int, bytes]:
        """The other sets that a function may change, in the order to put them back. Raises UnsafeThread."""

    @abstractmethod
    def frame(
        self, top: int, restorer: int, registers: Registers, vectors: Mapping[int, bytes], mask: int, read: Read
    ) -> tuple[int, bytes]:
        """A signal frame that ends at or below ``top``: where the stack pointer is to be, and the bytes there."""

    def numbers(self, *names: str) -> tuple[int, ...]:
        """Of the calls of these names that the machine has, in that order."""
        return tuple(self.calls[name] for name in names if name in self.calls)
