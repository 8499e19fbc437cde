"""One call into C after another, each for a second or more with the GIL. Argument: another length of each."""

import sys

from steady import ready

length = int(sys.argv[1]) if len(sys.argv) > 1 else 6 * 10**7
ready()
while True:
    sum(range(length))
