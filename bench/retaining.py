"""The target of bench/graph.py: builds a heap, has its graph made and searched, and prints what that cost.

Its one argument is JSON: ``way``, ``objects``, ``aged``, ``rounds``, ``seconds`` (no further round after that many),
``targets`` (where heap_zoo is), ``core`` (the library) and ``questions`` (for the open snapshot, packed, as hexadecimal
digits). It prints one line of JSON: ``rounds``, a dict of figures each, and ``rss``. A way that cannot be had is
``{"missing": sentence}``. The parts of heaptop are measured in a fork, as heaptop's are in clones: of memory that the
heap shares with it; whole answers, its own and the peers', in the process itself. Runs on any Python from 3.8 on, and
imports nothing of heaptop.
"""

import array
import gc
import json
import os
import select
import sys
import time
import types

from counting import Stamps, load_core, measure, memory, reset_peak

NO_UNIT = 2**32 - 1
ROOT = 2**32 - 2
MODULES, HELD, REST = range(3)
SETS = 3


def number_of(core, o):
    info = core.graph_info(o)
    return None if info is None else info["number"]


def words(core, name):
    made = array.array("I")
    made.frombytes(core.graph_array(name))
    return made


def graph(core):
    """The graph, and what is found in it without retainer sets. Times in nanoseconds."""
    cpu = [time.thread_time_ns()]
    made = core.graph_build()
    cpu.append(time.thread_time_ns())
    modules = [number_of(core, module) for module in sys.modules.values()]
    cpu.append(time.thread_time_ns())
    found = core.graph_retain([[number for number in modules if number is not None]], HELD)
    cpu.append(time.thread_time_ns())
    return {
        "objects": made["objects"],
        "edges": made["edges"],
        "walk": made["walk_ns"],
        "rows": made["rows_ns"],
        "search": found["search_ns"],
        "dominators": found["dominate_ns"],
        "graph cpu": cpu[1] - cpu[0],
        "dominators cpu": cpu[3] - cpu[2],
        "bytes": made["bytes"] + found["bytes"],
    }


def retainers(core):
    """Sets of types, functions and modules; other roots go by themselves."""
    order, parent = words(core, "order"), words(core, "parent")
    roots = [(number, number) for number in order if parent[number] == ROOT]
    units = array.array("I", [NO_UNIT]) * len(order)
    for o in gc.get_objects():
        if isinstance(o, (type, types.FunctionType, types.ModuleType)):
            number = number_of(core, o)
            if number is not None:
                units[number] = number
    found = core.graph_retainers(units.tobytes(), roots, SETS)
    return {"retainers": found["ns"], "sets": len(found["sets"]), "steps": found["steps"], "set bytes": found["bytes"]}


def in_fork(work):
    """(pid, descriptor) of a fork in which ``work`` runs; its answer comes as JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 1
    try:
        gc.disable()
        answer = json.dumps(work()).encode()
        while answer:
            answer = answer[os.write(writing, answer) :]
        code = 0
    finally:
        os._exit(code)


def answer_of(child, reading):
    with open(reading, "rb") as file:
        answer = file.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a fork failed")
    return json.loads(answer)


def heaptop_round(core):
    return answer_of(*in_fork(lambda: {**graph(core), **retainers(core)}))


def kernel_round(core):
    """The most memory that the fork had for itself alone, as the kernel says, less what it has for being one."""

    def idle():
        time.sleep(0.05)
        return {}

    most = {}
    for name, work in (("idle", idle), ("graph", lambda: graph(core))):
        child, reading = in_fork(work)
        os.set_blocking(reading, False)
        most[name] = 0
        while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            try:
                most[name] = max(most[name], memory("Private_Dirty", child))
            except (FileNotFoundError, ProcessLookupError):
                break
            time.sleep(0.005)
        os.set_blocking(reading, True)
        found = answer_of(child, reading)
    return {"kernel": most["graph"] - most["idle"], "objects": found["objects"]}


# -- whole answers ------------------------------------------------------------------------------------------
#
# Who keeps the heap's customers alive, and what would go with them. Each is made of a request and the heap, and gives
# a function without arguments: one answer, which returns how many objects it is about, and what else it knows.


def image_way(request, _heap):
    """The open snapshot: frozen, asked, closed."""
    core = load_core(request)

    def wait():
        while True:
            state = core.image_look()
            if state[0] < 0:
                raise SystemExit(f"the image ended: {core.image_end()}")
            if state[0] == 1:
                return state
            time.sleep(0.001)

    def answer():
        _pid, pause = core.image_begin({"id": 1, "image": 1, "keep_ns": 600 * 10**9, "gc_enabled": 1})
        own = wait()[4]
        frames = len(core.image_take())
        for question in request["questions"]:
            if not core.image_ask(bytes.fromhex(question)):
                raise SystemExit("the image takes no question")
            own = max(own, wait()[4])
            frames += len(core.image_take())
        core.image_end()
        return frames, {"child": own, "own pause": pause / 1e9}

    return answer


def guppy3_way(attribute):
    def made(_request, _heap):
        from guppy import hpy  # noqa: PLC0415

        heapy = hpy()

        def answer():
            everything = heapy.heap()
            if attribute == "domisize":
                return everything.count, {"found": everything[0].domisize}
            # partitions are made when they are looked at
            return everything.count, {"found": getattr(everything, attribute).partition.numrows}

        return answer

    return made


def objgraph_way(_request, heap):
    import objgraph  # noqa: PLC0415

    # one object's one path, the way its manual shows; heaptop's answer is about all of them
    one = heap["all"][len(heap["all"]) // 2]
    return lambda: (1, {"found": len(objgraph.find_backref_chain(one, objgraph.is_proper_module))})


ANSWERS = {
    "image": image_way,
    "guppy3 byrcs": guppy3_way("byrcs"),
    "guppy3 domisize": guppy3_way("domisize"),
    "objgraph": objgraph_way,
}


def stand():
    """For one who looks from outside: says when it is ready, and for each line of its input, and its end, how long it
    ever stood still since the one before."""
    with Stamps() as stamps:
        print("ready", flush=True)
        line = "begin"
        while line:
            reset_peak()
            stamps.longest = 0.0
            while not select.select([sys.stdin], [], [], 0.01)[0]:
                list(map(str.upper, map(lambda text: text, "a")))  # noqa: C417 - C that calls Python: gdb breaks there
            line = sys.stdin.readline()
            print(json.dumps({"pause": stamps.longest, "peak": memory("VmHWM")}), flush=True)


PARTS = {"heaptop": heaptop_round, "kernel": kernel_round}


def main():
    request = json.loads(sys.argv[1])
    sys.path.insert(0, request["targets"])
    import heap_zoo  # noqa: PLC0415

    KEPT.append(heap_zoo.records(request["objects"], request["aged"]))
    if request["way"] == "stand":
        stand()
        return
    try:
        one_round = way(request, KEPT[0])
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    rounds, rss, end = [], memory("VmRSS"), time.perf_counter() + request["seconds"]
    while len(rounds) < request["rounds"] and (not rounds or time.perf_counter() < end):
        rounds.append(one_round())
    print(json.dumps({"rounds": rounds, "rss": rss}))


def way(request, heap):
    """One round of the way that is asked for. ImportError where it cannot be had."""
    name = request["way"]
    if name in PARTS:
        core = load_core(request)
        return lambda: PARTS[name](core)
    answer = ANSWERS[name](request, heap)
    return lambda: measure(answer)


KEPT = []

if __name__ == "__main__":
    main()
