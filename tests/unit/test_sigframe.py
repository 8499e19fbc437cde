"""The frame that gives a hijacked thread back: what the kernel will read of it is there."""

import errno
import struct

from hypothesis import given
from hypothesis import strategies as st

from heaptop.injector.entry import sigframe

REGISTERS = dict.fromkeys((*sigframe._ORDER, "orig_rax", "cs", "gs", "fs", "ss"), 0)


def test_a_wait_that_would_be_resumed_by_another_call_says_that_it_was_interrupted() -> None:
    """A filter may kill for restart_syscall."""
    registers = REGISTERS | {"rax": (1 << 64) - 516, "orig_rax": 7, "rip": 0x1002}
    found = sigframe.resumed(registers)
    assert (sigframe.signed(found["rax"]), found["rip"]) == (-errno.EINTR, 0x1002)


@given(top=st.integers(0x10000, 1 << 46), length=st.sampled_from([832, 2696, 2752, 2816, 11008]), tiles=st.booleans())
def test_all_that_the_kernel_may_ask_for_lies_below_the_top(top: int, length: int, tiles: bool) -> None:
    """It asks for as much as its own frame has: up to the whole state, of which ours leaves out what is not in use."""
    xstate = bytearray(length)
    struct.pack_into("<Q", xstate, sigframe.FEATURES_IN_USE, sigframe.TILES if tiles and length == 11008 else 0)
    frame, data = sigframe.build(top, 0, REGISTERS, bytes(xstate), 0)
    (vectors,) = struct.unpack_from("<Q", data, 8 + 40 + 23 * 8)
    assert vectors % 64 == 0
    assert frame % 16 == 8
    assert vectors + length <= top
    assert frame + len(data) <= top
    assert top - frame <= sigframe.ROOM
