"""A Celery worker that leaks on behalf of one of its tasks: it sends itself both over a broker in memory."""

import threading
import time

from celery import Celery
from celery.contrib.testing.worker import start_worker
from steady import ready

KEPT = []
app = Celery("celery_leak", broker="memory://", backend="cache+memory://")
app.conf.task_ignore_result = True


class Session:
    def __init__(self):
        self.page = bytearray(2000)


@app.task
def remember():
    KEPT.append(Session())


@app.task(bind=True, name="mail.send")
def send(self):
    return len("".join(str(each) for each in range(500)))


def ask():
    while True:
        remember.delay()
        send.delay()
        time.sleep(0.01)


with start_worker(app, perform_ping_check=False, pool="solo"):
    threading.Thread(target=ask, daemon=True).start()
    ready()
    while True:
        time.sleep(60)
