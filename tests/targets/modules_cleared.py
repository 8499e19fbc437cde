"""Has removed all modules from sys.modules, as a program may that loads others in their place."""

import sys
import time

from steady import ready

ready()
sleep = time.sleep
sys.modules.clear()
while True:
    sleep(0.05)
