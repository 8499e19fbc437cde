"""A small shop that leaks, for ``heaptop demo`` and for anyone who wants to see what a leak looks like.

It behaves like the middle of a web server and never opens a socket: a loop makes up requests and hands them
to handlers. Four things live in its heap, and each is there to be seen on the screen:

- the catalogue: loaded once, a flat band;
- a page cache that is bounded: it rises for a while, then stays;
- request buffers: built up and dropped together, a sawtooth;
- sessions: one for every visitor, kept in ``sessions.ACTIVE``, which nothing expires. **This is the leak.**

It imports only the standard library, and itself by relative imports, so that it runs as ``shop`` as well as
``heaptop.demo.shop``. It stops leaking at a limit, and ends when the process that started it ends.
"""
