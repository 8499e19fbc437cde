"""Sorts a list of 200,000 texts again and again, with a key in Python: the GIL is given up in the middle."""

from steady import ready

words = [str(number) for number in range(200_000)]
words.sort(key=lambda word: word[::-1])
ready()
while True:
    words.sort(key=lambda word: word[::-1])
    words.sort(key=lambda word: word[1:])
