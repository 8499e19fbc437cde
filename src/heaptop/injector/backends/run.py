"""The third backend: heaptop starts the program itself, with the agent in it from its first line. No privileges.

The program runs under ``runpy`` as ``__main__``, in a session of its own (ctrl+C in heaptop's terminal is not for
it), its output in a file. It continues running when heaptop leaves.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import BinaryIO, Final

from heaptop import files
from heaptop.errors import AttachCancelled, HeaptopError, InjectionFailed, LaunchFailed, ProcessNotFound
from heaptop.injector.agent import bootstrap, greeting
from heaptop.injector.entry import hijack, launcher
from heaptop.injector.inspect import privileges
from heaptop.injector.inspect.links import HELLO_LIMIT, ready, receive
from heaptop.injector.inspect.process import read_facts
from heaptop.injector.inspect.threads import naming
from heaptop.injector.inspect.unshown import unshown_error
from heaptop.injector.preload import library, loading
from heaptop.injector.preload.malloc_table import executable
from heaptop.injector.requests import Connection, Launch, Launched, Request

START_LIMIT: Final = 20.0  # Seconds for the interpreter to come up
END_LIMIT: Final = 5.0  # Seconds for a program that was killed

LAUNCHER: Final = Path(launcher.__file__)


class RunBackend:
    """Needs a command to start in place of a process."""

    name = "run"

    def refusal(self, request: Request) -> HeaptopError | None:
        return None if request.launch is not None else InjectionFailed("No command to start.")

    def connect(self, request: Request) -> Connection:
        assert request.launch is not None
        if (unshown := unshown_error("to a program that it starts (heaptop run)")) is not None:
            raise unshown
        ours, theirs = socket.socketpair()
        hijack.sign(ours)
        reader, writer = os.pipe()
        gate = open(writer, "wb", buffering=0)  # noqa: SIM115  it is closed by Launched.go, or below
        with theirs, open(reader, "rb", buffering=0):
            try:
                child = _start(request.launch, reader, theirs.fileno())
            except BaseException as error:
                ours.close()
                gate.close()
                if not isinstance(error, OSError):
                    raise
                raise LaunchFailed(f"{request.launch.python} could not be started: {error}.") from None
            number = theirs.fileno()
            text = naming(number) + bootstrap(number, request.token, child.pid, os.fstat(number).st_ino)
        try:
            _bring_in(gate, ours, child, text, request)
            if request.launch.native is not None:
                if why := request.launch.native.refusal(child.pid):
                    raise LaunchFailed(f"Its native memory cannot be sampled: {why}.", fix=loading.FIX)
                request.launch.native.executable = executable(child.pid)
        except BaseException:
            ours.close()
            child.kill()
            gate.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(END_LIMIT)
            raise
        refusal = "the program runs under a seccomp filter that could not be read" if _filtered(child.pid) else ""
        return Connection(ours, self.name, child.pid, launched=Launched(child, gate), core_refusal=refusal)


def _filtered(pid: int) -> bool:
    """Whether it has a seccomp filter; heaptop's own is inherited."""
    try:
        return read_facts(pid).seccomp != 0
    except ProcessNotFound:
        return False  # the session says so


def _command(launch: Launch, go: int, descriptor: int) -> list[str]:
    """What to start. Raises OSError where that cannot be."""
    command = [launch.python, str(LAUNCHER), str(go), str(descriptor), *launch.argv]
    if launch.native is not None:
        loading.check(shutil.which(launch.python) or launch.python)
        variables = launch.native.environment(library(), os.environ.get("LD_PRELOAD", ""))
        return ["env", *variables, *command]
    if not privileges.dropped():
        return command
    # A process that gains capabilities by an execve can have no core dump, and is hidden from its like. After a second
    # execve, which gains nothing, the program is as without heaptop.
    if shutil.which(launch.python) is None:
        number = errno.EACCES if os.path.exists(launch.python) else errno.ENOENT
        raise OSError(number, os.strerror(number), launch.python)
    return ["env", *command]


def _start(launch: Launch, go: int, descriptor: int) -> subprocess.Popen[bytes]:
    launch.output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        made = files.create(str(launch.output), force=launch.force)
    except FileExistsError:
        raise LaunchFailed(
            f"The file {launch.output} exists already.",
            why="heaptop overwrites files only with `--force`.",
            fix="Choose another file, or overwrite it: `--force`.",
        ) from None
    try:
        child = subprocess.Popen(
            _command(launch, go, descriptor),
            pass_fds=[go, descriptor, *([launch.native.fd] if launch.native else [])],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=made.fd,
            stderr=made.fd,
        )
    except BaseException:
        made.give_up()
        raise
    try:
        made.take_place()
    except BaseException:
        made.give_up()
        child.kill()
        child.wait()
        raise
    os.close(made.fd)
    return child


def _bring_in(go: BinaryIO, ours: socket.socket, child: subprocess.Popen[bytes], text: str, request: Request) -> None:
    """Send the bootstrap, and wait for the agent's first line."""
    began, heard = time.monotonic(), b""
    try:
        go.write(text.encode() + b"\0")
        while b"\n" not in heard and len(heard) < HELLO_LIMIT:
            seconds = time.monotonic() - began
            request.progress("starting the program", seconds)
            if request.cancelled.is_set():
                raise AttachCancelled("The start was cancelled, and the program ended.")
            if seconds > START_LIMIT:
                raise LaunchFailed(f"The program did not start within {START_LIMIT:g} s.")
            if ready([ours], 0.1) and (data := receive(ours, HELLO_LIMIT - len(heard))) is not None:
                if not data:
                    raise LaunchFailed(f"The program exited at once; its output is in {_output(request)}.")
                heard += data
    except (BrokenPipeError, ConnectionResetError):
        raise LaunchFailed(f"The program exited at once; its output is in {_output(request)}.") from None
    if not heard.startswith(greeting(request.token, child.pid)) or not heard.endswith(b"\n"):
        raise LaunchFailed("The agent in the program is not the one that was sent.")


def _output(request: Request) -> str:
    return str(request.launch.output) if request.launch else "nowhere"
