"""Redaction of heap dumps: whose names stay, what is renamed, and what no piece is."""

from __future__ import annotations

import ast
import struct
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from heaptop.dumps import redacting
from heaptop.dumps.redacting import AS_THEY_ARE, Renames, _texts
from heaptop.dumps.standard_names import StandardNames
from heaptop.errors import DumpDamaged
from heaptop.protocol.findings import NOTED
from heaptop.protocol.messages import (
    Bye,
    Census,
    Core,
    Failure,
    Hello,
    MallocBlocks,
    MallocFrame,
    MallocSite,
    MallocSites,
    Memory,
    Message,
    Outside,
    Region,
    TypeName,
)
from heaptop.recordings.recording_state import TOLD

MODULES = {"shop.models", "_sitebuiltins", "threading", "collections", "types", "builtins"}


@pytest.fixture(scope="module")
def standard() -> StandardNames:
    return StandardNames(MODULES)


@pytest.fixture
def renames(standard: StandardNames) -> Renames:
    return Renames(MODULES, standard, keeps_words=True)


@pytest.mark.parametrize(
    ("module", "qualname"),
    [
        ("builtins", "dict"),
        ("", "dict"),
        ("builtins", "dict_keys"),
        ("collections", "OrderedDict"),
        ("threading", "Thread"),
        ("_frozen_importlib", "ModuleSpec"),
        ("_thread", "lock"),
    ],
)
def test_types_of_python_keep_their_names(renames: Renames, module: str, qualname: str) -> None:
    assert renames.type(TypeName(module, qualname)) == TypeName(module, qualname)
    assert renames.old == {}


@pytest.mark.parametrize(
    ("module", "qualname", "expected"),
    [
        ("shop.models", "Session", "module-1.type-1"),
        ("__main__", "Session", "__main__.type-1"),
        ("types", "Secret", "types.type-1"),
        ("builtins", "Secret", "type-1"),
        ("test.secret_customers", "Case", "module-1.type-1"),
        ("collections", "Secret.OrderedDict", "collections.type-1"),
    ],
)
def test_types_of_a_program_are_renamed(renames: Renames, module: str, qualname: str, expected: str) -> None:
    """Also those that claim to be of a module of Python, as what ``types.new_class`` makes."""
    assert renames.type(TypeName(module, qualname)).full == expected
    assert renames.type(TypeName(module, qualname)).full == expected, "the same once more"


@pytest.mark.parametrize(
    "label",
    [
        "",
        "[*]",
        "[12]",
        "(a key)",
        "held by C",
        "module threading",
        "module os.path",
        ".__dict__",
        "._Printer__name",
        ".co_consts",
        "._active",
        "frame Thread.run() local self",
        "frame Thread._bootstrap() globals",
        "frame <module>()",
        "frame Thread.__init__.<locals>.<genexpr>()",
        "closure of threading.Thread.__init__: __class__",
        "default argument timeout of threading.Thread.join",
        "lru_cache",
    ],
)
def test_labels_of_python_stay(renames: Renames, label: str) -> None:
    assert renames.label(label) == label


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (".invoices_due", ".attribute-1"),
        (".invoices_due of a thread", ".attribute-1 of a thread"),
        ("module shop.models", "module module-1"),
        ("another interpreter's module shop", "another interpreter's module module-1"),
        ("frame pay_invoice() local amount_due", "frame function-1() local variable-1"),
        ("frame Thread.run() local amount_due", "frame Thread.run() local variable-1"),
        ("coroutine pay_invoice() value in use", "coroutine function-1() value in use"),
        ("async generator pay_invoice()", "async generator function-1()"),
        ("closure of shop.models.pay_invoice: amount_due", "closure of module-1.function-1: variable-1"),
        ("default argument amount_due of pay_invoice", "default argument variable-1 of function-1"),
        ("lru_cache of shop.models.pay_invoice", "lru_cache of module-1.function-1"),
        ("frame <generic parameters of pay_acme>()", "frame function-1()"),
        ("frame <annotation>()", "frame function-1()"),
        ("context variable amount_due", "context variable variable-1"),
        ("amount due", "label-1"),
        (".a\nsecret", ".attribute-1"),
    ],
)
def test_labels_of_a_program_are_renamed(renames: Renames, label: str, expected: str) -> None:
    assert renames.label(label) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ann/.pyenv/lib/python3.12/threading.py", "/redacted/lib/python3.12/threading.py"),
        ("/home/ann/.pyenv/lib/python3.12/secret_plan.py", "/redacted/file-1.py"),
        ("/home/ann/shop/lib/python3.12/../secret/threading.py", "/redacted/file-1.py"),
        ("/home/ann/shop/models.py", "/redacted/file-1.py"),
        ("/home/ann/v/lib/python3.12/site-packages/flask/app.py", "/redacted/site-packages/file-1.py"),
        ("/home/ann/bin/python3.12", "/redacted/python3.12"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("/lib/x86_64-linux-gnu/libm-2.31.so", "/lib/x86_64-linux-gnu/libm-2.31.so"),
        ("/usr/lib/libstdc++.so.6.0.30", "/usr/lib/libstdc++.so.6.0.30"),
        ("/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-x86_64.so.1"),
        ("/usr/lib/ann/secret.so", "/redacted/file-1.so"),
        ("/usr/lib/x86_64-linux-gnu/libacme.so.6", "/redacted/file-1"),
        ("/usr/lib/acme-linux-gnu/libc.so.6", "/redacted/file-1"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("<frozen secret>", "<file-1>"),
        ("<string>", "<string>"),
        ("", ""),
    ],
)
def test_files_of_python_and_the_system_lose_their_folder_and_others_their_name(
    renames: Renames, path: str, expected: str
) -> None:
    assert renames.file(path) == expected


def test_only_messages_that_are_known_are_passed_on(renames: Renames) -> None:
    """Messages of any kind may contain names of the program."""
    hello = Hello(1, "token", 4711, "3.12.1", "/home/ann/bin/python", (), True, 1)
    told: list[Message] = [hello, Failure(1, "secret"), Bye("secret"), Core(1, "", False, False, "secret")]
    assert [*renames.messages(told)] == [Hello(1, "", 4711, "3.12.1", "", (), True, 1)]
    assert not {*AS_THEY_ARE} & {*NOTED, Failure}
    assert {*AS_THEY_ARE} & {*TOLD}


def test_mappings_are_renamed(renames: Renames) -> None:
    regions = (
        Region("file", "/home/ann/shop/fast.so", 1, 1),
        Region("stack", "thread 4711 secret worker", 1, 1),
        Region("own", "agent's thread: malloc's arena", 1, 1),
        Region("shared", "/dev/shm/secret", 1, 1),
    )
    outside = Outside(regions, 0, 0, 0, None, 1, ("/proc/1/maps cannot be read",))
    (found,) = renames.messages([Memory(1, 1, 1, outside=outside)])
    assert isinstance(found, Memory)
    assert found.outside is not None
    library, stack, own, shared = (region.name for region in found.outside.regions)
    assert (library, stack, shared) == ("/redacted/file-1.so", "thread 4711 thread-1", "/redacted/file-2")
    assert own == "agent's thread: malloc's arena"
    assert found.outside.gaps == ("(redacted)",)


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("anonymous", "acme payments cache", "memory-1"),
        ("kernel", "[anon_shmem:acme]", "memory-1"),
        ("own", "acme", "memory-1"),
        ("kernel", "[vdso]", "[vdso]"),
        ("anonymous", " glibc: pthread stack: 4711", " glibc: pthread stack: 4711"),
        ("anonymous", "", ""),
        ("heap", "threads", "threads"),
        ("stack", "thread 4711", "thread 4711"),
    ],
)
def test_memory_that_the_program_has_named_is_renamed(renames: Renames, kind: str, name: str, expected: str) -> None:
    assert renames._region(Region(kind, name, 1, 1)).name == expected


def test_native_sites_are_renamed(renames: Renames) -> None:
    frames = (
        MallocFrame("/home/ann/pay.py", "pay_acme", 3),
        MallocFrame("/x/lib/python3.12/json/decoder.py", "decode", 4),
    )
    sites = (
        MallocSite("/home/ann/libacme.so", "acme_alloc", frames, "", (MallocBlocks(64, 64, 1024, 2),)),
        MallocSite("?", "", (), "early", ()),
        MallocSite("?", "", (), "acme", ()),
    )
    outside = Outside((), 0, 0, 0, None, 1, (), native=MallocSites(1024, 1024, 1, 0, 0, sites))
    (found,) = renames.messages([Memory(1, 1, 1, outside=outside)])
    assert isinstance(found, Memory)
    assert found.outside is not None
    assert found.outside.native is not None
    first, second, third = found.outside.native.sites
    assert (first.library, first.symbol) == ("/redacted/file-1.so", "function-1")
    assert first.stack[0] == MallocFrame("/redacted/file-2.py", "function-2", 3)
    assert first.stack[1] == MallocFrame("/redacted/lib/python3.12/json/decoder.py", "decode", 4)
    assert first.blocks == sites[0].blocks
    assert (second, third.gap) == (sites[1], "")


def test_sentences_that_name_a_file_are_left_out(renames: Renames) -> None:
    """The program's malloc is that of a library, or of the program itself by the name it was called by."""
    said = "The program's malloc is not glibc's but that of acme_app."
    census = Census(1, 1, "python", False, "it ended at /home/ann", (), 1, 1, 1, 1, 0, mode_reason="none in /home/ann")
    memory, counted = renames.messages([Memory(1, 1, 1, malloc_gap=said, malloc_library="acme_app"), census])
    assert isinstance(memory, Memory)
    assert (memory.malloc_library, memory.malloc_gap) == ("/redacted/file-1", "The program's malloc is not glibc's.")
    assert isinstance(counted, Census)
    assert (counted.cut, counted.mode_reason) == ("(redacted)", "(redacted)")


# -- pieces --------------------------------------------------------------------------------------------------


MAGIC = int.from_bytes(b"dump", "little")


def piece(section: int, texts: list[bytes], *, labels: bytes = b"", places: bytes = b"") -> bytes:
    """Labels of 5 bytes, and places of 4."""
    head = struct.pack("<8I", MAGIC, 1, section, 0, 0, len(texts), len(labels) // 5, len(places) // 4)
    packed = (bytes([len(text) & 127 | 128, len(text) >> 7]) + text for text in texts)
    return head + b"".join(packed) + labels + places + b"rest"


def texts_of(content: bytes) -> list[str]:
    return _texts(content, 32, struct.unpack_from("<8I", content)[5])[0]


def test_a_text_is_renamed_by_what_it_is_first_used_for(renames: Renames) -> None:
    texts = [b"", b"/home/ann/a.py", b"worker 7", b"shop.models.Session", b"pay()"]
    renamed = renames.piece(piece(1, texts, places=bytes((1, 2, 5, 6))))
    assert texts_of(renamed) == ["", "/redacted/file-1.py", "thread-1", "module-1.type-1", "function-1()"]
    assert renamed.endswith(bytes((1, 2, 5, 6)) + b"rest")
    edges = piece(3, [b".invoices_due", b"shop.models.Session"], labels=bytes((2, 0, 0, 5, 0)))
    assert texts_of(renames.piece(edges)) == [".attribute-1", ""], "what nobody uses is left out"


def test_of_a_dump_with_contents_no_object_is_described_in_words(standard: StandardNames) -> None:
    renames = Renames(MODULES, standard, keeps_words=False)
    assert texts_of(renames.piece(piece(1, [b"'secret'", b"shop.models.Session", b"42"]))) == ["", "", ""]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x" * 31,
        piece(1, [b"abc"])[:35],
        struct.pack("<8I", MAGIC, 1, 1, 0, 0, 1 << 31, 0, 0),
        b"\xff" * 64,
        struct.pack("<8I", MAGIC + 1, 1, 1, 0, 0, 0, 0, 0),
        struct.pack("<8I", MAGIC, 2, 1, 0, 0, 0, 0, 0),
        piece(6, [b"abc"]),
        piece(1, [b"a" * 600]),
        struct.pack("<8I", MAGIC, 1, 1, 0, 0, 1, 0, 0) + b"\x80" * 10 + b"\0",
        struct.pack("<8I", MAGIC, 1, 1, 0, 0, 0, 1, 0) + b"\0" * 3 + b"\xff" * 10 + b"\0\0",
    ],
    ids=[
        "empty",
        "no head",
        "half a text",
        "texts without end",
        "ones",
        "magic",
        "format",
        "section",
        "long text",
        "long number",
        "label's number",
    ],
)
def test_what_is_no_piece_is_refused(renames: Renames, content: bytes) -> None:
    with pytest.raises((IndexError, ValueError, struct.error)):
        renames.piece(content)


def test_a_name_of_dots_alone_is_looked_up_in_its_beginning(renames: Renames, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label of a message may be a million characters long."""
    asked: list[str] = []
    monkeypatch.setattr(renames, "_is_module", lambda name: asked.append(name) or False)
    assert renames.label("lru_cache of " + "a." * 500_000) == "lru_cache of function-1"
    assert 0 < len(asked) <= 1024


def test_the_longest_text_that_the_core_reads_is_renamed(renames: Renames) -> None:
    renamed = renames.piece(piece(1, [b"a" * 599], places=bytes((0, 9, 1, 1))))
    assert texts_of(renamed) == ["/redacted/file-1"]


def test_names_that_are_replaced_are_bounded(renames: Renames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redacting, "MOST_NAMES", 2)
    renames.piece(piece(1, [b"acme.a", b"acme.b", b"acme.a"]))
    with pytest.raises(DumpDamaged, match="more than 2 names"):
        renames.piece(piece(1, [b"acme.c"]))


# -- names of Python -----------------------------------------------------------------------------------------


def test_a_module_is_parsed_and_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Any] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda *said: parsed.append(said) or parse(*said))
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imported {name}"))
    assert StandardNames(["this", "this"]).has("this", "s")
    assert len(parsed) == 1


@pytest.mark.parametrize(
    "name",
    [
        "os.{}",
        "email./{}",
        "email.....{}",
        "email.",
        "email.a-b",
        "os.\0",
        "email." + "x" * 5000,
        "email" + ".email" * 500,
    ],
)
def test_only_identifiers_joined_by_dots_are_modules(tmp_path: Path, name: str) -> None:
    (tmp_path / "evil.py").write_text("acme_secret = 1")
    name = name.format(tmp_path / "evil")
    names = StandardNames([name])
    assert not names.has_module(name)
    assert not names.has_attribute("acme_secret")


@pytest.mark.parametrize(
    "name",
    [
        "{}",
        "./site-packages/README.txt",
        "json//decoder.py",
        "json/../json/decoder.py",
        "json/\0",
        "x" * 5000,
        "lib-dynload/_json.acme_secret.so",
        "lib-dynload/../json/decoder.py",
    ],
)
def test_only_files_below_the_library_are_its_files(tmp_path: Path, name: str, standard: StandardNames) -> None:
    (tmp_path / "evil.py").touch()
    assert not standard.has_file(name.format(tmp_path / "evil.py"))


def test_extensions_of_the_library_keep_their_names(standard: StandardNames) -> None:
    assert standard.has_file("lib-dynload/_json.cpython-312-x86_64-linux-gnu.so")
    assert standard.has_file("json/decoder.py")


@pytest.mark.parametrize(
    "source",
    [
        b"def",
        b"x = '\0'",
        b"x = " + b"(" * 5000,
        b"x = " + b"-" * 2_000 + b"1",
        b"# coding: none",
        b"x = " + b"a." * 2_000 + b"a",
    ],
)
def test_a_source_that_cannot_be_parsed_has_no_names(tmp_path: Path, standard: StandardNames, source: bytes) -> None:
    (tmp_path / "this.py").write_bytes(source)
    standard = copy(standard)
    standard._folder, standard._of_module = tmp_path, {}
    assert not standard.has("this", "s")


def test_variables_of_functions_are_no_names_that_stay() -> None:
    names = StandardNames(["calendar"])
    assert names.has("calendar", "TextCalendar.formatmonth")
    assert not names.has("calendar", "themonth")
