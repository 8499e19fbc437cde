"""Numbers, times and places of code as text.

The lowest room: it imports no other room of analysis.
"""
