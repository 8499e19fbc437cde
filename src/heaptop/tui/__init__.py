"""The Textual front end. It gets everything from a :class:`~heaptop.protocol.source.Source`.

Rooms, the upper import the lower: app, screens, views, widgets, state, charts | keys | terminal, text. No room
imports the injector.
"""
