"""Exact sites through a real attach: objects in blocks that free lists hand on are of who made them last, and nothing
stays; where that cannot be had it is said."""

from __future__ import annotations

import ast

import pytest

from heaptop.protocol.messages import Sampler
from tests.interpreters import Interpreter, since
from tests.support.attaching import attached, resting
from tests.support.building import library
from tests.support.shop import Shop, shop

pytestmark = pytest.mark.usefixtures("quick_ticks")

TELLING = since("3.13")
FLOAT = 24
MANY = 50


def owners(target: Shop) -> dict[str, int]:
    """How many of the living floats are of each of the two functions."""
    found = {"first_owner": 0, "second_owner": 0}
    for sample in target.sampling.samples.live_blocks():
        name = target.sampling.sites.name(sample.stack, "site")
        for function in found:
            found[function] += sample.size == FLOAT and function in name
    return found


@pytest.mark.pythons(*TELLING)
def test_what_a_free_list_hands_on_is_of_who_made_it_last(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before, none = target(b"a"), target(b"r")
        for exact in (False, True):
            target.forget()
            with attached(target.target.pid, sample_interval=1, sample_exact=exact) as attachment:
                state = target.listen(attachment, Sampler)
                assert (state.on, state.text) == (True, "")
                assert (state.approximate == ()) == exact
                assert (target(b"r") != none) == exact
                target(b"h")
                target.ticks(attachment)
                found = owners(target)
                if exact:
                    assert found == {"first_owner": 0, "second_owner": MANY}
                else:
                    assert found["second_owner"] < MANY // 2, "so there was something to be seen"
                assert attachment.close() is None
            assert attachment.ended is not None
            assert attachment.ended.left == ""
            assert resting(target.target.pid)
            assert target(b"r") == none
            assert target(b"a") == before


@pytest.mark.pythons("3.13")
def test_it_goes_on_through_off_and_another_rate(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        none = target(b"r")
        with attached(target.target.pid, sample_interval=1, sample_exact=True) as attachment:
            assert target.listen(attachment, Sampler).approximate == ()
            assert not target.switch(attachment, 0).on
            assert target(b"r") == none
            assert target.switch(attachment, 4096).approximate == ()
            assert target.switch(attachment, 1).approximate == ()
            target(b"h")
            target.ticks(attachment)
            assert owners(target) == {"first_owner": 0, "second_owner": MANY}
        assert target(b"r") == none


@pytest.mark.pythons(*TELLING)
def test_a_forked_child_keeps_no_tracer_once_it_has_collected(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        none = target(b"r")
        with attached(target.target.pid, sample_interval=4096, sample_exact=True) as attachment:
            assert target.listen(attachment, Sampler).on
            ours = target(b"r")
            assert ours != none
            assert ast.literal_eval(target.text(b"K")) == [ours, none]
            assert target(b"r") == ours
        assert target(b"r") == none


@pytest.mark.pythons("3.8", "3.12")
def test_earlier_versions_refuse_it(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        with attached(target.target.pid, sample_interval=4096, sample_exact=True) as attachment:
            state = target.listen(attachment, Sampler)
            assert not state.on
            assert state.text.startswith("exact sites are not available: this Python does not tell when a free list")
            assert target(b"a") == before


@pytest.mark.pythons(*TELLING)
def test_beside_another_tools_tracer(interpreter: Interpreter) -> None:
    """3.13 lets two be called; later versions tell a tracer when it is replaced, and it may let go of what it needs."""
    tracer = interpreter.place(library("reborn_tracer.c"))
    with shop(interpreter, SHOP_TRACER=tracer) as target:
        before, theirs = target(b"a"), target(b"R")
        with attached(target.target.pid, sample_interval=1, sample_exact=True) as attachment:
            state = target.listen(attachment, Sampler)
            if interpreter.name == "3.13":
                assert (state.on, state.approximate) == (True, ())
                assert target(b"r") != theirs
            else:
                assert not state.on
                assert state.text == "exact sites are not available: another reference tracer is there"
                assert target(b"r") == theirs
                assert target(b"a") == before
        assert target(b"r") == theirs
        assert target(b"a") == before
