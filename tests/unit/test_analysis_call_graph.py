"""The call tree and the call graph: mprof's worked example, recursion, cycles, paths; and what always holds."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.callers.call_paths import FORGOTTEN_FUNCTION, NO_FRAME_FUNCTION
from heaptop.analysis.samples.cycles import strongly_connected
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.stacks import FORGOTTEN
from tests.unit.call_graph import CallGraph, CallTree, Edge, Entry
from tests.unit.sample_cases import Program, widgets

KEPT = 1_023_876


def graph_of(samples: SampledBlocks) -> CallGraph:
    return CallGraph(CallTree.of(samples))


def named(samples: SampledBlocks, graph: CallGraph) -> dict[str, Entry]:
    return {"+".join(samples.codes[one].function for one in entry.functions): entry for entry in graph.entries}


def number(samples: SampledBlocks, function: str) -> int:
    return next(place for place, code in enumerate(samples.codes) if code.function == function)


def said(samples: SampledBlocks, edges: list[Edge]) -> dict[tuple[str, str], int]:
    return {
        (samples.codes[edge.caller].function, samples.codes[edge.callee].function): edge.figures.allocated.rounded_bytes
        for edge in edges
    }


def test_the_widgets_of_mprofs_paper() -> None:
    """Figures 4 and 5: only make_widget allocates directly, all medium-sized; what is kept is make_red_widget's."""
    samples = widgets()
    graph = graph_of(samples)
    entries = named(samples, graph)
    make, red, blue, main = (entries[name] for name in ("make_widget", "make_red_widget", "make_blue_widget", "main"))
    assert make.direct.allocated.rounded_bytes == main.indirect.allocated.rounded_bytes == 2_040_000
    assert make.direct.allocated.rounded_count == 10_000
    assert make.direct.live.rounded_bytes == main.indirect.live.rounded_bytes == KEPT
    assert make.direct.class_shares() == make.direct.live_class_shares() == (0, 1, 0, 0)
    assert main.direct.allocated.samples == red.direct.allocated.samples == 0
    assert red.indirect.allocated.rounded_bytes == red.indirect.live.rounded_bytes == KEPT
    assert (blue.indirect.allocated.rounded_bytes, blue.indirect.live.rounded_bytes) == (4_981 * 204, 0)
    assert [graph.entries[edge.caller] for edge in make.callers] == [red, blue]
    assert [f"{edge.callee_share:.0%}" for edge in make.callers] == ["50%", "50%"]
    assert [graph.entries[edge.callee] for edge in main.callees] == [red, blue]
    assert not main.callers
    assert not make.callees
    assert not any(entry.is_cycle for entry in graph.entries)
    (widget,) = graph.tree.types(red.functions)
    assert samples.types[widget.type].qualname == "Widget"
    assert widget.indirect.live.rounded_bytes == KEPT
    assert not widget.direct.allocated.samples


def test_recursion_counts_a_stack_once() -> None:
    """mprof's figure 7: F and G call each other, and 10 bytes are 10 bytes on every edge."""
    program = Program()
    program.allocate(("main", "F", "G", "F", "G"), 10)
    samples = program.run()
    graph = graph_of(samples)
    assert said(samples, graph.edges()) == {("main", "F"): 10, ("F", "G"): 10, ("G", "F"): 10}
    assert {one.indirect.allocated.rounded_bytes for one in graph.functions.values()} == {10}
    cycle = named(samples, graph)["F+G"]
    assert cycle.is_cycle
    assert cycle.indirect.allocated.rounded_bytes == cycle.direct.allocated.rounded_bytes == 10
    assert [edge.figures.allocated.rounded_bytes for edge in cycle.callers] == [10]
    assert not cycle.callees
    assert [tuple(samples.codes[one].function for one in graph.tree.path(node)) for node in (1, 5)] == [
        ("main",),
        ("main", "F", "G", "F", "G"),
    ]


def test_a_function_that_calls_itself_is_no_cycle_but_has_an_edge_to_itself() -> None:
    program = Program()
    program.allocate(("walk", "walk", "walk"), 7)
    program.allocate(("walk",), 5)
    samples = program.run()
    graph = graph_of(samples)
    (entry,) = graph.entries
    assert not entry.is_cycle
    assert (entry.indirect.allocated.rounded_bytes, entry.direct.allocated.rounded_bytes) == (12, 12)
    assert said(samples, graph.callees(0)) == said(samples, graph.callers(0)) == {("walk", "walk"): 7}


def test_where_gprofs_assumption_fails_the_figures_are_right() -> None:
    """KPROF §3.2.1: ``foo`` called by ``a`` allocates nothing much, called by ``b`` a lot; calls are equally many."""
    program = Program()
    for _ in range(100):
        program.allocate(("a", "foo"), 1)
        program.allocate(("b", "foo"), 1_000)
    samples = program.run()
    functions = graph_of(samples).functions
    assert functions[number(samples, "a")].indirect.allocated.rounded_bytes == 100
    assert functions[number(samples, "b")].indirect.allocated.rounded_bytes == 100_000


def test_paths_from_a_function_to_its_allocations_have_a_percentage_on_each_edge() -> None:
    program = Program()
    for caller in ("main", "other"):
        program.allocate((caller, "concmap", "append", "cons"), 30)
        program.allocate((caller, "concmap", "test", "filter", "cons"), 10)
        program.allocate((caller, "concmap", "concmap", "append", "cons"), 60)
    program.allocate(("main", "append", "cons"), 1_000)
    samples = program.run()
    tree = CallTree.of(samples).below([number(samples, "concmap")])
    paths = {
        " ".join(samples.codes[one].function for one in tree.path(node)): (
            tree.total[node].allocated.rounded_bytes,
            round(tree.share(node), 3),
        )
        for node in range(1, len(tree.parents))
    }
    assert paths == {
        "concmap": (200, 1),
        "concmap append": (60, 0.3),
        "concmap append cons": (60, 1),
        "concmap test": (20, 0.1),
        "concmap test filter": (20, 1),
        "concmap test filter cons": (20, 1),
        "concmap concmap": (120, 0.6),
        "concmap concmap append": (120, 1),
        "concmap concmap append cons": (120, 1),
    }
    edges = {
        (samples.codes[edge.caller].function, samples.codes[edge.callee].function): round(edge.caller_share, 3)
        for edge in CallGraph(tree).edges()
    }
    assert edges[("concmap", "append")] == 0.9
    assert edges[("append", "cons")] == 1
    assert edges[("concmap", "test")] == 0.1


def test_the_same_paths_from_below() -> None:
    program = Program()
    program.allocate(("main", "red", "make", "new"), 3)
    program.allocate(("main", "blue", "make"), 5)
    program.allocate(("main",), 100)
    samples = program.run()
    tree = CallTree.of(samples).above([number(samples, "make")])
    assert [
        (" ".join(samples.codes[one].function for one in tree.path(node)), tree.total[node].allocated.rounded_bytes)
        for node in range(1, len(tree.parents))
    ] == [("make", 8), ("make red", 3), ("make red main", 3), ("make blue", 5), ("make blue main", 5)]


def test_blocks_without_a_frame_or_a_place_are_functions_of_their_own() -> None:
    program = Program()
    program.allocate((), 8)
    program.allocate(("main",), 9)
    samples = SampledBlocks(stack_limit=1)
    small = Program(samples=samples)
    small.allocate(("main",), 1)
    small.allocate(("main", "beyond"), 2)
    assert {
        one: figures.indirect.allocated.rounded_bytes for one, figures in graph_of(program.run()).functions.items()
    } == {
        NO_FRAME_FUNCTION: 8,
        0: 9,
    }
    assert {tally.stack for tally in small.run().tallies()} == {FORGOTTEN}
    assert [*graph_of(samples).functions] == [FORGOTTEN_FUNCTION]


def test_a_restriction_is_of_what_is_counted() -> None:
    program = Program()
    program.allocate(("main", "f"), 8, "A")
    program.allocate(("main", "g"), 9, "B")
    samples = program.run()
    graph = CallGraph(CallTree.of(samples, lambda tally: samples.type_name(tally.type).qualname == "B"))
    assert graph.total.allocated.rounded_bytes == 9
    assert {samples.codes[one].function for one in graph.functions} == {"main", "g"}


blocks = st.lists(
    st.tuples(st.lists(st.sampled_from("abcdef"), max_size=7), st.integers(1, 5_000), st.booleans()), max_size=30
)


@given(blocks)
def test_figures_are_sums_over_whole_stacks(given_blocks: list[tuple[list[str], int, bool]]) -> None:
    """Against the plainest way to count: each block once for each function and each call on its stack."""
    program = Program()
    direct, indirect, calls = defaultdict(int), defaultdict(int), defaultdict(int)
    live = defaultdict(int)
    for frames, size, is_freed in given_blocks:
        block = program.allocate(tuple(frames), size)
        if is_freed:
            program.free(block)
        path = frames or [""]
        direct[path[-1]] += size
        for function in set(path):
            indirect[function] += size
            live[function] += 0 if is_freed else size
        for pair in set(pairwise(path)):
            calls[pair] += size
    samples = program.run()
    graph = graph_of(samples)

    def name(function: int) -> str:
        return samples.codes[function].function if function >= 0 else ""

    figures = {name(one.function): one for one in graph.functions.values()}
    assert {one: figures[one].indirect.allocated.rounded_bytes for one in figures} == indirect
    assert {one: figures[one].indirect.live.rounded_bytes for one in figures} == live
    assert all(figures[one].direct.allocated.rounded_bytes == direct[one] for one in figures)
    assert said(samples, graph.edges()) == calls
    whole = sum(size for _, size, _ in given_blocks)
    assert graph.total.allocated.rounded_bytes == whole
    assert sum(entry.direct.allocated.rounded_bytes for entry in graph.entries) == whole
    check_entries(samples, graph, given_blocks)
    for function in graph.functions:
        check_paths(graph, function)


def check_paths(graph: CallGraph, function: int) -> None:
    """From a function down and up: what it allocates indirectly, each path and each edge of it once."""
    whole = graph.functions[function].indirect
    for tree in (graph.tree.below([function]), graph.tree.above([function])):
        assert tree.children[0] == [1]
        assert tree.functions[1] == function
        assert (tree.total[1].allocated, tree.total[1].live) == (whole.allocated, whole.live)
        for node in range(1, len(tree.parents)):
            parts = tree.own[node].allocated.bytes + sum(tree.total[one].allocated.bytes for one in tree.children[node])
            assert parts == tree.total[node].allocated.bytes
        assert len({tree.path(node) for node in range(len(tree.parents))}) == len(tree.parents)
    below = CallGraph(graph.tree.below([function]))
    assert {edge.callee for edge in below.callees(function)} == {edge.callee for edge in graph.callees(function)}
    types = graph.tree.types([function])
    assert sum(one.indirect.allocated.bytes for one in types) == whole.allocated.bytes
    assert sum(one.direct.live.bytes for one in types) == graph.functions[function].direct.live.bytes


def check_entries(samples: SampledBlocks, graph: CallGraph, given_blocks: list[tuple[list[str], int, bool]]) -> None:
    """Every entry has what passed through any of its functions, and the graph has no cycles."""
    for place, entry in enumerate(graph.entries):
        members = {samples.codes[one].function if one >= 0 else "" for one in entry.functions}
        through = sum(size for frames, size, _ in given_blocks if members & set(frames or [""]))
        assert entry.indirect.allocated.rounded_bytes == through
        assert sum(entry.indirect.class_shares()) == pytest.approx(1)
        assert all(edge.callee == place and edge.caller != place for edge in entry.callers)
        below = sum(edge.figures.allocated.bytes for edge in entry.callees)
        assert below + entry.direct.allocated.bytes == entry.indirect.allocated.bytes
    assert all(
        len(group) == 1
        for group in strongly_connected(
            {place: [edge.callee for edge in entry.callees] for place, entry in enumerate(graph.entries)}
        )
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_components_are_those_that_reach_each_other(pairs: list[tuple[int, int]]) -> None:
    callees: dict[int, list[int]] = {node: [] for node in range(10)}
    for caller, callee in pairs:
        callees[caller].append(callee)
    reached = {node: {node} for node in callees}
    for _ in callees:
        for node, out in callees.items():
            reached[node] |= {far for one in out for far in reached[one]}
    groups = strongly_connected(callees)
    assert sorted(node for group in groups for node in group) == [*range(10)]
    for position, group in enumerate(groups):
        for node in group:
            assert {other for other in reached[node] if node in reached[other]} == set(group)
            later = {other for after in groups[position + 1 :] for other in after}
            assert not reached[node] & later


def test_ten_thousand_calls_deep_is_no_recursion_of_ours() -> None:
    callees = {node: [node + 1] for node in range(10_000)}
    callees[10_000] = [0]
    assert [len(group) for group in strongly_connected(callees)] == [10_001]
