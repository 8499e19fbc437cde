"""How ``--help`` is laid out: a command's docstring as paragraphs of the terminal's width, its examples as they are.

An example is a line of the docstring that begins with ``heaptop``. ``--help`` leaves out what is seldom needed
(:data:`ADVANCED`), ``--help-all`` shows it too.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Final

ALL: Final = "--help-all"
ADVANCED: Final = frozenset(
    {
        *("--no-ascii", "--timeout", "--depth", "--exact-sites", "--tracemalloc", "--mode", "--pause-budget"),
        *("--wait", "--allow-seccomp", "--override-remote-debug", "--allow"),
    }
)
"""Options that few need, of all commands."""

_EXAMPLE: Final = re.compile(r"\s*(?:nohup |sudo )?heaptop\b")


def is_example(line: str) -> bool:
    """Whether a line is one to type."""
    return _EXAMPLE.match(line) is not None


def add_help_all(parser: argparse.ArgumentParser, *, whole: bool) -> None:
    """Add ``--help-all``, and hide advanced options from the help unless ``whole``.

    A command without such options accepts it too, but does not list it.
    """
    advanced = [action for action in parser._actions if not ADVANCED.isdisjoint(action.option_strings)]
    text = "show all options, also those that are seldom needed" if advanced else argparse.SUPPRESS
    parser.add_argument(ALL, action="help", help=text)
    if not whole:
        for action in advanced:
            action.help = argparse.SUPPRESS


def list_of_commands(more: str) -> Callable[..., argparse.HelpFormatter]:
    """Return a formatter that starts a second list at the command named ``more``."""

    class ListHelp(argparse.HelpFormatter):
        def _format_action(self, action: argparse.Action) -> str:
            text = super()._format_action(action)
            return f"\n  more commands:\n{text}" if action.dest == more and not action.option_strings else text

    return ListHelp


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
