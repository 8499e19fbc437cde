"""Whether a person uses the screen for the first time: a file in a folder of theirs, which is made once they have seen
the hint.

It is a courtesy: where the file cannot be looked for or made, nothing is said and nothing fails.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path


def mark() -> Path:
    """The file."""
    import platformdirs

    return platformdirs.user_state_path("heaptop") / "hint-seen"


def first_run(path: Path | None = None) -> Callable[[], None] | None:
    """What to call once the hint was seen; None where it was before, or where that cannot be remembered."""
    from heaptop import files

    file = path or mark()
    try:
        # A folder that nobody can write to would have the hint come back forever.
        files.private_folder(file.parent)
        is_known = file.exists() or not os.access(file.parent, os.W_OK)
    except OSError:
        return None
    return None if is_known else partial(_remember, file)


def _remember(file: Path) -> None:
    from heaptop import files

    with contextlib.suppress(OSError):
        os.close(files.create_new(str(file)))
