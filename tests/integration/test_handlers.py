"""Which request, task or thread allocated what stays, in live services: named from the stacks that were sampled."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from tests.interpreters import Interpreter, cache_dir
from tests.support.leaking import ENVIRONMENT, HEAPTOP
from tests.support.processes import ANY_PAUSE, PATIENCE, need_installed, running
from tests.support.web import serving, under_load


def heaptop(*arguments: object) -> Any:
    command = [*HEAPTOP, *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_handler(pid: int) -> dict[str, int]:
    """Live bytes by handler, the largest first."""
    found = heaptop("census", pid, "--by", "handler", "--for", 2, "--rate", "4KiB")
    return {row["name"]: row["bytes"] for row in found["rows"] if row["samples"]}


def handlers_of_leak(pid: int, type: str) -> dict[str, float]:
    """The shares of the suspect of this type in a hunt."""
    found = heaptop("leaks", pid, "--for", 5, *ANY_PAUSE)
    suspect = next(each for each in found["suspects"] if each["type"].endswith(type))
    return {each["name"]: each["share"] for each in suspect["handlers"]}


def web_packages(interpreter: Interpreter) -> Mapping[str, str]:
    """The environment in which Starlette, uvicorn and Celery can be imported."""
    packages = cache_dir() / "packages" / f"{interpreter}-web"
    need_installed(interpreter, packages.is_dir(), packages.name)
    return {"PYTHONPATH": str(packages / "site-packages")}


@pytest.mark.pythons("3.8", "3.13")
def test_requests_tasks_jobs_and_threads_are_told_apart(interpreter: Interpreter) -> None:
    """All allocate at one site, on each Python: up to 3.10 code has no qualified names."""
    leaking = {
        "request application (handled.py)",
        "asyncio audit (handled.py)",
        "executor resize (handled.py)",
        "thread collect (handled.py)",
    }
    with running(interpreter, "handled") as target:
        live = by_handler(target.pid)
        assert leaking <= set(live), live
        shares = handlers_of_leak(target.pid, "Session")
        assert shares.keys() <= leaking
        assert shares
        assert (target.said(), target.stderr()) == ([], "")


@pytest.mark.pythons("3.12")
def test_the_view_of_a_flask_application_that_leaks(interpreter: Interpreter) -> None:
    with serving(interpreter, workers=1, application="flask_leak") as server, under_load(server, 0.02) as load:
        shares = handlers_of_leak(server.workers[0], "Session")
        live = by_handler(server.workers[0])
    assert not load.failures
    assert shares == {"request index (flask_leak.py)": 1.0}
    assert next(iter(live)) == "request index (flask_leak.py)"


@pytest.mark.pythons("3.12")
@pytest.mark.sample(2)
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_views_and_tasks_of_an_asgi_application(interpreter: Interpreter, loop: str) -> None:
    """A decorator's wrapper is named with the view. A task that a view starts has a stack of its own."""
    with running(interpreter, "asgi_leak", loop, environment=web_packages(interpreter)) as target:
        live = by_handler(target.pid)
        leaking = {
            "request wrapper › login (asgi_leak.py)",
            "asyncio notify (asgi_leak.py)",
            "executor export (asgi_leak.py)",
        }
        assert set(list(live)[:3]) == leaking, live
        # In a short hunt on a busy machine one of them may not have been sampled.
        named = set(handlers_of_leak(target.pid, "Session"))
        assert named
        assert named <= leaking
        assert (target.said(), target.stderr()) == ([], "")


@pytest.mark.pythons("3.12")
def test_the_task_of_a_celery_worker_that_leaks(interpreter: Interpreter) -> None:
    with running(interpreter, "celery_leak", environment=web_packages(interpreter)) as target:
        assert handlers_of_leak(target.pid, "Session") == {"celery remember (celery_leak.py)": 1.0}
        assert (target.said(), target.stderr()) == ([], "")
