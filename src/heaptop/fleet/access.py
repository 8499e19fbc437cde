"""Who may read what the host agent serves: everybody on this machine, or who knows a secret out of a file."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from heaptop import files
from heaptop.errors import ConfigError, UsageError

LARGEST: Final = 1 << 16  # Bytes of the file
SHORTEST: Final = 16  # Characters of a secret: others can try as often as they like
_FIX: Final = "Write lines such as `bearer TOKEN` or `basic USER:PASSWORD` into it, and run `chmod 600` on it."


MOST_PASSWORD: Final = 72  # Bytes of a password that bcrypt reads


@dataclass(frozen=True, slots=True)
class Access:
    """The secrets that let a request in."""

    tokens: tuple[bytes, ...] = ()
    logins: tuple[bytes, ...] = ()  # `user:password`
    users: Mapping[str, bytes] = field(default_factory=dict)
    """By name, hashes of passwords: to check one takes long, by intention."""

    @property
    def is_open(self) -> bool:
        """Whether no secret is asked for."""
        return not self.tokens and not self.logins and not self.users

    def allows(self, header: str) -> bool:
        """By the request's ``Authorization`` header; in a time that does not depend on the secrets. Users are not asked
        for: see :meth:`user_login`."""
        if self.is_open:
            return True
        scheme, _, rest = header.partition(" ")
        given = rest.strip().encode("utf-8", "replace")
        if scheme.lower() == "bearer":
            return _is_one_of(given, self.tokens)
        login = _basic_login(header)
        return login is not None and _is_one_of(login, self.logins)

    def user_login(self, header: str) -> bytes | None:
        """The ``user:password`` of a request that a user may have sent, as far as bcrypt reads it, or None."""
        login = _basic_login(header) if self.users else None
        return None if login is None else login[: login.find(b":") + 1 + MOST_PASSWORD]

    def is_user(self, login: bytes) -> bool:
        """Whether there is such a user, whatever the password."""
        return login.partition(b":")[0].decode("utf-8", "replace") in self.users

    def hash_of(self, login: bytes) -> tuple[bytes, bytes]:
        """The password that was given, and the hash to compare it with: of a user that there is not the hash of some
        other, so that it takes as long. It must be one that there is, too (:meth:`is_user`)."""
        name, _, password = login.partition(b":")
        some = next(iter(self.users.values()))
        return password, self.users.get(name.decode("utf-8", "replace"), some)


def _basic_login(header: str) -> bytes | None:
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(rest.strip().encode("utf-8", "replace"), validate=True)
    except binascii.Error:
        return None


def _is_one_of(given: bytes, secrets: tuple[bytes, ...]) -> bool:
    return sum(hmac.compare_digest(given, secret) for secret in secrets) > 0


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises OSError, of which ``socket.gaierror`` is for a host that there is not."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "invalid host name") from None
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


def content_of(path: Path, most: int, fix: str, *, is_secret: bool = False) -> bytes:
    """A file that decides what heaptop does, often as root: nobody else may change it, nor read it where it
    ``is_secret``. It may be behind a link, as a secret that is mounted in a pod is.

    Raises:
        ConfigError: with ``fix`` where it cannot be read, is no regular file or is too large.
    """
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"{path} is not a regular file.", fix=fix)
            check_owner(path, status, is_secret=is_secret)
            content = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", fix=fix) from None
    if len(content) > most:
        raise ConfigError(f"{path} is larger than {most >> 10} KiB.", fix=fix)
    return content


def is_own(status: os.stat_result) -> bool:
    """Whether a file is our own, root's, or that of who called sudo."""
    caller = files.sudo_caller()
    return status.st_uid in (0, os.geteuid(), *(caller[:1] if caller is not None else ()))


def check_owner(path: Path, status: os.stat_result, *, is_secret: bool) -> None:
    """Raises ConfigError where the file is another user's, or its mode lets others change or read it."""
    if not is_own(status):
        raise ConfigError(f"{path} belongs to another user.", fix="Make it your own, or root's.")
    mode = stat.S_IMODE(status.st_mode)
    if mode & (0o077 if is_secret else 0o022):
        what, without = ("read or change", "rwx") if is_secret else ("change", "w")
        raise ConfigError(f"Other users may {what} {path} (mode {mode:o}).", fix=f"Run `chmod go-{without} {path}`.")


def read_access(path: Path) -> Access:
    """The secrets of a file.

    Raises:
        UsageError: it cannot be read, others may read or change it, or a line of it means nothing.
    """
    content = content_of(path, LARGEST, _FIX, is_secret=True).decode("utf-8", "replace")
    tokens: list[bytes] = []
    logins: list[bytes] = []
    for number, line in enumerate(content.splitlines(), 1):
        kind, _, secret = line.strip().partition(" ")
        secret = secret.strip()
        if not kind or kind.startswith("#"):
            continue
        password = secret.partition(":")[2] if kind == "basic" else secret
        if kind not in ("bearer", "basic") or len(password) < SHORTEST:
            raise UsageError(
                f"{path}, line {number}: neither `bearer TOKEN` nor `basic USER:PASSWORD` with a secret of at least "
                f"{SHORTEST} characters.",
                fix=_FIX,
            )
        (tokens if kind == "bearer" else logins).append(secret.encode())
    if not tokens and not logins:
        raise UsageError(f"{path} contains no secret.", fix=_FIX)
    return Access(tuple(tokens), tuple(logins))
