"""The agent run without injection: a target program starts it on a thread of its own, over a socketpair.

This module never traces and never injects: tests of the way in have their own support.
"""

from __future__ import annotations

import ast
import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from heaptop.injector import agent, native
from heaptop.injector.session.conversation import PIECE
from heaptop.protocol import codec, framing
from heaptop.protocol.messages import Core, CoreRequest, Hello, Message, TypeName, Types
from heaptop.protocol.registry import REPLIES
from tests.interpreters import Interpreter
from tests.support import processes

TARGETS = Path(__file__).parent.parent / "targets"
TOKEN = "a-token_1"

M = TypeVar("M", bound=Message)


def agent_space() -> dict[str, Any]:
    """The agent's names, made as in a target: by exec of its text in a dict of its own."""
    space: dict[str, Any] = {"__name__": "heaptop_agent"}
    exec(agent.source(), space)
    return space


class Session:
    """heaptop's end of a session, and the target's stdin and stdout."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self.process = process
        self.sock = sock
        self.types: list[TypeName] = []
        self._reader = framing.FrameReader()
        self._payloads: list[bytes] = []

    def tell(self, command: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command)
        self.process.stdin.flush()

    def ask(self, command: bytes) -> Any:
        """What the target answers to a command of one letter."""
        self.tell(command)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the target said nothing to {command!r}, exit code {self.process.poll()}"
        return ast.literal_eval(line.decode("ascii"))

    def start_agent(self) -> Hello:
        self.ask(b"a")
        greeting = b""
        while not greeting.endswith(b"\n"):
            piece = self.sock.recv(1)
            assert piece, "the bootstrap ended"
            greeting += piece
        assert greeting.startswith(agent.greeting(TOKEN, self.process.pid))
        self.sock.sendall(agent.framed_source())
        return self.expect(Hello)

    def give_core(self) -> Core:
        """Send the built native core; what became of it. The test is skipped where none is built."""
        try:
            library = native.library()
        except native.NoCore as why:
            pytest.skip(f"{why}: setup.py build_ext --inplace")
        for at in range(0, len(library.data), PIECE):
            self.send(CoreRequest(0, library.build, len(library.data), at, library.data[at : at + PIECE]))
        return self.expect(Core)

    def send(self, message: Message) -> None:
        self.sock.sendall(framing.frame(codec.encode(message)))

    def receive(self) -> Message | None:
        """The next message, through the product's own decoder; None at the end of the session."""
        while not self._payloads:
            data = self.sock.recv(1 << 16)
            if not data:
                return None
            self._payloads += self._reader.feed(data)
        message = codec.decode(self._payloads.pop(0), REPLIES)
        if isinstance(message, Types):
            assert message.first == len(self.types), "type ids have no gap"
            self.types += message.names
        return message

    def expect(self, kind: type[M]) -> M:
        """The next message of a kind; others on the way are taken in, and an end fails."""
        while True:
            message = self.receive()
            assert message is not None, f"the session ended before a {kind.KIND}"
            if isinstance(message, kind):
                return message

    def drain(self) -> list[Message]:
        """All messages up to the end of the session."""
        return list(iter(self.receive, None))

    def quit(self) -> int:
        """End the target by its own command; its exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.tell(b"q")
        return self.process.wait(30)


@contextlib.contextmanager
def session(
    interpreter: Interpreter,
    program: str,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    wrapper: Sequence[str] = (),
) -> Iterator[Session]:
    """A target with a bootstrap ready, not started; stderr must be empty at the end."""
    ours, theirs = socket.socketpair()
    script = interpreter.place(TARGETS / program)
    with ours, theirs:
        ours.settimeout(60)
        process = subprocess.Popen(
            [*wrapper, *interpreter.command([*options, script, *arguments])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
        )
        try:
            with process:
                found = Session(process, ours)
                # a chroot's exec keeps the pid: what Popen started is the interpreter itself
                text = agent.bootstrap(theirs.fileno(), TOKEN, process.pid, os.fstat(theirs.fileno()).st_ino).encode(
                    "ascii"
                )
                theirs.close()
                found.tell(len(text).to_bytes(4, "big") + text)
                yield found
                found.quit()
                assert process.stderr is not None
                assert process.stderr.read() == b""
        finally:
            processes.end(process)
