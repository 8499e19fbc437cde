"""Sampling through a real attach: who allocated what lives is told, switched while attached, and undone on every way
out."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import heaptop
from heaptop.analysis.bands.table import table
from heaptop.analysis.filters.filters import parse_filter
from heaptop.injector.inspect.process import rss_bytes
from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.messages import Census, Core, Sampler, Samples
from tests.interpreters import MUSL, NEWEST, OLDEST, SUPPORTED, Interpreter, since
from tests.support.attaching import attached, resting
from tests.support.processes import PATIENCE, eventually
from tests.support.shop import BLOCK, LEAK, Shop, kill_heaptop_at, shop

pytestmark = pytest.mark.usefixtures("quick_ticks")

RATE = 4096
TABLES = 64 << 20
"""SAMPLE_BYTES of sample.h."""


@pytest.mark.pythons(*SUPPORTED, *MUSL)
def test_a_leak_is_told_by_its_line(interpreter: Interpreter) -> None:
    """2 MB at 4 KiB are some 500 samples: one standard error is 4 %. What is let go is gone, and nothing stays."""
    with shop(interpreter) as target:
        target(b"l")  # before the attach: nobody saw it
        before = target(b"a")
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            state = target.listen(attachment, Sampler)
            assert (state.on, state.interval, state.text) == (True, RATE, "")
            assert target(b"a") != before
            target(b"l")
            assert target.until(attachment, lambda: target.live("create_session") > LEAK * 0.7)
            target.ticks(attachment)
            row = target.producer("create_session")
            assert row is not None
            assert row.frame is not None
            assert row.frame.short.endswith("sampling_shop.py")
            assert row.frame.line == line_of("CACHE.append(")
            # the session objects, of 40 bytes and a head, and the cache's own table are allocated there too
            assert 0.75 * LEAK < row.live.bytes < 1.5 * LEAK
            assert row.live.low < row.live.bytes < row.live.high
            target(b"f")
            assert target.until(attachment, lambda: target.live("create_session") < LEAK / 20)
        assert resting(target.target.pid)
        assert target(b"a") == before


def line_of(words: str) -> int:
    source = (Path(__file__).parent.parent / "targets" / "sampling_shop.py").read_text().splitlines()
    return next(number for number, line in enumerate(source, 1) if words in line)


@pytest.mark.pythons(*since("3.14"))
def test_where_there_is_no_core_it_is_said(interpreter: Interpreter) -> None:
    with shop(interpreter, proc=False) as target, attached(target.target.pid, sample_interval=RATE) as attachment:
        state = target.listen(attachment, Sampler)
        assert not state.on
        assert "/proc" in state.text


@pytest.mark.pythons(OLDEST, "3.12", "3.13", NEWEST)
def test_the_rate_changes_while_attached(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        with attached(target.target.pid) as attachment:
            target.listen(attachment, Core)
            assert target(b"a") == before, "nobody asked for samples"
            first = target.switch(attachment, 1 << 20, depth=1)
            assert (first.on, first.interval, first.depth, first.intervals) == (True, 1 << 20, 1, (1 << 20,))
            target(b"c")
            second = target.switch(attachment, RATE, depth=64)
            assert (second.interval, second.depth, second.intervals) == (RATE, 64, (1 << 20, RATE))
            assert second.epoch == first.epoch, "what was sampled before is still followed"
            target(b"l")
            assert target.until(attachment, lambda: target.live("create_session") > LEAK / 2)
            off = target.switch(attachment, 0)
            assert (off.on, off.interval, off.text) == (False, 0, "")
            assert target(b"a") == before
            again = target.switch(attachment, RATE)
            assert again.on
            assert again.epoch > second.epoch
            assert target.sampling.samples.live_block_count == 0 or target.live("create_session") < LEAK / 20
            target(b"l")
            assert target.until(attachment, lambda: target.live("create_session") > LEAK / 2)
        assert resting(target.target.pid)
        assert target(b"a") == before


@pytest.mark.pythons(OLDEST, "3.12", "3.13", NEWEST)
def test_the_interval_follows_the_program(interpreter: Interpreter) -> None:
    """From rest to 600 MB in a moment and back: few samples, none of them void, and the allocators as they were."""
    with shop(interpreter) as target:
        before = target(b"a")
        with attached(target.target.pid, sample_interval=64 << 10, sample_target=200) as attachment:
            state = target.listen(attachment, Sampler)
            assert (state.on, state.interval, state.target) == (True, 64 << 10, 200)
            assert target.until(attachment, lambda: interval_of(target) == 512)
            target(b"l")
            assert target.until(attachment, lambda: target.live("create_session") > LEAK / 3)
            quiet = target.sampling.samples.born
            for _ in range(30):
                target(b"c")
            target.ticks(attachment)
            assert target.sampling.state is not None
            assert max(target.sampling.state.intervals) >= 256 << 10
            burst = target.sampling.samples.born - quiet
            assert 100 < burst < 20_000, "at 512 bytes there would be 600,000"
            assert target.until(attachment, lambda: interval_of(target) == 512)
            assert target.sampling.sampling_status.voids == 0
            row = target.producer("create_session")
            assert row is not None
            assert row.live.low < 1.5 * LEAK
            assert row.live.high > LEAK
            fixed = target.switch(attachment, RATE)
            assert (fixed.interval, fixed.target, fixed.epoch) == (RATE, 0, state.epoch)
        assert resting(target.target.pid)
        assert target(b"a") == before


def interval_of(target: Shop) -> int:
    state = target.sampling.state
    return state.interval if state is not None else 0


@pytest.mark.pythons(*SUPPORTED)
def test_a_census_says_what_samples_are(interpreter: Interpreter) -> None:
    with shop(interpreter) as target, attached(target.target.pid, sample_interval=1024) as attachment:
        target.listen(attachment, Sampler)
        target(b"l")
        target.ticks(attachment)
        attachment.source.census_now()
        census = target.listen(attachment, Census)
        assert census.mode == "clone", census.mode_reason
        target.ticks(attachment)
        rows = table(target.sampling.moments.records, "type", parse_filter("site:create_session"))
        held = {row.name: row.bytes for row in rows}
        assert held["bytes"] == pytest.approx(LEAK, rel=0.3)
        assert held["__main__.Session"] == pytest.approx(2000 * 56, rel=0.6), "two words, a slot, the collector's head"


@pytest.mark.pythons("3.8", "3.10", "3.12", "3.13")
def test_collections_and_phases_are_told_with_the_samplers_clock(interpreter: Interpreter) -> None:
    folder = Path(heaptop.__file__).parent.parent
    with shop(interpreter, SHOP_HEAPTOP=str(folder)) as target:
        assert target.text(b"p") == "nobody listens"
        with attached(target.target.pid, sample_interval=16) as attachment:  # so that little is missed
            target.listen(attachment, Sampler)
            target.ticks(attachment)  # the agent finds the program's own heaptop at a tick
            assert target.text(b"p") == "listened to"
            target(b"c")
            assert target.text(b"p") == "listened to"
            assert target.until(attachment, lambda: len(target.sampling.gc.spans()) == 2)
            first, second = target.sampling.gc.spans(target.sampling.timeline)
            assert (first.name, first.open, first.collections, second.collections) == ("load", False, 1, 1)
            row = target.sampling.gc.rows[-1]
            assert row.generation == 2
            assert row.allocated is not None
            assert row.allocated > 20_000 * BLOCK
            functions = {code.function.rpartition(".")[2] for code in target.sampling.samples.codes}
            assert "phase" in functions
            assert not functions & {"heaptop_gc", "heaptop_phase"}, "heaptop's own code on the program's thread"
        assert resting(target.target.pid)
        assert target.text(b"p") == "nobody listens"


@pytest.mark.pythons("3.12")
def test_phases_that_find_no_room_are_counted(interpreter: Interpreter) -> None:
    """None is remembered for ever: those that last are said once, and end; later ones have room again."""
    folder = Path(heaptop.__file__).parent.parent
    with shop(interpreter, SHOP_HEAPTOP=str(folder)) as target:
        target.text(b"p")
        with attached(target.target.pid) as attachment:
            target.ticks(attachment)
            profile = target.sampling.gc
            for turn in (1, 2):
                target(b"n")
                assert target.until(attachment, lambda turn=turn: profile.phases_lost >= turn * (3000 - 1024))
                assert target.until(attachment, lambda: any(span.open for span in profile.spans()))
                target(b"e")
                assert target.until(attachment, lambda: not any(span.open for span in profile.spans()))


@pytest.mark.pythons(OLDEST, "3.12", "3.13", NEWEST)
def test_what_another_tool_covers_is_taken_out_when_it_has_gone(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            assert target.listen(attachment, Sampler).on
            target(b"t")
            off = target.switch(attachment, 0)
            assert not off.on
            assert "another tool's hook lies over heaptop's" in off.text
            assert target(b"a") != before
            target(b"u")
            target.ticks(attachment)
            assert target(b"a") == before
        assert target(b"a") == before


@pytest.mark.pythons("3.8", "3.12", "3.13")
def test_what_stays_after_a_detach_is_said_and_taken_out_by_the_next(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            assert target.listen(attachment, Sampler).on
            target(b"t")
            assert attachment.close() is None
        assert attachment.ended is not None
        assert "another tool's hook lies over heaptop's" in attachment.ended.left
        target(b"u")
        target.forget()
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            assert target.listen(attachment, Sampler).on
            assert attachment.close() is None
        assert attachment.ended is not None
        assert attachment.ended.left == ""
        assert resting(target.target.pid)
        assert target(b"a") == before


@pytest.mark.pythons("3.8", "3.11-debian", "3.12", "3.13")
def test_heaptop_is_killed_while_it_samples(interpreter: Interpreter) -> None:
    with shop(interpreter) as target:
        before = target(b"a")
        pid = target.target.pid
        kill_heaptop_at(Samples, pid, sample_interval=RATE)
        assert target(b"a") == before
        target(b"l")
        with attached(pid, sample_interval=RATE) as attachment:
            assert target.listen(attachment, Sampler).on
            target(b"l")
            assert target.until(attachment, lambda: target.live("create_session") > LEAK / 2)


STOPPED = """\
import os, signal, sys
from heaptop.analysis.samples.sampling import Sampling
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.protocol.messages import BIRTH, Message, Samples, Tick
sampling, stopped = Sampling(), []
def watch(event):
    message = getattr(event, "message", None)
    if isinstance(message, Message):
        sampling.feed(message)
    if type(message) is Samples and len(message.births) > 1000 * BIRTH.size and not stopped:
        stopped.append(True)
        os.kill(os.getpid(), signal.SIGSTOP)
    elif type(message) is Tick:
        print(sampling.samples.live_block_count, flush=True)
source = attach_source(int(sys.argv[1]), AttachOptions(interval=3600, sample_interval=16))
source.open(watch)
sys.stdin.read()
source.close()
"""


@pytest.mark.sample(2)
@pytest.mark.pythons(OLDEST, "3.11-debian", "3.12", "3.13", NEWEST)
def test_heaptop_is_stopped_for_a_while_in_the_middle_of_a_tick(interpreter: Interpreter, tmp_path: Path) -> None:
    """The agent cannot write then: the target goes on, and what nobody takes is kept in a bounded amount of memory."""
    with shop(interpreter) as target, (tmp_path / "said").open("w") as said:
        before, pid = target(b"a"), target.target.pid
        command = [sys.executable, "-c", STOPPED, str(pid)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said) as watching:

            def ticks() -> list[str]:
                return (tmp_path / "said").read_text().splitlines()

            try:
                assert eventually(lambda: len(ticks()) >= 1)
                assert eventually(lambda: target(b"c") == 0 and state_of(watching.pid) == "T")
                told, rss = len(ticks()), rss_bytes(pid) or 0
                end = time.monotonic() + 4
                while time.monotonic() < end:
                    for letter in (b"c", b"l", b"f"):
                        target(letter)
                assert state_of(watching.pid) == "T"
                assert len(ticks()) == told
                assert agent_thread(pid) is not None
                assert (rss_bytes(pid) or 0) - rss < TABLES + (16 << 20)
                watching.send_signal(signal.SIGCONT)
                assert eventually(lambda: len(ticks()) >= told + 3)
                target(b"l")
                assert eventually(lambda: int(ticks()[-1]) >= 2000)
                assert watching.stdin is not None
                watching.stdin.close()
                assert watching.wait(PATIENCE) == 0
            finally:
                watching.kill()
        assert resting(pid)
        assert target(b"a") == before


def state_of(pid: int) -> str:
    """As proc(5) has it: T for stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.pythons(OLDEST, "3.12", "3.13", NEWEST)
def test_on_and_off_under_load(interpreter: Interpreter, cycles: int) -> None:
    """Attached and detached again and again, and switched in between, while the target allocates."""
    with shop(interpreter) as target:
        before = target(b"a")
        for turn in range(cycles):
            target.forget()
            with attached(target.target.pid, sample_interval=RATE << turn % 3) as attachment:
                assert target.listen(attachment, Sampler).on
                target(b"c")
                target.switch(attachment, 0 if turn % 2 else 1024)
                target(b"l")
                target(b"f")
            resting(target.target.pid)
            assert target(b"a") == before


@pytest.mark.pythons("3.8", "3.11", "3.12", "3.13")
def test_a_forked_child_is_left_by_the_sampler(interpreter: Interpreter) -> None:
    """At its first collection, where the agent finds that it is in another process; the parent is sampled on."""
    with shop(interpreter) as target:
        before = target(b"a")
        with attached(target.target.pid, sample_interval=RATE) as attachment:
            assert target.listen(attachment, Sampler).on
            ours = target(b"a")
            assert ast.literal_eval(target.text(b"A")) == [ours, before]
            assert target(b"a") == ours != before
        assert target(b"a") == before
