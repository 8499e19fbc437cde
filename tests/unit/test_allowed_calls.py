"""What a hijacked thread may call while its filter is suspended."""

from __future__ import annotations

import pytest

from heaptop.injector.entry import allowed_calls, seccomp
from heaptop.injector.entry.allowed_calls import (
    ADD_PENDING,
    CANCEL,
    OPEN_PAIR,
    START,
    THREAD_FLAGS,
    AllowedCalls,
    Routine,
    gate_of_one,
)
from heaptop.injector.entry.seccomp import ALLOW, KILL_PROCESS, Program
from heaptop.injector.inspect.memory import Mapping
from tests.unit.test_seccomp import answer, packed

MASK = (1 << 64) - 1
ENOSYS, EPERM, LOG = 0x00050026, 0x00050001, 0x7FFC0000
CODE, DATA, RESERVED, CONSTANT, FILE = 0x1000, 0x2000, 0x3000, 0x4000, 0x5000
MAPS = [
    Mapping(CODE, DATA, "r-xp", 0, "00:00", 0, ""),
    Mapping(DATA, RESERVED, "rw-p", 0, "00:00", 0, ""),
    Mapping(RESERVED, CONSTANT, "---p", 0, "00:00", 0, ""),
    Mapping(CONSTANT, FILE, "r--p", 0, "00:00", 0, ""),
    Mapping(FILE, 0x6000, "rw-p", 0, "08:01", 7, "/etc/hosts"),
]


def lets(routine: Routine, number: int, *arguments: int, native: bool = True) -> bool:
    gate = AllowedCalls(routine.numbers, lambda: MAPS)
    return gate.lets_through(native, number, [*arguments, *(0,) * (6 - len(arguments))])


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        pytest.param(9, (0, 8 << 20, 0, 0x20022, MASK), id="a stack, reserved"),
        pytest.param(9, (0, 1 << 27, 0, 0x4022, MASK), id="an arena of malloc's"),
        pytest.param(10, (RESERVED, 0x1000, 3), id="what was reserved becomes data"),
        pytest.param(10, (DATA, 0x1000, 0), id="a guard page"),
        pytest.param(11, (DATA, 0x2000), id="data and what is reserved"),
        pytest.param(56, (THREAD_FLAGS,), id="a thread"),
        pytest.param(202, (DATA, 0x80), id="wait for a lock"),
        pytest.param(202, (DATA, 0x189), id="the same, with a set of bits"),
        pytest.param(13, (33,), id="glibc's own handler"),
    ],
)
def test_what_starts_a_thread_is_let_through(number: int, arguments: tuple[int, ...]) -> None:
    assert lets(START, number, *arguments)
    assert not lets(START, number, *arguments, native=False)


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        pytest.param(9, (0, 4096, 7, 0x22, MASK), id="memory that may be run"),
        pytest.param(9, (0, 4096, 5, 0x22, MASK), id="code"),
        pytest.param(9, (DATA, 4096, 3, 0x32, MASK), id="MAP_FIXED"),
        pytest.param(9, (DATA, 4096, 3, 0x100022, MASK), id="MAP_FIXED_NOREPLACE"),
        pytest.param(9, (0, 4096, 3, 0x2, 3), id="a file"),
        pytest.param(9, (0, 4096, 3, 0x21, MASK), id="shared memory"),
        pytest.param(9, (0, 4096, 1 << 32 | 3, 0x22, MASK), id="bits beyond an int"),
        pytest.param(10, (DATA, 0x1000, 5), id="data becomes code"),
        pytest.param(10, (DATA, 0x1000, 3 | 0x01000000), id="PROT_GROWSDOWN"),
        pytest.param(10, (CODE, 0x1000, 3), id="code becomes data"),
        pytest.param(10, (CONSTANT, 0x1000, 3), id="a constant becomes data"),
        pytest.param(10, (FILE, 0x1000, 3), id="a file's page"),
        pytest.param(10, (RESERVED, 0x2000, 3), id="beyond the end of what was reserved"),
        pytest.param(10, (0x6000, 0x1000, 3), id="nothing"),
        pytest.param(10, (DATA, MASK - 0x1000, 3), id="a length that wraps"),
        pytest.param(11, (CODE, 0x2000), id="unmap code"),
        pytest.param(56, (THREAD_FLAGS | 0x2000,), id="CLONE_PTRACE, which inherits the suspension"),
        pytest.param(56, (17,), id="a process"),
        pytest.param(202, (DATA, 6), id="FUTEX_LOCK_PI"),
        pytest.param(13, (11,), id="a handler of SIGSEGV"),
        pytest.param(53, (1, 0x80001, 0), id="a socketpair, when a thread is to be started"),
        pytest.param(435, (DATA, 88), id="clone3"),
        pytest.param(157, (0x53564D41,), id="prctl"),
        pytest.param(59, (), id="execve"),
        pytest.param(83, (DATA, 0o755), id="mkdir"),
        pytest.param(83 | 0x40000000, (DATA, 0o755), id="mkdir of x32"),
        pytest.param(56 | 0x40000000, (THREAD_FLAGS,), id="clone of x32"),
        pytest.param(-1, (), id="none"),
    ],
)
def test_all_else_is_not(number: int, arguments: tuple[int, ...]) -> None:
    assert not lets(START, number, *arguments)


def test_one_thread_is_started_and_none_after_a_refusal() -> None:
    gate = AllowedCalls(START.numbers, tuple)
    assert gate.lets_through(True, 56, [THREAD_FLAGS, 0, 0, 0, 0, 0])
    assert not gate.lets_through(True, 56, [THREAD_FLAGS, 0, 0, 0, 0, 0])
    gate = AllowedCalls(START.numbers, tuple)
    assert not gate.lets_through(True, 83, [0] * 6)
    assert not gate.lets_through(True, 56, [THREAD_FLAGS, 0, 0, 0, 0, 0])
    assert gate.refused == ["83"]


def test_glibc_has_another_way_than_clone3_so_that_cancels_nothing() -> None:
    gate = AllowedCalls(START.numbers, tuple)
    assert not gate.lets_through(True, 435, [0] * 6)
    assert gate.refused == []


def test_a_call_of_heaptops_is_let_through_as_it_was_made_and_no_other() -> None:
    arguments = (0, 0xC000, 3, 0x22, -1, 0)
    gate = gate_of_one([answer(9, EPERM)], 9, arguments)
    assert gate is not None
    registers = [value & MASK for value in arguments]
    assert gate.lets_through(True, 9, registers)
    assert not gate.lets_through(True, 9, [*registers[:2], 7, *registers[3:]])
    assert not gate.lets_through(True, 10, registers)


def test_what_has_its_meaning_in_memory_is_never_made_without_the_filter() -> None:
    connect = 42
    assert gate_of_one([answer(connect, EPERM)], connect, (3, DATA, 20)) is None
    with pytest.raises(ValueError, match="may not be made without the filter"):
        gate_of_one([answer(connect, KILL_PROCESS)], connect, (3, DATA, 20))


def filters(*answers: tuple[int, int], otherwise: int = ALLOW) -> list[Program]:
    program = [seccomp_load]
    for number, action in answers:
        program += [(0x15, 0, 1, number & 0xFFFFFFFF), (0x06, 0, 0, action)]
    return [packed(*program, (0x06, 0, 0, otherwise))]


seccomp_load = (0x20, 0, 0, 0)


@pytest.mark.parametrize("routine", [OPEN_PAIR, CANCEL, ADD_PENDING, START])
def test_nothing_is_suspended_that_need_not_be(routine: Routine) -> None:
    assert routine.gate([], tuple) is None
    assert routine.gate(filters((83, KILL_PROCESS)), tuple) is None
    assert routine.gate(filters(otherwise=LOG), tuple) is None
    allowed = [(call.number, ALLOW) for call in (*routine.needs, seccomp.Call("clone3", 435))]
    # A tracer that holds a call back shows the filter number -1: an error to that is harmless, a kill is not.
    assert routine.gate(filters(*allowed, otherwise=EPERM), tuple) is None
    assert routine.gate(filters(*allowed, otherwise=KILL_PROCESS), tuple) is not None
    for call in routine.needs:
        assert routine.gate(filters((call.number, EPERM)), tuple) is not None


def test_a_filter_that_says_enosys_to_clone3_lets_glibc_take_clone() -> None:
    assert START.gate(filters((435, ENOSYS)), tuple) is None
    assert START.gate(filters((435, EPERM)), tuple) is not None
    assert START.gate(filters((435, ENOSYS), (56, EPERM)), tuple) is not None


def test_a_target_that_would_die_of_clone_is_not_taught_to_use_it() -> None:
    assert allowed_calls.would_forget_clone3(filters((9, EPERM), (56, KILL_PROCESS)))
    assert not allowed_calls.would_forget_clone3(filters((9, EPERM), (56, EPERM)))
    assert not allowed_calls.would_forget_clone3(filters((56, KILL_PROCESS)))
