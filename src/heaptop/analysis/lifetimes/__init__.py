"""How long blocks live: tables and bands by eventual lifetime.

Imports bands and what is below them.
"""
