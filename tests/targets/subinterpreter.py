"""Main's thread lives in a subinterpreter: asleep (argument ``sleep``) or busy (argument ``busy``).

SIGTERM cannot be handled there (Python does that in the main interpreter only), so it is left to end the
process.
"""

import sys

from steady import say

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

CODE = {
    "sleep": "import time\nwhile True: time.sleep(0.2)",
    "busy": "while True: sum(range(1000))",
}

code = CODE[sys.argv[1]]
inner = interpreters.create()
say("ready")
interpreters.run_string(inner, code)
