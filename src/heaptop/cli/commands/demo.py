"""``heaptop demo``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

import heaptop.demo
from heaptop.cli.options import add_screen_options, attach_options
from heaptop.cli.terminal import notice, require_terminal
from heaptop.errors import LaunchFailed, TargetError, TargetExited

if TYPE_CHECKING:
    from heaptop.cli.live import WatchedSource

PROGRAM = Path(heaptop.demo.__path__[0]) / "webshop.py"
FATE = "the demo exits with heaptop"


class Demo:
    """Start a sample program that leaks, and attach to it.

    The program is a small web shop without a network. It exits when heaptop exits, even by kill -9.

    heaptop demo
    heaptop demo --theme colour-blind
    """

    name = "demo"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_screen_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.cli.opening import attach_live

        require_terminal(args)
        made: list[WatchedSource] = []

        def connect() -> WatchedSource:
            made.append(_connected(pid, args))
            return made[0]

        with sample_program() as pid:
            try:
                attach_live(pid, args, connect, FATE)
            except TargetError as error:
                if made:
                    raise
                refusal = error
            else:
                return 0
        # This machine does not let heaptop attach to its own child: a container, or ptrace_scope 3.
        notice(f"{refusal.message} So the demo is started with the agent in it, as `heaptop run` does.")
        _launch_and_show(args)
        return 0


def _connected(pid: int, args: argparse.Namespace) -> WatchedSource:
    """A source for the sample. Raises TargetError: it may not be attached to."""
    from heaptop.cli.live import watched
    from heaptop.injector.api import attach_source, diagnose

    refusal = diagnose(pid).error
    if isinstance(refusal, TargetError):
        raise refusal
    return watched(attach_source(pid, attach_options(args)), args)


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
                raise LaunchFailed("The sample program did not start.", fix=f"See why: `{' '.join(argv[:2])}`.")
            yield process.pid
        finally:
            process.kill()  # it has nothing to save


def _launch_and_show(args: argparse.Namespace) -> None:
    from heaptop.cli.live import show, watched
    from heaptop.injector.api import launch_source

    program = [str(PROGRAM), "--parent", str(os.getpid())]
    source = watched(launch_source(program, python=None, output=Path(os.devnull), options=attach_options(args)), args)
    try:
        show(source, args, FATE)
    finally:
        pid, ended = source.target.pid, source.ended.error if source.ended else None
        if pid and not isinstance(ended, TargetExited):
            os.kill(pid, SIGKILL)  # our own child, so the number is still its own
