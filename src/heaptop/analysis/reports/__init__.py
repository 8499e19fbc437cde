"""Documents for commands and exports, made of all the other rooms.

The highest room: no other one imports it.
"""
