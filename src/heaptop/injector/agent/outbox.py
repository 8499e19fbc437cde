"""Messages that later ones build on. They are sent in order, also where memory runs out in the middle."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.clock import clock
from heaptop.injector.agent.tracer import tracing_refusal
from heaptop.injector.agent.values import texts
from heaptop.injector.agent.wire import array_size, send, unpack

RECYCLED = ["list", "dict", "tuple", "float"]
"""Types whose free lists hand a block on without freeing it: its site stays that of its first object."""
if sys.version_info >= (3, 14):
    RECYCLED += ["int", "complex", "range", "method", "their iterators"]
LONGEST_CODES = 16 << 20
"""Bytes: half of what a frame may have."""
CODES_PER_PART = 500


def send_reliably(s: Any, kind: str, fields: dict[str, Any]) -> None:
    """Send what later messages build on. Where there is no memory for it, it is sent before anything else is."""
    s.unsent.append((kind, fields))
    send_unsent(s)


def send_unsent(s: Any) -> None:
    """Send what could not be sent before."""
    if s.read is not None:
        messages, after = read_messages(s)
        s.unsent = s.unsent + messages  # the last that needs memory: nothing is changed before it
        s.epoch, s.core_epoch, s.sampling, s.intervals_sent, s.exact_sent, s.samples_dropped = after
        s.read = None
    while s.unsent:
        kind, fields = s.unsent[0]
        send(s, kind, fields)
        del s.unsent[0]


def read_messages(s: Any) -> tuple[list[tuple[str, dict[str, Any]]], tuple[Any, ...]]:
    """The messages for what was read, and what :func:`send_unsent` changes once they are kept."""
    codes, first_code, stacks, first_stack, births, deaths, stats = s.read
    now_void = stats["epoch"] != s.core_epoch or not stats["on"]
    epoch = s.epoch + now_void
    messages: list[tuple[str, dict[str, Any]]] = []
    if now_void:
        messages.append(("sampler", sampler_state(s, epoch, stats["note"], stats)))
    elif intervals_in(stats) != s.intervals_sent or stats["reborn"] != s.exact_sent:
        # the interval has followed the program; a thread went on with what was in force before a change, or in a
        # session before; or another tool's tracer is there by now
        messages.append(("sampler", sampler_state(s, epoch, "", stats)))
    if stats["on"]:
        messages += code_messages(codes, first_code)
        if array_size(stacks):
            messages.append(("stacks", {"first": first_stack, "nodes": stacks}))
        reply = {
            "time_ns": clock(),
            "clock": stats["clock"],
            "births": bytearray(births),
            "deaths": bytearray(deaths),
            "typed": bytearray(b"" if now_void else s.read_typed),
            "dropped": stats["dropped"] - s.samples_dropped,
        }
        messages.append(("samples", reply))
    after = (epoch, stats["epoch"], bool(stats["on"]), intervals_in(stats), stats["reborn"], stats["dropped"])
    return messages, after


def intervals_in(stats: dict[str, Any]) -> tuple[int, int]:
    """Shows whether heaptop has received them: how many there were, and the one in force."""
    return len(stats.get("intervals", [])), stats.get("interval", 0)


def sampler_state(s: Any, epoch: int, text: str, stats: dict[str, Any]) -> dict[str, Any]:
    """The fields of Sampler; ``stats`` as the core gave them, or empty where there is no sampling."""
    on = bool(stats.get("on"))
    reply = {
        "id": s.sampler_id,
        "time_ns": clock(),
        "on": on,
        "interval": stats["interval"] if on else 0,
        "depth": stats["depth"] if on else 0,
        "intervals": stats.get("intervals", []),
        "target": s.sampling_target if on else 0,
        "epoch": epoch,
        "text": text,
        "approximate": RECYCLED if on and not stats["reborn"] else [],
        "arrays": bool(on and stats["arrays"]),
        "path": texts(sys.path),
        "prefixes": texts((sys.base_prefix, sys.prefix, sys.exec_prefix)),
    }
    if s.tracing:
        depth = int(s.tracer.get_traceback_limit())
        reply.update({"on": True, "means": "tracemalloc", "interval": 1, "intervals": [1], "depth": depth})
    elif s.core is None:
        reply["offer"] = not tracing_refusal(s)
        reply["means"] = "native" if s.tracer is None else "tracemalloc"
    return reply


def code_messages(codes: bytes, first: int) -> list[tuple[str, dict[str, Any]]]:
    """What names them: one message, but where names are so long that its frame would be refused."""
    if len(codes) <= LONGEST_CODES:
        return [("codes", {"first": first, "names": codes})] if array_size(codes) else []
    names = unpack(codes)
    parts = range(0, len(names), CODES_PER_PART)
    return [("codes", {"first": first + at, "names": names[at : at + CODES_PER_PART]}) for at in parts]
