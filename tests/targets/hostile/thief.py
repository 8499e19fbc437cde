"""Copies every socket that comes into being in it, and reads all that comes, also from heaptop's own end."""

import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from steady import ready, say


def steal():
    copies, known = [], set()
    said = False
    while True:
        for number in range(3, 12):
            try:
                name = os.readlink("/proc/self/fd/" + str(number))
                if not name.startswith("socket:") or name in known:
                    continue
                copies.append(socket.socket(fileno=os.dup(number)))
                known.add(name)
            except OSError:
                continue
        for copy in copies:
            try:
                data = copy.recv(65536, socket.MSG_DONTWAIT)
            except OSError:
                continue
            if data and not said:
                said = True
                say("stolen")
        time.sleep(0)


threading.Thread(target=steal, daemon=True).start()
ready()
while True:
    threading.Event().wait(0.05)
