"""Recordings of sessions in files, and what is made of them: written while one is watched, read, exported.

This package never attaches to a process and never draws: a recording that is read is a
:class:`~heaptop.protocol.source.Source` like any other.
"""
