"""View 7, Sizes.

Imports tui's widgets, state, charts and keys; of other views only base and table_view.
"""
