"""Which functions allocated, directly and through what they call.

Imports bands and what is below them.
"""
