"""Filters: their grammar, and what they select.

Imports samples, heap and text.
"""
