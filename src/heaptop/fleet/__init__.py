"""The host agent, ``heaptop serve``: which processes of a host are attached to, one session for each, and their figures
over HTTP, by service. It draws nothing and stores nothing.
"""
