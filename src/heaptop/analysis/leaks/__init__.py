"""Leak hunts: marks, growth, suspects, verdicts and lints.

Imports every room but reports.
"""
