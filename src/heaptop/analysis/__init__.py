"""Figures from what was counted and sampled: history, bands, leaks, retainers. No I/O and no drawing.

Rooms, the upper import the lower: reports, leaks, callers | lifetimes | snapshot, bands, rss | filters, samples,
heap, text. All of them may import :mod:`heaptop.protocol`.
"""
