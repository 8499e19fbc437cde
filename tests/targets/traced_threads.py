"""A tool that watches all threads: monitoring, setprofile or settrace (the argument). Says FOREIGN and what was called
on a thread that is not the program's, and on SIGUSR1 how many threads ``threading`` knows. Python 3.12 and later."""

import signal
import sys
import threading
import time

from steady import ready, say

mine = threading.get_ident()


def note(code):
    if threading.get_ident() != mine:
        say("FOREIGN " + code.co_filename + " " + threading.current_thread().name)


def seen(frame, _event, _argument):
    note(frame.f_code)
    return seen


def watch_by(name):
    if name == "monitoring":
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.PROFILER_ID, "watching")
        events = monitoring.events.PY_START | monitoring.events.LINE
        monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.PY_START, lambda code, _: note(code))
        monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.LINE, lambda code, _: note(code))
        return lambda: monitoring.set_events(monitoring.PROFILER_ID, events)
    return lambda: getattr(threading, name + "_all_threads")(seen)


watch = watch_by(sys.argv[1])
signal.signal(signal.SIGUSR1, lambda *_: say("threads " + str(threading.active_count())))
ready()
while True:
    watch()  # again: the agent's thread may be new
    time.sleep(0.002)
