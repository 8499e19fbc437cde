"""``heaptop open``: the live screen over a recording."""

from __future__ import annotations

import argparse
from pathlib import Path

from heaptop.cli.options import (
    MOMENT,
    add_appearance_options,
    add_core_files,
    add_recording,
    core_dump,
    screen_options,
)
from heaptop.cli.terminal import require_terminal
from heaptop.errors import UsageError

LOOPBACK = "127.0.0.1"


class Open:
    """Replay a recording on the live screen, or look at a heap dump or a core file.

    It opens at the end, or with --at at another moment: +90m (after the beginning), -1h (before the end), 02:13 (on
    the clock), or seconds. Keys , and . seek one step back and forward, ( and ) a tenth of the recording.

    With --web it prints a URL to open in a browser on this machine. From another machine, forward the port:
    `ssh -L 8000:127.0.0.1:8000 HOST`, with `--port 8000` here.

    heaptop open night.heaptop
    heaptop open night.heaptop --at -1h
    heaptop open core.1234
    """

    name = "open"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_recording(parser, "a recording, a heap dump or a core file")
        parser.add_argument("--at", metavar="TIME", help=f"the moment to open at: {MOMENT} (default: the end)")
        add_appearance_options(parser)
        add_core_files(parser)
        parser.add_argument("--read-only", action="store_true", help=argparse.SUPPRESS)  # what a page is served by
        group = parser.add_argument_group("in a browser")
        group.add_argument("--web", action="store_true", help="serve it as a page, until Ctrl+C (needs heaptop[web])")
        group.add_argument("--port", type=_port, metavar="N", help="the page's port (default: a free one)")
        group.add_argument(
            "--host",
            metavar="ADDRESS",
            help=f"the address to serve at (default {LOOPBACK}); everyone who can reach it can read the recording",
        )

    def run(self, args: argparse.Namespace) -> int:
        if args.web:
            return _serve(args)
        if args.port is not None or args.host is not None:
            raise UsageError("--port and --host need --web.", fix="Add `--web`.")
        from heaptop.dumps.cores.elf_core import begins_as_core
        from heaptop.dumps.reader import begins_as_dump

        if begins_as_dump(args.file) or begins_as_core(args.file):
            return _open_dump(args)
        from heaptop.cli.recorded import moment_of
        from heaptop.recordings.reader import Recording
        from heaptop.recordings.replay import ReplaySource
        from heaptop.tui.app import make_app

        with Recording.open(args.file) as recording:
            player, moment = ReplaySource(recording), moment_of(recording, args.at)
            require_terminal(args, instead=f"print it: `heaptop report {args.file}`")
            if moment is not None:
                player.seek(moment)
            options = screen_options(args)
            if args.read_only:
                options |= {"hinted": None, "read_only": True}
            try:
                error = make_app(player, **options).run()
            finally:
                player.close()
        if error is not None:
            raise error
        return 0


def _open_dump(args: argparse.Namespace) -> int:
    from heaptop.dumps.cores.elf_core import begins_as_core
    from heaptop.dumps.reader import HeapDump
    from heaptop.dumps.source import DumpSource
    from heaptop.tui.app import make_app

    if args.at is not None:
        raise UsageError("A heap dump shows one moment: --at is for recordings.")
    with core_dump(args.file, args) if begins_as_core(args.file) else HeapDump(args.file) as dump:
        require_terminal(args, instead=f"print it: `heaptop census {args.file}`")
        source = DumpSource(dump)
        try:
            error = make_app(source, **screen_options(args)).run()
        finally:
            source.close()
    if error is not None:
        raise error
    return 0


def _serve(args: argparse.Namespace) -> int:
    from heaptop.cli.recorded import moment_of
    from heaptop.recordings.reader import Recording
    from heaptop.tui.charts.palette import choose

    try:
        from heaptop.cli.web import own_command, serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"A page cannot be served: the Python package {error.name} is not installed.",
            why="--web needs optional packages.",
            fix="Install them with `pip install 'heaptop[web]'`, or open the recording in a terminal, without --web.",
        ) from None
    with Recording.open(args.file) as recording:  # an error is printed here, and not on a page
        moment_of(recording, args.at)
    choose(args.theme, {})
    look = ["--ascii" if args.ascii else "--no-ascii", f"--times={args.times}", f"--units={args.units}"]
    look += [f"--theme={name}" for name in [args.theme] if name]
    if args.config is False:
        look.append("--no-config")
    elif args.config is not None:
        look.append(f"--config={Path(args.config).resolve()}")
    paths = [f"--user-code={Path(path).resolve()}" for path in args.user_code]
    moment = [f"--at={args.at}"] if args.at is not None else []
    file = Path(args.file).resolve()
    command = own_command("open", str(file), "--read-only", *look, *paths, *moment)
    serve(command, f"heaptop: {file.name}", args.host or LOOPBACK, args.port or 0)
    return 0


def _port(text: str) -> int:
    value = int(text)  # argparse turns a ValueError into its own message
    if not 1 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 1 to 65535")
    return value
