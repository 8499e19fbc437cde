"""View 2 of the sum of several processes: a row for each.

Imports tui's widgets, state, charts and keys; of other views only base and table_view.
"""
