"""Bands over time and the table beneath them, for any key.

Imports filters, samples, heap and text.
"""
