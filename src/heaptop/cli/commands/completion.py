"""``heaptop completion``: what a shell needs to complete heaptop's command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

SHELLS: Final = ("bash", "zsh", "fish")


class Completion:
    """Print a script that completes heaptop's commands and options in bash, zsh or fish.

    bash reads it from ~/.local/share/bash-completion/completions/heaptop, fish from
    ~/.config/fish/completions/heaptop.fish, zsh from a file _heaptop in a folder of its $fpath.

    heaptop completion bash > ~/.local/share/bash-completion/completions/heaptop
    """

    name = "completion"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=SHELLS, help="the shell")

    def run(self, args: argparse.Namespace) -> int:
        import shtab

        from heaptop.cli import build_parser

        parser = build_parser()
        for action in _actions(parser):
            if action.metavar == "FILE":
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # read by shtab
        print(shtab.complete(parser, args.shell))
        return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Of a parser, and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
