"""A guard's alert in the real Alertmanager: Debian's ``prometheus-alertmanager``, on loopback ports of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from heaptop.fleet.alerts import LINES, LONGEST_LINE
from tests.support.leaking import ENVIRONMENT, HEAPTOP, leaking_sessions
from tests.support.processes import eventually, starting

REQUIRE_VARIABLE = "HEAPTOP_REQUIRE_ENGINES"
"""Where it is set, as in CI, a missing Alertmanager is a failure."""
MISSING = "there is no prometheus-alertmanager: install Debian's package of that name"


@contextmanager
def alertmanager(folder: Path) -> Iterator[str]:
    """A running one; its URL."""
    if shutil.which("prometheus-alertmanager") is None:
        if os.environ.get(REQUIRE_VARIABLE):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}
    (folder / "alertmanager.yml").write_text(json.dumps(config))  # JSON is YAML
    command = [
        "prometheus-alertmanager",
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
        "--log.level=error",
    ]
    with starting(command) as process:
        assert eventually(lambda: bool(alerts(f"http://{address}") is not None) or not process.alive)
        assert process.alive, process.stderr()
        yield f"http://{address}"


def alerts(url: str) -> list[dict[str, Any]] | None:
    """All that are active; None where it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=60) as response:
            found: list[dict[str, Any]] = json.load(response)
            return found
    except OSError:
        return None


def test_a_guard_raises_an_alert_with_the_first_lines_of_its_report(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    with alertmanager(tmp_path) as url, leaking_sessions() as target:
        options = ["--when", "rss > 1MB", "--at-most", "1", "--for", "4", "--dir", str(reports)]
        command = [*HEAPTOP, "guard", str(target.pid), *options, "--do", "hunt,alertmanager", "--alertmanager", url]
        with starting(command, environment=ENVIRONMENT) as guard:
            assert guard.process.wait(120) == 0, guard.stderr()
            assert guard.stderr().count("Alertmanager 127.0.0.1: 200") == 2, "before the hunt, and with it"
        (one,) = alerts(url) or []
        assert target.alive
    assert one["labels"]["alertname"] == "HeaptopGuard"
    assert (one["labels"]["pid"], one["labels"]["trigger"]) == (str(target.pid), "rss > 1MB")
    assert one["status"]["state"] == "active"
    assert Path(one["annotations"]["report"]).is_file()
    assert "Session" in one["annotations"]["description"], "the last one replaced the first"
    assert len(one["annotations"]["description"]) <= LINES * (LONGEST_LINE + 1)
