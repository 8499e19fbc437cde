"""The host agent beside what people read its figures with: each engine finds the same in them."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

from tests.interpreters import Interpreter
from tests.support.engines import PprofTop, pprof_top
from tests.support.processes import eventually, running
from tests.support.serving import RULE, Serve, serving

KEPT = 20_000_000
"""Bytes, at least, that the target ``served`` keeps after SIGUSR1."""


@pytest.mark.pythons("3.12")
def test_pprof_finds_the_totals_of_the_metrics(interpreter: Interpreter, tmp_path: Path) -> None:
    word = f"served-{uuid.uuid4().hex}"
    with (
        running(interpreter, "served", word) as target,
        serving(tmp_path / "fleet.toml", RULE.format(word=word)) as serve,
    ):
        assert eventually(lambda: serve.counted() == {target.pid}), serve.process.stderr()
        target.signal(signal.SIGUSR1)

        def agree(path: str, sample_type: str, metric: str, least: float = KEPT / 2) -> PprofTop | None:
            """A census may come between the two readings; metrics are made again after a second."""
            before = total(serve, metric)
            top = pprof_top(f"{serve.address}debug/pprof/{path}?service=served", sample_type, tmp_path)
            same = before == total(serve, metric) and top.total == pytest.approx(before, rel=0.001)
            return top if same and before > least else None

        live = eventually(lambda: agree("heap", "inuse_space", "heaptop_site_live_bytes"))
        assert live is not None
        assert max(live.flat, key=lambda name: live.flat[name]) == "keep"
        assert eventually(lambda: agree("heap", "inuse_objects", "heaptop_site_live_blocks", KEPT / 2000))
        assert eventually(lambda: agree("allocs", "alloc_space", "heaptop_site_allocated_bytes_total"))


def total(serve: Serve, metric: str) -> float:
    """Over all sites."""
    return sum(serve.metrics().get(metric, {}).values())
