"""The sampler's lock when whoever has it does not run: nobody waits for ever, and what was missed is said."""

from __future__ import annotations

import ctypes
import sysconfig

import pytest

from tests.support.building import library_with
from tests.support.core_builds import SANITIZED, STRICT, sanitized_throughout


@pytest.fixture(scope="module")
def stuck() -> ctypes.CDLL:
    options = [*STRICT, f"-I{sysconfig.get_path('include')}", "-DPy_LIMITED_API=0x03080000"]
    options = [option for option in options if option not in ("-fvisibility=hidden", "-std=gnu11")]
    return ctypes.CDLL(
        str(library_with("sampling_stuck.c", options=[*options, *(SANITIZED if sanitized_throughout() else ())]))
    )


def test_a_lock_that_is_not_given_back(stuck: ctypes.CDLL) -> None:
    """Births are dropped and counted, a death is found missing, and the end waits for another time."""
    assert f"{stuck.stuck_here():b}" == "1" * 10


def test_a_lock_that_is_left_in_another_process(stuck: ctypes.CDLL) -> None:
    assert stuck.stuck_in_child() == 0
