"""Main waits for a lock that it holds itself, for ever."""

import threading

from steady import ready, say

lock = threading.Lock()
lock.acquire()
ready()
lock.acquire()
say("EARLY")
