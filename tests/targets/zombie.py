"""Has a child that ended and was not waited for; says its pid after ``ready``."""

import os
import time

from steady import ready

child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
ready(child)
while True:
    time.sleep(0.2)
