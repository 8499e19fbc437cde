"""``heaptop leaks``: what grows in a process, who allocates it and who holds it, as a sentence."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heaptop.choices import HUNTING, MIN_GROWTH
from heaptop.cli.options import (
    add_attach_options,
    add_report_options,
    add_sampling_options,
    add_target,
    attach_options,
    mark_count,
    refuse_mode,
    row_count,
    rows_shown,
    seconds,
    size,
    target_pid,
)
from heaptop.cli.terminal import WIDEST, ProgressLine, stdout_columns
from heaptop.errors import HeaptopError, UsageError, os_reason

if TYPE_CHECKING:
    from heaptop.analysis.leaks.gate import LeakGate
    from heaptop.watching.hunting import Hunter

SECONDS = 30.0
MARKS = 4  # Three stretches between them: that something rises in each is seen from there on
LEAK_FOUND = 3
UNDECIDED = 1
"""Exit codes, where a person has asked for them; the latter where there were too few checks to find a leak."""
MOST_LOADING: Final = 5.0  # Seconds that loading heaptop takes of `--for` at most; and no more than a quarter of it
_LARGEST: Final = 1 << 20  # Bytes of a file of patterns


def add_failing(parser: argparse.ArgumentParser) -> None:
    """Add --fail-on-leak, and what it ignores."""
    parser.add_argument(
        "--fail-on-leak",
        action="store_true",
        help=f"exit with code {LEAK_FOUND} if a leak or backlog is found that the next four options do not ignore",
    )
    parser.add_argument(
        "--min-growth",
        type=size,
        default=MIN_GROWTH,
        metavar="SIZE",
        help="with --fail-on-leak: ignore leaks that grew by less than this in the hunt (default 64KiB)",
    )
    parser.add_argument(
        "--min-rate",
        type=size,
        default=0,
        metavar="SIZE",
        help="with --fail-on-leak: ignore leaks that grow by less than this a second (default 0)",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="TYPE|SITE",
        help="with --fail-on-leak: ignore leaks of this type (app.Session) or allocation site (app/views.py:12, "
        "app/views.py, or a function's name); * stands for any text; can be given several times",
    )
    parser.add_argument(
        "--ignore-from",
        metavar="FILE",
        help="the same from a file, one a line; # begins a comment",
    )


class Leaks:
    """Hunt for leaks: mark, wait, mark, and report what grew, where it was allocated, and what holds it.

    Each mark takes a snapshot, which pauses the process for as long as a census does. Ctrl+C ends the hunt
    with a last check, unless that takes more than 1.5 s.

    heaptop leaks PID
    heaptop leaks PID --for 600 --marks 6 --collect
    heaptop leaks PID --fail-on-leak --min-growth 1MB --ignore 'app.*'
    """

    name = "leaks"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target(parser)
        parser.add_argument(
            "--for",
            dest="seconds",
            type=seconds,
            default=SECONDS,
            metavar="S",
            help="seconds for the whole command; slow leaks need more (default %(default)g)",
        )
        parser.add_argument(
            "--marks",
            type=mark_count,
            default=MARKS,
            metavar="N",
            help="number of marks, including the first and last moment; with 2, growth is shown but never called a "
            "leak (default %(default)s)",
        )
        parser.add_argument(
            "--collect",
            action="store_true",
            help="run a full collection before each check: it pauses all threads of the process and runs finalizers",
        )
        add_failing(parser)
        parser.add_argument(
            "--allow",
            action="append",
            default=[],
            metavar="LINT",
            help="do not report this lint, by its name; can be given several times",
        )
        parser.add_argument(
            "--top",
            type=row_count,
            metavar="N",
            help="rows of each table of growth, 0 for all (default 5, --json: all)",
        )
        add_report_options(parser)
        add_sampling_options(parser, HUNTING)
        add_attach_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.analysis.leaks.gate import is_decided
        from heaptop.analysis.leaks.lints import LINTS
        from heaptop.analysis.samples.sampling import Sampling
        from heaptop.injector.api import attach_source
        from heaptop.watching.hunting import Hunter, HuntWatch, Plan

        # A wrong option is reported before anything is touched.
        refuse_mode(args, "heaptop leaks")
        if args.tracemalloc:
            raise UsageError(
                "heaptop leaks needs snapshots, and so the native core: --tracemalloc cannot replace it.",
                fix="Leave `--tracemalloc` out.",
            )
        unknown = [name for name in args.allow if name not in LINTS]
        if unknown:
            raise UsageError(f"Unknown lint {unknown[0]!r}.", fix=f"Choose from: {', '.join(LINTS)}.")
        begun = _process_start(args.seconds) if args.is_program else None
        plan = Plan(args.seconds, args.marks, args.collect, tuple(args.allow), begun)
        gate = _gate(args)
        pid, progress = target_pid(args), ProgressLine()
        if args.rate is None:
            args.rate = HUNTING
        source = attach_source(pid, attach_options(args))
        with HuntWatch(
            source, progress, f"heaptop leaks {pid}", Sampling(args.user_code), timeout=args.timeout
        ) as watch:
            hunter = Hunter(watch, plan, progress)
            try:
                hunter.run()
            except HeaptopError as error:
                if hunter.found is not None:
                    progress.clear()
                    note = f"incomplete: {error.message}".rstrip(".")
                    print(_report(hunter, args, gate, note), flush=True)
                raise
        print(_report(hunter, args, gate))
        if gate is None or hunter.found is None:
            return 0
        return LEAK_FOUND if gate.failing(hunter.found) else 0 if is_decided(hunter.found) else UNDECIDED


def _process_start(given: float) -> float:
    """When this process started, on the monotonic clock: a busy machine takes seconds to load heaptop, and they are
    part of the time ``given``.

    The kernel knows only when it was forked, and a shell may have slept there before it executed heaptop: so most of
    the time is left in any case.
    """
    from heaptop.injector.inspect.process import start_time

    age = time.clock_gettime(time.CLOCK_BOOTTIME) - start_time(os.getpid()) / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - min(max(age, 0.0), given / 4, MOST_LOADING)


def _gate(args: argparse.Namespace) -> LeakGate | None:
    """None where no leak is to be an exit code."""
    from heaptop import files
    from heaptop.analysis.leaks.gate import DECISIVE, LeakGate, read_patterns

    patterns = list(args.ignore)
    if args.ignore_from:
        try:
            patterns += read_patterns(files.read_small(Path(args.ignore_from), _LARGEST).decode())
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{args.ignore_from} cannot be read: {os_reason(error)}.",
                fix="Give a text file of at most 1 MiB, one type or site a line.",
            ) from None
    if not args.fail_on_leak:
        if patterns or args.min_rate or args.min_growth != MIN_GROWTH:
            raise UsageError(
                "--min-growth, --min-rate, --ignore and --ignore-from select the leaks that set the exit code.",
                fix="Add `--fail-on-leak`.",
            )
        return None
    if args.marks < DECISIVE:
        raise UsageError(
            f"--fail-on-leak needs at least {DECISIVE} marks: growth between two may be a warm-up.",
            fix=f"Give `--marks {DECISIVE}` or more, or leave `--marks` out.",
        )
    return LeakGate(args.min_growth, args.min_rate, tuple(patterns))


def _report(hunter: Hunter, args: argparse.Namespace, gate: LeakGate | None, *notes: str) -> str:
    """What was found, as text or JSON, with more notes."""
    from dataclasses import replace

    from heaptop.analysis.leaks.findings_report import GROWN, findings_json, findings_lines

    assert hunter.found is not None
    found = replace(hunter.found, notes=(*hunter.found.notes, *notes))
    if args.json:
        document = findings_json(found, pid=hunter.pid, python=hunter.python, top=args.top or None)
        if gate:
            document["gate"] = gate.document(found)
        document["pause_ms"] = hunter.pause_ns / 1e6
        return json.dumps(document, indent=2)
    top = rows_shown(args, GROWN)
    columns = stdout_columns()
    width = None if columns is None else min(columns, WIDEST)
    verdict = [f"--fail-on-leak {gate.line(found)}"] if gate else []
    return "\n".join([*findings_lines(found, top=top, width=width, columns=columns), "", *hunter.notices, *verdict])
