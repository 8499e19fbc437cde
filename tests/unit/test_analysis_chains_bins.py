"""The leak table and the allocation bins: mprof's worked example, and the sums that must agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.samples.bins import bins
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from tests.unit.leak_table import Chain, chains
from tests.unit.sample_cases import Program, sampler, widgets


def names(samples: SampledBlocks, chain: Chain) -> str:
    return " < ".join(samples.codes[code].function + (f":{line}" if line else "") for code, line in chain)


def test_the_leak_table_of_mprofs_paper() -> None:
    """Figure 2: one path only, and it tells at once what objects are not freed."""
    samples = widgets()
    (row,) = chains(samples)
    assert names(samples, row.chain) == "make_widget < make_red_widget < main"
    assert (row.allocated.count, row.freed.count, row.kept.count, row.kept.bytes) == (5_019, 0, 5_019, 1_023_876)
    assert not row.cut
    blue = chains(samples, everything=True)[1]
    assert names(samples, blue.chain) == "make_widget < make_blue_widget < main"
    assert (blue.allocated.count, blue.freed.count, blue.kept.count) == (4_981, 4_981, 0)


def test_the_bins_of_mprofs_paper() -> None:
    """Figure 3: 10,000 widgets of one size, of which 4,981 were freed, so that 1,023,876 bytes are kept."""
    table = bins(widgets())
    (row,) = table.rows
    assert (row.label, row.allocated.count, row.allocated.bytes) == ("204", 10_000, 2_040_000)
    assert (row.freed.count, row.kept.bytes) == (4_981, 1_023_876)
    assert [(one.type.qualname, one.kept.bytes) for one in row.types] == [("Widget", 1_023_876)]
    assert [one.allocated.count for one in table.classes] == [0, 10_000, 0, 0]
    assert [one.label for one in table.classes] == ["1–32", "33–256", "257–2048", "> 2048"]
    assert (row.kept_share, table.classes[1].kept_share) == (1, 1)
    assert table.total.kept == row.kept


def test_a_chain_is_as_long_as_is_asked_for() -> None:
    program = Program()
    deep = ("main:1", "a:2", "b:3", "c:4", "d:5", "e:6")
    program.allocate(deep, 10)
    program.allocate(("other:1", *deep[1:]), 20)
    program.allocate(("main:1", "a:2", "b:3", "c:4", "d:5", "e:7"), 5)
    program.allocate((), 1)
    samples = program.run()
    five, none = chains(samples)
    assert (names(samples, five.chain), five.cut, five.kept.bytes) == ("e < d < c < b < a", True, 35)
    outermost = samples.stacks.path(five.stack)[-1]
    assert samples.codes[samples.stacks.codes[outermost]].function == "other"  # the stack that keeps most
    assert (none.chain, none.cut, none.kept.bytes) == ((), False, 1)
    assert [(names(samples, row.chain), row.kept.bytes, row.cut) for row in chains(samples, None, lines=True)] == [
        ("e:6 < d:5 < c:4 < b:3 < a:2 < other:1", 20, False),
        ("e:6 < d:5 < c:4 < b:3 < a:2 < main:1", 10, False),
        ("e:7 < d:5 < c:4 < b:3 < a:2 < main:1", 5, False),
        ("", 1, False),
    ]
    assert [row.kept.bytes for row in chains(samples, 1, where=lambda one: one.bin > 5)] == [30]


def test_bins_in_their_order_with_those_not_kept_apart() -> None:
    samples = SampledBlocks(tally_limit=8)
    program = Program(samples=samples)
    for size in [*range(1, 40), 300, 1_024, 1_500, 2_048, 2_049, 9_999]:
        program.free(program.allocate(("main",), size, "T"))
    program.allocate(("main",), 1_500)
    program.run()
    rows = bins(samples).rows
    assert {row.number for row in rows} & {-1, -2, -3}
    classes = [row.label for row in rows if row.number < 0]
    assert classes == [label for label in ("1–32", "33–256", "257–2048") if label in classes]
    assert [row.kept.bytes for row in rows if row.label == "1025–2048"] == [1_500]
    assert sum(row.allocated.bytes for row in rows) == sum(range(1, 40)) + 300 + 1_024 + 3_000 + 2_048 + 2_049 + 9_999
    samples.feed(sampler(1, epoch=9))
    after = bins(samples).total
    assert (after.kept.count, after.allocated.count) == (0, 46)
    assert after.freed.count == 45  # what became of the other one nobody knows


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("abc"), max_size=6), st.sampled_from([1, 40, 1_025, 3_000]), st.booleans()),
        max_size=25,
    ),
    st.one_of(st.none(), st.integers(1, 6)),
    st.booleans(),
)
def test_all_tables_add_up_to_the_same(
    blocks: list[tuple[list[str], int, bool]], callers: int | None, lines: bool
) -> None:
    program = Program()
    for frames, size, is_freed in blocks:
        number = program.allocate(tuple(f"{name}:{size}" for name in frames), size)
        if is_freed:
            program.free(number)
    samples = program.run()
    allocated, freed = sum(size for _, size, _ in blocks), sum(size for _, size, gone in blocks if gone)
    table = bins(samples)
    rows = chains(samples, callers, lines=lines, everything=True)
    for parts in (rows, table.rows, table.classes, [table.total]):
        assert sum(one.allocated.bytes for one in parts) == allocated
        assert sum(one.freed.bytes for one in parts) == freed
        assert sum(one.kept.bytes for one in parts) == allocated - freed
    suffixes = {tuple((name, size if lines else 0) for name in frames)[::-1][:callers] for frames, size, _ in blocks}
    assert {tuple((samples.codes[code].function, line) for code, line in row.chain) for row in rows} == suffixes
    assert [row.kept.bytes for row in rows] == sorted((row.kept.bytes for row in rows), reverse=True)
