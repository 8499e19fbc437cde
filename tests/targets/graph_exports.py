"""Has the native core make the graph of a heap, and says where it is not what the core says of each object alone.

Arguments: the core's library, objects at least, ``arrays`` to print the arrays too, and ``small`` to do without one of
everything and to compare nothing. Prints {"figures", "objects": how many were compared, "faults": [sentence, …],
"arrays": {name: zlib'd bytes}, "planted": {name: number}}. Kinds of roots: 0 modules, 1 a pseudo-object, 2 what C
holds, 3 the rest. Candidates for retainers are types, functions and modules, by themselves; roots that are none go by
their number. At most SETS units.
"""

import array
import ctypes
import gc
import sys
import types
import zlib

import core_breaks

SETS = 3
HELD = 2
NONE = 2**32 - 1
ROOT = 2**32 - 2
FAULTS = 10
OF_A_TYPE, EACH = 50, 5  # compared: so many of a type, and of the others one in so many


class Hidden(list):
    """Left out, as the agent is."""


def hidden_function():
    def inner():
        return ("a constant of a function that is left out", 1.5)

    return inner


def closure(heap):
    """Objects by address: those of the collector's lists and of the heap, and what they lead to."""
    met, todo = {}, [*gc.get_objects(), heap]
    while todo:
        o = todo.pop()
        if id(o) in met or o is met or o is todo or isinstance(o, types.FrameType):
            continue
        met[id(o)] = o
        todo += gc.get_referents(o)
        if isinstance(o, dict):
            todo += o
    return met


def plant(heap):
    """Addresses, by name: what C holds, alone and with another; and a cycle, to which nothing leads."""
    held, cycle = [["inside"]], [{"inside": None}]
    cycle.append(cycle)
    heap["holder"] = holder = [["shared"]]
    for each in (held, holder[0]):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    return {
        "holder": id(holder),
        "shared": id(holder[0]),
        "held": id(held),
        "inside held": id(held[0]),
        "cycle": id(cycle),
        "inside cycle": id(cycle[0]),
    }


def code_of(core, function):
    """Addresses of its code: tuples and nested code objects."""
    found, todo = set(), [function.__code__]
    while todo:
        code = todo.pop()
        tuples = [each for each in core.edges_of(code) if type(each) is tuple and each]
        found.update(map(id, [code, *tuples]))
        todo += [inner for each in tuples for inner in each if isinstance(inner, types.CodeType)]
    return found


def words(core, name, code="I"):
    made = array.array(code)
    made.frombytes(core.graph_array(name))
    return made


def is_led_to(core, address, met, left_out):
    return any(address in map(id, core.edges_of(o)) for holder, o in met.items() if holder not in left_out)


def faults_of(core, met, left_out):
    first, edges, sizes = (words(core, name) for name in ("first", "edges", "sizes"))
    addresses = words(core, "addresses", "Q")
    faults, compared, of_type = [], 0, {}
    for address, o in met.items():
        info = core.graph_info(o)
        if address in left_out or info is None:
            if info is not None or not (address in left_out or not is_led_to(core, address, met, left_out)):
                faults.append(f"the number is {info and info['number']!r}: {type(o)!r}")
            continue
        number = info["number"]
        of_type[type(o)] = of_type.get(type(o), 0) + 1
        if number % EACH and of_type[type(o)] > OF_A_TYPE:
            continue
        compared += 1
        row = list(edges[first[number] : first[number + 1]])
        wanted = [id(each) for each in core.edges_of(o) if id(each) not in left_out]
        if addresses[number] != address:
            faults.append(f"the way back leads elsewhere: {type(o)!r}")
        if [addresses[each] for each in row] != wanted or info["edges"] != row:
            faults.append(f"other edges: {type(o)!r} {[addresses[each] for each in row]} {wanted}")
        if info["type"] is not type(o):
            faults.append(f"another type: {type(o)!r}")
        if not is_measured(core, o, sizes[number], info["size"]):
            faults.append(f"another size: {type(o)!r}")
        if len(faults) >= FAULTS:
            break
    if list(addresses) != sorted(addresses, key=lambda address: (address & 8, address)):
        faults.append("numbers are not in the order of addresses")
    return faults, compared


def is_measured(core, o, *told):
    """Code that has run since is larger, and what is not CPython's own is asked for its size in a clone only."""
    size, more, guessed = core.size_of(o)
    whole = size + more + core.owned_by(o)[0]
    return set(told) == {whole} or guessed or isinstance(o, types.CodeType) or "numpy" in type(o).__module__


def retained(core, figures):
    frame = core.graph_add([sys.modules, str(figures), hidden_function])
    number = {id(o): core.graph_info(o)["number"] for o in gc.get_objects() if core.graph_info(o)}
    modules = [number[id(module)] for module in sys.modules.values() if id(module) in number]
    figures["retain"] = core.graph_retain([modules, [frame]], HELD)
    order, parent = words(core, "order"), words(core, "parent")
    units = array.array("I", [NONE]) * len(parent)
    for o in gc.get_objects():
        if isinstance(o, (type, types.FunctionType, types.ModuleType)) and id(o) in number:
            units[number[id(o)]] = number[id(o)]
    roots = [(each, each) for each in order if parent[each] == ROOT]
    found = core.graph_retainers(units.tobytes(), roots, SETS)
    figures["retainers"] = {"sets": found["sets"], "totals": found["totals"], "roots": roots}
    names = ("first", "edges", "sizes", "kind", "parent", "place", "order", "roots", "dominator", "retained", "sets")
    names += ("in_first", "in_edges")
    made = {name: zlib.compress(core.graph_array(name), 1) for name in names}
    made["units"] = zlib.compress(units.tobytes(), 1)
    return made


def make_heap(objects, small):
    if small:
        return {"records": [{"number": [i], "text": str(i)} for i in range(objects)]}
    import heap_zoo  # noqa: PLC0415 it brings most of the standard library along

    return {"zoo": heap_zoo.everything(), "records": heap_zoo.records(objects, True)}


def main():
    core = core_breaks.load(sys.argv[1])
    small = "small" in sys.argv
    heap = make_heap(int(sys.argv[2]), small)
    heap["cycle"] = [heap["records"]]
    heap["cycle"].append(heap["cycle"])
    only = Hidden([{"held by what is left out alone"}])
    heap["left out"] = [only, hidden_function, {"key": only, "both": (hidden_function, only)}]
    gc.collect()
    gc.disable()
    main.heap = heap
    met = closure(heap)
    planted = plant(heap)
    left_out = {id(only), id(hidden_function)} | code_of(core, hidden_function)
    figures = core.graph_build({"own": [id(only), id(hidden_function)], "also": [heap]})
    faults, compared = ([], 0) if small else faults_of(core, met, left_out)
    made, numbers = {}, {}
    if "arrays" in sys.argv:  # all that is in the graph lives still: its references are counted
        made = retained(core, figures)
        at = {address: number for number, address in enumerate(words(core, "addresses", "Q"))}
        numbers = {name: at[address] for name, address in planted.items()}
    core.graph_close()
    print(ascii({"figures": figures, "objects": compared, "faults": faults, "arrays": made, "planted": numbers}))


if __name__ == "__main__":
    main()
