"""Heap dumps as tables: each row is what the dump answers of the object, and the examples of the docs run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from heaptop.dumps.format import IMAGE, BlockPacker, unpack_header
from heaptop.dumps.reader import HeapDump
from heaptop.protocol.images import KINDS, OBJECT, OBJECTS, Object, Objects, Question, Selection
from heaptop.recordings.format import frames
from tests.support.leaking import leaking_sessions
from tests.support.processes import PATIENCE

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "howto" / "query-a-heap-dump.md"
EXAMPLES: Final = {
    code.split()[1]: code for code in re.findall(r"```python\n(import .*?)```", PAGE.read_text(), re.DOTALL)
}
"""By the library that each imports."""


def heaptop(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "heaptop", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parquet") / "before.heapdump"
    with leaking_sessions() as target:
        done = heaptop("dump", target.pid, "-o", path, "--for", "3")
        assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def table(dumped: Path) -> Path:
    pytest.importorskip("pyarrow")
    path = dumped.with_suffix(".parquet")
    done = heaptop("export", dumped, "--to", "parquet", "-o", path)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    return path


def test_the_core_gives_of_each_object_what_it_answers(dumped: Path) -> None:
    with HeapDump(str(dumped)) as dump:
        dump.load()
        everything = dump.ask(Question(OBJECTS, limit=10_000_000))
        assert isinstance(everything, Objects)
        rows: list[tuple[Any, ...]] = []
        while (columns := dump.rows(len(rows), 1000)) and columns[0]:
            views = (memoryview(each).cast(code) for each, code in zip(columns, "QQQQqIIbB", strict=True))
            rows += zip(*views, strict=True)
        assert dump.rows(len(rows) + 5, 1) == dump.rows(1 << 31, 1) == (b"",) * 9
        found = {
            address: (type_, size, retained, generation, kind, length, stack)
            for address, _, size, retained, length, type_, stack, generation, kind in rows
        }
        assert len(found) == len(rows) == everything.total
        for row in everything.rows:
            said = (row.type, row.size, row.retained, row.generation, row.kind, row.length, row.stack)
            assert found[row.address] == said
        assert any(row[6] for row in rows), "some were sampled"
        for address, dominator, *_ in rows[:: len(rows) // 200]:
            answer = dump.ask(Question(OBJECT, Selection(addresses=(address,)), limit=1))
            assert isinstance(answer, Object)
            assert answer.dominator == dominator


def test_the_table_has_a_row_for_each_object(dumped: Path, table: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with HeapDump(str(dumped)) as dump:
        dump.load()
        everything = dump.ask(Question(OBJECTS, limit=10_000_000))
        assert isinstance(everything, Objects)
        rows = {row["address"]: row for row in parquet.read_table(table).to_pylist()}
        assert len(rows) == everything.total
        for each in everything.rows:
            row = rows[each.address]
            assert (row["size"], row["retained"]) == (each.size, each.retained)
            assert (row["type"], row["root"]) == (dump.types[each.type].full, KINDS[each.kind])
            assert row["length"] == (None if each.length == -1 else each.length)
            assert row["generation"] == (None if each.generation == -1 else each.generation)
            assert (row["site"] is None) == (each.stack == 0)
    assert any(".py:" in (row["site"] or "") for row in rows.values()), "some were sampled"


@pytest.mark.parametrize("library", EXAMPLES)
def test_an_example_of_the_docs_runs(table: Path, library: str) -> None:
    pytest.importorskip(library)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", EXAMPLES[library]]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment, cwd=table.parent
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 5
    assert {*EXAMPLES} == {"duckdb", "pandas", "polars"}


def test_a_cut_dump_or_a_file_that_is_there_gives_no_table(dumped: Path, table: Path, tmp_path: Path) -> None:
    cut, path = tmp_path / "cut.heapdump", tmp_path / "cut.parquet"
    cut.write_bytes(dumped.read_bytes()[:-200])
    refused = heaptop("export", cut, "--to", "parquet", "-o", path)
    assert (refused.returncode, "is incomplete" in refused.stderr, path.exists()) == (58, True, False)
    before = table.read_bytes()
    refused = heaptop("export", dumped, "--to", "parquet", "-o", table)
    assert (refused.returncode, "exists already" in refused.stderr) == (60, True)
    assert table.read_bytes() == before


def test_a_file_that_names_too_few_types_gives_no_table(dumped: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    nameless, content, packer = tmp_path / "nameless.heapdump", dumped.read_bytes(), BlockPacker()
    with HeapDump(str(dumped)) as dump:
        *_, dump._at = begin = unpack_header(content, "file")
        blocks = [(head.kind, block) for head, block in dump._blocks()]
        image = frames([dump.image])
    changed = [packer.pack(kind, image if kind == IMAGE else block) for kind, block in blocks]
    nameless.write_bytes(content[: begin[2]] + b"".join(changed))
    refused = heaptop("export", nameless, "--to", "parquet", "-o", tmp_path / "x.parquet")
    assert (refused.returncode, "types that it does not name" in refused.stderr) == (58, True)
    assert not (tmp_path / "x.parquet").exists()


def test_without_the_package_the_error_names_the_extra(dumped: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from heaptop.__main__ import main\n"
        f"sys.exit(main(['export', {str(dumped)!r}, '--to', 'parquet', '-o', {str(tmp_path / 'x')!r}]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )
    assert (done.returncode, "pip install 'heaptop[parquet]'" in done.stderr) == (2, True)
    assert not (tmp_path / "x").exists()
