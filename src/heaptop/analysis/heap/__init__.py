"""The censuses of one process over time, and the names of types and objects.

Imports only text.
"""
