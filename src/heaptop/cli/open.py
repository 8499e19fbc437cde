"""``heaptop open``: the live screen over a recording."""

from __future__ import annotations

import argparse

from heaptop.cli.options import TIMES, add_look_options, add_recording, screen_options
from heaptop.cli.terminal import require_terminal


class Open:
    """Show a recording as if it were live, at any of its moments.

    It opens at its end, or at a moment: +90m (after the beginning), -1h (before the end), 02:13 (on the clock), or
    seconds. Keys , and . go one moment back and on, ( and ) a tenth of the recording.

    heaptop open night.heaptop
    heaptop open night.heaptop --at -1h
    """

    name = "open"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_recording(parser)
        parser.add_argument("--at", metavar="TIME", help=f"the moment to open at: {TIMES} (default: the end)")
        add_look_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.cli.recorded import moment_of
        from heaptop.recordings.player import PlayedSource
        from heaptop.recordings.reader import Recording
        from heaptop.tui.app import make_app

        with Recording.open(args.file) as recording:
            player, moment = PlayedSource(recording), moment_of(recording, args.at)
            require_terminal(f"have it told: `heaptop report {args.file}`")
            if moment is not None:
                player.seek(moment)
            try:
                error = make_app(player, **screen_options(args)).run()
            finally:
                player.close()
        if error is not None:
            raise error
        return 0
