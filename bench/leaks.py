"""What tracemalloc, memray, objgraph and guppy3 say of some programs of the zoo with real packages, beside heaptop.

``python bench/leaks.py [--setup] [PROGRAM …]``. Of each program one process a tool runs on 3.12, all in the same
minute: heaptop and ``memray attach`` come from outside, the others are imported by the program itself
(``leak_peers.py``), as their documentation shows, and tracemalloc is started with it. Each looks for 24 s. Printed is
what each puts first; a person compares. ``--setup`` installs the peers into a folder of the test cache.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import interpreters
from tests.support import zoo
from tests.support.processes import starting

PROGRAMS: Final = ("prometheus_labels", "bs4_titles", "marshmallow_types", "lxml_headlines", "tornado_pings")
IMPORTED: Final = ("tracemalloc", "objgraph", "guppy3")
WARM_UP: Final = 12.0
SECONDS: Final = 24.0
PEERS: Final = interpreters.cache_dir() / "bench-leaks"
BESIDE: Final = Path(__file__).with_name("leak_peers.py")

# Run by the peers' Python, which has memray: the largest stacks that were not freed.
REPORT: Final = """
import sys, memray
records = memray.FileReader(sys.argv[1]).get_leaked_allocation_records(merge_threads=True)
for record in sorted(records, key=lambda each: -each.size)[:3]:
    stack = " < ".join(f"{file.rpartition('/')[2]}:{line} {name}" for name, file, line in record.stack_trace()[:4])
    print(f"{record.size} B in {record.n_allocations}: {stack}")
"""


def said(tool: str, program: str) -> str:
    """The lines that one tool puts first, of one process of the program."""
    python = interpreters.get("3.12")
    variables = zoo.environment(python, program, zoo.REAL)
    variables["PYTHONPATH"] += f":{PEERS}"
    file = str(zoo.TARGETS / zoo.REAL.folder / f"{program}.py")
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer")
        beside = [str(BESIDE), tool, str(WARM_UP), str(SECONDS), str(answer)] if tool in IMPORTED else []
        with starting([python.path, *beside, file], environment=variables) as target:
            deadline = time.monotonic() + 300
            while tool in IMPORTED and target.alive and time.monotonic() < deadline:
                time.sleep(0.5)  # it exits when it has answered
            if tool in IMPORTED:
                return answer.read_text() if answer.exists() else target.stderr()[-500:]
            while "ready" not in target.stdout() and target.alive and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(WARM_UP)
            return heaptop(target.pid) if tool == "heaptop" else memray(python.path, target.pid, answer, variables)


def heaptop(pid: int) -> str:
    command = [sys.executable, "-m", "heaptop", "leaks", str(pid), "--for", str(SECONDS)]
    lines = _run(command).splitlines()
    return "\n".join(lines[: next((i for i, line in enumerate(lines) if line.startswith("  2.")), 12)])


def memray(python: str, pid: int, file: Path, variables: dict[str, str]) -> str:
    attach = ["attach", "--aggregate", "-f", "-o", str(file), "--duration", str(int(SECONDS)), str(pid)]
    done = _run([python, "-m", "memray", *attach], variables)
    deadline = time.monotonic() + 4 * SECONDS
    while time.monotonic() < deadline:  # written when the duration is over
        time.sleep(2)
        found = _run([python, "-c", REPORT, str(file)], variables) if file.exists() else ""
        if "B in" in found:
            return found
    return done or "no answer"


def _run(command: list[str], variables: dict[str, str] | None = None) -> str:
    environment = None if variables is None else {"PATH": "/usr/bin:/bin", **variables}
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
        return done.stdout or done.stderr[-500:]
    return "no answer"


def main() -> None:
    words = sys.argv[1:]
    if "--setup" in words:
        words.remove("--setup")
        pip = [interpreters.get("3.12").path, "-m", "pip", "install", "-q", "--only-binary", ":all:"]
        subprocess.run([*pip, "--target", PEERS, "memray", "objgraph", "guppy3"], check=True)
    tools = ("heaptop", "memray attach", *IMPORTED)
    for program in words or PROGRAMS:
        print(f"\n== {program}: {zoo.REAL.leaks[program]}")
        with ThreadPoolExecutor(len(tools)) as pool:
            for tool, lines in zip(tools, pool.map(said, tools, [program] * len(tools)), strict=True):
                print(f"-- {tool}\n{lines.rstrip()}", flush=True)


if __name__ == "__main__":
    main()
