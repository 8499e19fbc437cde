"""The place of the native core: its C sources stand here, and ``setup.py`` builds them as one optional extension.

There are none yet. An installation without the extension counts in Python mode.
"""
