"""The process that copies the memory of a target while that stands still. It runs nothing in the target, and writes
nothing there.

It is a process of its own, in a session of its own: a terminal's ctrl+Z would stop heaptop, and the target with it. It
ends with heaptop, and the kernel releases the target then. It reads a :class:`CopyPlan` from its standard input and
writes what it has found to its standard output.

::

    before the stop      which pages are there, how long their copy will take (refuse), memory for it
    the stop             threads, mappings and pages once more, process_vm_readv
    after it             the report

Only pages that are there are read: one that was never written to is zero, or is in its file. So reading waits for no
file system, and no page of the target comes to be by it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gc
import json
import mmap
import os
import re
import resource
import signal
import struct
import sys
import time
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from heaptop.errors import (
    HeaptopError,
    ImageRefused,
    OutOfResources,
    PauseTooLong,
    ProcessNotFound,
    PtraceDenied,
    fault,
)
from heaptop.injector.entry.plan import HelperReport
from heaptop.injector.entry.process_stop import ProcessStop
from heaptop.injector.entry.ptrace import become_tracer
from heaptop.injector.inspect.memory import LARGEST_READ, Mapping, bring_in, each_mapping
from heaptop.injector.inspect.proc import TooLarge
from heaptop.injector.inspect.process import image, start_time
from heaptop.injector.inspect.threads import thread_ids

PAGE: Final = 4096
ENTRY: Final = 8  # Bytes of a page's entry in `/proc/PID/pagemap`; its last byte has the flags below
PRESENT, SWAPPED, OF_A_FILE, GUARD = 0x80, 0x40, 0x20, 0x04  # proc(5), and Linux 6.15: PM_GUARD_REGION
PAGES_AT_ONCE: Final = 1 << 19
MOST_SPACE: Final = 1 << 39  # Bytes of mappings whose pages are looked at: a gibibyte takes 2 MiB of entries
LARGE: Final = 1 << 30
"""Bytes of an anonymous mapping that the kernel is asked where its pages are (Linux 6.7), if it can: sanitizers and
garbage collectors of other languages reserve terabytes."""
PAGEMAP_SCAN: Final = 0xC0606610  # ioctl(2) of the pagemap; `struct pm_scan_arg`, which gets `struct page_region`
SCAN: Final = struct.Struct("<12Q")
SCANNED_AT_ONCE: Final = 512
"""Not more: Linux collects 512 regions at a time, and may return an old ``walk_end`` after more than these. The same
regions would then be returned twice."""
IS_PRESENT, IS_SWAPPED, IS_GUARD = 1 << 3, 1 << 4, 1 << 8
NEAR: Final = 16
"""Pages that were never written to, between others, that are a part of the copy: fewer mappings to walk it."""
MOST_RANGES: Final = 60_000  # The kernel allows 65,530 mappings by default (vm.max_map_count)
MOST_RUNS: Final = 1 << 20
"""Rows of pages that are read, however few ranges they make: each takes 200 bytes of the list."""
ZERO: Final = -1  # The offset of a range that is not in the copy, because it is zero
READ, WRITE, EXECUTE = 4, 2, 1  # `p_flags`
MOST_PIECES: Final = 1000  # Of one process_vm_readv (IOV_MAX is 1024)
AT_ONCE: Final = 1 << 20  # Bytes of one process_vm_readv: between two the clock is looked at
SAMPLE: Final = 32 << 20  # Bytes that are copied from the running process, to measure the rate
STOP_NS, THREAD_NS = 1_000_000, 100_000  # What a stop takes, and each of its threads, at a guess
GROWTH, MARGIN = 1.1, 16 << 20  # By so much the target may grow between the look and the stop
_PR_SET_PDEATHSIG: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.process_vm_readv.restype = ctypes.c_ssize_t
_pieces, _count = ctypes.c_void_p, ctypes.c_ulong
_libc.process_vm_readv.argtypes = [ctypes.c_int, _pieces, _count, _pieces, _count, _count]


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Which process, into which file, and within which bounds."""

    pid: int
    start: int  # Clock ticks from boot: distinguishes it from another process of the same pid
    image: str  # As injector.inspect.process.image() has it
    live_tid: int
    budget_ns: int
    memory: int  # Bytes that the copy may have
    fd: int  # Of an empty memfd
    owner: int  # heaptop's pid


@dataclass(slots=True)
class CopyLayout:
    """Which memory is copied, and to where in the copy."""

    ranges: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Start, end, ``p_flags``, and the offset in the copy, or ZERO. Ascending."""
    absent: list[tuple[int, int, int]] = field(default_factory=list)  # Start, end and flags of what is in a mapped file
    files: list[tuple[int, int, int, str]] = field(default_factory=list)
    """Start, end, offset and path of each mapped file."""
    reads: list[tuple[int, int, int]] = field(default_factory=list)  # Address, bytes, and the offset in the copy
    size: int = 0  # Bytes of the copy
    bytes: int = 0  # Of them, those that are read


# -- which memory ----------------------------------------------------------------------------------------------


def _kept(*flags: int, without: int) -> bytes:
    """A table for :meth:`bytes.translate`: 1 for the pages to copy."""
    return bytes(int(any(byte & each for each in flags) and not byte & without) for byte in range(256))


ANONYMOUS: Final = _kept(PRESENT, SWAPPED, without=GUARD)
CHANGED: Final = _kept(PRESENT, SWAPPED, without=GUARD | OF_A_FILE)
"""Of a private mapping of a file, those that were written to; of one that was deleted since, as by an upgrade, all."""
DELETED: Final = " (deleted)"
RUN: Final = re.compile(rb"\x01+")


def _is_copied(mapping: Mapping) -> bool:
    """Not what others share, and nothing of the kernel's or of a device."""
    return (
        mapping.permissions[0] == "r" and mapping.permissions[3] == "p" and not mapping.path.startswith(("[v", "/dev/"))
    )


def _runs(pagemap: int, mapping: Mapping) -> Iterator[tuple[int, int]]:
    """Start and end of each row of pages that are there."""
    in_file = mapping.inode and not mapping.path.endswith(DELETED)
    table = CHANGED if in_file else ANONYMOUS
    for at in range(mapping.start, mapping.end, PAGES_AT_ONCE * PAGE):
        pages = min(PAGES_AT_ONCE, (mapping.end - at) // PAGE)
        entries = os.pread(pagemap, pages * ENTRY, at // PAGE * ENTRY)
        flags = entries[ENTRY - 1 :: ENTRY]
        if not flags:
            raise ProcessLookupError  # it has ended, or runs another program
        kept = flags.translate(table)
        if mapping.inode and not mapping.offset and at == mapping.start and flags[0] & PRESENT:
            kept = b"\1" + kept[1:]  # by an ELF file's head the same build of it is recognised
        for run in RUN.finditer(kept):
            yield at + run.start() * PAGE, at + run.end() * PAGE


def _scanned(pagemap: int, mapping: Mapping) -> list[tuple[int, int]] | None:
    """The same of a large anonymous mapping, without a look at each of its pages; None of others, and where the kernel
    cannot do that. Raises TooLarge."""
    if mapping.inode or mapping.end - mapping.start < LARGE:
        return None
    found, at, never = [], mapping.start, IS_GUARD
    regions, wanted = array("Q", bytes(24 * SCANNED_AT_ONCE)), IS_PRESENT | IS_SWAPPED
    while at < mapping.end:
        room = regions.buffer_info()[0], SCANNED_AT_ONCE
        scan = bytearray(SCAN.pack(SCAN.size, 0, at, mapping.end, 0, *room, 0, never, never, wanted, wanted))
        try:
            count = fcntl.ioctl(pagemap, PAGEMAP_SCAN, scan)
        except OSError as error:
            if error.errno == errno.EINVAL and never:
                never = 0  # before Linux 6.16
                continue
            if error.errno in (errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM):  # before 6.7, or by a filter
                return None
            raise
        found += [(regions[3 * number], regions[3 * number + 1]) for number in range(count)]
        if len(found) > MOST_RUNS:
            raise TooLarge
        if (end := SCAN.unpack(scan)[4]) <= at:
            raise ProcessLookupError  # it has ended, or runs another program
        at = end
    return found


def _flags(mapping: Mapping) -> int:
    return READ | (WRITE if mapping.permissions[1] == "w" else 0) | (EXECUTE if mapping.permissions[2] == "x" else 0)


def lay_out(plan: CopyPlan, pagemap: int) -> CopyLayout:
    """What is to be copied now. Raises OSError, ImageRefused."""
    layout, space = CopyLayout(), 0
    for mapping in each_mapping(plan.pid, plan.live_tid):
        if mapping.inode and mapping.path.startswith("/"):
            layout.files.append((mapping.start, mapping.end, mapping.offset, mapping.path))
        if _is_copied(mapping):
            scanned = _scanned(pagemap, mapping)
            space += mapping.end - mapping.start if scanned is None else 0
            if space > MOST_SPACE:
                raise _not_copied(plan, "it has more address space than heaptop reads")
            _add(layout, mapping, _runs(pagemap, mapping) if scanned is None else iter(scanned))
    return layout


def _add(layout: CopyLayout, mapping: Mapping, runs: Iterator[tuple[int, int]]) -> None:
    """Lay out one mapping, whose pages are in ``runs``. Raises TooLarge."""
    flags, at = _flags(mapping), mapping.start
    near = 0 if mapping.inode else NEAR * PAGE
    for start, end in runs:
        if at < start <= at + near and at > mapping.start:
            last = layout.ranges.pop()
            layout.size += start - at  # zeros within the copy
            layout.ranges.append((last[0], end, flags, last[3]))
        elif start == at > mapping.start:
            last = layout.ranges.pop()
            layout.ranges.append((last[0], end, flags, last[3]))
        else:
            _add_absent(layout, mapping, at, start)
            layout.ranges.append((start, end, flags, layout.size))
        layout.reads.append((start, end - start, layout.size))
        layout.size += end - start
        layout.bytes += end - start
        if len(layout.ranges) > MOST_RANGES or len(layout.reads) > MOST_RUNS:
            raise TooLarge
        at = end
    _add_absent(layout, mapping, at, mapping.end)


def _add_absent(layout: CopyLayout, mapping: Mapping, start: int, end: int) -> None:
    """A part of a mapping without pages of its own: zero, or what the file has."""
    if start >= end:
        return
    if mapping.inode:
        layout.absent.append((start, end, _flags(mapping)))
    else:
        layout.ranges.append((start, end, _flags(mapping), ZERO))


# -- copying ---------------------------------------------------------------------------------------------------


def _batches(reads: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    """The same, in parts that one call can read."""
    batch: list[tuple[int, int, int]] = []
    size = 0
    for address, length, offset in reads:
        for done in range(0, length, AT_ONCE):
            part = min(AT_ONCE, length - done)
            if batch and (size + part > AT_ONCE or len(batch) == MOST_PIECES):
                yield batch
                batch, size = [], 0
            batch.append((address + done, part, offset + done))
            size += part
    if batch:
        yield batch


def _read_batch(tid: int, base: int, batch: list[tuple[int, int, int]]) -> int:
    """Copy the pieces to ``base`` and their offsets. Returns the bytes that cannot be read; they are left as they are.
    Raises OSError where nothing may be read at all."""
    unread = 0
    while batch:
        remote, local = array("Q"), array("Q")
        for address, length, offset in batch:
            remote.extend((address, length))
            local.extend((base + offset, length))
        count = len(batch)
        got = _libc.process_vm_readv(tid, local.buffer_info()[0], count, remote.buffer_info()[0], count, 0)
        if got < 0 and (code := ctypes.get_errno()) not in (14, 22):  # EFAULT, EINVAL
            raise OSError(code, os.strerror(code))
        batch, skipped = _behind(batch, max(0, got))
        unread += skipped
    return unread


def _behind(batch: list[tuple[int, int, int]], got: int) -> tuple[list[tuple[int, int, int]], int]:
    """What is left of a batch of which so many bytes were read, without the page that could not be; and its bytes."""
    for number, (address, length, offset) in enumerate(batch):
        if got < length:
            skip = min(PAGE - got % PAGE, length - got)
            done = got + skip
            rest = [(address + done, length - done, offset + done)] if done < length else []
            return [*rest, *batch[number + 1 :]], skip
        got -= length
    return [], 0


class Copier:
    """One copy, from the look at the target to its report."""

    def __init__(self, plan: CopyPlan) -> None:
        self._plan = plan
        self.unread = self.stopped_ns = self.running = 0
        self.wall = 0.0

    def run(self) -> CopyLayout:
        """Copy. Raises HeaptopError; the target continues then."""
        plan = self._plan
        try:
            pagemap = os.open(f"/proc/{plan.pid}/task/{plan.live_tid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            raise PtraceDenied(f"No permission to read the memory of process {plan.pid}.").about(plan.pid) from None
        except OSError:
            raise self._gone() from None
        try:
            return self._copy(pagemap)
        except TooLarge:
            raise _not_copied(plan, "it has more mappings, or more pieces of memory, than heaptop reads") from None
        except (FileNotFoundError, ProcessLookupError):
            raise self._gone() from None
        finally:
            os.close(pagemap)

    def _copy(self, pagemap: int) -> CopyLayout:
        plan = self._plan
        self._bring_in()
        began = time.monotonic_ns()
        seen = lay_out(plan, pagemap)
        look_ns = time.monotonic_ns() - began
        expected = look_ns + self._forecast(seen) + STOP_NS + THREAD_NS * len(thread_ids(plan.pid))
        if expected > plan.budget_ns:
            raise self._too_long(seen, f"would stop it for about {_milliseconds(expected)}", expected)
        room = int(seen.size * GROWTH) + MARGIN & ~(PAGE - 1)
        if room > plan.memory:
            raise OutOfResources(
                f"There is too little memory to copy process {plan.pid}.",
                why=f"The copy takes {seen.size >> 20} MiB, and heaptop takes {plan.memory >> 20} MiB at most of what "
                "is left.",
                fix="Free some memory, or write a core file to a disk: `gcore -o core PID`.",
            ).about(plan.pid)
        os.ftruncate(plan.fd, room)
        with mmap.mmap(plan.fd, room) as copy:
            _fill(copy)
            layout = self._in_the_stop(pagemap, copy, seen)
        os.ftruncate(plan.fd, layout.size)
        return layout

    def _bring_in(self) -> None:
        """Have all pages there of programs and libraries that were deleted since: no file has them any more."""
        mappings = [each for each in each_mapping(self._plan.pid, self._plan.live_tid) if _is_copied(each)]
        run = {each.path for each in mappings if each.permissions[2] == "x" and each.path.endswith(DELETED)}
        for each in mappings:
            if each.inode and each.path in run:
                bring_in(self._plan.live_tid, each.start, min(each.end - each.start, LARGEST_READ))

    def _forecast(self, seen: CopyLayout) -> int:
        """Nanoseconds that the copy will take, by that of a part of it, while the process runs."""
        part, left = [], min(SAMPLE, seen.size)
        with mmap.mmap(-1, max(left, PAGE)) as room:
            _fill(room)
            at = 0
            for address, length, _ in seen.reads:
                if at >= left:
                    break
                part.append((address, min(length, left - at), at))
                at += part[-1][1]
            began = time.monotonic_ns()
            with _address(room) as base:
                for batch in _batches(part):
                    self._read(base, batch)
            passed = time.monotonic_ns() - began
        return passed * seen.bytes // max(at, 1)

    def _in_the_stop(self, pagemap: int, copy: mmap.mmap, seen: CopyLayout) -> CopyLayout:
        plan, stop = self._plan, ProcessStop(self._plan.pid)
        gc.disable()
        with _address(copy) as base:
            began = time.monotonic_ns()
            # Whatever waits below (for swap, a file system, a long list of pages) ends with this process.
            signal.setitimer(signal.ITIMER_REAL, 2 * plan.budget_ns / 1e9)
            try:
                stop.stop(plan.budget_ns / 1e9)
                self._check_same()
                self.wall, self.running = time.time(), stop.running
                layout = lay_out(plan, pagemap)
                if layout.size > len(copy):
                    raise _not_copied(plan, "it grew faster than it can be copied")
                for batch in _batches(layout.reads):
                    if time.monotonic_ns() - began > plan.budget_ns:
                        raise self._too_long(seen, "took longer than expected, and was ended", 2 * plan.budget_ns)
                    self.unread += self._read(base, batch)
            finally:
                stop.release()
                signal.setitimer(signal.ITIMER_REAL, 0)
                self.stopped_ns = time.monotonic_ns() - began
        return layout

    def _read(self, base: int, batch: list[tuple[int, int, int]]) -> int:
        try:
            return _read_batch(self._plan.live_tid, base, batch)
        except PermissionError:
            raise PtraceDenied(f"No permission to read the memory of process {self._plan.pid}.").about(
                self._plan.pid
            ) from None

    def _check_same(self) -> None:
        """Another program may run there by now, or another process have the pid."""
        plan = self._plan
        if start_time(plan.pid) != plan.start:
            raise self._gone()
        if image(plan.pid, plan.live_tid) != plan.image:
            raise ProcessNotFound(f"Process {plan.pid} has just started another program (exec).")

    def _gone(self) -> ProcessNotFound:
        return ProcessNotFound(f"Process {self._plan.pid} exited before it was copied.")

    def _too_long(self, seen: CopyLayout, how: str, enough_ns: int) -> PauseTooLong:
        plan = self._plan
        return PauseTooLong(
            f"The copy of process {plan.pid} {how}; the budget is {_milliseconds(plan.budget_ns)}.",
            why=f"All of its memory that was written to is copied while it is stopped: {seen.bytes >> 20} MiB.",
            fix=f"Allow a longer pause: add `--pause-budget {int(enough_ns * 1.5 / 1e6) + 1}`. Or count it without "
            "`--no-inject`, in a clone.",
        )


def _not_copied(plan: CopyPlan, why: str) -> HeaptopError:
    return ImageRefused(
        f"The memory of process {plan.pid} cannot be copied: {why}.",
        why="Nothing was changed in it.",
        fix="Write a core file and give that in place of PID: `gcore -o core PID`.",
    ).about(plan.pid)


def _milliseconds(ns: int) -> str:
    return f"{ns / 1e6:.0f} ms"


@contextlib.contextmanager
def _address(memory: mmap.mmap) -> Iterator[int]:
    """Where it is."""
    first = ctypes.c_char.from_buffer(memory)
    try:
        yield ctypes.addressof(first)
    finally:
        del first


def _fill(memory: mmap.mmap) -> None:
    """Have all pages of it: the target shall not wait for them."""
    with _address(memory) as base:
        ctypes.memset(base, 0, len(memory))


# -- the process -----------------------------------------------------------------------------------------------


def _answer(plan: CopyPlan) -> dict[str, Any]:
    copier = Copier(plan)
    try:
        layout = copier.run()
    except HeaptopError as error:
        return asdict(HelperReport.of_error(error))
    except Exception as error:  # nobody reads this process's stderr
        return asdict(HelperReport.of_error(fault(error, ImageRefused)))
    return {
        "event": "copied",
        "stopped_ns": copier.stopped_ns,
        "wall": copier.wall,
        "unread": copier.unread,
        "running": copier.running,
        "size": layout.size,
        "ranges": layout.ranges,
        "absent": layout.absent,
        "files": [(*each[:3], os.fsencode(each[3]).hex()) for each in layout.files],
    }


def main() -> None:
    """Read the plan, copy, report."""
    plan = CopyPlan(**json.loads(sys.stdin.buffer.readline()))
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != plan.owner:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it has the target's memory
    become_tracer(oom_score_adj=1000)  # where memory runs out, this process is the one to end
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    sys.stdout.write(json.dumps(_answer(plan)))
    sys.stdout.flush()
