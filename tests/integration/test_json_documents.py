"""What commands print as JSON on a live process keeps to its schema, and has no key that the schema does not know."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support import json_documents, json_schemas


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    return dict(json_documents.documents())


@pytest.mark.parametrize("name", [*json_documents.COMMANDS, "guard"])
def test_a_document_keeps_to_its_schema(printed: dict[str, Any], name: str) -> None:
    document = printed[name]
    assert (document["schema"], document["version"]) == (json_documents.schema_of(name), 1)
    assert [*document][:2] == ["schema", "version"], "they are at its top"
    schema = json_schemas.schemas()[f"{document['schema']}/{document['version']}"]
    Draft202012Validator(json_schemas.strict(schema)).validate(document)


def test_the_documents_have_what_they_are_about(printed: dict[str, Any]) -> None:
    """An empty list keeps to any schema."""
    assert printed["leaks"]["suspects"]
    assert printed["leaks-gate"]["gate"]["ignored"]
    assert printed["record"]["leaks"]["marks"]
    assert printed["why-retainers"]["retainers"]
    assert printed["why-object"]["referrers"]
    assert printed["doctor-refused"]["error"]
    assert printed["export"]["over_time"]["types"]["rows"]
    assert printed["guard"]["census"]["rows"]
    assert all(printed[name]["rows"] for name in printed if name.startswith(("census-", "diff", "waste")))


JQ = re.findall(r"^heaptop (\w+) .*\| (jq .*)$", (json_documents.ROOT / "docs/json.md").read_text(), re.MULTILINE)


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq")
@pytest.mark.parametrize(("name", "command"), JQ)
def test_the_examples_with_jq_find_something(printed: dict[str, Any], name: str, command: str) -> None:
    done = subprocess.run(
        ["sh", "-c", command], input=json.dumps(printed[name]), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() not in ("", "null", "[]")
