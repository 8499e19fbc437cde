"""The socket to an agent: sends bytes, receives messages, and never waits for an agent that has exited."""

from __future__ import annotations

import select
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final

from heaptop.errors import AgentLost, AttachCancelled
from heaptop.injector.inspect.links import ready, receive
from heaptop.protocol.bounds import MessageBounds
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.framing import FrameReader, frame
from heaptop.protocol.messages import Message
from heaptop.protocol.registry import REPLIES

READ_SIZE: Final = 1 << 16
NEVER: Final = float("inf")
ROOM_PATIENCE: Final = 0.2  # Seconds between two checks of whether to continue, while the agent reads nothing


class AgentLink:
    """A stream of frames in both directions."""

    def __init__(
        self,
        link: socket.socket,
        bell: socket.socket,
        leaving: Callable[[], bool],
        agent_lives: Callable[[], bool],
        gate: MessageBounds,
    ) -> None:
        """``bell`` ends a wait for messages. ``leaving()`` ends a wait for room to send. ``gate`` drops what is
        beyond its bounds."""
        self._link = link
        self._bell = bell
        self._leaving = leaving
        self._agent_lives = agent_lives
        self.gate = gate
        self.heard_at = time.monotonic()  # When the agent last sent anything
        self._frames = FrameReader()
        self._selector = selectors.DefaultSelector()
        self._selector.register(link, selectors.EVENT_READ)
        self._selector.register(bell, selectors.EVENT_READ)

    def close(self) -> None:
        """Stop waiting for it; the socket stays open."""
        self._selector.close()

    def send(self, message: Message) -> None:
        """Raises AttachCancelled, AgentLost."""
        self.send_raw(frame(encode(message)))

    def send_raw(self, data: bytes, end: float = NEVER) -> None:
        """All of it, until ``end`` at most; an agent that waits for the interpreter takes what fits the socket's
        buffer, and the rest later. Raises AttachCancelled when asked to leave before that, AgentLost."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._link.send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._wait_for_room(end)
            except (BrokenPipeError, ConnectionResetError):
                return  # what the agent sent before it closed is still to be read, and its end after that
            except OSError as error:
                raise AgentLost(f"The agent's socket failed: {error}.") from None

    def _wait_for_room(self, end: float) -> None:
        if self._leaving():
            raise AttachCancelled("The attach was cancelled.")
        if time.monotonic() > end:
            raise AgentLost("The agent accepted no request in time.")
        if not ready([self._link], ROOM_PATIENCE, select.POLLOUT) and not self._agent_lives():
            raise AgentLost("The agent has exited.")

    def read(self, timeout: float | None) -> Iterator[Message]:
        """The messages that came within ``timeout`` seconds. Raises SessionError."""
        for payload in self.payloads(timeout):
            message = decode(payload, REPLIES)
            kept = self.gate.take(message) if message is not None else None
            if kept is not None:
                yield kept

    def payloads(self, timeout: float | None) -> Iterator[bytes]:
        """The frames that came within ``timeout`` seconds, or nothing when the bell rang. Raises SessionError."""
        left = False
        for payload in self._frames.feed(b""):  # what came together with the last frame that was asked for
            left = True
            yield payload
        if not left:
            yield from self._frames.feed(self._receive(timeout))

    def _receive(self, timeout: float | None) -> bytes:
        """What came of the stream within ``timeout`` seconds; empty when nothing did."""
        came = [key.fileobj for key, _ in self._selector.select(timeout)]
        if self._bell in came:
            receive(self._bell, READ_SIZE)
        if self._link not in came:
            return b""
        try:
            data = receive(self._link, READ_SIZE)
        except ConnectionResetError:
            data = b""
        except OSError as error:
            raise AgentLost(f"The agent's socket failed: {error}.") from None
        if data is None:
            return b""  # somebody else has taken it: the target can have a copy of this very end
        if not data:
            self._frames.end()
            raise AgentLost("The agent closed its socket.")
        self.heard_at = time.monotonic()
        return data
