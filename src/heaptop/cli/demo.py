"""``heaptop demo``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGTERM

import heaptop.samples
from heaptop.cli.attach import attach_and_show
from heaptop.cli.live import WatchedSource, show
from heaptop.cli.options import add_screen_options, attach_options
from heaptop.cli.terminal import say
from heaptop.errors import LaunchFailed, TargetError

PROGRAM = Path(heaptop.samples.__path__[0]) / "webshop.py"


class Demo:
    """Start a sample program that leaks, and attach to it.

    The program is a small web shop without a network. It ends with heaptop, however heaptop ends.
    """

    name = "demo"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_screen_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        with sample_program() as pid:
            refusal = _refusal(pid)
            if refusal is None:
                attach_and_show(pid, args)
                return 0
        say(f"{refusal.message} So the sample is started with the agent in it, as `heaptop run` does.")
        _launch_and_show(args)
        return 0


@contextmanager
def sample_program() -> Iterator[int]:
    """The sample, serving: its pid. It is ended with the block, and ends by itself when heaptop is killed."""
    argv = [sys.executable, str(PROGRAM), "--parent", str(os.getpid())]
    # A session of its own: ctrl+C in the terminal is for heaptop.
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            if process.stdout is None or not process.stdout.readline():
                raise LaunchFailed(
                    "The sample program did not start.", fix=f"See why: `{' '.join(argv[:2])}`."
                )
            yield process.pid
        finally:
            process.kill()  # it has nothing to save


def _refusal(pid: int) -> TargetError | None:
    """Why this machine does not let heaptop attach to its own child; None where it does."""
    from heaptop.injector.api import diagnose

    error = diagnose(pid).error
    return error if isinstance(error, TargetError) else None


def _launch_and_show(args: argparse.Namespace) -> None:
    from heaptop.injector.api import launch_source

    source = WatchedSource(
        launch_source([str(PROGRAM)], python=None, output=Path(os.devnull), options=attach_options(args))
    )
    try:
        show(source, args)
    finally:
        if source.ended is None or source.ended.error is None:
            with suppress(ProcessLookupError):
                os.kill(source.target.pid, SIGTERM)
