"""The file of ``heaptop serve --config FILE``: read and checked as a whole; an error names the key."""

from __future__ import annotations

import base64
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from heaptop import files
from heaptop.analysis.text.recorded_times import seconds_of
from heaptop.analysis.text.units import parse_size
from heaptop.choices import GUARD_ACTIONS, GUARD_QUOTA, LEAST_QUOTA
from heaptop.errors import ConfigError, UsageError
from heaptop.fleet.access import content_of, is_loopback, is_own, read_access
from heaptop.fleet.selection import MIN_AGE, MIN_RSS, SelectRule
from heaptop.fleet.sending import webhook_host
from heaptop.fleet.triggers import HOW, GuardRule, Trigger, parse_trigger
from heaptop.toml_file import LARGEST, did_you_mean, parsed, written

FIX: Final = "Correct the file. docs/fleet.md lists all keys."


@dataclass(frozen=True, slots=True)
class ServiceGuard:
    """One ``[[guard]]``: what is done in the processes of a service."""

    service: str  # Its name, or a pattern such as `shop-*`
    rule: GuardRule


@dataclass(frozen=True, slots=True)
class PushConfig:
    """The ``[push]`` table: where profiles are pushed to."""

    url: str  # Of a Pyroscope, without the path of its API
    interval: float = 60.0  # Seconds between two pushes
    authorization: str = ""  # The header of that name


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """All that a person decides about the host agent."""

    rules: tuple[SelectRule, ...] = ()
    limit: int = 50  # Attached processes
    interval: float = 60.0  # Seconds between two censuses of a process
    share: float = 0.01  # Of one core, that the censuses of one process may take
    budget: float = 0.5  # Of one core, that those of all processes together may take
    rate: int = 20  # Samples per second of each process; 0: none
    pause_budget: float = 0.05  # Seconds
    top: int = 20  # Types, and allocation sites, that each service has series of its own for
    hunt: float = 120.0  # Seconds of a leak hunt; 0: none
    hunt_cooldown: float = 3600.0  # Seconds from one leak hunt in a process to the next there
    guards: tuple[ServiceGuard, ...] = ()
    reports_dir: Path = Path()  # Of all guards; only where there are some
    reports_quota: int = GUARD_QUOTA
    push: PushConfig | None = None

    @property
    def most_attached(self) -> int:
        """As many as keep the budget when each takes its whole share."""
        return min(self.limit, int(self.budget / self.share + 1e-9))


def load(path: Path) -> FleetConfig:
    """The settings of the file.

    Raises:
        ConfigError: it cannot be read, others may change it, or a key or value of it is wrong.
    """
    content = content_of(path, LARGEST, FIX)
    try:
        return _config(path, parsed(path, content))
    except ConfigError as error:
        error.fix = FIX
        raise


def _config(path: Path, document: Mapping[str, Any]) -> FleetConfig:
    values = _read(f"{path}", {key: value for key, value in document.items() if key not in _TABLES}, _KEYS)
    rules = tuple(_rule(where, table) for where, table in _tables(path, document, "select"))
    guards = tuple(_guard(where, table) for where, table in _tables(path, document, "guard"))
    push = _push(f"{path}, [push]", document["push"]) if "push" in document else None
    config = FleetConfig(rules, guards=guards, push=push, **values)
    if not config.most_attached:
        raise ConfigError(
            f"{path}: `budget` is less than the `share` of one process, so that no process could be attached to."
        )
    if guards and "reports_dir" not in values:
        raise ConfigError(f"{path}: `[[guard]]` needs `reports_dir`, the folder for reports.")
    return config


def _tables(path: Path, document: Mapping[str, Any], name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each table of the array, and where it is."""
    tables = document.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{path}: `{name}` is {written(tables)}.", why=f"Write each rule as a table: [[{name}]].")
    return ((f"{path}, [[{name}]] {number}", table) for number, table in enumerate(tables, 1))


def _push(where: str, table: Any) -> PushConfig:
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: `push` is {written(table)}.", why="Write it as a table: [push].")
    values = _read(where, table, _PUSH_KEYS)
    if "url" not in values:
        raise ConfigError(f"{where}: `url` is missing.")
    authorization = values.pop("credentials", "")
    parts = urlsplit(values["url"])
    if authorization and parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ConfigError(f"{where}: the secret of `credentials` would be sent without encryption. Use https.")
    return PushConfig(authorization=authorization, **values)


def _guard(where: str, table: Mapping[str, Any]) -> ServiceGuard:
    values = _read(where, table, _GUARD_KEYS)
    for key in ("service", "when"):
        if key not in values:
            raise ConfigError(f"{where}: `{key}` is missing.")
    service, triggers, actions = values.pop("service"), values.pop("when"), values.pop("do", ())
    if ("alertmanager" in actions) != ("alertmanager" in values):
        raise ConfigError(f"{where}: the action `alertmanager` and the URL `alertmanager` need each other.")
    seconds = {"hunt_seconds": values.pop("for")} if "for" in values else {}
    hunts, records, dumps = (action in actions for action in ("hunt", "record", "dump"))
    rule = GuardRule(triggers, hunts=hunts, records=records, dumps=dumps, **seconds, **values)
    return ServiceGuard(service, rule)


def _rule(where: str, table: Mapping[str, Any]) -> SelectRule:
    values = _read(where, table, _RULE_KEYS)
    if not values.get("exclude"):
        values = {"min_rss": MIN_RSS, "min_age": MIN_AGE, **values}
    return SelectRule(**values)


def _read(where: str, table: Mapping[str, Any], keys: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    found = {}
    for key, value in table.items():
        if key not in keys:
            known = list(keys)
            raise ConfigError(
                f"{where}: unknown key `{key}`{did_you_mean(key, known)}".rstrip("?") + ".",
                why=f"Keys: {', '.join(known)}.",
            )
        try:
            found[key] = keys[key](value)
        except (ValueError, UsageError) as error:
            raise ConfigError(f"{where}: `{key}` cannot be {written(value)}.", why=f"Use {error}.") from None
    return found


# -- values: each function raises ValueError with what is allowed -----------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text that is not empty")
    return value


def _pattern(value: Any) -> re.Pattern[str]:
    text = _text(value)
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"a regular expression of Python: {error}") from None


def _container(value: Any) -> str:
    if re.fullmatch("[0-9a-f]{4,64}", _text(value)) is None:
        raise ValueError("the first 4 to 64 hexadecimal digits of a container's id")
    return _text(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _size(value: Any) -> int:
    allowed = 'bytes, or a size such as "50MB" or "1GiB"'
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(allowed)
    try:
        return parse_size(str(value))
    except UsageError:
        raise ValueError(allowed) from None


def _age(value: Any) -> float:
    allowed = 'seconds, or a time such as "90m"'
    if isinstance(value, str):
        seconds = seconds_of(value)
        if seconds is None:
            raise ValueError(allowed)
        return seconds
    return _number(0.0, float("inf"), allowed)(value)


def _number(least: float, most: float, allowed: str) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(allowed)
        return float(value)

    return read


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return read


def _part(most: float) -> Callable[[Any], float]:
    """A part of one core, from percent."""
    read = _number(0.01, most, f"percent of one core, from 0.01 to {most:g}")
    return lambda value: read(value) / 100


def _rate(value: Any) -> int:
    if value == "off":
        return 0
    found = re.fullmatch(r"(\d{1,4}) ?/ ?s", value, re.ASCII) if isinstance(value, str) else None
    if found is None or not 1 <= int(found[1]) <= 1000:
        raise ValueError('samples per second from "1/s" to "1000/s", or "off"')
    return int(found[1])


def _hunt(value: Any) -> float:
    allowed = 'a time of at least 8 s, such as "2m", or "off"'
    seconds = 0.0 if value == "off" else _age(value)
    if 0 < seconds < 8 or seconds > 86_400 or (not seconds and value != "off"):
        raise ValueError(allowed)
    return seconds


def _pause(value: Any) -> float:
    return _number(0.0, 60_000.0, "milliseconds, up to 60000")(value) / 1000


def _triggers(value: Any) -> tuple[Trigger, ...]:
    texts = value if isinstance(value, list) and value else [value]
    try:
        return tuple(parse_trigger(_text(text)) for text in texts)
    except UsageError:
        raise ValueError(f"a trigger, or an array of them. {HOW}") from None


def _actions(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(action in GUARD_ACTIONS for action in value):
        raise ValueError(f"an array of {', '.join(GUARD_ACTIONS)}")
    return tuple(value)


def _url(value: Any) -> str:
    try:
        webhook_host(_text(value))
    except ValueError as error:
        raise ValueError(f"a URL of http or https: {error}") from None
    return _text(value)


def _argv(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise ValueError("an array: the program and its arguments")
    return tuple(value)


def _quota(value: Any) -> int:
    if _size(value) < LEAST_QUOTA:
        raise ValueError("a size of 5MB or more")
    return _size(value)


def _folder(value: Any) -> Path:
    path = Path(_text(value))
    if not path.is_absolute():
        raise ValueError("an absolute path")
    try:
        _check_above(path)
        files.private_folder(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"a folder that only its owner can write to: {why}") from None
    return path


def _check_above(path: Path) -> None:
    """Raises PermissionError where another user may put something else in the place of a folder above. Those that are
    missing will be ours alone."""
    for above in filter(os.path.lexists, (*path.parents, *Path(os.path.realpath(path)).parents)):
        for status in (above.lstat(), above.stat()):
            is_shared = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
            if not is_own(status) or (is_shared and not stat.S_ISLNK(status.st_mode)):
                raise PermissionError(errno.EPERM, f"other users could exchange {above}")


def _authorization(value: Any) -> str:
    """The header for the first secret of the file."""
    try:
        access = read_access(Path(_text(value)))
    except UsageError as error:
        why = error.message[:1].lower() + error.message[1:].rstrip(".")
        raise ValueError(f"a file of secrets: {why}") from None
    if access.tokens:
        return f"Bearer {access.tokens[0].decode()}"
    return f"Basic {base64.b64encode(access.logins[0]).decode()}"


_TABLES: Final = ("select", "guard", "push")
_KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "limit": _whole(1, 1000),
    "interval": _number(1.0, 86_400.0, "seconds, from 1 to a day"),
    "share": _part(100.0),
    "budget": _part(100_000.0),
    "rate": _rate,
    "pause_budget": _pause,
    "top": _whole(1, 200),
    "hunt": _hunt,
    "hunt_cooldown": _age,
    "reports_dir": _folder,
    "reports_quota": _quota,
}
_RULE_KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": _text,
    "command": _pattern,
    "user": _text,
    "cgroup": _pattern,
    "unit": _text,
    "container": _container,
    "pod": _text,
    "min_rss": _size,
    "min_age": _age,
    "exclude": _truth,
}
_GUARD_KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "service": _text,
    "when": _triggers,
    "do": _actions,
    "for": _number(1.0, 3600.0, "seconds, from 1 to an hour"),
    "cooldown": _age,
    "at_most": _whole(1, 1_000_000),
    "webhook": _url,
    "alertmanager": _url,
    "command": _argv,
}
_PUSH_KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "url": _url,
    "interval": _number(5.0, 3600.0, "seconds, from 5 to an hour"),
    "credentials": _authorization,
}
