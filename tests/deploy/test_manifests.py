"""The manifests for Kubernetes: what the Spark operator understands, and what is true of this tree."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from services.pipeline.__main__ import parser

FOLDER = Path(__file__).parents[2] / "deploy" / "spark"
ROOT = FOLDER.parents[1]
NEEDS_YAML = pytest.mark.skipif(importlib.util.find_spec("yaml") is None, reason="needs PyYAML")
Json = dict[str, Any]

POD = {
    "cores": int,
    "memory": str,
    "memoryOverhead": str,
    "serviceAccount": str,
    "instances": int,
    "securityContext": {
        "runAsNonRoot": bool,
        "runAsUser": int,
        "allowPrivilegeEscalation": bool,
        "capabilities": {"drop": [str]},
        "seccompProfile": {"type": str},
    },
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}],
}
APPLICATION = {
    "type": ("Java", "Python", "Scala", "R"),
    "pythonVersion": ("2", "3"),
    "mode": ("cluster", "client"),
    "sparkVersion": str,
    "image": str,
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "mainApplicationFile": str,
    "arguments": [str],
    "restartPolicy": {"type": ("Never", "Always", "OnFailure")},
    "timeToLiveSeconds": int,
    "sparkConf": {str: str},
    "volumes": [{"name": str, "persistentVolumeClaim": {"claimName": str, "readOnly": bool}}],
    "driver": POD,
    "executor": POD,
}
SCHEDULED = {
    "schedule": str,
    "timeZone": str,
    "concurrencyPolicy": ("Allow", "Forbid", "Replace"),
    "successfulRunHistoryLimit": int,
    "failedRunHistoryLimit": int,
    "template": APPLICATION,
}
"""The parts of sparkoperator.k8s.io/v1beta2 that are used here, off the operator's custom resource definitions."""
REQUIRED = ("type", "sparkVersion", "mainApplicationFile", "driver", "executor")


def faults(schema: Any, value: Any, place: str = "spec") -> list[str]:
    """What of a value its schema does not know: a type, a tuple of choices, a list of one schema, or fields."""
    if isinstance(schema, type):
        return [] if type(value) is schema else [f"{place} is {value!r}, no {schema.__name__}"]
    if isinstance(schema, tuple):
        return [] if value in schema else [f"{place} is {value!r}, none of {schema}"]
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{place} is {value!r}, no list"]
        return [fault for number, each in enumerate(value) for fault in faults(schema[0], each, f"{place}[{number}]")]
    if not isinstance(value, dict):
        return [f"{place} is {value!r}, no object"]
    found = []
    for name, each in value.items():
        known = schema.get(name, schema.get(str))
        found += [f"{place} has no {name}"] if known is None else faults(known, each, f"{place}.{name}")
    return found


def documents(name: str) -> list[Json]:
    """The documents of a manifest."""
    import yaml

    return list(yaml.safe_load_all((FOLDER / name).read_text()))


@NEEDS_YAML
@pytest.mark.parametrize(
    ("name", "kind", "schema"),
    [
        ("application.yaml", "SparkApplication", APPLICATION),
        ("hourly.yaml", "ScheduledSparkApplication", SCHEDULED),
    ],
)
def test_the_operator_knows_every_field(name: str, kind: str, schema: Json) -> None:
    (manifest,) = documents(name)
    spec = manifest["spec"]

    assert ("sparkoperator.k8s.io/v1beta2", kind) == (manifest["apiVersion"], manifest["kind"])
    assert [] == faults(schema, spec)
    assert set() == set(REQUIRED) - set(spec.get("template", spec))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"type": "Perl"}, ["spec.type is 'Perl', none of ('Java', 'Python', 'Scala', 'R')"]),
        ({"driver": {"cpus": 1}}, ["spec.driver has no cpus"]),
        ({"arguments": [1]}, ["spec.arguments[0] is 1, no str"]),
        ({"timeToLiveSeconds": "1"}, ["spec.timeToLiveSeconds is '1', no int"]),
    ],
)
def test_what_it_does_not_know_is_found(value: Json, words: list[str]) -> None:
    assert words == faults(APPLICATION, value)


@NEEDS_YAML
def test_every_hour_the_same_is_run() -> None:
    (once,), (hourly,) = documents("application.yaml"), documents("hourly.yaml")

    assert once["spec"] == hourly["spec"]["template"]
    assert "Forbid" == hourly["spec"]["concurrencyPolicy"]


@NEEDS_YAML
def test_what_it_runs_is_in_the_image_and_understood() -> None:
    spec = documents("application.yaml")[0]["spec"]
    dockerfile = (FOLDER / "Dockerfile").read_text()
    last = dockerfile.rpartition("\nFROM ")[2]
    home = re.findall(r"^WORKDIR (\S+)$", last, re.MULTILINE)
    copied = re.findall(r"^COPY (?:--from=protos \S+/)?(\w+) \1$", last, re.MULTILINE)
    main = spec["mainApplicationFile"].removeprefix("local://")
    asked = parser().parse_args(spec["arguments"])
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in spec["driver"]["volumeMounts"]}

    assert [f"{home[0]}/deploy/spark/job.py"] == [main]
    assert ["deploy", "libs", "services"] == sorted(copied)
    assert (FOLDER / "job.py").is_file()
    assert "run" == asked.name
    assert {"/logs": True, "/lake": False} == mounts
    assert [True, True, True] == [
        asked.source.startswith("/logs"),
        asked.to.startswith("/lake/"),
        asked.report.startswith("/lake/"),
    ]
    assert spec["driver"]["volumeMounts"] == spec["executor"]["volumeMounts"]
    assert {mount["name"] for mount in spec["driver"]["volumeMounts"]} == {each["name"] for each in spec["volumes"]}


@NEEDS_YAML
def test_versions_are_those_of_the_lock() -> None:
    lock = (ROOT / "uv.lock").read_text()
    locked = re.findall(r'name = "pyspark"\nversion = "([^"]+)"', lock)
    uv = re.findall(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    dockerfile = (FOLDER / "Dockerfile").read_text()

    assert [documents("application.yaml")[0]["spec"]["sparkVersion"]] == locked
    assert re.findall(r"SPARK_IMAGE=spark:([\d.]+)-", dockerfile) == locked
    assert {*re.findall(r"uv==(\S+)", dockerfile)} == {*uv}


@NEEDS_YAML
def test_the_driver_may_do_what_it_must_as_whom_it_runs() -> None:
    account, role, binding = documents("access.yaml")
    spec = documents("application.yaml")[0]["spec"]

    assert ["ServiceAccount", "Role", "RoleBinding"] == [each["kind"] for each in (account, role, binding)]
    assert [spec["driver"]["serviceAccount"]] * 2 == [account["metadata"]["name"], binding["subjects"][0]["name"]]
    assert role["metadata"]["name"] == binding["roleRef"]["name"]
    assert {"pods", "configmaps", "services"} < set(role["rules"][0]["resources"])


def test_the_jars_of_a_format_are_those_that_it_is_tried_with() -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.tables.formats import FORMATS

    extras = {name: each.extra for name, each in FORMATS.items() if each.extra is not None}
    named = {}
    for name in extras:
        dependency = (FOLDER / f"{name}.xml").read_text().partition("<dependency>")[2].partition("</dependency>")[0]
        named[name] = ":".join(re.findall(r"<(?:groupId|artifactId|version)>(\S+)</", dependency))

    assert {name: extra.package for name, extra in extras.items()} == named
    assert {"delta"} == set(named)
