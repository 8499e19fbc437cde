"""Says, as JSON on its first line, how it was started; then exits with 3, or lives on (argument ``stay``)."""

import json
import os
import sys
import time

from steady import ready

shape = {
    "argv": sys.argv,
    "path": sys.path,
    "name": __name__,
    "file": __file__,
    "package": __package__,
    "spec": __spec__ and __spec__.name,
    "main": sys.modules["__main__"].__dict__ is globals(),
    "annotations": sorted(name for name in globals() if name.startswith("__")),
    "fds": sorted(int(number) for number in os.listdir("/proc/self/fd"))[:-1] if os.path.exists("/proc/self") else [],
    "threads": "threading" in sys.modules,
    "flags": list(sys.flags),
    "executable": sys.executable,
}
if __name__ == "__main__":
    print(json.dumps(shape), flush=True)
    if sys.argv[1:] != ["stay"]:
        sys.exit(3)
    ready()
    while True:
        time.sleep(0.2)
