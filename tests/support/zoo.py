"""The zoo: what is planted in each program of tests/targets/leaks, and how ``heaptop leaks`` fares with it.

As a program (``make zoo``) it hunts in all of them on some Pythons, prints a table, and fails where the promise is not
held: nine in ten times the first suspect has type, site and holder right, always one of the first three; a queue that
outruns its consumer is called a backlog, and of what only looks like a leak nothing is called one. Suspects are judged
by what is written down here alone.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from tests import interpreters
from tests.interpreters import Interpreter
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE, running, with_proc

FOLDER: Final = TARGETS / "leaks"
PYTHONS: Final = ("3.8", "3.11", "3.13", "3.14")
SECONDS: Final = 12
AT_ONCE: Final = 5
"""A hunt mostly waits."""
ALREADY_GOOD: Final = 0.9


@dataclass(frozen=True, slots=True)
class Planted:
    """What an engineer who has found the leak would say."""

    type: str
    """A pattern for the full name: that of the program's own class, or of what carries it where that is as telling."""
    site: str
    """The function that allocates."""
    holder: str
    """A pattern for words of the retainer or its path."""
    package: str = ""
    """Of ``.ci/target-packages``."""
    since: tuple[int, int] = (3, 8)
    """The first Python on which it leaks."""


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
    "labels_interned": Planted("memory block", "label", _LOST, since=(3, 12)),
    "scans_c_buffers": Planted("memory block", "scan", _LOST),
    "prices_churned": Planted("tuple", "quote", "PRICES"),
    "sessions_in_cache": Planted("__main__.Click", "click", r"\.visitor|lru_cache of __main__.visitor"),
    "jobs_lying_bound": Planted("__main__.Job", "keep", r"\.store \._kept"),
    "seen_default_argument": Planted("__main__.Visit", "remember", "default argument seen of __main__.remember"),
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
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one hunt."""

    program: str
    verdict: str
    """Of the whole, or of the gravest suspect; empty where the hunt failed."""
    rank: int
    """From 1; 0 where no suspect is the right one, and for what is harmless."""
    words: str
    """The first suspect's sentence; all of them with their evidence where that is not good; or why the hunt failed."""

    @property
    def is_harmless(self) -> bool:
        return self.program in HARMLESS

    @property
    def is_backlog(self) -> bool:
        return self.program in BACKLOGS

    @property
    def is_good(self) -> bool:
        if self.is_backlog:
            return self.verdict == "backlog"
        return self.rank == 1 if not self.is_harmless else self.verdict not in {"", "leak", "backlog"}


def is_answer(suspect: Mapping[str, Any], planted: Planted) -> bool:
    """Whether an element of ``suspects`` in the command's JSON names type, site and holder."""
    return bool(
        re.fullmatch(planted.type, suspect["type"])
        and re.split(r"[ .]", suspect["site"])[-1] == planted.site
        and re.search(planted.holder, " ".join([suspect["retainer"], *suspect["path"]]))
    )


def rank(suspects: Sequence[Mapping[str, Any]], planted: Planted) -> int:
    """The first of them that is the answer, from 1; 0: none is."""
    return next((number for number, each in enumerate(suspects, 1) if is_answer(each, planted)), 0)


def hunt(interpreter: Interpreter, program: str, seconds: float = SECONDS) -> dict[str, Any]:
    """What ``heaptop leaks --json`` says of a program, which must live on undisturbed.

    Raises:
        RuntimeError: the command failed, or the program suffered from it.
    """
    interpreter.place(FOLDER / "backdrop.py")
    environment = {} if interpreter.packages is None else {"PYTHONPATH": _site_packages(interpreter)}
    with running(interpreter, f"leaks/{program}", environment=environment, wrapper=with_proc(interpreter)) as target:
        command = [sys.executable, "-m", "heaptop", "leaks", str(target.pid), "--json", "--for", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-400:]}")
        if not target.alive or target.stderr():
            raise RuntimeError(f"the program: {target.process.poll()} {target.stderr()[-400:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _site_packages(interpreter: Interpreter) -> str:
    """The packages by a path that says that they are no code of the program's own, as where pip puts them."""
    assert interpreter.packages is not None
    inside = interpreter.packages / "site-packages"
    link = inside if interpreter.root is None else interpreter.root / str(inside)[1:]
    with contextlib.suppress(FileExistsError):
        link.symlink_to(".")
    return str(inside)


def judge(interpreter: Interpreter, program: str) -> Outcome:
    """Hunt, and compare with the answer."""
    try:
        found = hunt(interpreter, program)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return Outcome(program, "", 0, " ".join(str(error).split()))
    suspects = found["suspects"]
    place = rank(suspects, LEAKS[program]) if program in LEAKS else 0
    outcome = Outcome(program, found["verdict"], place, suspects[0]["sentence"] if suspects else "no suspect")
    return outcome if outcome.is_good else replace(outcome, words="".join(map(_explained, suspects)))


def _explained(suspect: Mapping[str, Any]) -> str:
    return f"\n       {suspect['verdict']}: {suspect['sentence']}: {'; '.join(suspect['evidence'])}"


def programs_for(interpreter: Interpreter) -> list[str]:
    """All of which the packages are here, those with packages first: their heaps take longest."""
    leaks = [
        name
        for name, planted in LEAKS.items()
        if interpreter.version >= planted.since and (not planted.package or interpreter.has(planted.package))
    ]
    return [*sorted(leaks, key=lambda name: not LEAKS[name].package), *BACKLOGS, *HARMLESS]


def judge_all(
    interpreter: Interpreter, programs: Sequence[str], tell: Callable[[Outcome], object] = lambda _: None
) -> list[Outcome]:
    """Some programs at once; each outcome is reported in its turn."""
    outcomes = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for outcome in pool.map(lambda program: judge(interpreter, program), programs):
            tell(outcome)
            outcomes.append(outcome)
    return outcomes


def shortcomings(outcomes: Sequence[Outcome]) -> list[str]:
    """Sentences on what falls short of the promise; none where it is held."""
    leaks = [each for each in outcomes if each.program in LEAKS]
    first = sum(each.is_good for each in leaks)
    found = []
    if first < ALREADY_GOOD * len(leaks):
        found.append(f"first suspect right in {first} of {len(leaks)}")
    found += [f"{each.program}: not in the first three: {each.words}" for each in leaks if not 1 <= each.rank <= 3]
    found += [
        f"{each.program}: {each.verdict or 'failed'}: {each.words}"
        for each in outcomes
        if each.program not in LEAKS and not each.is_good
    ]
    return found


def main() -> None:
    """``python -m tests.support.zoo [PYTHON …]``."""
    held = True
    for interpreter in [interpreters.get(name) for name in sys.argv[1:] or PYTHONS]:
        print(f"\nPython {interpreter}")
        outcomes = judge_all(interpreter, programs_for(interpreter), _report)
        leaks = [each for each in outcomes if each.program in LEAKS]
        within = sum(1 <= each.rank <= 3 for each in leaks)
        false = sum(each.is_harmless and each.verdict == "leak" for each in outcomes)
        print(
            f"first {sum(each.is_good for each in leaks)} of {len(leaks)}, within three {within}, "
            f"called a leak {sum(each.verdict == 'leak' for each in leaks)}, falsely {false}"
        )
        short = shortcomings(outcomes)
        print("".join(f"falls short: {each}\n" for each in short), end="", flush=True)
        held = held and not short
    sys.exit(not held)


def _report(outcome: Outcome) -> None:
    mark = "ok " if outcome.is_good else "-- "
    place = "" if outcome.program not in LEAKS else str(outcome.rank or "none")
    print(f"{mark} {outcome.program:22} {outcome.verdict:8} {place:4}  {outcome.words}", flush=True)


if __name__ == "__main__":
    main()
