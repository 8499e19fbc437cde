"""The backends, behind one protocol, in one registry: the first that does not refuse is taken.

Adding one is a file here with a class like :class:`Backend`, and its line in ``backends.registry``.
Nothing in this module acts.
"""

from __future__ import annotations

from typing import Protocol

from heaptop.errors import HeaptopError
from heaptop.injector.requests import Connection, Request


class Backend(Protocol):
    """One way into a target."""

    @property
    def name(self) -> str: ...

    def refusal(self, request: Request) -> HeaptopError | None:
        """Why this backend cannot serve the request, judged from outside; None when it can."""

    def connect(self, request: Request) -> Connection:
        """Go through it. Raises HeaptopError; whatever was begun in the target is undone then."""
