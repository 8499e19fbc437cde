"""Records that lead to rows. A test has the kernel write its core, into the folder that is its argument."""

import os
import sys
import threading

from steady import ready


class Row:
    __slots__ = ["number", "other"]

    def __init__(self, number):
        self.number = number


class Record:
    def __init__(self, number):
        self.name = f"record {number}"
        self.rows = {each: Row(each) for each in range(number, number + 10)}


os.chdir(sys.argv[1])
records = [Record(number) for number in range(300)]
ready()
while True:
    threading.Event().wait(1)
