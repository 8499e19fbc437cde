"""Heap dumps of live processes: what is read from the file is what the process says, whatever happens to either."""

from __future__ import annotations

import getpass
import json
import random
import re
import resource
import signal
import socket
import subprocess
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from heaptop.dumps.format import IMAGE, PIECE, BlockPacker, unpack_header
from heaptop.dumps.reader import HeapDump
from heaptop.errors import DumpDamaged, DumpError, NotADump, OutOfResources
from heaptop.injector.inspect.process import children
from heaptop.injector.inspect.threads import thread_ids
from heaptop.protocol.images import GROUPS, LOSE, OBJECT, OBJECTS, PATHS, Object, Objects, Question, Selection
from heaptop.recordings.format import frames
from tests import interpreters
from tests.interpreters import NEWEST, OLDEST
from tests.support import native
from tests.support.leaking import ENVIRONMENT, HEAPTOP, document, heaptop
from tests.support.processes import PATIENCE, Target, eventually, running, with_proc

pytestmark = pytest.mark.sample(2)
SESSION: Final = "__main__.Session"


@pytest.fixture(scope="module", params=[OLDEST, NEWEST])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    native.core()
    try:
        interpreter = interpreters.get(request.param)
    except interpreters.MissingInterpreter as error:
        pytest.skip(str(error))
    with running(interpreter, "why_planted", wrapper=with_proc(interpreter)) as started:
        yield started


@pytest.fixture(scope="module")
def dumped(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dumps") / "target.heapdump"
    done = heaptop("dump", target.pid, "-o", path)
    assert done.returncode == 0, done.stderr
    assert "objects" in done.stderr
    return path


def is_as_it_was(target: Target) -> bool:
    """Its own two threads, and no clone."""
    return len(thread_ids(target.pid)) == 2 and not children(target.pid)


def test_a_file_says_what_keeps_a_type_as_the_process_does(target: Target, dumped: Path) -> None:
    live, stored = (document("why", source, SESSION, "--retainers", 3) for source in (target.pid, dumped))
    assert live["count"] == 160
    for key in ("type", "count", "bytes", "paths", "retainers", "complete"):
        assert stored[key] == live[key], key
    assert is_as_it_was(target)


def test_a_file_describes_one_object_as_the_process_does(target: Target, dumped: Path) -> None:
    address = target.stdout().split()[-1]
    live, stored = (document("why", source, address) for source in (target.pid, dumped))
    own = {"pause_ms", "build_ms", "snapshot", "garbage", "preview"}
    assert {key: stored[key] for key in stored.keys() - own} == {key: live[key] for key in live.keys() - own}


def test_a_file_is_counted_and_explained_as_the_process_is(target: Target, dumped: Path) -> None:
    counted = {row["name"]: row["count"] for row in document("census", dumped)["rows"]}
    assert counted[SESSION] == 160
    assert document("census", dumped, "--by", "kind")["by"] == "kind"
    assert document("census", dumped, "--memory")["rss"] > 0
    assert document("waste", dumped)["rows"]


def test_a_file_has_the_sites_that_were_sampled_before_it(target: Target, dumped: Path, tmp_path: Path) -> None:
    sampled = tmp_path / "sampled.heapdump"
    assert heaptop("dump", target.pid, "-o", sampled, "--for", "1").returncode == 0
    assert document("census", sampled, "--by", "producer")["sampled"]["seconds"] == 1
    refused = heaptop("census", dumped, "--by", "producer")
    assert (refused.returncode, "has no allocation sites" in refused.stderr) == (2, True)


def test_two_files_of_one_process_tell_what_is_new(target: Target, dumped: Path, tmp_path: Path) -> None:
    later = tmp_path / "later.heapdump"
    assert heaptop("dump", target.pid, "-o", later).returncode == 0
    for after in (later, target.pid):
        rows = {row["name"]: row for row in document("diff", dumped, after)["rows"]}
        assert SESSION not in rows, "none came, none went"
    assert document("diff", dumped, later, "--by", "path")["by"] == "path"
    assert "A heap dump is compared with another heap dump" in heaptop("diff", dumped).stderr


def test_no_content_is_in_a_file_unless_it_was_asked_for(target: Target, dumped: Path, tmp_path: Path) -> None:
    assert b"key 7" not in contents(dumped)
    asked = tmp_path / "asked.heapdump"
    assert heaptop("dump", target.pid, "-o", asked, "--values", "all").returncode == 0
    assert b"key 7" in contents(asked)
    with HeapDump(str(asked)) as dump:
        assert dump.info.values == "all"


def contents(path: Path) -> bytes:
    with HeapDump(str(path)) as dump:
        return b"".join(content for head, content in dump._blocks() if head.kind == PIECE)


MANY: Final = 70_000


@pytest.mark.sample(1)
@pytest.mark.pythons(OLDEST, "3.13")
def test_a_file_of_more_types_than_16_bits_can_number_is_as_any_other(
    interpreter: interpreters.Interpreter, tmp_path: Path
) -> None:
    """Written, counted, asked, compared, redacted and exported: each type has its one object."""
    native.core()
    whole, shared = tmp_path / "whole.heapdump", tmp_path / "shared.heapdump"
    with running(interpreter, "many_types", str(MANY), wrapper=with_proc(interpreter)) as target:
        done = heaptop("dump", target.pid, "-o", whole)
        assert done.returncode == 0, done.stderr
    wanted = {f"__main__.Type{number}" for number in range(MANY)}
    counted = document("census", whole, "--top", 0)
    assert counted["complete"]
    assert {row["name"] for row in counted["rows"] if row["count"] == 1} >= wanted
    found = document("why", whole, f"__main__.Type{MANY - 1}")
    assert (found["count"], found["complete"], found["paths"][0]["count"]) == (1, True, 1)
    assert document("diff", whole, whole)["rows"] == []
    assert heaptop("redact", whole, "-o", shared).returncode == 0
    assert document("census", shared)["total"] == document("census", whole)["total"]
    with HeapDump(str(whole)) as dump:
        dump.load()
        names = [name.full for name in dump.types]
        numbers = (number for first in range(0, dump.image.objects, 100_000) for number in types_of(dump, first))
        exported = Counter(names[number] for number in numbers)
    assert all(exported[name] == 1 for name in wanted)


def types_of(dump: HeapDump, first: int) -> array[int]:
    """The column of types that a table has."""
    return array("I", dump.rows(first, 100_000)[5])


# -- redaction -----------------------------------------------------------------------------------------------

OF_THE_PROGRAM: Final = ("Session", "Registry", "Twin", "sessions", "worker", "never", "steady")
"""And ``cached``, which modules of the library have too, and ``rows``, a key of messages."""
SAME: Final = (GROUPS, OBJECTS, LOSE)


@pytest.fixture(scope="module")
def redacted(target: Target, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A dump with everything that one may have, and the same without names."""
    folder = tmp_path_factory.mktemp("redacted")
    whole, shared = folder / "whole.heapdump", folder / "shared.heapdump"
    done = heaptop("dump", target.pid, "-o", whole, "--for", "1", "--values", "all")
    assert done.returncode == 0, done.stderr
    done = heaptop("redact", whole, "-o", shared)
    assert done.returncode == 0, done.stderr
    assert [*folder.iterdir()] == [whole, shared] or {*folder.iterdir()} == {whole, shared}, "no file with the names"
    return whole, shared


def test_a_redacted_file_has_the_same_heap(redacted: tuple[Path, Path]) -> None:
    with HeapDump(str(redacted[0])) as whole, HeapDump(str(redacted[1])) as shared:
        assert (whole.info.redacted, shared.info.redacted) == (False, True)
        whole.load()
        shared.load()
        assert whole.counts() == shared.counts()
        for what in SAME:
            question = Question(what, limit=1_000_000)
            assert whole.ask(question) == shared.ask(question), what
        everything = whole.ask(Question(OBJECTS, limit=1_000_000))
        assert isinstance(everything, Objects)
        for row in random.Random(3).sample(everything.rows, 300):
            question = Question(OBJECT, Selection(addresses=(row.address,)), limit=20)
            one, other = whole.ask(question), shared.ask(question)
            assert isinstance(one, Object)
            assert isinstance(other, Object)
            assert (one.dominator, one.row, one.referrer_count) == (other.dominator, other.row, other.referrer_count)
            assert [link.address for link in one.referents] == [link.address for link in other.referents]
        paths = [dump.ask(Question(PATHS, limit=10_000)) for dump in (whole, shared)]
        figures = [sorted((group.count, group.bytes, group.retained) for group in each.groups) for each in paths]  # type: ignore[union-attr]
        assert figures[0] == figures[1]


def test_a_redacted_file_has_no_name_of_the_program(target: Target, redacted: tuple[Path, Path]) -> None:
    names = {*OF_THE_PROGRAM, "why_planted", "hunter2", "key 7", "Thread-1 (worker)", getpass.getuser()}
    names |= {str(target.folder), target.folder.name, str(Path(__file__).parents[2]), socket.gethostname()}
    before, after = (everything(path) for path in redacted)
    for name in (each for each in names if len(each) > 3):  # shorter ones are in binary numbers by chance
        assert not re.search(rb"\b" + re.escape(name.encode()) + rb"\b", after), name
    for name in OF_THE_PROGRAM:
        assert re.search(rb"\b" + re.escape(name.encode()) + rb"\b", before), f"{name} shows nothing"
    assert b"_bootstrap_inner" in after, "names of Python stay"


def everything(path: Path) -> bytes:
    """All of a file, decompressed."""
    content = path.read_bytes()
    with HeapDump(str(path)) as dump:
        *_, dump._at = begin = unpack_header(content, "file")
        return content[: begin[2]] + b"".join(block for _, block in dump._blocks())


def test_a_redacted_file_answers_as_any_other(redacted: tuple[Path, Path]) -> None:
    rows = {row["name"]: row for row in document("census", redacted[1])["rows"]}
    (session,) = [name for name, row in rows.items() if row["count"] == 160 and name.startswith("__main__.type-")]
    found = document("why", redacted[1], session)
    assert found["count"] == 160
    assert document("census", redacted[1], "--by", "producer")["rows"]
    assert document("census", redacted[1], "--memory")["rss"] > 0
    assert document("waste", redacted[1])["rows"]


def test_the_names_are_written_where_they_are_asked_for(dumped: Path, tmp_path: Path) -> None:
    shared, names = tmp_path / "shared.heapdump", tmp_path / "names.json"
    assert heaptop("redact", dumped, "-o", shared, "--names", names).returncode == 0
    assert SESSION in json.loads(names.read_text()).values()
    assert (names.stat().st_mode & 0o777, shared.stat().st_mode & 0o777) == (0o600, 0o600)
    refused = heaptop("redact", dumped, "-o", shared)
    assert (refused.returncode, "exists already" in refused.stderr) == (59, True)


def test_of_a_cut_file_nothing_is_written(dumped: Path, tmp_path: Path) -> None:
    cut, shared = tmp_path / "cut.heapdump", tmp_path / "shared.heapdump"
    cut.write_bytes(dumped.read_bytes()[:-200])
    refused = heaptop("redact", cut, "-o", shared)
    assert (refused.returncode, "is incomplete" in refused.stderr, shared.exists()) == (58, True, False)


# -- damage --------------------------------------------------------------------------------------------------


def test_a_cut_file_is_counted_as_partial_and_has_no_paths(dumped: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.heapdump"
    cut.write_bytes(dumped.read_bytes()[:-200])
    counted = document("census", cut)
    assert (counted["complete"], counted["total"]["count"] > 0) == (False, True)
    refused = heaptop("why", cut, SESSION)
    assert refused.returncode == 36
    assert "the heap dump is cut" in refused.stderr


def test_what_is_no_heap_dump_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"hdump\r\n\x1a", b"x" * 100):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(NotADump):
            HeapDump(str(tmp_path / "file"))
    for path in (tmp_path, tmp_path / "none", "/dev/null", "/dev/stdin"):
        with pytest.raises(NotADump):
            HeapDump(str(path))


def test_a_changed_file_is_refused_or_answers(dumped: Path, tmp_path: Path) -> None:
    """By the checks of the file; what passes them is checked by the core (tests/unit/native/test_core_dump.py)."""
    content, chance, refused = dumped.read_bytes(), random.Random(11), 0
    changed = tmp_path / "changed.heapdump"
    for _ in range(40):
        damaged = bytearray(content)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        changed.write_bytes(damaged)
        try:
            with HeapDump(str(changed)) as dump:
                dump.load()
                for what in (GROUPS, PATHS, OBJECTS):
                    dump.ask(Question(what))
        except (DumpError, OutOfResources):
            refused += 1
    assert refused > 20


def test_a_file_that_names_too_few_types_is_refused_at_once(dumped: Path, tmp_path: Path) -> None:
    nameless = tmp_path / "nameless.heapdump"
    content, packer = dumped.read_bytes(), BlockPacker()
    with HeapDump(str(dumped)) as dump:
        *_, begin = unpack_header(content, "file")
        dump._at = begin
        blocks = [(head.kind, block) for head, block in dump._blocks()]
        image = frames([dump.image])
    changed = [packer.pack(kind, image if kind == IMAGE else block) for kind, block in blocks]
    nameless.write_bytes(content[:begin] + b"".join(changed))
    refused = heaptop("census", nameless, "--timeout", "60")
    assert refused.returncode == 58, refused.stderr
    assert "types that it does not name" in refused.stderr


def test_a_file_that_claims_more_objects_than_memory_holds_is_refused(
    dumped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heaptop.dumps.reader.available_memory", lambda: 1 << 20)
    with HeapDump(str(dumped)) as dump, pytest.raises(OutOfResources):
        dump.load()


# -- ways out ------------------------------------------------------------------------------------------------


def begun(target: Target, path: Path, **options: Any) -> subprocess.Popen[str]:
    command = [*HEAPTOP, "dump", str(target.pid), "-o", str(path)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, **options)


def test_a_dump_that_is_killed_at_any_moment_leaves_the_process_as_it_was(target: Target, tmp_path: Path) -> None:
    since = time.monotonic()
    with begun(target, tmp_path / "whole") as whole:
        assert whole.wait(PATIENCE) == 0
    length = time.monotonic() - since
    for death in range(6):
        path = tmp_path / f"killed{death}"
        with begun(target, path) as running_dump:
            time.sleep(length * (death + 1) / 7)
            running_dump.send_signal(signal.SIGKILL)
            running_dump.wait(PATIENCE)
        eventually(lambda: is_as_it_was(target))
        if path.exists():
            try_to_read(path)
    assert target.process.poll() is None
    assert heaptop("census", target.pid).returncode == 0


def try_to_read(path: Path) -> None:
    """What is there of it, or a sentence."""
    try:
        with HeapDump(str(path)) as dump:
            dump.load()
            dump.counts()
    except (NotADump, DumpDamaged):
        pass


def test_ctrl_c_leaves_no_file_and_the_process_as_it_was(target: Target, tmp_path: Path) -> None:
    path = tmp_path / "interrupted"
    with begun(target, path) as running_dump:
        eventually(lambda: path.exists() or running_dump.poll() is not None)
        running_dump.send_signal(signal.SIGINT)
        code = running_dump.wait(PATIENCE)
    assert code in (0, 130), "it may have been done"
    assert path.exists() == (code == 0)
    eventually(lambda: is_as_it_was(target))


def test_a_full_disk_leaves_no_file(target: Target, tmp_path: Path) -> None:
    def small_files_only() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    path = tmp_path / "full"
    with begun(target, path, preexec_fn=small_files_only) as running_dump:
        assert running_dump.wait(PATIENCE) == 59
        assert running_dump.stderr is not None
        assert "cannot be written" in running_dump.stderr.read()
    assert not path.exists()
    eventually(lambda: is_as_it_was(target))


def test_a_file_that_is_there_stays(target: Target, dumped: Path) -> None:
    before = dumped.read_bytes()
    refused = heaptop("dump", target.pid, "-o", dumped)
    assert refused.returncode == 59
    assert dumped.read_bytes() == before
