"""``heaptop why``: what keeps objects alive."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import TYPE_CHECKING

from heaptop.cli.options import (
    NEVER,
    TOP,
    add_attach_options,
    add_no_inject,
    add_report_options,
    add_target_or_dump,
    refuse_mode,
    retainer_count,
    row_count,
    target_source,
)
from heaptop.cli.terminal import ProgressLine
from heaptop.errors import NotInHeap, UsageError

if TYPE_CHECKING:
    from heaptop.watching.snapshot_watch import SnapshotWatch

LINKS = 10  # References from and to one object that a person is shown unless they ask for another number


class Why:
    """Show what keeps the objects of a type alive, or one object.

    TYPE is a full name, such as shop.models.Session, or the end of one if no other type has it. The
    command takes a snapshot, and shows lengths, types and names of attributes; values only with --values.

    heaptop why PID shop.models.Session
    heaptop why PID Session --retainers 3 --json
    heaptop why PID 0x7f30c2a41d90 --values
    """

    name = "why"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target_or_dump(parser)
        parser.add_argument("what", metavar="TYPE|ADDRESS", help="a type, or one object by its address (0x...)")
        parser.add_argument(
            "--limit",
            type=row_count,
            metavar="N",
            help=f"paths to print, 0 for all (default {TOP}, --json: all); for one object, references (default "
            f"{LINKS})",
        )
        parser.add_argument(
            "--retainers",
            type=retainer_count,
            metavar="N",
            help="also show their retainer sets: up to N retainers each; larger sets share one row",
        )
        parser.add_argument(
            "--values",
            action="store_true",
            help="for one object: show values and keys of exact built-in types; heaps contain secrets",
        )
        add_report_options(parser, beside="")
        add_attach_options(parser)
        add_no_inject(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.analysis.snapshot.why import address_of
        from heaptop.watching.snapshot_watch import SnapshotWatch

        # Report a wrong option before anything is touched.
        address = address_of(args.what)
        refuse_mode(args, "heaptop why")
        if address is None and args.values:
            raise UsageError("--values shows the content of one object: give an ADDRESS.")
        if address is not None and args.retainers:
            raise UsageError("--retainers counts the objects of a type: give a TYPE.")
        source, target = target_source(args, sample_interval=0, interval=NEVER)
        again = f"heaptop why {shlex.quote(str(target))} {shlex.quote(args.what)}"
        try:
            with SnapshotWatch(source, ProgressLine(), again, timeout=args.timeout) as watch:
                answer = self._of_type(watch, args) if address is None else self._of_object(watch, address, args)
        except NotInHeap as error:
            raise error.about(source.target.pid) from None
        print(answer)
        return 0

    @staticmethod
    def _of_type(watch: SnapshotWatch, args: argparse.Namespace) -> str:
        from heaptop.analysis.snapshot.retained import row_json
        from heaptop.analysis.snapshot.why import why_json
        from heaptop.cli.output.retained import retained_table
        from heaptop.cli.output.why_text import why_lines, why_notices
        from heaptop.watching.queries import ALL, paths_to, retainer_sets, selected
        from heaptop.watching.snapshot_watch import snapshot_notices

        image = watch.freeze()
        most = _most(args, TOP)
        paths, name = paths_to(watch, args.what, most or ALL)
        sets = retainer_sets(watch, selected(watch, args.what)[0], args.retainers) if args.retainers else None
        if args.json:
            target, hello = watch.attached.target, watch.attached.hello
            document = why_json(paths, image, watch.types, name, pid=target.pid, python=hello.python, most=most)
            if sets is not None:
                document["retainers"] = [row_json(row, by_retainer=True) for row in sets[0][:most]]
            return json.dumps(document, indent=2)
        lines = why_lines(paths, name, most)
        if sets is not None:
            rows, other, _ = sets
            lines += ["", *retained_table(rows, other, "RETAINERS", most)]
        return "\n".join([*lines, "", *why_notices(paths, image, most), *snapshot_notices(watch.attached, image)])

    @staticmethod
    def _of_object(watch: SnapshotWatch, address: int, args: argparse.Namespace) -> str:
        from heaptop.analysis.snapshot.why import object_json
        from heaptop.cli.output.why_text import object_lines
        from heaptop.watching.queries import ALL, object_at
        from heaptop.watching.snapshot_watch import snapshot_notices

        image = watch.freeze()
        target, hello = watch.attached.target, watch.attached.hello
        found, above = object_at(watch, address, _most(args, LINKS) or ALL, values=args.values)
        if args.json:
            document = object_json(found, above, image, watch.types, pid=target.pid, python=hello.python)
            return json.dumps(document, indent=2)
        lines = object_lines(found, above, watch.types, image)
        return "\n".join([*lines, "", *snapshot_notices(watch.attached, image)])


def _most(args: argparse.Namespace, default: int) -> int | None:
    """Rows to print; None for all."""
    if args.limit is None:
        return None if args.json else default
    return args.limit or None
