"""``heaptop run``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from heaptop.cli.options import (
    LEAST_INTERVAL,
    MOST_INTERVAL,
    NEVER,
    TOP,
    add_json,
    add_screen_options,
    add_timeout,
    attach_options,
    duration,
    row_count,
    rows_shown,
    size,
)
from heaptop.cli.terminal import ProgressLine, has_terminal, may_replace, notice, require_terminal
from heaptop.errors import LaunchFailed, TargetExited, UsageError

if TYPE_CHECKING:
    from heaptop.cli.live import WatchedSource
    from heaptop.injector.api import MallocTable
    from heaptop.protocol.source import Source

NATIVE_INTERVAL = 1 << 17


class Run:
    """Start a program with the agent in it from its first line, and show its live heap.

    This needs no privileges. The program's output goes to a file, because heaptop uses the terminal. After you quit
    (key q) the program continues; when it exits first, heaptop exits with its exit code.

    With --native a preloaded library also samples memory that C libraries allocate by malloc and mmap. At the end, live
    bytes are printed by Python line and library. With --json, with --for or without a terminal there is no screen.

    heaptop run -- prog.py --its --arguments
    heaptop run --python .venv/bin/python -- -m package.module argument
    heaptop run --native --for 10m -- prog.py
    """

    name = "run"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--python", metavar="PATH", help="the interpreter (default: the one heaptop runs on)")
        parser.add_argument(
            "--output",
            type=Path,
            metavar="FILE",
            help="file for the program's stdout and stderr (default: a new file in the user's state folder)",
        )
        _add_native_options(parser)
        add_json(parser)
        add_timeout(parser)
        add_screen_options(parser)
        parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        parser.add_argument(
            "program",
            nargs=argparse.REMAINDER,
            metavar="-- PROG.PY|-m MODULE ...",
            help="the program to start",
        )

    def run(self, args: argparse.Namespace) -> int:
        program = program_of(args)
        has_screen = _has_screen(args)
        if has_screen:
            require_terminal(args)
        output = args.output or default_output(program)
        args.replace_output = may_replace(output, force=args.force)
        if args.native:
            return _run_native(program, output, args, has_screen=has_screen)
        shown = _show(program, output, args)
        return _farewell(shown, output) if shown else 0


def _show(
    program: list[str], output: Path, args: argparse.Namespace, native: MallocTable | None = None
) -> WatchedSource | None:
    """Show the program's heap until the person quits, or it exits. None where it was never started."""
    from heaptop.cli.opening import OpeningFacts, show_opened
    from heaptop.injector.inspect.process import user_name

    made: list[WatchedSource] = []

    def connect() -> WatchedSource:
        made.append(_launched(program, output, args, native))
        return made[0]

    command = " ".join([args.python or sys.executable, *program])
    try:
        show_opened(OpeningFacts(0, command, "", user_name(os.geteuid()), f"output in {output}"), connect, args)
    except TargetExited:
        if made[0].ended is None:
            raise
    return made[0] if made else None


def _launched(
    program: list[str], output: Path, args: argparse.Namespace, native: MallocTable | None
) -> WatchedSource:
    from heaptop.cli.live import watched

    return watched(_source(program, output, args, native), args)


def _source(
    program: list[str], output: Path, args: argparse.Namespace, native: MallocTable | None, **others: Any
) -> Source:
    from heaptop.injector.api import launch_source

    options, force = attach_options(args, **others), args.replace_output
    return launch_source(program, python=args.python, output=output, options=options, force=force, native=native)


def _add_native_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("native memory")
    group.add_argument(
        "--native",
        action="store_true",
        help="sample malloc and mmap by a preloaded library, which stays until the program ends; needs glibc and Linux "
        "4.14",
    )
    group.add_argument(
        "--native-interval",
        type=_native_interval,
        default=NATIVE_INTERVAL,
        metavar="SIZE",
        help="mean bytes between two samples of native memory, as a power of two (default 128KiB)",
    )
    group.add_argument(
        "--for",
        dest="seconds",
        type=duration,
        metavar="TIME",
        help="with --native: no screen; print what is live after this time, and let the program continue",
    )
    group.add_argument(
        "--top", type=row_count, metavar="N", help=f"rows to print of each kind (default {TOP}, --json: all; 0: all)"
    )


def _native_interval(text: str) -> int:
    value = size(text)
    if not LEAST_INTERVAL <= value <= MOST_INTERVAL:
        raise argparse.ArgumentTypeError(f"{text} is not a size from 1KiB to 1GiB")
    return value


def _has_screen(args: argparse.Namespace) -> bool:
    asked = [name for name, value in (("--json", args.json), ("--for", args.seconds), ("--top", args.top)) if value]
    if asked and not args.native:
        raise UsageError(f"{asked[0]} is for a report of native memory.", fix="Add `--native`, or leave it out.")
    return not (args.native and (args.json or args.seconds or not has_terminal()))


def _run_native(program: list[str], output: Path, args: argparse.Namespace, *, has_screen: bool) -> int:
    """With a table for native samples; print what lives in the end."""
    from heaptop.analysis.rss.malloc_sites import COST
    from heaptop.injector.api import MallocTable, TableInvalid

    notice(COST)
    native = MallocTable(args.native_interval)
    try:
        if not has_screen:
            return _end(_wait(program, output, args, native), native, output, args)
        shown = _show(program, output, args, native)
        if shown is None or not shown.target.pid:
            return 0
        ended = shown.ended.error if shown.ended else None
        exited = isinstance(ended, TargetExited)
        status = ended.status if isinstance(ended, TargetExited) else None
        report(NativeEnd(shown.target.pid, shown.target.python, exited, status), native, args)
        return _farewell(shown, output)
    except TableInvalid as error:
        raise LaunchFailed(f"The program has overwritten the table of native samples: {error}.") from None
    finally:
        native.close()


class NativeEnd(NamedTuple):
    """A program when its native memory is reported."""

    pid: int
    python: str
    exited: bool
    status: int | None


def _wait(program: list[str], output: Path, args: argparse.Namespace, native: MallocTable) -> NativeEnd:
    """Let it run to its end, or for the time that was asked for, and take no census meanwhile."""
    from heaptop.watching.source_watch import SourceWatch

    source = _source(program, output, args, native, interval=NEVER, sample_interval=0)
    watch = SourceWatch(source, ProgressLine(), timeout=args.timeout)
    exited, status = False, None
    try:
        with watch:
            notice(f"the program's output is in {output}")
            watch.wait(args.seconds or float("inf"), lambda left: f"{left:.0f} s left" if args.seconds else "running")
    except TargetExited as error:
        exited, status = True, error.status
    attached = watch.attached
    return NativeEnd(attached.target.pid, attached.hello.python, exited, status)


def _end(end: NativeEnd, native: MallocTable, output: Path, args: argparse.Namespace) -> int:
    """Print what lives; return the exit code that follows from the program's."""
    report(end, native, args)
    if not end.exited:
        notice(f"the program continues as pid {end.pid}, with the preloaded library; its output is in {output}")
    return 0 if end.status is None else end.status if end.status >= 0 else 128 - end.status


def report(end: NativeEnd, native: MallocTable, args: argparse.Namespace) -> None:
    """Print what is live. Errors: LaunchFailed where the table is not of what runs, TableInvalid."""
    from heaptop.analysis.rss.malloc_sites import native_json
    from heaptop.cli.output.native import as_lines

    if not end.exited and (why := native.refusal(end.pid)):
        raise LaunchFailed(
            f"Native memory of process {end.pid} cannot be reported: {why}.",
            why="The process continues. The samples are of the program that it ran before.",
            fix="Start the other program itself: `heaptop run --native -- prog.py`.",
        )
    found = native.sites()
    if args.json:
        top = args.top or None
        document = native_json(found, pid=end.pid, python=end.python, exited=end.exited, status=end.status, top=top)
        print(json.dumps(document, indent=2))
    else:
        print("\n".join(as_lines(found, rows_shown(args, TOP), exited=end.exited)))


def program_of(args: argparse.Namespace) -> list[str]:
    """``["prog.py", …]`` or ``["-m", "module", …]``, with or without ``--`` in front."""
    if args.module is not None:
        program = ["-m", *args.module]
    else:
        # argparse leaves the first -- in what it collects; a second one is the program's own.
        program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not program or program == ["-m"]:
        raise UsageError("No program to run.", fix="Put it after two dashes: `heaptop run -- prog.py argument`.")
    if program[0] != "-m" and program[0].startswith("-"):
        raise UsageError(
            f"{program[0]!r} is neither a program nor -m.",
            fix="Put heaptop's options before the two dashes; of Python's options only -m is supported.",
        )
    return program


def default_output(program: list[str]) -> Path:
    """A file of its own for every run, in a folder that only this user can read: output may hold secrets."""
    import platformdirs

    from heaptop import files

    name = program[1] if program[0] == "-m" else Path(program[0]).name
    folder = platformdirs.user_state_path("heaptop")
    try:
        files.private_folder(folder)
    except OSError as error:
        raise LaunchFailed(
            f"The folder {folder} cannot be used for the program's output: {error.strerror}.",
            fix="Choose a file: `heaptop run --output FILE -- prog.py`.",
        ) from error
    return folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def _farewell(source: WatchedSource, output: Path) -> int:
    """Say what became of the program, and return the exit code that follows."""
    ended = source.ended.error if source.ended else None
    pid = source.target.pid
    if not isinstance(ended, TargetExited):
        notice(f"the program continues as pid {pid}; its output is in {output}")
        return 0
    if ended.status is None:
        raise ended
    if ended.status < 0:
        notice(f"the program was ended by {_signal_name(-ended.status)}; its output is in {output}")
        return 128 - ended.status
    notice(f"the program exited with code {ended.status}; its output is in {output}")
    return ended.status


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal
