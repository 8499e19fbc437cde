"""Kernels that lack a system call, simulated by a filter that answers ENOSYS: on heaptop's side, and on the target's.

Each lack has another way, or a reason that is reported; docs/support.md has the table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from heaptop.errors import TransportFailed
from tests.interpreters import MUSL, Interpreter
from tests.support import old_kernel
from tests.support.attaching import attached, resting
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, Target, difference, running, with_proc

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="reading the target's filter needs CAP_SYS_ADMIN")


def census(target: Target, *wrapper: str, options: Sequence[str] = ()) -> dict[str, Any]:
    """What ``heaptop census`` prints, which must leave the target as it was."""
    before = Facts.of(target.pid)
    command = [*wrapper, sys.executable, "-m", "heaptop", "census", str(target.pid), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert difference(before, resting(target.pid)) == []
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("call", ["pidfd_open", "pidfd_getfd", "openat2", "process_vm_readv"])
def test_heaptop_on_a_kernel_without_a_call_has_another_way(interpreter: Interpreter, call: str) -> None:
    with running(interpreter, "sleeper") as target:
        assert census(target, *old_kernel.wrapper(call))["mode"] == "clone"
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.12")
def test_a_copy_on_a_kernel_that_does_not_list_pages_looks_at_each_page(interpreter: Interpreter) -> None:
    """PAGEMAP_SCAN is asked for about large mappings alone: here is one of 16 GiB."""
    with running(interpreter, "reserving", str(1 / 64)) as target:
        found = census(target, *old_kernel.wrapper("PAGEMAP_SCAN"), options=["--no-inject", "--pause-budget", "20000"])
        assert found["complete"]
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.12")
def test_a_detach_that_needs_a_newer_kernel_is_refused_with_the_reason(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target, attached(target.pid) as attachment:
        command = [sys.executable, "-m", "heaptop", "detach", str(target.pid)]
        command = [*old_kernel.wrapper("pidfd_getfd"), *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == TransportFailed.exit_code
        assert "Linux 5.6" in done.stderr
        assert attachment.census().rows  # and the session continues


@pytest.mark.pythons("3.12", *MUSL)
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("clone3", ""),
        ("close_range", ""),
        ("membarrier", ""),
        ("memfd_create", "the target's kernel refused a memfd: Function not implemented"),
    ],
)
def test_a_target_on_a_kernel_without_a_call(interpreter: Interpreter, call: str, reason: str) -> None:
    """Counted in a clone all the same, or in Python mode with the reason."""
    if interpreter.musl and call == "membarrier":
        reason = "the seccomp filter refuses membarrier, so musl would send every thread a signal"
    wrapper = (*old_kernel.wrapper(call), *with_proc(interpreter))
    with running(interpreter, "sleeper", wrapper=wrapper) as target:
        found = census(target)
        assert found["mode"] == ("python" if reason else "clone")
        assert found["mode_reason"].startswith(reason)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""
