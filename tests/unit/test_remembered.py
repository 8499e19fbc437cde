"""What is kept of the native core's refusals: by executable and build, until it goes better, and never in the way."""

from __future__ import annotations

import os

import pytest

from heaptop.injector.inspect import remembered


def test_a_refusal_is_kept_until_it_goes_better() -> None:
    here = os.getpid()
    assert remembered.refusal(here, "build") == ""
    remembered.remember(here, "build", "a list is larger than it should be")
    assert remembered.refusal(here, "build").startswith("a list is larger than it should be (seen 20")
    assert remembered.refusal(here, "another build") == ""
    remembered.remember(here, "build", "")
    assert remembered.refusal(here, "build") == ""
    assert [each.name for each in remembered.record().parent.iterdir()] == [remembered.record().name]


@pytest.mark.slow
def test_the_oldest_are_forgotten() -> None:
    for number in range(remembered.MOST + 1):
        remembered.remember(os.getpid(), f"build {number}", "so")
    assert remembered.refusal(os.getpid(), "build 0") == ""
    assert all(remembered.refusal(os.getpid(), f"build {number}") for number in range(1, remembered.MOST + 1))


def test_nothing_goes_wrong_with_a_file_that_is_none() -> None:
    remembered.remember(os.getpid(), "build", "so")
    for content in ("{", "[]", '{"a": 1}'):
        remembered.record().write_text(content)
        assert remembered.refusal(os.getpid(), "build") == ""
    remembered.remember(0, "build", "a process that is gone")
    remembered.record().unlink()
    remembered.record().mkdir()
    remembered.remember(os.getpid(), "build", "so")
    assert remembered.refusal(os.getpid(), "build") == ""
