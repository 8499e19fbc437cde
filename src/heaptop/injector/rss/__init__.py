"""What a process's resident memory is used for, seen from outside.

Imports entry, for the pages that it makes, and inspect.
"""
