"""The file of ``heaptop serve --web-config FILE``: a certificate and users, in the format of Prometheus's exporters
(exporter-toolkit, ``docs/web-configuration.md``), as far as heaptop does what it asks for. Anything else is an error.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import bcrypt
import yaml

from heaptop.errors import ConfigError
from heaptop.fleet.access import check_owner, content_of
from heaptop.toml_file import did_you_mean, written

LARGEST: Final = 1 << 16  # Bytes of the file
MOST_USERS: Final = 100
DEAREST: Final = 14  # The cost of a bcrypt hash: each one more takes twice the time, with 14 about a second
VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_KEYS: Final = ("tls_server_config", "basic_auth_users")
_TLS_KEYS: Final = ("cert_file", "key_file", "min_version")
_HASH: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_FIX: Final = "Correct the file. docs/fleet.md lists all keys."


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate with its key, and the lowest version of TLS."""

    certificate: Path
    key: Path
    version: ssl.TLSVersion

    def context(self) -> ssl.SSLContext:
        """For a server. Raises ConfigError."""
        try:
            check_owner(self.key, os.stat(self.key), is_secret=True)
        except OSError as error:
            raise ConfigError(f"{self.key} cannot be read: {error.strerror}.", fix=_FIX) from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self.version
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")  # nobody is asked for one
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            text = f"The certificate {self.certificate} with the key {self.key} cannot be used: {why}."
            raise ConfigError(text, why="Both are in PEM, and the key is not encrypted.", fix=_FIX) from None


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What the file asks for."""

    tls: TlsFiles | None = None
    users: Mapping[str, bytes] = field(default_factory=dict)  # Hashes of their passwords, by name


def is_password(password: bytes, hashed: bytes) -> bool:
    """Whether it is the hash of that password; takes as long as its cost demands."""
    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:  # longer than bcrypt reads, or with a zero byte
        return False


def read_web_config(path: Path) -> WebConfig:
    """What a file asks for.

    Raises:
        ConfigError: it cannot be read, others may change it, or a key or value of it is not supported.
    """
    content = content_of(path, LARGEST, _FIX)
    try:
        document = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{where}: this is not YAML.", fix=_FIX) from None
    table = _table(f"{path}", {} if document is None else document, _KEYS)
    tls = table.get("tls_server_config")
    users = table.get("basic_auth_users")
    return WebConfig(
        None if tls is None else _tls(path, tls),
        {} if users is None else _users(f"{path}, basic_auth_users", users),
    )


def _tls(path: Path, value: Any) -> TlsFiles:
    where = f"{path}, tls_server_config"
    table = _table(where, value, _TLS_KEYS)
    certificate, key = (_file(where, path.parent, table, name) for name in ("cert_file", "key_file"))
    version = table.get("min_version", "TLS12")
    if not isinstance(version, str) or version not in VERSIONS:
        text = f"{where}: `min_version` cannot be {written(version)}."
        raise ConfigError(text, why=f"Use one of {', '.join(VERSIONS)}.", fix=_FIX)
    return TlsFiles(certificate, key, VERSIONS[version])


def _file(where: str, folder: Path, table: Mapping[str, Any], key: str) -> Path:
    """A path is relative to the folder of the file that has it."""
    name = table.get(key)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{where}: `{key}` must be the path of a file.", fix=_FIX)
    return folder / name


def _users(where: str, value: Any) -> dict[str, bytes]:
    if not isinstance(value, dict) or len(value) > MOST_USERS:
        raise ConfigError(f"{where} must be a table of at most {MOST_USERS} users.", fix=_FIX)
    found = {}
    for name, hashed in value.items():
        if not isinstance(name, str) or not name or ":" in name:
            raise ConfigError(f"{where}: {written(name)} cannot be the name of a user.", fix=_FIX)
        fits = _HASH.fullmatch(hashed) if isinstance(hashed, str) else None
        if fits is None or not 4 <= int(fits[1]) <= DEAREST:
            raise ConfigError(
                f"{where}: the password of {written(name)} is not a bcrypt hash with a cost of at most {DEAREST}.",
                fix="Make one with `htpasswd -nBC 10 USER`.",
            )
        found[name] = hashed.encode()
    return found


def _table(where: str, value: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table.", fix=_FIX)
    for key in value:
        if key not in keys:
            hint = did_you_mean(f"{key}", keys).rstrip("?")
            text = f"{where}: the key `{written(key)}` is not supported{hint}.".replace('`"', "`").replace('"`', "`")
            raise ConfigError(text, why=f"Keys: {', '.join(keys)}.", fix=_FIX)
    return value

