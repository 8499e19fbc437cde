"""What is promised of the JSON that commands print: schemas that are up to date, and keys that stay."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest
from jsonschema import Draft202012Validator

from heaptop import documents
from heaptop.cli import build_parser
from heaptop.fleet.triggers import ProcessReadings
from heaptop.injector.diagnosis import Check
from heaptop.protocol.findings import GrownRow, Lint, MarkFacts, Suspect
from heaptop.protocol.messages import Malloc, Pymalloc
from tests.support import json_documents, json_schemas

SCHEMAS = json_schemas.schemas()
STORED = sorted(json_documents.STORED.glob("*/*.json"))


def test_the_schemas_of_the_documentation_are_those_of_the_code() -> None:
    """``make schemas`` writes them."""
    files = {json_schemas.file_of(name): json_schemas.text_of(schema) for name, schema in SCHEMAS.items()}
    assert {path.name for path in json_schemas.FOLDER.iterdir()} == {path.name for path in files}
    assert [path.name for path, text in files.items() if path.read_text() != text] == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_is_one_and_describes_its_document(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert {"schema", "version"} <= set(SCHEMAS[name]["required"])
    assert SCHEMAS[name]["description"]


def test_no_promised_key_has_vanished_or_changed_its_type() -> None:
    assert json_schemas.broken(json_schemas.promised(), json_schemas.keys()) == []


@pytest.mark.parametrize(
    ("now", "is_broken"),
    [
        ({"a/1 rows[].x?": "integer null", "a/1 new": "string"}, False),
        ({"a/1 rows[].x": "integer"}, False),
        ({"a/1 rows[].y": "integer"}, True),
        ({"a/1 rows[].x": "integer string"}, True),
        ({"a/1 rows?[].x": "integer"}, True),
        ({"a/2 rows[].y": "integer"}, False),
    ],
    ids=["as before", "is always there", "vanished", "another type", "not always there", "a new version"],
)
def test_a_promise_is_broken_by_what_a_reader_would_trip_over(now: dict[str, str], is_broken: bool) -> None:
    assert bool(json_schemas.broken({"a/1 rows[].x?": "integer null"}, now)) == is_broken


def test_a_document_of_which_nothing_was_promised_is_new() -> None:
    """``python -m tests.support.json_schemas --promise`` promises the keys of today: at a release."""
    promised = {key.partition(" ")[0] for key in json_schemas.promised()}
    assert {"heaptop.census/1", "heaptop.leaks/1", "heaptop.why/1"} <= promised


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_earlier_versions_printed_has_no_key_that_is_unknown_today(path: Path) -> None:
    document = json.loads(path.read_text())
    name = document.get("schema") or json_documents.schema_of(path.stem)
    schema = SCHEMAS[f"{name}/{document.get('version', 1)}"]
    # In 0.1 schema and version were not there.
    Draft202012Validator(json_schemas.strict(schema, required=False)).validate(document)


def test_every_command_that_prints_json_is_tried_on_a_live_process() -> None:
    actions = build_parser()._actions
    (commands,) = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    with_json = {name for name, parser in commands.choices.items() if "--json" in parser._option_string_actions}
    tried = {command.split()[0] for _, command in json_documents.COMMANDS.values() if "--json" in command}
    assert with_json == tried


@pytest.mark.parametrize(
    ("plain", "printed", "more"),
    [
        (Suspect, documents.SuspectJson, {"rank"}),
        (MarkFacts, documents.MarkJson, {"seconds"}),
        (GrownRow, documents.GrownRowJson, set()),
        (Lint, documents.LintJson, set()),
        (Pymalloc, documents.ArenasJson, set()),
        (Malloc, documents.MallocJson, set()),
        (Check, documents.CheckJson, set()),
        (ProcessReadings, documents.ReadingsJson, {"seconds_left"}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_records_that_are_printed_whole_have_a_key_for_each_field(plain: type, printed: type, more: set[str]) -> None:
    """mypy does not see it: they become dicts at run time."""
    assert {field.name for field in fields(plain)} | more == {*get_type_hints(printed)}
