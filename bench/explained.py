"""Resident memory of a batch program (batch.py) by owner and by line, beside its libraries' own counters and peers.

``python bench/explained.py [--setup] [--scale N] [--json FILE]``. The program runs four times: alone, under ``heaptop
run --native``, under tracemalloc and under ``memray run --native``. heaptop attaches when it rests, and takes a census
and what resident memory is used for. Promised: what neither table has a row for is at most 3 % of RSS, and what the
census says of each library's objects is what that library says. ``--setup`` installs the packages for Python 3.11.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.promises import CACHE, HERE, Promise, together
from tests import interpreters

PROGRAM: Final = HERE / "batch.py"
PYTHON: Final = CACHE / "explained" / "bin" / "python"
PACKAGES: Final = ("numpy", "pandas", "pyarrow", "pillow", "torch==2.13.0", "memray")
MIB: Final = 1 << 20
PATIENCE: Final = 300
FREE: Final = ("pools", "free_pools", "overhead", "malloc_free")
MEASURED: Final = ("files", "stacks", "shared", "own")

OWNERS: Final = {
    "arrays of NumPy": ("numpy.ndarray",),
    "images of Pillow": ("ImagingCore",),
    "tensors of torch": ("torch.Tensor", "torch.nn.parameter.Parameter"),
    "tables, arrays of Arrow": ("pyarrow.*",),
}
"""Types by their names in a census."""
COUNTERS: Final = {
    "arrays of NumPy": ("numpy", "pandas", "tables"),
    "images of Pillow": ("pillow",),
    "tensors of torch": ("torch",),
    "tables, arrays of Arrow": ("arrow",),
}
"""What of batch.py's figures each is the sum of."""
BUFFERS: Final = ("default_malloc", "memory_get_block", "_ZN3c109alloc_cpuEm")
"""Functions whose blocks are objects' buffers: NumPy's, Pillow's, torch's."""

# Run by the peer's Python: bytes at the peak, and the lines that have most of them.
REPORT: Final = """
import collections, json, sys, memray
reader = memray.FileReader(sys.argv[1])
lines = collections.Counter()
for each in reader.get_high_watermark_allocation_records(merge_threads=True):
    stack = each.stack_trace(max_stacks=1)
    lines[f"{stack[0][1]}:{stack[0][2]}" if stack else "no Python stack"] += each.size
print(json.dumps({"peak": sum(lines.values()), "lines": lines.most_common(40)}))
"""


@dataclass(frozen=True)
class Row:
    name: str
    bytes: int
    source: str
    estimated: bool = False
    beside: tuple[int | None, ...] = ()
    """What others say of it: of an owner its library, of a line tracemalloc and memray."""


class Resting:
    """The program under heaptop, when it has done its work. A context manager, which ends it."""

    def __init__(self, python: Path, scale: float, folder: Path, seconds: float) -> None:
        self._answer = folder / "answer"
        command = [sys.executable, "-m", "heaptop", "run", "--native", "--json", "--for", f"{seconds:.0f}s", "--force"]
        command += ["--output", str(folder / "output"), "--python", str(python), "--", str(PROGRAM)]
        self.native = json.loads(_run([*command, str(scale), str(self._answer)]))
        self.pid = int(self.native["pid"])

    def __enter__(self) -> Resting:
        end = time.monotonic() + PATIENCE
        while not self._answer.exists() and time.monotonic() < end:
            time.sleep(0.1)
        self.counters = json.loads(self._answer.read_text())
        self.memory = self._ask("census", "--memory", "--json", str(self.pid))
        self.census = self._ask("census", "--json", "--top", "0", str(self.pid))
        return self

    def __exit__(self, *error: object) -> None:
        os.kill(self.pid, signal.SIGKILL)

    @staticmethod
    def _ask(*command: str) -> Any:
        return json.loads(_run([sys.executable, "-m", "heaptop", *command]))


def by_owner(census: Any, memory: Any, counters: Mapping[str, Any]) -> Iterator[Row]:
    """Rows that sum to RSS, the last of them what no other explains."""
    uses = {row["key"]: row["bytes"] for row in memory["rows"]}
    found = {owner: bytes_of(census, patterns) for owner, patterns in OWNERS.items()}
    for owner, bytes_ in found.items():
        yield Row(owner, bytes_, "census", beside=(sum(counters[name] for name in COUNTERS[owner]),))
    mapped = census["mapped_bytes"]
    yield Row("other Python objects", uses["live"] + mapped - sum(found.values()), "census")
    by_library = Counter[str]()
    arrow = 0
    for site in memory["native"]:
        library = site["library"].rpartition("/")[2]
        if library.startswith("libarrow.so") and "mmap" in site["function"]:
            arrow += site["bytes"]
        elif "libpython" not in library and site["function"] not in BUFFERS:
            by_library[library] += site["bytes"]
    yield Row("Arrow's pool, not given out", arrow - mapped, "sites − census", estimated=True)
    for library, bytes_ in by_library.most_common(4):
        yield Row(f"allocated in {library}", bytes_, "sites", estimated=True)
    yield Row("in other libraries", sum(bytes_ for _, bytes_ in by_library.most_common()[4:]), "sites", estimated=True)
    yield Row("free memory of allocators", sum(uses.get(key, 0) for key in FREE), "allocators")
    yield from measured(uses)
    explained = arrow - mapped + sum(by_library.values())
    yield Row("not explained", uses["other"] + uses["rest"] - mapped - explained, "the rest", estimated=True)


def by_line(memory: Any, rows: int, peers: Sequence[Mapping[str, int]] = ()) -> Iterator[Row]:
    """As :func:`by_owner`. Python's objects are at the lines that made their arenas. ``peers``: bytes by line."""
    uses = {row["key"]: row["bytes"] for row in memory["rows"]}
    lines = Counter[str]()
    libraries: dict[str, Counter[str]] = {}
    for site in memory["native"]:
        innermost = site["stack"][0] if site["stack"] else None
        line = line_name(innermost["file"], innermost["line"]) if innermost else f"({site['no_stack']})"
        lines[line] += site["bytes"]
        libraries.setdefault(line, Counter())[site["library"].rpartition("/")[2].partition(".")[0]] += site["bytes"]
    for line, bytes_ in lines.most_common(rows):
        ((library, _),) = libraries[line].most_common(1)
        yield Row(f"{line} {library}", bytes_, "sites", True, tuple(peer.get(line) for peer in peers))
    yield Row("other lines", sum(bytes_ for _, bytes_ in lines.most_common()[rows:]), "sites", estimated=True)
    yield Row("free in malloc", uses["malloc_free"], "malloc")
    yield from measured(uses)
    known = sum(lines.values()) + sum(uses[key] for key in (*MEASURED, "malloc_free"))
    yield Row("not explained", memory["rss"] - known, "the rest", estimated=True)


def measured(uses: Mapping[str, int]) -> Iterator[Row]:
    names = {"files": "programs, libraries", "stacks": "thread stacks", "shared": "shared memory", "own": "heaptop"}
    for key in MEASURED:
        yield Row(names[key], uses[key], "kernel")


def bytes_of(census: Any, patterns: Sequence[str]) -> int:
    rows = [row for row in census["rows"] if any(fnmatchcase(row["name"], pattern) for pattern in patterns)]
    return sum(row["bytes"] + row["hidden_bytes"] for row in rows)


def line_name(file: str, line: int | str) -> str:
    return f"{'/'.join(Path(file).parts[-2:])}:{line}"


def peers(python: Path, scale: float, folder: Path) -> dict[str, Any]:
    """What tracemalloc and memray say."""
    answer, file = folder / "peer", folder / "memray"
    arguments = [str(PROGRAM), str(scale), str(answer), "end"]
    _run([str(python), "-X", "tracemalloc=1", *arguments])
    traced = json.loads(answer.read_text())
    _run([str(python), "-m", "memray", "run", "--native", "-q", "-o", str(file), *arguments])
    recorded = json.loads(_run([str(python), "-c", REPORT, str(file)]))
    return {
        "tracemalloc": traced["tracemalloc"],
        "tracemalloc, RSS": traced["rss"],
        "memray": recorded["peak"],
        "memray, RSS": json.loads(answer.read_text())["rss"],
        "lines": [
            {line_name(file, line): size for file, line, size in traced["tracemalloc lines"]},
            {line_name(*place.rsplit(":", 1)): size for place, size in recorded["lines"] if ":" in place},
        ],
    }


def print_rows(title: str, rows: Sequence[Row], rss: int, *others: str) -> None:
    print(f"\n| {' | '.join((title, 'MiB', 'of RSS', 'from', *others))} |\n|{'---|' * (4 + len(others))}")
    for row in rows:
        beside = ["" if each is None else f"{each / MIB:.1f}" for each in row.beside] or [""] * len(others)
        sign = "≈" if row.estimated else ""
        cells = (row.name, f"{sign}{row.bytes / MIB:.1f}", f"{row.bytes / rss:.1%}", row.source, *beside)
        print(f"| {' | '.join(cells)} |")
    print(f"| RSS | {sum(row.bytes for row in rows) / MIB:.1f} | | kernel |{' |' * len(others)}")


def promises(owners: Sequence[Row], lines: Sequence[Row], rss: int) -> list[Promise]:
    found = [
        Promise("not explained by owner, % of RSS", 3, above=False, figure=abs(owners[-1].bytes) / rss * 100, digits=2),
        Promise("not explained by line, % of RSS", 3, above=False, figure=abs(lines[-1].bytes) / rss * 100, digits=2),
    ]
    for row in owners:
        for figure in row.beside:
            assert figure is not None
            off = abs(row.bytes - figure) / figure * 100
            found.append(Promise(f"{row.name}, % beside the library", 1, above=False, figure=off, digits=2))
    return found


def _run(command: Sequence[str]) -> str:
    variables = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:6])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def install() -> None:
    subprocess.run([interpreters.get("3.11").path, "-m", "venv", str(PYTHON.parent.parent)], check=True)
    subprocess.run([str(PYTHON), "-m", "pip", "install", "-q", *PACKAGES], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--python", type=Path, default=PYTHON, help="one that has the packages")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures")
    options = parser.parse_args()
    if options.setup:
        install()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.monotonic()
        _run([str(options.python), str(PROGRAM), str(options.scale), str(folder / "alone"), "end"])
        seconds = 2 * (time.monotonic() - began) + 5
        alone = json.loads((folder / "alone").read_text())
        with Resting(options.python, options.scale, folder, seconds) as resting:
            counters, census, memory = resting.counters, resting.census, resting.memory
        others = peers(options.python, options.scale, folder)
    rss = memory["rss"]
    owners, lines = list(by_owner(census, memory, counters)), list(by_line(memory, 14, others["lines"]))
    print(f"RSS alone {alone['rss'] / MIB:.1f} MiB, under heaptop {rss / MIB:.1f} MiB")
    print_rows("owner", owners, rss, "its library says")
    print_rows("line", lines, rss, "tracemalloc", "memray")
    print()
    for name in ("tracemalloc", "tracemalloc, RSS", "memray", "memray, RSS"):
        print(f"{name:18} {others[name] / MIB:8.1f} MiB")
    if options.json:
        everything = {"counters": counters, "census": census, "memory": memory, "peers": others}
        options.json.write_text(json.dumps(everything, indent=1))
    found = promises(owners, lines, rss)
    print("\n".join(map(str, found)))
    return together(promise.verdict for promise in found)


if __name__ == "__main__":
    sys.exit(main())
