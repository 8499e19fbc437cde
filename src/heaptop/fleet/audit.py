"""One line on stderr for each attach and detach, and for what went wrong: who, which process, when, by which way in."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import Final

from heaptop.injector.inspect.process import user_name
from heaptop.protocol.text import printable

LONGEST_VALUE: Final = 500  # Characters


def audit(event: str, **fields: str | int) -> None:
    """Write ``time=… event=… by=… key=value``. Who has called sudo is named beside the user. A log that cannot be
    written to ends nothing."""
    by = user_name(os.geteuid())
    caller = os.environ.get("SUDO_USER", "")
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    everything = {"event": event, "by": f"{caller} as {by}" if caller else by, **fields}
    line = " ".join([f"time={when}", *(f"{key}={_value(value)}" for key, value in everything.items())])
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def _value(value: str | int) -> str:
    """Quoted where it is more than one word."""
    text = printable(str(value), LONGEST_VALUE)
    return text if text and all(letter.isalnum() or letter in "._-/:" for letter in text) else json.dumps(text)
