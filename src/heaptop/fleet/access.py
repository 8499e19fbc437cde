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

from heaptop.errors import UsageError

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
        """The ``user:password`` of a request that a user may have sent; None for any other."""
        return _basic_login(header) if self.users else None

    def is_user(self, login: bytes) -> bool:
        """Whether there is such a user, whatever the password."""
        return login.partition(b":")[0].decode("utf-8", "replace") in self.users

    def hash_of(self, login: bytes) -> tuple[bytes, bytes]:
        """The password that was given, as far as bcrypt reads it, and the hash to compare it with: of a user that there
        is not the hash of some other, so that it takes as long. It must be one that there is, too (:meth:`is_user`)."""
        name, _, password = login.partition(b":")
        some = next(iter(self.users.values()))
        return password[:MOST_PASSWORD], self.users.get(name.decode("utf-8", "replace"), some)


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


def read_access(path: Path) -> Access:
    """The secrets of a file.

    Raises:
        UsageError: it cannot be read, others may read it, or a line of it means nothing.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(LARGEST).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", fix=_FIX) from None
    if mode & 0o077:
        raise UsageError(f"Other users may read or change {path} (mode {mode:o}).", fix=f"Run `chmod 600 {path}`.")
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
