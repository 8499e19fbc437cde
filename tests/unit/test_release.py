"""What is written in several places about a release agrees: versions of Python, packages, workflows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from heaptop.toml_file import parsed
from release import pyz

WORKFLOWS = sorted((pyz.ROOT / ".github" / "workflows").glob("*.yml"))


def project() -> dict[str, Any]:
    path = pyz.ROOT / "pyproject.toml"
    read: dict[str, Any] = parsed(path, path.read_bytes())["project"]
    return read


def test_every_python_that_heaptop_names_is_tested_and_in_the_single_file() -> None:
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    assert tuple(named) == pyz.PYTHONS
    workflow = yaml.safe_load((pyz.ROOT / ".github/workflows/tests.yml").read_text())
    assert tuple(workflow["jobs"]["quick"]["strategy"]["matrix"]["python"]) == pyz.PYTHONS


def test_the_single_file_has_every_package_that_heaptop_needs() -> None:
    needed = {re.split(r"[^A-Za-z0-9-]", each)[0] for each in project()["dependencies"]}
    pinned = dict(re.findall(r"^([a-z0-9_-]+)==(\S+)", pyz.PINS.read_text(), re.MULTILINE))
    assert needed - pinned.keys() == set(pyz.LEFT_OUT)
    assert "textual>=8.2,<9" in project()["dependencies"]
    assert pinned["textual"].startswith("8.")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_pin_actions_by_major_version_and_ask_for_few_rights(path: Path) -> None:
    text = path.read_text()
    actions = re.findall(r"uses: (\S+)", text)
    assert actions
    assert [each for each in actions if not re.fullmatch(r"\./\S+|[\w/-]+@(v\d+|release/v\d+)", each)] == []
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job or "uses" in job for job in workflow["jobs"].values())


def test_only_the_jobs_that_publish_may_write() -> None:
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].items()]
    rights = {name: job["permissions"] for name, job in jobs if "permissions" in job}
    assert rights == {"publish": {"id-token": "write"}, "attach": {"contents": "write"}}
