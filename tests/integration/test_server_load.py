"""A web server under load is attached to again and again: no request fails, and no worker restarts."""

from __future__ import annotations

import pytest

from tests.interpreters import SAMPLE, SUPPORTED, Interpreter
from tests.support.attaching import attach_once, resting
from tests.support.processes import Facts, difference, eventually
from tests.support.web import serving, under_load

pytestmark = pytest.mark.timeout(3600)


@pytest.mark.sample(2)
@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_gunicorn_serves_on(interpreter: Interpreter, cycles: int) -> None:
    with serving(interpreter) as server:
        pids = (server.master.pid, *server.workers)
        before = {pid: Facts.of(pid) for pid in pids}
        with under_load(server) as load:
            for number in range(cycles // 2):  # each of them attaches to three processes
                for pid in pids:
                    answered = load.answered
                    attach_once(pid, census=number % 2 == 0)
                    assert eventually(lambda count=answered: load.answered > count or load.failures)
            assert load.failures == []
        for pid in pids:  # a worker that was restarted is gone, and cannot be looked at
            # It may have had a connection open in that moment, and be closing its last one in this.
            assert eventually(lambda pid=pid: not changes(before[pid], pid)), changes(before[pid], pid)
        server.get()
        assert server.master.stderr() == ""
        assert server.master.terminate() == 0


def changes(before: Facts, pid: int) -> list[str]:
    return [each for each in difference(before, resting(pid)) if "gone (socket:" not in each]
