"""``heaptop guard``: the flight recorder of one process."""

from __future__ import annotations

import argparse
import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heaptop.choices import GUARD_ACTIONS, GUARD_QUOTA, LEAST_QUOTA
from heaptop.cli.options import (
    add_attach_options,
    add_census_pace,
    add_sampling_options,
    add_target,
    add_timeout,
    add_units,
    attach_options,
    duration,
    seconds,
    size,
    target_pid,
)
from heaptop.cli.terminal import ProgressLine
from heaptop.errors import RecordingFailed, UsageError

if TYPE_CHECKING:
    from heaptop.fleet.triggers import GuardRule

INTERVAL: Final = 60.0
SHARE: Final = 0.01
BUDGET_MS: Final = 50


class GuardCommand:
    """Watch a process, and write a report when its memory nears a limit, grows, or leaks.

    A report shows what the heap holds, what grew, and where it was allocated. It is written at once with what is
    known, and completed later. `hunt` adds a leak hunt, `record` keeps a recording of the time before, `dump` writes a
    heap dump. The guard never asks: it leaves out what would pause the process for too long or needs more memory than
    is free, and the report states that.
    Each event is a line on stderr. The guard ends when the process exits, on Ctrl+C or SIGTERM, or after --at-most
    firings.

    A trigger is: rss > 2GB; rss > 80% of limit; left < 200MB; growth > 10MB/min; time to limit < 30min; garbage > 1000;
    pressure > 10%; verdict = leak every 2h; every 6h. The limit is the smallest of the process's control groups, else
    the machine's memory. `left` is the memory left before any of these limits. `time to limit` is the time until one of
    them is reached at the growth of the last five minutes.

    heaptop guard PID --when 'rss > 80% of limit' --do hunt,record
    heaptop guard PID --when 'time to limit < 30min' --when 'every 6h' --dir out
    heaptop guard PID --when 'verdict = leak' --webhook https://example.com/x
    """

    name = "guard"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target(parser)
        parser.add_argument(
            "--when",
            action="append",
            required=True,
            metavar="TRIGGER",
            help="when to fire; can be given several times: any of them fires",
        )
        parser.add_argument(
            "--do",
            type=_actions,
            default=("report",),
            metavar="ACTIONS",
            help="report, hunt (report, then hunt for leaks), record (report, and keep the recording so far), "
            "dump (report, then write a heap dump without contents), alertmanager (report, and send an alert), with "
            "commas between them (default report)",
        )
        parser.add_argument(
            "--for",
            dest="seconds",
            type=seconds,
            default=30.0,
            metavar="S",
            help="seconds of a leak hunt (default %(default)g)",
        )
        parser.add_argument(
            "--dir",
            default="heaptop-guard",
            metavar="DIR",
            help="the folder for reports, created for its owner only (default %(default)s)",
        )
        parser.add_argument(
            "--quota",
            type=_quota,
            default=GUARD_QUOTA,
            metavar="SIZE",
            help="size limit of all files of guards in the folder; the oldest are removed (default 500MB)",
        )
        parser.add_argument(
            "--cooldown",
            type=duration,
            default=600.0,
            metavar="TIME",
            help="time after a firing in which nothing fires (default 10m)",
        )
        parser.add_argument(
            "--at-most",
            type=_count,
            default=10,
            metavar="N",
            help="end after N firings (default %(default)s)",
        )
        _add_recipients(parser)
        add_census_pace(parser, INTERVAL, SHARE)
        add_timeout(parser)
        add_units(parser)
        add_sampling_options(parser)
        add_attach_options(parser, budget_ms=BUDGET_MS)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.analysis.samples.sampling import Sampling
        from heaptop.dumps.captured_source import CapturedSource
        from heaptop.fleet.guarding import Guard, GuardWatch
        from heaptop.fleet.reports import ReportFolder
        from heaptop.fleet.sending import Sender
        from heaptop.injector.api import attach_source
        from heaptop.recordings.recordable_source import RecordableSource
        from heaptop.watching.recording import ended_by_signals

        # A wrong option is reported before anything is touched.
        rule = _rule(args)
        folder = ReportFolder(Path(args.dir), args.quota)
        pid, progress = target_pid(args), TimedLine()
        attached = attach_source(pid, attach_options(args))
        captured = CapturedSource(attached) if rule.dumps else None
        source = RecordableSource(captured or attached, max_size=folder.ring_size)
        again = f"heaptop guard {pid}"
        with ended_by_signals():
            watch = GuardWatch(source, progress, again, Sampling(args.user_code), timeout=args.timeout)
            sender = Sender(progress.notice)
            guard = Guard(watch, source, rule, folder, sender, progress, captured=captured)
            try:
                guard.begin_ring(pid)
            except OSError as error:
                raise RecordingFailed(f"{folder.path} cannot hold a recording: {error}.") from None
            try:
                with watch:
                    when, do = " or ".join(map(str, rule.triggers)), ", ".join(args.do)
                    progress.notice(f"guarding process {pid}: when {when}: {do}; files in {folder.path}")
                    why = guard.run()
            finally:
                guard.close()
                sender.close(guard.left_to_send)
        progress.notice(f"ended: {why}")
        return 0


class TimedLine(ProgressLine):
    """As a command's, with the time before each remark."""

    def notice(self, text: str) -> None:
        super().notice(f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}")


def _add_recipients(parser: argparse.ArgumentParser) -> None:
    """Where each report is sent."""
    parser.add_argument(
        "--webhook", type=_url, metavar="URL", help="POST each report to this URL, as JSON; follows no redirect"
    )
    parser.add_argument(
        "--alertmanager",
        type=_url,
        metavar="URL",
        help="the Alertmanager for --do alertmanager, such as http://127.0.0.1:9093",
    )
    parser.add_argument(
        "--command",
        dest="argv",
        type=_argv,
        default=(),
        metavar="ARGV",
        help="run this for each report, without a shell: stdin is the JSON, $HEAPTOP_REPORT the file",
    )


def _rule(args: argparse.Namespace) -> GuardRule:
    """What was asked for. Errors: UsageError of a trigger."""
    from heaptop.fleet.triggers import GuardRule, parse_trigger

    triggers = tuple(map(parse_trigger, args.when))
    if any(trigger.figure == "verdict" for trigger in triggers) and args.mode != "clone":
        raise UsageError(f"A verdict needs leak hunts, which --mode {args.mode} cannot do.", fix="Leave `--mode` out.")
    if ("alertmanager" in args.do) != bool(args.alertmanager):
        raise UsageError(
            "An alert needs an action and an address.", fix="Use both: `--do alertmanager --alertmanager URL`."
        )
    return GuardRule(
        triggers,
        hunts="hunt" in args.do,
        records="record" in args.do,
        dumps="dump" in args.do,
        webhook=args.webhook or "",
        alertmanager=args.alertmanager or "",
        command=args.argv,
        hunt_seconds=args.seconds,
        cooldown=args.cooldown,
        at_most=args.at_most,
    )


def _actions(text: str) -> tuple[str, ...]:
    actions = tuple(word.strip() for word in text.split(","))
    for action in actions:
        if action not in GUARD_ACTIONS:
            raise argparse.ArgumentTypeError(f"{action!r} is not one of {', '.join(GUARD_ACTIONS)}")
    return actions


def _quota(text: str) -> int:
    value = size(text)
    if value < LEAST_QUOTA:
        raise argparse.ArgumentTypeError(f"{text} is not a size of 5MB or more")
    return value


def _count(text: str) -> int:
    value = int(text)  # argparse turns a ValueError into its own message
    if not 1 <= value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 1000000")
    return value


def _url(text: str) -> str:
    from heaptop.fleet.sending import webhook_host

    try:
        webhook_host(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not a URL to post to: {error}") from None
    return text


def _argv(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a command: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("the command is empty")
    return words
