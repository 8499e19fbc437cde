"""Getting in: process facts, ELF symbols, ptrace, PEP 768, a launch of one's own, and the session over the socket.

This package never draws and never analyses. ``heaptop.injector.api`` is what the commands use.
Everything that changes the target runs in the helper process (:mod:`heaptop.injector.entry.helper`): a heaptop that is
killed never leaves a thread of the target stopped.
"""
