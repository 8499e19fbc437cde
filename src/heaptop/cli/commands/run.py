"""``heaptop run``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from heaptop.cli.options import add_screen_options, attach_options
from heaptop.cli.terminal import may_replace, notice, require_terminal
from heaptop.errors import LaunchFailed, TargetExited, UsageError

if TYPE_CHECKING:
    from heaptop.cli.live import WatchedSource


class Run:
    """Start a program with the agent in it from its first line, and show its heap, live.

    This needs no privileges. The program's output goes to a file, because heaptop uses the terminal. After you quit
    (key q) the program continues; when it exits first, heaptop exits with its exit code.

    heaptop run -- prog.py --its --arguments
    heaptop run --python .venv/bin/python -- -m package.module argument
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
        add_screen_options(parser)
        parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        parser.add_argument(
            "program",
            nargs=argparse.REMAINDER,
            metavar="-- PROG.PY|-m MODULE ...",
            help="the program to start",
        )

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.cli.opening import OpeningFacts, show_opened
        from heaptop.injector.inspect.process import user_name

        program = program_of(args)
        require_terminal(args)
        output = args.output or default_output(program)
        args.replace_output = may_replace(output, force=args.force)
        made: list[WatchedSource] = []

        def connect() -> WatchedSource:
            made.append(_launched(program, output, args))
            return made[0]

        command = " ".join([args.python or sys.executable, *program])
        try:
            show_opened(OpeningFacts(0, command, "", user_name(os.geteuid()), f"output in {output}"), connect, args)
        except TargetExited:
            if made[0].ended is None:
                raise
        return _farewell(made[0], output) if made else 0


def _launched(program: list[str], output: Path, args: argparse.Namespace) -> WatchedSource:
    from heaptop.cli.live import watched
    from heaptop.injector.api import launch_source

    options, force = attach_options(args), args.replace_output
    return watched(launch_source(program, python=args.python, output=output, options=options, force=force), args)


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
