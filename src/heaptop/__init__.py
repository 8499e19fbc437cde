"""heaptop: a live heap profiler for the terminal that attaches to running CPython processes."""

__version__ = "0.1.0"
