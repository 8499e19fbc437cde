"""The filters' interpreter, against the kernel's own: a child installs a filter and makes the calls."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.injector import native
from heaptop.injector.entry import seccomp
from heaptop.injector.entry.seccomp import (
    ALLOW,
    INSTRUCTION,
    KILL_PROCESS,
    TRAP,
    Call,
    Program,
    deadly,
    evaluate,
    verdict,
)
from heaptop.injector.machine import KNOWN
from heaptop.injector.machine.base import Machine

ERRNO_7 = 0x00050007
LOAD_NUMBER = (0x20, 0, 0, 0)
GETPPID, GETUID = 110, 102


def packed(*instructions: tuple[int, int, int, int]) -> Program:
    return b"".join(INSTRUCTION.pack(*each) for each in instructions)


def answer(number: int, action: int) -> Program:
    """A filter that gives ``action`` for one call and allows all others."""
    return packed(LOAD_NUMBER, (0x15, 0, 1, number), (0x06, 0, 0, action), (0x06, 0, 0, ALLOW))


def test_a_call_is_matched_by_number() -> None:
    program = answer(GETUID, KILL_PROCESS)
    assert evaluate(program, Call("getuid", GETUID).data()) == KILL_PROCESS
    assert evaluate(program, Call("getppid", GETPPID).data()) == ALLOW


def test_the_most_severe_of_several_filters_counts() -> None:
    programs = [answer(GETUID, ERRNO_7), answer(GETUID, KILL_PROCESS), answer(GETUID, TRAP)]
    assert verdict(programs, Call("getuid", GETUID)) == KILL_PROCESS
    assert verdict(programs[::2], Call("getuid", GETUID)) == TRAP
    assert verdict([], Call("getuid", GETUID)) == ALLOW


def test_only_killing_is_deadly() -> None:
    calls = (Call("getuid", GETUID), Call("getppid", GETPPID))
    assert deadly([answer(GETUID, ERRNO_7)], calls) == []
    assert deadly([answer(GETUID, 0)], calls) == ["getuid"]
    assert deadly([answer(GETPPID, TRAP)], calls) == ["getppid"]


def test_a_program_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="does not return"):
        evaluate(packed(LOAD_NUMBER), Call("read", 0).data())


@pytest.mark.parametrize("name", ["AGENT_CALLS", "START_CALLS"])
def test_numbers_are_those_of_this_machine(name: str) -> None:
    header = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
    if not os.path.exists(header):
        pytest.skip("no kernel headers here")
    with open(header) as file:
        lines = [words for words in map(str.split, file) if len(words) == 3 and "__NR_" in words[1]]
    known = {name.removeprefix("__NR_"): int(number) for _, name, number in lines}
    for call in getattr(seccomp, name):
        assert known[call.name.split()[0]] == call.number


@pytest.mark.parametrize("machine", KNOWN.values(), ids=KNOWN)
def test_filters_are_asked_about_no_call_that_the_machine_lacks(machine: Machine) -> None:
    """A name without a number would be asked about as -1, which filters allow."""
    names = {call.name.split()[0] for call in (*seccomp.AGENT_CALLS, *seccomp.START_CALLS, seccomp.RESTART)}
    assert names - set(machine.calls) == set()


@pytest.mark.parametrize("agent", ["AGENT_CALLS", "MUSL_AGENT_CALLS"])
def test_filters_are_asked_about_each_call_that_the_core_names(agent: str) -> None:
    """musl's list lacks calls that glibc's agent makes anyway."""
    folder = Path(native.__file__).parent
    asked = {call.name.split()[0] for call in (*getattr(seccomp, agent), *seccomp.CORE_CALLS)}
    named = set[str]()
    for file in folder.rglob("*.[ch]"):
        if file.relative_to(folder).parts[0] != "cores":  # never runs in a target
            named.update(re.findall(r"\bSYS_([a-z]\w+)", file.read_text()))
    assert "read" in named
    assert named - asked == set()


# -- against the kernel -------------------------------------------------------------------------------------


def kernel_answers(program: Program, argument: int) -> int:
    """getppid(argument) in a child under ``program``: the errno it gave, 0 for none, minus the signal it died of."""

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.argtypes = [ctypes.c_long] * 4
    filters = Filter(len(program) // INSTRUCTION.size, program)
    pid = os.fork()
    if pid == 0:
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(filters), 0, 0):
            os._exit(99)
        ctypes.set_errno(0)
        os._exit(ctypes.get_errno() if libc.syscall(GETPPID, argument, 0, 0) == -1 else 0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


arithmetic = st.sampled_from([0x04, 0x14, 0x24, 0x44, 0x54, 0xA4, 0x0C, 0x1C, 0x4C, 0x5C, 0xAC])
words = st.integers(0, 0xFFFFFFFF)


@given(
    operations=st.lists(st.tuples(arithmetic, words), max_size=6),
    argument=words,
    jump=st.sampled_from([0x15, 0x25, 0x35, 0x45]),
    against=words,
    number=st.integers(1, 90),
)
def test_agrees_with_the_kernel(
    operations: list[tuple[int, int]], argument: int, jump: int, against: int, number: int
) -> None:
    """Arithmetic over the first argument, stored, reloaded and compared; the answer is an errno or none."""
    program = packed(
        LOAD_NUMBER,
        (0x15, 1, 0, GETPPID),
        (0x06, 0, 0, ALLOW),
        (0x20, 0, 0, 16),
        (0x07, 0, 0, 0),  # TAX
        *((code, 0, 0, k) for code, k in operations),
        (0x02, 0, 0, 3),  # ST M[3]
        (0x61, 0, 0, 3),  # LDX M[3]
        (0x87, 0, 0, 0),  # TXA
        (jump, 0, 1, against),
        (0x06, 0, 0, 0x00050000 | number),
        (0x06, 0, 0, ALLOW),
    )
    ours = evaluate(program, Call("getppid", GETPPID, (argument,)).data())
    assert kernel_answers(program, argument) == (ours & 0xFFFF if ours != ALLOW else 0)
