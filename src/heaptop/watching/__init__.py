"""Watches a source without a screen, from the attach to the detach: for a census, a snapshot, a leak hunt, a recording.

Nothing here parses a command line or prints: who watches passes a ``ProgressReport``.
"""
