"""The real app in a terminal over a fake source: ``python -m tests.support.flooding FILE [TICKS]``.

The source says as much as is taken, without a rest; with ``TICKS`` so many, and then nothing more. How many censuses
the screen has taken in stands in FILE.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from heaptop.tui.app import make_app
from heaptop.tui.screens.live import LiveScreen
from tests.fakes.source import FakeSource

FIRST = 30


def main(told: Path, most: int) -> None:
    source = FakeSource()
    app = make_app(source)
    over = threading.Event()

    def live() -> LiveScreen | None:
        return next((screen for screen in app.screen_stack if isinstance(screen, LiveScreen)), None)

    def flood() -> None:
        while not over.is_set() and source._deliver is None:
            time.sleep(0.01)
        shown = live()
        assert shown is not None, "it has opened the source"
        session = shown.session
        session.clock = lambda: session.heard_at or 0.0  # it is not said for how long the source is silent
        source.attach()
        said = 0
        while not over.is_set():
            if source.behind() or said == most:
                time.sleep(0.002)
                continue
            source.tick(FIRST if not said else 1)
            said += FIRST if not said else 1
            told.write_text(str(session.censuses))

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        app.run()
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else -1)
