"""Holds 100,000 lists, and gives them new blocks without a pause: its memory stays as it is."""

from steady import ready


def renew(lists):
    for each in lists:
        each.extend(each[:8])
        del each[8:]
        each[:] = list(each)


kept = [list(range(8)) for _ in range(100_000)]
for _ in range(3):
    renew(kept)
ready()
while True:
    renew(kept)
