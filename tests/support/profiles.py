"""Reads pprof profiles by the rules of their format, and not by heaptop's code."""

from __future__ import annotations

import gzip

Fields = dict[int, list[int | bytes]]


def varint_at(content: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(content: bytes) -> Fields:
    """A message of Protocol Buffers, by the words of its encoding."""
    found: Fields = {}
    at = 0
    while at < len(content):
        tag, at = varint_at(content, at)
        assert tag & 7 in (0, 2), "profile.proto needs no other kinds"
        value, at = varint_at(content, at)
        if tag & 7 == 2:
            found.setdefault(tag >> 3, []).append(content[at : at + value])
            at += value
        else:
            found.setdefault(tag >> 3, []).append(value)
    assert at == len(content)
    return found


def numbers(content: int | bytes) -> list[int]:
    """A packed field."""
    assert isinstance(content, bytes)
    found, at = [], 0
    while at < len(content):
        value, at = varint_at(content, at)
        found.append(value)
    return found


def message(content: int | bytes) -> Fields:
    assert isinstance(content, bytes)
    return fields(content)


def number(found: Fields, field: int) -> int:
    value = found.get(field, [0])[0]
    assert isinstance(value, int)
    return value


class Profile:
    """What pprof would make of it: fields of profile.proto by their numbers."""

    def __init__(self, content: bytes) -> None:
        found = fields(gzip.decompress(content))
        self.texts = [text.decode() for text in found[6] if isinstance(text, bytes)]
        self.types = [(self.text(one, 1), self.text(one, 2)) for one in map(message, found[1])]
        functions = {number(one, 1): (self.text(one, 2), self.text(one, 4)) for one in map(message, found.get(5, []))}
        self.places = {}
        for one in map(message, found.get(4, [])):
            (line,) = map(message, one[4])
            self.places[number(one, 1)] = (*functions[number(line, 1)], number(line, 2))
        self.samples = []
        for one in map(message, found.get(2, [])):
            labels = {self.text(label, 1): self.text(label, 2) for label in map(message, one.get(3, []))}
            stack = tuple(self.places[place] for place in numbers(one[1][0]))
            self.samples.append((stack, tuple(numbers(one[2][0])), labels))
        self.default = self.text(found, 14)
        self.duration, self.period = number(found, 10), number(found, 12)
        self.comments = [self.texts[text] for text in found[13] if isinstance(text, int)]

    def total(self, name: str, **labels: str) -> int:
        """The sum over all samples with these labels, by the name of a sample type."""
        place = [type_name for type_name, _ in self.types].index(name)
        return sum(values[place] for _, values, given in self.samples if labels.items() <= given.items())

    def text(self, found: Fields, field: int) -> str:
        return self.texts[number(found, field)]
