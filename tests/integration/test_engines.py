"""The host agent beside what people read its figures with: each engine finds the same in them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import uuid
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

from heaptop.injector.inspect.process import rss_bytes
from tests.interpreters import Interpreter
from tests.support import engines, web
from tests.support.building import TARGETS
from tests.support.engines import PprofTop, pprof_top, queried
from tests.support.leaking import ENVIRONMENT, HEAPTOP
from tests.support.processes import Target, eventually, running, starting
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
        assert live.flat["<lambda>"] > KEPT / 20
        assert eventually(lambda: agree("heap", "inuse_objects", "heaptop_site_live_blocks", KEPT / 2000))
        assert eventually(lambda: agree("allocs", "alloc_space", "heaptop_site_allocated_bytes_total"))


def total(serve: Serve, metric: str) -> float:
    """Over all sites."""
    return sum(serve.metrics().get(metric, {}).values())


RULES: Final = Path(__file__).parents[2] / "deploy" / "prometheus-rules.yml"
FASTER: Final = 180
"""An hour of the rules is 20 s here."""
SERVICES: Final = """
interval = 1
rate = "100/s"
[[select]]
name = "shop"
command = "{word}-shop"
min_rss = 0
min_age = 0
[[select]]
name = "site"
command = "{word}-site"
min_rss = 0
min_age = 0
[[select]]
name = "batch"
command = "{word}-batch"
min_rss = 0
min_age = 0
"""
PATIENCE: Final = 180.0
"""Seconds that people may wait for an alert and for a report of such a leak."""
HUNT: Final = "12"
"""Seconds."""


@pytest.mark.timeout(900)
@pytest.mark.pythons("3.12")
def test_a_leak_in_one_service_of_a_host_is_named_alerted_and_reported(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """The leaking one has four workers; the guard has the largest of them, and the host agent all others. Beside it are
    a healthy Django, and a batch job."""
    word = f"served-{uuid.uuid4().hex}"
    interpreter.place(TARGETS / "leaks" / "backdrop.py")
    with ExitStack() as stack:
        shop = stack.enter_context(web.serving(interpreter, 4, "flask_leak", f"{word}-shop"))
        site = stack.enter_context(web.serving(interpreter, 2, "django_site", f"{word}-site", needs_zoo=True))
        batch = stack.enter_context(running(interpreter, "leaks/events_sawtooth", f"{word}-batch"))
        loads = [stack.enter_context(web.under_load(each, 0.02)) for each in (shop, site)]
        assert eventually(lambda: all(load.answered > 100 or load.failures for load in loads))
        worst = max(shop.workers, key=lambda pid: rss_bytes(pid) or 0)
        guarded = stack.enter_context(guarding(worst, tmp_path / "reports"))
        assert eventually(lambda: "guarding process" in guarded.stderr()), guarded.stderr()

        serve = stack.enter_context(serving(tmp_path / "fleet.toml", SERVICES.format(word=word)))
        alertmanager = stack.enter_context(engines.alertmanager(tmp_path))
        prometheus = stack.enter_context(engines.prometheus(serve.address, tmp_path, faster(tmp_path), alertmanager))
        victoria = stack.enter_context(engines.victoria_metrics(serve.address, tmp_path))
        others = {shop.master.pid, *shop.workers, site.master.pid, *site.workers, batch.pid} - {worst}
        assert eventually(lambda: serve.counted() == others), serve.process.stderr()
        assert [(one["pid"], one["class"]) for one in serve.processes()["refused"]] == [(worst, "AlreadyAttached")]

        def alerted() -> list[dict[str, str]]:
            return [one for one in engines.alerts(alertmanager) if one["alertname"] == "PythonTypeGrows"]

        assert eventually(lambda: any(one["type"] == "bytearray" for one in alerted()), PATIENCE), serve.metrics()
        assert {one["service"] for one in alerted()} == {"shop"}
        for engine in (prometheus, victoria):
            (found,) = queried(engine, "topk(1, deriv(heaptop_live_bytes[20s]))")
            assert (found[0]["service"], found[0]["type"]) == ("shop", "bytearray")
            (found,) = queried(engine, "topk(1, deriv(heaptop_site_live_bytes[20s]))")
            assert found[0]["service"] == "shop"
            assert re.search(r"flask_leak\.py:\d+ create_session$", found[0]["site"])
        wrong = 'ALERTS{alertname="PythonTypeGrows", alertstate="firing", service!="shop"}'
        assert queried(prometheus, f"count_over_time({wrong}[10m])") == []

        assert eventually(lambda: not guarded.alive, PATIENCE), guarded.stderr()
        (report,) = [json.loads(path.read_text()) for path in (tmp_path / "reports").glob("*.json")]
        suspect = report["leaks"]["suspects"][0]
        assert (report["pid"], suspect["verdict"], suspect["type"]) == (worst, "leak", "flask_leak.Session")
        assert suspect["site"].endswith("create_session")
        assert guarded.process.returncode == 0
        wrong = 'heaptop_leak_suspect_bytes_per_second{service="site", verdict!="unclear"}'
        assert queried(prometheus, f"count_over_time({wrong}[10m])") == []
        assert serve.end(signal.SIGTERM) == 0
        leaks = ["leaks", str(site.workers[0]), "--for", HUNT, "--json"]
        found = json.loads(subprocess.run([*HEAPTOP, *leaks], capture_output=True, check=True, env=ENVIRONMENT).stdout)
        assert found["verdict"] in ("no leak", "unclear"), found["suspects"]
        assert [load.failures for load in loads] == [[], []]


def guarding(pid: int, folder: Path) -> AbstractContextManager[Target]:
    """A guard of that process, until it has written one report with a leak hunt."""
    what = ["--when", "growth > 1MB/min", "--do", "hunt", "--for", HUNT, "--at-most", "1", "--dir", str(folder)]
    return starting([*HEAPTOP, "guard", str(pid), *what], environment=ENVIRONMENT)


def faster(folder: Path) -> Path:
    """The rules that are shipped, with shorter times."""

    def shorten(time: re.Match[str]) -> str:
        return f"{int(time[1]) * {'m': 60_000, 'h': 3_600_000}[time[2]] // FASTER}ms"

    file = folder / "rules.yml"
    file.write_text(re.sub(r"\b(\d+)([mh])\b", shorten, RULES.read_text()))
    return file
