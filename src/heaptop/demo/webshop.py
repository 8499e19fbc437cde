"""Starts the sample shop by its file, so that its types read ``shop.models.Session``, as one's own would.

This file never does the work: running it puts its folder on ``sys.path``, and the package beside it does the
rest.
"""

from importlib import import_module

if __name__ == "__main__":
    import_module("shop.server").main()
