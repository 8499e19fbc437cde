"""The heap of a process at rest, seen in four ways: by a snapshot, in its heap dump, in a core file, and in a copy.

As a program it compares them for all programs on some Pythons, and prints what is equal and what is not (``make
equal``). All four are asked the same questions, as commands and views ask them.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.snapshot.why import why_json
from heaptop.dumps.captured_source import CapturedSource
from heaptop.dumps.cores.conversion import CoreOptions, open_copy, open_core
from heaptop.dumps.reader import HeapDump
from heaptop.dumps.source import DumpSource
from heaptop.dumps.writer import DumpFile
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.protocol.images import OBJECT, OBJECTS, PATHS, Image, Object, Objects, Paths, Question, Selection
from heaptop.watching.dumping import write_dump
from heaptop.watching.progress import ProgressReport
from heaptop.watching.snapshot_watch import SnapshotWatch
from tests import interpreters
from tests.interpreters import Interpreter
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE, Target, running, with_proc

PACKAGES: Final = {"checkout_flask": "flask", "orders_sqlalchemy": "sqlalchemy", "thumbnails_numpy": "numpy"}
"""What a program imports that not every Python has here."""
PROGRAMS: Final = (
    *("heap_everything", "asyncio_idle", "labels_interned"),
    *("sessions_dict", "audit_list", "metrics_deque", "teardown_closures", "reports_method_cache"),
    *("watchers_asyncio", "tenants_threads", "outbox_contexts", "import_errors", "request_loggers"),
    *("downloads_finalize", "seen_default_argument", "rooms_nested", "sockets_zlib", "rules_reload"),
    *("revisions_chain", "thumbs_lru_class"),
    *PACKAGES,
)
"""Slots, generators, threads, exceptions, weak references, closures, caches, contexts, modules."""
REQUESTS: Final = 60
"""That a program of the zoo has served when it is at rest."""
PAGE: Final = 10_000
ASKED: Final = 150
"""Objects whose dominators and paths are compared, besides those of the program's own types."""
OWN: Final = "__main__."
MOST_OWN: Final = 100
NOW: Final = AttachOptions(interval=86_400.0)

# -- one heap -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """An object, as queries describe it."""

    type: str
    size: int
    retained: int


@dataclass(frozen=True, slots=True)
class Heap:
    image: Image
    objects: Mapping[int, Seen]
    """By address."""
    guessed: frozenset[str]
    """Types whose sizes are estimates."""
    dominators: Mapping[int, int]
    """Of some objects: the address of each one's dominator."""
    why: Mapping[str, Any]
    """Of each of the program's own types, the document of ``heaptop why``."""


def heap_of(watch: SnapshotWatch, image: Image) -> Heap:
    """All objects, and of some what keeps them. The same objects of any heap of the process."""
    names = [type_name(watch.types, number) for number in range(len(watch.types))]
    rows = list(_rows(watch, image))
    objects = {row.address: Seen(names[row.type], row.size, row.retained) for row in rows}
    asked = [*_some(objects, ASKED, ""), *_some(objects, MOST_OWN, OWN)]
    why = {}
    for name in sorted({each.type for each in objects.values() if each.type.startswith(OWN)}):
        ids = tuple(number for number, each in enumerate(names) if each == name)
        paths = watch.ask(Question(PATHS, Selection(types=ids), limit=1000), Paths)
        document = why_json(paths, image, watch.types, name, pid=0, python="", most=1000)
        # which of several that retain the same comes first is not promised
        found = sorted(document["paths"], key=lambda row: (-row["retained"], row["path"], row["example"]))
        why[name] = {"count": document["count"], "bytes": document["bytes"], "paths": found}
    return Heap(
        image,
        objects,
        frozenset(names[number] for number in image.guessed),
        {address: _dominator(watch, address) for address in asked},
        why,
    )


def _rows(watch: SnapshotWatch, image: Image) -> Iterator[Any]:
    found = 0
    while found < image.objects:
        page = watch.ask(Question(OBJECTS, offset=found, limit=PAGE), Objects)
        assert page.complete
        assert page.total == image.objects
        assert page.rows
        found += len(page.rows)
        yield from page.rows


def _some(objects: Mapping[int, Seen], count: int, of: str) -> list[int]:
    """Chosen by their addresses, so that another heap of the process has the same ones where it has them at all."""
    fitting = [address for address, each in objects.items() if each.type.startswith(of)]
    return sorted(fitting, key=lambda address: zlib.crc32(address.to_bytes(8, "little")))[:count]


def _dominator(watch: SnapshotWatch, address: int) -> int:
    return watch.ask(Question(OBJECT, Selection(addresses=(address,)), limit=1), Object).dominator


# -- the four of a process --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heaps:
    snapshot: Heap
    dump: Heap
    """Of that snapshot."""
    core: Heap
    copy: Heap


@contextmanager
def at_rest(interpreter: Interpreter, program: str) -> Iterator[Target]:
    """A program of tests/targets, or of the zoo, that does nothing any more."""
    for companion in ("heap_zoo.py", "leaks/backdrop.py"):
        interpreter.place(TARGETS / companion)
    file = TARGETS / "leaks" / f"{program}.py"
    what = ("at_rest", file, str(REQUESTS)) if file.exists() else (program,)
    variables = {"PYTHONPATH": str(interpreter.packages)} if program in PACKAGES else {}
    with running(interpreter, *what, environment=variables, wrapper=with_proc(interpreter)) as target:
        yield target


def heaps_of(target: Target, folder: Path) -> Heaps:
    """Those without code in the process first: an attach leaves something."""
    core = folder / "core"
    words = ["gdb", "-nx", "-batch", "-p", str(target.pid), "-ex", f"generate-core-file {core}"]
    subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True)
    copy = open_copy(target.pid, CoreOptions(), PATIENCE, lambda *told: None)
    path = str(folder / "snapshot.heapdump")
    source = CapturedSource(attach_source(target.pid, NOW))
    with SnapshotWatch(source, ProgressReport(), "") as watch:
        with DumpFile(path) as file:
            write_dump(watch, source, file, "sizes", ProgressReport())
        dump = HeapDump(path)
        of_snapshot = heap_of(watch, dump.image)
    of_core = _of_file(open_core(str(core), CoreOptions(), lambda *told: None))
    return Heaps(of_snapshot, _of_file(dump), of_core, _of_file(copy))


def _of_file(dump: HeapDump) -> Heap:
    with SnapshotWatch(DumpSource(dump), ProgressReport(), "") as watch:
        return heap_of(watch, watch.freeze())


# -- compared -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """What one heap has otherwise than another one: the types of such objects."""

    all: int
    """Objects of the first one."""
    missing: Counter[str]
    """In the second one; an object is the same where address and type are."""
    new: Counter[str]
    sizes: Counter[str]
    """But for types that are known to be estimated."""
    guessed: Counter[str]
    """Sizes of those."""
    retained: Counter[str]
    dominators: Counter[str]
    asked: int
    """How many dominators were compared."""
    kept: tuple[str, ...]
    """Types of the program's own of which others are kept along paths, or these retain less or more."""
    paths: tuple[str, ...]
    """Likewise, or whose paths have other names: a module's C code and its namespace may both hold a dict."""

    @property
    def same(self) -> float:
        """At least such a share of the objects is in both, with the same bytes and the same retained size."""
        others = (self.missing, self.sizes, self.guessed, self.retained)
        return 1 - sum(each.total() for each in others) / self.all

    @property
    def own(self) -> list[str]:
        """What is of the program's own types."""
        parts = (self.missing, self.new, self.sizes, self.retained, self.dominators)
        return sorted({name for part in parts for name in part if name.startswith(OWN)} | {*self.kept})

    @property
    def everything(self) -> list[str]:
        parts = (self.missing, self.new, self.sizes, self.guessed, self.retained, self.dominators)
        return sorted({name for part in parts for name in part} | {*self.paths})


def difference(one: Heap, other: Heap) -> Difference:
    both = [address for address, each in one.objects.items() if _type(other, address) == each.type]

    def types(addresses: Sequence[int], differs: Callable[[Seen, Seen], bool]) -> Counter[str]:
        found = ((one.objects[address], other.objects[address]) for address in addresses)
        return Counter(mine.type for mine, its in found if differs(mine, its))

    asked = [address for address in both if address in one.dominators and address in other.dominators]
    guessed, names = one.guessed | other.guessed, sorted({*one.why, *other.why})
    sizes = types(both, lambda mine, its: mine.size != its.size)
    return Difference(
        all=len(one.objects),
        missing=Counter(each.type for address, each in one.objects.items() if _type(other, address) != each.type),
        new=Counter(each.type for address, each in other.objects.items() if _type(one, address) != each.type),
        sizes=Counter({name: count for name, count in sizes.items() if name not in guessed}),
        guessed=Counter({name: count for name, count in sizes.items() if name in guessed}),
        retained=types(both, lambda mine, its: mine.retained != its.retained),
        dominators=Counter(
            one.objects[address].type for address in asked if one.dominators[address] != other.dominators[address]
        ),
        asked=len(asked),
        kept=tuple(name for name in names if _kept(one, name) != _kept(other, name)),
        paths=tuple(name for name in names if one.why.get(name) != other.why.get(name)),
    )


def _kept(heap: Heap, name: str) -> list[tuple[int, int, int]]:
    paths = heap.why[name]["paths"] if name in heap.why else []
    return sorted((path["count"], path["bytes"], path["retained"]) for path in paths)


def _type(heap: Heap, address: int) -> str:
    found = heap.objects.get(address)
    return found.type if found is not None else ""


# -- a table ----------------------------------------------------------------------------------------------------


def row(interpreter: Interpreter, program: str) -> str:
    """A line of the table, of one program on one Python; a sentence where it does not run there."""
    package = PACKAGES.get(program)
    if package is not None and not interpreter.has(package):
        return f"{interpreter.name:12} {program:22} no {package} here"
    try:
        with at_rest(interpreter, program) as target, tempfile.TemporaryDirectory() as folder:
            found = heaps_of(target, Path(folder))
    except Exception as error:
        return f"{interpreter.name:12} {program:22} failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    of_dump, of_copy = difference(found.snapshot, found.dump), difference(found.core, found.copy)
    without = difference(found.snapshot, found.copy)
    opaque = found.copy.image.opaque / found.copy.image.bytes
    line = (
        f"{interpreter.name:12} {program:22} {without.all:8,} {len(of_dump.everything):4} {len(of_copy.everything):4}"
        f" {without.missing.total():7,} {without.new.total():5,} {without.sizes.total():5,}"
        f" {without.guessed.total():7,} {without.retained.total():8,}"
        f" {without.dominators.total():4} of {without.asked:3} {without.same:9.2%} {opaque:7.3%}"
    )
    details = [
        f"    {name}: {', '.join(f'{count} {each}' for each, count in part.most_common(8))}"
        for name, part in (
            ("missing", without.missing),
            ("new", without.new),
            ("sizes", without.sizes),
            ("retained", without.retained),
        )
        if part
    ]
    notes = [("dump", of_dump.everything), ("copy beside core", of_copy.everything), ("own types", without.own)]
    return "\n".join([line, *details, *(f"    {name}: {', '.join(what[:8])}" for name, what in notes if what)])


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the heap of programs, seen in four ways.")
    parser.add_argument("--pythons", nargs="+", default=[*interpreters.SUPPORTED, *interpreters.MUSL])
    parser.add_argument("--programs", nargs="+", default=[*PROGRAMS])
    parser.add_argument("--at-once", type=int, default=2)
    options = parser.parse_args()
    print(
        f"{'python':12} {'program':22} {'objects':>8} {'dump':>4} {'copy':>4} {'missing':>7} {'new':>5} {'sizes':>5}"
        f" {'guessed':>7} {'retained':>8} {'dominators':>11} {'same':>9} {'opaque':>7}"
    )
    cases = [(interpreters.get(name), program) for program in options.programs for name in options.pythons]
    with ThreadPoolExecutor(options.at_once) as pool:
        for line in pool.map(lambda case: row(*case), cases):
            print(line, flush=True)


if __name__ == "__main__":
    main()
