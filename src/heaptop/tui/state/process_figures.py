"""One of several processes that are attached to, as a row of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from heaptop.tui.state.session import AttachPhase, AttachSession

WORDS: Final = {
    AttachPhase.WAITING: "waiting",
    AttachPhase.LIVE: "live",
    AttachPhase.EXITED: "exited",
    AttachPhase.ENDED: "detached",
    AttachPhase.FAILED: "not attached",
}


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """What is known of it at this moment; None for what is not known yet."""

    tab: int
    pid: int
    name: str
    state: str  # The state of its attach, and the reason where it failed
    objects: int | None
    bytes: int | None  # Of its live heap, at its last census
    change: int | None  # Bytes since its first census
    change_ns: int  # How long before the last one that was
    rss: int | None
    sizes: tuple[int, ...]  # Of the live heap, at its last censuses

    @classmethod
    def of(cls, tab: int, name: str, session: AttachSession) -> ProcessFigures:
        records = session.history.records
        last = records[-1].total if records else None
        return cls(
            tab=tab,
            pid=session.target.pid,
            name=name,
            state=_state(session),
            objects=last.count if last is not None else None,
            bytes=last.bytes if last is not None else None,
            change=last.bytes - records[0].total.bytes if last is not None else None,
            change_ns=records[-1].time_ns - records[0].time_ns if records else 0,
            rss=session.tick.rss if session.tick is not None else None,
            sizes=tuple(record.total.bytes for record in records[-16:]),
        )


def _state(session: AttachSession) -> str:
    if session.phase is AttachPhase.LIVE and session.decision is not None:
        return "asks a question"
    if session.phase is not AttachPhase.FAILED or session.error is None:
        return WORDS[session.phase]
    return f"{'not attached' if session.attached is None else 'agent lost'}: {session.error.message}"
