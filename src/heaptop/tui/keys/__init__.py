"""The table of keys, its remapping, and the texts made of it.

Imports charts at most.
"""
