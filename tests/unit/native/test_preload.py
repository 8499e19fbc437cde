"""The preloaded library: in programs in C, and its tables alone under the compiler's sanitizers."""

from __future__ import annotations

import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from heaptop.analysis.rss.malloc_sites import total
from heaptop.errors import LaunchFailed
from heaptop.injector.preload import loading, malloc_table
from heaptop.injector.preload.malloc_table import MallocTable, TableInvalid, read_sites
from tests.support import preloaded
from tests.support.building import NATIVE, library_with, program_with
from tests.support.core_builds import SANITIZED
from tests.support.preloaded import FINE, holds, of, run, sums
from tests.support.processes import PATIENCE, eventually

SMALL = 20000 * 700
"""Bytes that one call of ``small`` in preload_cases.c leaves."""


def case(name: str) -> preloaded.Run:
    found = run([str(cases()), name])
    assert found.code == 7
    assert found.refusal == ""
    assert found.sites.dropped == found.sites.missed == 0
    return found


def cases() -> Path:
    return program_with("preload_cases.c", options=["-rdynamic", "-pthread"])


def test_live_bytes_are_within_the_interval() -> None:
    found = sums(of(case("small"), "leak")).estimate()
    assert found.samples > 100
    assert holds(found, SMALL)


def test_what_was_freed_is_not_live() -> None:
    found = case("freed")
    assert found.sites.sampled > 100
    assert of(found, "leak") == []


def test_allocations_that_fail_count_nothing() -> None:
    found = sums(of(case("refused"), "leak")).estimate()
    assert found.samples < 50, "200 blocks of 600 bytes are seven intervals"


def test_every_function_that_allocates_is_sampled() -> None:
    found = of(case("kinds"), "kinds")
    assert [(blocks.size, blocks.number) for site in found for blocks in site.blocks] == [(3 << 20, 8)]


def test_blocks_of_libcs_are_its_callers_where_its_stack_can_be_read() -> None:
    """On the first thread, on another, and in a frame that is aligned; else, as on a stack of the program's own and
    below code without tables, they are libc's, and nothing else happens."""
    found = case("places").sites.sites
    sites = {blocks.size - (1 << 20): site for site in found for blocks in site.blocks if blocks.size >> 20}
    named = {place: sites[place].symbol.partition(".")[0] for place in (1, 2, 6)}  # a copy of a function has a suffix
    assert named == {1: "duplicate", 2: "duplicate", 6: "duplicate_aligned"}
    assert sites[4].library.rpartition("/")[2] == sites[5].library.rpartition("/")[2] == "libc.so.6"
    assert 3 in sites


def test_mappings_count_as_far_as_they_are_mapped() -> None:
    found = of(case("mappings"), "mappings")
    whole, page = 8 << 20, 4096
    assert sorted(blocks.left for site in found for blocks in site.blocks) == [whole - 3 * page, 2 * whole]


def test_whole_pages_are_unmapped_and_only_by_calls_that_succeed() -> None:
    found = of(case("unmapped"), "unmapped")
    assert [blocks.left for site in found for blocks in site.blocks] == [(8 << 20) - 2 * 4096]


def test_mappings_that_grow_are_estimated_by_the_chance_that_they_were_sampled_with() -> None:
    found = case("resized")
    estimate = total(replace(found.sites, sites=tuple(of(found, "resized"))))
    assert holds(estimate, 40 * 8 << 20)
    assert estimate.low < estimate.high


def test_a_mapping_moved_onto_another_replaces_what_is_there() -> None:
    found = of(case("replaced"), "replaced")
    assert [(blocks.left, blocks.number) for site in found for blocks in site.blocks] == [(4 << 20, 2)]


def test_threads_are_sampled() -> None:
    assert holds(sums(of(case("threads"), "leak")).estimate(), 4 * SMALL)


def test_what_forked_children_allocate_is_not_counted() -> None:
    assert holds(sums(of(case("forks"), "leak")).estimate(), SMALL)


def test_a_fork_beside_threads_in_the_tables_waits_for_nothing() -> None:
    found = run([str(cases()), "forks in threads"], interval=1 << 10)
    assert found.code == 7


def test_signal_handlers_may_allocate_in_the_middle_of_a_sample() -> None:
    found = run([str(cases()), "signals"], interval=1 << 10)
    assert found.code == 7
    assert found.sites.sampled > 1000


def test_a_child_that_is_forked_in_the_middle_of_a_sample_goes_on() -> None:
    found = run([str(cases()), "forks in handler"], interval=1 << 10)
    assert found.code == 7
    assert found.sites.sampled > 1000


def test_a_program_that_is_executed_is_without_the_library() -> None:
    found = case("execs")
    assert found.output == "- -\n"
    assert holds(sums(of(found, "leak")).estimate(), SMALL)


def test_other_preloaded_libraries_stay_for_what_is_executed() -> None:
    other = str(program_with("preload_cases.c", options=["-shared", "-fPIC", "-DOTHER"]))
    found = run([str(cases()), "execs"], preloaded=other)
    assert found.output == f"{other} -\n"


@pytest.mark.parametrize("options", [[], ["-DOWN_NEW"]], ids=["malloc", "malloc and new"])
def test_an_allocator_with_an_operator_new_of_its_own_is_reported(options: list[str]) -> None:
    found = run([str(cases()), "small"], preloaded=str(library_with("other_malloc.c", options=options)))
    assert (found.code, found.refusal) == (7, "")
    assert found.sites.own_new == bool(options)
    assert holds(sums(of(found, "leak")).estimate(), SMALL)


def test_who_stands_in_for_the_interpreter_is_passed() -> None:
    found = run(["sh", "-c", f"true; exec {cases()} small"], executable=str(cases()))
    assert found.refusal == ""
    assert holds(sums(of(found, "leak")).estimate(), SMALL)


def test_a_program_that_is_no_python_is_not_sampled_and_says_so() -> None:
    found = run(["true"])
    assert found.code == 0
    assert "was not loaded into the interpreter" in found.refusal
    assert found.sites.sampled == 0


def test_a_program_that_replaced_itself_is_refused_while_it_runs() -> None:
    table = MallocTable(FINE)
    command = ["env", *table.environment(preloaded.library(), ""), str(cases()), "replaces itself"]
    child = subprocess.Popen(command, pass_fds=[table.fd])
    try:
        assert eventually(lambda: "execve" in table.refusal(child.pid))
        child.kill()
        child.wait()
        assert table.refusal(child.pid) == ""
    finally:
        child.kill()
        child.wait()
        table.close()


def test_a_static_program_is_refused() -> None:
    with pytest.raises(LaunchFailed) as refused:
        loading.check(str(program_with("preload_cases.c", options=["-static", "-pthread"])))
    assert "statically linked" in refused.value.why
    assert "--native" in refused.value.fix


def test_a_program_with_other_privileges_is_refused(tmp_path: Path) -> None:
    privileged = tmp_path / "python"
    privileged.write_bytes(Path("/bin/true").read_bytes())
    privileged.chmod(0o4755)
    with pytest.raises(LaunchFailed, match="preloaded") as refused:
        loading.check(str(privileged))
    assert "setuid" in refused.value.why


def test_an_interpreter_on_musl_is_refused(tmp_path: Path) -> None:
    content = cases().read_bytes()
    linker = b"/lib64/ld-linux-x86-64.so.2"
    assert linker in content
    musl = tmp_path / "python"
    musl.write_bytes(content.replace(linker, b"/lib/ld-musl-x86_64.so.1".ljust(len(linker), b"\0")))
    with pytest.raises(LaunchFailed) as refused:
        loading.check(str(musl))
    assert "musl" in refused.value.why


def test_an_interpreter_that_can_be_preloaded_is_not_refused() -> None:
    loading.check(str(cases()))
    loading.check("/nonexistent")


@pytest.mark.parametrize("options", [(), tuple(SANITIZED)], ids=["plain", "sanitized"])
def test_tables_fill_up_and_say_so(options: tuple[str, ...]) -> None:
    folder = NATIVE.parent / "preload"
    sources = [folder / f"{name}.c" for name in ("samples", "sites", "unwind")]
    parts = program_with("preload_parts.c", *sources, options=[*options, "-std=gnu11"])
    done = subprocess.run([parts], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, "1 1\ndone\n"), done.stderr[-3000:]


def test_loads_with_an_old_glibc() -> None:
    with preloaded.library().open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".gnu.version_r")
        assert isinstance(section, GNUVerNeedSection)
        names = {version.name for _, versions in section.iter_versions() for version in versions}
    versions = [tuple(map(int, re.findall(r"\d+", name))) for name in names if name.startswith("GLIBC_")]
    assert versions
    assert max(versions) <= (2, 17)


def table_of(at: int, data: bytes) -> malloc_table.Read:
    """A table with one live block, changed at one place."""
    content = bytearray(malloc_table.SIZE)
    malloc_table.HEAD.pack_into(content, 0, malloc_table.MAGIC, 1, 1, 0, 0, 1, 14, 14, 14, 14, 1, 1, 4, 1, 4, 0)
    malloc_table.RECORD.pack_into(content, malloc_table.RECORDS_AT, 4096, 100, 100, 2, 0, 0, 14, 0)
    malloc_table.SITE.pack_into(content, malloc_table.SITES_AT, 8, 1, 3)
    malloc_table.NODE.pack_into(content, malloc_table.NODES_AT + 3 * 8, 0, 0)
    malloc_table.FRAME.pack_into(content, malloc_table.FRAMES_AT, 1, 1, 12)
    content[malloc_table.TEXTS_AT + 1 : malloc_table.TEXTS_AT + 4] = b"\x1b[\0"
    content[at : at + len(data)] = data
    return reading(content)


def reading(content: bytearray) -> malloc_table.Read:
    return lambda offset, size: bytes(content[offset : offset + size])


def test_what_a_table_names_is_printable() -> None:
    (site,) = read_sites(table_of(0, b""), "/python").sites
    assert (site.library, site.stack[0].file, site.stack[0].line) == (" [", " [", 12)


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (0, b"\0"),
        (40, b"\xff"),
        (44, struct.pack("<I", 1 << 20)),
        (56, struct.pack("<I", 1 << 20)),
        (malloc_table.RECORDS_AT + 8, struct.pack("<Q", 1 << 63)),
        (malloc_table.RECORDS_AT + 8, struct.pack("<Q", 0)),
        (malloc_table.RECORDS_AT + 16, struct.pack("<Q", 0)),
        (malloc_table.RECORDS_AT + 16, struct.pack("<Q", 1 << 63)),
        (malloc_table.RECORDS_AT + 28, struct.pack("<I", 1)),
        (malloc_table.RECORDS_AT + 36, b"\xff"),
        (malloc_table.SITES_AT + 8, struct.pack("<I", 1 << 30)),
        (malloc_table.SITES_AT + 12, struct.pack("<I", 4)),
        (malloc_table.NODES_AT + 28, struct.pack("<I", 1)),
        (malloc_table.FRAMES_AT, struct.pack("<I", 77)),
    ],
)
def test_a_table_that_the_target_has_broken_is_refused(at: int, data: bytes) -> None:
    with pytest.raises(TableInvalid):
        read_sites(table_of(at, data), "/python")


def table_of_sites(number: int, library: int, outer: int) -> malloc_table.Read:
    """A table with a live block of 1 MiB in each of so many sites: the first ``outer`` are of one line with another
    caller each, the others of a line each. The names of libraries have ``library`` starts in one text."""
    content = bytearray(malloc_table.SIZE)
    counts = (number, number, 2 * number + 3, number + 1, 1000)
    malloc_table.HEAD.pack_into(content, 0, malloc_table.MAGIC, 1, 1, 0, 0, number, 14, 14, 14, 14, *counts, 0)
    content[malloc_table.TEXTS_AT + 1 : malloc_table.TEXTS_AT + 999] = b"/" * 998
    for i in range(number):
        malloc_table.RECORD.pack_into(
            content, malloc_table.RECORDS_AT + i * 40, i + 1 << 20, 1 << 20, 1 << 20, 2, i, 0, 14, 0
        )
        malloc_table.SITE.pack_into(content, malloc_table.SITES_AT + i * 16, 8, 1 + i % library, 3 + 2 * i)
        malloc_table.FRAME.pack_into(content, malloc_table.FRAMES_AT + (i + 1) * 12, 0, 0, i + 1)
        innermost, caller = (0, i + 1) if i < outer else (i + 1, 0)
        malloc_table.NODE.pack_into(content, malloc_table.NODES_AT + (3 + 2 * i) * 8, 4 + 2 * i, innermost)
        malloc_table.NODE.pack_into(content, malloc_table.NODES_AT + (4 + 2 * i) * 8, 0, caller)
    return reading(content)


def test_sites_of_one_line_are_one_before_small_ones_are_left_out() -> None:
    found = read_sites(table_of_sites(1000, library=1, outer=400), "/python", most=200)
    assert (len(found.sites), found.left_out) == (200, 401)
    assert sum(blocks.number for blocks in found.sites[0].blocks) == 400
    assert found.sites[0].stack[0].line == 0


def test_functions_are_named_of_a_limited_number_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def names(pid: int, path: str, addresses: list[int]) -> dict[int, str]:
        asked.append(path)
        return dict.fromkeys(addresses, "called")

    monkeypatch.setattr(malloc_table.symbols, "names", names)
    found = read_sites(table_of_sites(1000, library=500, outer=0), "/python")
    assert len(asked) == malloc_table.MOST_LIBRARIES
    assert len(found.sites) == 1000
    assert sum(site.symbol == "called" for site in found.sites) == 2 * len(asked)


def test_a_stack_that_runs_in_a_circle_ends() -> None:
    (site,) = read_sites(table_of(malloc_table.NODES_AT + 3 * 8, struct.pack("<I", 3)), "/python").sites
    assert len(site.stack) == malloc_table.DEEPEST


def test_a_record_that_was_never_finished_is_left_out() -> None:
    assert read_sites(table_of(malloc_table.RECORDS_AT + 24, b"\3"), "/python").sites == ()


def test_the_size_of_a_table_cannot_change() -> None:
    table = MallocTable(1 << 17)
    try:
        with pytest.raises(OSError, match="not permitted"):
            malloc_table.os.ftruncate(table.fd, 0)
    finally:
        table.close()


def test_of_large_blocks_what_is_resident_counts() -> None:
    read = table_of_sites(3, library=1, outer=0)
    asked: list[tuple[int, int]] = []

    def resident(start: int, end: int) -> int:
        asked.append((start, end))
        return [0, 1 << 16, 1 << 30][len(asked) - 1]

    found = read_sites(read, "/python", resident=resident)
    assert found.resident
    assert asked == [(i << 20, i + 1 << 20) for i in (1, 2, 3)]
    assert sorted(blocks.left for site in found.sites for blocks in site.blocks) == [1 << 16, 1 << 20]
