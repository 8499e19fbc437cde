"""The third door: heaptop starts the program itself, with the agent in it from its first line. No privileges.

The program runs under ``runpy`` as ``__main__``, in a session of its own (ctrl+C in heaptop's terminal is not for
it), its output in a file. It goes on running when heaptop leaves.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
from pathlib import Path
from typing import BinaryIO, Final

from heaptop.errors import AttachCancelled, HeaptopError, InjectionFailed, LaunchFailed, ProcessNotFound
from heaptop.injector import launcher
from heaptop.injector.agent import bootstrap, greeting
from heaptop.injector.backends import Connection, Launch, Launched, Request
from heaptop.injector.process import read_facts
from heaptop.injector.threads import naming

START_LIMIT: Final = 20.0
"""Seconds for the interpreter to come up."""

LAUNCHER: Final = Path(launcher.__file__)


class RunBackend:
    """Needs a command to start in place of a process."""

    name = "run"

    def refusal(self, request: Request) -> HeaptopError | None:
        return None if request.launch else InjectionFailed("There is no command to start.")

    def connect(self, request: Request) -> Connection:
        assert request.launch is not None
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe()
        gate = open(writer, "wb", buffering=0)  # noqa: SIM115  it is closed by Launched.go, or below
        with theirs, open(reader, "rb", buffering=0):
            try:
                child = _start(request.launch, reader, theirs.fileno())
            except OSError as error:
                ours.close()
                gate.close()
                raise LaunchFailed(f"{request.launch.python} could not be started: {error}.") from None
            number = theirs.fileno()
            text = naming(number) + bootstrap(number, request.token, child.pid, os.fstat(number).st_ino)
        try:
            _bring_in(gate, ours, child, text, request)
        except HeaptopError:
            ours.close()
            child.kill()
            child.wait()
            gate.close()
            raise
        refusal = "the program runs under a seccomp filter that could not be read" if _filtered(child.pid) else ""
        return Connection(ours, self.name, child.pid, launched=Launched(child, gate), core_refusal=refusal)


def _filtered(pid: int) -> bool:
    """Whether it has a seccomp filter; heaptop's own is inherited."""
    try:
        return read_facts(pid).seccomp != 0
    except ProcessNotFound:
        return False  # the session says so


def _start(launch: Launch, go: int, descriptor: int) -> subprocess.Popen[bytes]:
    launch.output.parent.mkdir(parents=True, exist_ok=True)
    with open(launch.output, "wb") as output:
        return subprocess.Popen(
            [launch.python, str(LAUNCHER), str(go), str(descriptor), *launch.argv],
            pass_fds=[go, descriptor],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def _bring_in(
    go: BinaryIO, ours: socket.socket, child: subprocess.Popen[bytes], text: str, request: Request
) -> None:
    """Send the bootstrap, and wait for the agent's first line."""
    began, heard = time.monotonic(), b""
    try:
        go.write(text.encode() + b"\0")
        while b"\n" not in heard:
            seconds = time.monotonic() - began
            request.progress("starting the program", seconds)
            if request.cancelled.is_set():
                raise AttachCancelled("The start was cancelled, and the program ended.")
            if seconds > START_LIMIT:
                raise LaunchFailed(f"The program did not start within {START_LIMIT:g} s.")
            if select.select([ours], [], [], 0.1)[0]:
                data = ours.recv(256)
                if not data:
                    raise LaunchFailed(f"The program ended at once; its output is in {_output(request)}.")
                heard += data
    except BrokenPipeError:
        raise LaunchFailed(f"The program ended at once; its output is in {_output(request)}.") from None
    if not heard.startswith(greeting(request.token, child.pid)):
        raise LaunchFailed("What answers in the program is not the agent that was sent.")


def _output(request: Request) -> str:
    return str(request.launch.output) if request.launch else "nowhere"
