"""Arguments that several commands share, each declared once, and what they become.

This module never looks at a process, but for the name that a person typed instead of a pid.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from heaptop.choices import ADAPTIVE, DUMP_SUFFIX, MODES, NOT_SAMPLED, THEMES, TIMEOUT, TIMES, UNITS, SamplingRate
from heaptop.cli.first_run import first_run
from heaptop.errors import HeaptopError, InterpreterBusy, SeccompTarget, TransportFailed, UsageError

if TYPE_CHECKING:
    from heaptop.dumps.reader import HeapDump
    from heaptop.injector.api import AttachOptions
    from heaptop.protocol.source import Source
    from heaptop.watching.progress import ProgressReport

LEAST_INTERVAL, MOST_INTERVAL = 1 << 10, 1 << 30
MOST_FRAMES = 1024
MOST_SAMPLES = 5_000  # A second
FRAMES = 128  # The default
TOP = 20
GROUPINGS = {"site": "producer"}  # Other names that --by takes
"""Rows a person is shown unless they ask for another number."""
NEVER = 86_400.0  # Seconds to the next census but those that are asked for
MAX_SIZE, LEAST_SIZE = 256 << 20, 1 << 20  # Bytes of a recording
MOST_MARKS = 100  # Looks of one hunt that a person asks for
MOST_RETAINERS = 16  # Members of a retainer set: the native core distinguishes no more
MOMENT = "+90m, -1h, 02:13, or seconds"  # How a moment of a recording is written
COPYABLE = (SeccompTarget, InterpreterBusy, TransportFailed)
"""What keeps heaptop from running code in a process, and not from copying it."""
_TIME_OPTIONS = ("--at", "--to")
_BEFORE_THE_END = re.compile(r"-\d[\d.dhms]*")


def add_target(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """``PID``: read it with :func:`target_pid`."""
    parser.add_argument(
        "target",
        metavar="PID",
        nargs="?" if optional else None,
        help="a process id, or a name that matches exactly one Python process",
    )


def add_target_or_dump(parser: argparse.ArgumentParser) -> None:
    """``PID`` or ``FILE``: read it with :func:`target_source`."""
    parser.add_argument(
        "target",
        metavar="PID|FILE",
        help="a process id; a name that matches exactly one Python process; a heap dump (a path with a /, or a name "
        f"that ends in {DUMP_SUFFIX}); or a core file (a path with a /, or a name that begins with core)",
    )
    add_core_files(parser)


def add_recording(parser: argparse.ArgumentParser, what: str = "a recording, as `heaptop record` writes it") -> None:
    """``FILE``, and how to read what was sampled in it."""
    parser.add_argument("file", metavar="FILE", help=what)
    add_user_code(parser)


def with_times(argv: Sequence[str]) -> list[str]:
    """``--at -1h`` as ``--at=-1h``: argparse would take what begins with ``-`` for an option."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] in _TIME_OPTIONS and _BEFORE_THE_END.fullmatch(word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


FOR = ", in addition to --for"


def add_timeout(parser: argparse.ArgumentParser, *, beside: str = FOR) -> None:
    """``--timeout``; ``beside`` names the limit that it adds to."""
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT,
        metavar="S",
        help=f"seconds to wait for all answers of the process{beside}; a stopped process does not answer "
        "(default %(default)g)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def add_report_options(parser: argparse.ArgumentParser, *, beside: str = FOR) -> None:
    """How long a command waits for what it reports, and how it prints that; ``beside`` as in :func:`add_timeout`."""
    add_timeout(parser, beside=beside)
    add_json(parser)
    add_units(parser)


def add_top(parser: argparse.ArgumentParser) -> None:
    """``--top``: read with :func:`rows_shown`."""
    parser.add_argument(
        "--top", type=row_count, metavar="N", help=f"rows to print, 0 for all (default {TOP}, --json: all)"
    )


def add_attach_options(parser: argparse.ArgumentParser, *, budget_ms: int = 100) -> None:
    """How to get in, with a pause budget of so many milliseconds: read them with :func:`attach_options`."""
    census = parser.add_argument_group("census")
    census.add_argument(
        "--mode",
        choices=MODES,
        default=MODES[0],
        help="the first census mode to try: in a clone of the process, in the process while it is stopped, or by "
        "Python in slices (default %(default)s, or stop if that pauses the process for far less time)",
    )
    census.add_argument(
        "--pause-budget",
        type=_milliseconds,
        default=budget_ms / 1000,
        metavar="MS",
        help=f"the longest pause that a census may cause without confirmation (default {budget_ms})",
    )
    group = parser.add_argument_group("attaching")
    group.add_argument(
        "--wait",
        type=seconds,
        default=10.0,
        metavar="S",
        help="seconds to wait for an interpreter that is busy in C code (default %(default)g)",
    )
    group.add_argument(
        "--allow-seccomp",
        action="store_true",
        help="attach under a seccomp filter that is known to allow mmap, socketpair, clone and nanosleep",
    )
    group.add_argument(
        "--override-remote-debug",
        action="store_true",
        help="use PEP 768 although the program was started with it disabled",
    )


def add_no_inject(parser: argparse.ArgumentParser) -> None:
    """``--no-inject``, of commands that :func:`target_source` serves."""
    group = parser.add_argument_group("without attaching")
    group.add_argument(
        "--no-inject",
        action="store_true",
        help="run no code in the process: stop it, for at most the pause budget, copy its memory, and count the copy; "
        "references of C types of other libraries are then unknown, and nothing is sampled",
    )


def offer_copy(args: argparse.Namespace, error: HeaptopError) -> None:
    """Where an attach was refused, and this command works without one: report that."""
    if isinstance(error, COPYABLE) and getattr(args, "no_inject", True) is False:
        error.fix += "\nOr count a copy of its memory, with no code run in it: add `--no-inject`."


def add_census_pace(group: argparse._ActionsContainer, interval: float, share: float) -> None:
    """How often censuses are taken: seconds between two, and the most of one core that they may take."""
    group.add_argument(
        "--interval",
        type=seconds,
        default=interval,
        metavar="S",
        help="seconds between two censuses (default %(default)g)",
    )
    group.add_argument(
        "--share",
        type=core_share,
        default=share,
        metavar="PERCENT",
        help="the most CPU for censuses, in percent of one core: expensive ones are taken less often (default "
        f"{share * 100:g})",
    )


def add_screen_options(parser: argparse.ArgumentParser) -> None:
    """The live front end's, with those of :func:`add_attach_options`."""
    group = parser.add_argument_group("screen")
    add_appearance_options(group)
    add_census_pace(group, 1.0, 0.05)
    add_recording_options(parser, "--record")
    add_sampling_options(parser)
    add_attach_options(parser)


def add_recording_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Where a recording goes, by an option of these names, and how large it may be."""
    group = parser.add_argument_group("recording")
    if "--record" in names:
        group.add_argument("--record", metavar="FILE", help="record into a new file (key ctrl+r starts and stops)")
    else:
        group.add_argument(
            *names,
            metavar="FILE",
            help="a new file (default: heaptop-PID-DATE-TIME.heaptop in the current directory)",
        )
    group.add_argument(
        "--max-size",
        type=_recording_size,
        default=MAX_SIZE,
        metavar="SIZE",
        help="size limit of the file; older ticks are dropped to stay below it (default 256MiB)",
    )
    group.add_argument("--force", action="store_true", help="overwrite the file if it exists")


def add_appearance_options(group: argparse._ActionsContainer) -> None:
    """How a screen looks."""
    group.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    group.add_argument(
        "--no-ascii",
        dest="ascii",
        action="store_false",
        help="do not draw with ASCII characters only",
    )
    group.add_argument(
        "--theme",
        metavar="NAME",
        help=f"the colours: {', '.join(THEMES)} (default: $HEAPTOP_THEME, or {THEMES[0]})",
    )
    group.add_argument(
        "--times",
        choices=TIMES,
        default=TIMES[0],
        help="times since the attach, as local time, or as UTC (default %(default)s)",
    )
    add_units(group)


def add_units(group: argparse._ActionsContainer) -> None:
    """How bytes are written for a person; JSON has numbers."""
    group.add_argument(
        "--units",
        choices=UNITS,
        default=UNITS[0],
        help="sizes in KiB and MiB, or in kB and MB (default %(default)s)",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """Which file of settings holds: read by heaptop.cli.config_file."""
    group = parser.add_argument_group("settings")
    group.add_argument(
        "--config", metavar="FILE", help="read settings from this file (`heaptop config` shows the default)"
    )
    group.add_argument("--no-config", dest="config", action="store_false", help="read no settings file")


def add_user_code(group: argparse._ActionsContainer) -> None:
    """What is the user's own code: a list of paths, empty where none is given."""
    group.add_argument(
        "--user-code",
        action="append",
        default=[],
        metavar="PATH",
        help="a folder or file of your own code, wherever it is; an allocation site is the innermost frame in your own "
        "code",
    )


def add_sampling_options(parser: argparse.ArgumentParser, usual: SamplingRate = ADAPTIVE) -> None:
    """How allocations are sampled: read with :func:`attach_options`. What is not given stays None, or empty; ``usual``
    is the rate of a command then."""
    group = parser.add_argument_group("sampling allocations")
    group.add_argument(
        "--rate",
        type=sample_rate,
        metavar="N/s|SIZE",
        help="samples per second: heaptop adapts the sampling interval to the program, from 512 bytes to 4 MiB; or a "
        f"fixed interval, such as 64KiB; off disables sampling (default {usual.target}/s)",
    )
    group.add_argument(
        "--depth",
        type=frame_count,
        metavar="N",
        help=f"frames kept per call stack, the innermost (default {FRAMES})",
    )
    add_user_code(group)
    group.add_argument(
        "--exact-sites",
        action="store_true",
        help="3.13 and later: exact sites for lists, dicts, tuples and floats from free lists; up to 9 %% more "
        "instructions",
    )
    group.add_argument(
        "--tracemalloc",
        action="store_true",
        help="if the native core cannot be loaded, use tracemalloc with at most 4 frames; expensive, the cost is "
        "shown first; Python 3.12.9, 3.13.2, 3.14.4 and later, or where the program switched it on itself",
    )


def report_cost(args: argparse.Namespace) -> None:
    """Print on stderr what --tracemalloc may cost the target, before it is touched; nothing without that option."""
    from heaptop.cli.terminal import notice

    if getattr(args, "tracemalloc", False):
        from heaptop.analysis.samples.tracing import COST, ENDS

        notice(
            f"--tracemalloc: if the native core cannot be loaded, tracemalloc is switched on. While it is on, {COST}."
        )
        notice(f"{ENDS}.")


def screen_options(args: argparse.Namespace) -> dict[str, Any]:
    """What the front end has to know of the command line and the file of settings, as its ``make_app`` takes it."""
    return {
        "hinted": first_run(),
        "ascii": args.ascii,
        "theme": args.theme,
        "user_code": args.user_code,
        "keys": getattr(args, "keys", None),
        "times": args.times,
        "files": _read_file,
    }


def _read_file(pid: int, path: str) -> bytes:
    from heaptop.injector.inspect.target_files import read

    return read(pid, path)


@contextmanager
def written_units(args: argparse.Namespace) -> Iterator[None]:
    """Bytes are written as the person wants them; in JSON they are numbers, and its sentences are always the same."""
    if getattr(args, "json", False) or getattr(args, "units", UNITS[0]) == UNITS[0]:
        yield
        return
    from heaptop.analysis.text.units import using

    with using(args.units):
        yield


def target_pid(args: argparse.Namespace) -> int:
    """The process meant by ``PID``. Errors: ProcessNotFound, AmbiguousName."""
    return pid_of(args.target)


def pid_of(target: str, *, children: bool = False) -> int:
    """The same, of what was written for it; ``children`` as :func:`heaptop.injector.processes.resolve`."""
    if target.isascii() and target.isdigit():
        return int(target)
    from heaptop.injector.processes import resolve  # slow to load, and only a name needs it

    return resolve(target, children=children)


def add_core_files(parser: argparse.ArgumentParser) -> None:
    """``--exe`` and ``--root``, of commands that take a core file."""
    group = parser.add_argument_group("core files")
    group.add_argument("--exe", metavar="PATH", help="the program that ran, if it is not at its original path here")
    group.add_argument(
        "--root", metavar="DIR", help="a copy of the file system of the container or machine where it ran"
    )


def is_core(target: str) -> bool:
    """Whether what was written for a process is a core file: with a slash, or by the usual name of one."""
    name = os.path.basename(target)
    if not ("/" in target or name == "core" or name.startswith("core.") or name.endswith(".core")):
        return False
    from heaptop.dumps.cores.elf_core import begins_as_core

    return begins_as_core(target)


def core_dump(path: str, args: argparse.Namespace) -> HeapDump:
    """The heap of a core file, not loaded yet. Errors: as :func:`heaptop.dumps.cores.conversion.open_core`."""
    from heaptop.cli.terminal import ProgressLine
    from heaptop.dumps.cores.conversion import CoreOptions, open_core

    progress = ProgressLine()
    try:
        return open_core(path, CoreOptions(args.exe, args.root), progress_of(progress))
    finally:
        progress.clear()


def process_dump(pid: int, args: argparse.Namespace) -> HeapDump:
    """The heap of a process that is copied, not loaded yet. Errors: as
    :func:`heaptop.dumps.cores.conversion.open_copy`."""
    from heaptop.cli.terminal import ProgressLine
    from heaptop.dumps.cores.conversion import CoreOptions, open_copy

    if args.mode != MODES[0]:
        raise UsageError("--no-inject counts a copy: it has no mode.", fix=f"Leave `--mode {args.mode}` out.")
    progress = ProgressLine()
    try:
        return open_copy(pid, CoreOptions(args.exe, args.root), args.pause_budget, progress_of(progress))
    finally:
        progress.clear()


def progress_of(progress: ProgressReport) -> Callable[[str, int, int], None]:
    """Shows how far each step of a walk is, and how long it will take."""
    from heaptop.watching.progress import time_left

    begun: dict[str, float] = {}

    def show(what: str, done: int, total: int) -> None:
        passed = time.monotonic() - begun.setdefault(what, time.monotonic())
        progress.show(f"{what}: {done / total:.0%}{time_left(passed, done, total)}" if total else what)

    return show


def target_source(args: argparse.Namespace, **others: Any) -> tuple[Source, int | str]:
    """What is meant by ``PID``, or by ``FILE`` where it is a heap dump; and the pid, or the file's name. ``others`` as
    :func:`attach_options`. Errors: as :func:`target_pid`; NotADump, DumpTooNew, DumpDamaged."""
    return source_of(args.target, args, **others)


def source_of(target: str, args: argparse.Namespace, **others: Any) -> tuple[Source, int | str]:
    """The same, of what was written for it. A file that is only called as a process is, is not meant."""
    if "/" in target or target.endswith(DUMP_SUFFIX):
        from heaptop.dumps.reader import HeapDump, begins_as_dump

        if begins_as_dump(target):
            return _source_of_dump(HeapDump(target), args), target
    if is_core(target):
        return _source_of_dump(core_dump(target, args), args), target
    pid = pid_of(target)
    if getattr(args, "no_inject", False):
        return _source_of_dump(process_dump(pid, args), args), pid
    from heaptop.injector.api import attach_source

    return attach_source(pid, attach_options(args, **others)), pid


def _source_of_dump(dump: HeapDump, args: argparse.Namespace) -> Source:
    from heaptop.cli.terminal import notice
    from heaptop.dumps.source import DumpSource

    source = DumpSource(dump)
    if not getattr(args, "json", False):
        notice(f"{source.target.note} of process {source.target.pid}")
    return source


def attach_options(args: argparse.Namespace, **others: Any) -> AttachOptions:
    """What the injector has to know of the command line; ``others`` are fields that it does not decide."""
    from heaptop.injector.api import AttachOptions

    defaults = AttachOptions()
    rate: SamplingRate = getattr(args, "rate", None) or ADAPTIVE
    options = {
        "wait": args.wait,
        "allow_seccomp": args.allow_seccomp,
        "override_remote_debug": args.override_remote_debug,
        "interval": getattr(args, "interval", defaults.interval),
        "max_share": getattr(args, "share", defaults.max_share),
        "mode": args.mode,
        "pause_budget": args.pause_budget,
        "sample_interval": rate.interval,
        "sample_target": rate.target,
        "sample_depth": getattr(args, "depth", None) or FRAMES,
        "sample_exact": getattr(args, "exact_sites", defaults.sample_exact),
        "tracer": getattr(args, "tracemalloc", defaults.tracer),
    }
    return AttachOptions(**{**options, **others})


def duration(text: str) -> float:
    """For an option: seconds, or with units."""
    from heaptop.analysis.text.recorded_times import seconds_of

    value = seconds_of(re.sub(r"min\b", "m", text))
    if not value:
        raise argparse.ArgumentTypeError(f"{text} is not a time: 600, 90m, 8h, 1h30m")
    return value


def _milliseconds(text: str) -> float:
    """Seconds, from milliseconds."""
    value = float(text)
    if not 0 <= value <= 86_400_000:
        raise argparse.ArgumentTypeError(f"{text} is not a number of milliseconds, up to a day")
    return value / 1000


def size(text: str) -> int:
    """For an option: bytes."""
    from heaptop.analysis.text.units import parse_size

    try:
        return parse_size(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def sample_rate(text: str) -> SamplingRate:
    """For an option: ``200/s``, ``64KiB`` or ``off``."""
    if text.lower() == "off":
        return NOT_SAMPLED
    if per_second := re.fullmatch(r"(\d{1,9}) ?/ ?s", text, re.ASCII):
        target = int(per_second[1])
        if not 1 <= target <= MOST_SAMPLES:
            raise argparse.ArgumentTypeError(f"{text} is not from 1/s to {MOST_SAMPLES}/s")
        return SamplingRate(ADAPTIVE.interval, target)
    value = size(text)
    if not LEAST_INTERVAL <= value <= MOST_INTERVAL:
        raise argparse.ArgumentTypeError(f"{text} is not a size from 1KiB to 1GiB, samples as 200/s, or off")
    return SamplingRate(value)


def _recording_size(text: str) -> int:
    value = size(text)
    if value < LEAST_SIZE:
        raise argparse.ArgumentTypeError(f"{text} is not a size of 1MiB or more")
    return value


def frame_count(text: str) -> int:
    """For an option: frames of a stack."""
    value = int(text)
    if not 1 <= value <= MOST_FRAMES:
        raise argparse.ArgumentTypeError(f"{text} is not a number of frames from 1 to {MOST_FRAMES}")
    return value


def core_share(text: str) -> float:
    """A part of 1, from per cent."""
    value = float(text.removesuffix("%"))
    if not 0.01 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 0.01 to 100")
    return value / 100


def refuse_mode(args: argparse.Namespace, what: str) -> None:
    """Raise where a mode was asked for in which there is no open snapshot; ``what`` is who needs one."""
    if args.mode != MODES[0]:
        raise UsageError(
            f"{what} needs a snapshot, which --mode {args.mode} cannot take.",
            fix=f"Leave `--mode {args.mode}` out.",
        )


def mark_count(text: str) -> int:
    """For an option: looks of a hunt."""
    value = int(text)  # argparse turns a ValueError into its own message
    if not 2 <= value <= MOST_MARKS:
        raise argparse.ArgumentTypeError(f"{text} is not a number of marks from 2 to {MOST_MARKS}")
    return value


def rows_shown(args: argparse.Namespace, default: int) -> int | None:
    """The value of ``--top`` from :func:`row_count`: so many rows, or None for all."""
    return default if args.top is None else args.top or None


def row_count(text: str) -> int:
    """For an option: 0 means all."""
    value = int(text)  # argparse turns a ValueError into its own message
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of rows")
    return value


def retainer_count(text: str) -> int:
    """For an option: N of retainer sets."""
    value = int(text)
    if not 1 <= value <= MOST_RETAINERS:
        raise argparse.ArgumentTypeError(f"{text} is not a number of retainers from 1 to {MOST_RETAINERS}")
    return value


def seconds(text: str) -> float:
    """For an option: above 0, up to a day."""
    value = float(text)  # argparse turns a ValueError into its own message
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0, up to a day")
    return value
