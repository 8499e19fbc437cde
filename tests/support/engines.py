"""What people store and read metrics and profiles with, each on loopback for the length of a block: Prometheus,
VictoriaMetrics, Alertmanager, ``go tool pprof``.

Debian's packages are taken. Where one is missing, tests are skipped; where HEAPTOP_REQUIRE_ENGINES is set, as in CI,
they fail.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.processes import PATIENCE, eventually, starting

REQUIRE_VARIABLE: Final = "HEAPTOP_REQUIRE_ENGINES"
PACKAGES: Final = {
    "go": "golang-go",
    "prometheus": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "promtool": "prometheus",
    "victoria-metrics": "victoria-metrics",
}
"""Debian's, by program."""

Series = list[tuple[dict[str, str], float]]
"""Labels and value of each."""


def need_engine(program: str) -> None:
    """Skip the test where that program is missing; fail where all must be here."""
    if shutil.which(program) is None:
        missing = f"there is no {program}: install Debian's package {PACKAGES[program]}"
        if os.environ.get(REQUIRE_VARIABLE):
            pytest.fail(missing)
        pytest.skip(missing)


# -- metrics -----------------------------------------------------------------------------------------------


@contextmanager
def prometheus(address: str, folder: Path, rules: Path | None = None, alertmanager: str = "") -> Iterator[str]:
    """A Prometheus that scrapes this address each second; its own URL. ``rules`` are evaluated each second, and alerts
    sent to the Alertmanager at that URL."""
    config: dict[str, Any] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)] if rules is not None else [],
        "scrape_configs": _scraped(address),
    }
    if alertmanager:
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [_host(alertmanager)]}]}]}
    file, own = folder / "prometheus.yml", _free_address()
    file.write_text(json.dumps(config))  # JSON is YAML
    options = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'prometheus'}", f"--web.listen-address={own}"]
    with _running("prometheus", [*options, "--log.level=error"], f"http://{own}/-/ready"):
        yield f"http://{own}"


@contextmanager
def victoria_metrics(address: str, folder: Path) -> Iterator[str]:
    """A VictoriaMetrics that scrapes this address each second; its own URL."""
    file, own = folder / "victoria.yml", _free_address()
    file.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": _scraped(address)}))
    options = [
        f"-promscrape.config={file}",
        f"-storageDataPath={folder / 'victoria'}",
        f"-httpListenAddr={own}",
        "-search.latencyOffset=1s",  # else the last 30 s are left out
        "-loggerLevel=ERROR",
    ]
    with _running("victoria-metrics", options, f"http://{own}/health"):
        yield f"http://{own}"


@contextmanager
def alertmanager(folder: Path) -> Iterator[str]:
    """An Alertmanager that notifies nobody; its own URL."""
    file, own = folder / "alertmanager.yml", _free_address()
    file.write_text(json.dumps({"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}))
    options = [
        f"--config.file={file}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={own}",
        "--cluster.listen-address=",
        "--log.level=error",
    ]
    with _running("prometheus-alertmanager", options, f"http://{own}/-/ready"):
        yield f"http://{own}"


def queried(engine: str, query: str) -> Series:
    """What PromQL finds, of Prometheus or of VictoriaMetrics."""
    answer = _json(f"{engine}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]


def units(prometheus: str) -> dict[str, str]:
    """The unit that each metric was scraped with, by its family's name; empty where it has none."""
    data: dict[str, list[dict[str, str]]] = _json(f"{prometheus}/api/v1/metadata")["data"]
    return {name: found[0]["unit"] for name, found in data.items()}


def alerts(alertmanager: str) -> list[dict[str, str]]:
    """Labels of all that an Alertmanager was sent."""
    return [one["labels"] for one in _json(f"{alertmanager}/api/v2/alerts")]


@contextmanager
def _running(program: str, options: Sequence[str], ready: str) -> Iterator[None]:
    need_engine(program)
    with starting([program, *options]) as process:
        assert eventually(lambda: _answers(ready) or not process.alive)
        assert process.alive, process.stderr()
        yield


def _scraped(address: str) -> list[dict[str, Any]]:
    return [{"job_name": "heaptop", "static_configs": [{"targets": [_host(address)]}]}]


def _host(url: str) -> str:
    return url.removeprefix("http://").rstrip("/")


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        return json.load(response)


# -- profiles ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PprofTop:
    """What ``go tool pprof -top`` makes of a profile."""

    total: int
    flat: dict[str, int]
    """By function."""


def pprof_top(url: str, sample_type: str, folder: Path) -> PprofTop:
    """Read a profile from that URL; ``folder`` is for the copy that pprof keeps."""
    need_engine("go")
    options = ["-top", f"-sample_index={sample_type}", "-nodecount=10000", "-nodefraction=0"]
    if sample_type.endswith("space"):
        options.append("-unit=b")
    ran = subprocess.run(
        ["go", "tool", "pprof", *options, url],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "HOME": str(folder), "PPROF_TMPDIR": str(folder)},
    )
    assert ran.returncode == 0, ran.stderr
    assert f"Type: {sample_type}" in ran.stdout
    total = re.search(r"% of (\d+)B? total", ran.stdout)
    assert total is not None, ran.stdout
    rows = re.findall(r"^ *(\d+)B? +[\d.]+% +[\d.]+% +\d+B? +[\d.]+% +(.*)$", ran.stdout, re.MULTILINE)
    return PprofTop(int(total[1]), {name: int(size) for size, name in rows})
