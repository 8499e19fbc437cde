"""What is kept of the native core's refusals: by executable and build, until it goes better, and never in the way."""

from __future__ import annotations

import os

import pytest

from heaptop.injector.agent import core
from heaptop.injector.inspect import refusals_cache


def test_a_refusal_is_kept_until_it_goes_better() -> None:
    here = os.getpid()
    assert refusals_cache.refusal(here, "build") == ""
    refusals_cache.store(here, "build", "a list is larger than it should be")
    assert refusals_cache.refusal(here, "build").startswith("a list is larger than it should be (seen 20")
    assert refusals_cache.refusal(here, "another build") == ""
    refusals_cache.store(here, "build", "")
    assert refusals_cache.refusal(here, "build") == ""
    assert [each.name for each in refusals_cache.record().parent.iterdir()] == [refusals_cache.record().name]


def test_what_is_about_one_process_is_not_kept_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "finds_by_path", lambda: False)
    monkeypatch.setattr(core, "mapped_numbers", lambda build: list(range(core.MOST_COPIES)))
    with pytest.raises(RuntimeError) as refused:
        core.import_core("build", [])
    refusals_cache.store(os.getpid(), "build", core.core_failure(refused.value))
    assert refusals_cache.refusal(os.getpid(), "build") == ""


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals_cache, "MOST", 10)
    for number in range(refusals_cache.MOST + 1):
        refusals_cache.store(os.getpid(), f"build {number}", "so")
    assert refusals_cache.refusal(os.getpid(), "build 0") == ""
    assert all(refusals_cache.refusal(os.getpid(), f"build {number}") for number in range(1, refusals_cache.MOST + 1))


def test_nothing_goes_wrong_with_a_file_that_is_none() -> None:
    refusals_cache.store(os.getpid(), "build", "so")
    for content in ("{", "[]", '{"a": 1}'):
        refusals_cache.record().write_text(content)
        assert refusals_cache.refusal(os.getpid(), "build") == ""
    refusals_cache.store(0, "build", "a process that is gone")
    refusals_cache.record().unlink()
    refusals_cache.record().mkdir()
    refusals_cache.store(os.getpid(), "build", "so")
    assert refusals_cache.refusal(os.getpid(), "build") == ""
