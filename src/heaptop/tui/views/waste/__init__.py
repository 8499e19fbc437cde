"""View 10, Waste, on key 0.

Imports tui's widgets, state, charts and keys; of other views only base and table_view.
"""
