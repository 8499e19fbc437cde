"""The open snapshot: a clone that stays.

It builds the graph of its heap, and answers questions, which only it understands: they are passed
on as they come, and so are its answers, which are frames of the protocol. While there is something to come, the agent
waits for it without the GIL, and looks at its socket in between.
"""

from __future__ import annotations

from typing import Any

from heaptop.injector.agent.base import gc, posix
from heaptop.injector.agent.clock import clock, cpu_clock, end_hold, exclude_call, rest
from heaptop.injector.agent.core import core_failure
from heaptop.injector.agent.own import core_options
from heaptop.injector.agent.values import MAX_NAME, MAX_WAITING, bounded
from heaptop.injector.agent.wire import WORK, send, write

PROGRESS = 250_000_000
"""Nanoseconds from one message on how far it has come to the next."""
SNAPSHOT_PHASES = (
    "walking the heap",
    "recording references",
    "finding roots",
    "searching",
    "finding dominators",
    "answering",
)
WAIT = 20_000_000
"""Nanoseconds from one look at the socket to the next, while an answer is awaited."""
MAX_KEEP = 24 * 3600 * 1_000_000_000


def open_snapshot(s: Any, number: int) -> None:
    """Freeze the process in a clone that stays. The answer follows once the clone has its graph."""
    close_snapshot(s)
    if s.core is None:
        raise RuntimeError("a snapshot needs the native core: " + s.core_reason)
    options = core_options(s, 0)
    options["id"] = number
    options["image"] = s.snapshot + 1
    options["keep_ns"] = bounded(s.request.get("keep_ns"), 600_000_000_000, 1_000_000_000, MAX_KEEP)
    options["memory"] = bounded(s.request.get("memory"), 0, 0, 1 << 62)
    options["gc_enabled"] = int(gc.isenabled())
    for _ in range(200):
        rest(s)
        cpu = cpu_clock()
        try:
            s.core.image_begin(options)
            exclude_call(s, cpu, 0)  # Image reports how long that was
            break
        except BlockingIOError:
            rest(s, 0.002)
    else:
        raise RuntimeError("the interpreter was collecting all the time")
    s.snapshot += 1
    s.snapshot_open = True
    s.questions = [(number, b"")]
    s.progress_sent = clock()


WORK["image?"] = open_snapshot


def ask_snapshot(s: Any, number: int) -> None:
    """Pass a question on; behind another one it waits."""
    body = s.snapshot_request.get("body")
    if not s.snapshot_open or s.snapshot_request.get("image") != s.snapshot:
        raise RuntimeError("that snapshot is closed")
    if type(body) is not bytes or len(s.questions) >= MAX_WAITING:
        raise RuntimeError("too many queries are waiting" if type(body) is bytes else "a query without a body")
    s.questions.append((number, body))
    if len(s.questions) == 1:
        send_question(s)


def send_question(s: Any) -> None:
    s.progress_sent = clock()
    if not s.core.image_ask(s.questions[0][1]):
        number = s.questions.pop(0)[0]
        send(s, "failure", {"request": number, "text": "the snapshot accepts no query now"})


def cancel_request(s: Any, number: int) -> None:
    """Give up the request with this number: a snapshot until it is there, a question until it is answered."""
    drop_waiting(s, number, "cancelled")
    for place, (asked, body) in enumerate(s.questions):
        if asked != number:
            continue
        if place:
            del s.questions[place]
            send(s, "failure", {"request": number, "text": "cancelled"})
        elif body:
            s.core.image_cancel()
        else:
            close_snapshot(s)
        return


def close_on_request(s: Any, number: int) -> None:
    """Close the snapshot, and drop those that wait to be made."""
    why = s.snapshot_request.get("why")
    why = why[:MAX_NAME] if type(why) is str else ""
    drop_waiting(s, -1, why or "it was closed")
    close_snapshot(s, why)


def drop_waiting(s: Any, number: int, why: str) -> None:
    """Drop the waiting request for a snapshot that has this number, or all of them (-1)."""
    given_up = [each for each in s.waiting if each[0] is open_snapshot and number in (-1, each[1]["id"])]
    s.waiting = [each for each in s.waiting if each not in given_up]
    for _, fields in given_up:
        send(s, "failure", {"request": fields["id"], "text": why})


def watch_snapshot(s: Any) -> None:
    """Send the snapshot's answer and its progress; close it when it has ended."""
    if not s.snapshot_open:
        return
    state, phase, done, total, used, _ = s.core.image_look()
    if state == -1:
        close_snapshot(s)
    elif state == 1:
        try:
            frames = s.core.image_take()
        except MemoryError:  # it would be there the next time, and the time after that
            close_snapshot(s, "no memory in the target for its answer")
            return
        del s.questions[:1]
        posix.set_blocking(s.fd, False)
        write(s, frames)
        if s.questions:
            send_question(s)
    elif s.questions and clock() - s.progress_sent > PROGRESS:
        s.progress_sent = clock()
        fields = {
            "id": s.questions[0][0],
            "phase": SNAPSHOT_PHASES[phase],
            "done": done,
            "total": total,
            "memory": used,
        }
        send(s, "progress", fields)


def wait_for_snapshot(s: Any) -> None:
    """Give the GIL back until the snapshot has an answer, or for a while."""
    end_hold(s)
    waited = s.core.image_wait(WAIT)
    s.hold_cpu = cpu_clock()
    if not waited:
        rest(s, WAIT / 1e9)


def send_snapshot_memory(s: Any) -> None:
    """Send what the snapshot alone holds, by its own count."""
    holding = s.core.image_look()[5] if s.snapshot_open else 0
    if holding:
        send(s, "image-memory", {"image": s.snapshot, "holding": holding})


def close_snapshot(s: Any, why: str = "") -> None:
    """End it and report that; open questions fail. ``why``: the reason, where nobody asked for its end."""
    if not s.snapshot_open:
        return
    s.snapshot_open = False
    try:
        reason, expected, cpu = s.core.image_end()
    except RuntimeError as error:
        reason, expected, cpu = core_failure(error), False, 0
    if why:
        reason, expected = why, False
    s.clones_cpu += cpu
    asked, s.questions = s.questions, []
    for number, _ in asked:
        send(s, "failure", {"request": number, "text": reason})
    send(s, "image-gone", {"image": s.snapshot, "reason": reason, "expected": bool(expected)})
