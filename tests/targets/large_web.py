"""As ``web``, in a process with 600,000 objects that stay, as an application of some size has."""

from web import app

__all__ = ["app"]

ROWS = [{"number": number, "text": str(number)} for number in range(200_000)]
