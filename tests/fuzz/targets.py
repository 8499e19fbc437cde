"""What is fuzzed: each target makes a case of a seed and gives it to heaptop. An exception that is no error of
heaptop's own is a finding; so is a case that takes too long or too much memory (:mod:`tests.fuzz.running`)."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

import msgpack

from heaptop.analysis.bands.report import census_json
from heaptop.analysis.filters.attributes import BAND_KEYS
from heaptop.analysis.reports.census_timeline import CensusTimeline
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.reports.recording_report import report_json
from heaptop.cli.output.recorded_text import report_lines
from heaptop.cli.recorded import course_of
from heaptop.errors import HeaptopError, NotPython, ProtocolError
from heaptop.injector.inspect import elf, interpreter, process, threads
from heaptop.injector.inspect.memory import Mapping, RemoteFault, RemoteMemory, read_mappings
from heaptop.injector.rss import memory_map, smaps
from heaptop.injector.session import conversation
from heaptop.injector.session.conversation import Conversation, ConversationRequests, SamplingSettings
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.framing import MAX_FRAME, FrameReader, frame
from heaptop.protocol.messages import (
    Census,
    CensusRequest,
    CollectRequest,
    MemoryRequest,
    Message,
    SamplerRequest,
    TickRequest,
)
from heaptop.protocol.recorded import RecordingInfo
from heaptop.protocol.registry import RECORDED
from heaptop.protocol.source import Attached, Event, Received, TargetInfo
from heaptop.recordings import format as recording_format
from heaptop.recordings.reader import Recording
from heaptop.recordings.recordable_source import RecordableSource
from heaptop.recordings.replay_to import replay_to
from heaptop.watching.progress import ProgressReport
from tests.fakes.source import OUTSIDE, TOKEN, FakeAgent, FakeSource
from tests.fuzz.mutating import WIDE, mutate_bytes, mutate_value, pieces

Case = Callable[[Random], None]


# -- messages ----------------------------------------------------------------------------------------------


@functools.cache
def replies() -> tuple[bytes, ...]:
    """The payloads of what an agent says, of every kind that the fake one knows."""
    agent, said = FakeAgent(), []
    said.append(encode(agent.hello()))
    for request in (
        TickRequest(1),
        SamplerRequest(2, 65536, 32, False, False),
        *(each for number in range(3, 9, 2) for each in (TickRequest(number), CensusRequest(number + 1))),
        MemoryRequest(9),
        CollectRequest(10),
        TickRequest(11),
    ):
        agent.advance()
        said += [encode(message) for message in agent.answer(request)]
    return tuple(said)


def mutated_payload(random: Random, payload: bytes) -> bytes:
    """One that is wrong in its bytes, or right msgpack of wrong values."""
    if random.random() < 0.3:
        return mutate_bytes(random, payload)
    value = msgpack.unpackb(payload, strict_map_key=False)
    try:
        return bytes(msgpack.packb([value[0], mutate_value(random, value[1])]))
    except (OverflowError, ValueError, UnicodeEncodeError):
        return mutate_bytes(random, payload)


def codec(random: Random) -> None:
    """A payload is a message whose every field is of its type, or refused; and what was read can be written."""
    payload = mutated_payload(random, random.choice(replies()))
    message = decode(payload, RECORDED)
    if message is not None and "nan" not in repr(message):
        assert decode(encode(message), RECORDED) == message


def framing(random: Random) -> None:
    """Frames come out as they went in, however the stream is cut; and a wrong length is refused at its header."""
    payloads = [random.randbytes(random.choice((1, 2, 100, 70_000))) for _ in range(random.randint(1, 5))]
    stream = b"".join(frame(payload) for payload in payloads)
    changed = mutate_bytes(random, stream) if random.random() < 0.7 else stream
    if random.random() < 0.1:
        changed += (random.choice(WIDE) & 0xFFFFFFFF).to_bytes(4, "big") + random.randbytes(50)
    reader, found = FrameReader(), []
    for piece in pieces(random, changed):
        for payload in reader.feed(piece):
            found.append(payload)
            assert 0 < len(payload) <= MAX_FRAME
        assert reader.pending <= MAX_FRAME + 4
    if changed == stream:
        assert found == payloads
    reader.end()


# -- a session ---------------------------------------------------------------------------------------------


class MutatingAgent(FakeAgent):
    """Says some of its messages wrong, or not at all, or twice."""

    def __init__(self, random: Random, share: float) -> None:
        super().__init__()
        self._random = random
        self._share = share

    def say(self, link: socket.socket, messages: Sequence[Message]) -> None:
        """Send them, as it does."""
        random = self._random
        for message in messages:
            payload, times = encode(message), 1
            if random.random() < self._share:
                payload = mutated_payload(random, payload)
            if random.random() < self._share / 4:
                times = random.choice((0, 2, 20))
            if payload and len(payload) <= MAX_FRAME:
                data = frame(payload) * times
                link.sendall(mutate_bytes(random, data) if data and random.random() < self._share / 20 else data)

    def converse(self, link: socket.socket) -> None:
        """The agent's side, from the source that it is sent to the end of the session."""
        with link, contextlib.suppress(OSError, HeaptopError):
            while length := int.from_bytes(link.recv(4, socket.MSG_WAITALL), "big"):
                link.recv(length, socket.MSG_WAITALL)
            link.sendall(frame(encode(self.hello())))
            reader = FrameReader()
            while data := link.recv(65536):
                for payload in reader.feed(data):
                    request = decode(payload, REQUESTS_TAKEN)
                    if request is not None:
                        self.advance()
                        self.say(link, self.answer(request))


REQUESTS_TAKEN: Final = (CensusRequest, TickRequest, MemoryRequest, SamplerRequest, CollectRequest)
CENSUSES: Final = 6


def session(random: Random) -> None:
    """A conversation, and all that is computed of it, with an agent that says what it likes."""
    agent = MutatingAgent(random, random.choice((0.005, 0.02, 0.1, 0.5)))
    ours, theirs = socket.socketpair()
    orders, seen = ConversationRequests(sampling=SamplingSettings(65536, 32)), Seen()
    vars(conversation)["TICK_INTERVAL"] = 0.01
    talker = threading.Thread(target=agent.converse, args=(theirs,), daemon=True)
    talker.start()

    def deliver(event: Event) -> None:
        seen.take(event)
        if seen.censuses >= CENSUSES or seen.events > 400:
            orders.leave.set()

    def leave() -> None:
        orders.leave.set()
        orders.wake()

    timer = threading.Timer(0.3, leave)  # an agent that has gone silent
    timer.daemon = True
    timer.start()
    try:
        with Conversation(
            ours,
            TOKEN,
            interval=0.001,
            max_share=1.0,
            deliver=deliver,
            orders=orders,
            outside_rss=lambda: 123_456_789,
            agent_lives=lambda: True,
            outside_memory=lambda told: OUTSIDE,
        ) as talk:
            hello = talk.greet(2.0, lambda phase, seconds: None)
            seen.take(Attached(TargetInfo(1, "python shop.py", "3.12", "shop"), hello, "ptrace", 1))
            orders.memory.set()
            talk.prepare(0.1)
            talk.run()
            talk.leave(0.1)
    finally:
        timer.cancel()
        ours.close()
        orders.close()
        talker.join(5)
        seen.report()


class Seen:
    """What the commands and the screen compute of a session."""

    def __init__(self) -> None:
        self.recorded = Recorded("fuzz")
        self.events = self.censuses = 0

    def take(self, event: Event) -> None:
        self.events += 1
        self.recorded.feed(event)
        self.censuses += isinstance(event, Received) and isinstance(event.message, Census)

    def report(self) -> None:
        """Every document there is of it."""
        recorded = self.recorded
        if recorded.history.records:
            for by in BAND_KEYS:
                with contextlib.suppress(HeaptopError):  # by what only a graph has
                    json.dumps(census_json(recorded.history.records[-1], pid=1, python="3.12", by=by, top=10))
        _documents(recorded, recorded, CensusTimeline.of(recorded))


def _documents(first: Recorded, last: Recorded, course: CensusTimeline) -> None:
    json.dumps(report_json(first, last, course, None))
    "\n".join(report_lines(first, last, course, 10)).encode("utf-8", "replace")


# -- recordings --------------------------------------------------------------------------------------------


@functools.cache
def recorded() -> bytes:
    """A recording of a short session with the fake agent."""
    with tempfile.TemporaryDirectory(prefix="heaptop-fuzz-") as folder:
        path = os.path.join(folder, "a.heaptop")
        source = FakeSource()
        taped = RecordableSource(source)
        taped.open(lambda event: None)
        source.sample(65_536, 32)
        taped.begin_recording(path)
        source.attach()
        source.tick(8)
        taped.close()
        return Path(path).read_bytes()


@functools.cache
def blocks() -> tuple[bytes, tuple[tuple[recording_format.BlockHeader, bytes], ...]]:
    """Its header, and each block with what it says, unpacked."""
    data, found = recorded(), []
    _, codec, at = recording_format.unpack_header(data, "fuzz")
    begin, segment = data[:at], None
    while at < len(data):
        head = recording_format.BlockHeader.unpack(data[at : at + recording_format.HEAD_BYTES])
        assert head is not None
        payload = data[at + recording_format.HEAD_BYTES :][: head.length]
        at += recording_format.HEAD_BYTES + head.length
        if head.kind in (recording_format.KEY, recording_format.NOTE):
            content = recording_format.unpack_alone(codec, payload)
            segment = recording_format.SegmentCodec(content) if head.kind == recording_format.KEY else segment
        else:
            assert segment is not None
            content = segment.unpack(payload)
        found.append((head, content))
    return begin, tuple(found)


def _frames(content: bytes) -> Iterator[bytes]:
    at = 0
    while at + 4 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        yield content[at + 4 : at + 4 + length]
        at += 4 + length


def _crafted(random: Random) -> bytes:
    """A recording whose every sum is right, and what it says is not."""
    begin, parts = blocks()
    if random.random() < 0.1:
        about = mutated_payload(random, begin[-int.from_bytes(begin[12:16], "little") :])
        with contextlib.suppress(ProtocolError):
            message = decode(about, (RecordingInfo,))
            if isinstance(message, RecordingInfo):
                begin = recording_format.pack_header(message)
    written, segment, share = [begin], None, random.choice((0.01, 0.05, 0.3))
    for head, content in parts:
        said = [mutated_payload(random, each) if random.random() < share else each for each in _frames(content)]
        changed = b"".join(len(each).to_bytes(4, "big") + each for each in said)
        kind, number, time_ns = head.kind, head.number, head.time_ns
        if random.random() < share / 2:
            kind = random.choice(recording_format.KINDS)
            number = random.choice((number, number + 1, random.choice(WIDE) & 0xFFFFFFFF))
            time_ns = random.choice((time_ns, random.choice(WIDE) & ((1 << 63) - 1)))
        if kind in (recording_format.KEY, recording_format.NOTE) or segment is None:
            block = recording_format.pack_alone(kind, number, time_ns, changed)
            segment = recording_format.SegmentCodec(changed) if kind == recording_format.KEY else segment
        else:
            block = segment.pack(kind, number, time_ns, changed)
        written.append(mutate_bytes(random, block) if random.random() < share / 4 else block)
    return b"".join(written)


def recording(random: Random) -> None:
    """A recording is played and reported, or refused."""
    data = mutate_bytes(random, recorded()) if random.random() < 0.3 else _crafted(random)
    with tempfile.TemporaryDirectory(prefix="heaptop-fuzz-") as folder:
        path = os.path.join(folder, "a.heaptop")
        Path(path).write_bytes(data)
        with Recording.open(path) as opened:
            first = replay_to(opened, opened.first_ns, ())
            last = replay_to(opened, None, ())
            course = course_of(opened, last, (), ProgressReport()) if random.random() < 0.1 else CensusTimeline.of(last)
            _documents(first, last, course)


# -- ELF ---------------------------------------------------------------------------------------------------

BASE: Final = 0x7F0000000000
NAMES: Final = ("PyRun_SimpleString", "Py_AddPendingCall", "Py_Version", "_PyRuntime", "syscall", "pthread_create")


@functools.cache
def image_bytes() -> bytes:
    """A library as it is mapped: header, segments, the dynamic section, both hash tables, symbols, names."""
    strings, places = b"\0", []
    for name in NAMES:
        places.append(len(strings))
        strings += name.encode() + b"\0"
    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", place, 0x12, 0, 1, 0x3000 + 16 * number, 16) for number, place in enumerate(places)
    )
    count = len(NAMES) + 1
    sysv = struct.pack("<II", 1, count) + struct.pack("<I", 1) + struct.pack(f"<{count}I", 0, *range(2, count), 0)
    hashes = [elf.gnu_hash(name.encode()) for name in NAMES]
    chain = [value & ~1 for value in hashes[:-1]] + [hashes[-1] | 1]
    gnu = struct.pack("<IIII", 1, 1, 1, 0) + b"\xff" * 8 + struct.pack("<I", 1) + struct.pack(f"<{len(chain)}I", *chain)
    places_of = {elf.DT_STRTAB: 0x1800, elf.DT_SYMTAB: 0x1400, elf.DT_HASH: 0x1200, elf.DT_GNU_HASH: 0x1300}
    dynamic = b"".join(struct.pack("<qQ", tag, place) for tag, place in places_of.items()) + bytes(16)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0x4000, 0x4000, 0x1000)
    segments += struct.pack("<IIQQQQQQ", 2, 6, 0x1000, 0x1000, 0x1000, len(dynamic), len(dynamic), 8)
    whole = bytearray(0x4000)
    for place, part in ((0, header + segments), (0x1000, dynamic), (0x1200, sysv), (0x1300, gnu)):
        whole[place : place + len(part)] = part
    whole[0x1400 : 0x1400 + len(symbols)] = symbols
    whole[0x1800 : 0x1800 + len(strings)] = strings
    return bytes(whole)


class FuzzedMemory(RemoteMemory):
    """Memory that is what a case says, at each of ``bases``; everywhere, where ``endless``."""

    def __init__(self, content: bytes, bases: Sequence[int], endless: bool) -> None:
        self._fd = -1
        self._content = content
        self._bases = bases
        self._endless = endless

    def read(self, address: int, size: int) -> bytes:
        if not 0 <= size <= 1 << 26 or not 0 <= address < 1 << 47:
            raise RemoteFault(f"{size} bytes at {address:#x}")
        for base in self._bases:
            if base <= address and address + size <= base + len(self._content):
                return self._content[address - base :][:size]
        if self._endless:
            at = address % len(self._content)
            return (self._content[at:] + self._content * (size // len(self._content) + 1))[:size]
        raise RemoteFault(f"{size} bytes at {address:#x}")


def elf_images(random: Random) -> None:
    """What is mapped is an image, or none, and its symbols are found in bounded time."""
    content = bytearray(image_bytes())
    for _ in range(random.randint(0, 6)):
        at = random.choice((0, 32, 54, 56, 64, 72, 80, 96, 120, 0x1000, 0x1010, 0x1200, 0x1300, 0x1310, 0x1400, 0x1418))
        at += 4 * random.randrange(8)
        number = random.choice(WIDE) & 0xFFFFFFFFFFFFFFFF
        packed = struct.pack("<Q", number)[: random.choice((2, 4, 8))]
        content[at : at + len(packed)] = packed
    data = bytes(content)
    if random.random() < 0.3:
        data = (mutate_bytes(random, data) + bytes(0x4000))[:0x4000]
    number = random.choice((1, 2, 40))
    bases = [BASE + 0x10000 * place for place in range(number)]
    names = random.choice(("/usr/lib/libpython3.12.so.1.0", "/lib/libc.so.6", "/x (deleted)", "/memfd:a"))
    mappings = [Mapping(base, base + 0x4000, "r-xp", 0, "00:01", 7 + place, f"{names}{place}") for place, base in
                enumerate(bases)]  # fmt: skip
    memory = FuzzedMemory(data, bases, random.random() < 0.5)
    reached = False
    for image in elf.images(memory, mappings):
        for name in NAMES:
            with contextlib.suppress(RemoteFault):
                reached = image.lookup(name) is not None or reached
    try:
        interpreter.find_interpreter(os.getpid(), memory, mappings, "/usr/bin/python3.12")
    except (HeaptopError, RemoteFault):
        if not reached:  # else its symbols were found, though too few for an interpreter
            raise NotPython("no symbol of the images was found") from None


# -- /proc -------------------------------------------------------------------------------------------------


class Elsewhere(int):
    """A pid whose files lie in a folder of ours: ``/proc/…`` is where they are looked for, by name."""

    folder = ""

    def __format__(self, how: str) -> str:
        return f"..{self.folder}"

    def __str__(self) -> str:
        return f"..{self.folder}"


FILES: Final = ("status", "stat", "cmdline", "maps", "smaps", "statm", "comm")


@functools.cache
def own_files() -> dict[str, bytes]:
    """Those of this process: what the kernel writes."""
    return {name: Path(f"/proc/self/{name}").read_bytes() for name in FILES}


def _named(random: Random, most: int) -> bytes:
    """A name as a process may give itself one."""
    parts = (
        b"python3",
        b"\n",
        b"\\n",
        b")",
        b"(",
        b" ",
        b"\x1b]0;x\x07",
        b"\xff\xfe",
        b"\x85",
        b"\xe2\x80\xa8",
        b":\t",
        b"Tgid:\t1",
    )
    return b"".join(random.choice(parts) for _ in range(random.randint(0, 6)))[:most].replace(b"\0", b"")


def _cut(random: Random, data: bytes) -> bytes:
    """What a process that ends meanwhile leaves of it: the kernel writes whole lines."""
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: random.randrange(len(lines) + 1)]) if random.random() < 0.3 else data


def _lines_with_names(random: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    for _ in range(random.randint(0, 10)):
        at = random.randrange(len(lines))
        if b"-" in lines[at][:17]:
            name = _named(random, 300).replace(b"\n", b"\\012")
            lines[at] = lines[at][:73].ljust(73) + name
    return b"\n".join(lines)


def proc(random: Random) -> None:
    """Files of /proc with names that a process chose, however short, are read or refused."""
    pid = os.getpid()
    files = dict(own_files())
    name = _named(random, 15)
    escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    files["status"] = files["status"].replace(files["comm"].rstrip(b"\n"), escaped, 1)
    files["stat"] = b"%d (%s) %s" % (pid, name, files["stat"].rpartition(b") ")[2])
    files["comm"] = name + b"\n"
    files["cmdline"] = random.choice((b"", b"\0" * 100, _named(random, 400), random.randbytes(300), b"a\0" * 70_000))
    for each in ("maps", "smaps"):
        files[each] = _cut(random, _lines_with_names(random, files[each]))
    with tempfile.TemporaryDirectory(prefix="heaptop-fuzz-") as folder:
        task = Path(folder, "task", str(pid))
        task.mkdir(parents=True)
        for place in (Path(folder), task):
            for each, data in files.items():
                (place / each).write_bytes(data)
        elsewhere = Elsewhere(pid)
        elsewhere.folder = folder
        facts = process.read_facts(elsewhere)
        assert facts.uids[0] == os.getuid()
        process.command_line(elsewhere)
        process.rss_bytes(elsewhere)
        threads.agent_thread(elsewhere)
        for mapping in read_mappings(elsewhere, pid):
            assert mapping.start <= mapping.end
        vmas = smaps.parse(files["smaps"].decode(errors="replace"))
        sorts = list(smaps.classified(vmas))
        assert len(sorts) == len(vmas)
        if random.random() < 0.05:  # which also searches the memory, of this process, and takes its time
            memory_map.read(elsewhere)


TARGETS: Final[dict[str, Case]] = {
    "codec": codec,
    "framing": framing,
    "session": session,
    "recording": recording,
    "elf": elf_images,
    "proc": proc,
}
EXPECTED: Final = HeaptopError
"""Any other exception is a finding."""
