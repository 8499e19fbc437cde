"""``heaptop report``: what happened in a recording."""

from __future__ import annotations

import argparse
import json

from heaptop.cli.options import add_json, add_recording, add_units, row_count, rows_shown
from heaptop.cli.terminal import ProgressLine

ROWS = 8  # Rows of each table by default


class Report:
    """Summarize a recording: how memory grew, when it jumped, what grew most, what leak hunts found.

    heaptop report night.heaptop
    heaptop report night.heaptop --json
    """

    name = "report"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_recording(parser)
        parser.add_argument(
            "--top", type=row_count, metavar="N", help=f"rows of a table, 0 for all (default {ROWS}, --json: all)"
        )
        add_json(parser)
        add_units(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.analysis.reports.census_timeline import CensusTimeline
        from heaptop.analysis.reports.recording_report import report_json
        from heaptop.cli.output.recorded_text import report_lines
        from heaptop.cli.recorded import jumps_of
        from heaptop.recordings.reader import Recording
        from heaptop.recordings.replay_to import replay_to

        progress = ProgressLine()
        with Recording.open(args.file) as recording:
            progress.show("reading the recording")
            first = replay_to(recording, recording.first_ns, args.user_code)
            last = replay_to(recording, None, args.user_code)
            course = CensusTimeline.of(last)
            found = jumps_of(recording, last, course, args.user_code, progress)
        if args.json:
            print(json.dumps(report_json(first, last, course, args.top or None, found), indent=2))
        else:
            top = rows_shown(args, ROWS)
            print("\n".join(report_lines(first, last, course, top, found)))
        return 0
