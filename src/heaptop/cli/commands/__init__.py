"""One module per subcommand; :mod:`heaptop.cli` has the registry.

Imports the rest of cli; nothing imports it but the registry.
"""
