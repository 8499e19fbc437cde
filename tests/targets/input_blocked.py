"""Main waits in ``input()`` on a pipe that nobody writes to."""

from steady import ready, say

ready()
say(f"EARLY {input()!r}")
