"""What ``heaptop run`` starts in place of a program: lets the agent in, then runs the program as ``__main__``.

The target's own Python runs this file as a script, 3.8 to 3.15, so it imports nothing of heaptop::

    python launcher.py GO FD prog.py arguments...
    python launcher.py GO FD -m module arguments...

``GO`` is a pipe that brings the bootstrap, ended by a NUL. Its end, when the agent is in or heaptop is gone, lets the
program go on. ``FD`` is the agent's end of the session's socket.
"""

import sys


def let_in(go: int, descriptor: int) -> None:
    """Start the agent's thread and wait for the word to go on. Before anything of the program: gevent may patch it."""
    import _thread  # noqa: PLC0415  the program must find what it imports untouched
    import posix  # noqa: PLC0415

    posix.set_inheritable(descriptor, False)
    posix.set_inheritable(go, False)
    text = b""
    while not text.endswith(b"\0"):
        data = posix.read(go, 65536)
        if not data:
            break
        text += data
    else:
        _thread.start_new_thread(exec, (text[:-1].decode(), {}))
        posix.read(go, 1)
    posix.close(go)


def run(arguments: "list[str]") -> None:
    """As ``python`` itself would: the same sys.argv, sys.path and ``__main__``."""
    import os  # noqa: PLC0415
    import runpy  # noqa: PLC0415

    module = arguments[0] == "-m"
    sys.argv[:] = arguments[1:] if module else arguments
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        # In place of this file's folder.
        sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(sys.argv[0]))
    if module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    let_in(int(sys.argv[1]), int(sys.argv[2]))
    run(sys.argv[3:])
