"""The live screen without the screen: what it knows, and a controller for each thing that its keys control.

Imports the rest of state; no widget, view or screen. A controller's ``action_…`` methods are what keys do: each returns
the key's outcome, in words for the status line.
"""
