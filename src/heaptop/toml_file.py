"""Files in TOML that a person writes: read with a limit, and refused with the place of the mistake."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from heaptop.errors import ConfigError

LARGEST: Final = 1 << 20  # Bytes of the file: a device has no end


def content_of(path: Path) -> bytes:
    """All of the file. Raises OSError, and ConfigError where it is too large to be one."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ConfigError(f"{path} is larger than {LARGEST >> 20} MiB: not a settings file.")
    return content


def parsed(path: Path, content: bytes) -> dict[str, Any]:
    """The document. Raises ConfigError, which names the line."""
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - only where there is a file: `heaptop --help` must be quick
    else:
        import tomli as tomllib  # noqa: PLC0415
    text = _decoded(path, content)
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path} cannot be read: its arrays are nested too deep.") from None
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", said, re.DOTALL)
        what = found[1] if found else said
        line, column = (found[2], found[3]) if found and found[2] else (text.rstrip("\n").count("\n") + 1, None)
        where = f"line {line}" + (f", column {column}" if column else "")
        raise ConfigError(f"{path}, {where}: this is not TOML: {what[:1].lower()}{what[1:]}.") from None
    except ValueError:  # of int: TOML itself has no limit
        raise ConfigError(f"{path} cannot be read: a number in it has too many digits.") from None
    return document


def written(value: Any) -> str:
    """A value as the file has it, about."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else f'"{value[:39]}…"'
    return "a table" if isinstance(value, dict) else "an array" if isinstance(value, list) else f"{value}"[:40]


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """``; did you mean `theme`?`` for a key that is nearly one of these; else empty."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to load, and only a mistake needs it

    near = get_close_matches(name.lower().replace("-", "_"), known, 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: invalid UTF-8 (TOML is UTF-8).") from None
