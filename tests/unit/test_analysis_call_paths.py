"""Paths for a screen say what the call tree and the call graph say, which are made in another way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.callers.call_paths import Amounts, CallPaths
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from tests.unit.call_graph import CallGraph, CallTree
from tests.unit.sample_cases import EVERYTHING, Program

stacks = st.lists(st.sampled_from("ABCDE"), max_size=7).map(tuple)
blocks = st.lists(st.tuples(stacks, st.integers(1, 4000), st.booleans()), min_size=1, max_size=30)
"""Stacks, sizes, and whether each is freed."""


def run(given_blocks: list[tuple[tuple[str, ...], int, bool]], rate: int = EVERYTHING) -> SampledBlocks:
    program = Program(rate)
    for frames, size, dies in given_blocks:
        number = program.allocate(frames, size)
        if dies:
            program.free(number)
    return program.run()


def amounts(samples: SampledBlocks, paths: CallPaths) -> Amounts:
    return Amounts(paths, list(samples.tallies()), samples.stacks)


def said(tree: CallTree) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Of every path that anything is on: living and allocated, in all and its own."""
    return {
        tree.path(node): (
            tree.total[node].live.bytes,
            tree.total[node].allocated.bytes,
            tree.own[node].live.bytes,
            tree.own[node].allocated.bytes,
        )
        for node in range(1, len(tree.parents))
    }


def found(one: Amounts) -> dict[tuple[int, ...], tuple[int, ...]]:
    return {
        one.paths.path(node): (
            one.total(node, "live"),
            one.total(node, "allocated"),
            one.own(node, "live"),
            one.own(node, "allocated"),
        )
        for node in range(1, len(one.paths.parents))
        if one.total(node, "allocated")
    }


@given(blocks, st.sampled_from([EVERYTHING, 512]))
def test_paths_are_those_of_the_call_tree(given_blocks: list[tuple[tuple[str, ...], int, bool]], rate: int) -> None:
    samples = run(given_blocks, rate)
    tree, paths = CallTree.of(samples), CallPaths.of(samples.stacks)
    assert found(amounts(samples, paths)) == said(tree)
    for function in set(tree.functions[1:]):
        assert found(amounts(samples, paths.below({function}))) == said(tree.below({function}))
        assert found(amounts(samples, paths.above({function}))) == said(tree.above({function}))


@given(blocks, st.sampled_from([EVERYTHING, 512]))
def test_functions_are_those_of_the_call_graph(
    given_blocks: list[tuple[tuple[str, ...], int, bool]], rate: int
) -> None:
    samples = run(given_blocks, rate)
    graph, one = CallGraph(CallTree.of(samples)), amounts(samples, CallPaths.of(samples.stacks))
    totals = one.totals(one.paths.first_places, "live")
    for number, function in graph.functions.items():
        first, places = one.paths.first_places[number], one.paths.places[number]
        assert totals[number] == function.indirect.live.bytes
        assert one.live(first) == function.indirect.live
        assert one.total_of(first, "allocated") == function.indirect.allocated.bytes
        assert one.total_of(first, "live.count") == function.indirect.live.count
        assert sum(one.own(node, "live") for node in places) == function.direct.live.bytes
        assert one.classes(first) == function.indirect.class_shares()
        assert one.total_of(first, "freed") + one.live(first).bytes == function.indirect.allocated.bytes


@given(blocks)
def test_merged_paths_are_the_entries_of_the_call_graph(given_blocks: list[tuple[tuple[str, ...], int, bool]]) -> None:
    samples = run(given_blocks)
    graph = CallGraph(CallTree.of(samples))
    one = amounts(samples, CallPaths.of(samples.stacks).merged())
    for node in range(1, len(one.paths.parents)):
        assert one.paths.functions[node] not in one.paths.path(one.paths.parents[node]), "who leaves comes not back"
    for entry in graph.entries:
        name = min(entry.functions)
        assert one.paths.members.get(name, (name,)) == tuple(sorted(entry.functions))
        nodes = one.paths.first_places[name]
        assert one.total_of(nodes, "allocated") == entry.indirect.allocated.bytes
        assert one.live(nodes) == entry.indirect.live
        assert sum(one.own(node, "allocated") for node in nodes) == entry.direct.allocated.bytes


def test_a_stack_that_came_later_counts_at_its_caller() -> None:
    program = Program()
    program.allocate(("main", "make"), 24)
    samples = program.run()
    paths = CallPaths.of(samples.stacks)
    program.allocate(("main", "make", "decode"), 10)
    program.allocate(("elsewhere",), 5)
    one = amounts(program.run(), paths)
    main = paths.children[0][0] if paths.functions[paths.children[0][0]] >= 0 else paths.children[0][-1]
    assert one.total(main, "live") >> 16 == 34
    assert one.own(paths.children[main][0], "live") >> 16 == 34
    assert one.total(0, "live") >> 16 == 39, "nothing is lost"
    below = amounts(samples, paths.below({paths.functions[main]}))
    assert below.total(0, "live") >> 16 == 34, "what is not below it is left out"


def test_ten_thousand_calls_deep() -> None:
    samples = run([(("down",) * 10_000, 8, False)])
    paths = CallPaths.of(samples.stacks)
    assert amounts(samples, paths).total(0, "live") >> 16 == 8
    assert len(paths.merged().parents) == 4, "the root, two that are no functions, and one"
