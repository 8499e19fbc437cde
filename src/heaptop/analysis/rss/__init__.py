"""What resident memory is used for, now and over time.

Imports samples, heap and text.
"""
