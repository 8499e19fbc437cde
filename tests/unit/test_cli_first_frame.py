"""What is loaded until `heaptop attach` shows its first frame: as little as it takes, whatever it takes in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

ATTACH = """
import json, sys
from types import SimpleNamespace

import heaptop.cli.terminal
from heaptop.__main__ import main
from heaptop.cli import opening
from heaptop.errors import PtraceDenied
from heaptop.injector import preflight

heaptop.cli.terminal.has_terminal = lambda: True
facts = SimpleNamespace(command="python shop.py", user="alice")
preflight.look = lambda pid: SimpleNamespace(facts=facts, interpreter=SimpleNamespace(version="3.12.1"))

def connected(pid, args):
    from textual._context import active_app

    drawn = "\\n".join(strip.text for strip in active_app.get().screen._compositor.render_strips())
    print(json.dumps({"modules": sorted(sys.modules), "drawn": drawn}))
    raise PtraceDenied("No.")

opening._connected = connected
main(["attach", "4711"])
"""


@pytest.fixture(scope="module")
def first_frame() -> dict[str, str]:
    """The modules that are loaded, and the screen, when the first frame was drawn."""
    driver = {"TEXTUAL_DRIVER": "textual.drivers.headless_driver:HeadlessDriver", "COLUMNS": "80", "LINES": "24"}
    environ = {**os.environ, **driver}
    ran = subprocess.run([sys.executable, "-c", ATTACH], env=environ, capture_output=True, text=True, check=False)
    assert ran.stdout, ran.stderr
    found: dict[str, str] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_the_first_frame_says_what_is_attached_to(first_frame: dict[str, str]) -> None:
    for text in ("pid 4711", "python shop.py", "Python 3.12.1", "○ attaching", "Attaching to process 4711", "q quit"):
        assert text in first_frame["drawn"]


@pytest.mark.parametrize(
    "prefix",
    [
        "heaptop.protocol",
        "heaptop.recordings",
    ],
)
def test_what_is_not_loaded_before_it(prefix: str, first_frame: dict[str, str]) -> None:
    found = [name for name in first_frame["modules"] if name == prefix or name.startswith(f"{prefix}.")]
    assert found == []
