"""How ``--help`` is laid out: a command's docstring as paragraphs of the terminal's width, its examples as they are.

This module never knows a command: an example is a line of the docstring that begins with ``heaptop``.
"""

from __future__ import annotations

import argparse
import re
from typing import Final

_EXAMPLE: Final = re.compile(r"\s*(?:nohup |sudo )?heaptop\b")


def is_example(line: str) -> bool:
    """Whether a line is one to type."""
    return _EXAMPLE.match(line) is not None


class CommandHelp(argparse.HelpFormatter):
    """argparse's, but that a description keeps its paragraphs, and shows its examples under a heading."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts: list[str] = []
        for paragraph in re.split(r"\n\s*\n", text.strip()):
            lines = paragraph.splitlines()
            if all(map(is_example, lines)):
                heading = "example:" if len(lines) == 1 else "examples:"
                parts.append("\n".join([heading, *(f"  {line.strip()}" for line in lines)]))
            else:
                parts.append(super()._fill_text(paragraph, width, indent))
        return "\n\n".join(parts)
