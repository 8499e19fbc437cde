"""Graphs made in clones of a process whose threads are in the middle of malloc, and of changing other objects.

Arguments: the core's library, and how many. Prints {"wanted": bytes that a cache retains, its own among them, "found":
[bytes in the process itself, bytes in each clone, …], "known": whether each clone told of all objects and reached
them}.
"""

import array
import sys
import threading
import zlib

import core_breaks
import heap_zoo

ENTRIES = 5000


def churn(end):
    data, kept = b"text" * 50_000, []
    while not end.is_set():
        kept.append([zlib.compress(data, 1), {len(kept): str(len(kept))}])  # without the GIL, most of the time
        if len(kept) > 50:
            del kept[:]


def in_process(core, modules, cache):
    core.graph_build()
    numbers = [core.graph_info(module)["number"] for module in modules]
    core.graph_retain([numbers], 1)
    retained = array.array("Q")
    retained.frombytes(core.graph_array("retained"))
    found = retained[core.graph_info(cache)["number"]]
    core.graph_close()
    return found


def main():
    core = core_breaks.load(sys.argv[1])
    main.heap = heap_zoo.records(50_000, True)
    main.cache = cache = {f"key {i}": [i + 10**9, (str(i), [])] for i in range(ENTRIES)}
    wanted = sys.getsizeof(cache)
    for key, value in cache.items():
        wanted += sum(map(sys.getsizeof, (key, value, *value, *value[1])))
    del key, value  # the last ones would be held by this frame, too
    modules = list(sys.modules.values())
    found, known = [in_process(core, modules, cache)], []
    end = threading.Event()
    threads = [threading.Thread(target=churn, args=(end,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(int(sys.argv[2])):
        figures, retained = core.graph_in_clone([*map(id, modules)], [id(cache), id(main.heap), 8])
        found.append(retained[0])
        known.append(figures["objects"] == figures["reached"] > 50_000 and retained[2] == 0 < retained[1])
    end.set()
    for thread in threads:
        thread.join()
    print(ascii({"wanted": wanted, "found": found, "known": known}))


if __name__ == "__main__":
    main()
