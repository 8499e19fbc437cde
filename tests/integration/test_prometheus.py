"""What is shipped for the host agent, held against the real Prometheus: its rules, and what it makes of the metrics."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families

from heaptop.fleet.metrics import OPEN_METRICS, HostMeters
from heaptop.injector.inspect.privileges import NAMES
from tests.interpreters import Interpreter
from tests.support import engines
from tests.support.engines import queried
from tests.support.processes import PATIENCE, eventually, running
from tests.support.serving import RULE, serving, shipped_environment

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
RULES: Final = DEPLOY / "prometheus-rules.yml"
DASHBOARD: Final = DEPLOY / "grafana-dashboard.json"
MADE_BY_RULES: Final = re.compile(r"heaptop:[\w:]+")


@pytest.mark.pythons("3.12")
def test_prometheus_names_type_site_and_holder_of_a_leak_and_fires(interpreter: Interpreter, tmp_path: Path) -> None:
    word = f"served-{uuid.uuid4().hex}"
    with (
        running(interpreter, "leaking_fast", "1000000", word),
        serving(tmp_path / "fleet.toml", f"hunt = 8\n{RULE.format(word=word)}") as serve,
        engines.prometheus(serve.address, tmp_path, RULES) as prometheus,
    ):

        def fastest(metric: str, label: str) -> list[str]:
            found = queried(prometheus, f'topk(1, deriv({metric}{{service="served"}}[10s]) > 200000)')
            return [labels[label] for labels, _ in found]

        assert eventually(lambda: fastest("heaptop_live_bytes", "type") == ["bytearray"])
        assert eventually(lambda: any("leaking_fast.py" in each for each in fastest("heaptop_site_live_bytes", "site")))
        (site,) = fastest("heaptop_site_live_bytes", "site")
        assert site.endswith("Session.__init__")
        firing = 'ALERTS{alertname="PythonLeaks", alertstate="firing", type="__main__.Session"}'
        assert eventually(lambda: queried(prometheus, firing), 4 * PATIENCE), serve.process.stderr()
        ((alert, _),) = queried(prometheus, firing)
        assert (alert["service"], alert["verdict"]) == ("served", "leak")
        assert "leaking_fast.py" in alert["site"]
        assert alert["holder"] == "module __main__ ._sessions"
        assert [value for _, value in queried(prometheus, "up")] == [1]


@pytest.mark.pythons("3.12")
def test_prometheus_scrapes_open_metrics_whole(interpreter: Interpreter, tmp_path: Path) -> None:
    """Units are in no other form that it reads; its parser refuses a whole scrape for one line that is wrong."""
    word = f"served-{uuid.uuid4().hex}"
    with (
        running(interpreter, "answering", "20", word),
        serving(tmp_path / "fleet.toml", RULE.format(word=word)) as serve,
        engines.prometheus(serve.address, tmp_path) as prometheus,
    ):
        assert eventually(lambda: queried(prometheus, "heaptop_pause_seconds_count > 5"))
        assert eventually(lambda: queried(prometheus, 'heaptop_site_allocated_bytes_total{site!="other"} > 0'))
        assert eventually(lambda: engines.units(prometheus).get("heaptop_live_bytes") == "bytes")
        units = engines.units(prometheus)
        assert (units["heaptop_pause_seconds"], units["heaptop_agent_cpu_seconds"]) == ("seconds", "seconds")
        assert queried(prometheus, "up == 0 or min_over_time(up[5m]) == 0") == []
        exposed = {family.name for family in open_metrics_families(serve.get("metrics", accept=OPEN_METRICS).decode())}
        assert units.keys() == exposed
        names = {labels["__name__"] for labels, _ in queried(prometheus, '{__name__=~"heaptop_.*"}')}
        assert names == {name for name, samples in serve.metrics().items() if samples}


@pytest.mark.pythons("3.12")
def test_victoria_metrics_finds_the_same(interpreter: Interpreter, tmp_path: Path) -> None:
    word = f"served-{uuid.uuid4().hex}"
    with (
        running(interpreter, "leaking_fast", "1000000", word),
        serving(tmp_path / "fleet.toml", RULE.format(word=word)) as serve,
        engines.victoria_metrics(serve.address, tmp_path) as victoria,
    ):

        def fastest(metric: str, label: str) -> list[str]:
            found = queried(victoria, f'topk(1, deriv({metric}{{service="served"}}[10s]) > 200000)')
            return [labels[label] for labels, _ in found]

        assert eventually(lambda: fastest("heaptop_live_bytes", "type") == ["bytearray"])
        assert eventually(lambda: any("leaking_fast.py" in each for each in fastest("heaptop_site_live_bytes", "site")))


def test_prometheus_reads_every_query_of_the_dashboard(tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels]
    assert len(set(places)) == len(panels) == len({each["id"] for each in panels})
    with engines.prometheus("http://127.0.0.1:9/", tmp_path, RULES) as prometheus:
        for target in (target for panel in panels for target in panel["targets"]):
            filled = target["expr"].replace("$service", ".*").replace("$instance", ".*")
            assert queried(prometheus, filled) == [], "there is no such metric here, and no error either"


def test_the_rules_fire_for_growth_and_for_nothing_else(tmp_path: Path) -> None:
    engines.need_engine("promtool")
    checks = tmp_path / "rules_test.yml"
    text = Path(__file__).with_name("prometheus_rules_test.yml").read_text()
    checks.write_text(text.replace("RULES", str(RULES)))
    for command in (["promtool", "check", "rules", RULES], ["promtool", "test", "rules", checks]):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=lambda file: file.name)
def test_what_is_shipped_uses_metrics_that_are_served(file: Path) -> None:
    text = file.read_text()
    used = set(re.findall(r"\bheaptop_\w+", text))
    documented = (DEPLOY.parent / "docs" / "fleet.md").read_text()
    own = {family.name for family in HostMeters().registry.collect()}
    for name in used:
        base = re.sub(r"_(count|bucket|sum)$", "", name)
        documented_or_own = f"`{base}`" in documented or base.startswith("heaptop_process_")
        assert documented_or_own or base.removesuffix("_total") in own, name
    recorded = set(re.findall(r"record: (\S+)", text))
    assert set(MADE_BY_RULES.findall(text)) <= recorded


def test_the_image_and_the_unit_set_the_same_environment() -> None:
    image = dict(re.findall(r"^ENV (\w+)=(\S+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
    assert image == shipped_environment() != {}


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("heaptop-serve.service", r"CapabilityBoundingSet=(.*)"), ("daemonset.yaml", r"add: \[(.*)\]")],
)
def test_what_is_shipped_has_the_capabilities_that_heaptop_keeps(name: str, pattern: str) -> None:
    match = re.search(pattern, (DEPLOY / name).read_text())
    assert match is not None
    given = {each.strip(" ,").removeprefix("CAP_") for each in match[1].split()}
    assert given == {each.removeprefix("CAP_") for each in (*NAMES, "CAP_SYS_ADMIN")}
