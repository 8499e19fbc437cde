"""Makes the README's picture from the real app on a real target: ``make art``.

The sample program is started as a person would, and attached to; the app runs without a terminal at the size of the
picture, and Textual writes what is on its screen as SVG. Nothing in it is drawn by hand; only the fonts that the SVG
would load from elsewhere are left out.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heaptop.cli.demo import PROGRAM
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.tui.app import make_app

SIZE = (110, 32)
SECONDS = 40
OUTPUT = Path(__file__).resolve().parent.parent / "docs" / "bands.svg"


@contextmanager
def sample() -> Iterator[int]:
    """``python webshop.py`` in its own folder, so that no path of this machine is in the picture."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        ["python", PROGRAM.name, "--parent", str(os.getpid())],
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


async def draw(seconds: float) -> str:
    with sample() as pid:
        app = make_app(attach_source(pid, AttachOptions()), environ={})
        async with app.run_test(size=SIZE) as pilot:
            await asyncio.sleep(seconds)
            await pilot.pause()
            picture = app.export_screenshot(title="heaptop attach webshop", simplify=True)
            await pilot.press("q")
            await asyncio.sleep(1)
    return without_fonts(picture)


def without_fonts(picture: str) -> str:
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    return re.sub(r"font-family: Fira Code", "font-family: Fira Code, Menlo, DejaVu Sans Mono", picture)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    OUTPUT.write_text(asyncio.run(draw(seconds)), encoding="utf-8")
    print(f"{OUTPUT.name}: {OUTPUT.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
