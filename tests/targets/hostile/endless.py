"""An agent that sends one thing without end, and heaptop's side of the conversation, in a process with little memory:
``endless.py WHAT``. Ends well if all of it was read, or the session was ended for it."""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
import threading

import heaptop.analysis.samples.stacks
from heaptop.analysis.heap.history import History
from heaptop.analysis.samples.sampling import Sampling
from heaptop.errors import ProtocolError, SessionError
from heaptop.injector.session.conversation import Conversation, ConversationRequests
from heaptop.protocol import bounds
from heaptop.protocol.codec import encode
from heaptop.protocol.framing import frame
from heaptop.protocol.messages import (
    Census,
    CodeName,
    Codes,
    GcEvent,
    GcEvents,
    Message,
    Phase,
    Phases,
    Row,
    Sampler,
    StackNode,
    Stacks,
    TypeName,
    Types,
)
from heaptop.protocol.source import Event, Received
from heaptop.recordings.recording_state import RecordingState

ADDRESS_SPACE = 256 << 20
MESSAGES, FEWER = 200, 20
ITEMS = 4000
LONG = "x" * 600


def sampler(epoch: int) -> Sampler:
    return Sampler(1, epoch, True, 1024, 128, (1024,), epoch)


def messages(what: str, number: int) -> list[Message]:
    first = number * ITEMS
    several = range(first, first + ITEMS)
    if what == "types":
        return [Types(first, tuple(TypeName(LONG[:100], f"T{each}") for each in several))]
    if what == "codes":
        return [Codes(first, tuple(CodeName(LONG[:100], f"f{each}", 1) for each in several))]
    if what == "restarts":  # each epoch begins its numbers anew, with other names
        return [sampler(number), Codes(0, tuple(CodeName(LONG[:100], f"f{each}", 1) for each in several))]
    if what == "stacks":
        code = [Codes(0, (CodeName("f", "f", 1),))] if number == 0 else []
        return [*code, Stacks(first + 1, tuple(StackNode(max(each - 3, 0), 0, each) for each in several))]
    if what == "phases":
        return [Phases(tuple(Phase(f"{LONG}{each}", each, None) for each in several), 0)]
    if what == "collections":
        return [GcEvents(tuple(GcEvent(each, 0, 0, 0, 1, None, 1) for each in several), 0), sampler(number)]
    types = [Types(0, tuple(TypeName("", f"T{each}") for each in range(ITEMS)))] if number == 0 else []
    rows = tuple(Row(each, 0, number + 1, number + each + 1) for each in range(ITEMS))
    return [*types, Census(number, number, "clone", True, "", rows, 1, 1, 1, 1, 0)]


def serve(link: socket.socket, what: str) -> None:
    with link, contextlib.suppress(OSError):
        link.sendall(b"".join(frame(encode(one)) for one in ([] if what == "censuses" else [sampler(0)])))
        for number in range(MESSAGES if what in ("types", "codes", "restarts", "stacks") else FEWER):
            for message in messages(what, number):
                link.sendall(frame(encode(message)))


def main(what: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for name in ("CODES", "CODE_BYTES", "NUMBERS"):
        setattr(heaptop.analysis.samples.stacks, name, getattr(bounds, name) // 100)
    small = bounds.MessageBounds(bounds.TYPES // 100, bounds.TYPE_BYTES // 100)
    history, sampling, recording_state = History(cell_limit=400_000), Sampling(), RecordingState()

    def deliver(event: Event) -> None:
        if isinstance(event, Received):
            for feed in (history.feed, sampling.feed, recording_state.feed):
                feed(event.message)

    ours, theirs = socket.socketpair()
    threading.Thread(target=serve, args=(theirs, what), daemon=True).start()
    conversation = Conversation(
        ours,
        "token",
        interval=3600.0,
        max_share=1.0,
        deliver=deliver,
        orders=ConversationRequests(),
        outside_rss=lambda: 1,
        agent_lives=lambda: True,
    )
    conversation._link.gate = small
    why = ""
    with conversation:
        try:
            conversation.run()
        except (ProtocolError, SessionError) as error:
            why = error.message
    # Of this program alone: ru_maxrss has the parent's in it, whose memory a vfork shares.
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(f"kept within {peak} KiB: {why}")


if __name__ == "__main__":
    main(sys.argv[1])
