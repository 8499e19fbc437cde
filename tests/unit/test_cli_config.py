"""heaptop.toml: what it may say, what is said of a mistake in it and where, and what it gives way to."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heaptop.__main__ import main
from heaptop.choices import ADAPTIVE, NOT_SAMPLED, THEMES, SamplingRate
from heaptop.cli import COMMANDS, build_parser, options
from heaptop.cli.commands.config import example
from heaptop.cli.config_file import BY_NAME, NOTHING, SETTINGS, default_path, load, parse
from heaptop.errors import ConfigError
from heaptop.tui.charts.palette import DARK, PALETTES
from tests.support.doors import SEEN, Doors, ScriptedSource

WHOLE = """\
theme = "ansi"
ascii = true
units = "decimal"
times = "utc"
interval = 2
share = 2.5
rate = "512KiB"
depth = 64
user_code = ["/srv/shop", "~/other"]

[keys]
q = "ctrl+x"
"[" = ["F2", "<"]
"<" = "F3"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that HEAPTOP_CONFIG names; not there yet."""
    for name in ("HEAPTOP_THEME", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEAPTOP_CONFIG", str(tmp_path / "heaptop.toml"))
    return tmp_path / "heaptop.toml"


def parsed(*argv: str, **environ: str) -> argparse.Namespace:
    return parse(build_parser(), argv, {**os.environ, **environ})


# -- what it says --------------------------------------------------------------------------------------------


def test_every_setting_is_read(file: Path) -> None:
    file.write_text(WHOLE)
    config = load()
    assert config.path == file
    assert set(config.given) == set(BY_NAME)
    assert config["theme"] == "ansi"
    assert config["ascii"] is True
    assert config["interval"] == 2.0
    assert config["share"] == 0.025
    assert config["rate"] == SamplingRate(512 << 10)
    assert config["depth"] == 64
    assert config["user_code"] == ["/srv/shop", str(Path.home() / "other")]
    assert config["keys"] == {"q": ("ctrl+x",), "[": ("F2", "<"), "<": ("F3",)}


def test_sampling_can_be_off(file: Path) -> None:
    file.write_text('rate = "off"')
    assert load()["rate"] == NOT_SAMPLED


def test_without_a_file_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HEAPTOP_CONFIG")
    assert default_path() == tmp_path / "heaptop" / "heaptop.toml"
    assert load() is NOTHING
    (tmp_path / "heaptop").write_text("a file in the place of the folder")
    assert load() is NOTHING


def test_the_usual_place_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HEAPTOP_CONFIG")
    default_path().parent.mkdir()
    default_path().write_text("depth = 7")
    assert load()["depth"] == 7


def test_an_empty_file_says_nothing(file: Path) -> None:
    file.write_text("# only a remark\n")
    assert load().given == {}


# -- mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "allowed"),
    [
        ("depth = 1\nthema = 1", ": unknown setting `thema`; did you mean `theme`?", "Settings:"),
        ("user-code = []", ": unknown setting `user-code`; did you mean `user_code`?", "Settings:"),
        ("xyz = 1", ": unknown setting `xyz`.", "Settings:"),
        ("[xyz]\ntheme = 1", ": unknown setting `xyz`.", "Settings:"),
        ('theme = "nord"', ': `theme` cannot be "nord".', "Use one of dark, light, ansi, colour-blind,"),
        ("theme = 3", ": `theme` cannot be 3.", "Use one of dark,"),
        ("theme = []", ": `theme` cannot be an array.", "Use one of dark,"),
        ('\n\n  ascii = "yes"', ': `ascii` cannot be "yes".', "Use true or false."),
        ("ascii = 1", ": `ascii` cannot be 1.", "Use true or false."),
        ('units = "si"', ': `units` cannot be "si".', "Use one of binary, decimal."),
        ("interval = 0", ": `interval` cannot be 0.", "0 is not a number of seconds above 0"),
        ("interval = nan", ": `interval` cannot be nan.", "nan is not a number of seconds above 0"),
        ('interval = "1s"', ': `interval` cannot be "1s".', "Use a number of seconds."),
        ("interval = true", ": `interval` cannot be true.", "Use a number of seconds."),
        ("share = 101", ": `share` cannot be 101.", "101 is not a percentage from 0.01 to 100."),
        ('rate = "1B"', ': `rate` cannot be "1B".', "1B is not a size from 1KiB to 1GiB, samples as 200/s, or off."),
        ('rate = "0/s"', ': `rate` cannot be "0/s".', "0/s is not from 1/s to 5000/s."),
        ('rate = "fine"', ': `rate` cannot be "fine".', "'fine' is not a size."),
        ("rate = 0.5", ": `rate` cannot be 0.5.", "Use samples per second such as"),
        ("depth = 0", ": `depth` cannot be 0.", "0 is not a number of frames from 1 to 1024."),
        ("depth = 1.5", ": `depth` cannot be 1.5.", "Use a whole number of frames."),
        ('user_code = "x"', ': `user_code` cannot be "x".', "Use an array of paths"),
        ("user_code = [1]", ": `user_code` cannot be an array.", "Use an array of paths"),
        ('keys = "vi"', ': `keys` cannot be "vi".', "Use a table: [keys]"),
        ("[keys]\n\nq = 3", ", [keys]: `q` is 3, which is not a key.", "A key is written as"),
        ("[keys]\nq = []", ", [keys]: `q` is an array, which is not a key.", "A key is written as"),
        ('[keys]\nspace = "x"', ", [keys], `space`: the help page shows no key `space`; did you mean `Sp", "It shows"),
        ('keys = {r = "X",\tq = "hyper+x" }', ", [keys], `q`: `hyper+x` is not a key.", "A key is one character"),
        ("depth = 1\ntheme = nord\nascii = true", ", line 2, column 9: this is not TOML: ", ""),
        ("theme = 'dark'\ntheme = 'dark'\nascii = true", ", line 2, column 15: this is not TOML: ", ""),
        ("depth = 1\ntheme = [1,\n2\n", ", line 3: this is not TOML: ", ""),
        (f"depth = {'9' * 5000}", " cannot be read: a number in it has too many digits.", ""),
    ],
)
def test_a_mistake_is_said_with_its_key_and_what_is_allowed(file: Path, text: str, message: str, allowed: str) -> None:
    file.write_text(text)
    error = load_error(file)
    assert error is not None
    assert error.message.startswith(f"{file}{message}")
    assert error.why.startswith(allowed)
    assert "--no-config" in error.fix
    assert error.exit_code == 2


def load_error(file: Path) -> ConfigError | None:
    try:
        load(str(file))
    except ConfigError as error:
        return error
    return None


def test_bytes_that_are_no_text_have_a_line_too(file: Path) -> None:
    file.write_bytes(b'theme = "dark"\n# caf\xe9\n')
    error = load_error(file)
    assert error is not None
    assert error.message.startswith(f"{file}, line 2: invalid UTF-8")


def test_a_file_that_was_named_must_be_there(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load()
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(str(tmp_path))


def test_a_file_that_may_not_be_read_is_a_mistake(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load()


# -- what it gives way to ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["attach", "run", "demo", "pick"])
def test_screens_take_all_of_it(file: Path, command: str) -> None:
    file.write_text(WHOLE)
    target = {"attach": ["1"], "run": ["--", "x.py"]}.get(command, [])
    args = parsed(command, *target)
    assert (args.theme, args.ascii, args.units, args.times, args.interval) == ("ansi", True, "decimal", "utc", 2.0)
    assert (args.share, args.rate, args.depth) == (0.025, SamplingRate(512 << 10), 64)
    assert args.user_code == ["/srv/shop", str(Path.home() / "other")]
    assert args.keys["q"] == ("ctrl+x",)
    assert args.from_config == frozenset(BY_NAME)


def test_options_win_over_it(file: Path) -> None:
    file.write_text(WHOLE)
    argv = ["attach", "1", "--theme", "dark", "--no-ascii", "--units", "binary", "--interval", "1", "--share", "5"]
    args = parsed(*argv, "--times", "elapsed", "--rate", "64KiB", "--depth", "128", "--user-code", "x")
    assert (args.theme, args.ascii, args.units, args.interval) == ("dark", False, "binary", 1.0)
    assert (args.share, args.rate, args.depth, args.user_code) == (0.05, SamplingRate(64 << 10), 128, ["x"])
    assert args.from_config == {"keys"}


def test_what_the_file_leaves_out_is_as_without_it(file: Path) -> None:
    file.write_text("depth = 64")
    args, default = parsed("attach", "1"), build_parser().parse_args(["attach", "1"])
    assert args.depth == 64
    for name in BY_NAME.keys() - {"depth", "keys"}:
        assert getattr(args, name) == getattr(default, name)


def test_the_environments_theme_stands_between(file: Path) -> None:
    file.write_text('theme = "ansi"')
    assert parsed("demo").theme == "ansi"
    assert parsed("demo", HEAPTOP_THEME="light").theme is None  # the front end asks the environment itself
    assert parsed("demo", "--theme", "dark", HEAPTOP_THEME="light").theme == "dark"


def test_another_file_can_be_named_or_none(file: Path, tmp_path: Path) -> None:
    file.write_text("depth = 1")
    other = tmp_path / "other.toml"
    other.write_text("depth = 2")
    assert parsed("demo").depth == 1
    assert parsed("demo", "--config", str(other)).depth == 2
    assert parsed("demo", "--no-config").depth is None
    assert parsed("run", "--", "prog.py", "--no-config").depth == 1


@pytest.mark.parametrize("command", ["ps", "census", "why", "leaks", "record", "report", "diff", "export", "open"])
def test_others_take_what_they_have_options_for(file: Path, command: str) -> None:
    file.write_text(WHOLE)
    more = {"ps": [], "why": ["1", "T"], "export": ["f", "--to", "json"]}.get(command, ["1"])
    args = parsed(command, *more)
    known = vars(build_parser().parse_args([command, *more]))
    assert args.from_config == {name for name in BY_NAME if name in known} | {"keys"}


def test_a_mistake_stops_every_command_that_reads_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("depth = 0")
    assert main(["census", "1"]) == 2
    assert f"{file}: `depth` cannot be 0" in capsys.readouterr().err


def test_a_mistake_does_not_stop_what_needs_no_settings(file: Path) -> None:
    file.write_text("depth = 0")
    for argv in (["detach", "1"], ["doctor", "1"]):
        assert parsed(*argv).from_config == frozenset()


def test_a_census_is_not_made_to_sample_by_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(WHOLE)
    doors = Doors(monkeypatch)
    doors.source = ScriptedSource(SEEN)
    main(["census", "4711"])
    assert doors.calls[0][2].sample_interval == 0


def test_screens_get_the_keys(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(WHOLE)
    doors = Doors(monkeypatch)
    doors.source = ScriptedSource(SEEN)
    assert main(["attach", "4711"]) == 0
    assert doors.apps[0].options["keys"] == {"q": ("ctrl+x",), "[": ("F2", "<"), "<": ("F3",)}
    assert doors.apps[0].options["theme"] == "ansi"


# -- heaptop config ------------------------------------------------------------------------------------------


def test_it_says_what_holds_and_where_that_is_from(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text('interval = 2.5\n\n[keys]\nq = "X"\n"[" = ["f2", "\\\\"]\n')
    assert main(["config"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == str(file)
    rows = [" ".join(line.split()) for line in out.splitlines()[2:]]
    assert rows[0] == 'theme "dark" default'
    assert "interval 2.5 the file" in rows
    assert 'keys {q = "X", "[" = ["f2", "\\\\"]} the file' in rows


def test_it_says_what_the_environment_does(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text('theme = "ansi"')
    monkeypatch.setenv("HEAPTOP_THEME", "light")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["config"]) == 0
    out = capsys.readouterr().out
    assert 'theme "light" HEAPTOP_THEME' in " ".join(out.split())
    assert "NO_COLOR is set" in out


def test_the_example_changes_nothing_and_is_right_without_its_marks(file: Path) -> None:
    lines = example()
    file.write_text("\n".join(lines))
    assert load().given == {}
    file.write_text("\n".join(line[1:] if line[:1] == "#" and line[:2] != "# " else line for line in lines))
    assert set(load().given) == set(BY_NAME)


def test_the_table_says_what_is_usual() -> None:
    args = build_parser().parse_args(["attach", "1"])
    for setting in SETTINGS:
        read = setting.read(setting.default)
        if setting.name == "rate":
            assert read == ADAPTIVE
        elif setting.name == "depth":
            assert read == options.FRAMES
        elif setting.name == "theme":
            assert PALETTES[read] is DARK
        elif setting.name != "keys":
            assert read == getattr(args, setting.name)


def test_the_names_of_themes_are_those_of_the_front_end() -> None:
    assert tuple(PALETTES) == THEMES


def test_every_command_with_settings_can_name_a_file() -> None:
    for command in COMMANDS:
        parser = argparse.ArgumentParser()
        command.prepare_parser(parser)
        known = {name for name in BY_NAME if parser.get_default(name) is not None}
        whole = build_parser().format_help()
        assert command.name in whole
        if known:
            args = [command.name, "--no-config"]
            assert build_parser().parse_known_args([*args, *TARGETS.get(command.name, ["1"])])[0].config is False


TARGETS = {
    "why": ["1", "T"],
    "export": ["f", "--to", "json"],
    "run": ["--", "x"],
    "guard": ["1", "--when", "every 1h"],
    "ps": [],
    "demo": [],
    "pick": [],
}


def test_without_a_file_no_reader_of_toml_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from heaptop.cli import build_parser\n"
        "from heaptop.cli.config_file import parse\n"
        "parse(build_parser(), ['ps'])\n"
        "print(sorted({'tomllib', 'tomli', 'textual'} & set(sys.modules)))\n"
    )
    environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    del environ["HEAPTOP_CONFIG"]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert json.loads(done.stdout.replace("'", '"')) == []


@pytest.mark.parametrize("content", ["x = " + "[" * 100_000, "# " + "x" * (1 << 20)], ids=["deep", "large"])
def test_a_file_that_would_exhaust_its_reader_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "heaptop.toml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"heaptop\.toml"):
        load(str(path))


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        load("/dev/zero")
