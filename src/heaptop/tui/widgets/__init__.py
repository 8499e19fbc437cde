"""Widgets that know nothing of views.

Imports state, charts, keys and terminal.
"""
