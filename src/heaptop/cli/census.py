"""``heaptop census``: the types of a heap as a table or as JSON."""

from __future__ import annotations

import argparse
import json

from heaptop.cli.options import add_attach_options, add_json, add_target, attach_options, target_pid
from heaptop.cli.terminal import Progress

TOP = 20
"""Rows a person is shown unless they ask for another number."""
TOP_FILES = 5
"""Files and stacks that --memory names, likewise."""


class CensusCommand:
    """Count a process's live objects once, and print them by type, module or generation.

    heaptop census PID --by module --where 'type:Session,Cart size>1MB' --top 5
    heaptop census PID --memory
    """

    name = "census"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target(parser)
        parser.add_argument(
            "--by",
            metavar="ATTR",
            default="type",
            help="what a row stands for: type, module or generation (default %(default)s)",
        )
        parser.add_argument("--where", metavar="FILTER", default="", help="count only what passes")
        parser.add_argument(
            "--top",
            type=_row_count,
            metavar="N",
            help=f"rows to print, 0 for all (default {TOP}, --json: all)",
        )
        parser.add_argument(
            "--memory",
            action="store_true",
            help="explain the resident memory instead: objects, free in arenas and in malloc, files, stacks, the rest",
        )
        add_json(parser)
        add_attach_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.census.attributes import band_key
        from heaptop.census.filters import parse_filter
        from heaptop.cli.counting import as_json, as_lines, take_census
        from heaptop.injector.api import attach_source

        if args.memory:
            return self._explain(args)
        # A wrong key or filter is said before anything is touched.
        by, where = band_key(args.by), parse_filter(args.where)
        taken = take_census(attach_source(target_pid(args), attach_options(args)), Progress())
        if args.json:
            print(json.dumps(as_json(taken, by, where, args.top or None), indent=2))
        else:
            print("\n".join(as_lines(taken, by, where, TOP if args.top is None else args.top or None)))
        return 0

    @staticmethod
    def _explain(args: argparse.Namespace) -> int:
        from heaptop.cli.counting import take_census
        from heaptop.cli.memory import as_json, as_lines
        from heaptop.errors import UsageError
        from heaptop.injector.api import attach_source

        if args.where or args.by != "type":
            raise UsageError("--memory explains the whole process: it goes with neither --by nor --where.")
        taken = take_census(attach_source(target_pid(args), attach_options(args)), Progress(), memory=True)
        if args.json:
            print(json.dumps(as_json(taken), indent=2))
        else:
            print("\n".join(as_lines(taken, TOP_FILES if args.top is None else args.top or None)))
        return 0


def _row_count(text: str) -> int:
    value = int(text)  # argparse turns a ValueError into its own message
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of rows")
    return value
