"""What ``/proc`` says is read as it is, also where names are made to mislead."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import psutil
import pytest

from heaptop.errors import ProcessNotFound
from heaptop.injector.inspect import process
from heaptop.injector.inspect.process import read_facts
from tests.support.processes import eventually, starting


def test_facts_of_this_process() -> None:
    facts, outside = read_facts(os.getpid()), psutil.Process()
    assert facts.command == " ".join(outside.cmdline()).replace("\n", " ")
    assert facts.executable == outside.exe()
    assert facts.uids[:3] == tuple(outside.uids())
    assert facts.gids[:3] == tuple(outside.gids())
    assert facts.user == outside.username()
    assert facts.live_tid == facts.pid == facts.nspid == os.getpid()
    assert facts.tracer == 0
    assert not facts.is_kernel_thread
    booted = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert booted + facts.start / os.sysconf("SC_CLK_TCK") == pytest.approx(outside.create_time(), abs=2)


@pytest.mark.parametrize("name", ["a) S 1 (b", "two\nlines", "Tgid:\t1", "\x1b[31m", "\udcff"])
def test_a_name_made_to_mislead(name: str) -> None:
    rename = "import os, sys, time; open('/proc/self/comm', 'wb').write(os.fsencode(sys.argv[1])); time.sleep(600)"
    with starting([sys.executable, "-S", "-c", rename, name]) as target:
        assert eventually(lambda: not read_facts(target.pid).name.startswith("python"))
        facts = read_facts(target.pid)
        assert facts.pid == target.pid
        assert facts.state in "RS"
        assert facts.start == process.start_time(target.pid)
        assert facts.uids == read_facts(os.getpid()).uids
        assert "\n" not in facts.command
        assert process.is_same_process(target.pid, facts.start)
        assert not process.is_same_process(target.pid, facts.start + 1)


def test_a_process_that_ends() -> None:
    child = subprocess.Popen(["sleep", "600"])
    start = process.start_time(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert read_facts(child.pid).state == "Z"
    assert not process.is_same_process(child.pid, start)
    child.wait()
    assert not process.is_same_process(child.pid, start)
    assert process.rss_bytes(child.pid) is None
    assert process.pid_namespace(child.pid) == 0
    with pytest.raises(ProcessNotFound, match=f"no process {child.pid}"):
        read_facts(child.pid)


def test_children_are_those_of_every_thread() -> None:
    found: list[int] = []
    started, done = threading.Event(), threading.Event()

    def start() -> None:
        with subprocess.Popen(["sleep", "600"]) as child:
            found.append(child.pid)
            started.set()
            done.wait()
            child.kill()

    thread = threading.Thread(target=start)
    thread.start()
    try:
        assert started.wait(60)
        assert found[0] in process.children(os.getpid())
    finally:
        done.set()
        thread.join()
    assert found[0] not in process.children(os.getpid())


def test_a_user_without_a_name() -> None:
    assert process.user_name(54321) == "54321"
