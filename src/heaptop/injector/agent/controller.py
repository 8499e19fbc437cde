"""The agent: the Python that runs inside the target, on a native thread of its own, in a dict of its own.

It answers heaptop's requests over one socket: a census (count every object), a tick (how is the process, and what it
has collected, sampled and named as phases since the last one), the sampler of allocations (on, off, otherwise), memory
(what the allocators hold), the native core (a library that counts and samples in its place), a snapshot that stays open
(built, asked, given up, closed), a collection of garbage, detach. It never runs the target's Python code on purpose (no
repr, hash, comparison, ``__sizeof__`` or attribute of a target's object), and never lets an exception out. Finalizers
run where a person asks for a collection, and for what the target drops while a census holds it. At its end it takes out
what it has put in; its goodbye says what it could not: hooks of the core that another tool's lie over, which pass
everything on.

Why it is written as it is:

- One file, syntax of 3.8, no stdlib but builtin modules: the target's library may be old, patched or deleted.
- No keyword arguments to C functions: the first use of one makes a tuple for good. The same goes for ``compile``.
- No class, and state in one ``SimpleNamespace``: a class is a reference cycle that only the target's collector
  would free, and it may be switched off. ``main``'s caller clears the dict; then everything dies by count.
- No ``time.sleep``, ``_thread`` lock or ``select``: gevent and friends replace them. ``sigtimedwait`` on an
  empty set rests for real, with the GIL released, and nobody patches it.
- It comes in pieces, and rests between them: what compiles never gives the GIL back, and all of this takes some 25 ms.
  For the same reason what may take longer than :data:`HOLD` rests in between.
- Reference counts: what a census holds lives as long as it is held. An object that the target drops meanwhile
  is freed by the agent's thread, and its finalizer runs there, as it would on any thread that collects.
- Two things stay after all, once, and a later attach finds them there: the core's library, which no program can
  unload safely, and from 3.12 on the names in our compiled code, which CPython makes immortal (500 strings, 30 kB).
- Two things an application may have that see the agent work: audit hooks (``gc.get_objects``,
  ``gc.get_referents``), and ``sys.monitoring`` tools. Neither can be avoided from Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

BROUGHT: list[Any] = []
"""Modules that the program had not imported: see :func:`let_modules_go`."""


def _module(name: str) -> Any:
    """A builtin module, without leaving an entry in ``sys.modules`` that was not there before."""
    found = sys.modules.get(name)
    if found is None:
        found = __import__(name)
        sys.modules.pop(name, None)
        BROUGHT.append(found)
    return found


def let_modules_go() -> None:
    """A module and its functions hold one another: without this they would stay until the program collects garbage.
    Whoever has imported the same meanwhile has a module of its own. The last that is done: nothing works after it.

    No ``itertools`` is among them: its types would stay all the same, for a type is always part of a cycle.
    """
    for module in BROUGHT:
        module.__dict__.clear()


gc = _module("gc")
posix = _module("posix")
signals = _module("_signal")
importing = _module("_imp")
Namespace: Any = type(sys.implementation)


# -- clocks -------------------------------------------------------------------------------------------------


def is_builtin(function: Any) -> bool:
    return type(function) is type(len)


def _pick_clock(own: str, clock_id: int) -> Callable[[], int]:
    """A nanosecond clock that nobody has replaced (freezegun puts Python functions into ``time``)."""
    time = _module("time")
    function: Any = getattr(time, own, None)
    if is_builtin(function):
        return function  # type: ignore[no-any-return]
    by_id: Any = getattr(time, "clock_gettime_ns", None)
    if is_builtin(by_id):
        return lambda: by_id(clock_id)
    # elapsed time since boot, in ticks of 1/100 s: coarse, but true
    return lambda: int(posix.times()[4] * 1_000_000_000)


clock = _pick_clock("monotonic_ns", 1)  # CLOCK_MONOTONIC
cpu_clock = _pick_clock("thread_time_ns", 3)  # CLOCK_THREAD_CPUTIME_ID


# -- how long the program waits for us ----------------------------------------------------------------------
#
# Between two rests the GIL may be ours all the time, and no Python code of the program's runs. That is measured by our
# own CPU time: by the wall clock it would have in it how long we have waited ourselves, for the GIL or a processor.

HOLD = 1_000_000
"""Nanoseconds after which we rest, where we can: the next piece of work may take as long again."""
WAITED = 100_000
"""Nanoseconds: a read that takes less has not waited, and nobody else has run meanwhile."""
REST = 0.0003
"""Seconds: long enough for a thread that waits for the GIL to wake up and take it."""
POLITE = 2_000_000_000
"""Nanoseconds after which the way in has no more rests: each costs many switch intervals where many threads want the
GIL, and heaptop does not wait for ever."""


def rest(s: Any, seconds: float = REST) -> None:
    """Give the GIL back for so long."""
    hold_ends(s)
    signals.sigtimedwait((), seconds)
    s.hold_cpu = cpu_clock()


def give_way(s: Any) -> None:
    """Between two pieces of work: rest when it is time."""
    if cpu_clock() - s.hold_cpu > HOLD:
        rest(s)


def hold_ends(s: Any) -> None:
    """Note for how long the program has waited since the last rest: in all, and without a clone or a stop."""
    held = cpu_clock() - s.hold_cpu
    s.gil = max(s.gil, held)
    s.longest = max(s.longest, held + s.stopped)
    s.stopped = 0


BEGUN = cpu_clock()
"""What the bootstrap and this piece have used of it, in two holds: the bootstrap waits for the piece in between."""


# -- the rest of this file ----------------------------------------------------------------------------------

MAX_PIECE = 1 << 20


def main(fd: int, token: str) -> None:
    """Serve one session on ``fd`` until the peer detaches or goes away. The caller closes ``fd`` afterwards.

    Only what stands above this line, and down to :func:`check_socket`, is there when it begins.
    """
    start = max(BEGUN, cpu_clock() - BEGUN)  # the bootstrap rests between the pieces
    try:
        compiling, early = load(fd)
        converse(fd, token, start, compiling, early)
    except BaseException:
        pass
    let_modules_go()


def load(fd: int) -> tuple[int, bytes]:
    """Run the rest of this file, of which each piece comes behind its length in 4 bytes; a length of 0 ends it. For how
    long the program has waited for that at a time, and what has come behind the end."""
    status = posix.fstat(fd)
    s = Namespace(fd=fd, socket=(status.st_dev, status.st_ino), hold_cpu=cpu_clock(), gil=0, longest=0, stopped=0)
    end = clock() + POLITE
    come = bytearray()
    while True:
        size = int.from_bytes(take_bytes(s, come, 4), "big")
        if not size:
            hold_ends(s)
            return int(s.gil), bytes(come)
        if size > MAX_PIECE:
            raise EOFError("too long")
        exec(take_bytes(s, come, size), globals())
        if clock() < end:
            give_way(s)


def take_bytes(s: Any, come: bytearray, size: int) -> bytes:
    """The next so many. They are read many at a time: each read gives the GIL back, and may have to wait for it."""
    while len(come) < size:
        check_socket(s)
        part = posix.read(s.fd, 1 << 17)
        if not part:
            raise EOFError("closed")
        come += part
    found = bytes(come[:size])
    del come[:size]
    return found


def check_socket(s: Any) -> None:
    """EOFError when the descriptor is not our socket any more.

    A program may close every descriptor it does not know (``os.closerange(3, 65536)``) and open others under the
    same numbers: to read, write or close those would be to meddle with its files.
    """
    try:
        status = posix.fstat(s.fd)
    except OSError:
        raise EOFError("closed") from None
    if (status.st_dev, status.st_ino) != s.socket:
        raise EOFError("closed")


PROTOCOL = 1
CAPABILITIES = ["census.python", "gc", "ticks", "core", "memory", "sampler", "phases", "image", "collect"]
MAX_REQUEST = 1 << 16
MAX_EVENTS = 4096
MAX_TYPES = 50_000
MAX_NAME = 512
MAX_WAITING = 16
MAX_CORE = 4 << 20
NAMES_PER_MESSAGE = 2_000
EVENT_FIELDS = 7
MAX_PHASES = 1024
MAX_RENAMING = 100

UNTRACKED = -1
PERMANENT = 3
ROWS = 5
"""Generations 0, 1, 2, permanent, untracked; -1 indexes the last, so a generation is its own index."""

BATCH = 256
PIECE = 2_000
BIG = 512
"""Containers longer than this are walked by pieces instead of with their batch."""


def leave_out_call(s: Any, cpu: int, stopped: int) -> None:
    """The call that began at ``cpu`` of our CPU time is no work of ours: it has stopped the program for ``stopped``."""
    s.hold_cpu += cpu_clock() - cpu
    s.stopped += stopped


# -- msgpack, as much as the messages need ------------------------------------------------------------------


def pack(value: Any, out: bytearray) -> None:
    """Append ``value`` (None, bool, int, str, list, tuple, dict, bytearray) to ``out`` as msgpack; bytes are
    msgpack already."""
    kind = type(value)
    if kind is int:
        _pack_int(value, out)
    elif kind is str:
        data = value.encode("utf-8", "backslashreplace")
        _pack_head(len(data), out, 0xA0, 32, 0xD9)
        out += data
    elif kind is list or kind is tuple:
        _pack_head(len(value), out, 0x90, 16, 0xDB)
        for item in value:
            pack(item, out)
    elif kind is dict:
        _pack_head(len(value), out, 0x80, 16, 0xDD)
        for key, item in value.items():
            pack(key, out)
            pack(item, out)
    elif value is None:
        out.append(0xC0)
    elif kind is bool:
        out.append(0xC3 if value else 0xC2)
    elif kind is bytes:
        out += value
    elif kind is bytearray:
        out.append(0xC6)
        out += len(value).to_bytes(4, "big")
        out += value
    else:
        raise ValueError("cannot pack " + kind.__name__)


def _pack_head(size: int, out: bytearray, fix: int, fixed: int, first: int) -> None:
    """The head of a str (``first`` is its 8-bit form), an array or a map (``first`` + 1 is the 16-bit form)."""
    if size < fixed:
        out.append(fix | size)
    elif first == 0xD9 and size < 1 << 8:
        out.append(first)
        out.append(size)
    elif size < 1 << 16:
        out.append(first + 1)
        out += size.to_bytes(2, "big")
    else:
        out.append(first + 2)
        out += size.to_bytes(4, "big")


def _pack_int(value: int, out: bytearray) -> None:
    if 0 <= value < 128:
        out.append(value)
    elif -32 <= value < 0:
        out.append(value & 0xFF)
    elif value >= 0:
        step = 0 if value < 1 << 8 else 1 if value < 1 << 16 else 2 if value < 1 << 32 else 3
        out.append(0xCC + step)
        out += min(value, (1 << 64) - 1).to_bytes(1 << step, "big")
    else:
        step = 0 if value >= -(1 << 7) else 1 if value >= -(1 << 15) else 2 if value >= -(1 << 31) else 3
        out.append(0xD0 + step)
        out += (max(value, -(1 << 63)) + (1 << (8 << step))).to_bytes(1 << step, "big")


_SIZES = {  # head: (what, bytes of the number or length that follows)
    0xC4: ("bin", 1), 0xC5: ("bin", 2), 0xC6: ("bin", 4),
    0xCA: ("float", 4), 0xCB: ("float", 8),
    0xCC: ("uint", 1), 0xCD: ("uint", 2), 0xCE: ("uint", 4), 0xCF: ("uint", 8),
    0xD0: ("int", 1), 0xD1: ("int", 2), 0xD2: ("int", 4), 0xD3: ("int", 8),
    0xD9: ("str", 1), 0xDA: ("str", 2), 0xDB: ("str", 4),
    0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip


def unpack(data: bytes) -> Any:
    """The one value in ``data``. A float comes back as None: no request has one. ValueError when malformed."""
    value, end = _unpack_at(data, 0, 0)
    if end != len(data):
        raise ValueError("bytes after the value")
    return value


def _unpack_at(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if at >= len(data) or depth > 8:
        raise ValueError("truncated" if depth <= 8 else "nested too deep")
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head >= 0xE0:
        return head - 256, at
    if head in (0xC0, 0xC2, 0xC3):
        return (None, False, True)[max(0, head - 0xC1)], at
    if head < 0xC0:
        what = "map" if head < 0x90 else "array" if head < 0xA0 else "str"
        size = head & (0x1F if what == "str" else 0x0F)
    else:
        what, width = _SIZES.get(head, ("", 0))
        if not what or at + width > len(data):
            raise ValueError("truncated or unknown")
        size = int.from_bytes(data[at : at + width], "big")
        if what == "int" and data[at] & 0x80:
            size -= 1 << 8 * width
        at += width
    if what in ("uint", "int"):
        return size, at
    if what == "float":
        return None, at
    if what in ("str", "bin"):
        if at + size > len(data):
            raise ValueError("truncated")
        body = data[at : at + size]
        return (body.decode("utf-8") if what == "str" else body), at + size
    if size > len(data) - at:  # every item takes a byte: no claim makes us allocate more than was sent
        raise ValueError("truncated")
    if what == "array":
        items = []
        for _ in range(size):
            item, at = _unpack_at(data, at, depth + 1)
            items.append(item)
        return items, at
    table = {}
    for _ in range(size):
        key, at = _unpack_at(data, at, depth + 1)
        if type(key) is not str:
            raise ValueError("a key that is not a string")
        table[key], at = _unpack_at(data, at, depth + 1)
    return table, at


# -- the socket ---------------------------------------------------------------------------------------------


def send(s: Any, kind: str, fields: dict[str, Any]) -> None:
    """One frame: length (4 bytes, big-endian), then msgpack [kind, fields]. OSError when the peer is gone."""
    out = bytearray(4)
    pack([kind, fields], out)
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    write(s, out)


def write(s: Any, out: Any) -> None:
    """Whole frames. OSError when the peer is gone."""
    at = 0
    view = memoryview(out)
    try:
        while at < len(out):
            check_socket(s)
            try:
                at += posix.write(s.fd, view[at : at + (1 << 18)])
            except BlockingIOError:
                rest(s, 0.002)
    except MemoryError:
        raise EOFError("cut") from None  # nobody knows how much of the frame is out
    except BrokenPipeError:
        # the signal that came with it is blocked here and pending on this thread alone: take it away
        signals.sigtimedwait((13,), 0)
        raise
    finally:
        view.release()


def tell(s: Any, kind: str, fields: dict[str, Any]) -> None:
    """Send what later messages build on. Where there is no memory for it, it is sent before anything else is."""
    s.unsaid.append((kind, fields))
    settle(s)


def settle(s: Any) -> None:
    """Send what could not be sent before."""
    if s.read is not None:
        messages, after = told_of(s)
        s.unsaid = s.unsaid + messages  # the last that needs memory: nothing is changed before it
        s.epoch, s.core_epoch, s.sampling, s.intervals_told, s.exact_told, s.samples_dropped = after
        s.read = None
    while s.unsaid:
        kind, fields = s.unsaid[0]
        send(s, kind, fields)
        del s.unsaid[0]


def receive(s: Any) -> bool:
    """Read what there is into the buffer; False when there is nothing now. EOFError when the peer has closed."""
    check_socket(s)
    try:
        data = posix.read(s.fd, 1 << 16)
    except BlockingIOError:
        return False
    if not data:
        raise EOFError("closed")
    s.buffer += data
    return True


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
        data = bytes(s.buffer[4 : 4 + size])
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
        take(s, kind, fields)


def take(s: Any, kind: str, fields: dict[str, Any]) -> None:
    """One request. Ticks, the sampler's and what an open image is asked are taken at once, also in the middle of a
    census; what takes longer waits its turn."""
    if kind == "detach?":
        s.reason = "asked to"
        raise EOFError("detach")
    if kind not in WORK and kind not in IMAGE_WORK and kind not in ("tick?", "sampler?"):
        return  # a newer heaptop may ask for more than this agent knows
    number = fields.get("id")
    if type(number) is not int or not 0 <= number < 1 << 63:
        send(s, "failure", {"request": -1, "text": "a request without an id"})
    elif kind == "tick?":
        answer(s, number, tick)
    elif kind == "sampler?":
        s.sampler_request = fields
        answer(s, number, sampler)
    elif kind in IMAGE_WORK:
        s.image_request = fields
        answer(s, number, IMAGE_WORK[kind])
    elif kind == "core?" and not take_piece(s, number, fields):
        return
    elif len(s.waiting) >= MAX_WAITING:
        send(s, "failure", {"request": number, "text": "too many requests are waiting"})
    else:
        s.waiting.append((WORK[kind], fields))


def answer(s: Any, number: int, work: Any) -> None:
    """Run ``work(s, number)``; what goes wrong in it is told, and the session goes on."""
    try:
        settle(s)
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
        text = "%s: %s" % (type(error).__name__, error)
    send(s, "failure", {"request": number, "text": text[:MAX_NAME]})


def serve(s: Any) -> None:
    """Answer requests until EOFError or OSError says that it is over."""
    while True:
        take_requests(s)
        check_socket(s)
        watch_image(s)
        if s.waiting:
            work, s.request = s.waiting.pop(0)
            posix.set_blocking(s.fd, False)
            answer(s, s.request["id"], work)
        elif s.asked:
            posix.set_blocking(s.fd, False)
            rest(s, s.image_rest)
            s.image_rest = min(1.5 * s.image_rest, 0.02)
            receive(s)
        else:
            posix.set_blocking(s.fd, True)
            hold_ends(s)
            began = clock()
            receive(s)
            if clock() - began > WAITED:
                s.hold_cpu = cpu_clock()
            else:
                give_way(s)


# -- how is the process -------------------------------------------------------------------------------------


def resident() -> int | None:
    """Resident bytes by /proc/self/statm, or None."""
    try:
        fd = posix.open("/proc/self/statm", posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            return int(posix.read(fd, 256).split()[1]) * int(posix.sysconf("SC_PAGE_SIZE"))
        finally:
            posix.close(fd)
    except (OSError, ValueError, IndexError):
        return None


def threads() -> int:
    """Python's own threads: the main one and those that ``_thread`` started; -1 when that cannot be said.

    ``sys._current_frames()`` would make a frame object for each; this asks for the counter. The agent's thread,
    which is native, is not in it.
    """
    count: Any = getattr(_module("_thread"), "_count", None)
    return 1 + int(count()) if is_builtin(count) else -1


def tick(s: Any, number: int) -> None:
    """Answer with Tick, after the GC events, phases and samples since the last one, and what an open image holds."""
    keep_filter_first(s)
    listen_to_phases(s)
    send_phases(s)
    send_samples(s)
    send_image_memory(s)
    rows, dropped = ended_collections(s)
    if rows or dropped:
        send(s, "gc", {"events": rows, "dropped": dropped})
    send(
        s,
        "tick",
        {
            "id": number,
            "time_ns": clock(),
            "rss": resident(),
            "blocks": sys.getallocatedblocks(),
            "gc_enabled": bool(gc.isenabled()),
            "gc_counts": list(gc.get_count()),
            "frozen": gc.get_freeze_count(),
            "threads": threads(),
            "agent_cpu_ns": cpu_clock() - s.cpu_start + s.clones_cpu,
            "garbage": garbage(),
            "exits": exits(),
        },
    )


def garbage() -> int:
    """How many objects the collector has set aside; the program may have put anything in that list's place."""
    found: Any = gc.__dict__.get("garbage")
    return len(found) if type(found) is list else 0


def exits() -> int | None:
    """Callbacks registered with atexit, where the program has imported it; None where that cannot be said."""
    module: Any = sys.modules.get("atexit")
    count: Any = module.__dict__.get("_ncallbacks") if type(module) is type(sys) else None
    return int(count()) if is_builtin(count) else None


def collect(s: Any, number: int) -> None:
    """Have garbage collected in full, as a person has asked, and answer with Collected. The program's finalizers run
    here: while one of them waits, so do we, and ticks with us."""
    run: Any = gc.collect
    if not is_builtin(run):
        raise RuntimeError("the program has put something else in the place of gc.collect")
    was_known = known_to_threading()
    cpu = cpu_clock()
    try:
        reply = collected(run)
    finally:
        leave_out_call(s, cpu, 0)  # Collected says how long that was
        rename_started()
        if known_to_threading() and not was_known:
            forget_by_threading()
    reply["id"] = number
    send(s, "collected", reply)


def collected(run: Any) -> dict[str, int]:
    """What ``run``, which is ``gc.collect``, has found, by the interpreter's own sum: it returns 0 also where another
    thread is collecting, and has done nothing then."""
    for _ in range(200):
        before, begin = gc.get_stats()[2], clock()
        run()
        end, after = clock(), gc.get_stats()[2]
        if after["collections"] > before["collections"]:
            break
        signals.sigtimedwait((), 0.01)
    else:
        raise RuntimeError("the interpreter was collecting all the time")
    reply = {"time_ns": begin, "duration_ns": end - begin}
    reply.update([(name, after[name] - before[name]) for name in ("collected", "uncollectable")])
    return reply


def thread_name(file: str) -> bytes:
    """What stands in a thread's ``comm``; empty where it cannot be read, or the thread is gone."""
    try:
        fd = posix.open(file, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            return posix.read(fd, 64)[:-1]  # type: ignore[no-any-return]
        finally:
            posix.close(fd)
    except OSError:
        return b""


def rename_started() -> None:
    """Give threads that finalizers have started here the main thread's name. They have ours, by which heaptop would
    take them for an agent; one that has it still may start another, so it is looked until none is found."""
    own, usual = thread_name("/proc/thread-self/comm"), thread_name("/proc/self/comm")
    if not own or not usual or own == usual:
        return
    for _ in range(MAX_RENAMING):
        try:
            ours = posix.readlink("/proc/thread-self").rpartition("/")[2]
            tids = posix.listdir("/proc/self/task")
        except OSError:
            return
        files = ["/proc/self/task/" + tid + "/comm" for tid in tids if tid != ours]
        named = [file for file in files if thread_name(file) == own]
        for file in named:
            rename(file, usual)
        if not named:
            return


def rename(file: str, name: bytes) -> None:
    try:
        fd = posix.open(file, posix.O_WRONLY | posix.O_CLOEXEC)
        try:
            posix.write(fd, name)
        finally:
            posix.close(fd)
    except OSError:
        pass  # it is gone


def known_threads() -> Any:
    """``threading``'s own table of threads, by their idents; None where there is none, or not the usual one."""
    module = sys.modules.get("threading")
    found = module.__dict__.get("_active") if type(module) is type(sys) else None
    return found if type(found) is dict else None


def own_ident() -> Any:
    """This thread's, as ``threading`` knows it; None where somebody has replaced what says it."""
    function: Any = getattr(_module("_thread"), "get_ident", None)
    return function() if is_builtin(function) else None


def known_to_threading() -> bool:
    """Whether ``threading`` has an entry for this thread, which it did not start: it makes one, for good, when code
    that runs here asks for the current thread."""
    table = known_threads()
    return table is not None and own_ident() in table


def forget_by_threading() -> None:
    """Take that entry out: another thread may have our ident once we are gone."""
    known_threads().pop(own_ident(), None)


def taken(rows: list[Any]) -> list[Any]:
    """Empty a list that other threads append to, and return what was in it. The list stays: a thread may have looked
    it up already, and append to it only after this."""
    found = rows[:]
    del rows[: len(found)]
    return found


def memory(s: Any, number: int) -> None:
    """Answer with Memory: what the allocators say of themselves. What is resident, heaptop sees from outside."""
    begin = clock()
    allocator, malloc, library, gap = "", None, "", ""
    if s.core is None:
        gap = "What malloc holds free only the native core can ask, and there is none: %s." % s.core_reason.rstrip(".")
    else:
        stats = s.core.heap_stats()
        allocator, malloc = stats["allocator"] or "", stats["malloc"]
        library = stats["foreign"] or ""
        if malloc is None:
            gap = "The program's malloc is not glibc's, but that of %s." % (library or "another library")
    end = clock()
    if s.own_bytes is None:
        s.own_bytes = own_bytes(s)
    send(
        s,
        "memory",
        {
            "id": number,
            "time_ns": begin,
            "blocks": sys.getallocatedblocks(),
            "allocator": allocator,
            "malloc": malloc,
            "malloc_gap": gap,
            "malloc_library": library,
            "duration_ns": end - begin,
            "own_pages": [] if s.core is None else s.core.own_pages(),
            "own_small": s.own_bytes[0],
            "own_large": s.own_bytes[1],
        },
    )


def own_bytes(s: Any) -> tuple[int, int]:
    """About how many bytes our own objects take: of those that fit Python's arenas, and of larger ones.

    A name that the target has too is counted as ours, and what only C keeps for us (threads, caches) is not.
    """
    small = large = 0
    seen = not_own(s)
    stack = [globals(), globals().get("BOOT"), s]
    while stack:
        o = stack.pop()
        kind: Any = type(o)
        follow = any(kind is t for t in FOLLOWED)
        if id(o) in seen or not (follow or any(kind is t for t in LEAVES)):
            continue
        seen.add(id(o))
        size = kind.__sizeof__(o) + (GC_HEAD if follow else 0)
        if size <= LARGEST_SMALL:
            small += size
        else:
            large += size
        if follow:
            stack += gc.get_referents(o)
        elif kind is CODE:
            stack += code_members(o)
        if not len(seen) & 63:
            give_way(s)
    return small, large


# -- the sampler of allocations -----------------------------------------------------------------------------

MAX_INTERVAL = 1 << 40
MAX_DEPTH = 1024
SAMPLES_PER_READ = 4_000
READS_PER_TICK = 16
"""What is more than this many reads can carry comes with the next tick."""
SAMPLES_SLICE = 1_500_000
"""Nanoseconds of our own CPU time that reads may take between two rests; a read takes 1 ms, where all is new."""
SAMPLES_REST = 0.003
LONGEST_CODES = 16 << 20
"""Bytes: half of what a frame may have."""
CODES_PER_PART = 500
RECYCLED = ["list", "dict", "tuple", "float"]
"""Types whose free lists hand a block on without freeing it: its site stays that of its first object."""
if sys.version_info >= (3, 14):
    RECYCLED += ["int", "complex", "range", "method", "their iterators"]
COVERED = 20
"""How often removing hooks that lie under another's is tried, every :data:`COVERED_REST` seconds."""
COVERED_REST = 0.02


def sampler(s: Any, number: int) -> None:
    """Switch sampling on, off, or to another rate; answer with Sampler."""
    interval = bounded(s.sampler_request.get("interval"), 0, 0, MAX_INTERVAL)
    depth = bounded(s.sampler_request.get("depth"), 128, 1, MAX_DEPTH)
    s.sampler_id = number
    text = ""
    if not interval:
        text = joined(stop_sampling(s), stop_tracing(s))
    elif s.core is None:
        text = s.core_reason
        if s.sampler_request.get("tracer") is True:
            text = start_tracing(s, depth)
    else:
        try:
            if s.sampling:
                s.core.sample_set(interval, depth)
            else:
                text = start_sampling(s, interval, depth)
        except (OSError, RuntimeError, MemoryError) as error:
            text = core_failure(error)
    tell_sampler(s, text)


def start_sampling(s: Any, interval: int, depth: int) -> str:
    """Begin; why not, or an empty text."""
    exact = s.sampler_request.get("exact") is True
    options = {"interval": interval, "depth": depth, "seed": 0, "bytes": 0, "own": own_code(s), "reborn": exact}
    s.hooked = True
    s.core.sample_start(options)
    refusal = s.core.sample_stats()["reborn_refusal"]
    if refusal:
        return joined("exact sites cannot be had: " + refusal, stop_sampling(s))
    s.sampling = True
    s.epoch += 1
    s.core_epoch = s.samples_dropped = 0
    s.typed = b""  # of samples that are no more
    return ""


def own_code(s: Any) -> list[Any]:
    """What of ours runs on the target's threads: it is not the program that allocates there."""
    functions = [s.callback, s.leave, s.listener] + ([] if s.filter is None else [s.filter[1].match])
    return [function.__code__ for function in functions if type(function) is FUNCTION]


def tell_sampler(s: Any, text: str) -> None:
    stats = s.core.sample_stats() if s.sampling else {}
    s.intervals_told = -1  # where there is no memory to say it, it goes with the next samples
    tell(s, "sampler", sampler_state(s, s.epoch, text, stats))
    s.intervals_told, s.exact_told = len(stats.get("intervals", [])), stats.get("reborn", False)


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
        reply["offer"] = not no_tracing(s)
        reply["means"] = "native" if s.tracer is None else "tracemalloc"
    return reply


def texts(values: Any) -> list[str]:
    """Those that are plain strings, as short ones; an application may put anything into ``sys.path``."""
    return [value[:MAX_NAME] for value in values if type(value) is str][:MAX_PATHS] if is_plain(values) else []


def is_plain(values: Any) -> bool:
    return type(values) is list or type(values) is tuple


MAX_PATHS = 256


def send_samples(s: Any) -> None:
    """What was sampled since the last time, with what a census has found living samples to be.

    That (``s.typed``) goes with the first read after it: a number may stand for another sample later. What is waiting
    is read in small parts, each one call of C; where the next may not fit the slice, we rest without the GIL before it.
    """
    if not s.sampling:
        unhook(s)
        watch_tracing(s)
        return
    settle(s)  # one read at a time: a tick in the middle of a census may have had no memory for its own
    begin, cost = cpu_clock(), 0
    for _ in range(READS_PER_TICK):
        before = cpu_clock()
        if before - begin + cost > SAMPLES_SLICE:
            rest(s, SAMPLES_REST)
            begin = before
        s.read = s.core.sample_read(SAMPLES_PER_READ)
        s.read_typed = s.typed
        s.typed = b""
        more = s.read[-1]["more"]
        settle(s)
        cost = cpu_clock() - before
        if not more or not s.sampling:
            return


def told_of(s: Any) -> tuple[list[tuple[str, dict[str, Any]]], tuple[Any, ...]]:
    """The messages for what was read, and what :func:`settle` changes once they are kept."""
    codes, first_code, stacks, first_stack, births, deaths, stats = s.read
    now_void = stats["epoch"] != s.core_epoch or not stats["on"]
    epoch = s.epoch + now_void
    messages: list[tuple[str, dict[str, Any]]] = []
    if now_void:
        messages.append(("sampler", sampler_state(s, epoch, stats["note"], stats)))
    elif len(stats["intervals"]) != s.intervals_told or stats["reborn"] != s.exact_told:
        # a thread went on with what was in force before a change, or in a session before; or another tool's tracer
        # is there by now
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
    after = (epoch, stats["epoch"], bool(stats["on"]), len(stats["intervals"]), stats["reborn"], stats["dropped"])
    return messages, after


def code_messages(codes: bytes, first: int) -> list[tuple[str, dict[str, Any]]]:
    """What names them: one message, but where names are so long that its frame would be refused."""
    if len(codes) <= LONGEST_CODES:
        return [("codes", {"first": first, "names": codes})] if array_size(codes) else []
    names = unpack(codes)
    parts = range(0, len(names), CODES_PER_PART)
    return [("codes", {"first": first + at, "names": names[at : at + CODES_PER_PART]}) for at in parts]


def stop_sampling(s: Any) -> str:
    """Sample no more; what could not be taken out of the allocators, or an empty text."""
    s.sampling = False
    text = ""
    for _ in range(COVERED):
        text = unhook(s)
        if not text:
            break
        rest(s, COVERED_REST)
    return text


def unhook(s: Any) -> str:
    """Take the sampler's hooks out, as far as that can be; until it could, it is tried again at each tick."""
    if not s.hooked:
        return ""
    text = str(s.core.sample_stop())
    s.hooked = bool(text)
    return text


# -- tracemalloc, where there is no native core and a person has agreed to what it costs -------------------
#
# It is switched on from here, on a thread of the target like any other, and asked of each object that a census meets:
# a copy of all its traces would hold the GIL for seconds. What it cannot be taken out of safely it is left in:
#
#    another tool hooked in before us, and left meanwhile    our hooks went with it; stop() would write its own back
#    another tool hooked in after us, and is there           stop() throws its hook out; when it leaves, it writes ours
#                                                            back, which then work without their tables, and crash
#
# The first can be seen, by a block that has no trace. The second cannot be seen from Python, so tracing is not begun
# where such a tool is loaded, and not ended once one was. Nor is it begun where stop() itself is not safe
# (STOPS_SAFELY). A tracemalloc that the program has switched on is read everywhere: we neither begin nor end it.

MAX_TRACED_DEPTH = 4
"""Frames of a stack. A loop that does nothing but allocate takes 4 to 9 times its CPU time with one, 5 to 11 times with
4, 10 to 30 times with 16; and the agent itself is such a loop."""
TRACED_PIECE = 100
"""Objects that are counted between two looks at the clock: one takes 10 µs on 3.8, 40 µs on 3.11."""
MAX_TRACED = 1 << 15
"""Rows of a census, and in a session files, places in them, and nodes of the tree of stacks. What is beyond is told
as left out."""
MAX_32 = 0xFFFFFFFF
TRACED_FIELDS = (4, 4, 4, 8, 8)
HOOKING = ("memray._memray", "ddtrace.profiling.collector._memalloc", "filprofiler", "scalene.pywhere")
"""Modules that may put hooks of their own into the allocators, at any time once they are there."""
TRACER = "_tracemalloc"
INTERPRETERS = ("_interpreters", "_xxsubinterpreters")
STOPS_SAFELY = ((3, 12, 9), (3, 13, 2), (3, 14, 4))
"""The first releases whose tracemalloc.stop() survives threads that allocate without the GIL (zlib, lzma): before, it
frees what they are about to write to (gh-128679, mended in January 2025; never up to 3.11), or may wait for them for
ever (gh-144763, 3.14, mended in February 2026). The last stands for all that came after it, too."""


def no_tracing(s: Any) -> str:
    """Why tracemalloc is not to be used here; empty where it may be: begun, or read where it is the program's own."""
    if TRACER not in sys.builtin_module_names:
        return "this Python has no tracemalloc"
    here: Any = getattr(sys.modules.get(TRACER), "is_tracing", None)
    return "" if is_builtin(here) and here() else no_beginning()


def no_beginning() -> str:
    """Why tracemalloc is not to be switched on; empty where it may be."""
    found = hooking()
    if found:
        return "%s is loaded, and no other tool's hooks can be taken out safely beside its own" % found
    for name in INTERPRETERS:
        count: Any = getattr(sys.modules.get(name), "list_all", None)
        if is_builtin(count) and len(count()) > 1:
            return "there are several interpreters, and tracemalloc is not safe with them"
    return "" if stops_safely(tuple(sys.version_info[:3])) else CRASHES % tuple(sys.version_info[:3])


CRASHES = (
    "Python %d.%d.%d can crash when tracemalloc is switched off beside other threads (gh-128679); it can be used from "
    "3.12.9, 3.13.2 and 3.14.4 on, or where the program has switched it on itself"
)


def stops_safely(version: tuple[int, ...]) -> bool:
    for first in STOPS_SAFELY:
        if version[:2] == first[:2]:
            return version >= first
    return version > STOPS_SAFELY[-1]


def hooking() -> str:
    return next(iter([name.partition(".")[0] for name in HOOKING if name in sys.modules]), "")


def start_tracing(s: Any, depth: int) -> str:
    """Trace from now on; why not, or an empty text. A tracemalloc that the program has switched on is used as it is."""
    if s.tracing:
        return ""
    text = no_tracing(s)
    if text:
        return text
    tracer = _module(TRACER)
    begins = not tracer.is_tracing()
    text = no_beginning() if begins else ""  # once more: the program may have ended its own since
    if text:
        return text
    s.tracer = tracer
    if begins:
        s.traces_here = True
        tracer.start(min(depth, MAX_TRACED_DEPTH))
    s.tracing = True
    s.epoch += 1
    return ""


def watch_tracing(s: Any) -> None:
    """Say when somebody else has ended what we began."""
    if not s.tracing:
        return
    text = ""
    if not s.tracer.is_tracing():
        text = "the program has stopped tracemalloc"
    elif not is_traced(s.tracer):
        text = LOST_TRACER
    if text:
        stop_tracing(s)
        tell_sampler(s, text)


LOST_TRACER = "another tool has taken tracemalloc's hooks out together with its own"


def is_traced(tracer: Any) -> bool:
    """Whether what is allocated now gets a trace: then tracemalloc's hooks are where it put them."""
    # more than once: tracemalloc itself may be out of memory for a moment
    return any(tracer._get_object_traceback(bytes(1000)) is not None for _ in range(3))


def stop_tracing(s: Any) -> str:
    """End what :func:`start_tracing` began; why it goes on all the same, or an empty text."""
    s.tracing = False
    text = ""
    if s.traces_here and s.tracer.is_tracing():
        found = hooking()
        if found:
            return "tracemalloc stays on: %s has been loaded since, whose hooks may lie over its own" % found
        if is_traced(s.tracer):
            s.tracer.stop()
        else:
            s.tracer.clear_traces()
            text = LOST_TRACER
    s.traces_here = False
    return text


def trace(c: Any, o: Any, k: int, size: int, sign: int) -> None:
    """Add an object of type ``c.types[k]`` to who allocated it, or take it away again."""
    places = c.trace(o)
    if places is None:
        return
    stack = stack_of(c, places)
    kind = 0 if size <= 32 else 1 if size <= 256 else 2 if size <= 2048 else 3
    key = (stack << 32 | c.wire[k]) << 2 | kind
    if stack < 0 or (key not in c.traced_counts and len(c.traced_counts) >= MAX_TRACED):
        c.left_out += sign
        c.left_out_bytes += sign * size
        return
    c.traced_counts[key] = c.traced_counts.get(key, 0) + sign
    c.traced_bytes[key] = c.traced_bytes.get(key, 0) + sign * size


def stack_of(c: Any, places: Any) -> int:
    """The session's number of a stack, or -1. It is known again by its hash alone, of which there are 2**64: a tuple
    that is kept would be met by the next census."""
    try:
        key = hash(places)
    except Exception:  # a file's name may be of a type of the program's own
        return -1
    stack = c.stack_of.get(key)
    if stack is None:
        if len(c.stack_of) >= MAX_TRACED:
            return -1
        stack = c.stack_of[key] = stack_number(c.session, places)
    return int(stack)


def stack_number(s: Any, places: Any) -> int:
    """The session's number of a stack, which comes innermost first; -1 where there is no more room."""
    node = 0
    for i in range(len(places) - 1, -1, -1):
        file, line = places[i]
        number = number_of(s.traced_files, file[:MAX_NAME] if type(file) is str else "?")
        code = number_of(s.traced_codes, number << 32 | line) if number >= 0 else -1
        node = 1 + number_of(s.traced_nodes, node << 32 | code) if code >= 0 else 0
        if not node:
            return -1
    return node


def number_of(table: dict[Any, int], key: Any) -> int:
    """Of an entry of a table, which may be a new one; -1 where the table is full."""
    number = table.get(key)
    if number is None:
        if len(table) >= MAX_TRACED:
            return -1
        number = table[key] = len(table)
    return number


def traced_tables(s: Any) -> list[Any]:
    """Large, and of nothing but numbers and texts: nobody need look into them for objects of ours."""
    return [s.traced_files, s.traced_codes, s.traced_nodes]


def send_traced(c: Any) -> None:
    """Who allocated what this census has counted, in pieces; a node comes before those it leads to."""
    s = c.session
    files, codes = list(s.traced_files), list(s.traced_codes)
    for start in range(s.codes_told, len(codes), NAMES_PER_MESSAGE):
        part = codes[start : start + NAMES_PER_MESSAGE]
        tell(s, "codes", {"first": start, "names": [(files[key >> 32], "", key & MAX_32) for key in part]})
        s.codes_told = start + len(part)
        breathe(c)
    nodes = list(s.traced_nodes)
    for start in range(s.nodes_told, len(nodes), NAMES_PER_MESSAGE):
        part = nodes[start : start + NAMES_PER_MESSAGE]
        told = [(key >> 32, key & MAX_32, codes[key & MAX_32] & MAX_32) for key in part]
        tell(s, "stacks", {"first": start + 1, "nodes": told})
        s.nodes_told = start + len(part)
        breathe(c)
    rows = bytearray()
    for key, count in c.traced_counts.items():
        if count:
            figures = (key >> 34, key >> 2 & MAX_32, key & 3, count, max(c.traced_bytes[key], 0))
            for i in range(len(figures)):
                rows += figures[i].to_bytes(TRACED_FIELDS[i], "little")
            breathe(c)
    reply = {"time_ns": c.begin, "rows": rows, "left_out": max(c.left_out, 0)}
    reply["left_out_bytes"] = max(c.left_out_bytes, 0)
    watch_tracing(s)
    if s.tracing and c.epoch == s.epoch:  # else it was off meanwhile: what was counted then has no trace, or another's
        send(s, "traced", reply)


# -- phases that the program names itself -------------------------------------------------------------------
#
# A program that imports heaptop may say ``with heaptop.phase("load"):``. That module calls its listener, which is ours
# while we are here: a word and a time go into a bounded list, nothing else.


def listen_to_phases(s: Any) -> None:
    """Be the listener of a heaptop that the program has imported by now."""
    found = sys.modules.get("heaptop")
    if s.phase_module is not None or type(found) is not type(sys):
        return
    space = found.__dict__
    if "_listener" in space and space["_listener"] is None:
        space["_listener"] = s.listener
        s.phase_module = found


def make_listener(s: Any) -> Any:
    """What the program's phases call, on whichever thread they begin and end. A phase is known from its beginning to
    its end, or not at all: where there is no room for it, its end means nothing either."""

    def heaptop_phase(name: str, number: int, begins: bool) -> None:
        try:
            if not s.attached or posix.getpid() != s.pid:
                return
            now = clock()
            if not begins:
                begun = s.open_phases.pop(number, None)
                if begun is not None:
                    s.phases.append((begun[0], begun[1], now))
            elif type(name) is str and len(s.open_phases) + len(s.phases) < MAX_PHASES:
                s.open_phases[number] = (name[:MAX_NAME], now)
            else:
                s.phases_dropped += 1
        except Exception:  # not the KeyboardInterrupt of a signal's handler, which is the program's own
            s.phases_dropped += 1

    return heaptop_phase


def send_phases(s: Any) -> None:
    """Those that ended since the last time, and those that last and were not said yet."""
    ended, dropped = taken(s.phases), s.phases_dropped - s.phases_dropped_told
    s.phases_dropped_told += dropped
    said, s.said_phases = s.said_phases, s.open_phases.copy()
    rows = [[name, begin, end] for name, begin, end in ended]
    rows += [[begun[0], begun[1], None] for number, begun in s.said_phases.items() if number not in said]
    if rows or dropped:
        send(s, "phases", {"phases": rows, "dropped": dropped})


# -- hooks: collections, and the warning at fork ------------------------------------------------------------


def make_gc_callback(s: Any) -> Any:
    """The function for ``gc.callbacks`` where there is no core. It runs on whichever thread collects, so it is short
    and never raises. But with a signal waiting, the program's handler runs where a Python function begins, and what it
    raises in a callback of the collector is lost to the program. The core's function is in C, for that reason."""

    def heaptop_gc(phase: str, info: dict[str, int]) -> None:
        try:
            if posix.getpid() != s.pid:
                leave_child(s)
            elif phase == "start":
                s.collections += 1
                s.gc_start = clock()
            elif len(s.events) >= MAX_EVENTS * EVENT_FIELDS:
                s.dropped += 1
            else:
                generation = info["generation"]
                row = (
                    s.gc_start,
                    generation,
                    info["collected"],
                    info["uncollectable"],
                    clock() - s.gc_start,
                    sys.getallocatedblocks() if generation == 2 else None,
                    s.core.sample_clock() if s.sampling else None,
                )
                # flat, so that no tracked tuple is left behind in the middle of a collection
                s.events.extend(row)
        except BaseException:
            s.dropped += 1

    return heaptop_gc


def watch_collections(s: Any) -> None:
    """Put a callback in, unless there is one, or a core on its way; the core's, as soon as there is a core."""
    before = s.callback
    if s.library or s.core_watches or (before is not None and s.core is None):
        return
    if s.core is None:
        s.callback = make_gc_callback(s)
    else:
        try:
            s.core.gc_watch(s.leave, sys.getallocatedblocks)
        except MemoryError:
            return  # the next request tries again
        s.core_watches = True
        s.callback = s.core.heaptop_gc
    gc.callbacks.append(s.callback)
    if before is not None:
        remove_identical(gc.callbacks, before)


def make_leave(s: Any) -> Any:
    """What the core's callback calls in a fork's child."""

    def heaptop_leave() -> None:
        leave_child(s)

    return heaptop_leave


def begun_collections(s: Any) -> int:
    """How many have begun since there is a callback."""
    return int(s.core.gc_begun()) if s.core_watches else int(s.collections)


def ended_collections(s: Any) -> tuple[list[Any], int]:
    """Rows of what has ended since the last time, and how many had no room."""
    events, dropped = taken(s.events), s.dropped
    rows = [events[i : i + EVENT_FIELDS] for i in range(0, len(events), EVENT_FIELDS)]
    if s.core_watches:
        noted, more = s.core.gc_read()
        rows += noted
        dropped += more
    new, s.dropped_told = dropped - s.dropped_told, dropped
    return rows, new


def make_matcher(s: Any) -> Any:
    """What stands for a regular expression in our warnings filter; only its ``match`` is ever called.

    It matches the warning that 3.12+ gives at fork because of *our* thread: when the process has exactly one
    other. With more of its own, the application would have been warned without us, and is.
    """
    text = "This process (pid=%d) is multi-threaded, use of " % s.pid

    def match(message: str) -> bool:
        try:
            return (
                s.attached
                and message.startswith(text)
                and posix.getpid() == s.pid
                and len(posix.listdir("/proc/self/task")) == 2
            )
        except BaseException:
            return False

    return Namespace(match=match)


def current_filters() -> Any:
    """The list that the interpreter looks warnings up in, now (``catch_warnings`` swaps it)."""
    warnings = sys.modules.get("warnings")
    found = getattr(warnings, "filters", None)
    if type(found) is not list:
        found = getattr(_module("_warnings"), "filters", None)
    return found if type(found) is list else None


def keep_filter_first(s: Any) -> None:
    """Have our entry in front: a ``simplefilter("error")`` of the application would make its fork raise.

    ``_filters_mutated`` is not called on purpose. It only empties the registries of warnings already shown, and
    they would be shown again; an entry that says "ignore" is never registered there.
    """
    if s.filter is None:
        return
    filters = current_filters()
    if filters is None or (filters and filters[0] is s.filter):
        return
    remove_identical(filters, s.filter)
    filters.insert(0, s.filter)
    if not any(known is filters for known in s.filter_lists):
        s.filter_lists = [*s.filter_lists[-7:], filters]


def remove_identical(items: list[Any], item: Any) -> None:
    """Remove every entry that is ``item`` itself; ``list.remove`` would compare, and run somebody's ``__eq__``."""
    for i in range(len(items) - 1, -1, -1):
        if i < len(items) and items[i] is item:
            del items[i]


def install(s: Any) -> None:
    """Put the warnings filter in, once what a fork has left here of another agent is out."""
    for callback in gc.callbacks[:]:
        if type(callback) in (FUNCTION, type(len)) and callback.__name__ == "heaptop_gc":
            callback("start", {})  # else it would leave at the next collection, and close the core that is ours by then
    s.leave = make_leave(s)
    s.listener = make_listener(s)
    listen_to_phases(s)
    if sys.version_info >= (3, 12):
        s.filter = ("ignore", make_matcher(s), DeprecationWarning, None, 0)
        keep_filter_first(s)
        boot = globals().get("BOOT")
        if boot is not None and boot["E"] is not None:
            remove_identical(boot["F"], boot["E"])  # ours asks each time how many threads there are


def uninstall(s: Any) -> None:
    """Take out what :func:`install` put in; safe to call twice, and in any state."""
    s.attached = False
    s.left = joined(stop_sampling(s), stop_tracing(s))
    drop_core(s)
    if s.phase_module is not None and s.phase_module.__dict__.get("_listener") is s.listener:
        s.phase_module.__dict__["_listener"] = None
    s.phase_module = s.listener = None
    if s.callback is not None:
        remove_identical(gc.callbacks, s.callback)
    if s.filter is not None:
        last = current_filters()
        for filters in s.filter_lists + ([] if last is None else [last]):
            remove_identical(filters, s.filter)
        boot = globals().get("BOOT")
        if boot is not None and boot["E"] is not None and last is not None and posix.getpid() == s.pid:
            boot["F"] = last  # the bootstrap takes it out with its last line
            last.insert(0, boot["E"])
    s.callback = s.leave = s.filter = None  # both functions know s: this breaks the cycle
    s.filter_lists = []


def leave_child(s: Any) -> None:
    """In a forked child, where our thread does not exist: unhook, and close our socket if it is still that."""
    if not s.attached:
        return
    s.attached = False  # at once: two threads may come here
    if s.core is not None:
        s.core.abort()  # the clone is not this process's: it lets go of what it has of it
        if s.hooked:
            s.core.sample_leave()
    s.sampling = s.hooked = s.image_open = False
    uninstall(s)
    try:
        check_socket(s)
        posix.close(s.fd)
    except (OSError, EOFError):
        pass
    if s.counting is not None:
        drop_lists(s.counting)
        s.counting = None


# -- the native core ----------------------------------------------------------------------------------------
#
# heaptop sends the library in pieces. It goes into a memfd, is loaded from there as an extension module, and the
# memfd is closed: nothing is written to the target's file system, and no module stands in sys.modules. A library is
# never unloaded, so the next session finds it in /proc/self/maps by the memfd's name, which has the build in it and
# the number that the memfd had. glibc looks a library up by the path it was first loaded by, before it opens
# anything: the same path gives the same library, whatever the number means by now. So that another build, whose
# memfd may have the same number, is not taken for this one, the path spells the build, in "." and "/":
#
#    build 4c1f…, number 7  ►  /proc/self/fd//.///../…/7   ►  memfd "heaptop-core-4c1f…-7"

CORE_NAME = "heaptop-core-%s-"
MEMFD_FLAGS = (0x11, 0x01, 0x09)
"""Close-on-exec with MFD_EXEC (Linux 6.3), as older kernels know it, and with MFD_NOEXEC_SEAL, where
``vm.memfd_noexec`` allows nothing else (the seal forbids to execute it as a program, not to map it)."""
READ_SIZE = 1 << 16
"""glibc gives a block of 128 KiB or more a mapping, and once that is freed keeps larger ones in its heaps: for good,
and for the whole program. So what the agent reads and keeps at once is smaller."""


def take_piece(s: Any, number: int, fields: dict[str, Any]) -> bool:
    """Take a piece of the library in; whether it is whole now. Pieces that do not fit are answered with Failure."""
    build, size, at, data = [fields.get(name) for name in ("build", "size", "at", "data")]
    if at == 0:
        s.library, s.library_size = [], 0
    fits = (
        type(build) is str
        and len(build) == 16
        and not build.strip("0123456789abcdef")
        and type(size) is type(at) is int
        and type(data) is bytes
        and at == s.library_size
        and at + len(data) <= size <= MAX_CORE
    )
    if not fits:
        s.library, s.library_size = [], 0
        send(s, "failure", {"request": number, "text": "a piece of the native core that does not fit"})
        return False
    s.library.append(data)
    s.library_size += len(data)  # type: ignore[arg-type]
    return bool(s.library_size == size)


def load_core(s: Any, number: int) -> None:
    """Load the library that has come, let it check itself, and say what became of it."""
    build = s.request["build"]
    library, s.library, s.library_size = s.library, [], 0
    reused = False
    if s.core is None:
        try:
            rest(s)
            s.core, reused = import_core(build, library)
            rest(s)
            s.core.abort()  # forgets the clone of a process that this one was forked from
            s.core.open(sys.hexversion)
            rest(s)
            s.core_reason = self_check(s)
        except Exception as error:
            s.core_reason = core_failure(error)
        if s.core_reason:
            drop_core(s)
    watch_collections(s)
    s.core_build = build
    tell_core(s, number, s.core is not None, reused)
    s.core_ns = max(s.core_ns, longest_hold(s)[0])


def tell_core(s: Any, number: int, loaded: bool, reused: bool) -> None:
    reply = {"id": number, "build": s.core_build, "loaded": loaded, "reused": reused, "text": s.core_reason}
    send(s, "core", reply)


def self_check(s: Any) -> str:
    """What differs from the interpreter, or an empty text. While another thread collects, nothing can be compared."""
    s.core.give_way = make_giver(s)
    for _ in range(200):
        try:
            text = str(s.core.check(gc))
            break
        except BlockingIOError as error:
            text = str(error)
        rest(s, 0.01)
    del s.core.give_way  # it knows s, and s the core
    return text


def make_giver(s: Any) -> Any:
    """What the core's check calls between its parts."""
    end = clock() + POLITE

    def heaptop_give_way() -> None:
        if clock() < end:
            give_way(s)

    return heaptop_give_way


def core_failure(error: Any) -> str:
    """What went wrong with the core, in a few words. dlopen's begin with the path, which tells nobody anything."""
    text = str(error)
    if isinstance(error, ImportError):
        text = "the native core could not be loaded: " + text[text.find(": ") + 2 :]
    elif isinstance(error, OSError):
        text = str(error.strerror)
    elif isinstance(error, MemoryError):
        text = "out of memory in the target"
    return text[:MAX_NAME].rstrip(".")


def drop_core(s: Any) -> None:
    """Let the module go. Its functions know it and it knows them: emptying it breaks that cycle."""
    core, s.core = s.core, None
    s.image_open = s.core_watches = False
    if core is not None:
        core.gc_unwatch()
        core.close()
        core.__dict__.clear()


def import_core(build: str, library: Any) -> tuple[Any, bool]:
    """The library as a module of this session's own, and whether it was mapped already."""
    number = mapped_number(build)
    if number is not None:
        return import_at(core_path(build, number)), True
    fd, number = make_memfd(build)
    inode = posix.fstat(fd).st_ino
    try:
        try:
            posix.stat("/proc/self/fd/%d" % fd)
        except OSError:
            raise RuntimeError("there is no /proc in the target's file system to load the native core from") from None
        for piece in library:
            at = 0
            while at < len(piece):
                at += posix.write(fd, piece[at:])
        return import_at(core_path(build, number)), False
    finally:
        if posix.fstat(fd).st_ino == inode:
            posix.close(fd)


def import_at(path: str) -> Any:
    """Load an extension module as the import system does, but for its tables."""
    module = importing.create_dynamic(Namespace(name="_core", origin=path))
    importing.exec_dynamic(module)
    return module


def core_path(build: str, number: int) -> str:
    bits = bin(int(build, 16) | 1 << 64)[3:]
    return "/proc/self/fd/" + bits.replace("0", "/").replace("1", "./") + str(number)


def make_memfd(build: str) -> tuple[int, int]:
    """A memfd whose name has its own number in it: the number to expect is the one that was just closed."""
    create = getattr(posix, "memfd_create", None)
    if create is None:
        raise RuntimeError("the target's Python was built without memfd_create")
    number = 0
    for _ in range(64):
        fd = create_memfd(create, (CORE_NAME % build) + str(number))
        if fd == number:
            return fd, number
        posix.close(fd)
        number = fd
    raise RuntimeError("the target opens files too fast for a memfd to be named after its number")


def create_memfd(create: Any, name: str) -> int:
    failure: Any = None
    for flags in MEMFD_FLAGS:
        try:
            return int(create(name, flags))
        except OSError as error:
            failure = error
    raise RuntimeError("the target's kernel refused a memfd: %s" % failure.strerror)


def mapped_number(build: str) -> int | None:
    """The number in the name of the memfd that this build is mapped from; None when it is not."""
    name = ("/memfd:" + CORE_NAME % build).encode()
    text = b""
    try:
        fd = posix.open("/proc/self/maps", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return None
    try:
        while True:
            piece = posix.read(fd, READ_SIZE)
            text = text[-MAX_NAME:] + piece
            at = text.find(name)
            if at >= 0 and (text.find(b"\n", at) >= 0 or not piece):
                return int(text[at + len(name) :].split(None, 1)[0])
            if not piece:
                return None
    finally:
        posix.close(fd)


# -- the census ---------------------------------------------------------------------------------------------

WALL = 0x40000000
"""``__WALL`` of wait(2): a clone that sends no signal at its end is waited for with nothing less."""
MAX_CRASHES = 3
CLONE_TIME = 30_000_000_000
"""Nanoseconds that a count in a clone may take, and :data:`CLONE_RATE` more for each memory block."""
CLONE_RATE = 1_000
CLONE_PATIENCE = 1_000_000_000
"""Nanoseconds after which the core has ended a clone whose time is over."""
STOP_RATE = 100
"""Nanoseconds that a count in the target itself is expected to take for each memory block, before there was one."""
BLOCK_SIZE = 64
"""Bytes of a memory block, where nobody counts them."""


def census(s: Any, number: int) -> None:
    """Count the heap in the best mode that can be had, and answer with Types and Census, or with Decision."""
    mode, reason = text_field(s, "mode"), text_field(s, "reason")
    watch_tracing(s)
    if mode != "python" and s.core is None:
        mode, reason = "python", s.core_reason
    if mode == "clone":
        reason = census_in_clone(s, number)
        if not reason:
            return
        mode = "python" if s.crashes else "stop"
    if mode == "stop":
        stopped = census_stopped(s, number, reason)
        if not stopped:
            return
        reason = stopped
    census_in_slices(s, number, reason)


def text_field(s: Any, name: str) -> str:
    found = s.request.get(name)
    return found[:MAX_NAME] if type(found) is str else ""


def census_in_clone(s: Any, number: int) -> str:
    """Count in a clone of the process; why that cannot be, or an empty text when the request was answered.

    A clone that fails is a failed census: the next one is counted in a clone again. After some failures in a row
    they are taken for a fault of the core's, which then counts no more in this session.
    """
    if s.crashes >= MAX_CRASHES:
        return str(s.core_reason)
    begin, cpu = clock(), cpu_clock()
    limit = CLONE_TIME + CLONE_RATE * memory_blocks()
    try:
        child, pause, pause_cpu = begin_clone(s, limit)
    except (OSError, RuntimeError, MemoryError) as error:
        return "no clone could be made: " + core_failure(error)
    try:
        wait_for(s, child, begin + limit + CLONE_PATIENCE)
        types, rows, stats = s.core.end()
    except MemoryError as error:
        return "a clone could not count: %s" % error
    except RuntimeError as error:
        s.clones_cpu += clock() - begin  # what it used is not known any more: at most a core all the time
        s.crashes += 1
        s.core_reason = "%d censuses in a clone failed in a row, the last one: %s" % (s.crashes, core_failure(error))
        if s.crashes == MAX_CRASHES:
            tell_core(s, number, False, False)
        raise
    finally:
        s.core.abort()  # nothing, when it has ended
    s.crashes = 0
    s.clones_cpu += stats["cpu_ns"]
    cpu = cpu_clock() - cpu + stats["cpu_ns"]
    send_counted(s, number, "clone", "", types, rows, stats, begin, (pause, pause_cpu), cpu)
    return ""


def begin_clone(s: Any, limit: int) -> tuple[int, int, int]:
    """(pid of the clone, which may live for ``limit`` ns; nanoseconds of pause; of these, our CPU time). While the
    interpreter collects, its lists are not to be read."""
    for _ in range(200):
        options = core_options(s, limit)
        rest(s)  # the pause shall have nothing else in it
        cpu = cpu_clock()
        try:
            _, child, pause = s.core.begin(s.type_count, options)
        except BlockingIOError:
            rest(s, 0.002)
            continue
        used = cpu_clock() - cpu
        leave_out_call(s, cpu, pause)
        return int(child), int(pause), min(int(pause), used)
    raise RuntimeError("the interpreter was collecting all the time")


def wait_for(s: Any, child: int, end: int) -> None:
    """Rest until the clone has ended or its time is over, and answer ticks meanwhile; only the core buries it."""
    seconds = 0.001
    while clock() < end:
        try:
            if posix.waitid(posix.P_PID, child, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT | WALL) is not None:
                return
        except OSError:  # no child any more; or no such wait in this kernel, or under this filter: the core waits
            return
        rest(s, seconds)
        seconds = min(1.5 * seconds, 0.01)
        while receive(s):
            pass
        take_requests(s)
        watch_image(s)


def census_stopped(s: Any, number: int, reason: str) -> str:
    """Count while the target stands still; why that cannot be, or an empty text when the request was answered."""
    blocks = memory_blocks()
    if not blocks:
        return joined(reason, "how long the target would stand still cannot be foreseen")
    expected = int(blocks * s.stop_rate)
    budget = bounded(s.request.get("budget_ns"), 100_000_000, 0, 1 << 62)
    if expected > budget:
        fields = {"request": number, "mode": "stop", "reason": reason, "pause_ns": expected, "budget_ns": budget}
        send(s, "decision", fields)
        return ""
    begin, cpu = clock(), cpu_clock()
    options = core_options(s, 0)
    rest(s)
    stop_cpu = cpu_clock()
    try:
        types, rows, stats = s.core.stop(s.type_count, options)
    except (OSError, RuntimeError, MemoryError) as error:
        return joined(reason, "not stopped either: " + core_failure(error))
    # By the core's own clock: when it is back, whoever has waited for the GIL runs first, and not we.
    pause, used = stats["pause_ns"], cpu_clock() - stop_cpu
    leave_out_call(s, stop_cpu, pause)
    s.stop_rate = min(pause, used) / blocks
    send_counted(s, number, "stop", reason, types, rows, stats, begin, (pause, min(pause, used)), cpu_clock() - cpu)
    return ""


def joined(*reasons: str) -> str:
    return "; ".join([reason for reason in reasons if reason])


def memory_blocks() -> int:
    """How many there are, or as many as resident memory has room for where Python's allocator is another (it counts
    none then); 0 where neither can be said."""
    return sys.getallocatedblocks() or (resident() or 0) // BLOCK_SIZE


def core_options(s: Any, limit: int) -> dict[str, Any]:
    """What the core has to know: the addresses of the agent's own tracked objects, which it leaves out; and how many
    nanoseconds a clone may live."""
    spaces = own_spaces()
    if not s.own_lasting:  # that walk takes some milliseconds, and the rest of it none
        lasting = own_reach(s, spaces + own_frames()[1], [], None)
        s.own_lasting = b"".join([address.to_bytes(8, sys.byteorder) for address in lasting])
    own = memoryview(s.own_lasting).cast("Q").tolist()
    own += own_reach(s, [s], spaces, None)
    own += own_frames()[0]
    options = {"own": own, "wall_ns": limit}
    own += (id(own), id(options))
    return options


def send_counted(
    s: Any,
    number: int,
    mode: str,
    reason: str,
    types: bytes,
    rows: bytes,
    stats: dict[str, Any],
    begin: int,
    pause: tuple[int, int],
    cpu: int,
) -> None:
    """What the core has counted, as Types and Census; its msgpack goes into the messages as it is. ``pause``: by the
    clock, and of that our CPU time."""
    s.typed = s.typed + stats["typed"]
    new = array_size(types)
    if new:
        first = s.type_count
        s.unread.append((first, types))
        s.type_count += new
        tell(s, "types", {"first": first, "names": types})
    send_samples(s)
    reply = {
        "id": number,
        "time_ns": begin,
        "mode": mode,
        "mode_reason": reason,
        "complete": bool(stats["complete"]),
        "cut": stats["cut"],
        "rows": rows,
        "duration_ns": clock() - begin,
        "cpu_ns": cpu,
        "agent_bytes": stats["child_bytes"],
        "sizeof_guessed": stats["sizeof_guessed"],
    }
    reply.update(pauses(s, pause))
    send(s, "census", reply)


def longest_hold(s: Any) -> tuple[int, int]:
    """For how long the program has waited for us at a time, since this was asked last: without a clone or a stop, and
    in all."""
    hold_ends(s)
    found = (s.gil, s.longest)
    s.gil = s.longest = 0
    s.hold_cpu = cpu_clock()
    return found


def pauses(s: Any, stopped: tuple[int, int]) -> dict[str, Any]:
    """The fields of Census that say what the program has felt since the last one."""
    gil, longest = longest_hold(s)
    return {"pause_ns": longest, "pauses": (s.start_ns, s.compile_ns, s.core_ns, gil, *stopped)}


def array_size(packed: bytes) -> int:
    """How many items a packed array says it has."""
    head = packed[0]
    return head & 15 if head < 0xA0 else int.from_bytes(packed[1 : 3 if head == 0xDC else 5], "big")


# -- the open snapshot --------------------------------------------------------------------------------------
#
# A clone that stays. It builds the graph of its heap, and answers questions, which only it understands: they are passed
# on as they come, and so are its answers, which are frames of the protocol. Nobody waits for it: while there is
# something to come, the agent looks at it between two rests.

PROGRESS = 250_000_000
"""Nanoseconds from one message on how far it has come to the next."""
IMAGE_PHASES = (
    "walking the heap",
    "writing down references",
    "finding roots",
    "searching",
    "finding dominators",
    "answering",
)
MAX_KEEP = 24 * 3600 * 1_000_000_000


def image(s: Any, number: int) -> None:
    """Freeze the process in a clone that stays. What it has found is told when it has."""
    close_image(s)
    if s.core is None:
        raise RuntimeError("an image needs the native core: " + s.core_reason)
    options = core_options(s, 0)
    options["id"] = number
    options["image"] = s.image + 1
    options["keep_ns"] = bounded(s.request.get("keep_ns"), 600_000_000_000, 1_000_000_000, MAX_KEEP)
    options["memory"] = bounded(s.request.get("memory"), 0, 0, 1 << 62)
    options["gc_enabled"] = int(gc.isenabled())
    for _ in range(200):
        rest(s)
        cpu = cpu_clock()
        try:
            s.core.image_begin(options)
            leave_out_call(s, cpu, 0)  # Image says how long that was
            break
        except BlockingIOError:
            rest(s, 0.002)
    else:
        raise RuntimeError("the interpreter was collecting all the time")
    s.image += 1
    s.image_open = True
    s.asked = [(number, b"")]
    s.image_told, s.image_rest = clock(), 0.001


def ask(s: Any, number: int) -> None:
    """Pass a question on; behind another one it waits."""
    body = s.image_request.get("body")
    if not s.image_open or s.image_request.get("image") != s.image:
        raise RuntimeError("that image is closed")
    if type(body) is not bytes or len(s.asked) >= MAX_WAITING:
        raise RuntimeError("too many questions are waiting" if type(body) is bytes else "a question without a body")
    s.asked.append((number, body))
    if len(s.asked) == 1:
        put_question(s)


def put_question(s: Any) -> None:
    s.image_told, s.image_rest = clock(), 0.001
    if not s.core.image_ask(s.asked[0][1]):
        number = s.asked.pop(0)[0]
        send(s, "failure", {"request": number, "text": "the image takes no question now"})


def cancel(s: Any, number: int) -> None:
    """Give up what has this number: an image until it is there, a question until it is answered."""
    drop_waiting(s, number, "cancelled")
    for place, (asked, body) in enumerate(s.asked):
        if asked != number:
            continue
        if place:
            del s.asked[place]
            send(s, "failure", {"request": number, "text": "cancelled"})
        elif body:
            s.core.image_cancel()
        else:
            close_image(s)
        return


def shut(s: Any, number: int) -> None:
    """Close the image, and those that were to be made."""
    why = s.image_request.get("why")
    why = why[:MAX_NAME] if type(why) is str else ""
    drop_waiting(s, -1, why or "it was closed")
    close_image(s, why)


def drop_waiting(s: Any, number: int, why: str) -> None:
    """Make no image for the request of that number, or for none that waits (-1)."""
    given_up = [each for each in s.waiting if each[0] is image and number in (-1, each[1]["id"])]
    s.waiting = [each for each in s.waiting if each not in given_up]
    for _, fields in given_up:
        send(s, "failure", {"request": fields["id"], "text": why})


def watch_image(s: Any) -> None:
    """Pass on what the image has to say, and say when it has ended."""
    if not s.image_open:
        return
    state, phase, done, total, used, _ = s.core.image_look()
    if state == -1:
        close_image(s)
    elif state == 1:
        try:
            frames = s.core.image_take()
        except MemoryError:  # it would be there the next time, and the time after that
            close_image(s, "there was no memory in the target for its answer")
            return
        del s.asked[:1]
        posix.set_blocking(s.fd, False)
        write(s, frames)
        if s.asked:
            put_question(s)
    elif s.asked and clock() - s.image_told > PROGRESS:
        s.image_told = clock()
        fields = {"id": s.asked[0][0], "phase": IMAGE_PHASES[phase], "done": done, "total": total, "memory": used}
        send(s, "progress", fields)


def send_image_memory(s: Any) -> None:
    """What the image alone has, as it sees that itself."""
    holding = s.core.image_look()[5] if s.image_open else 0
    if holding:
        send(s, "image-memory", {"image": s.image, "holding": holding})


def close_image(s: Any, why: str = "") -> None:
    """End it, and say so; what was still asked fails. ``why``: where nobody asked for its end."""
    if not s.image_open:
        return
    s.image_open = False
    try:
        reason, expected, cpu = s.core.image_end()
    except RuntimeError as error:
        reason, expected, cpu = core_failure(error), False, 0
    if why:
        reason, expected = why, False
    s.clones_cpu += cpu
    asked, s.asked = s.asked, []
    for number, _ in asked:
        send(s, "failure", {"request": number, "text": reason})
    send(s, "image-gone", {"image": s.image, "reason": reason, "expected": bool(expected)})


# -- the census in slices -----------------------------------------------------------------------------------
#
# What is counted: every object in the collector's lists when counting began, and every object reached from those
# that the collector does not track. Objects tracked since are left out; objects that died since are left in, or
# a steady process would seem to shrink.
#
#    gc.get_objects(0), (1), (2) ──► batch ──► count ──► queues: plain, sequences, dicts, types, codes
#                                                              │ drain: gc.get_referents and what it misses
#                                              count ◄── meet ◄┘ (once each: the bitmap says who was seen)
#
# After gc.freeze() some tracked objects are in no list. Then the lists are marked in the bitmap beforehand, and
# a tracked object that is met unmarked is frozen, or new.
#
# The bitmap is a dict {address >> 16: bytearray(1024)}, one bit for 8 bytes: 1.6 % of the heap's address range.

BITS = (1, 2, 4, 8, 16, 32, 64, 128)

raw = type.__dict__
raw_mro = raw["__mro__"].__get__
raw_dict = raw["__dict__"].__get__
raw_flags = raw["__flags__"].__get__
raw_bases = raw["__bases__"].__get__
raw_module = raw["__module__"].__get__
raw_repr = raw["__repr__"]
raw_name = raw["__name__"].__get__
raw_qualname = raw["__qualname__"].__get__
raw_basicsize = raw["__basicsize__"].__get__
raw_itemsize = raw["__itemsize__"].__get__
CODE = type(_module.__code__)
FUNCTION = type(_module)
METHOD_DESCRIPTOR = type(raw["mro"])
SEQUENCES = (list, tuple, set, frozenset)
FOLLOWED = (dict, list, tuple, FUNCTION, type(make_matcher(Namespace(pid=0)).match.__closure__[0]), Namespace)
OWN_TYPES = (*FOLLOWED, CODE, set, slice, type(raw), type(raw_mro))
LEAVES = (CODE, str, bytes, bytearray, set)
"""What is measured besides those, where it is our own."""
LARGEST_SMALL = 512
"""``Objects/obmalloc.c``, SMALL_REQUEST_THRESHOLD."""
GC_HEAD = 16
HEAP_TYPE = 1 << 9
HAVE_GC = 1 << 14
# 3.12 is born with some 400 frozen tuples, of its frozen modules; to a few of them only C fields point.
OWN_FROZEN = 64 if sys.version_info[:2] == (3, 12) else 0
PRE_HEADER = 0 if sys.version_info < (3, 11) else 1 << 4 if sys.version_info < (3, 12) else 3 << 3
INLINE_VALUES = 1 << 2 if sys.version_info >= (3, 13) else 0

HIDDEN_NAMES = sys.version_info >= (3, 11)

# The members of a code object that exist as objects; the others are made (and some then kept) when asked for.
CODE_MEMBERS: tuple[str, ...] = ("co_consts", "co_names", "co_filename", "co_name")
if sys.version_info >= (3, 11):
    CODE_MEMBERS += ("co_qualname", "co_linetable", "co_exceptiontable")
else:
    CODE_MEMBERS += ("co_code", "co_varnames", "co_freevars", "co_cellvars")
    CODE_MEMBERS += ("co_linetable" if sys.version_info >= (3, 10) else "co_lnotab",)


def census_in_slices(s: Any, number: int, reason: str) -> None:
    """Count the heap, and answer with Types (of types new to this session) and Census."""
    learn_types(s)
    c = s.counting = new_census(s, number, reason)  # a child forked in the middle finds there what it must drop
    try:
        enumerate_tracked(c)
        if c.frozen:
            mark_lists(c)
            meet(c, [sys.modules, sys.__dict__, builtins_dict()])
        for generation in (0, 1, 2):  # the young first: they are the likeliest to be kept alive by us alone
            count_list(c, generation)
        if c.frozen:
            check_frozen(c)
        send_census(c)
    finally:
        s.counting = None
        drop_lists(c)
        c.__dict__.clear()


def learn_types(s: Any) -> None:
    """Take over the types that the core has named, so that they keep their numbers."""
    unread, s.unread = s.unread, []
    for first, packed in unread:
        for number, names in enumerate(unpack(packed), first):
            s.names["\0".join(names)] = number


def new_census(s: Any, number: int, reason: str) -> Any:
    """The state of one census; :func:`census_in_slices` empties it at the end."""
    now = clock()
    fields = s.request
    return Namespace(
        session=s,
        boot=globals().get("BOOT", s),
        id=number,
        reason=reason,
        slice=bounded(fields.get("slice_ns"), 1_000_000, 100_000, 1_000_000_000),
        rest=bounded(fields.get("rest_ns"), 1_000_000, 50_000, 10_000_000_000) / 1e9,
        begin=now,
        cpu=cpu_clock(),
        peak=0,
        guessed=0,
        cuts=[],
        lists=[],
        own=set(),
        own_names={},
        frozen=0,
        permanent=0,
        own_frozen=0,
        chunks={},
        candidates={},
        index={},  # id of a type: its place in the lists below
        types=[],
        wire=[],
        sizes=[],  # bytes of every instance, or 0: ask each
        guess=[],
        queue_of=[],  # where an instance waits to be expanded; None: it refers to nothing
        counts=[[] for _ in range(ROWS)],
        bytes=[[] for _ in range(ROWS)],
        generation=0,  # of the list that is being counted
        plain=[],
        epoch=s.epoch,
        trace=s.tracer._get_object_traceback if s.tracing else None,
        piece=TRACED_PIECE if s.tracing else PIECE,
        stack_of={},  # hash of a stack as tracemalloc says it: its number in this session
        traced_counts={},  # (stack << 32 | type) << 2 | size class: objects
        traced_bytes={},
        left_out=0,
        left_out_bytes=0,
        functions=[],
        sequences=[],
        dicts=[],
        mappings=[],
        klasses=[],
        codes=[],
        arrays=[],  # places of the types that are numpy's arrays
    )


def bounded(value: Any, default: int, low: int, high: int) -> int:
    return min(max(value, low), high) if type(value) is int else default


def breathe(c: Any) -> None:
    """Between two pieces of work: when the slice is used up, rest without the GIL, and look at the socket."""
    if cpu_clock() - c.session.hold_cpu < c.slice:
        return
    c.peak = max(c.peak, held(c))
    rest(c.session, c.rest)
    while receive(c.session):
        pass
    take_requests(c.session)
    watch_image(c.session)


def held(c: Any) -> int:
    """Bytes of the census's own structures now."""
    size = sys.getsizeof
    lists = c.lists + c.counts + c.bytes + queues(c) + [c.index, c.types]
    tables = [c.stack_of, c.traced_counts, c.traced_bytes, *traced_tables(c.session)]
    numbers = 2 * 32 * sum(map(len, tables))
    bitmaps = (len(c.chunks) + len(c.candidates)) * (1024 + 1 + sys.getsizeof(bytearray()) + 32)
    return sum(map(size, lists + tables)) + numbers + bitmaps + size(c.chunks) + 9 * 32 * len(c.types)


def enumerate_tracked(c: Any) -> None:
    """Fill ``c.lists`` with the objects of generations 0, 1, 2, and ``c.own`` with the ids of ours among them.

    Each list is one call of C that cannot be sliced; its time is part of the pause. Objects only move up, so
    asking for the young first loses none, and a collection in between can only make some appear twice.
    """
    s = c.session
    c.frozen = gc.get_freeze_count()
    for _ in range(4):
        drop_lists(c)
        c.own_names = {}
        find_own(c)
        c.collections = begun_collections(s)
        take_generations(c, (0, 1, 2))
        if begun_collections(s) == c.collections:
            break
    else:
        drop_doubles(c.lists)
    c.own.update(map(id, c.lists))
    breathe(c)


def take_generations(c: Any, generations: tuple[int, ...]) -> None:
    """Append the objects of each to ``c.lists``, within one call of C: a list that is on the way between two opcodes
    is in no variable, and a child forked there would keep all it holds."""
    source = iter(generations)
    pulling = map(gc.get_objects, source)
    passing = [o for o in gc.get_referents(pulling) if type(o) is tuple]  # what map keeps its iterators in
    c.own.update((id(source), id(pulling)), map(id, passing))
    del passing
    c.lists.extend(pulling)


def drop_lists(c: Any) -> None:
    """Empty what holds objects, one by one: each list may hold the census, and the census holds them."""
    for objects in c.lists + queues(c):
        del objects[:]
    c.lists = []


def queues(c: Any) -> list[list[Any]]:
    """Where objects wait to be expanded."""
    return [c.plain, c.functions, c.sequences, c.dicts, c.mappings, c.klasses, c.codes]


def drop_doubles(lists: list[list[Any]]) -> None:
    """Leave out of each list what the ones before it have."""
    seen: set[int] = set()
    for objects in lists:
        objects[:] = [o for o in objects if id(o) not in seen]
        seen.update(map(id, objects))


def find_own(c: Any) -> None:
    """Set ``c.own`` to the ids of the agent's own tracked objects, and ``c.own_names`` to names of variables.

    They are what the agent's dicts and frames lead to; at what belongs to the target (modules, types, C
    functions, the lists that we have our hooks in) it stops.
    """
    frames, codes = own_frames()
    c.own = own_reach(c.session, [*own_spaces(), c.session, c, *codes], [], c.own_names)
    c.own.update(frames)
    c.own.add(id(c.own))


def own_spaces() -> list[Any]:
    return [globals(), globals().get("BOOT")]


def own_frames() -> tuple[list[int], list[Any]]:
    """The ids of the frames that run here, and their code."""
    spaces = own_spaces()
    found, codes = [], []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if any(frame.f_globals is space for space in spaces):
            found.append(id(frame))
            codes.append(frame.f_code)
        frame = frame.f_back
    return found, codes


def own_reach(s: Any, stack: list[Any], known: list[Any], names: dict[str, int] | None) -> set[int]:
    """The ids of our own tracked objects that ``stack`` leads to without ``known``; into ``names`` goes what
    :func:`expect_names` says of the code among them."""
    own = set()
    seen = not_own(s)
    seen.update(map(id, known))
    own.update([id(table) for table in traced_tables(s) if gc.is_tracked(table)])
    if s.core is not None:
        own.update((id(s.core), id(s.core.__dict__)))
        own.update([id(o) for o in gc.get_referents(s.core.__dict__) if type(o) is type(len)])
    while stack:
        for o in take_batch(stack):
            kind = type(o)
            if id(o) in seen or not any(kind is t for t in OWN_TYPES):
                continue
            seen.add(id(o))
            if gc.is_tracked(o):
                own.add(id(o))
            if any(kind is t for t in FOLLOWED):
                stack += gc.get_referents(o)
            elif kind is CODE:
                stack += code_members(o)
                if names is not None and HIDDEN_NAMES:
                    expect_names(names, stack, o)
        give_way(s)
    return own


def not_own(s: Any) -> set[int]:
    """The ids of what our dicts lead to and is not to be followed: the target's own, and tables that grow large."""
    seen = {id(o) for o in (None, sys.modules, builtins_dict(), gc.callbacks, current_filters())}
    seen.update(map(id, s.filter_lists))
    seen.update(map(id, traced_tables(s)))
    return seen


def expect_names(expected: dict[str, int], stack: list[Any], code: Any) -> None:
    """Note the tuple of a code object of ours that only C can reach, by the ids of its items.

    It is tracked until the first collection sees that it holds strings only, and then no census meets it.
    """
    stack += (code.co_varnames, code.co_cellvars, code.co_freevars)  # made, and kept, by the asking
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    key = ids_text(code.co_varnames + tuple(cells) + code.co_freevars)
    expected[key] = expected.get(key, 0) + 1


def ids_text(objects: Any) -> str:
    return ",".join([str(id(o)) for o in objects])


def builtins_dict() -> Any:
    found = globals()["__builtins__"]
    return found if type(found) is dict else found.__dict__


def count_list(c: Any, generation: int) -> None:
    """Count one list of tracked objects and what they reach; the list is emptied as it goes."""
    objects = c.lists[generation]
    c.generation = generation
    while objects:
        count(c, without_own(c, take_batch(objects)), generation)
        drain(c)


def without_own(c: Any, batch: list[Any]) -> list[Any]:
    if not c.own.isdisjoint(map(id, batch)):
        batch = [o for o in batch if id(o) not in c.own]
    if HIDDEN_NAMES and not c.session.collections:
        batch = [o for o in batch if not (type(o) is tuple and is_own_names(c.own_names, o))]
    return batch


def is_own_names(expected: dict[str, int], names: Any) -> bool:
    """Whether a tuple is one of ours, or one of the target's that is equal to it in all that we count."""
    key = ids_text(names) if 0 < len(names) < 100 else ""
    left = expected.get(key, 0)
    if left:
        expected[key] = left - 1
    return left > 0


def count(c: Any, objects: Any, generation: int) -> None:
    """Add objects, known to be new, to the rows of a generation, and queue those that refer to others."""
    find = c.index.get
    counts, sizes, queue_of = c.counts[generation], c.sizes, c.queue_of
    total = c.bytes[generation]
    getsizeof = sys.getsizeof
    traced = c.trace is not None
    for o in objects:
        k = find(id(type(o)))
        if k is None:
            k = add_type(c, type(o))
        counts[k] += 1
        try:
            size = sizes[k] or getsizeof(o)
        except Exception:
            size = basic_size(type(o))
            c.guessed += 1
        total[k] += size
        if traced:
            trace(c, o, k, size, 1)
        queue = queue_of[k]
        if queue is not None:
            queue.append(o)
    breathe(c)


def meet(c: Any, referents: Any) -> None:
    """Count, once each, those of ``referents`` that no list has: untracked ones, and frozen ones."""
    for start in range(0, len(referents), c.piece):
        piece = referents if len(referents) <= c.piece else referents[start : start + c.piece]
        if c.frozen:
            new = unseen(c.chunks, piece)
            tracked = list(filter(gc.is_tracked, new))
            if tracked:
                new = untracked(new)
                mark(c.candidates, tracked)
                c.permanent += len(tracked)
                count(c, tracked, PERMANENT)
        else:
            new = unseen(c.chunks, untracked(piece))
        count(c, new, UNTRACKED)


def untracked(objects: Any) -> list[Any]:
    is_tracked = gc.is_tracked
    return [o for o in objects if not is_tracked(o)]


def unseen(chunks: dict[int, bytearray], objects: Any) -> list[Any]:
    """Those of ``objects`` whose bit was not set yet; it is now."""
    find = chunks.get
    bits = BITS
    new = []
    for o in objects:
        address = id(o)
        chunk = find(address >> 16)
        if chunk is None:
            chunk = chunks[address >> 16] = bytearray(1024)
        i = (address >> 6) & 1023
        bit = bits[(address >> 3) & 7]
        byte = chunk[i]
        if not byte & bit:
            chunk[i] = byte | bit
            new.append(o)
    return new


mark = unseen  # where who was new does not matter


def drain(c: Any) -> None:
    """Expand what is queued until nothing is: no recursion, so depth costs nothing."""
    referents = gc.get_referents
    while True:
        if c.codes:
            batch = take_batch(c.codes)
            meet(c, [member for o in batch for member in code_members(o)])
        elif c.klasses:
            batch = take_batch(c.klasses)
            meet(c, referents(*batch) + [member for o in batch for member in type_members(o)])
        elif c.dicts:
            batch = take_batch(c.dicts)
            for o in split_big(batch):
                walk(c, dict.keys, o)
                walk(c, dict.values, o)
            meet_mappings(c, batch)
        elif c.mappings:
            meet_mappings(c, take_batch(c.mappings))
        elif c.sequences:
            batch = take_batch(c.sequences)
            for o in split_big(batch):
                walk(c, iter, o)
            meet(c, referents(*batch))
        elif c.functions:
            batch = take_batch(c.functions)
            for o in batch:
                if o.__globals__ is c.boot:
                    uncount(c, o, c.generation)
            meet(c, referents(*(o for o in batch if o.__globals__ is not c.boot)))
        elif c.plain:
            meet(c, referents(*take_batch(c.plain)))
        else:
            return


def meet_mappings(c: Any, batch: list[Any]) -> None:
    """Dicts and their subclasses: all they refer to, and the keys, which a traversal leaves out when all are str."""
    refs = gc.get_referents(*batch)
    for o in batch:
        refs += dict.__iter__(o)
    meet(c, refs)


def take_batch(queue: list[Any]) -> list[Any]:
    batch = queue[-BATCH:]
    del queue[-BATCH:]
    return batch


def split_big(batch: list[Any]) -> list[Any]:
    """Take the long containers out of ``batch``, which are of exact builtin types: ``len`` is C's own."""
    if max(map(len, batch)) <= BIG:
        return []
    big = [o for o in batch if len(o) > BIG]
    batch[:] = [o for o in batch if len(o) <= BIG]
    return big


def walk(c: Any, view: Any, container: Any) -> None:
    """Meet the items of a long container by pieces, resting in between.

    A dict or set that changes size meanwhile stops its iterator. Then go on behind what was done, with longer
    pieces, so that it ends also when the target never stops changing it.
    """
    done = 0
    piece = c.piece
    while True:
        items = iter(view(container))
        all(map(id, first(items, done)))  # go past them, without a list of them: no address is 0
        try:
            while True:
                part = list(first(items, piece))
                if not part:
                    return
                done += len(part)
                meet(c, part)
        except RuntimeError:
            piece *= 4


def first(items: Any, count: int) -> Any:
    """The next so many, as ``itertools.islice`` has them: whoever goes through them in C does that in one piece, and no
    thread changes the container meanwhile. An empty dict has none of the numbers, so that it gives back the items."""
    pick: Any = {}.get
    return map(pick, range(count), items)


def code_members(o: Any) -> list[Any]:
    return [getattr(o, name) for name in CODE_MEMBERS]


def type_members(o: Any) -> list[Any]:
    """What a type's own traversal leaves out: names of heap types, everything of static ones."""
    if raw_flags(o) & HEAP_TYPE:
        return [raw_name(o), raw_qualname(o)]
    return [raw_mro(o), raw_bases(o), *gc.get_referents(raw_dict(o))]


def add_type(c: Any, t: Any) -> int:
    """Give a type its place, and decide once how its instances are measured and expanded."""
    k = len(c.types)
    mro = raw_mro(t) or ()
    flags = raw_flags(t)
    size, guessed = size_rule(t, mro, flags)
    if t is CODE:
        queue = c.codes
    elif not flags & HAVE_GC:
        queue = None
    elif any(base is type for base in mro):
        queue = c.klasses
    elif t is dict:
        queue = c.dicts
    elif any(base is dict for base in mro):
        queue = c.mappings  # these may hold more than items
    elif t is FUNCTION:
        queue = c.functions  # the interpreter makes one for the bootstrap's text, with no way to it but this
    elif any(t is sequence for sequence in SEQUENCES):
        queue = c.sequences
    else:
        queue = c.plain
    if any(is_array(base) for base in mro):
        c.arrays.append(k)
    c.wire.append(intern_type(c.session, t))
    c.sizes.append(size)
    c.guess.append(guessed)
    c.queue_of.append(queue)
    for rows in (c.counts, c.bytes):
        for row in rows:
            row.append(0)
    c.types.append(t)  # keeps it alive, so that its id stays its own
    c.index[id(t)] = k
    return k


def is_array(t: Any) -> bool:
    return not raw_flags(t) & HEAP_TYPE and type_text(raw_qualname, t) == "ndarray" and raw_module(t) == "numpy"


def left_out(c: Any) -> str:
    """What no call from Python reaches, by how many objects have such; a phrase.

    To ask for a code object's variables would make and keep tuples in the target; an array may be resized by another
    thread while its items are walked.
    """
    met = [sum([row[k] for row in c.counts]) for k in range(len(c.types))]
    codes = sum([met[k] for k in range(len(met)) if c.queue_of[k] is c.codes])
    classes = sum([met[k] for k in range(len(met)) if c.queue_of[k] is c.klasses])
    arrays = sum([met[k] for k in c.arrays])
    parts = ["names of variables of %d code objects" % codes] if HIDDEN_NAMES else []
    parts.append("names of slots and attributes of %d classes" % classes)
    if INLINE_VALUES:
        parts.append("dicts of attributes that the collector does not track")
    if arrays:
        parts.append("items, bases and dtypes of %d numpy arrays" % arrays)
    return "left out: " + ", ".join(parts)


def size_rule(t: Any, mro: Any, flags: int) -> tuple[int, bool]:
    """(bytes of every instance, or 0 to ask ``sys.getsizeof`` of each; whether that is a guess).

    As ``sys.getsizeof`` looks ``__sizeof__`` up: on the type, along the mro. Written in C it may be called; in
    Python it never is, and the basic size stands for it. So it does for a static type that its module never made
    ready (asyncio's holder of the running loop, up to 3.8): it has no mro yet, and ``sys.getsizeof`` would give it one.
    """
    for base in mro:
        found = raw_dict(base).get("__sizeof__")
        if found is None:
            continue
        if type(found) is not METHOD_DESCRIPTOR:
            return basic_size(t), True
        if base is object and not raw_itemsize(t) and not flags & INLINE_VALUES:
            return basic_size(t), False
        return 0, False
    return basic_size(t), True


def basic_size(t: Any) -> int:
    """``tp_basicsize`` and what stands before the object: 16 bytes for the collector, 16 for dict and weakrefs."""
    flags = raw_flags(t)
    before = (16 if flags & HAVE_GC else 0) + (16 if flags & PRE_HEADER else 0)
    return raw_basicsize(t) + before  # type: ignore[no-any-return]


def intern_type(s: Any, t: Any) -> int:
    """The session's number for (module, qualname); one number for all others when the table is full."""
    module, qualname = type_text(module_of, t), type_text(raw_qualname, t)
    key = module + "\0" + qualname
    number = s.names.get(key)
    if number is None:
        if s.type_count >= MAX_TYPES:
            key = "builtins\0(other types)"
            number = s.names.get(key)
        if number is None:
            number = s.names[key] = s.type_count
            s.type_count += 1
            s.new_names.append(key)
    return int(number)


def module_of(t: Any) -> Any:
    """As ``raw_module`` says; else what ``tp_name`` has before its last dot, which only ``type``'s own repr shows, and
    only then: ``__module__`` in the type of Cython's functions is the member that their instances have."""
    try:
        found = raw_module(t)
    except AttributeError:
        found = None
    return found if type(found) is str else raw_repr(t)[len("<class '") : -len("'>")].rpartition(".")[0] or "?"


def type_text(getter: Any, t: Any) -> str:
    """A type's name by its raw descriptor; ``?`` when there is none, or it is not a plain string."""
    try:
        found = getter(t)
    except Exception:
        return "?"
    return found[:MAX_NAME].replace("\0", "?") if type(found) is str else "?"


def mark_lists(c: Any) -> None:
    """Set the bits of everything listed and of our own, so that what is met unmarked is in no list."""
    listed = 0
    for objects in c.lists:
        for start in range(0, len(objects), PIECE):
            mark(c.chunks, objects[start : start + PIECE])
            listed += len(c.own.intersection(map(id, objects[start : start + PIECE])))
            breathe(c)
    for i in c.own:
        chunk = c.chunks.setdefault(i >> 16, bytearray(1024))
        chunk[(i >> 6) & 1023] |= BITS[(i >> 3) & 7]
    if c.frozen > c.session.frozen:  # frozen since we came, and we with it; the three lists are not in themselves
        c.own_frozen = max(0, len(c.own) - 3 - listed)


def check_frozen(c: Any) -> None:
    """Take those counted as frozen that are in a list by now (they were new), and say how many were not met.

    New objects are young; only a collection since the start can have moved some to generation 2.
    """
    for generation in (0, 1, 2) if c.session.collections != c.collections else (0, 1):
        take_generations(c, (generation,))
        breathe(c)
        while c.lists[-1]:
            uncount_new(c, take_batch(c.lists[-1]))
            breathe(c)
    missing = min(c.frozen, gc.get_freeze_count()) - c.permanent - c.own_frozen
    if missing > OWN_FROZEN:
        c.cuts.append("%d frozen objects not reachable from modules or tracked objects" % missing)


def uncount_new(c: Any, batch: list[Any]) -> None:
    for o in batch:
        if unmark(c.candidates, id(o)):
            c.permanent -= 1
            uncount(c, o, PERMANENT)


def unmark(chunks: dict[int, bytearray], address: int) -> bool:
    """Clear a bit; whether it was set. Once only: a collection in between puts an object into two lists."""
    chunk = chunks.get(address >> 16)
    bit = BITS[(address >> 3) & 7]
    if chunk is None or not chunk[(address >> 6) & 1023] & bit:
        return False
    chunk[(address >> 6) & 1023] ^= bit
    return True


def uncount(c: Any, o: Any, generation: int) -> None:
    """Take one object out of a generation's row again."""
    k = c.index.get(id(type(o)))
    if k is None or not c.counts[generation][k]:
        return
    size = c.sizes[k] or sys.getsizeof(o, basic_size(type(o)))
    c.counts[generation][k] -= 1
    c.bytes[generation][k] -= min(c.bytes[generation][k], size)
    if c.trace is not None:
        trace(c, o, k, size, -1)


def send_census(c: Any) -> None:
    """Types new to the session first, then the rows."""
    s = c.session
    rows: dict[int, list[int]] = {}
    guessed = c.guessed
    for generation in (0, 1, 2, PERMANENT, UNTRACKED):
        for k, number in enumerate(c.counts[generation]):
            if number:
                # types that share their names, or the last place of a full table, share a row
                row = rows.setdefault(c.wire[k] * 8 + generation, [c.wire[k], generation, 0, 0])
                row[2] += number
                row[3] += c.bytes[generation][k]
                guessed += number if c.guess[k] else 0
    if s.type_count > MAX_TYPES:
        c.cuts.append("types after the first %d are counted together" % MAX_TYPES)
    c.cuts.append(left_out(c))
    now = clock()
    reply = {
        "id": c.id,
        "time_ns": c.begin,
        "mode": "python",
        "mode_reason": c.reason,
        "complete": False,
        "cut": "; ".join(c.cuts),
        "rows": list(rows.values()),
        "duration_ns": now - c.begin,
        "cpu_ns": cpu_clock() - c.cpu,
        "agent_bytes": max(c.peak, held(c)),
        "sizeof_guessed": guessed,
    }
    while s.new_names:
        part = s.new_names[:NAMES_PER_MESSAGE]
        first = s.type_count - len(s.new_names)
        send(s, "types", {"first": first, "names": [key.split("\0") for key in part]})
        del s.new_names[: len(part)]
    if c.trace is not None:
        send_traced(c)
    reply.update(pauses(s, (0, 0)))
    send(s, "census", reply)


# -- a session ----------------------------------------------------------------------------------------------


WORK = {"core?": load_core, "memory?": memory, "census?": census, "image?": image, "collect?": collect}
"""What waits for its turn."""
IMAGE_WORK = {"ask?": ask, "cancel?": cancel, "close?": shut}


def converse(fd: int, token: str, start_ns: int = 0, compile_ns: int = 0, early: bytes = b"") -> None:
    """One session, from its Hello to its end. ``start_ns`` and ``compile_ns``: for how long the program has waited at a
    time until now, see Pauses. ``early``: what has been read of requests."""
    s = Namespace(
        fd=fd,
        pid=posix.getpid(),
        socket=(0, 0),
        attached=True,
        reason="",
        buffer=bytearray(early),
        waiting=[],
        request={},  # what is being answered: kept here, where find_own finds it
        library=[],  # pieces of the native core, as far as it has come
        library_size=0,
        core=None,
        core_reason="no native core: heaptop has sent none",
        core_build="",
        crashes=0,  # censuses in a clone that failed, since the last that did not
        stop_rate=STOP_RATE,
        type_count=0,  # types that have a number in this session
        unread=[],  # (first number, msgpack) of types that the core has named
        unsaid=[],  # (kind, fields) of messages that later ones build on, until they are out
        read=None,  # of the sampler, until there are messages of it
        typed=b"",  # what a census has found living samples to be, until a read takes it along
        read_typed=b"",  # with the read
        own_bytes=None,  # of our own objects, once somebody has asked
        own_lasting=b"",  # addresses of those that are tracked and stay as long as we, once a core counts
        left="",  # what could not be taken out of the target
        names={},  # "module\0qualname": the session's number of a type
        new_names=[],
        callback=None,
        leave=None,
        core_watches=False,  # the callback is the core's
        counting=None,  # the census that is under way
        filter=None,
        filter_lists=[],
        events=[],
        dropped=0,  # in all: only the threads that count write it
        dropped_told=0,
        collections=0,
        gc_start=0,
        frozen=gc.get_freeze_count(),
        cpu_start=cpu_clock(),
        clones_cpu=0,
        hold_cpu=cpu_clock(),  # our CPU time when the GIL became ours, as far as we know
        stopped=0,  # nanoseconds for which a clone or a stop has lasted since then
        gil=0,  # the longest that the program has waited for us, without those
        longest=0,  # and with them
        start_ns=start_ns,
        compile_ns=compile_ns,
        core_ns=0,
        sampling=False,
        hooked=False,  # the core may have hooks in the target's allocators
        tracer=None,  # the module _tracemalloc, once it was asked for
        tracing=False,
        traces_here=False,  # tracemalloc was switched on by us
        traced_files={},  # name: its number
        traced_codes={},  # file << 32 | line: its number
        traced_nodes={},  # caller's node << 32 | code: its number less 1, since there 0 is none
        codes_told=0,
        nodes_told=0,
        sampler_id=0,
        sampler_request={},
        epoch=0,  # of the samples: raised whenever those before are void
        core_epoch=0,
        samples_dropped=0,
        intervals_told=0,
        exact_told=False,
        phase_module=None,  # the program's own heaptop
        listener=None,
        phases=[],
        open_phases={},  # number of a phase that lasts: its name, and when it began
        said_phases={},  # those of them that heaptop knows of
        phases_dropped=0,  # in all: only the threads that count write it
        phases_dropped_told=0,
        image=0,  # number of the last
        image_open=False,
        image_request={},  # of those that are taken at once
        asked=[],  # (request, question) that it works on, and those that wait; the first is empty while it is built
        image_told=0,
        image_rest=0.001,
    )
    try:
        status = posix.fstat(fd)
        s.socket = (status.st_dev, status.st_ino)
        install(s)
        send(s, "hello", hello(s, token))
        serve(s)
    except (OSError, EOFError):
        pass
    except BaseException as error:
        s.reason = "the agent failed: " + type(error).__name__
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
