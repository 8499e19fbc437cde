"""A heap dump as the core writes and reads it: what is read from the pieces answers as the snapshot did."""

from __future__ import annotations

import os
import pickle
import random
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pytest

from heaptop.injector.native import _core
from heaptop.protocol.codec import decode
from heaptop.protocol.images import (
    AGES,
    DUMP,
    DUMP_SECTIONS,
    GROUPS,
    KNOWN,
    LIVE,
    LOSE,
    MAP,
    OBJECT,
    OBJECTS,
    PATHS,
    RETAINERS,
    WASTE,
    Ages,
    Dumped,
    Known,
    Live,
    Object,
    Objects,
    Paths,
    Question,
    Selection,
)
from heaptop.protocol.messages import Message
from heaptop.protocol.registry import REPLIES
from tests.interpreters import Interpreter
from tests.support import core_builds
from tests.unit.native.test_core_image import ALL, MAIN, SECRET, Exercise, exercising

ROW: Final = struct.Struct("<IiQQ")


def pieces_of(opened: Exercise, *, lengths: bool = True) -> list[bytes]:
    """All pieces of a dump of the open snapshot."""
    found, section, offset = [], 0, 0
    while section < DUMP_SECTIONS:
        piece = opened.ask(Dumped, Question(DUMP, number=section, offset=offset, buffers=lengths))
        assert (piece.section, piece.next) > (section, offset)
        found.append(piece.data)
        section, offset = piece.section, piece.next
    return found


def read(pieces: Sequence[bytes]) -> object:
    dump = _core.dump_new()
    for piece in pieces:
        _core.dump_add(dump, piece)
    return dump


class Read:
    """A dump that was read whole."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.dump = read(pieces)
        self.objects, self.edges, self.bytes = _core.dump_finish(self.dump)

    def raw(self, question: Question) -> bytes:
        return bytes(_core.dump_ask(self.dump, question.pack(7)))

    def ask(self, question: Question) -> Message | None:
        return decode(self.raw(question), REPLIES)


@pytest.fixture
def exercise(interpreter: Interpreter) -> Iterator[Exercise]:
    with exercising(interpreter) as made:
        yield made


@pytest.fixture
def opened(exercise: Exercise) -> Iterator[Exercise]:
    exercise.open()
    yield exercise
    exercise.close()


def questions(opened: Exercise) -> Iterator[Question]:
    selections = [Selection()]
    selections += [Selection(types=opened.of_type(MAIN + name)) for name in ("Session", "Parcel")]
    selections += [Selection(kinds=(kind,)) for kind in range(6)]
    selections += [opened.at("FIRST", "SECOND"), Selection(below=opened.at("CHAIN").addresses)]
    for selection in selections:
        for what in (GROUPS, PATHS, OBJECTS, LOSE, AGES):
            yield Question(what, selection, limit=50)
        yield Question(RETAINERS, selection, limit=50)
        yield Question(RETAINERS, selection, limit=50, modules=True)
        yield Question(MAP, selection)
    yield Question(PATHS, limit=2000)
    yield Question(PATHS, limit=2000, beginnings=True)
    yield Question(LIVE)


def without_keys(answer: Message | None) -> Message | None:
    """Numbers of paths are made from addresses of names, which only one of the two has; and they order equal groups."""
    if not isinstance(answer, Paths):
        return answer
    last = answer.groups[-1].retained if answer.other_groups else -1
    groups = sorted((replace(each, key=0) for each in answer.groups if each.retained != last), key=repr)
    return replace(answer, groups=tuple(groups))


def test_a_dump_answers_as_the_snapshot_did(opened: Exercise) -> None:
    dump = Read(pieces_of(opened))
    assert (dump.objects, dump.edges, dump.bytes) == (
        opened.image.objects,
        opened.image.edges,
        opened.image.bytes,
    )
    for question in questions(opened):
        assert without_keys(dump.ask(question)) == without_keys(opened.put(question.pack(7))), question


def test_each_object_is_described_as_the_snapshot_did(opened: Exercise) -> None:
    dump = Read(pieces_of(opened))
    everything = dump.ask(Question(OBJECTS, limit=ALL))
    assert isinstance(everything, Objects)
    some = random.Random(1).sample(everything.rows, 200)
    for row in some:
        question = Question(OBJECT, Selection(addresses=(row.address,)), limit=20)
        here, there = dump.ask(question), opened.put(question.pack(7))
        assert isinstance(here, Object)
        assert isinstance(there, Object)
        assert replace(here, preview="") == replace(there, preview="")
        assert here.preview == there.preview.partition(", the first")[0]


def test_a_dump_without_lengths_has_none(opened: Exercise) -> None:
    dump = Read(pieces_of(opened, lengths=False))
    everything = dump.ask(Question(OBJECTS, limit=10_000))
    assert isinstance(everything, Objects)
    assert {(row.length, row.bound, row.changes) for row in everything.rows} == {(-1, -1, -1)}


def test_counts_are_those_of_the_snapshot_also_of_a_dump_that_was_cut(opened: Exercise) -> None:
    pieces = pieces_of(opened)
    whole = Read(pieces)
    counts = list(ROW.iter_unpack(_core.dump_count(whole.dump)))
    assert sum(count for *_, count, _ in counts) == opened.image.objects
    assert sum(size for *_, size in counts) == opened.image.bytes
    ages = opened.put(Question(AGES, limit=ALL).pack(7))
    assert isinstance(ages, Ages)
    by_type: Counter[int] = Counter()
    for type, _, count, _ in counts:
        by_type[type] += count
    assert {row.type: row.count for row in ages.rows} == dict(+by_type)
    part = read(pieces[:2])
    assert 0 < sum(count for *_, count, _ in ROW.iter_unpack(_core.dump_count(part))) <= opened.image.objects
    with pytest.raises(RuntimeError, match="not whole"):
        _core.dump_finish(read(pieces[:-1]))


def test_a_mark_of_one_dump_tells_what_is_new_in_another(exercise: Exercise) -> None:
    exercise.open()
    before = Read(pieces_of(exercise))
    exercise.close()
    exercise("add", 500)
    exercise.open()
    marks = [before.ask(Question(LIVE))]
    assert isinstance(marks[0], Live)
    assert marks[0].next == 0
    exercise.tell([marks[0].data])
    after = Read(pieces_of(exercise))
    assert isinstance(after.ask(Question(KNOWN, known=marks[0].data)), Known)
    parcels = Selection(types=exercise.of_type(MAIN + "Parcel"))
    answer = after.ask(Question(AGES, parcels, limit=ALL))
    assert answer == exercise.put(Question(AGES, parcels, limit=ALL).pack(7))
    assert isinstance(answer, Ages)
    assert {row.seen: row.count for row in answer.rows} == {0: 500, 1: 1000}
    exercise.close()


def test_secrets_stay_in_the_target(opened: Exercise) -> None:
    assert not any(SECRET.encode() in piece for piece in pieces_of(opened))


def test_pieces_are_asked_for_in_order(opened: Exercise) -> None:
    opened.ask(Dumped, Question(DUMP, number=0))
    assert "in order" in opened.refusal(Question(DUMP, number=3))
    assert "no such section" in opened.refusal(Question(DUMP, number=DUMP_SECTIONS))
    assert len(pieces_of(opened)) >= DUMP_SECTIONS


DAMAGED: Final = """
import importlib.util, pickle, random, sys
spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
pieces, questions = pickle.load(sys.stdin.buffer)
chance, refused = random.Random(7), 0
core.dump_limit(1 << 30)

def damaged():
    place = chance.randrange(len(pieces))
    piece = bytearray(pieces[place])
    way = chance.randrange(5)
    if way < 2:
        for _ in range(chance.randrange(1, 5)):
            piece[chance.randrange(len(piece) if way else min(len(piece), 400))] = chance.randrange(256)
    elif way == 2:
        del piece[chance.randrange(len(piece)) :]
    times = 0 if way == 3 else 2 if way == 4 else 1
    return [*pieces[:place], *[bytes(piece)] * times, *pieces[place + 1 :]]

for _ in range(int(sys.argv[2])):
    dump = core.dump_new()
    try:
        for piece in damaged():
            core.dump_add(dump, piece)
        core.dump_count(dump)
        core.dump_finish(dump)
    except RuntimeError:
        refused += 1
        continue
    for question in questions:
        core.dump_ask(dump, question)
print(refused)
"""
"""Pieces with something changed, cut, left out or doubled: each is refused, or what comes of it answers."""


def test_sanitizers_find_nothing_in_damaged_dumps(opened: Exercise, is_whole: bool) -> None:
    pieces, times = pieces_of(opened), 200 if is_whole else 30
    library = core_builds.build("sanitized", *core_builds.SANITIZED)
    asked = [Question(what, limit=100).pack(1) for what in (GROUPS, PATHS, OBJECTS, MAP, RETAINERS, AGES, LIVE)]
    ended = subprocess.run(
        [sys.executable, "-c", DAMAGED, str(library), str(times)],
        input=pickle.dumps((pieces, asked)),
        capture_output=True,
        check=False,
        env={**os.environ, **core_builds.sanitizer_variables()},
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert times / 2 < int(ended.stdout) < times


NOT_OF_A_DUMP = [Question(WASTE), Question(DUMP), Question(OBJECTS, containers=True)]


@pytest.mark.parametrize("question", [b"", b"x", bytes(100), *(each.pack(1) for each in NOT_OF_A_DUMP)])
def test_a_question_that_a_dump_cannot_answer_is_refused(opened: Exercise, question: bytes) -> None:
    dump = Read(pieces_of(opened))
    with pytest.raises(RuntimeError):
        _core.dump_ask(dump.dump, question)


def test_an_object_that_is_no_dump_is_refused() -> None:
    for call in (_core.dump_finish, _core.dump_count, _core.dump_look, _core.dump_cancel):
        with pytest.raises((ValueError, TypeError)):
            call(object())


CLOSED: Final = """
import pickle, sys
from heaptop.injector.native import _core
_core.dump_limit(1 << 40)
pieces = pickle.load(sys.stdin.buffer)
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
for turn in range(6):
    dump = _core.dump_new()
    for piece in pieces:
        _core.dump_add(dump, piece)
    _core.dump_finish(dump)
    del dump
    if turn == 0:
        before = resident()
print(resident() - before)
"""


def test_a_dump_that_is_closed_gives_its_memory_back(opened: Exercise) -> None:
    pieces = pickle.dumps(pieces_of(opened))
    ended = subprocess.run([sys.executable, "-c", CLOSED], input=pieces, capture_output=True, check=True)
    assert int(ended.stdout) < 2 << 20


LIMITED: Final = """
import pickle, sys
from heaptop.injector.native import _core
_core.dump_limit(8 << 20)
dump = _core.dump_new()
for piece in pickle.load(sys.stdin.buffer):
    _core.dump_add(dump, piece)
"""


def test_a_dump_takes_no_more_memory_than_it_may(opened: Exercise) -> None:
    """The limit is the whole process's, so it is set in one of its own."""
    pieces = pickle.dumps(pieces_of(opened))
    ended = subprocess.run([sys.executable, "-c", LIMITED], input=pieces, capture_output=True, check=False)
    assert ended.returncode == 1
    assert b"more memory than it may" in ended.stderr
