"""How long blocks live: tables and bands by eventual lifetime, and what lives by its age.

Imports bands and what is below them.
"""
