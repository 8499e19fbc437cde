"""Requests to the helper process, and its reports: plain data, as JSON.

Nothing here acts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from heaptop import errors
from heaptop.errors import HeaptopError

BEGIN: Final = b"begin"  # heaptop's answer to `looked`: from now on the helper may stop and change the target


@dataclass(frozen=True, slots=True)
class AttachPlan:
    """All that was found out before the target is touched; addresses are the target's."""

    backend: str  # `ptrace` or `pep768`
    pid: int
    live_tid: int
    nspid: int
    uid: int  # With which the target accesses files, as with the group
    gid: int
    token: str
    functions: dict[str, int]
    add_pending_call: int
    syscall_instruction: int
    restorer: int
    seccomp: bool  # Whether there is a filter
    suspend_seccomp: bool  # Whether a filter may be read, and suspended for what it forbids
    owner_pid: int
    owner_start: int
    owner_namespace: int
    target_start: int
    image: str  # Of the program that the addresses are of: injector.inspect.process.image()
    wait: float  # Seconds for the interpreter to answer
    runtime: int  # Address of `_PyRuntime`
    version: tuple[int, int]
    override_remote_debug: bool
    musl: bool  # Whether the C library is musl, and not glibc

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> AttachPlan:
        raw: dict[str, Any] = json.loads(data)
        raw["version"] = tuple(raw["version"])
        return cls(**raw)


@dataclass(frozen=True, slots=True)
class HelperReport:
    """One message of the helper. ``event`` is ``waiting``, ``looked`` (it waits for :data:`BEGIN`), ``attached`` or
    ``error``."""

    event: str
    text: str = ""
    seconds: float = 0.0
    stopped_ns: int = 0
    picks: tuple[str, ...] = ()  # How the trigger was tried, in order: `thread 123 in futex`
    core_refusal: str = ""  # Why the native core may not be used in the target; empty when it may
    error: str = ""
    why: str = ""
    fix: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> HelperReport:
        raw: dict[str, Any] = json.loads(data)
        raw["picks"] = tuple(raw["picks"])
        return cls(**{field.name: raw[field.name] for field in fields(cls)})

    @classmethod
    def of_error(cls, error: HeaptopError) -> HelperReport:
        return cls("error", text=error.message, error=type(error).__name__, why=error.why, fix=error.fix)

    def to_error(self) -> HeaptopError:
        """The error as the class it was raised as."""
        by_name = {kind.__name__: kind for kind in errors.all_errors()}
        return by_name[self.error](self.text, why=self.why, fix=self.fix)
