"""The dashboards ask for metrics that the services export, by the names and labels under which Prometheus has them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import lru_cache
from typing import Any, Final

import pytest

from tests.deploy.chart import CHART, ROOT, named, of_kind, render

DASHBOARDS: Final = sorted((CHART / "dashboards").glob("*.json"))
ADDED: Final = {"namespace", "pod", "container", "job", "instance", "le"}
"""Labels that a scrape by PodMonitor or a histogram adds."""
EXPORT_ALL: Final = """
import importlib, pathlib
from quorate.runtime.telemetry import metrics

made = {"counter": [], "histogram": [metrics.HOLDS], "observed": [metrics.LONGEST_HOLD]}

def kept(kind, declare):
    def declare_and_keep(*arguments, **more):
        made[kind].append(declare(*arguments, **more))
        return made[kind][-1]
    return declare_and_keep

for kind in made:
    setattr(metrics, kind, kept(kind, getattr(metrics, kind)))
importlib.import_module("quorate.runtime.telemetry.cluster_metrics")
for file in sorted(pathlib.Path("services").glob("*/metrics.py")):
    importlib.import_module(".".join(file.with_suffix("").parts))
running = metrics.start_metrics(service="all", instance="1")
for each in made["observed"]:
    each.read_by(lambda: [(1, {})])
for kind, record in {"counter": "add", "histogram": "record"}.items():
    for each in made[kind]:
        getattr(each, record)(1)
print(running.text())
"""
"""Every metric that a service declares gets a value, and is written by the exporter that all of them have."""


@lru_cache
def exported() -> frozenset[str]:
    """The names of all series."""
    done = subprocess.run(
        [sys.executable, "-c", EXPORT_ALL], check=True, capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    return frozenset(re.findall(r"^([a-z_]+)(?:\{.*\})? \S+$", done.stdout, re.MULTILINE))


def labels() -> set[str]:
    """Those that the services put on their series, off the sources of what they read and record."""
    sources = [*ROOT.glob("services/*/*.py"), *ROOT.glob("libs/quorate/runtime/**/*.py")]
    found = {each for file in sources for each in re.findall(r'"(kraft\.[a-z_.]+)":', file.read_text())}
    return {each.replace(".", "_") for each in found}


def expressions(dashboard: Any) -> list[str]:
    """What it asks Prometheus for, its variables included."""
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [*asked, *(each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query")]


@pytest.fixture(params=DASHBOARDS, ids=lambda file: file.stem)
def dashboard(request: pytest.FixtureRequest) -> Any:
    return json.loads(request.param.read_text())


def test_every_metric_is_one_that_a_service_exports(dashboard: Any) -> None:
    asked = {name for each in expressions(dashboard) for name in re.findall(r"\bkraft_\w+(?=[{,])", each)}

    assert len(asked) > 10
    assert set() == asked - exported()


def test_every_label_is_one_that_a_series_has(dashboard: Any) -> None:
    legends = " ".join(target["legendFormat"] for panel in dashboard["panels"] for target in panel["targets"])
    by = {label for each in expressions(dashboard) for group in re.findall(r"by \(([^)]*)\)", each)
          for label in group.split(", ")}  # fmt: skip

    assert set() == {*re.findall(r"\{\{(\w+)\}\}", legends), *by} - ADDED - labels()


def test_a_legend_names_only_labels_that_the_expression_keeps(dashboard: Any) -> None:
    """`sum` and `max` without `by` leave none."""
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            aggregated = re.search(r"\b(?:sum|max|min|avg)(?: by \(([^)]*)\))? \(|\b(?:sum|max)\(", target["expr"])
            if aggregated:
                kept = set((aggregated[1] or "").split(", "))
                assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, (panel["title"], target)


def test_panels_and_dashboards_have_names_of_their_own() -> None:
    boards = [json.loads(file.read_text()) for file in DASHBOARDS]

    assert len(boards) == len({each["uid"] for each in boards}) == len({each["title"] for each in boards}) > 1
    for board in boards:
        assert len(board["panels"]) == len({each["title"] for each in board["panels"]})
        assert len(board["panels"]) == len({each["id"] for each in board["panels"]})


def test_the_chart_brings_each_as_a_config_map_that_grafana_finds() -> None:
    objects = render({"metrics": {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "Kafka"}}}})
    for file in DASHBOARDS:
        found = named(objects, "ConfigMap", f"q-quorate-dashboard-{file.stem}")

        assert "1" == found["metadata"]["labels"]["grafana_dashboard"]
        assert {"grafana_folder": "Kafka"} == found["metadata"]["annotations"]
        assert json.loads(file.read_text()) == json.loads(found["data"][f"q-quorate-{file.name}"])


def test_they_are_not_there_unless_asked_for() -> None:
    assert [] == [each for each in of_kind(render(), "ConfigMap") if "dashboard" in each["metadata"]["name"]]
