"""``heaptop census``: the types of a heap as a table or as JSON."""

from __future__ import annotations

import argparse
import json

from heaptop.choices import NOT_SAMPLED
from heaptop.cli.options import (
    GROUPINGS,
    NEVER,
    TOP,
    add_attach_options,
    add_no_inject,
    add_report_options,
    add_sampling_options,
    add_target_or_dump,
    add_top,
    refuse_mode,
    retainer_count,
    rows_shown,
    seconds,
    target_source,
)
from heaptop.cli.terminal import ProgressLine
from heaptop.errors import UsageError

SAMPLED = ("producer", "producer-module", "handler", "size", "lifetime")
"""As in heaptop.analysis.reports.sampled_report, which is slow to load."""
TRACED = ("producer", "producer-module")  # Those that tracemalloc can answer
RETAINED = ("retainer", "kind")  # Those that an open snapshot answers
COUNTED = ("type", "module", "generation", "interpreter")
KEYS = (*COUNTED, *SAMPLED, *RETAINED)
RETAINERS = 3  # Members of a retainer set by default
SAMPLING_FLAGS = {
    "--for": "seconds",
    "--rate": "rate",
    "--depth": "depth",
    "--user-code": "user_code",
    "--exact-sites": "exact_sites",
    "--tracemalloc": "tracemalloc",
}
SECONDS = 10.0  # Seconds for which allocations are sampled by default
TOP_FILES = 5  # Files and stacks that --memory names, likewise


class CensusCommand:
    """Take one census, and print the live objects by type, module, generation or interpreter.

    With --by producer, producer-module, handler (of a request, task or thread), size or lifetime, it first samples
    allocations for a time (--for). With --by retainer or kind (of GC root), it takes a snapshot.

    heaptop census PID --by module --where 'type:Session,Cart size>1MB' --top 5
    heaptop census PID --by producer --for 60
    heaptop census PID --by retainer --where type:Session
    heaptop census PID --memory
    heaptop census PID --no-inject
    """

    name = "census"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target_or_dump(parser)
        parser.add_argument(
            "--by",
            metavar="ATTR",
            default="type",
            help=f"group rows by {', '.join(COUNTED)}, {', '.join((*SAMPLED, *RETAINED))}; site means producer "
            "(default %(default)s)",
        )
        parser.add_argument(
            "--for",
            dest="seconds",
            type=seconds,
            metavar="S",
            help=f"seconds to sample allocations for, with --by {', '.join(SAMPLED)} (default {SECONDS:g})",
        )
        parser.add_argument(
            "--retainers",
            type=retainer_count,
            metavar="N",
            help=(
                "with --by retainer: objects with more than N retainers share one row (default "
                f"{RETAINERS})"
            ),
        )
        parser.add_argument(
            "--where",
            metavar="FILTER",
            default="",
            help="count only objects that match, for instance 'type:Session (size>1MB or gen:2) !module:re'; "
            "docs/filters.md lists all terms",
        )
        add_top(parser)
        parser.add_argument(
            "--memory",
            action="store_true",
            help=(
                "explain resident memory instead: objects, free memory in arenas and malloc, files, stacks, other "
                "mappings"
            ),
        )
        add_report_options(parser)
        add_sampling_options(parser)
        add_attach_options(parser)
        add_no_inject(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.analysis.filters import filters
        from heaptop.analysis.filters.attributes import band_key
        from heaptop.cli.counting import as_json, as_lines, take_census

        args.by = GROUPINGS.get(args.by, args.by)
        if args.no_inject and (args.memory or args.by in SAMPLED):
            what = "--memory" if args.memory else f"--by {args.by}"
            raise UsageError(f"{what} needs code in the process.", fix="Leave `--no-inject` out.")
        if args.retainers is not None and args.by != "retainer":
            raise UsageError("--retainers needs --by retainer: it is the largest retainer set of a row.")
        if args.memory:
            return self._explain(args)
        if args.by in RETAINED:
            return self._freeze(args)
        if args.by in SAMPLED:
            return self._sample(args)
        if args.by not in KEYS:
            raise UsageError(f"Unknown grouping {args.by!r}.", fix=f"Choose one of: {', '.join(KEYS)}.")
        _refuse_sampling(args, f"a census by {args.by} shows one moment and samples nothing")
        # A wrong key or filter is reported before anything is touched.
        by, where = band_key(args.by), filters.parse_filter(args.where)
        where.allow(filters.COUNTED, f"Counts by {args.by}")
        taken = take_census(
            target_source(args, sample_interval=0)[0],
            ProgressLine(),
            timeout=args.timeout,
        )
        if args.json:
            print(json.dumps(as_json(taken, by, where, args.top or None), indent=2))
        else:
            print("\n".join(as_lines(taken, by, where, rows_shown(args, TOP))))
        return 0

    @staticmethod
    def _sample(args: argparse.Namespace) -> int:
        from heaptop.analysis.filters.filters import parse_filter
        from heaptop.analysis.reports.sampled_report import check_filter
        from heaptop.analysis.samples.sampling import Sampling
        from heaptop.analysis.samples.tracing import TELLS_NOT
        from heaptop.cli.counting import take_census
        from heaptop.cli.output.sampled import sampled_json, sampled_lines
        from heaptop.dumps.source import sampled_seconds

        if args.rate == NOT_SAMPLED and "rate" in args.from_config:
            args.rate = None  # off is for screens: here a person has asked for samples
        if args.rate == NOT_SAMPLED:
            raise UsageError(
                f"--by {args.by} needs samples, but --rate off takes none.", fix=_without(args, "--rate off")
            )
        if args.tracemalloc and args.by not in TRACED:
            raise UsageError(f"--by {args.by} needs the native core: {TELLS_NOT}.")
        if args.mode == "python" and not args.tracemalloc:
            raise UsageError(
                f"--by {args.by} needs the native core, but --mode python does not load it.",
                fix=_without(args, "--mode python"),
            )
        where, seconds = parse_filter(args.where), args.seconds or SECONDS
        check_filter(args.by, where)
        sampling = Sampling(args.user_code)
        # A census before and one after are enough: it is what is sampled that one waits for.
        source = target_source(args, interval=NEVER)[0]
        sampled = sampled_seconds(source)
        if sampled is not None and args.seconds:
            raise UsageError("A heap dump has the samples that it was written with: --for is for processes.")
        taken = take_census(
            source, ProgressLine(), sampling=sampling, seconds=0 if sampled else seconds, timeout=args.timeout
        )
        seconds = sampled or seconds
        if args.json:
            document = sampled_json(taken, sampling, args.by, where, seconds, args.top or None)
            print(json.dumps(document, indent=2))
        else:
            top = rows_shown(args, TOP)
            print("\n".join(sampled_lines(taken, sampling, args.by, where, seconds, top)))
        return 0

    @staticmethod
    def _freeze(args: argparse.Namespace) -> int:
        from heaptop.analysis.filters.filters import parse_filter
        from heaptop.analysis.snapshot.retained import check_filter
        from heaptop.cli.output.retained import as_json, as_lines, take_retained

        _refuse_sampling(args, f"--by {args.by} shows one moment and samples nothing")
        refuse_mode(args, f"--by {args.by}")
        where, number = parse_filter(args.where), args.retainers or RETAINERS
        check_filter(args.by, where)
        source, target = target_source(args, sample_interval=0, interval=NEVER)
        again = f"heaptop census {target} --by {args.by}"
        taken = take_retained(source, ProgressLine(), args.by, number, where, again, timeout=args.timeout)
        if args.json:
            print(json.dumps(as_json(taken, args.by, number, where, args.top or None), indent=2))
        else:
            print("\n".join(as_lines(taken, args.by, where, rows_shown(args, TOP))))
        return 0

    @staticmethod
    def _explain(args: argparse.Namespace) -> int:
        from heaptop.cli.counting import take_census
        from heaptop.cli.output.memory import as_json, as_lines

        if args.where or args.by != "type":
            raise UsageError("--memory shows the whole process: it does not combine with --by or --where.")
        _refuse_sampling(args, "--memory samples nothing")
        source = target_source(args, sample_interval=0)[0]
        taken = take_census(source, ProgressLine(), memory=True, timeout=args.timeout)
        if args.json:
            print(json.dumps(as_json(taken), indent=2))
        else:
            print("\n".join(as_lines(taken, rows_shown(args, TOP_FILES))))
        return 0


def _refuse_sampling(args: argparse.Namespace, why: str) -> None:
    """Raise where a flag for sampling was given, and nothing will be sampled."""
    given = [
        flag
        for flag, value in SAMPLING_FLAGS.items()
        if getattr(args, value) not in (None, False, []) and value not in args.from_config
    ]
    if given:
        goes = "goes" if len(given) == 1 else "go"
        raise UsageError(f"{' and '.join(given)} {goes} with --by {', '.join(SAMPLED)}: {why}.")


def _without(args: argparse.Namespace, flag: str) -> str:
    return f"Leave `{flag}` out: `heaptop census {args.target} --by {args.by}`."
