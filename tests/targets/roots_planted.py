"""Threads that stand still in every way a thread can, and what the native core says of their frames and Python does.

Arguments: the core's library and a case. Prints one literal.
"""

import asyncio
import atexit
import gc
import os
import sys
import threading
import time

import core_breaks

core = core_breaks.load(sys.argv[1])
MODULE, FRAME, RUNTIME, INTERPRETER = range(4)
(PART_MODULE, TOLD, ITSELF, CODE, FUNCTION, NAMESPACE, GLOBALS, BUILTINS, FRAME_OBJECT, TRACE, LOCAL, STACK) = range(12)
CO_GENERATOR = 0x20 | 0x80 | 0x200


class Root:
    def __init__(self, row):
        self.kind, self.part, self.object, self.name, self.what, self.slot, self.thread, self.blocked = row[:8]
        self.own, self.code, self.instead, self.depth, self.counted, self.maybe, self.label = row[8:]


def roots(*states):
    rows, whole, left_out = core.roots(*states)
    return [Root(row) for row in rows], whole, left_out


class Held:
    pass


# -- ways to stand still --------------------------------------------------------------------------------------

ready = threading.Semaphore(0)
go_on = threading.Event()


def stop():
    ready.release()
    go_on.wait()


def in_locals(held, shared):
    changed = held

    def inner():
        nonlocal changed
        own, free = changed, shared
        stop()
        return own, free

    return inner()


def make_rows():
    return [Held(), Held()]


def in_loop():
    for row in make_rows():
        last = row
        stop()
    return last


def in_nested_loops():
    for row in make_rows():
        for other in tuple(make_rows()):
            stop()
            return row, other


def generate(held):
    own = held
    stop()
    yield own


def in_generator(held):
    for one in generate(held):
        return one


def generate_from(held):
    yield from generate(held)


def in_nested_generators(held):
    return list(generate_from(held))


async def stop_in_coroutine(held):
    own = held
    stop()
    return own


async def outer_coroutine(held):
    return await stop_in_coroutine(held)


def in_coroutine(held):
    asyncio.run(outer_coroutine(held))


def in_comprehension(held):
    return [stop() or (one, held) for one in make_rows()][:0]


def in_class_body(held):
    class Body:
        inside = held
        stop()

    return Body


class Called:
    def __init__(self, held):
        own = held
        stop()
        self.own = own

    def __del__(self):
        pass


def in_constructor(held):
    return Called(held)


def in_sort(held):
    return sorted([3, 1, 2], key=lambda one: (held, stop() if one == 1 else None, one)[2])


def with_frame_object(held):
    frame = sys._getframe()
    stop()
    return frame, held


def after_an_error(held):
    try:
        raise ValueError(held)
    except ValueError:
        stop()


def deep(held, left):
    return deep(held, left - 1) if left else stop()


def in_recursion(held):
    return deep(held, 300)


HOLDING = (in_generator, in_nested_generators, in_coroutine, in_comprehension, in_class_body, in_constructor, in_sort)
HOLDING += (with_frame_object, after_an_error, in_recursion)
STANDING = [(in_locals, Held(), Held()), (in_loop,), (in_nested_loops,), *((one, Held()) for one in HOLDING)]


# -- against what Python says ---------------------------------------------------------------------------------


def chain(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


def plain(o):
    """The contents of a cell, or the object."""
    try:
        return o.cell_contents if type(o).__name__ == "cell" else o
    except ValueError:
        return None


def of_part(told, part):
    return [root.object for root in told if root.part == part]


def faults_of_locals(told, frame):
    """What is wrong with the locals of a function's frame."""
    names = [root.name for root in told if root.part == LOCAL and plain(root.object) is not None]
    if len(names) != len(set(names)):
        yield f"some of {names} are told twice"
    found = {root.name: id(plain(root.object)) for root in told if root.part == LOCAL}
    wanted = {name: id(value) for name, value in frame.f_locals.items() if value is not None}
    if {name: found[name] for name in names} != wanted:
        yield f"locals: {sorted(found)}, not {sorted(wanted)}"


def faults_of_generator(told, frame):
    """What is wrong where an object tells of its locals, a generator or a frame, or leaves that to the roots."""
    if any(root.part == LOCAL for root in told):
        yield from faults_of_locals(told, frame)
    else:
        seen = {id(plain(o)) for o in core.edges_of(of_part(told, ITSELF)[0])}
        for name in frame.f_code.co_varnames:
            if frame.f_locals.get(name) is not None and id(frame.f_locals[name]) not in seen:
                yield f"{name} of a generator is not told"
    if [root.counted for root in told if root.part == ITSELF] != [sys.version_info < (3, 11)]:
        yield "whether a generator is counted"


def faults_of_members(told, frame):
    """What is wrong with the rest of a frame."""
    for part, value in ((CODE, frame.f_code), (GLOBALS, frame.f_globals), (BUILTINS, frame.f_builtins)):
        if [id(o) for o in of_part(told, part)] != [id(value)]:
            yield f"part {part}: {len(of_part(told, part))}"
    if sys.version_info >= (3, 11) and [o.__code__ for o in of_part(told, FUNCTION)] != [frame.f_code]:
        yield "function"


def faults_of(told, frame):
    """What is wrong with the roots of one frame."""
    is_function, is_generator = frame.f_code.co_flags & 3 == 3, bool(frame.f_code.co_flags & CO_GENERATOR)
    if of_part(told, ITSELF):
        if not is_generator and sys.version_info >= (3, 11):  # before, any frame may be an object of the heap
            yield "no generator"
        yield from faults_of_generator(told, frame)
        return
    if is_generator and sys.version_info >= (3, 11):
        yield "a generator"
    yield from faults_of_members(told, frame)
    if is_function:
        yield from faults_of_locals(told, frame)
    elif not of_part(told, NAMESPACE):
        yield "no namespace"


def compare(thread, found):
    """What is wrong with the roots of a thread that stands still."""
    frames = list(chain(sys._current_frames()[thread.ident]))
    told = {}
    for root in found:
        if root.kind == FRAME and root.thread == thread.ident and root.part != TOLD:
            told.setdefault(root.depth, []).append(root)
    codes = [told[depth][0].code for depth in sorted(told)]
    if [frame.f_code for frame in frames] != codes:
        return [f"frames: {[code.co_name for code in codes]}, not {[frame.f_code.co_name for frame in frames]}"]
    return [fault for depth, frame in enumerate(frames) for fault in faults_of(told[depth], frame)]


def start_all():
    threads = [threading.Thread(target=one[0], args=one[1:], name=one[0].__name__) for one in STANDING]
    for thread in threads:
        thread.start()
        ready.acquire()
    return threads


def end_all(threads):
    go_on.set()
    for thread in threads:
        thread.join()


def standing():
    threads = start_all()
    found, whole, left_out = roots()
    faults = {thread.name: compare(thread, found) for thread in threads}
    values = {}
    for thread in threads:
        rows = [root for root in found if root.thread == thread.ident and root.part == STACK]
        below = [plain(o) for root in rows for o in [root.object, *core.edges_of(root.object)]]
        values[thread.name] = {
            "iterated": sum(isinstance(o, (list, tuple)) and any(isinstance(one, Held) for one in o) for o in below),
            "handled": [root.what for root in found if root.thread == thread.ident and type(root.object) is ValueError],
            "labels": sorted({root.label for root in found if root.thread == thread.ident and "held" in root.label}),
        }
    end_all(threads)
    return {"faults": faults, "values": values, "whole": whole, "left out": left_out}


# -- the rest -------------------------------------------------------------------------------------------------


def spin():
    while not go_on.is_set():
        for _ in range(1000):
            pass


def sleep():
    ready.release()
    while not go_on.is_set():
        time.sleep(0.5)


def states():
    """Which threads are blocked."""
    threads = [threading.Thread(target=target) for target in (stop, sleep, spin, spin)]
    for thread in threads:
        thread.start()
    ready.acquire()
    ready.acquire()
    time.sleep(0.1)
    seen = {thread.ident: set() for thread in [*threads, threading.current_thread()]}
    for _ in range(20):
        time.sleep(0.01)
        for root in roots(True)[0]:
            if root.kind == FRAME:
                seen[root.thread].add((root.blocked, bool(root.own)))
    end_all(threads)
    return {
        "proc": os.path.exists("/proc/self/task"),
        "seen": [seen[thread.ident] for thread in [*threads, threading.current_thread()]],
    }


def modules():
    """Modules and what the interpreter holds."""
    sys.modules["heaptop.no module"] = held = Held()
    atexit.register(sleep)
    local = threading.local()
    local.held = held
    found = roots()[0]
    told = {root.name: root.object for root in found if root.kind == MODULE}
    what = {}
    for root in found:
        if root.kind == RUNTIME:
            what.setdefault(root.what, []).append(root.object)
    registered = [one for o in what.get("atexit", []) for one in (o if isinstance(o, list) else [o])]
    registered = [one[0] if isinstance(one, tuple) and one else one for one in registered]
    result = {
        "modules": told == {name: module for name, module in sys.modules.items() if module is not None},
        "modules' dict": what["sys.modules"][0] is sys.modules,
        "labels": [root.label for root in found if root.object is held],
        "codecs": [type(o).__name__ for name in sorted(what) if "codec" in name for o in what[name]],
        "handlers": "strict" in what["codec error handlers"][0],
        "atexit": sleep in registered,
        "storage": "thread's storage" in what,
    }
    del sys.modules["heaptop.no module"]
    atexit.unregister(sleep)
    return result


def interpreters():
    """Another interpreter: its modules under the same lock, and no more than its number under its own."""
    try:
        import _xxsubinterpreters as other  # noqa: PLC0415
    except ImportError:
        import _interpreters as other  # noqa: PLC0415
    before = roots()
    shared = sys.argv[3] == "shared"
    if sys.version_info >= (3, 13):
        own = other.create("legacy" if shared else "isolated")
    else:
        own = other.create() if sys.version_info < (3, 9) else other.create(isolated=not shared)
    (other.run_string if hasattr(other, "run_string") else other.exec)(own, "import sys, json")
    found, whole, left_out = roots()
    names = {root.name for root in found if root.kind == INTERPRETER}
    labels = {root.label for root in found if root.kind == INTERPRETER and root.name == "json"}
    names_now, names_before = ({root.name for root in some if root.kind == MODULE} for some in (found, before[0]))
    del found  # of what does not outlive its interpreter
    other.destroy(own)
    return {
        "named": "json" in names,
        "names": len(names),
        "labels": sorted(labels),
        "left out": (before[2], left_out, roots()[2]),
        "whole": whole,
        "same": names_now == names_before,
    }


def churn():
    """Threads begin and end all the time."""
    ended = False

    def come_and_go():
        while not ended:
            thread = threading.Thread(target=sum, args=(range(10),))
            thread.start()
            thread.join()

    def generate_on():
        while not ended:
            sum(one for one in range(20))

    threads = [threading.Thread(target=target) for target in (come_and_go, come_and_go, generate_on, generate_on)]
    for thread in threads:
        thread.start()
    counts = set()
    for _ in range(int(sys.argv[3])):
        whole = roots()[1]
        counts.add(whole)
        time.sleep(0.001)
    ended = True
    for thread in threads:
        thread.join()
    return counts


def in_clone():
    """What a snapshot child tells of the other threads is what is told here."""
    threads = start_all()
    known = {thread.ident for thread in threads}
    here = [root.label for root in roots()[0] if root.thread in known and not root.maybe]
    there = core.roots_in_clone(sorted(known))
    end_all(threads)
    return {"same": here == there, "count": len(here)}


def in_greenlets():
    """Suspended in plain code, in a generator, under a call by C, and with somebody looking at its frames."""
    try:
        import greenlet  # noqa: PLC0415
    except ImportError:
        return None

    def stop_here(own):
        kept = [own]
        greenlet.getcurrent().parent.switch()
        return kept

    def plainly(held):
        local = held
        return stop_here(local)

    def generate_here(held):
        yield stop_here(held)

    def in_a_generator(held):
        return next(generate_here(held))

    def under_c(held):
        return sorted([2, 1], key=lambda one: (stop_here(held), one))

    def finished(held):
        return held

    found, told = {}, {}
    held = Held()
    kept = [greenlet.greenlet(run) for run in (plainly, in_a_generator, under_c, finished)]
    for one in kept:
        one.switch(held)
    kept.append(greenlet.greenlet(plainly))  # not begun
    kept.append(greenlet.greenlet(plainly))
    kept[-1].switch(held)
    frame = kept[-1].gr_frame
    kept.append(greenlet.getcurrent())
    for i, one in enumerate(kept):
        told[i] = [
            root for root in roots(False, [one])[0] if root.kind == FRAME and root.thread == 0 and not root.maybe
        ]
        found[i] = sorted({root.label for root in told[i] if root.part == LOCAL and plain(root.object) is held})
    codes = [root.code for root in told[5] if root.part == CODE]
    same = [code.co_name for code in codes], [one.f_code.co_name for one in chain(frame)]
    del frame
    for one in kept[:3] + kept[5:6]:
        one.switch()
    return {"held": found, "same": same, "threads": {root.thread for rows in told.values() for root in rows}}


def missing():
    """With optional facts wrong: what the check makes of it, and that nothing wrong is told."""
    found = {}
    for fact in ("interpreter_modules", "interpreter_codecs", "interpreter_atexit", "interpreter_lock"):
        right = core.layout()[fact]
        for difference in (8, -8, 1, 4096) if right else ():
            core.set_layout(fact, right + difference)
            sentence = core.check(gc)
            told, whole, _ = roots(True)
            what = {root.what for root in told if root.kind == RUNTIME and not root.thread}
            found[fact, difference] = (sentence, core.layout()[fact], whole, sorted(filter(None, what)))
            core.open(sys.hexversion)
    return found


def main():
    print(ascii(globals()[sys.argv[2]]()))


if __name__ == "__main__":
    main()
