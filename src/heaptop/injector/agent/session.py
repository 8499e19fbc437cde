"""One session, from its Hello to its Bye: it takes requests, and has the other modules answer them."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import Namespace, gc, posix
from heaptop.injector.agent.census import STOP_RATE
from heaptop.injector.agent.clock import WAITED, clock, cpu_clock, end_hold, rest_if_due
from heaptop.injector.agent.collector import watch_collections
from heaptop.injector.agent.core import receive_piece
from heaptop.injector.agent.hooks import install, uninstall
from heaptop.injector.agent.loader import check_socket
from heaptop.injector.agent.outbox import send_unsent
from heaptop.injector.agent.sampler import sampler
from heaptop.injector.agent.snapshot import (
    ask_snapshot,
    cancel_request,
    close_on_request,
    wait_for_snapshot,
    watch_snapshot,
)
from heaptop.injector.agent.tick import tick
from heaptop.injector.agent.values import MAX_NAME, MAX_WAITING
from heaptop.injector.agent.wire import WORK, receive, send, unpack

PROTOCOL = 1
CAPABILITIES = ["census.python", "gc", "ticks", "core", "memory", "sampler", "phases", "image", "collect"]
MAX_REQUEST = 1 << 19


def take_requests(s: Any) -> None:
    """Move the whole frames of the buffer to ``s.waiting``; answer those that cannot wait or mean nothing.

    EOFError("detach") ends the session: asked for, or the peer does not speak the protocol.
    """
    while len(s.buffer) >= 4:
        size = int.from_bytes(s.buffer[:4], "big")
        if size > MAX_REQUEST:
            s.reason = "a request longer than %d bytes" % MAX_REQUEST
            raise EOFError("detach")
        if len(s.buffer) < 4 + size:
            return
        with memoryview(s.buffer) as view:  # a slice of the buffer itself would be one more copy
            data = bytes(view[4 : 4 + size])
        del s.buffer[: 4 + size]
        try:
            message = unpack(data)
            if type(message) is not list or len(message) != 2 or type(message[0]) is not str:
                raise ValueError("not [kind, fields]")
            kind, fields = message
            if type(fields) is not dict:
                raise ValueError("not [kind, fields]")
        except ValueError as error:
            send(s, "failure", {"request": -1, "text": "malformed request: " + str(error)})
            continue
        dispatch(s, kind, fields)


def dispatch(s: Any, kind: str, fields: dict[str, Any]) -> None:
    """Answer one request, or queue it. Ticks, the sampler's and questions to an open snapshot are answered at once,
    also in the middle of a census; what takes longer waits its turn."""
    if kind == "detach?":
        s.reason = "asked to"
        raise EOFError("detach")
    if kind not in WORK and kind not in SNAPSHOT_WORK and kind not in ("tick?", "sampler?"):
        return  # a newer heaptop may ask for more than this agent knows
    number = fields.get("id")
    if type(number) is not int or not 0 <= number < 1 << 63:
        send(s, "failure", {"request": -1, "text": "a request without an id"})
    elif kind == "tick?":
        answer(s, number, tick)
    elif kind == "sampler?":
        s.sampler_request = fields
        answer(s, number, sampler)
    elif kind in SNAPSHOT_WORK:
        s.snapshot_request = fields
        answer(s, number, SNAPSHOT_WORK[kind])
    elif kind == "core?" and not receive_piece(s, number, fields):
        return
    elif len(s.waiting) >= MAX_WAITING:
        send(s, "failure", {"request": number, "text": "too many requests are waiting"})
    else:
        s.waiting.append((WORK[kind], fields))


def answer(s: Any, number: int, work: Any) -> None:
    """Run ``work(s, number)``; report what goes wrong in it, and go on with the session."""
    try:
        send_unsent(s)
        watch_collections(s)
        work(s, number)
        return
    except (OSError, EOFError):
        raise
    except MemoryError:
        text = "out of memory in the target"
    except RuntimeError as error:
        text = str(error)  # a sentence of the core's, or of ours
    except Exception as error:
        text = "%s: %s" % (defect(error), error)
    send(s, "failure", {"request": number, "text": text[:MAX_NAME]})


def serve_meanwhile(s: Any) -> None:
    """What a census does between two pieces of work: take requests in, and look at the open snapshot."""
    while receive(s):
        pass
    take_requests(s)
    watch_snapshot(s)


def defect(error: Any) -> str:
    """An unexpected error, and its line in our text: heaptop shows the module and its line instead."""
    line, at = 0, error.__traceback__
    while at is not None:
        line = at.tb_lineno if at.tb_frame.f_globals is globals() else line
        at = at.tb_next
    return "%s in agent line %d" % (type(error).__name__, line)


def serve(s: Any) -> None:
    """Answer requests until EOFError or OSError ends the session."""
    while True:
        take_requests(s)
        check_socket(s)
        watch_snapshot(s)
        if s.waiting:
            work, s.request = s.waiting.pop(0)
            posix.set_blocking(s.fd, False)
            answer(s, s.request["id"], work)
        elif s.questions:
            posix.set_blocking(s.fd, False)
            wait_for_snapshot(s)
            receive(s)
        else:
            posix.set_blocking(s.fd, True)
            end_hold(s)
            began = clock()
            receive(s)
            if clock() - began > WAITED:
                s.hold_cpu = cpu_clock()
            else:
                rest_if_due(s)


SNAPSHOT_WORK = {"ask?": ask_snapshot, "cancel?": cancel_request, "close?": close_on_request}


def new_state(fd: int, start_ns: int, compile_ns: int, early: bytes) -> Any:
    """What a session keeps, as it is at its beginning."""
    return Namespace(
        # the socket, and what is read of it
        fd=fd,
        socket=(0, 0),
        buffer=bytearray(early),
        # requests
        waiting=[],
        request={},  # what is being answered: kept here, where find_own finds it
        serve_meanwhile=serve_meanwhile,
        # the end
        pid=posix.getpid(),
        attached=True,
        reason="",
        left="",  # what could not be taken out of the target
        # messages that later ones build on
        unsent=[],  # (kind, fields), until they are out
        read=None,  # of the sampler, until there are messages of it
        typed=b"",  # what a census has found living samples to be, until a read takes it along
        read_typed=b"",  # with the read
        # the native core
        library=[],  # pieces of the native core, as far as it has come
        library_size=0,
        core=None,
        core_reason="heaptop has not sent the native core",
        core_build="",
        own_lasting=b"",  # addresses of those that are tracked and stay as long as we, once a core counts
        own_bytes=None,  # of our own objects, once somebody has asked
        # censuses
        crashes=0,  # censuses in a clone that failed, since the last that did not
        stop_rate=STOP_RATE,
        clone_knows_more=False,  # than a count in the target, which was given up for that
        counting=None,  # the census that is under way
        frozen=gc.get_freeze_count(),
        type_count=0,  # types that have a number in this session
        unread=[],  # (first number, msgpack) of types that the core has named
        names={},  # "module\0qualname": the session's number of a type
        new_names=[],
        # collections of garbage
        callback=None,
        leave=None,
        core_watches=False,  # the callback is the core's
        events=[],
        dropped=0,  # in all: only the threads that count write it
        dropped_sent=0,
        collections=0,
        gc_start=0,
        # the warning at a fork
        filters=[],
        filter_lists=[],
        # pauses and CPU time
        cpu_start=cpu_clock(),
        clones_cpu=0,
        hold_cpu=cpu_clock(),  # our CPU time when the GIL became ours, as far as we know
        stopped=0,  # nanoseconds for which a clone or a stop has lasted since then
        gil=0,  # the longest that the program has waited for us, without those
        longest=0,  # and with them
        start_ns=start_ns,
        compile_ns=compile_ns,
        core_ns=0,
        # the sampler
        sampler_id=0,
        sampler_request={},
        sampling=False,
        hooked=False,  # the core may have hooks in the target's allocators
        epoch=0,  # of the samples: raised whenever those before are void
        core_epoch=0,
        samples_dropped=0,
        intervals_sent=(0, 0),
        sampling_target=0,  # samples a second that the interval follows; 0: it stays as it was asked for
        paced_ns=0,  # when the interval was chosen last; 0: not yet
        paced_clock=0,  # bytes allocated until then
        exact_sent=False,
        # tracemalloc
        tracer=None,  # the module _tracemalloc, once it was asked for
        tracing=False,
        started_tracing=False,  # tracemalloc was switched on by us
        traced_files={},  # name: its number
        traced_codes={},  # file << 32 | line: its number
        traced_nodes={},  # caller's node << 32 | code: its number less 1, since there 0 is none
        codes_sent=0,
        nodes_sent=0,
        # phases
        phase_module=None,  # the program's own heaptop
        listener=None,
        phases=[],
        open_phases={},  # number of a phase that lasts: its name, and when it began
        sent_phases={},  # those of them that heaptop knows of
        phases_dropped=0,  # in all: only the threads that count write it
        phases_dropped_sent=0,
        # the open snapshot
        snapshot=0,  # number of the last
        snapshot_open=False,
        snapshot_request={},  # the question that is answered at once
        questions=[],  # (request, question) that it works on, and those that wait; the first is empty while it is built
        progress_sent=0,
    )


def converse(fd: int, token: str, start_ns: int = 0, compile_ns: int = 0, early: bytes = b"") -> None:
    """Run one session, from its Hello to its end. ``start_ns`` and ``compile_ns``: for how long the program has waited
    at a time until now, see Pauses. ``early``: what has been read of requests."""
    s = new_state(fd, start_ns, compile_ns, early)
    try:
        status = posix.fstat(fd)
        s.socket = (status.st_dev, status.st_ino)
        install(s)
        send(s, "hello", hello(s, token))
        serve(s)
    except (OSError, EOFError):
        pass
    except BaseException as error:
        s.reason = "the agent failed: " + defect(error)
    try:
        uninstall(s)
        if s.reason:
            send(s, "bye", {"reason": s.reason, "left": s.left})
    except BaseException:
        pass


def hello(s: Any, token: str) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "token": token,
        "pid": s.pid,
        "python": sys.version.split()[0],
        "executable": sys.executable if type(sys.executable) is str else "",
        "capabilities": CAPABILITIES,
        "gc_enabled": bool(gc.isenabled()),
        "time_ns": clock(),
    }
