"""Who is visiting. The bug of this program is here: nobody enforces ``EXPIRES_AFTER``."""

from __future__ import annotations

import secrets
import time

from .models import AuditRecord, Session

EXPIRES_AFTER = 30 * 60.0  # Seconds without a request after which a session should be dropped

ACTIVE: dict[str, Session] = {}  # Every session by its token


def open_session(visitor: str) -> Session:
    """A new visitor's session, kept in :data:`ACTIVE` forever."""
    session = Session(token=secrets.token_hex(16), visitor=visitor, seen=time.time())
    ACTIVE[session.token] = session
    return session


def record(session: Session, action: str, path: str) -> None:
    """Write down what a visitor did."""
    session.seen = time.time()
    details = {
        "path": path,
        "agent": f"Mozilla/5.0 (X11; rv:{len(ACTIVE)})",
        "referrer": f"/from/{session.token}",
    }
    session.history.append(AuditRecord(session.seen, action, details))
