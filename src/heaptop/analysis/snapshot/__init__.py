"""What a snapshot answers: retainers, paths, retained sizes, the heap map.

Imports bands and what is below them.
"""
