"""What ``heaptop run`` starts in place of a program: lets the agent in, then runs the program as ``__main__``.

The target's own Python runs this file as a script, the oldest supported one too, so it imports nothing of heaptop::

    python launcher.py GO FD prog.py arguments...
    python launcher.py GO FD -m module arguments...

``GO`` is a pipe that brings the bootstrap, ended by a NUL. Its end, when the agent is in or heaptop is gone, lets the
program continue. ``FD`` is the agent's end of the session's socket.
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
        usual = _thread.stack_size(8 << 20)  # the limit of this shell may be too small for Python
        _thread.start_new_thread(exec, (text[:-1].decode(), {}))
        _thread.stack_size(usual)
        posix.read(go, 1)
    posix.close(go)


def run(arguments: "list[str]") -> None:
    """As ``python`` itself would, with the same sys.argv and sys.path, and in this very ``__main__``: one that runpy
    makes for the purpose would end with the main thread, which the program's other threads may outlive."""
    import os  # noqa: PLC0415
    import pkgutil  # noqa: PLC0415
    import runpy  # noqa: PLC0415

    is_module = arguments[0] == "-m"
    path = os.path.abspath(arguments[0]) if sys.version_info >= (3, 9) else arguments[0]
    is_folder = not is_module and pkgutil.get_importer(path) is not None  # or an archive, with a __main__.py in it
    sys.argv[:] = ["-m", *arguments[2:]] if is_module else arguments
    is_safe = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    if not is_safe:
        del sys.path[0]  # this file's folder
    if is_folder or not is_safe:
        first = path if is_folder else os.getcwd() if is_module else os.path.dirname(os.path.realpath(path))
        sys.path.insert(0, first)
    main = sys.modules["__main__"].__dict__
    script = main["run_script"]
    for name in ("let_in", "run", "run_script", "sys"):
        del main[name]
    main["__doc__"] = None
    if is_module or is_folder:
        # What the interpreter itself calls for them.
        runpy._run_module_as_main(arguments[1] if is_module else "__main__", alter_argv=is_module)  # type: ignore[attr-defined]
    else:
        script(path, main)


def run_script(path: str, main: "dict[str, object]") -> None:
    """Run a file, source or compiled, as ``__main__``."""
    import importlib.machinery  # noqa: PLC0415
    import io  # noqa: PLC0415
    import pkgutil  # noqa: PLC0415

    with io.open_code(path) as file:
        code = pkgutil.read_code(file)
    if code is None:
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    main["__file__"] = path
    main["__loader__"] = importlib.machinery.SourceFileLoader("__main__", path)
    exec(code, main)


if __name__ == "__main__":
    let_in(int(sys.argv[1]), int(sys.argv[2]))
    run(sys.argv[3:])
