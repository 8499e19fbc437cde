"""The command line: one module per subcommand, and the registry of them.

This module never imports what a command needs to work, nor do the commands' modules at their top:
``heaptop --help`` answers before Textual would be loaded. A new command is a class like those in
``MORE``, in a module of its own, and one line here.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from textwrap import dedent
from typing import NoReturn, Protocol

from heaptop.cli.commands.attach import Attach
from heaptop.cli.commands.census import CensusCommand
from heaptop.cli.commands.completion import Completion
from heaptop.cli.commands.config import ConfigCommand
from heaptop.cli.commands.demo import Demo
from heaptop.cli.commands.detach import Detach
from heaptop.cli.commands.diff import Diff
from heaptop.cli.commands.doctor import Doctor
from heaptop.cli.commands.dump import DumpCommand
from heaptop.cli.commands.export import Export
from heaptop.cli.commands.guard import GuardCommand
from heaptop.cli.commands.leaks import Leaks
from heaptop.cli.commands.mcp import Mcp
from heaptop.cli.commands.open import Open
from heaptop.cli.commands.pick import Pick
from heaptop.cli.commands.ps import Ps
from heaptop.cli.commands.record import Record
from heaptop.cli.commands.redact import RedactCommand
from heaptop.cli.commands.report import Report
from heaptop.cli.commands.run import Run
from heaptop.cli.commands.serve import Serve
from heaptop.cli.commands.waste import WasteCommand
from heaptop.cli.commands.why import Why
from heaptop.cli.config_file import parse
from heaptop.cli.help import ALL, CommandHelp, add_help_all, list_of_commands
from heaptop.cli.options import add_config, offer_copy, report_cost, with_times, written_units
from heaptop.cli.terminal import clean
from heaptop.cli.version import Version
from heaptop.errors import HeaptopError


class Command(Protocol):
    """A subcommand. Its class docstring is its help: the first line in the list, all of it after --help. At its end
    stand examples, a line each."""

    name: str

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add its arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it, and return the exit code. Errors for a person are raised, as :class:`HeaptopError`."""


BASIC: tuple[Command, ...] = (Attach(), Leaks(), CensusCommand(), Record(), Open(), Report(), Ps(), Doctor(), Demo())
"""First in the list of commands."""
MORE: tuple[Command, ...] = (
    Run(),
    Why(),
    WasteCommand(),
    DumpCommand(),
    Diff(),
    RedactCommand(),
    Export(),
    Serve(),
    GuardCommand(),
    Mcp(),
    Detach(),
    Pick(),
    ConfigCommand(),
    Completion(),
)
COMMANDS = (*BASIC, *MORE)

_DESCRIPTION = "A live heap profiler for the terminal: attaches to running CPython processes."
_EPILOG = (
    "PID is a process id, or a name that matches exactly one Python process. `heaptop` alone lists the processes "
    "to choose from. `heaptop COMMAND --help` shows a command's options, `--help-all` all "
    "of them."
)


class Parser(argparse.ArgumentParser):
    """argparse's, whose complaints quote arguments as a terminal may have them. Subparsers are of this class too."""

    def error(self, message: str) -> NoReturn:
        # What argparse quotes there is the name of a function of ours.
        super().error(re.sub(r"(?<=: invalid )\w+ (?=value: )", "", clean(message)))


def build_parser(only: str = "", *, whole: bool = True) -> argparse.ArgumentParser:
    """The parser of the whole command line; ``args.command`` is the :class:`Command` chosen.

    Args:
        only: build the parser of this command only, which is faster; empty for all.
        whole: include advanced options in a command's help.
    """
    commands = [command for command in COMMANDS if command.name == only] or COMMANDS
    parser = Parser(
        prog="heaptop", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=list_of_commands(MORE[0].name)
    )
    parser.add_argument("--version", action=Version, help="show the version, and what heaptop runs on")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in commands:
        # Docstrings open on the first line and are indented from the second on; inspect.cleandoc is slow to load.
        first, _, rest = (type(command).__doc__ or "").partition("\n")
        help_text = f"{first}\n{dedent(rest)}".strip()
        subparser = subparsers.add_parser(
            command.name,
            help=first,
            description=help_text,
            formatter_class=CommandHelp,
        )
        command.prepare_parser(subparser)
        if any(subparser.get_default(name) is not None for name in ("units", "user_code")):
            add_config(subparser)
        add_help_all(subparser, whole=whole)
        subparser.set_defaults(command=command, subparser=subparser)
    return parser


def run(argv: Sequence[str], *, is_program: bool = False) -> int:
    """Run the command that ``argv`` (without the program's name) asks for, and return its exit code. ``is_program``:
    this process is for that command alone, so that its start was the command's."""
    # Without a command the rest are the picker's options: `heaptop --ascii` is `heaptop pick --ascii`.
    alone = not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help", "--version"))
    if alone:
        argv = [Pick.name, *argv]
    elif argv[0] != Run.name:  # the program's own arguments are left as they are
        argv = with_times(argv)
    args = parse(build_parser(argv[0], whole=ALL in argv), argv)
    args.is_program = is_program
    command: Command = args.command
    report_cost(args)
    try:
        with written_units(args):
            return command.run(args)
    except HeaptopError as error:
        offer_copy(args, error)
        raise
