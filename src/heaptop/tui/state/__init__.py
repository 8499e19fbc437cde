"""What the front end knows and does apart from drawing: sessions, the snapshot client, hunts, prompts.

Imports charts, keys and terminal; no widget, view or screen.
"""
