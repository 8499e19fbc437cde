"""What each mapping is for, by its line in smaps and its neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest

from heaptop.injector.rss.smaps import Vma, classified, parse

MIB = 1 << 20
HEAP = 64 * MIB

TEXT = """\
55d0c0000000-55d0c0100000 r-xp 00001000 fe:00 1234                       /usr/bin/python3.11
Size:               1024 kB
Rss:                 512 kB
Anonymous:             0 kB
AnonHugePages:         0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
55d0c0100000-55d0c0140000 rw-p 00101000 fe:00 1234                       /usr/bin/python3.11
Rss:                 100 kB
Swap:                  8 kB
NewFigure:             7 kB
55d0c0140000-55d0c0180000 rw-p 00000000 00:00 0 \n\
Rss:                  40 kB
7f0000000000-7f0000400000 rw-p 00000000 00:00 0                          [anon: my pool]
Rss:                4096 kB
AnonHugePages:      4096 kB
Private_Hugetlb:    2048 kB
a line that is not of smaps at all
"""


def test_figures_are_in_bytes_and_belong_to_their_mapping() -> None:
    program, data, bss, pool = parse(TEXT)
    assert (program.start, program.end, program.permissions) == (0x55D0C0000000, 0x55D0C0100000, "r-xp")
    assert (program.rss, program.swap, program.size) == (512 << 10, 0, MIB)
    assert (data.rss, data.swap) == (100 << 10, 8 << 10)
    assert (bss.name, bss.rss) == ("", 40 << 10)
    assert (pool.rss, pool.huge, pool.hugetlb) == (4 * MIB, 4 * MIB, 2 * MIB)
    assert [(kind, name) for _, kind, name in classified([program, data, bss, pool])] == [
        ("file", "/usr/bin/python3.11"),
        ("file", "/usr/bin/python3.11"),
        ("file", "/usr/bin/python3.11"),  # .bss
        ("anonymous", " my pool"),
    ]


def test_our_own_smaps_is_read_to_the_last_byte() -> None:
    text = Path("/proc/self/smaps").read_text()
    found = parse(text)
    assert sum(vma.rss for vma in found) == 1024 * sum(
        int(line.split()[1]) for line in text.splitlines() if line.startswith("Rss:")
    )
    kinds = {kind for _, kind, _ in classified(found)}
    assert {"file", "heap", "stack", "anonymous", "kernel"} <= kinds


def vma(start: int, end: int, permissions: str = "rw-p", name: str = "", inode: int = 0) -> Vma:
    return Vma(start, end, permissions, inode, name, end - start if "r" in permissions else 0, 0, 0, 0)


def kinds(*vmas: Vma) -> list[str]:
    return [kind for _, kind, _ in classified(vmas)]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (vma(0, MIB, "rw-s", "/dev/shm/psm_1", 5), "shared"),
        (vma(0, MIB, "rw-s", "/memfd:frames (deleted)", 5), "shared"),
        (vma(0, MIB, "rw-s", "/dev/zero (deleted)", 5), "shared"),
        (vma(0, MIB, "rw-s", "/SYSV00000000 (deleted)", 5), "shared"),
        (vma(0, MIB, "r-xp", "/memfd:library (deleted)", 5), "file"),
        (vma(0, MIB, "rw-s", "/srv/data.db", 5), "file"),
        (vma(0, MIB, "r--p", "/srv/data.db (deleted)", 5), "file"),
        (vma(0, MIB, name="[heap]"), "heap"),
        (vma(0, MIB, name="[stack]"), "stack"),
        (vma(0, MIB, "r-xp", "[vdso]"), "kernel"),
        (vma(MIB, 2 * MIB), "anonymous"),
        (vma(MIB, 2 * MIB, "rwxp"), "anonymous"),
    ],
    ids=lambda value: value.name if isinstance(value, Vma) else value,
)
def test_kinds_by_the_line_itself(line: Vma, kind: str) -> None:
    assert kinds(line) == [kind]


def test_a_heap_of_a_thread_is_told_by_its_place_and_what_follows() -> None:
    used, rest = vma(HEAP, HEAP + MIB), vma(HEAP + MIB, 2 * HEAP, "---p")
    assert kinds(used, rest)[0] == "heap"
    assert kinds(vma(HEAP, 2 * HEAP)) == ["heap"]  # a full one
    assert kinds(used)[0] == "anonymous"  # nothing reserved behind it
    assert kinds(used, vma(HEAP + MIB, HEAP + 2 * MIB, "---p"))[0] == "anonymous"  # too little
    assert kinds(vma(HEAP + MIB, HEAP + 2 * MIB), vma(HEAP + 2 * MIB, 2 * HEAP, "---p"))[0] == "anonymous"


def test_only_what_lies_right_behind_writable_data_is_its_zeros() -> None:
    data = vma(0, MIB, "rw-p", "/lib/x.so", 5)
    assert kinds(data, vma(MIB, 2 * MIB), vma(2 * MIB, 3 * MIB)) == ["file", "file", "anonymous"]
    assert kinds(data, vma(MIB + 4096, 2 * MIB)) == ["file", "anonymous"]
    assert kinds(vma(0, MIB, "r--p", "/lib/x.so", 5), vma(MIB, 2 * MIB)) == ["file", "anonymous"]


def test_a_reserve_of_terabytes_is_not_searched() -> None:
    reserve = Vma(0, 1 << 44, "rw-p", 0, "", 4 * MIB, 0, 0, 0)
    assert reserve.plain
    assert not reserve.searchable
    assert Vma(0, 1 << 36, "rw-p", 0, "", 1 << 35, 0, 0, 0).searchable
