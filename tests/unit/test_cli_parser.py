"""The command line itself: what it accepts, what it says of itself, and what it must not load."""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import subprocess
import sys
from inspect import cleandoc
from pathlib import Path
from typing import NoReturn

import pytest
from argparse_manpage.manpage import Manpage  # type: ignore[import-untyped]

from heaptop import __version__
from heaptop.__main__ import main
from heaptop.analysis.filters.attributes import BAND_KEYS
from heaptop.choices import HUNTING
from heaptop.cli import COMMANDS, Command, build_parser, run
from heaptop.cli.commands.completion import SHELLS
from heaptop.cli.commands.run import Run, program_of
from heaptop.cli.help import ADVANCED, ALL, is_example
from heaptop.cli.options import with_times
from heaptop.errors import UsageError
from heaptop.injector import native

BY_NAME = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


def left_with(argv: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert isinstance(caught.value.code, int)
    return caught.value.code


@BY_NAME
def test_the_line_in_the_list_of_commands_is_a_whole_paragraph(command: Command) -> None:
    first, _, rest = (type(command).__doc__ or "").partition("\n")
    assert first.endswith(".")
    assert not rest.partition("\n")[0].strip(), "it goes on in the next line, which the list does not have"


@pytest.mark.parametrize("argv", [["census", "--top", "x"], ["leaks", "--for", "x"], ["why", "--retainers", "x"]])
def test_a_wrong_value_is_reported_without_the_name_of_a_function(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert left_with(argv) == 2
    assert f"argument {argv[1]}: invalid value: 'x'" in capsys.readouterr().err


def test_the_help_of_leaks_has_the_sampling_rate_of_a_hunt(capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with(["leaks", "--help"]) == 0
    assert f"(default {HUNTING.target}/s)" in " ".join(capsys.readouterr().out.split())


@BY_NAME
def test_a_commands_docstring_is_its_help(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with([command.name, "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    for paragraph in cleandoc(type(command).__doc__ or "").split("\n\n"):
        assert " ".join(paragraph.split()) in words


@BY_NAME
def test_a_command_has_examples_that_can_be_typed(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with([command.name, "--help"]) == 0
    out = capsys.readouterr().out
    _, found, after = out.partition("example")
    assert found
    lines = [line.strip() for line in after.splitlines()[1:] if is_example(line)]
    assert any(line.startswith(f"heaptop {command.name}") for line in lines)
    assert all(line in out for line in lines)
    for line in lines:
        words = shlex.split(line, comments=True)
        ends = [at for at, word in enumerate(words) if word in (">", "|", "&")]
        argv = words[words.index("heaptop") + 1 : min(ends, default=len(words))]
        args = build_parser().parse_args(with_times(argv))
        assert args.command.name == command.name, line


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("command", [None, *COMMANDS], ids=lambda command: command.name if command else "heaptop")
def test_help_fits_the_terminal(
    command: Command | None, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert left_with([command.name, "--help"] if command else ["--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > columns] == []


@BY_NAME
def test_the_list_of_commands_names_it(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with(["--help"]) == 0
    assert re.search(rf"\n    {command.name}\s", capsys.readouterr().out)


@pytest.mark.parametrize("words", [["--", "p.py"], ["p.py"], ["-m", "shop"]])
def test_arguments_of_a_program_that_is_run_are_its_own(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program: list[str] = []
    monkeypatch.setattr(Run, "run", lambda _, args: program.extend(program_of(args)) or 0)
    assert run(["run", *words, "--at", "-1h", "--to", "-5"]) == 0
    assert program == [*(word for word in words if word != "--"), "--at", "-1h", "--to", "-5"]


def test_names_are_unique() -> None:
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)


def test_version_says_what_a_report_of_a_bug_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert left_with(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"heaptop {__version__}"
    assert lines[1].startswith("native core: build ")
    assert platform.python_version() in lines[2]
    assert re.search(r"textual \d+\.\d+.*; recordings are compressed with zstd$", lines[3])

    def missing() -> NoReturn:
        raise native.NoCore("no native core: heaptop was installed without it")

    monkeypatch.setattr(native, "library", missing)
    assert left_with(["--version"]) == 0
    assert "no native core: heaptop was installed without it: censuses run in Python mode" in capsys.readouterr().out


@BY_NAME
def test_the_help_of_a_command_without_for_does_not_mention_it(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert left_with([command.name, ALL]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert ("in addition to --for" in told) <= ("--for" in told.replace("in addition to --for", ""))


@BY_NAME
def test_help_leaves_out_what_few_need_and_help_all_does_not(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert left_with([command.name, "--help"]) == 0
    basic = options_in(capsys.readouterr().out)
    assert not basic & ADVANCED
    assert left_with([command.name, ALL]) == 0
    whole = options_in(capsys.readouterr().out)
    assert whole & ADVANCED if ALL in basic else whole == basic


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def test_what_is_advanced_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            build_parser(command.name).parse_args([command.name, "--help"])
    assert options_in(capsys.readouterr().out) >= ADVANCED


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_the_completion_and_knows_every_command(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command.name in script for command in COMMANDS)
    assert "fail-on-leak" in script
    if shutil.which(shell):
        written = tmp_path / "completion"
        written.write_text(script)
        subprocess.run([shell, "-n", written], check=True)


def test_the_manual_page_has_every_command() -> None:
    page = str(Manpage(build_parser()))
    assert all(f"heaptop {command.name}" in page.replace("\\-", "-") for command in COMMANDS)
    lost = [line for line in page.splitlines() if line.startswith("'")]
    assert not lost, "to man a line that begins with a quote is a command"


@pytest.mark.parametrize(
    "argv",
    [
        ["frobnicate"],
        ["attach"],
        ["attach", "--children"],
        ["census", "1", "2"],
        ["attach", "1", "--interval", "0"],
        ["attach", "1", "--wait", "nan"],
        ["attach", "1", "--wait", "soon"],
        ["census", "1", "--top", "-1"],
        ["ps", "--jsn"],
        ["--frobnicate"],
    ],
)
def test_a_wrong_command_line_is_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with(argv) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "usage: heaptop" in said.err


@pytest.mark.parametrize("name", ["attach", "run", "demo", "pick"])
def test_the_screens_options_are_the_same_everywhere(name: str) -> None:
    target = {"attach": ["1"], "run": ["--", "x.py"]}.get(name, [])
    options = ["--ascii", "--theme", "dark", "--interval", "2", "--wait", "3", "--allow-seccomp"]
    args = build_parser().parse_args([name, *options, "--override-remote-debug", *target])
    assert (args.ascii, args.theme, args.interval, args.wait) == (True, "dark", 2.0, 3.0)
    assert args.allow_seccomp
    assert args.override_remote_debug


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["--", "prog.py", "-a", "--json"], ["prog.py", "-a", "--json"]),
        (["prog.py", "--wait", "x"], ["prog.py", "--wait", "x"]),
        (["--", "-m", "mod", "--output", "f"], ["-m", "mod", "--output", "f"]),
        (["-m", "mod", "-v"], ["-m", "mod", "-v"]),
        (["--wait", "5", "-m", "mod", "--wait", "6"], ["-m", "mod", "--wait", "6"]),
        (["--wait", "5", "--", "prog.py", "--", "x"], ["prog.py", "--", "x"]),
    ],
)
def test_everything_behind_the_program_is_the_programs(argv: list[str], program: list[str]) -> None:
    assert program_of(build_parser().parse_args(["run", *argv])) == program


@pytest.mark.parametrize("argv", [[], ["--"], ["--", "-m"], ["-m"], ["--", "-u", "prog.py"]])
def test_run_needs_a_program(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        program_of(build_parser().parse_args(["run", *argv]))


def test_every_band_key_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with(["census", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(key in out for key in BAND_KEYS)


def test_help_does_not_load_what_is_slow() -> None:
    code = (
        "import sys\n"
        "from heaptop.__main__ import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "slow = {'textual', 'rich', 'psutil', 'msgpack', 'platformdirs', 'asyncio', 'dataclasses'}\n"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
