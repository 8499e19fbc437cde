"""Programs that run with heaptop's preloaded library, and what its table has of them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from heaptop.analysis.samples.estimate import Estimate, Sums, weight
from heaptop.injector.preload.malloc_table import MallocTable
from heaptop.protocol.messages import MallocSite, MallocSites
from tests.support.processes import PATIENCE

FINE = 1 << 14
"""Bytes between samples."""


def library() -> Path:
    """The built library; the test is skipped where there is none."""
    found = importlib.util.find_spec("heaptop.injector.preload._malloc")
    if found is None or found.origin is None:
        pytest.skip("the preloaded library is not built: setup.py build_ext --inplace")
    return Path(found.origin)


@dataclass(frozen=True, slots=True)
class Run:
    """A program that has ended."""

    code: int
    output: str
    refusal: str
    """Why nothing was sampled; else empty."""
    sites: MallocSites


def run(command: Sequence[str], *, interval: int = FINE, preloaded: str = "", executable: str = "") -> Run:
    """Start a program with the library, and wait for its end. ``executable``: what it becomes."""
    table = MallocTable(interval)
    try:
        variables = table.environment(library(), preloaded)
        with subprocess.Popen(
            ["env", *variables, *command],
            pass_fds=[table.fd],
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
        ) as child:
            try:
                output, _ = child.communicate(timeout=PATIENCE)
            except BaseException:
                child.kill()
                raise
        table.executable = executable or command[0]
        return Run(child.returncode, output, table.refusal(child.pid), table.sites())
    finally:
        table.close()


def sums(sites: Sequence[MallocSite]) -> Sums:
    """Of all their blocks."""
    found = Sums()
    for site in sites:
        for blocks in site.blocks:
            assert blocks.left == blocks.size
            found.add_alike(weight(blocks.size, blocks.interval), blocks.number)
    return found


def of(run: Run, symbol: str) -> list[MallocSite]:
    """The sites of a function of the program."""
    return [site for site in run.sites.sites if site.symbol == symbol]


def holds(estimate: Estimate, truth: int) -> bool:
    """Within twice the 95 % interval: one run in 10,000 is not, if the estimate is right on average."""
    return abs(estimate.bytes - truth) <= 2 * estimate.error
