"""``heaptop dump``: a snapshot as a file."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from heaptop.cli.options import (
    NEVER,
    add_attach_options,
    add_core_files,
    add_no_inject,
    add_timeout,
    add_units,
    attach_options,
    is_core,
    progress_of,
    refuse_mode,
    seconds,
    target_pid,
)
from heaptop.cli.terminal import ProgressLine, keep_apart, notice
from heaptop.errors import UsageError

if TYPE_CHECKING:
    from heaptop.dumps.writer import DumpFile
    from heaptop.protocol.dumped import DumpInfo

VALUES = ("none", "sizes", "all")  # As in heaptop.protocol.dumped, which is slow to load


class DumpCommand:
    """Write a heap dump: a snapshot as a file, to look at elsewhere and later.

    It holds the type, size and generation of each object, the references with their names, the roots, what
    resident memory is used for, and what could be saved. It holds no contents unless --values all is given. Open it
    with `heaptop open FILE`, or give FILE in place of PID to census, why and waste.

    heaptop dump PID
    heaptop dump PID -o before.heapdump
    heaptop dump PID --for 30
    heaptop dump core.1234 -o crash.heapdump
    heaptop dump PID --no-inject
    """

    name = "dump"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "target",
            metavar="PID|CORE",
            help="a process id; a name that matches exactly one Python process; or a core file (a path with a /, or a "
            "name that begins with core)",
        )
        add_core_files(parser)
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            help="a new file (default: heaptop-PID-DATE-TIME.heapdump in the current directory)",
        )
        parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")
        parser.add_argument(
            "--values",
            choices=VALUES,
            default="sizes",
            help="none: no contents and no lengths; sizes: lengths of containers and texts; all: short texts "
            "and numbers too, and heaps contain secrets (default %(default)s)",
        )
        parser.add_argument(
            "--for",
            dest="seconds",
            type=seconds,
            metavar="S",
            default=0.0,
            help="first sample allocations for S seconds, so that the dump has allocation sites (default: no samples)",
        )
        add_timeout(parser)
        add_units(parser)
        add_attach_options(parser)
        add_no_inject(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.analysis.samples.sampling import Sampling
        from heaptop.dumps.captured_source import CapturedSource
        from heaptop.dumps.writer import DumpFile
        from heaptop.injector.api import attach_source
        from heaptop.watching.dumping import write_dump
        from heaptop.watching.recording import ended_by_signals
        from heaptop.watching.snapshot_watch import SnapshotWatch

        refuse_mode(args, "heaptop dump")
        if is_core(args.target):
            return _convert(args)
        pid = target_pid(args)
        if args.no_inject:
            return _copy(pid, args)
        path = args.output or time.strftime(f"heaptop-{pid}-%Y%m%d-%H%M%S.heapdump")
        rate = {} if args.seconds else {"sample_interval": 0}
        source = CapturedSource(attach_source(pid, attach_options(args, interval=NEVER, **rate)))
        progress = ProgressLine()
        sampling = Sampling() if args.seconds else None
        again = f"heaptop dump {pid}"
        with (
            ended_by_signals(),
            DumpFile(path, force=args.force) as file,
            SnapshotWatch(source, progress, again, sampling, timeout=args.timeout) as watch,
        ):
            if args.seconds:
                watch.ready()
                watch.sample(args.seconds)
                watch.census()
            info = write_dump(watch, source, file, args.values, progress, sampled=args.seconds)
        _report(info, file)
        return 0


def _convert(args: argparse.Namespace) -> int:
    """Of a core file."""
    from heaptop.dumps.cores.conversion import CoreOptions, write_core
    from heaptop.dumps.writer import DumpFile
    from heaptop.watching.recording import ended_by_signals

    if args.seconds:
        raise UsageError("--for is for processes: nothing is allocated in a core file.", fix="Leave it out.")
    path = args.output or time.strftime(f"heaptop-{os.path.basename(args.target)}-%Y%m%d-%H%M%S.heapdump")
    keep_apart(path, args.target)
    progress, options = ProgressLine(), CoreOptions(args.exe, args.root)
    with ended_by_signals(), DumpFile(path, force=args.force) as file:
        info, _ = write_core(args.target, options, file, args.values, progress_of(progress))
    progress.clear()
    _report(info, file)
    return 0


def _copy(pid: int, args: argparse.Namespace) -> int:
    """Of a copy of the process."""
    from heaptop.analysis.text.units import format_duration_ns
    from heaptop.dumps.cores.conversion import CoreOptions, write_copy
    from heaptop.dumps.writer import DumpFile
    from heaptop.watching.recording import ended_by_signals

    if args.seconds:
        raise UsageError("--for samples allocations, which needs code in the process.", fix="Leave `--no-inject` out.")
    path = args.output or time.strftime(f"heaptop-{pid}-%Y%m%d-%H%M%S.heapdump")
    progress, options = ProgressLine(), CoreOptions(args.exe, args.root)
    with ended_by_signals(), DumpFile(path, force=args.force) as file:
        info, image = write_copy(pid, options, args.pause_budget, file, args.values, progress_of(progress))
    progress.clear()
    _report(info, file)
    notice(f"process {pid} was stopped for {format_duration_ns(image.pause_ns)}")
    for gap in image.gaps:
        notice(f"unknown: {gap}")
    return 0


def _report(info: DumpInfo, file: DumpFile) -> None:
    from heaptop.analysis.text.units import format_bytes, format_count

    size = format_bytes(file.size)
    notice(f"{file.path}: {format_count(info.objects)} objects, {format_count(info.edges)} references, {size}")
