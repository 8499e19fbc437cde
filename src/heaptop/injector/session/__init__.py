"""The conversation with an agent, and when and how censuses are taken.

Imports backends and what is below them.
"""
