"""Names that do something to a terminal that shows them as they are, and what no output of heaptop may have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

NAMED: Final = "\x1b]52;c;aGk=\x07\x9b31m\r\u202e\u2066\u200b\n\x7f\U000e0001"
"""As in tests/targets/hostile/naming.py."""
SHOWN: Final = "52;c;aGk="
"""What stays of it."""
HARMFUL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters but for newline, what is invisible, what turns text around."""


def harmful(output: bytes) -> list[str]:
    """What of an output a terminal would act on, with what stands around it. Bytes that are no UTF-8 are such, too."""
    text = output.decode("utf-8", "surrogateescape")
    return [text[max(found.start() - 40, 0) : found.end() + 40] for found in HARMFUL.finditer(text)]


def harmful_json(document: bytes) -> list[str]:
    """The same of all strings in a JSON document, keys included: whoever prints one field would act on it."""
    return [text for text in _strings(json.loads(document)) if HARMFUL.search(text) or "\n" in text]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
