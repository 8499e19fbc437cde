"""A leak hunt in programs whose containers have a bound, or a queue that grows: what it says of them, and why."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.interpreters import Interpreter
from tests.support import zoo

SECONDS: Final = 10
EXPECTED: Final = {
    # program: verdict of the suspect of that type, and words of the first reason for it
    "cache_below_bound": ("__main__.Avatar", "unclear", ("fills until 100,000, in ≈ ", "an lru_cache, now ")),
    "queue_filling": ("__main__.Job", "unclear", ("fills until 100,000, in ≈ ", "a queue.Queue, now ")),
    "thumbs_lru_class": ("__main__.Thumb", "unclear", ("fills until 50,000, in ≈ ", "a __main__.Thumbs, now ")),
    "mails_behind": ("__main__.Mail", "backlog", ("a queue.Queue grows by ", "its consumer takes ")),
    "frames_behind": ("__main__.Frame", "backlog", ("an asyncio.queues.Queue grows by ", "its consumer takes ")),
    "sessions_in_cache": ("__main__.Click", "leak", ()),
    "jobs_lying_bound": ("__main__.Job", "leak", ()),
    "latest_window": ("dict", "no leak", ("a collections.deque at its maxlen of 1,000",)),
}


def suspect_of(found: dict[str, Any], type: str) -> dict[str, Any]:
    return next(each for each in found["suspects"] if each["type"] == type)


@pytest.mark.sample(2)
@pytest.mark.timeout(900)
@pytest.mark.pythons("3.8", "3.11", "3.12", "3.13", "3.14")
def test_what_a_hunt_says_of_bounds(interpreter: Interpreter, is_whole: bool) -> None:
    """Of every other program; of all with --whole."""
    short, names = replace(zoo.PLANTED, seconds=SECONDS), [*EXPECTED][:: 1 if is_whole else 2]
    with ThreadPoolExecutor(short.at_once) as pool:
        found = dict(zip(names, pool.map(lambda name: zoo.hunt(interpreter, name, short), names), strict=True))
    for name in names:
        type, verdict, words = EXPECTED[name]
        suspect = suspect_of(found[name], type)
        assert suspect["verdict"] == verdict, (name, suspect["evidence"])
        assert all(each in suspect["evidence"][0] for each in words), (name, suspect["evidence"])
        full = [each["evidence"][0] for each in found[name]["suspects"] if each["retainer"] == "module backdrop .page"]
        assert full in ([], ["an lru_cache at its maxsize of 200"]), name
