"""Main runs Python code and never blocks."""

from steady import ready


def work(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


ready()
while True:
    work(1000)
