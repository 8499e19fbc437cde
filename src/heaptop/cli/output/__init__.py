"""Tables and text on stdout.

Imports what takes the figures; no command.
"""
