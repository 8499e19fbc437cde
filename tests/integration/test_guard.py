"""``heaptop guard`` over a real attach: a report before the kernel ends the process, and the target as it was."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from heaptop.dumps.reader import HeapDump
from heaptop.errors import DumpDamaged, NotADump
from heaptop.fleet.reports import RING
from heaptop.recordings.reader import Recording
from tests import interpreters
from tests.support import native
from tests.support.control_groups import joining, leave_room, memory_group
from tests.support.leaking import ENVIRONMENT, HEAPTOP, is_as_it_was, leaking_sessions
from tests.support.processes import PATIENCE, Target, eventually, running

MIB = 1 << 20


class Guard:
    """``heaptop guard``, running."""

    def __init__(self, target: Target, folder: Path, when: str, *options: str) -> None:
        self.folder = folder
        self._log = folder.with_suffix(".log")
        command = [*HEAPTOP, "guard", str(target.pid), "--when", when, "--dir", str(folder), *options]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=log, env=ENVIRONMENT, stdin=subprocess.DEVNULL
            )

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def reports(self) -> list[Any]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]


@pytest.fixture
def target() -> Iterator[Target]:
    with leaking_sessions() as started:
        yield started


def test_the_report_names_type_and_site_before_the_kernel_ends_the_process(tmp_path: Path) -> None:
    """In a control group with a limit, with a program that takes 8 MB a second until it is killed."""
    native.core()
    try:
        interpreter = interpreters.get("3.12")
    except interpreters.MissingInterpreter as error:
        pytest.skip(str(error))
    with memory_group() as group:
        wrapper = joining(group)
        with running(interpreter, "leaking_fast", "8e6", wrapper=wrapper) as target:
            options = ("--do", "record", "--interval", "2")
            with Guard(target, tmp_path / "reports", "rss > 50% of limit", *options) as guard:
                rings = (tmp_path / "reports").glob
                assert eventually(lambda: any(ring.stat().st_size for ring in rings(f"*{RING}"))), guard.said
                leave_room(group, 160 * MIB)  # counted from here: an attach may take long on a busy machine
                assert eventually(lambda: guard.reports), guard.said
                (early,) = guard.reports
                assert target.alive, "the report is there before the end"
                assert target.process.wait(PATIENCE) == -signal.SIGKILL
                assert guard.process.wait(PATIENCE) == 0, guard.said
            killed = re.search(r"oom_kill (\d+)", (group / "memory.oom_control").read_text())
            assert killed is None or int(killed[1]) > 0, "it was the kernel that ended it"
    assert early["trigger"] == "rss > 50% of limit"
    assert early["readings"]["limit_of"].startswith("memory.limit_in_bytes of /heaptop-tests-")
    assert early["readings"]["rss"] > early["readings"]["limit"] / 2
    (report,) = guard.reports
    assert "__main__.Session" in [row["name"] for row in report["census"]["rows"]]
    assert "__main__.Session" in [row["name"] for row in report["grown"]]
    assert report["allocated_at"][0]["name"].endswith("leaking_fast.py:14 Session.__init__")
    for name in (report["recording"], next((tmp_path / "reports").glob(f"*{RING}")).name):
        with Recording.open(tmp_path / "reports" / name) as recording:
            assert not recording.damage
            assert recording.moments
    assert "ended: Process" in guard.said


def test_where_a_clone_has_no_room_the_report_comes_without_one(tmp_path: Path) -> None:
    """The process is neither copied nor killed for the sake of a report."""
    native.core()
    try:
        interpreter = interpreters.get("3.12")
    except interpreters.MissingInterpreter as error:
        pytest.skip(str(error))
    with memory_group() as group, running(interpreter, "leaking_fast", "0", wrapper=joining(group)) as target:
        leave_room(group, 24 * MIB)
        options = ("--do", "dump,hunt", "--at-most", "1", "--for", "3")
        with Guard(target, tmp_path / "reports", "left < 30MiB", *options) as guard:
            assert guard.process.wait(PATIENCE) == 0, guard.said
        (report,) = guard.reports
        assert report["census"]["mode"] != "clone"
        assert "MiB of memory are free" in report["census"]["mode_reason"]
        assert report["leaks"] is None
        assert "no heap dump: " in report["notes"][0]
        assert "refused, so that the program does not run out of memory" in report["notes"][0]
        assert "no leak hunt, the report is from what was known" in report["notes"][1]
        assert (report["dump"], [*(tmp_path / "reports").glob("*.heapdump")]) == (None, [])
        assert eventually(lambda: is_as_it_was(target))
        assert target.alive


def test_a_heap_dump_of_the_moment_answers_why(target: Target, tmp_path: Path) -> None:
    """Also what was sampled since the attach, and a process that is guarded on."""
    with Guard(target, tmp_path / "reports", "rss > 1MB", "--do", "dump,record", "--at-most", "1") as guard:
        assert guard.process.wait(PATIENCE) == 0, guard.said
    (report,) = guard.reports
    path = tmp_path / "reports" / report["dump"]
    with HeapDump(str(path)) as dump:
        dump.load()
        assert dump.whole
        assert "__main__.Session" in {dump.types[row.type].full for row in dump.counts()}
    assert eventually(lambda: is_as_it_was(target))
    assert target.alive


def test_a_leak_is_found_named_and_reported(target: Target, tmp_path: Path) -> None:
    options = ("--for", "4", "--at-most", "1")
    with Guard(target, tmp_path / "reports", "verdict = leak every 1s", *options) as guard:
        assert guard.process.wait(PATIENCE) == 0, guard.said
    (report,) = guard.reports
    suspect = report["leaks"]["suspects"][0]
    assert suspect["type"] == "__main__.Session"
    assert suspect["site"].endswith("create_session")
    assert suspect["sentence"] in guard.said
    assert eventually(lambda: is_as_it_was(target))
    assert target.alive


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("when", ["rss > 1TB", "rss > 1MB"], ids=["waiting", "acting"])
def test_however_it_ends_the_target_is_as_it_was(
    target: Target, tmp_path: Path, number: signal.Signals, when: str
) -> None:
    with Guard(target, tmp_path / "reports", when, "--do", "dump,hunt,record", "--for", "60") as guard:
        expected = "report " if when == "rss > 1MB" else "guarding process"
        assert eventually(lambda: expected in guard.said and not is_as_it_was(target)), guard.said
        guard.process.send_signal(number)
        code = guard.process.wait(PATIENCE)
    # Before the first census there is nothing to end well, as for any command.
    assert code in ({-number} if number == signal.SIGKILL else {0, 130}), guard.said
    assert eventually(lambda: is_as_it_was(target))
    assert target.alive
    assert len(guard.reports) == (when == "rss > 1MB")
    for path in (tmp_path / "reports").glob("*.heapdump"):
        with suppress(NotADump, DumpDamaged), HeapDump(str(path)) as dump:
            dump.load()  # what kill -9 has cut is read as far as it goes
    assert not target.said()
