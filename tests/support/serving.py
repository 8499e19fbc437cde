"""A ``heaptop serve`` of its own for a test, and what it serves."""

from __future__ import annotations

import json
import re
import signal
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from tests.support import json_schemas
from tests.support.processes import Target, eventually, starting

SOURCES = str(Path(__file__).parents[2] / "src")
PROCESSES: Final = json_schemas.schemas()["heaptop.processes/1"]
RULE = """
interval = 1
rate = "500/s"
[[select]]
name = "served"
command = "{word}"
min_rss = 0
min_age = 0
"""
"""A file of rules: what has that word in its command line."""


class Serve:
    """A running ``heaptop serve``."""

    def __init__(self, process: Target, file: Path) -> None:
        assert eventually(lambda: "\n" in process.stdout() or not process.alive)
        assert process.alive, process.stderr()
        self.process = process
        self.file = file
        self.address = process.stdout().strip()

    def get(self, path: str, *, post: bool = False, accept: str = "*/*") -> bytes:
        method, headers = "POST" if post else "GET", {"Accept": accept}
        request = urllib.request.Request(f"{self.address}{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            content: bytes = response.read()
            return content

    def processes(self) -> dict[str, list[dict[str, Any]]]:
        """What it keeps to its schema, and has no key that the schema does not know."""
        found: dict[str, list[dict[str, Any]]] = json.loads(self.get("processes"))
        Draft202012Validator(json_schemas.strict(PROCESSES)).validate(found)
        return found

    def attached(self) -> set[int]:
        return {one["pid"] for one in self.processes()["attached"]}

    def counted(self) -> set[int]:
        """Those of which there is a census."""
        return {one["pid"] for one in self.processes()["attached"] if one["census_age_seconds"] is not None}

    def metrics(self) -> dict[str, dict[str, float]]:
        """By the name of a sample and its type, site, class, use or service."""
        found: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(self.get("metrics").decode()):
            for sample in family.samples:
                labels = sample.labels
                key = next(filter(None, map(labels.get, ("type", "site", "class", "use", "service"))), "")
                found.setdefault(sample.name, {})[key] = sample.value
        return found

    def events(self, event: str) -> list[str]:
        return [line for line in self.process.stderr().splitlines() if f" event={event} " in line]

    def end(self, number: signal.Signals) -> int:
        self.process.signal(number)
        return self.process.process.wait(60)


@contextmanager
def serving(
    file: Path, text: str, *options: str, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Serve]:
    file.write_text(text)
    command = [sys.executable, "-m", "heaptop", "serve", "--config", str(file), "--listen", "127.0.0.1:0"]
    with starting([*command, *options], environment={"PYTHONPATH": SOURCES, **environment}) as process:
        yield Serve(process, file)


def shipped_environment() -> dict[str, str]:
    """What the systemd unit adds to that of ``heaptop serve``."""
    unit = (Path(__file__).parents[2] / "deploy" / "heaptop-serve.service").read_text()
    return dict(re.findall(r"^Environment=(\w+)=(\S+)$", unit, re.MULTILINE))
