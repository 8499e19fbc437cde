"""``heaptop diff``: what changed between two moments."""

from __future__ import annotations

import argparse
import json

from heaptop.cli.options import (
    GROUPINGS,
    MOMENT,
    NEVER,
    TOP,
    add_attach_options,
    add_core_files,
    add_recording,
    add_report_options,
    add_top,
    refuse_mode,
    rows_shown,
    source_of,
)
from heaptop.cli.terminal import ProgressLine
from heaptop.errors import UsageError

KEYS = ("type", "module", "producer")  # As in heaptop.analysis.reports.moments_diff, which is slow to load
DUMP_KEYS = ("type", "module", "path")  # Of heap dumps


class Diff:
    """Show what changed between two moments of a recording, two recordings, or two heap dumps.

    A moment is written as +90m (after the beginning), -1h (before the end), 02:13 (on the clock), or in seconds. By
    producer, bytes are estimated from samples.

    It also compares a heap dump with a process. Heap dumps can be compared by path, which is what keeps the objects. If
    both are of one process, it shows how many objects are new and how many are gone.

    heaptop diff night.heaptop
    heaptop diff night.heaptop --at +1h --to -1h --by producer
    heaptop diff monday.heaptop tuesday.heaptop
    heaptop diff before.heapdump after.heapdump --by path
    heaptop diff before.heapdump PID
    """

    name = "diff"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_recording(parser, "a recording, a heap dump or a core file")
        parser.add_argument(
            "other", metavar="FILE2", nargs="?", help="a second file of that kind; or, for a heap dump, a PID"
        )
        parser.add_argument(
            "--at",
            metavar="TIME",
            help=f"the first moment: {MOMENT} (default: the start; with two recordings, the end)",
        )
        parser.add_argument(
            "--to", metavar="TIME", help="the second moment, in FILE2 if there is one (default: the end)"
        )
        parser.add_argument(
            "--by",
            metavar="ATTR",
            default=KEYS[0],
            help=f"group rows by {', '.join(KEYS)}, of heap dumps by {', '.join(DUMP_KEYS)}; site means producer "
            "(default %(default)s)",
        )
        add_top(parser)
        add_report_options(parser, beside="")
        add_attach_options(parser)
        add_core_files(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.analysis.reports.moments_diff import diff_json
        from heaptop.cli.output.recorded_text import diff_lines
        from heaptop.cli.recorded import moment_of
        from heaptop.dumps.cores.elf_core import begins_as_core
        from heaptop.dumps.reader import begins_as_dump
        from heaptop.recordings.reader import Recording
        from heaptop.recordings.replay_to import replay_to

        args.by = GROUPINGS.get(args.by, args.by)
        if begins_as_dump(args.file) or begins_as_core(args.file):
            return _diff_dumps(args)
        if args.by not in KEYS:
            raise UsageError(f"Recordings cannot be compared by {args.by!r}.", fix=f"Choose one of: {', '.join(KEYS)}.")
        progress = ProgressLine()
        with Recording.open(args.file) as one, Recording.open(args.other or args.file) as other:
            begin = None if args.other else one.first_ns
            at = begin if args.at is None else moment_of(one, args.at)
            to = moment_of(other, args.to)
            progress.show("reading the recording")
            before, after = replay_to(one, at, args.user_code), replay_to(other, to, args.user_code)
        progress.clear()
        if args.json:
            print(json.dumps(diff_json(before, after, args.by, args.top or None), indent=2))
        else:
            print("\n".join(diff_lines(before, after, args.by, rows_shown(args, TOP))))
        return 0


def _diff_dumps(args: argparse.Namespace) -> int:
    from heaptop.analysis.reports.dumps_diff import heaps_diff_json
    from heaptop.cli.output.heaps_diff import heaps_diff_lines
    from heaptop.watching.comparing import compare, compared_heap
    from heaptop.watching.snapshot_watch import SnapshotWatch

    if args.by not in DUMP_KEYS:
        raise UsageError(f"Heaps cannot be compared by {args.by!r}.", fix=f"Choose one of: {', '.join(DUMP_KEYS)}.")
    if args.at is not None or args.to is not None:
        raise UsageError("A heap dump shows one moment: --at and --to are for recordings.")
    if args.other is None:
        what = "A heap dump is compared with another heap dump or a process."
        raise UsageError(what, fix="Give a second FILE or PID.")
    refuse_mode(args, "heaptop diff")
    progress = ProgressLine()
    again = f"heaptop diff {args.file} {args.other}"
    targets = _as_file(args.file), args.other if args.other.isdigit() else _as_file(args.other)
    sources = [source_of(target, args, sample_interval=0, interval=NEVER)[0] for target in targets]
    with (
        SnapshotWatch(sources[0], progress, again, timeout=args.timeout) as one,
        SnapshotWatch(sources[1], progress, again, timeout=args.timeout) as other,
    ):
        before = compared_heap(one, sources[0], args.file)
        after = compared_heap(other, sources[1], args.other)
        found = compare(one, other, (before, after), args.by)
    if args.json:
        print(json.dumps(heaps_diff_json(before, after, args.by, found, args.top or None), indent=2))
    else:
        print("\n".join(heaps_diff_lines(before, after, args.by, found, rows_shown(args, TOP))))
    return 0


def _as_file(target: str) -> str:
    """With a slash where it is a heap dump or a core file: its name alone may also be that of a process."""
    from heaptop.dumps.cores.elf_core import begins_as_core
    from heaptop.dumps.reader import begins_as_dump

    is_heap = begins_as_dump(target) or begins_as_core(target)
    return f"./{target}" if is_heap and "/" not in target else target
