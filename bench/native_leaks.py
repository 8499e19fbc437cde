"""Three leaks of native memory under ``heaptop run --native``, beside ``memray run --native`` and nothing at all.

``python bench/native_leaks.py [--setup] [--rounds N] [LEAK …]``. Of each leak, and of three works without one, each way
runs in turn, ``--rounds`` times; the program measures its own CPU time (leaking_natively.py). Printed are the median,
the least and the largest of the times beside that without a profiler of the same round, and what each names first. The
package is selectolax 0.3.13, whose css() leaks
(rushter/selectolax#90). A promise is broken where heaptop does not name the line. ``--setup`` installs memray and
selectolax for Python 3.10.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.promises import CACHE, HERE
from tests import interpreters
from tests.support import building

PROGRAM: Final = HERE / "leaking_natively.py"
LEAKS: Final = ("extension", "foreign", "package")
COSTS: Final = ("compressing", "blocks", "documents")
WAYS: Final = ("nothing", "heaptop", "memray", "memray --native")
UNITS: Final = 1000
PACKAGES: Final = CACHE / "native-leaks"

# Run by the peer's Python: the largest stack that was not freed, native frames with those of Python.
REPORT: Final = """
import sys, memray
records = memray.FileReader(sys.argv[1]).get_leaked_allocation_records(merge_threads=True)
largest = max(records, key=lambda each: each.size)
stack = largest.hybrid_stack_trace() if sys.argv[2] else largest.stack_trace()
shown = [f"{name} {file.rpartition('/')[2]}:{line}" for name, file, line in stack[:4]]
print(f"{largest.size / 1e6:.1f} MB", " < ".join(shown))
"""


def lines() -> list[int]:
    """Where the program leaks: the lines that say so."""
    return [number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("# the leak")]


def run(way: str, python: str, leak: str, folder: Path) -> tuple[float, str]:
    """Seconds of CPU, and what the way names first."""
    answer, file = folder / "seconds", folder / "memray"
    file.unlink(missing_ok=True)
    program = [str(PROGRAM), leak, str(UNITS), str(building.extension("native_leak.c")), str(answer)]
    variables = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    native = way.endswith("--native")
    if way == "heaptop":
        own = {**variables, "PYTHONPATH": f"{HERE.parent / 'src'}:{PACKAGES}"}
        command = [sys.executable, "-m", "heaptop", "run", "--native", "--json", "--output", str(folder / "output")]
        said = _run([*command, "--force", "--python", python, "--", *program], own)
        found = heaptop_names(json.loads(said))
    elif way == "nothing":
        found = _run([python, *program], variables)
    else:
        _run([python, "-m", "memray", "run", *["--native"] * native, "-q", "-o", str(file), *program], variables)
        found = _run([python, "-c", REPORT, str(file), "native" if native else ""], variables).strip()
    return float(answer.read_text()), found


def heaptop_names(found: Any) -> str:
    """The largest site."""
    if not found["sites"]:
        return "nothing"
    site = found["sites"][0]
    stack = site["stack"]
    frame: dict[str, Any] = stack[0] if stack else {"file": "", "line": 0}
    where = f"{Path(frame['file']).name}:{frame['line']}"
    error = max(site["high"] - site["bytes"], site["bytes"] - site["low"]) / 1e6
    return f"{site['bytes'] / 1e6:.1f} ±{error:.1f} MB {where}, {Path(str(site['library'])).name} {site['function']}"


def _run(command: list[str], variables: dict[str, str]) -> str:
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:6])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("leaks", nargs="*", metavar="LEAK", default=LEAKS + COSTS)
    options = parser.parse_args()
    python = interpreters.get("3.10").path
    if options.setup:
        install = [python, "-m", "pip", "install", "-q", "--only-binary=:all:", "--target", str(PACKAGES)]
        subprocess.run([*install, "memray", "selectolax==0.3.13"], check=True)
    is_named = True
    with tempfile.TemporaryDirectory() as folder:
        for leak in options.leaks:
            seconds: dict[str, list[float]] = {way: [] for way in WAYS}
            named = dict.fromkeys(WAYS, "")
            for _ in range(options.rounds):
                for way in WAYS:
                    took, named[way] = run(way, python, leak, Path(folder))
                    seconds[way].append(took)
            print(f"{leak:12} nothing {median(seconds['nothing']):16.2f} s", flush=True)
            for way in WAYS[1:]:
                ratios = sorted(took / bare for took, bare in zip(seconds[way], seconds["nothing"], strict=True))
                spread = f"{median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
                print(f"{leak:12} {way:16} {spread}  {named[way]}", flush=True)
            at_line = any(f"{PROGRAM.name}:{line}, " in named["heaptop"] for line in lines())
            is_named = is_named and (at_line or leak in COSTS)
    print("heaptop names the line of each:", "kept" if is_named else "BROKEN")
    return 0 if is_named else 1


if __name__ == "__main__":
    sys.exit(main())
