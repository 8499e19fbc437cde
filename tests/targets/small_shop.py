"""The sample shop, small: few products, the same visitors every time, a leak of some 150 KB a second, up to 10 MB.
Its argument is the folder that holds the package ``shop``."""

import random
import sys
import time

from steady import ready

sys.path.insert(0, sys.argv[1])

from shop import catalogue
from shop.server import Server, allow_profilers

random.seed(7)
allow_profilers()
catalogue.load(300)
server = Server(150e3, 10e6)
ready()
while True:
    time.sleep(0.05)
    server.tick(0.05)
