"""``heaptop waste``: what the heap could do without."""

from __future__ import annotations

import argparse

from heaptop.cli.options import (
    NEVER,
    TOP,
    add_attach_options,
    add_no_inject,
    add_report_options,
    add_target_or_dump,
    add_top,
    refuse_mode,
    rows_shown,
    target_source,
)
from heaptop.cli.terminal import ProgressLine


class WasteCommand:
    """Show what memory the heap could save, and what to change.

    Duplicate strings and numbers, empty and sparse containers, instances whose class has no __slots__, lists of
    numbers only, free memory in arenas. Contents of strings and numbers are compared in a snapshot, and never leave it.
    Totals count each byte once; ≈ is an estimate.

    heaptop waste PID
    heaptop waste PID --top 50
    heaptop waste PID --where module:shop --json
    """

    name = "waste"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target_or_dump(parser)
        parser.add_argument(
            "--where",
            default="",
            metavar="FILTER",
            help="only objects like these: type:, module: or kind: of root",
        )
        add_top(parser)
        add_report_options(parser, beside="")
        add_attach_options(parser)
        add_no_inject(parser)

    def run(self, args: argparse.Namespace) -> int:
        import json

        from heaptop.analysis.filters.filters import parse_filter
        from heaptop.analysis.snapshot.waste import KNOWN, waste_json
        from heaptop.cli.output.waste import waste_lines
        from heaptop.watching.queries import find_waste
        from heaptop.watching.snapshot_watch import SnapshotWatch

        # Report a wrong option before anything is touched.
        where = parse_filter(args.where)
        where.allow(KNOWN, "Rows of waste")
        refuse_mode(args, "heaptop waste")
        source, given = target_source(args, sample_interval=0, interval=NEVER)
        with SnapshotWatch(source, ProgressLine(), f"heaptop waste {given}", timeout=args.timeout) as watch:
            if not where:
                watch.ask_memory()
            image, report, attached = watch.freeze(), find_waste(watch, where), watch.attached
        if args.json:
            pid, python = attached.target.pid, attached.hello.python
            document = waste_json(report, image, pid=pid, python=python, where=where, most=args.top or None)
            print(json.dumps(document, indent=2))
        else:
            print("\n".join(waste_lines(report, image, attached, where, rows_shown(args, TOP))))
        return 0
