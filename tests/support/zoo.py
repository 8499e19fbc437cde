"""The zoos: what is planted in each program of tests/targets/leaks, and how ``heaptop leaks`` fares with it.

As a program it hunts in all of a zoo on some Pythons, prints a table, and fails where the promise is not held. Of the
first zoo (``make zoo``): nine in ten times the first suspect has type, site and holder right, always one of the first
three; a queue that outruns its consumer is called a backlog. Of the second, with real packages (``make zoo-real``): 95
in a hundred times the first suspect has the site right, and the type or the holder. Of what only looks like a leak
nothing is called one. Suspects are judged by what is written down here, and in ``real_zoo.py``, alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from heaptop.cli.commands.leaks import MARKS
from tests import interpreters
from tests.interpreters import Interpreter
from tests.support import real_zoo
from tests.support.building import TARGETS
from tests.support.processes import ANY_PAUSE, PATIENCE, TargetFailed, running, with_proc
from tests.support.real_zoo import Planted

FOLDER: Final = TARGETS / "leaks"

LONGEST_SECONDS: Final = 120
"""Of a hunt."""

_LOST: Final = "no live object"
LEAKS: Final[Mapping[str, Planted]] = {
    "sessions_dict": Planted("__main__.Session", "create_session", r"\._sessions"),
    "audit_list": Planted("dict", "record", "ENTRIES"),
    "metrics_deque": Planted("__main__.Measurement", "observe", r"\.last_minute"),
    "teardown_closures": Planted("function|__main__.Request", "handle", r"\.at_stop"),
    "jobs_class_list": Planted("__main__.Job", "submit", r"\.history"),
    "reports_method_cache": Planted("__main__.Report", "load_report", "lru_cache of __main__.Report.total"),
    "watchers_asyncio": Planted(r"__main__.Connection|_asyncio.Task|coroutine", "connect", r"\._waiters"),
    "tenants_threads": Planted("__main__.Client|threading.Thread", "work", r"\.local|frame work|\._active"),
    "outbox_contexts": Planted(r"__main__.Request|(_contextvars\.)?Context", "handle", r"\.waiting"),
    "import_errors": Planted("__main__.BadRow", "import_row", r"\.errors"),
    "request_loggers": Planted("logging.Logger|__main__.RequestFilter", "request_logger", r"\.loggerDict"),
    "downloads_finalize": Planted("__main__.Download", "open_download", r"finalize \._registry"),
    "pages_gc_off": Planted("__main__.Page|__main__.Part", "build_page", "held by nothing"),
    "checkout_flask": Planted("function|__main__.Order", "checkout", r"\.receivers", "flask"),
    "orders_sqlalchemy": Planted(
        "__main__.Order|sqlalchemy.orm.state.InstanceState", "place_order", r"\.orders \._new", "sqlalchemy"
    ),
    "thumbnails_numpy": Planted("numpy.ndarray", "read_image", r"\.thumbnails", "numpy"),
    "translations_text": Planted("str", "translate", r"\.TRANSLATIONS"),
    "prices_c_callbacks": Planted("__main__.PriceRule", "price", "held by C"),
    "rules_reload": Planted("module|rules_.*", "load_rules", r"module rules_|module sys"),
    "revisions_chain": Planted("__main__.Revision", "edit", r"\.document"),
    "rooms_nested": Planted("__main__.Message", "post", r"\.rooms"),
    "rates_lost_reference": Planted("memory block", "convert", _LOST),
    "labels_interned": Planted("memory block", "label", _LOST, since=(3, 12), before=(3, 13)),
    "scans_c_buffers": Planted("memory block", "scan", _LOST),
    "prices_churned": Planted("tuple", "quote", "PRICES"),
    "sessions_in_cache": Planted("__main__.Click", "click", r"\.visitor|lru_cache of __main__.visitor"),
    "jobs_lying_bound": Planted("__main__.Job", "keep", r"\.store \._kept"),
    "sockets_zlib": Planted("__main__.Connection|zlib.Compress", "open_connection|__init__", r"\._connections"),
    "frames_mapped": Planted("__main__.Frame|mmap.mmap", "read_frame|__init__", r"\.shown"),
    "seen_default_argument": Planted("__main__.Visit", "remember", "default argument seen of __main__.remember"),
    "events_log_class": Planted("__main__.EventLog", "record", r"\.monitor \.log"),
}

BACKLOGS: Final = ("mails_behind", "frames_behind")
"""Programs with a queue that outruns its consumer."""

HARMLESS: Final = (
    "warming_up",
    "cache_at_bound",
    "cache_filling",
    "cache_below_bound",
    "queue_filling",
    "events_sawtooth",
    "heavy_churn",
    "never_idle",
    "backlog_peak",
    "latest_window",
    "thumbs_lru_class",
    "sockets_zlib_pool",
    "frames_mapped_ring",
    "readings_numpy_window",
    "events_ring_class",
)


@dataclass(frozen=True, slots=True)
class Zoo:
    """Programs that are hunted in together, and what is promised of them."""

    folder: str
    """Of tests/targets."""
    leaks: Mapping[str, Planted]
    backlogs: Sequence[str]
    harmless: Sequence[str]
    versions: Mapping[str, tuple[str, str]]
    """By program: the version of its package that leaks, and one that does not. The latter is a case of its own."""
    backdrops: Sequence[str]
    """What the programs import."""
    pythons: Sequence[str]
    seconds: float
    at_once: int
    """A hunt mostly waits."""
    first: float
    """How often the first suspect must be right, as a share."""
    within: int
    """One of how many suspects must be right; 0: no such promise."""
    is_strict: bool
    """Whether type and holder must both be right, else one of them."""

    @property
    def fixed(self) -> list[str]:
        """The leaks whose package is in a version that has none: ``PROGRAM PACKAGE-VERSION``."""
        return [f"{program} {fixed}" for program, (_, fixed) in self.versions.items()]

    @property
    def programs(self) -> list[str]:
        """All, those with packages first: their heaps take longest."""
        leaks = sorted(self.leaks, key=lambda name: not self.leaks[name].package)
        return [*leaks, *self.backlogs, *self.fixed, *self.harmless]

    def is_answer(self, suspect: Mapping[str, Any], planted: Planted) -> bool:
        """Whether an element of ``suspects`` in the command's JSON names the leak."""
        right = (
            re.fullmatch(planted.type, suspect["type"]),
            re.search(planted.holder, " ".join([suspect["retainer"], *suspect["path"]])),
        )
        if self.is_strict:
            return all(right) and _names(suspect["site"], planted.site)
        # A cache of the guilty function names it, whoever allocated what is in the cache; and so does a constructor's
        # caller, the next frame that is shown.
        constructs = suspect["site"].endswith(("__init__", "__new__"))
        places = [suspect["site"], suspect["retainer"], *suspect["stack"][1 : 1 + constructs]]
        return any(right) and any(_names(place, planted.site) for place in places)

    def rank(self, suspects: Sequence[Mapping[str, Any]], planted: Planted) -> int:
        """The first of them that is the answer, from 1; 0: none is."""
        return next((number for number, each in enumerate(suspects, 1) if self.is_answer(each, planted)), 0)


def _names(place: str, function: str) -> bool:
    """Whether the last name of a site, or of a retainer, is that of the function."""
    return bool(re.fullmatch(function, re.split(r"[ .]", place)[-1]))


PLANTED: Final = Zoo(
    folder="leaks",
    leaks=LEAKS,
    backlogs=BACKLOGS,
    harmless=HARMLESS,
    versions={},
    backdrops=("backdrop",),
    pythons=("3.8", "3.11", "3.13", "3.14"),
    seconds=12,
    at_once=5,
    first=0.9,
    within=3,
    is_strict=True,
)
REAL: Final = Zoo(
    folder="leaks/real",
    leaks=real_zoo.LEAKS,
    backlogs=(),
    harmless=real_zoo.HARMLESS,
    versions=real_zoo.VERSIONS,
    backdrops=("backdrop", "real/busy_backdrop"),
    pythons=("3.9", "3.12", "3.13", "3.14"),
    seconds=24,
    at_once=3,
    first=0.95,
    within=0,
    is_strict=False,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one hunt."""

    program: str
    verdict: str
    """Of the whole, or of the most severe suspect; empty where the hunt failed."""
    rank: int
    """From 1; 0 where no suspect is the right one, and for what is harmless."""
    words: str
    """The first suspect's sentence; all of them with their evidence where that is not good; or why the hunt failed."""
    zoo: Zoo = PLANTED

    @property
    def is_leak(self) -> bool:
        return self.program in self.zoo.leaks

    @property
    def is_good(self) -> bool:
        if self.is_leak:
            return self.rank == 1
        if self.program in self.zoo.backlogs:
            return self.verdict == "backlog"
        if self.program in self.zoo.fixed:
            return self.verdict == "no leak"
        return self.verdict not in {"", "leak", "backlog"}


def hunt(interpreter: Interpreter, program: str, zoo: Zoo = PLANTED, keep: Path | None = None) -> dict[str, Any]:
    """What ``heaptop leaks --json`` says of a program, which must live on undisturbed. On a machine so busy that there
    were too few marks to judge by, it is hunted once more in a longer time.

    Args:
        keep: a folder for the answer as it is, for whoever looks into a miss.

    Raises:
        RuntimeError: the command failed, or the program suffered from it.
    """
    variables, wrapper = environment(interpreter, program, zoo), with_proc(interpreter)
    name = f"{zoo.folder}/{program.partition(' ')[0]}"
    with running(interpreter, name, environment=variables, wrapper=wrapper) as target:
        command = [sys.executable, "-m", "heaptop", "leaks", str(target.pid), "--json", "--for", str(zoo.seconds)]
        command += ANY_PAUSE
        done = subprocess.run(command, capture_output=True, text=True, timeout=9 * PATIENCE, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-400:]}")
        if not target.alive or target.stderr():
            raise RuntimeError(f"the program: {target.process.poll()} {target.stderr()[-400:]}")
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{interpreter}-{program.replace(' ', '-')}.json").write_text(done.stdout)
    answer: dict[str, Any] = json.loads(done.stdout)
    if len(answer["marks"]) < MARKS and zoo.seconds < LONGEST_SECONDS:
        return hunt(interpreter, program, replace(zoo, seconds=2 * zoo.seconds), keep)
    return answer


def environment(interpreter: Interpreter, program: str, zoo: Zoo = PLANTED) -> dict[str, str]:
    """For a program: where what it imports is, as the interpreter sees it."""
    backdrop, *_ = [interpreter.place(FOLDER / f"{name}.py") for name in zoo.backdrops]
    variables = {"PYTHONPATH": ":".join([str(Path(backdrop).parent), *_packages(interpreter, program, zoo)])}
    if zoo.versions:  # else starting takes longer than the hunt
        cache = interpreter.zoo_packages()[1].with_name("pycache")
        variables |= {"PYTHONPYCACHEPREFIX": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
    return variables


def _packages(interpreter: Interpreter, program: str, zoo: Zoo) -> list[str]:
    """Folders whose path says that they are no code of the program's own, as where pip puts them."""
    if zoo.versions:
        name, _, version = program.partition(" ")
        leaking = zoo.versions.get(name, ("",))[0]
        return [str(interpreter.zoo_packages(name)[1]) for name in (version or leaking, "")]
    if interpreter.packages is None:
        return []
    inside = interpreter.packages / "site-packages"
    link = inside if interpreter.root is None else interpreter.root / str(inside)[1:]
    with contextlib.suppress(FileExistsError):
        link.symlink_to(".")
    return [str(inside)]


def judge(interpreter: Interpreter, program: str, zoo: Zoo = PLANTED, keep: Path | None = None) -> Outcome:
    """Hunt, and compare with the answer."""
    try:
        found = hunt(interpreter, program, zoo, keep)
    except (RuntimeError, TargetFailed, subprocess.TimeoutExpired) as error:
        return Outcome(program, "", 0, " ".join(str(error).split()), zoo)
    suspects = found["suspects"]
    place = zoo.rank(suspects, zoo.leaks[program]) if program in zoo.leaks else 0
    outcome = Outcome(program, found["verdict"], place, suspects[0]["sentence"] if suspects else "no suspect", zoo)
    return outcome if outcome.is_good else replace(outcome, words="".join(map(_explained, suspects)))


def _explained(suspect: Mapping[str, Any]) -> str:
    return f"\n       {suspect['verdict']}: {suspect['sentence']}: {'; '.join(suspect['evidence'])}"


def programs_for(interpreter: Interpreter, zoo: Zoo = PLANTED) -> list[str]:
    """All of which the packages are here."""

    def is_here(program: str) -> bool:
        name, _, version = program.partition(" ")
        if zoo.versions:
            wanted = version or zoo.versions.get(name, ("", ""))[0]
            return interpreter.zoo_packages(wanted)[0].is_dir()
        planted = zoo.leaks.get(name)
        if planted is None:
            return True
        leaks = planted.since <= interpreter.version < planted.before
        return leaks and (not planted.package or interpreter.has(planted.package))

    return [program for program in zoo.programs if is_here(program)]


def judge_all(
    interpreter: Interpreter,
    programs: Sequence[str],
    tell: Callable[[Outcome], object] = lambda _: None,
    zoo: Zoo = PLANTED,
    keep: Path | None = None,
) -> list[Outcome]:
    """Some programs at once; each outcome is reported in its turn."""
    outcomes = []
    with ThreadPoolExecutor(zoo.at_once) as pool:
        for outcome in pool.map(lambda program: judge(interpreter, program, zoo, keep), programs):
            tell(outcome)
            outcomes.append(outcome)
    return outcomes


def shortcomings(outcomes: Sequence[Outcome], zoo: Zoo = PLANTED) -> list[str]:
    """Sentences on what falls short of the promise; none where it is held."""
    leaks = [each for each in outcomes if each.is_leak]
    first = sum(each.is_good for each in leaks)
    found = []
    if first < zoo.first * len(leaks):
        found.append(f"first suspect right in {first} of {len(leaks)}")
    if zoo.within:
        late = [each for each in leaks if not 1 <= each.rank <= zoo.within]
        found += [f"{each.program}: not in the first three: {each.words}" for each in late]
    found += [
        f"{each.program}: {each.verdict or 'failed'}: {each.words}"
        for each in outcomes
        if not each.is_leak and not each.is_good
    ]
    return found


def main() -> None:
    """``python -m tests.support.zoo [--real] [PYTHON …]``."""
    parser = argparse.ArgumentParser(description="Hunt in all programs of a zoo.")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    parser.add_argument("--real", action="store_true", help="the zoo with real packages")
    parser.add_argument("--only", action="append", default=[], metavar="PROGRAM", help="this program; may be repeated")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for the answers as JSON")
    args = parser.parse_args()
    zoo, held = REAL if args.real else PLANTED, True
    for interpreter in [interpreters.get(name) for name in args.pythons or zoo.pythons]:
        print(f"\nPython {interpreter}")
        programs = programs_for(interpreter, zoo)
        if args.only:
            programs = [each for each in programs if each.partition(" ")[0] in args.only]
        outcomes = judge_all(interpreter, programs, _report, zoo, args.keep)
        leaks = [each for each in outcomes if each.is_leak]
        within = sum(1 <= each.rank <= 3 for each in leaks)
        false = sum(not each.is_leak and each.verdict == "leak" for each in outcomes)
        print(
            f"first {sum(each.is_good for each in leaks)} of {len(leaks)}, within three {within}, "
            f"called a leak {sum(each.verdict == 'leak' for each in leaks)}, falsely {false}"
        )
        short = shortcomings(outcomes, zoo)
        print("".join(f"falls short: {each}\n" for each in short), end="", flush=True)
        held = held and not short
    sys.exit(not held)


def _report(outcome: Outcome) -> None:
    mark = "ok " if outcome.is_good else "-- "
    place = "" if not outcome.is_leak else str(outcome.rank or "none")
    print(f"{mark} {outcome.program:33} {outcome.verdict:8} {place:4}  {outcome.words}", flush=True)


if __name__ == "__main__":
    main()
