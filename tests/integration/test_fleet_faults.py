"""What goes wrong around the host agent and the guard: storms and slow clients, files that are broken, disks that are
full. Processes are served, or guarded, all the same, and are as they were afterwards.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

from heaptop.injector.inspect.process import rss_bytes
from tests.interpreters import Interpreter
from tests.support.attaching import is_held, resting
from tests.support.leaking import ENVIRONMENT, HEAPTOP, is_as_it_was, leaking_sessions
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, Target, difference, eventually, running, starting
from tests.support.serving import RULE, Serve, serving

CONNECTIONS: Final = 64
"""That the host agent keeps at most."""
AT_ONCE: Final = 2 * 100
"""That asyncio accepts before the first of them is counted."""
MIB: Final = 1 << 20


@pytest.fixture
def served(interpreter: Interpreter, tmp_path: Path) -> Iterator[tuple[Serve, Target]]:
    """A host agent that is attached to one process, which is as it was when both have ended."""
    rules = RULE.format(word=f"served-{uuid.uuid4().hex}")
    word = rules.split('command = "')[1].split('"')[0]
    with running(interpreter, "sleeper", word) as target:
        before = Facts.of(target.pid)
        with serving(tmp_path / "fleet.toml", rules) as serve:
            assert eventually(lambda: serve.counted() == {target.pid}), serve.process.stderr()
            yield serve, target
            assert serve.counted() == {target.pid}
            assert serve.end(signal.SIGTERM) == 0
        assert eventually(lambda: not difference(before, resting(target.pid)))
        assert not is_held(target.pid)
        assert target.terminate() == EXIT_CODE


def connections(serve: Serve) -> int:
    """Of clients, that it holds."""
    tcp = psutil.Process(serve.process.pid).net_connections("tcp")
    return sum(one.status == psutil.CONN_ESTABLISHED for one in tcp)


def connected(serve: Serve, receives: int = 0) -> socket.socket:
    """A connection to it; ``receives``: bytes that wait for a client that does not read."""
    host, _, port = serve.address.removeprefix("http://").rstrip("/").partition(":")
    client = socket.socket()
    if receives:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
    client.connect((host, int(port)))
    return client


@pytest.mark.pythons("3.12")
def test_a_storm_of_scrapes_gets_whole_answers_over_few_connections(served: tuple[Serve, Target]) -> None:
    """The storm goes on until enough have got one, however busy the machine is."""
    serve, _ = served
    most, answers, end = 0, list[tuple[int, bytes]](), time.monotonic() + 3 * PATIENCE

    def scrape(_: int) -> list[tuple[int, bytes]]:
        """Many times on one connection; what is closed for others is no answer."""
        connection, answers = http.client.HTTPConnection(serve.address.split("/")[2], timeout=60), []
        for _ in range(10):
            try:
                connection.request("GET", "/metrics")
                response = connection.getresponse()
                answers.append((response.status, response.read()))
            except (OSError, http.client.HTTPException):
                connection.close()
        connection.close()
        return answers

    with ExitStack() as stack, ThreadPoolExecutor(3 * CONNECTIONS) as clients:
        for _ in range(CONNECTIONS):
            stack.enter_context(connected(serve))
        assert eventually(lambda: connections(serve) >= CONNECTIONS), "others hold all that it keeps"
        while sum(status == 200 for status, _ in answers) <= CONNECTIONS and time.monotonic() < end:
            storm = [clients.submit(scrape, number) for number in range(6 * CONNECTIONS)]
            while not all(one.done() for one in storm):
                most = max(most, connections(serve))
            answers += [answer for one in storm for answer in one.result()]
    whole = [text for status, text in answers if status == 200]
    assert len(whole) > CONNECTIONS
    assert all(b"\nheaptop_live_bytes{" in text and text.endswith(b"\n") for text in whole)
    assert {text for status, text in answers if status != 200} <= {b"Too many requests wait. Try again later.\n", b""}
    assert most <= CONNECTIONS + AT_ONCE
    assert serve.get("healthz") == b"ok\n"


@pytest.mark.pythons("3.12")
def test_clients_that_ask_and_never_read_are_closed_and_cost_little(served: tuple[Serve, Target]) -> None:
    serve, _ = served
    rss, slow = rss_bytes(serve.process.pid) or 0, 8
    with ExitStack() as stack:
        for _ in range(slow):
            client = stack.enter_context(connected(serve, receives=4096))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2000)  # more than the kernel takes
        assert eventually(lambda: connections(serve) == slow)
        for _ in range(5):
            assert b"heaptop_live_bytes" in serve.get("metrics")
        assert (rss_bytes(serve.process.pid) or 0) < rss + 64 * MIB
        assert eventually(lambda: connections(serve) == 0, 2 * PATIENCE)


@pytest.mark.pythons("3.12")
def test_a_reload_of_a_broken_file_says_why_and_changes_nothing(served: tuple[Serve, Target]) -> None:
    serve, target = served
    good = serve.file.read_bytes()
    broken = {
        b"limit = \n": "fleet.toml",
        b'\xff\xfe"': "fleet.toml",
        b"limit = -1": "limit",
        b'[[select]]\ncommand = "("': "command",
        b"[select]": "select",
    }
    for number, (content, why) in enumerate(broken.items(), 1):
        serve.file.write_bytes(content)
        serve.process.signal(signal.SIGHUP)
        assert eventually(lambda number=number: len(serve.events("reload")) == number)
        assert "result=failed" in serve.events("reload")[-1]
        assert why in serve.events("reload")[-1]
    serve.file.unlink()
    serve.process.signal(signal.SIGHUP)
    assert eventually(lambda: len(serve.events("reload")) == len(broken) + 1)
    assert "No such file" in serve.events("reload")[-1]
    assert serve.attached() == {target.pid}
    serve.file.write_bytes(good)
    serve.process.signal(signal.SIGHUP)
    assert eventually(lambda: "result=done" in serve.events("reload")[-1])


# -- full disks --------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """One of 512 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "none", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no file system can be mounted: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path, left: int) -> Path:
    """Fill it, but for so many bytes; the file that does."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(ballast.stat().st_size - left)
    return ballast


def written(folder: Path) -> list[str]:
    """Files that are not empty; one that cannot be written is soon gone again."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size:
                found.append(path.name)
    return found


def guarding(target: Target, folder: Path, do: str) -> AbstractContextManager[Target]:
    options = ["--when", "every 1s", "--cooldown", "1s", "--at-most", "1000", "--do", do, "--dir", str(folder)]
    return starting([*HEAPTOP, "guard", str(target.pid), *options], environment=ENVIRONMENT)


def reports(folder: Path) -> list[Any]:
    """Those that are whole: one is being written, or is removed where there was no room for it."""
    found = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            found.append(json.loads(path.read_text()))
    return found


def test_a_full_disk_costs_reports_and_nothing_else(disk: Path) -> None:
    with leaking_sessions() as target:
        folder = disk / "reports"
        folder.mkdir(mode=0o700)
        ballast = fill(disk, 0)
        with guarding(target, folder, "report") as guard:
            assert eventually(lambda: "cannot be written: No space left on device" in guard.stderr()), guard.stderr()
            assert written(folder) == []
            ballast.unlink()
            assert eventually(lambda: reports(folder)), guard.stderr()
            guard.signal(signal.SIGTERM)
            assert guard.process.wait(60) == 0, guard.stderr()
        assert reports(folder)[0]["pid"] == target.pid
        assert list(folder.glob("*.new")) == []
        assert eventually(lambda: is_as_it_was(target))
        assert target.alive


def test_a_recording_that_fills_the_disk_ends_and_the_guard_goes_on(disk: Path) -> None:
    with leaking_sessions() as target:
        folder = disk / "reports"
        folder.mkdir(mode=0o700)
        ballast = fill(disk, 24 << 10)
        with guarding(target, folder, "record") as guard:
            assert eventually(lambda: "No space left on device" in guard.stderr()), guard.stderr()
            ballast.unlink()
            there = len(reports(folder))
            assert eventually(lambda: len(reports(folder)) > there), guard.stderr()
            guard.signal(signal.SIGTERM)
            assert guard.process.wait(60) == 0, guard.stderr()
        assert list(folder.glob("*.new")) == []
        assert eventually(lambda: is_as_it_was(target))
        assert target.alive
