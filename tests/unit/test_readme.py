"""The README's tables are true: every command, every exit code, and no more."""

import re
from pathlib import Path

from heaptop.cli import COMMANDS
from heaptop.errors import UsageError, all_errors

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_error_with_a_code_of_its_own_is_in_the_table() -> None:
    table = {name: int(code) for code, name in re.findall(r"^\| (\d+) \| (\w+) \|", README, re.MULTILINE)}
    own = {error.__name__: error.exit_code for error in all_errors() if error.exit_code > UsageError.exit_code}
    shared = own.pop("FrameTooLarge")
    assert shared == table["ProtocolError"]
    assert table == own


def test_every_command_is_in_the_table() -> None:
    named = set(re.findall(r"`heaptop (\w+)", README))
    assert {command.name for command in COMMANDS} <= named


def test_the_targets_make_does_are_the_ones_named() -> None:
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    rules = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets
    assert targets <= rules
