"""The frame that gives a hijacked thread back: what the kernel will read of it is there."""

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.injector.machine import aarch64, x86_64
from heaptop.injector.machine.base import UnsafeThread

REGISTERS = dict.fromkeys((*x86_64._ORDER, "orig_rax", "cs", "gs", "fs", "ss"), 0)


def test_a_wait_that_would_be_resumed_by_another_call_says_that_it_was_interrupted() -> None:
    """A filter may kill for restart_syscall."""
    registers = REGISTERS | {"rax": (1 << 64) - 516, "orig_rax": 7, "rip": 0x1002}
    found = x86_64.resumed(registers)
    assert (x86_64.signed(found["rax"]), found["rip"]) == (-errno.EINTR, 0x1002)


@given(top=st.integers(0x10000, 1 << 46), length=st.sampled_from([832, 2696, 2752, 2816, 11008]), tiles=st.booleans())
def test_all_that_the_kernel_may_ask_for_lies_below_the_top(top: int, length: int, tiles: bool) -> None:
    """It asks for as much as its own frame has: up to the whole state, of which ours leaves out what is not in use."""
    xstate = bytearray(length)
    struct.pack_into("<Q", xstate, x86_64.FEATURES_IN_USE, x86_64.TILES if tiles and length == 11008 else 0)
    frame, data = x86_64.build(top, 0, REGISTERS, bytes(xstate), 0)
    (vectors,) = struct.unpack_from("<Q", data, 8 + 40 + 23 * 8)
    assert vectors % 64 == 0
    assert frame % 16 == 8
    assert vectors + length <= top
    assert frame + len(data) <= top
    assert top - frame <= x86_64.X86.frame_room


FPREGS = bytes(range(256)) * 2 + struct.pack("<II", 0x11, 0x22) + bytes(8)


def arm_registers(**values: int) -> aarch64.ArmRegisters:
    return aarch64.ArmRegisters(dict.fromkeys((*aarch64.NAMES, "call", "tls"), 0) | values)


def sve(length: int, flags: int = aarch64.HAS_VECTORS) -> bytes:
    size = 32 * length + 17 * length // 8
    return aarch64.HEADER.pack(16 + size, 1 << 14, length, 256, flags, 0) + b"\x77" * size + bytes(16)


@given(top=st.integers(0x10000, 1 << 47), length=st.sampled_from([0, 16, 32, 64]))
def test_a_frame_on_aarch64_has_all_where_the_kernel_reads_it(top: int, length: int) -> None:
    """Offsets of struct rt_sigframe: the stack pointer must be at it, and at 0 modulo 16."""
    vectors = {aarch64.NT_FPREGS: FPREGS} | ({aarch64.NT_SVE: sve(length)} if length else {})
    registers = arm_registers(x0=1, x30=2, sp=3, pc=4, pstate=5, x8=6)
    frame, data = aarch64.Arm().frame(top, 0, registers, vectors, 0xABCD, lambda address, size: b"")
    assert frame % 16 == 0
    assert frame + len(data) <= top
    assert top - frame <= aarch64.Arm.frame_room
    assert struct.unpack_from("<Q", data, 128 + 40) == (0xABCD,)
    assert struct.unpack_from("<QQ", data, 304) == (0, 1)
    assert struct.unpack_from("<QQQQ", data, 304 + 8 + 8 * 30) == (2, 3, 4, 5)
    assert struct.unpack_from("<IIII", data, 592) == (0x46508001, 528, 0x11, 0x22)
    assert data[592 + 16 : 592 + 528] == FPREGS[:512]
    magic, size, vector = struct.unpack_from("<IIH", data, 592 + 528)
    assert (magic, vector) == ((aarch64.SVE_MAGIC, length) if length else (0, 0))
    assert size % 16 == 0
    assert struct.unpack_from("<II", data, 592 + 528 + size) == (0, 0)


def test_vectors_that_a_frame_on_aarch64_cannot_hold_are_not_touched() -> None:
    sets = {aarch64.NT_FPREGS: FPREGS, aarch64.NT_SVE: sve(256)}

    def get(kind: int) -> bytes:
        if kind not in sets:
            raise OSError(errno.EINVAL, "no such set")
        return sets[kind]

    with pytest.raises(UnsafeThread, match="too long"):
        aarch64.Arm().vectors(get)
    sets[aarch64.NT_SVE] = sve(256, flags=0)
    assert aarch64.Arm().vectors(get) == sets


def test_a_thread_in_the_streaming_mode_is_not_touched() -> None:
    sets = {aarch64.NT_FPREGS: FPREGS, aarch64.NT_STREAMING: sve(16)}
    with pytest.raises(UnsafeThread, match="SME"):
        aarch64.Arm().vectors(lambda kind: sets[kind])


def test_a_resumed_wait_on_aarch64_says_that_it_was_interrupted() -> None:
    """In a frame: an rt_sigreturn forgets what restart_syscall would go on with."""
    registers = arm_registers(x0=77, x8=aarch64.CALLS["restart_syscall"], pc=0x1000)
    vectors = {aarch64.NT_FPREGS: FPREGS}
    for code, result, after in ((aarch64.CALL_AGAIN, aarch64.EINTR, 0x1004), (bytes(4), 77, 0x1000)):
        _, data = aarch64.Arm().frame(0x80000, 0, registers, vectors, 0, lambda address, size, code=code: code)  # type: ignore[misc]
        assert struct.unpack_from("<Q", data, 312) == (result,)
        assert struct.unpack_from("<Q", data, 312 + 8 * 32) == (after,)
