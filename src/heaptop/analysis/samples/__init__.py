"""Sampled allocations: which live, which died, and estimates with intervals made of them; how long collections take.

Imports heap and text.
"""
