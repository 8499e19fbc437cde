"""``heaptop.toml``: what a person wants always, read and checked, and put where an option was not given.

What holds, from the strongest: NO_COLOR (for the theme), an option, HEAPTOP_THEME, the file, what is usual. The file
is that of ``--config FILE``, or HEAPTOP_CONFIG, or where platformdirs has it. This module never changes it, and never
loads a TOML reader where there is no file. A new setting is a line of :data:`SETTINGS`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from heaptop.choices import ADAPTIVE, THEMES, TIMES, UNITS
from heaptop.cli.options import FRAMES, core_share, frame_count, sample_rate, seconds
from heaptop.errors import ConfigError
from heaptop.toml_file import content_of, did_you_mean, parsed, written

NAME: Final = "heaptop.toml"
Reader = Callable[[Any], Any]
"""From what TOML has to what the option has. Raises ValueError or ArgumentTypeError, with what is allowed."""


class Setting(NamedTuple):
    """One line of the table: ``name`` is that of the setting, and of the option's value."""

    name: str
    read: Reader
    default: object  # The default, as the file would write it
    example: str
    about: str


class ConfigValue(NamedTuple):
    """One value of the file."""

    value: Any  # As the option has it
    said: Any  # As the file has it


def _one_of(*allowed: str) -> Reader:
    def read(value: Any) -> Any:
        if value not in allowed or not isinstance(value, str):
            raise ValueError(f"one of {', '.join(allowed)}")
        return value

    return read


def _truth(value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _number(by: Reader, allowed: str) -> Reader:
    """A number, read as the option reads its text."""

    def read(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(allowed)
        return by(f"{value!r}")

    return read


def _frames(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("a whole number of frames")
    return frame_count(str(value))


def _size(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError('samples per second such as "200/s", a size such as "64KiB", or "off"')
    return sample_rate(str(value))


def _paths(value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(path, str) and path for path in value):
        raise ValueError('an array of paths such as ["~/shop"]')
    return [os.path.expanduser(path) for path in value]


def _keys(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError('a table: [keys], with lines such as q = "ctrl+x"')
    return value


SETTINGS: Final = (
    Setting("theme", _one_of(*THEMES), THEMES[0], '"light"', f"the colours: {', '.join(THEMES)}"),
    Setting("ascii", _truth, False, "true", "draw with ASCII characters only"),
    Setting("units", _one_of(*UNITS), UNITS[0], '"decimal"', "bytes in KiB and MiB, or in kB and MB"),
    Setting("times", _one_of(*TIMES), TIMES[0], '"clock"', "times: since the attach, of day, or in UTC"),
    Setting(
        "interval",
        _number(seconds, "a number of seconds"),
        1.0,
        "2.0",
        "seconds between two censuses; record: 10, guard: 60",
    ),
    Setting("share", _number(core_share, "a percentage"), 5, "2", "the most CPU for censuses, in percent of a core"),
    Setting("rate", _size, f"{ADAPTIVE.target}/s", '"64KiB"', 'samples per second, a fixed interval in bytes, "off"'),
    Setting("depth", _frames, FRAMES, "64", "frames kept per call stack"),
    Setting("user_code", _paths, [], '["~/shop"]', "folders and files with your own code"),
    Setting("keys", _keys, {}, "", "other keys: the key on the help page, and the one to add"),
)
BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


class Config:
    """The content of one file, checked as a whole: every command that reads it reports a mistake anywhere in it."""

    def __init__(self, path: Path | None, given: Mapping[str, ConfigValue]) -> None:
        self.path = path
        self.given = given

    def __getitem__(self, name: str) -> Any:
        return self.given[name].value


NOTHING: Final = Config(None, {})


def default_path() -> Path:
    """The default path of the file."""
    import platformdirs

    return platformdirs.user_config_path("heaptop") / NAME


def load(asked: str | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """The file that is meant, if there is one; one that was named must be there.

    Raises:
        ConfigError: it cannot be read, or means nothing.
    """
    named = asked or environ.get("HEAPTOP_CONFIG")
    path = Path(named) if named else default_path()
    try:
        content = content_of(path)
    except OSError as error:
        if not named and isinstance(error, FileNotFoundError | NotADirectoryError):
            return NOTHING
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    return Config(path, _checked(path, content))


def _checked(path: Path, content: bytes) -> dict[str, ConfigValue]:
    given = {}
    for name, value in parsed(path, content).items():
        setting = BY_NAME.get(name)
        if setting is None:
            raise _wrong(f"{path}", f"unknown setting `{name}`{did_you_mean(name, list(BY_NAME))}", _SETTINGS_ARE)
        try:
            read = setting.read(value)
        except (ValueError, argparse.ArgumentTypeError) as error:
            raise _wrong(f"{path}", f"`{name}` cannot be {written(value)}", _allowed(error)) from None
        given[name] = ConfigValue(_checked_keys(path, value) if name == "keys" else read, value)
    return given


def _checked_keys(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    """For each key as the help page shows it, the keys that do the same."""
    from heaptop.tui.keys.remapping import WrongKey, check
    from heaptop.tui.views import SCREENS

    found = {}
    for shown, value in table.items():
        keys = [value] if isinstance(value, str) else value
        if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
            allowed = 'A key is written as "ctrl+x", "f5", "X", or an array of these.'
            raise _wrong(f"{path}, [keys]", f"`{shown}` is {written(value)}, which is not a key", allowed)
        found[shown] = tuple(keys)
    try:
        check(found, SCREENS)
    except WrongKey as error:
        raise _wrong(f"{path}, [keys], `{error.shown}`", error.said, error.allowed) from None
    return found


_SETTINGS_ARE: Final = f"Settings: {', '.join(BY_NAME)}."


def _allowed(error: Exception) -> str:
    text = str(error)
    return text + "." if " is not " in text else f"Use {text}."


def _wrong(where: str, said: str, allowed: str) -> ConfigError:
    stop = "" if said[-1] in "?." else "."
    return ConfigError(f"{where}: {said}{stop}", why=allowed)


# -- what it is for ----------------------------------------------------------------------------------------


def parse(
    parser: argparse.ArgumentParser, argv: Sequence[str], environ: Mapping[str, str] = os.environ
) -> argparse.Namespace:
    """The command line, with what the file says where an option was not given. ``from_config`` has the names of those.

    Raises:
        ConfigError: the file cannot be read, or means nothing.
    """
    args = parser.parse_args(argv)
    args.from_config = frozenset()
    if not hasattr(args, "config") or args.config is False:
        return args
    config = load(args.config, environ)
    names = [name for name in config.given if name in vars(args) or name == "keys"]
    if environ.get("HEAPTOP_THEME") and "theme" in names:
        names.remove("theme")
    if not names:
        return args
    # Parsed once more: an option that was not given stays None now, whatever it has for itself.
    args.subparser.set_defaults(**dict.fromkeys(names))
    given = vars(parser.parse_args(argv))
    taken = [name for name in names if given.get(name) is None]
    for name in taken:
        setattr(args, name, config[name])
    args.from_config = frozenset(taken)
    return args
