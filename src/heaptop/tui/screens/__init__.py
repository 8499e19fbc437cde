"""Whole screens: the live one, the picker, tabs, recordings.

Imports every room but app.
"""
