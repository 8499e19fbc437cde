"""``heaptop export``: a recording in another format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from heaptop.cli.options import MOMENT, add_recording
from heaptop.cli.terminal import ProgressLine, keep_apart, may_replace, notice
from heaptop.errors import SaveFailed, UsageError, os_reason

if TYPE_CHECKING:
    from heaptop.recordings.exports import Exporter
    from heaptop.recordings.exports.material import Material

OF = ("live", "allocated")
PARQUET = "parquet"  # The format of heap dumps


class Export:
    """Write a recording, or the objects of a heap dump, in another format.

    Of a recording: stacks for flame graphs or pprof, JSON, or an HTML page. Of a heap dump: `--to parquet`, a table
    with a row for each object, for DuckDB, pandas or Polars (needs `pip install 'heaptop[parquet]'`).

    It exports one moment, by default the end; --at chooses another: +90m (after the beginning), -1h (before the end),
    02:13 (on the clock), or seconds. The weights of stacks are estimated from samples.

    heaptop export night.heaptop --to html -o night.html
    heaptop export night.heaptop --to collapsed | flamegraph.pl > flames.svg
    heaptop export night.heaptop --to pprof --at 02:13 -o night.pb.gz
    heaptop export before.heapdump --to parquet -o before.parquet
    """

    name = "export"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        from heaptop.recordings.exports import EXPORTERS

        add_recording(parser, "a recording, or with --to parquet a heap dump")
        parser.add_argument("--to", choices=(*EXPORTERS, PARQUET), required=True, help="the format")
        parser.add_argument("-o", "--output", metavar="OUT", help="the file to write (default: stdout)")
        parser.add_argument("--force", action="store_true", help="overwrite OUT if it exists")
        parser.add_argument("--at", metavar="TIME", help=f"the moment: {MOMENT} (default: the end)")
        parser.add_argument(
            "--of",
            choices=OF,
            default=OF[0],
            help="stack weights: bytes live at the moment, or all allocated bytes (default %(default)s)",
        )

    def run(self, args: argparse.Namespace) -> int:
        from heaptop import files
        from heaptop.recordings.exports import EXPORTERS

        if args.to == PARQUET:
            return _export_dump(args)
        exporter = EXPORTERS[args.to]
        _check_output(args, exporter)
        force = args.output is not None and may_replace(Path(args.output), force=args.force)
        content = exporter.make(_material(args, exporter))
        if args.output is None:
            sys.stdout.buffer.write(content)
            return 0
        try:
            files.write(args.output, content, force=force)
        except FileExistsError:
            raise SaveFailed(
                f"The file {args.output} exists already.",
                why="heaptop overwrites files only with `--force`.",
                fix="Choose another file, or overwrite it: `--force`.",
            ) from None
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{args.output} cannot be written: {os_reason(error)}.", fix="Choose another file."
            ) from None
        return 0


def _export_dump(args: argparse.Namespace) -> int:
    from heaptop.analysis.text.units import format_count
    from heaptop.dumps.reader import HeapDump

    if args.output is None:
        raise UsageError("--to parquet needs a file.", fix=f"`heaptop export {args.file} --to parquet -o OUT`.")
    keep_apart(args.output, args.file)
    try:
        from heaptop.dumps.parquet import write_parquet
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Parquet cannot be written: the Python package {error.name} is not installed.",
            why="`--to parquet` needs an optional package.",
            fix="Install it with `pip install 'heaptop[parquet]'`.",
        ) from None
    progress = ProgressLine()
    with HeapDump(args.file) as dump:
        dump.load(lambda done, total: progress.show(f"reading the heap dump: {done / max(total, 1):.0%}"))
        written = write_parquet(
            dump,
            args.output,
            force=args.force,
            told=lambda done, total: progress.show(f"writing rows: {done / max(total, 1):.0%}"),
        )
    progress.clear()
    notice(f"{args.output}: {format_count(written)} objects, a row each")
    return 0


def _check_output(args: argparse.Namespace, exporter: Exporter) -> None:
    """Raise UsageError where it would go to the wrong place."""
    if args.output is None and not exporter.is_text and sys.stdout.isatty():
        raise UsageError(
            f"--to {exporter.name} writes binary data, and stdout is a terminal.",
            fix=f"Name a file: `heaptop export {args.file} --to {exporter.name} -o OUT`.",
        )
    if args.output is not None:
        keep_apart(args.output, args.file)


def _material(args: argparse.Namespace, exporter: Exporter) -> Material:
    from heaptop.analysis.reports.census_timeline import CensusTimeline
    from heaptop.cli.recorded import course_of, moment_of
    from heaptop.recordings.allowance import most_text
    from heaptop.recordings.exports.material import Material
    from heaptop.recordings.reader import Recording
    from heaptop.recordings.replay_to import replay_to

    progress = ProgressLine()
    with Recording.open(args.file) as recording:
        recorded = replay_to(recording, moment_of(recording, args.at), args.user_code)
        samples = recorded.sampling.samples
        if exporter.of_stacks and not samples.tally_count:
            raise UsageError(
                f"{args.file} has no samples before {args.at or 'the end'}: no stack is known.",
                fix="`--to html` and `--to json` contain the censuses. Record without `--rate off` to get stacks.",
            )
        if args.of == OF[1] and samples.only_live:
            raise UsageError("tracemalloc records live memory, not all allocations.", fix="Leave `--of allocated` out.")
        first, course = recorded, CensusTimeline()
        if exporter.over_time:
            first = replay_to(recording, recording.first_ns, args.user_code)
            course = course_of(recording, recorded, args.user_code, progress)
    return Material(recorded, args.of, first, course, most_text(recording.size))
