"""Makes the README's pictures from the real app over a real recording: ``make art``.

The sample program is started as a person would, and recorded by ``heaptop record``, leak hunt and all; the app opens
the recording without a terminal at the size of the pictures, and Textual writes what is on its screen as SVG. Nothing
in them is drawn by hand; only the fonts that an SVG would load from elsewhere are left out, and blocks are rectangles.
Of one recording the pictures are always the same: ``python art/picture.py FILE`` draws one that exists.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from heaptop.__main__ import main as heaptop
from heaptop.cli.commands.demo import PROGRAM
from heaptop.recordings.reader import Recording
from heaptop.recordings.replay import ReplaySource
from heaptop.tui.app import HeaptopApp, make_app

SIZE: Final = (110, 32)
SECONDS: Final = 45
"""That are recorded, and some more for the hunt: the sample's cache comes to rest in them, its leak never does."""
PICTURES: Final = {"bands": "1", "leaks": "4"}
"""Each is made by keys."""
BLOCKS: Final = "▁▂▃▄▅▆▇█"
WIDTH, HEIGHT, ABOVE = 12.2, 24.65, 18.5
"""Of a cell as Textual draws it, and of what is above its base line."""
DOCS: Final = Path(__file__).resolve().parent.parent / "docs"


@contextmanager
def sample() -> Iterator[int]:
    """``python webshop.py`` in its own folder, so that no path of this machine is in the pictures."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        ["python", PROGRAM.name, "--seed", "1", "--parent", str(os.getpid())],
        cwd=PROGRAM.parent,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def record(file: Path) -> None:
    with sample() as pid:
        often = ["--interval", "0.5", "--share", "50"]
        code = heaptop(["record", str(pid), "-o", str(file), "--for", str(SECONDS), "--marks", "3", *often])
    if code:
        sys.exit(code)


async def draw(file: Path) -> dict[str, str]:
    """The pictures, by name."""
    app = make_app(ReplaySource(Recording.open(str(file))), environ={})
    drawn: dict[str, str] = {}
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(2.0)
        for name, keys in PICTURES.items():
            await pilot.press(*keys)
            before = ""
            while (now := picture(app, file.name)) != before:  # until it is at rest
                before = now
                await pilot.pause(1.0)
            drawn[name] = now
        await pilot.press("q")
    return drawn


def picture(app: HeaptopApp, name: str) -> str:
    """The screen, without fonts from elsewhere, and with names that are the same each time."""
    drawn = app.export_screenshot(title=f"heaptop open {name}", simplify=True)
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"font-family: Fira Code", "font-family: Fira Code, Menlo, DejaVu Sans Mono", drawn)
    drawn = re.sub(r"terminal-\d+", "terminal", drawn)
    return re.sub(rf'<text (class="\S+") x="(\S+)" y="(\S+)" [^>]*>([{BLOCKS}]+)</text>', rectangles, drawn)


def rectangles(text: re.Match[str]) -> str:
    """Blocks as what they mean: in most fonts they leave gaps from line to line."""
    style, x, y, blocks = text[1], float(text[2]), float(text[3]), text[4]
    drawn = ""
    for run in re.finditer(r"(.)\1*", blocks):
        height = HEIGHT * (BLOCKS.index(run[1]) + 1) / len(BLOCKS)
        left, top = x + WIDTH * run.start(), y - ABOVE + HEIGHT - height
        place = f'x="{left:.1f}" y="{top:.2f}" width="{WIDTH * len(run[0]):.1f}" height="{height:.2f}"'
        drawn += f'<rect {style} {place} shape-rendering="crispEdges"/>'
    return drawn


def main() -> None:
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "webshop.heaptop"
        if len(sys.argv) == 1:
            record(file)
        for name, drawn in asyncio.run(draw(file)).items():
            path = DOCS / f"{name}.svg"
            path.write_text(drawn, encoding="utf-8")
            print(f"{path.name}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
