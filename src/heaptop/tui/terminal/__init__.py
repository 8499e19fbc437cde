"""Everything that uses private names of Textual, and the line to the terminal.

Imports no other room of tui.
"""
