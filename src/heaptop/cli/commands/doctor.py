"""``heaptop doctor``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from heaptop.cli.options import add_json, add_target, target_pid

if TYPE_CHECKING:
    from heaptop.injector.api import Diagnosis

MARKS = {True: "ok", False: "no", None: "?"}
"""The outcome of a check in words: what cannot be known from here is neither."""


class Doctor:
    """Check whether an attach would work, and show the command that fixes what would prevent it.

    With PID, it checks that process; without, what this machine and user allow. Nothing is changed. The exit code is
    0 when an attach would work, else that of the error to expect.

    heaptop doctor
    heaptop doctor 4711
    """

    name = "doctor"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target(parser, optional=True)
        add_json(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.injector.api import diagnose

        diagnosis = diagnose(None if args.target is None else target_pid(args))
        if args.json:
            print(json.dumps(diagnosis.to_json(), indent=2))
        else:
            print("\n".join(as_lines(diagnosis)))
        if diagnosis.attachable:
            return 0
        return diagnosis.error.exit_code if diagnosis.error else 1


def as_lines(diagnosis: Diagnosis) -> list[str]:
    """The text for a person: a line for each check, and the result."""
    width = max((len(check.name) for check in diagnosis.checks), default=0)
    lines = []
    for check in diagnosis.checks:
        lines.append(f"{MARKS[check.ok]:<3} {check.name:<{width}}  {check.detail}".rstrip())
        if check.fix and not check.ok:
            lines += [f"    {'':<{width}}  {line}" for line in check.fix.split("\n")]
    lines.append("")
    if diagnosis.attachable:
        return [*lines, "heaptop can attach."]
    reason = diagnosis.error.help_text if diagnosis.error else "A check above shows why."
    return [*lines, "heaptop cannot attach.", "", reason]
