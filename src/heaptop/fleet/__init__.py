"""What attaches and reports by itself: ``heaptop serve`` (a host's processes, their figures over HTTP by service) and
``heaptop guard`` (one process, and what is done when a trigger fires). It draws nothing and imports no tui.
"""
