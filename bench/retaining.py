"""The target of bench/graph.py: builds a heap, has its graph made and searched, and prints what that cost.

Its one argument is JSON: ``way``, ``objects``, ``aged``, ``rounds``, ``seconds`` (no further round after that many),
``targets`` (where heap_zoo is) and ``core`` (the library). It prints one line of JSON: ``rounds``, a dict of figures
each, and ``rss``. A way that cannot be had is ``{"missing": sentence}``. Each round is in a fork, as heaptop's are in
clones: of memory that the heap shares with it. Runs on any Python from 3.8 on, and imports nothing of heaptop.
"""

import array
import gc
import json
import os
import sys
import time
import types

from counting import load_core, memory

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


WAYS = {"heaptop": heaptop_round, "kernel": kernel_round}


def main():
    request = json.loads(sys.argv[1])
    sys.path.insert(0, request["targets"])
    import heap_zoo  # noqa: PLC0415

    KEPT.append(heap_zoo.records(request["objects"], request["aged"]))
    try:
        core = load_core(request)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    rounds, rss, end = [], memory("VmRSS"), time.perf_counter() + request["seconds"]
    while len(rounds) < request["rounds"] and (not rounds or time.perf_counter() < end):
        rounds.append(WAYS[request["way"]](core))
    print(json.dumps({"rounds": rounds, "rss": rss}))


KEPT = []

if __name__ == "__main__":
    main()
