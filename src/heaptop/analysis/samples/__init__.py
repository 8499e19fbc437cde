"""Sampled allocations: which live, which died, and estimates with intervals made of them.

Imports heap and text.
"""
