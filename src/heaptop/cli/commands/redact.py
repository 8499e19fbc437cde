"""``heaptop redact``: a heap dump that can be given to others."""

from __future__ import annotations

import argparse
import json

from heaptop.cli.terminal import keep_apart, notice
from heaptop.errors import SaveFailed, os_reason


class RedactCommand:
    """Remove your program's names from a heap dump, so that you can share it.

    Types, modules, functions, attributes, variables, threads and files get new names such as type-1, the same name
    everywhere in the file. The names of the interpreter and of the standard library are kept, even where your program
    uses the same name; so are the names of the C library and of libraries that Python is linked with, such as libssl.
    The command line, the user, the folders of the machine and all contents are left out. Addresses, sizes, lengths,
    references and retained sizes do not change.

    heaptop redact before.heapdump -o shared.heapdump
    heaptop redact before.heapdump -o shared.heapdump --names mine.json
    """

    name = "redact"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="a heap dump, as `heaptop dump` wrote it")
        parser.add_argument("-o", "--output", metavar="OUT", required=True, help="a new file")
        parser.add_argument("--force", action="store_true", help="overwrite OUT and NAMES if they exist")
        parser.add_argument(
            "--names",
            metavar="NAMES",
            help="also write the list of old and new names, as JSON that only you can read; do not share it",
        )

    def run(self, args: argparse.Namespace) -> int:
        from heaptop import files
        from heaptop.analysis.text.units import format_bytes, format_count
        from heaptop.dumps.reader import HeapDump
        from heaptop.dumps.redacting import redact
        from heaptop.dumps.writer import DumpFile
        from heaptop.watching.recording import ended_by_signals

        keep_apart(args.output, args.file)
        if args.names is not None:
            keep_apart(args.names, args.file)
            keep_apart(args.names, args.output)
        with ended_by_signals(), HeapDump(args.file) as dump, DumpFile(args.output, force=args.force) as file:
            old = redact(dump, file)
        if args.names is not None:
            try:
                files.write(args.names, json.dumps(old, indent=1).encode(), force=args.force)
            except (OSError, ValueError) as error:
                raise SaveFailed(
                    f"{args.names} cannot be written: {os_reason(error)}.", why=f"{args.output} was written."
                ) from None
        notice(f"{args.output}: {format_count(len(old))} names replaced, {format_bytes(file.size)}")
        return 0
