"""What is loaded until `heaptop attach` shows its first frame: as little as it takes, whatever it takes in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import heaptop.cli.terminal
from heaptop.__main__ import main
from heaptop.cli import opening
from heaptop.cli.commands import demo
from heaptop.errors import PtraceDenied
from heaptop.injector.inspect import preflight
from heaptop.tui import app

heaptop.cli.terminal.has_terminal = lambda: True
facts = SimpleNamespace(command="python shop.py", user="alice")
preflight.check = lambda pid: SimpleNamespace(facts=facts, interpreter=SimpleNamespace(version="3.12.1"))

modules = []
app.load_screens = lambda: modules.extend(sorted(sys.modules))

def connected(*_):
    from textual._context import active_app

    drawn = "\\n".join(strip.text for strip in active_app.get().screen._compositor.render_strips())
    import json

    print(json.dumps({"modules": modules, "drawn": drawn}))
    raise PtraceDenied("No.")

opening._connected = demo._connected = sys.modules["heaptop.cli.commands.run"]._launched = connected
demo.sample_program = lambda: nullcontext(4711)
demo._launch_and_show = lambda args: None
main(sys.argv[1:])
"""


def frame(tmp_path_factory: pytest.TempPathFactory, *argv: str) -> dict[str, Any]:
    """The modules that are loaded, and the screen, when the first frame was drawn."""
    driver = {"TEXTUAL_DRIVER": "textual.drivers.headless_driver:HeadlessDriver", "COLUMNS": "80", "LINES": "24"}
    environ = {**os.environ, **driver, "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("config"))}
    environ.pop("HEAPTOP_CONFIG", None)  # a file of settings has its own price
    program = [sys.executable, "-c", SCRIPT, *argv]
    ran = subprocess.run(program, env=environ, capture_output=True, text=True, check=False)
    assert ran.stdout, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def first_frame(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return frame(tmp_path_factory, "attach", "4711")


def test_the_first_frame_says_what_is_attached_to(first_frame: dict[str, Any]) -> None:
    for text in ("pid 4711", "python shop.py", "Python 3.12.1", "○ attaching", "Attaching to process 4711", "q quit"):
        assert text in first_frame["drawn"]


ALLOWED = {
    "analysis": ["text"],
    "analysis.text": ["time_words", "units"],
    "injector": ["inspect", "machine"],
    "injector.inspect": [
        *["containers", "elf", "interpreter", "layout", "memory", "preflight", "privileges"],
        *["proc", "process", "target_files", "unshown"],
    ],
    "injector.machine": ["aarch64", "base", "x86_64"],
    "protocol": ["text"],
    "tui": ["app", "charts", "keys", "screens", "state", "terminal", "text"],
    "tui.charts": ["chart_style", "palette", "raster"],
    "tui.keys": ["bindings", "remapping"],
    "tui.screens": ["opening"],
    "tui.state": ["messages", "opening"],
    "tui.terminal": ["contract", "on_time", "plain", "shown_cells", "terminal"],
    "tui.widgets": ["footer", "panel", "too_small", "top_lines"],
}
"""What it takes of each package; all the rest is loaded behind the first frame. Think before you add a module: a dozen
dataclasses, or one library, take as long as all that is drawn."""


@pytest.mark.parametrize("layer", ["analysis", "injector", "protocol", "recordings", "tui"])
def test_what_is_loaded_of_heaptop_until_then(layer: str, first_frame: dict[str, Any]) -> None:
    prefix = f"heaptop.{layer}."
    allowed = {f"heaptop.{package}.{name}" for package, names in ALLOWED.items() for name in names}
    loaded = {name for name in first_frame["modules"] if name.startswith(prefix)}
    assert sorted(loaded - allowed - {f"heaptop.{package}" for package in ALLOWED}) == []
    assert sorted(name for name in allowed - loaded if name.startswith(prefix)) == [], "no longer needed"


@pytest.mark.parametrize(
    "library",
    ["msgpack", "psutil", "pygments", "rich.markdown", "tomllib", "tree_sitter", "zstandard"],
)
def test_what_is_loaded_of_others_until_then(library: str, first_frame: dict[str, Any]) -> None:
    assert [name for name in first_frame["modules"] if name == library or name.startswith(f"{library}.")] == []


@pytest.mark.parametrize(
    ("argv", "drawn"),
    [
        (["demo"], ["pid 4711", "Attaching to process 4711"]),
        (["run", "--output", "out.log", "--", "prog.py"], ["Starting the program", "prog.py", "output in out.log"]),
    ],
    ids=lambda part: part[0],
)
def test_no_more_is_loaded_for_a_program_that_heaptop_starts(
    argv: list[str], drawn: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = frame(tmp_path_factory, *argv)
    assert [text for text in drawn if text not in found["drawn"]] == []
    assert "process 0" not in found["drawn"]
    assert "pid 0" not in found["drawn"]
    allowed = {f"heaptop.{package}.{name}" for package, names in ALLOWED.items() for name in names}
    layers = tuple(f"heaptop.{layer}." for layer in ("analysis", "injector", "protocol", "recordings", "tui"))
    loaded = {name for name in found["modules"] if name.startswith(layers)}
    assert sorted(loaded - allowed - {f"heaptop.{package}" for package in ALLOWED}) == []
