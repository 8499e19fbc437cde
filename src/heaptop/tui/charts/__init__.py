"""Pure functions from figures to rows of coloured text.

Imports no other room of tui.
"""
