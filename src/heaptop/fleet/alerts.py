"""A guard's report as an alert of Alertmanager (its API, version 2), bounded in labels and length."""

from __future__ import annotations

import json
import socket
from typing import Final

from heaptop.analysis.text.recorded_times import utc
from heaptop.fleet.figures import label
from heaptop.fleet.reports import GuardReport
from heaptop.fleet.triggers import readings_words
from heaptop.protocol.text import printable

ALERT_NAME: Final = "HeaptopGuard"
ALERTS_PATH: Final = "/api/v2/alerts"
LEAST_SECONDS: Final = 300.0  # For which an alert is active: as long as Alertmanager's own default
MOST_SECONDS: Final = 365 * 86_400.0
LINES: Final = 20
LONGEST_LINE: Final = 240  # Characters


def alert(report: GuardReport, path: str, cooldown: float) -> bytes:
    """The body of a request to :data:`ALERTS_PATH`. ``path`` is the report's file. The alert is active until the guard
    may fire again. The same firing gives the same labels, so that a later one replaces it."""
    target = report.attached.target
    labels = {
        "alertname": ALERT_NAME,
        "severity": "warning",
        "instance": socket.gethostname(),
        "pid": f"{target.pid}",
        "trigger": f"{report.trigger}",
        **({"service": report.service} if report.service else {}),
    }
    annotations = {
        "summary": printable(f"{report.trigger}: {readings_words(report.readings)}", LONGEST_LINE),
        "report": path,
        "description": "\n".join(printable(line, LONGEST_LINE) for line in report.lines()[:LINES]),
    }
    one = {
        "labels": {name: label(value) for name, value in labels.items()},
        "annotations": annotations,
        "startsAt": utc(report.wall),
        "endsAt": utc(report.wall + min(max(cooldown, LEAST_SECONDS), MOST_SECONDS)),
    }
    return json.dumps([one]).encode()
