"""``heaptop diff``: what changed between two moments."""

from __future__ import annotations

import argparse
import json

from heaptop.cli.options import GROUPINGS, MOMENT, TOP, add_json, add_recording, add_units, row_count, rows_shown
from heaptop.cli.terminal import ProgressLine
from heaptop.errors import UsageError

KEYS = ("type", "module", "producer")
"""As in heaptop.analysis.reports.moments_diff, which is slow to load."""


class Diff:
    """Show what changed between two moments of a recording, or between the ends of two recordings.

    A moment is written as +90m (after the beginning), -1h (before the end), 02:13 (on the clock), or in seconds. By
    producer, bytes are estimated from samples.

    heaptop diff night.heaptop
    heaptop diff night.heaptop --at +1h --to -1h --by producer
    heaptop diff monday.heaptop tuesday.heaptop
    """

    name = "diff"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_recording(parser)
        parser.add_argument("other", metavar="FILE2", nargs="?", help="a second recording to compare with")
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
            help=f"group rows by {', '.join(KEYS)}; site is producer (default %(default)s)",
        )
        parser.add_argument(
            "--top", type=row_count, metavar="N", help=f"rows to print, 0 for all (default {TOP}, --json: all)"
        )
        add_json(parser)
        add_units(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.analysis.reports.moments_diff import diff_json
        from heaptop.cli.output.recorded_text import diff_lines
        from heaptop.cli.recorded import moment_of
        from heaptop.recordings.played import play
        from heaptop.recordings.reader import Recording

        args.by = GROUPINGS.get(args.by, args.by)
        if args.by not in KEYS:
            raise UsageError(f"Recordings cannot be compared by {args.by!r}.", fix=f"Choose one of: {', '.join(KEYS)}.")
        progress = ProgressLine()
        with Recording.open(args.file) as one, Recording.open(args.other or args.file) as other:
            begin = None if args.other else one.first_ns
            at = begin if args.at is None else moment_of(one, args.at)
            to = moment_of(other, args.to)
            progress.show("reading the recording")
            before, after = play(one, at, args.user_code), play(other, to, args.user_code)
        progress.clear()
        if args.json:
            print(json.dumps(diff_json(before, after, args.by, args.top or None), indent=2))
        else:
            print("\n".join(diff_lines(before, after, args.by, rows_shown(args, TOP))))
        return 0
