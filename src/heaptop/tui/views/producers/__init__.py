"""View 2, Producers.

Imports tui's widgets, state, charts and keys; of other views only base and table_view.
"""
