"""watchdog: each upload adds a handler for the folder that all of them share, and none is taken away."""

import tempfile

from busy_backdrop import requests, serve
from watchdog.events import FileSystemEventHandler
from watchdog.observers.polling import PollingObserver

folder = tempfile.TemporaryDirectory()
observer = PollingObserver(timeout=5)
observer.start()


class UploadHandler(FileSystemEventHandler):
    def __init__(self, number):
        self.number = number
        self.parts = [f"part {i} of upload {number}" for i in range(8)]


def watch_upload(number):
    observer.schedule(UploadHandler(number), folder.name)  # the leak


for number in requests(40):
    watch_upload(number)
    serve(number)
