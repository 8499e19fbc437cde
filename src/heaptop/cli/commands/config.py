"""``heaptop config``: the file of settings, and what holds."""

from __future__ import annotations

import argparse
import os

from heaptop.cli.config_file import SETTINGS, Config, default_path, load
from heaptop.protocol.text import printable


class ConfigCommand:
    """Show the settings in effect, and where each is from: heaptop.toml, an environment variable, or the default.

    Each of these overrides the next: NO_COLOR, an option, HEAPTOP_THEME, the file, the default. HEAPTOP_CONFIG names
    another file, as --config does.

    heaptop config
    heaptop config --example > ~/.config/heaptop/heaptop.toml
    """

    name = "config"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--example", action="store_true", help="print a file with every setting, all commented out")
        parser.add_argument("--config", metavar="FILE", help="check this file")

    def run(self, args: argparse.Namespace) -> int:
        if args.example:
            print("\n".join(example()))
        else:
            print("\n".join(map(printable, _lines(load(args.config)))))
        return 0


def example() -> list[str]:
    """A file that changes nothing until a line of it is no comment any more."""
    lines = [
        "# heaptop.toml: defaults for heaptop; options on the command line override them. `heaptop config` shows "
        "its path",
        "# and the values in effect. Lines that begin with # are comments.",
    ]
    for setting in SETTINGS:
        if setting.name == "keys":
            continue
        about = f"# {setting.about} (default: {_written(setting.default)})"
        lines += ["", about, f"#{setting.name} = {setting.example}"]
    return [
        *lines,
        "",
        "# Other keys: on the left the key on the help page (?), on the right the key to add. The original key",
        "# still works unless another line reassigns it; Ctrl+C always quits.",
        "#[keys]",
        '#q = "ctrl+x"',
        '#"[" = ["F2", "<"]',
        '#"<" = "F3"',
    ]


def _lines(config: Config) -> list[str]:
    path = config.path or default_path()
    lines = [f"{path}" if config.path else f"{path} (not found)", ""]
    rows = [(setting.name, *_status(config, setting.name, setting.default)) for setting in SETTINGS]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, value, origin in rows:
        lines.append(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}")
    if os.environ.get("NO_COLOR"):
        lines += ["", "NO_COLOR is set: screens have no colours, whatever the theme is."]
    return lines


def _status(config: Config, name: str, default: object) -> tuple[str, str]:
    theme = os.environ.get("HEAPTOP_THEME")
    if name == "theme" and theme:
        return _written(theme), "HEAPTOP_THEME"
    given = config.given.get(name)
    return (_written(given.said), "the file") if given else (_written(default), "default")


def _written(value: object) -> str:
    """As TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_name(name)} = {_written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def _name(name: str) -> str:
    return name if name.isalnum() and name.isascii() else _written(name)
