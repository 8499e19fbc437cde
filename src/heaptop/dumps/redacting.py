"""Renames what a heap dump says of the program: the file can be given to others, and has the same heap.

Types, modules, functions, attributes, variables, threads and files get names such as ``type-1``; those of the
interpreter and of the standard library are kept. Contents, the command line, the user and the paths of the machine go.
What is not known to be harmless is renamed, or left out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from heaptop.dumps.reader import HeapDump
from heaptop.dumps.standard_names import StandardNames
from heaptop.dumps.writer import DumpFile, DumpParts
from heaptop.errors import DumpDamaged
from heaptop.protocol.bounds import NAME
from heaptop.protocol.images import DUMP_SECTIONS, Blocks, ImageTypes, Place, Step, Waste
from heaptop.protocol.messages import (
    MALLOCS,
    OWN_ARENA,
    Census,
    CodeName,
    Codes,
    Hello,
    MallocFrame,
    MallocSite,
    Memory,
    Message,
    Outside,
    Phases,
    Region,
    Sampler,
    Tick,
    Traced,
    TypeName,
    Types,
)
from heaptop.protocol.recorded import KeptNumbers, KeptStacks, Likenesses, LiveBlocks, Tallied

REDACTED: Final = "(redacted)"  # In place of the command line, and of sentences that name a file
HOME: Final = "/redacted"  # In place of the folders of the machine
AS_THEY_ARE: Final = (Tick, Traced, KeptStacks, KeptNumbers, Tallied, Likenesses, LiveBlocks, Blocks)
"""Messages that have numbers only."""
TYPES_AT_ONCE: Final = 2000
MOST_NAMES: Final = 1 << 20  # That are replaced in one dump, and so kept: of types and of code, 2¹⁸ each may be named

_HEAD: Final = struct.Struct("<8I")
"""As ``native/dump/piece.h`` has it: magic, format, section, first, count, texts, labels, places."""
_MAGIC: Final = int.from_bytes(b"dump", "little")
_FORMAT: Final = 1
_LONGEST_TEXT: Final = 600  # Bytes: PIECE_TEXT. All these limits are those of `native/dump/reading.c`.
_LONGEST_NUMBER: Final = 10  # Bytes of a number of 64 bits
_OBJECTS: Final = 1  # The section whose texts may be an object in words

_WORDS: Final = frozenset(
    (
        "",
        "(inside)",
        "(a key)",
        "{*}",
        "[*]",
        "codec error handlers",
        "codec registry",
        "codec search functions",
        "exception handled",
        "exception raised",
        "exception to be raised",
        "held by C",
        "held by C (atexit)",
        "held by nothing",
        "hook for asynchronous generators",
        "interpreter",
        "lru_cache",
        "profile function",
        "static type",
        "sys.modules",
        "table of subclasses",
        "thread's context",
        "thread's storage",
        "trace function",
        "weakref callback",
    )
)
"""Labels that the core writes of itself."""
_matcher = partial(re.compile, flags=re.DOTALL)
_POSITION: Final = _matcher(r"\[\d+\]")
_ATTRIBUTE: Final = _matcher(r"\.(.+?)( of a thread)?")
_FRAME: Final = _matcher(
    r"((?:async )?generator|frame|coroutine) (.*?)\(\)"
    r"(?: (code|function|namespace|globals|builtins|frame object|trace function|value in use)| local (.+))?"
)
_CLOSURE: Final = _matcher(r"closure of (.*): (.*)")
_DEFAULT: Final = _matcher(r"default argument (.*?) of (.*)")
_CACHE: Final = _matcher(r"lru_cache of (.*)")
_VARIABLE: Final = _matcher(r"context variable (.*)")
_MODULE: Final = _matcher(r"((?:another interpreter's )?module) (.*)")

_KEPT_LOCALS: Final = frozenset(("self", "cls", "args", "kwargs", "__class__"))
_LIBRARY: Final = _matcher(r".*/(lib(?:64)?/python\d[\d.]*t?)/((?!site-packages|dist-packages).+)")
_SYSTEM: Final = _matcher(
    r"(?:/usr)?/lib(?:64)?/(?:x86_64-linux-(?:gnu|musl)/)?"
    r"(?:ld-linux-x86-64|ld-musl-x86_64|lib(?:anl|bz2|c|crypt|crypto|db|dl|expat|ffi|gcc_s|gdbm|lzma|m|mpdec|mvec|ncursesw|"
    r"nsl|panelw|pthread|readline|resolv|rt|sqlite3|ssl|stdc\+\+|tinfo|tirpc|util|uuid|z|zstd))(?:-[\d.]+)?\.so[\d.]*"
)
"""The C library, and libraries that Python itself is linked with: a program's own may be in these folders too."""
_PYTHON: Final = _matcher(r".*/((?:lib)?python[\d.]*[a-z]?(?:\.so[\d.]*)?)")
_ENDING: Final = _matcher(r".*(\.pyc?|\.so)")
_THREAD_REGION: Final = _matcher(r"(thread \d+) (.+)")
_REGIONS: Final = frozenset(
    (
        "",
        "main",
        "main thread",
        "threads",
        OWN_ARENA,
        "agent's thread: stack",
        "attach code",
        "collections",
        "names of types",
        "native core: data",
        "native core: library",
        "native samples",
        "sampler: tables",
        "what the open snapshot says",
    )
)
"""Names of memory that heaptop gives."""
_SYSTEM_REGION: Final = _matcher(
    r"\[\w+\]|thread \d+| ?glibc: (?:malloc(?: arena)?|loader malloc|fatal|pthread (?:user )?stack: \d+)"
)
"""Those of the kernel and of glibc: a program gives any others (``PR_SET_VMA_ANON_NAME``)."""
_STACK_GAPS: Final = frozenset(("none", "early", "full"))  # Why a site of native memory has no stack


def redact(dump: HeapDump, file: DumpFile) -> dict[str, str]:
    """Write all of a heap dump, which was not loaded, to a new file; by new name the old one. Errors: DumpDamaged,
    DumpFailed."""
    modules = {name.module for name in dump.types}
    renames = Renames(modules, StandardNames(modules), keeps_words=dump.info.values != "all")
    values = "none" if dump.info.values == "none" else "sizes"
    lacking = _remark(dump.info.lacking)
    info = replace(dump.info, command=REDACTED, user="", values=values, redacted=True, lacking=lacking)
    types = tuple(map(renames.type, dump.types))
    named = [ImageTypes(0, at, types[at : at + TYPES_AT_ONCE]) for at in range(0, len(types), TYPES_AT_ONCE)]
    state = [*renames.messages([dump.hello, *dump.state])]
    image = replace(dump.image, gaps=tuple(map(_remark, dump.image.gaps)))
    parts = DumpParts(state, [*named, image], [*renames.messages(dump.answers)])
    file.write(info, parts, _pieces(dump, renames))
    return renames.old


def _pieces(dump: HeapDump, renames: Renames) -> Iterator[bytes]:
    for piece in dump.pieces():
        try:
            yield renames.piece(piece)
        except (IndexError, ValueError, struct.error) as error:
            raise DumpDamaged(f"The heap dump {dump.path} has an invalid piece.") from error
    if not dump.whole:
        raise DumpDamaged(f"The heap dump {dump.path} is incomplete, and nothing was written.")


class Renames:
    """New names for those of a program, the same for the same wherever it is."""

    def __init__(self, modules: set[str], standard: StandardNames, *, keeps_words: bool) -> None:
        """``modules``: those of the program's types. Without ``keeps_words`` objects are not described in words, which
        may have their contents."""
        self.old: dict[str, str] = {}  # By new name
        self._new: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._modules = modules
        self._keeps_words = keeps_words
        self._standard = standard
        self._texts = 0  # Of the pieces so far

    def _rename(self, sort: str, name: str) -> str:
        """``type-1``; a name that was renamed before has the new one already. Errors: DumpDamaged."""
        new = self._new.get((sort, name))
        if new is None:
            if len(self._new) >= MOST_NAMES:
                raise DumpDamaged(f"The heap dump has more than {MOST_NAMES:,} names, and nothing was written.")
            number = self._counts[sort] = self._counts.get(sort, 0) + 1
            new = self._new[sort, name] = f"{sort}-{number}"
            self.old[new] = name
        return new

    # -- names ---------------------------------------------------------------------------------------------------

    def module(self, name: str) -> str:
        if name in ("", "__main__", "__mp_main__") or self._standard.has_module(name):
            return name
        return self._rename("module", name)

    def type(self, name: TypeName) -> TypeName:
        if self._standard.has(name.module or "builtins", name.qualname):
            return name
        return TypeName(self.module(name.module), self._rename("type", name.full))

    def function(self, qualname: str) -> str:
        """One that is named without its module."""
        return qualname if self._standard.has_attribute(qualname) else self._rename("function", qualname)

    def qualified(self, text: str) -> str:
        """``shop.models.Session``, or ``shop.handlers.index()``."""
        sort, name = ("function", text[:-2]) if text.endswith("()") else ("type", text)
        ends = [at for at, letter in enumerate(name[:NAME]) if letter == "." and self._is_module(name[:at])]
        module, inside = (name[: ends[-1]], name[ends[-1] + 1 :]) if ends else ("", name)
        if sort == "type":
            new = self.type(TypeName(module, inside)).full
        elif self._standard.has(module or "builtins", inside):
            new = name
        else:
            inside = self._rename("function", inside)
            new = f"{self.module(module)}.{inside}" if module else inside
        return new + text[len(name) :]

    def _is_module(self, name: str) -> bool:
        return name in self._modules or self._standard.has_module(name)

    def _attribute(self, name: str) -> str:
        return name if self._standard.has_attribute(name) else self._rename("attribute", name)

    def _variable(self, name: str, *, of_standard: bool = False) -> str:
        return name if of_standard or name in _KEPT_LOCALS else self._rename("variable", name)

    def thread(self, name: str) -> str:
        return name if name in ("", "MainThread") or name.isdigit() else self._rename("thread", name)

    def file(self, path: str) -> str:
        """Files of the standard library below another folder; the C library and libraries of Python as they are."""
        if path in ("", "<string>", "<stdin>") or _SYSTEM.fullmatch(path):
            return path
        if path.startswith("<"):
            is_frozen = self._standard.has_module(path.removeprefix("<frozen ").removesuffix(">"))
            return path if is_frozen else f"<{self._rename('file', path)}>"
        if (library := _LIBRARY.fullmatch(path)) and self._standard.has_file(library[2]):
            return f"{HOME}/{library[1]}/{library[2]}"
        if python := _PYTHON.fullmatch(path):
            return f"{HOME}/{python[1]}"
        folder = "/site-packages" if "/site-packages/" in path or "/dist-packages/" in path else ""
        ending = _ENDING.fullmatch(path)
        return f"{HOME}{folder}/{self._rename('file', path)}{ending[1] if ending else ''}"

    def label(self, text: str) -> str:
        """A label of a reference, as ``native/graph/labels.h`` has them."""
        if text in _WORDS or _POSITION.fullmatch(text):
            return text
        if found := _ATTRIBUTE.fullmatch(text):
            return f".{self._attribute(found[1])}{found[2] or ''}"
        if found := _FRAME.fullmatch(text):
            rest = f" local {self._variable(found[4])}" if found[4] else f" {found[3]}" if found[3] else ""
            return f"{found[1]} {self.function(found[2])}(){rest}"
        if found := _CLOSURE.fullmatch(text):
            maker = self._maker(found[1])
            return f"closure of {maker}: {self._variable(found[2], of_standard=maker == found[1])}"
        if found := _DEFAULT.fullmatch(text):
            maker = self._maker(found[2])
            return f"default argument {self._variable(found[1], of_standard=maker == found[2])} of {maker}"
        if found := _CACHE.fullmatch(text):
            return f"lru_cache of {self._maker(found[1])}"
        if found := _VARIABLE.fullmatch(text):
            return f"context variable {self._variable(found[1])}"
        if found := _MODULE.fullmatch(text):
            return f"{found[1]} {self.module(found[2])}"
        return self._rename("label", text)

    def _maker(self, name: str) -> str:
        return self.qualified(f"{name}()")[:-2]

    # -- messages ------------------------------------------------------------------------------------------------

    def messages(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Those that are known to be harmless once they are renamed."""
        for each in messages:
            if (renamed := self._message(each)) is not None:
                yield renamed

    def _message(self, message: Message) -> Message | None:
        match message:
            case Hello():
                return replace(message, executable="", token="")
            case Types():
                return replace(message, names=tuple(map(self.type, message.names)))
            case Codes():
                return replace(message, names=tuple(map(self._code, message.names)))
            case Phases():
                named = (replace(each, name=self._rename("phase", each.name)) for each in message.phases)
                return replace(message, phases=tuple(named))
            case Sampler():
                return replace(message, path=(HOME,), prefixes=(HOME,), text=_remark(message.text))
            case Census():
                return replace(message, mode_reason=_remark(message.mode_reason), cut=_remark(message.cut))
            case Memory():
                return self._memory(message)
            case Waste():
                rows = (replace(row, path=tuple(map(self._step, row.path))) for row in message.rows)
                return replace(message, rows=tuple(rows))
        return message if isinstance(message, AS_THEY_ARE) else None

    def _code(self, code: CodeName) -> CodeName:
        return replace(code, file=self.file(code.file), function=self.function(code.function))

    def _step(self, step: Step) -> Step:
        place = step.place and Place(self.file(step.place.file), step.place.line, self.thread(step.place.thread))
        return replace(step, label=self.label(step.label), place=place)

    def _memory(self, memory: Memory) -> Memory:
        gap = "The program's malloc is not glibc's." if memory.malloc_library else _remark(memory.malloc_gap)
        outside = memory.outside and self._outside(memory.outside)
        library, name = self.file(memory.malloc_library), memory.malloc_name if memory.malloc_name in MALLOCS else ""
        return replace(memory, outside=outside, malloc_library=library, malloc_gap=gap, malloc_name=name)

    def _outside(self, outside: Outside) -> Outside:
        native = outside.native
        if native is not None:
            native = replace(native, sites=tuple(map(self._native_site, native.sites)))
        regions = tuple(map(self._region, outside.regions))
        return replace(outside, regions=regions, gaps=tuple(map(_remark, outside.gaps)), native=native)

    def _region(self, region: Region) -> Region:
        if region.name in _REGIONS or _SYSTEM_REGION.fullmatch(region.name):
            return region
        if region.kind in ("file", "shared"):
            return replace(region, name=self.file(region.name))
        if found := _THREAD_REGION.fullmatch(region.name):
            return replace(region, name=f"{found[1]} {self.thread(found[2])}")
        return replace(region, name=self._rename("memory", region.name))

    def _native_site(self, site: MallocSite) -> MallocSite:
        return replace(
            site,
            library=site.library if site.library == "?" else self.file(site.library),
            symbol=site.symbol and self.function(site.symbol),
            stack=tuple(map(self._native_frame, site.stack)),
            gap=site.gap if site.gap in _STACK_GAPS else "",
        )

    def _native_frame(self, frame: MallocFrame) -> MallocFrame:
        return replace(frame, file=self.file(frame.file), function=self.function(frame.function))

    # -- pieces --------------------------------------------------------------------------------------------------

    def piece(self, piece: bytes) -> bytes:
        """With other texts. Raises IndexError, ValueError and struct.error where it is none."""
        magic, form, section, _, _, texts, labels, places = _HEAD.unpack_from(piece)
        if magic != _MAGIC or form != _FORMAT or section >= DUMP_SECTIONS:
            raise ValueError(section)
        said, at = _texts(piece, _HEAD.size, texts)
        sorts = _sorts(piece, at, labels, places)
        other = "words" if section == _OBJECTS and self._keeps_words else ""
        new = [self._text(sorts.get(self._texts + number, other), text) for number, text in enumerate(said)]
        self._texts += texts
        return b"".join((piece[: _HEAD.size], *map(_packed, new), piece[at:]))

    def _text(self, sort: str, text: str) -> str:
        match sort:
            case "label":
                return self.label(text)
            case "file":
                return self.file(text)
            case "thread":
                return self.thread(text)
            case "words":  # what an object is: the name of a type or a function
                return text and self.qualified(text)
        return ""


def _remark(text: str) -> str:
    """A sentence of heaptop's own; one that names a file is left out."""
    return REDACTED if "/" in text else text


def _texts(piece: bytes, at: int, count: int) -> tuple[list[str], int]:
    """And where they end."""
    found = []
    for _ in range(count):
        size, at = _number(piece, at)
        if size >= _LONGEST_TEXT or at + size > len(piece):
            raise ValueError(size)
        found.append(piece[at : at + size].decode(errors="replace"))
        at += size
    return found, at


def _sorts(piece: bytes, at: int, labels: int, places: int) -> dict[int, str]:
    """What each text is first used for, by its number."""
    found: dict[int, str] = {}
    for _ in range(labels):
        text, at = _number(piece, at + 3)  # behind its kind, its role, and whether it is of a frame
        _, at = _number(piece, at)
        found.setdefault(text, "label")
    for _ in range(places):
        for sort in ("file", "thread", "", ""):
            number, at = _number(piece, at)
            if sort:
                found.setdefault(number, sort)
    return found


def _number(piece: bytes, at: int) -> tuple[int, int]:
    """And where the next one begins. Raises IndexError at the end, ValueError where it does not end."""
    number = 0
    for place in range(_LONGEST_NUMBER):
        byte = piece[at + place]
        number |= (byte & 127) << 7 * place
        if byte < 128:
            return number, at + place + 1
    raise ValueError(at)


def _packed(text: str) -> bytes:
    content = text.encode()
    size, head = len(content), bytearray()
    while size >= 128:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes((*head, size)) + content
