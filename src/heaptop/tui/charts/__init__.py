"""Pure functions from figures to rows of coloured text.

Of tui it imports text alone.
"""
