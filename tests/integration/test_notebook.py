"""The IPython extension in a shell of IPython's own: what a cell left behind, and nothing of heaptop afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heaptop

pytest.importorskip("IPython")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SHELL = """
import contextlib, io, json, os, sys, time
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
said = []
for cell in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        shell.run_cell(cell, store_history=True)
    said.append(out.getvalue())
end, agents = time.monotonic() + 30, True
while time.monotonic() < end and agents:
    agents = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # a thread of IPython's that has just ended
            agents += [task] if open(f"/proc/self/task/{task}/comm").read().startswith("heaptop") else []
            agents += open(f"/proc/self/task/{task}/children").read().split()
    time.sleep(0.1)
print(json.dumps({"said": said, "left": agents, "loaded": [name for name in sys.modules if "heaptop" in name]}))
"""

Talk = Callable[..., dict[str, Any]]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Runs cells in a new shell; what each printed, and what was left of heaptop at the end."""

    def cells(*texts: str) -> dict[str, Any]:
        sources = str(Path(heaptop.__file__).parents[1])
        environment = {"PATH": "/usr/bin", "PYTHONPATH": sources, "IPYTHONDIR": str(tmp_path), "NO_COLOR": "1"}
        command = [sys.executable, "-c", SHELL, json.dumps(texts)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return cells


def test_a_cell_is_shown_what_it_left_by_variable_and_line(talk: Talk) -> None:
    found = talk(
        "%load_ext heaptop",
        "first = [bytes(1000) for number in range(1000)]\nsecond = bytearray(2_000_000)\n%heap\nthird = 3",
        "%%heap\nfourth = {number: str(number) for number in range(5000)}\nfreed = None",
        "%heap fifth = {'key': bytearray(500_000)}",
        "%%heap\nsixth = 1 / 0",
        "third, len(fifth)",
    )
    _, of_cell, of_magic, of_line, of_error, values = found["said"]
    expected = {
        ".second": ("bytearray", of_cell, "In [2], line 2"),
        ".first": ("list", of_cell, "In [2], line 1"),
        ".fourth": ("dict", of_magic, "this cell, line 2"),
        ".fifth": ("dict", of_line, "this cell, line 1"),
    }
    sampled = 0
    for name, (type_name, table, line) in expected.items():
        (row,) = (each for each in table.splitlines() if f"→ {name} " in each)
        assert row.split()[0] == type_name
        assert row.endswith((line, "unknown")), "no line is a wrong one; not every one is known from samples"
        sampled += row.endswith(line)
    assert sampled
    assert "ZeroDivisionError" in of_error
    assert "The heap changed by" in of_error
    assert "(3, 1)" in values
    assert found["left"] == []


def test_cells_without_the_magic_pay_nothing_and_what_is_unloaded_is_gone(talk: Talk) -> None:
    found = talk(
        "%load_ext heaptop",
        "import sys\nkept = [0] * 10_000\nprint([name for name in sys.modules if name == 'heaptop.api'])",
        "get_ipython().run_line_magic('heap', '')",
        "%unload_ext heaptop",
        "%lsmagic",
        "%load_ext heaptop",
    )
    assert found["said"][1].strip() == "[]"
    assert "no mark to compare with" in found["said"][2]
    assert "%heap" not in found["said"][4]
    assert found["left"] == []
    assert not any(name.startswith(("heaptop.injector", "heaptop.watching")) for name in found["loaded"])


def test_where_it_cannot_attach_the_cell_says_so_and_runs(talk: Talk) -> None:
    found = talk(
        "%load_ext heaptop",
        "import heaptop.inside.client as client\nclient._LAUNCHER = 'raise SystemExit({pid})#{path}'",
        "kept = 5\n%heap",
        "%%heap\nalso = 6",
        "kept, also",
    )
    assert "helper process was lost" in found["said"][2]
    assert "helper process was lost" in found["said"][3]
    assert "(5, 6)" in found["said"][4]


def test_a_cell_that_fails_above_the_magic_leaves_nothing_for_the_next(talk: Talk) -> None:
    children = "print(open(f'/proc/self/task/{os.getpid()}/children').read().split())"
    found = talk("%load_ext heaptop", f"import os\n{children}\n1 / 0\n%heap", children)
    assert found["said"][1].splitlines()[0] != "[]"
    assert "ZeroDivisionError" in found["said"][1]
    assert found["said"][2].strip() == "[]"
