"""Live native memory by site, line and library, from what was sampled."""

from __future__ import annotations

from dataclasses import replace

from heaptop.analysis.rss.malloc_sites import (
    by_library,
    by_line,
    by_site,
    largest_growth,
    native_json,
    notes,
    total,
)
from heaptop.analysis.samples.estimate import Sums
from heaptop.cli.output.native import as_lines
from heaptop.protocol.messages import MallocBlocks, MallocFrame, MallocSite, MallocSites

MAIN = MallocFrame("/srv/app.py", "main", 9)


def site(
    library: str, symbol: str, line: int, *blocks: tuple[int, int, int], gap: str = "", file: str = "/srv/app.py"
) -> MallocSite:
    """With (size, interval, number) of its blocks."""
    stack = () if gap else (MallocFrame(file, "load", line), MAIN)
    return MallocSite(library, symbol, stack, gap, tuple(MallocBlocks(one[0], one[0], *one[1:]) for one in blocks))


def found(*sites: MallocSite, coarsest: int = 1000, dropped: int = 0, missed: int = 0) -> MallocSites:
    return MallocSites(1000, coarsest, 50, dropped, missed, sites)


SITES = (
    site("/usr/lib/libz.so.1", "deflateInit2_", 4, (200, 1000, 30), (1 << 20, 1000, 2)),
    site("/usr/lib/libz.so.1", "inflateInit2_", 4, (200, 1000, 10)),
    site("/usr/lib/libbz2.so.1", "", 5, (1 << 20, 1000, 1)),
    site("/usr/lib/libz.so.1", "deflateInit2_", 0, (100_000, 1000, 1), gap="none"),
)


def test_sites_lines_and_libraries_each_count_all_bytes_once() -> None:
    whole = total(found(*SITES)).bytes
    assert whole == Sums.of([(200, 1000)] * 40 + [(1 << 20, 1000)] * 3 + [(100_000, 1000)]).estimate().bytes
    for group in (by_site, by_line, by_library):
        assert abs(sum(row.estimate.bytes for row in group(found(*SITES))) - whole) <= len(SITES)


def test_a_site_is_a_line_a_library_and_its_function() -> None:
    assert [(row.line, row.caller) for row in by_site(found(*SITES))] == [
        ("/srv/app.py:4", "libz.so.1 deflateInit2_"),
        ("/srv/app.py:5", "libbz2.so.1"),
        ("(no Python stack)", "libz.so.1 deflateInit2_"),
        ("/srv/app.py:4", "libz.so.1 inflateInit2_"),
    ]


def test_stacks_that_differ_further_out_are_one_site() -> None:
    one = site("/usr/lib/libz.so.1", "f", 4, (1 << 20, 1000, 1))
    other = MallocSite(one.library, one.symbol, one.stack[:1], "", one.blocks)
    (row,) = by_site(found(one, other))
    assert row.estimate.bytes == 2 << 20
    assert len(by_line(found(one, other))) == 1


def test_what_is_left_of_a_mapping_counts() -> None:
    half = MallocSite("libm.so", "f", (MAIN,), "", (MallocBlocks(1 << 20, 1 << 19, 1000, 3),))
    assert total(found(half)).bytes == 3 << 19
    small = MallocSite("libm.so", "f", (MAIN,), "", (MallocBlocks(100, 50, 1000, 3),))
    assert total(found(small)).bytes == round(Sums.of([(100, 1000)] * 3).estimate().bytes / 2)


def test_what_is_not_known_is_reported() -> None:
    assert list(notes(found(*SITES))) == []
    (dropped,) = notes(found(*SITES, dropped=3))
    assert dropped.startswith("At least: 3 samples")
    (missed,) = notes(found(*SITES, missed=2))
    assert missed.startswith("At most: 2 frees")
    (unknown,) = notes(found(site("?", "", 1, (200, 1000, 1))))
    assert "glibc 2.35" in unknown
    (compiled,) = notes(found(*SITES, site("?", "", 1, (200, 1000, 1))))
    assert compiled == "?: code that is in no library, such as compiled at run time."
    (coarser,) = notes(found(*SITES, coarsest=4000))
    assert "rose to 3.91 KiB" in coarser


def test_smaller_sites_that_are_left_out_are_reported() -> None:
    (left_out,) = notes(replace(found(*SITES), left_out=7))
    assert left_out == "7 smaller sites of native memory are left out."


def test_cpps_new_that_is_not_seen_is_reported() -> None:
    (unseen,) = notes(replace(found(*SITES), own_new=True))
    assert unseen.startswith("At least: what C++ allocates by new is not sampled")


def test_a_site_that_may_have_been_left_out_before_has_not_grown_for_sure() -> None:
    then, large = found(site("libz", "f", 4, (1 << 20, 1000, 9))), site("libz", "g", 5, (1 << 20, 1000, 8))
    now = found(site("libz", "f", 4, (1 << 20, 1000, 10)), large)
    for before, line in ((then, "/srv/app.py:5"), (replace(then, left_out=1), "/srv/app.py:4")):
        grown = largest_growth(before, now)
        assert grown is not None
        assert grown.now.line == line


def test_intervals_are_wider_where_the_sampling_interval_rose() -> None:
    assert total(found(*SITES, coarsest=1 << 20)).error > total(found(*SITES)).error


def test_the_document_has_the_rows_of_the_table() -> None:
    document = native_json(found(*SITES), pid=4711, python="3.12.1", exited=True, status=-9, top=2)
    assert [row["function"] for row in document["sites"]] == ["deflateInit2_", ""]
    assert document["sites"][0]["stack"][1] == {"file": "/srv/app.py", "function": "main", "line": 9}
    assert [row["line"] for row in document["lines"]] == [4, 5]
    assert len(document["libraries"]) == 2
    text = "\n".join(as_lines(found(*SITES), 2, exited=True))
    assert "(no Python stack): the thread ran no Python code, or released the GIL" in text
    assert "never freed" in text
    assert "/srv/app.py:5" in text
    assert "(2 more sites: --top)" in text


def test_names_of_the_target_cannot_reach_the_terminal() -> None:
    hostile = site("/lib/\x1b[2J.so", "f\n", 1, (1 << 20, 1000, 1), file="a\x1b]0;x\a.py")
    assert all(line.isprintable() for line in as_lines(found(hostile), None, exited=False))
