"""The pipeline by the Spark operator: what it understands, and what is true of this tree."""

from __future__ import annotations

import re
from typing import Final

import pytest

from services.pipeline.__main__ import parser
from tests.deploy.chart import ROOT, SPARK_OPERATOR, Json, faults, named, render
from tests.deploy.spark_operator import APPLICATION, SCHEDULED

FOLDER: Final = ROOT / "deploy" / "spark"
REQUIRED: Final = {"type", "sparkVersion", "mainApplicationFile", "driver", "executor"}
NAME: Final = "q-quorate-pipeline"


@pytest.fixture(scope="module")
def objects() -> list[Json]:
    claims = {"logs": {"existingClaim": "copies"}, "lake": {"existingClaim": "lake"}}
    return render({"pipeline": {"enabled": True, "runner": "sparkOperator", **claims}}, apis=(SPARK_OPERATOR,))


@pytest.fixture(scope="module")
def application(objects: list[Json]) -> Json:
    spec: Json = named(objects, "ScheduledSparkApplication", NAME)["spec"]["template"]
    return spec


def test_the_operator_knows_every_field(objects: list[Json], application: Json) -> None:
    scheduled = named(objects, "ScheduledSparkApplication", NAME)

    assert SPARK_OPERATOR == scheduled["apiVersion"]
    assert [] == faults(SCHEDULED, scheduled["spec"])
    assert set() == REQUIRED - application.keys()
    assert "Forbid" == scheduled["spec"]["concurrencyPolicy"]


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


def test_what_it_runs_is_in_the_image_and_understood(application: Json) -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    last = dockerfile.rpartition("\nFROM ")[2]
    home = re.findall(r"^WORKDIR (\S+)$", last, re.MULTILINE)
    copied = re.findall(r"^COPY (?:--from=protos \S+/)?(\w+) \1$", last, re.MULTILINE)
    main = application["mainApplicationFile"].removeprefix("local://")
    asked = parser().parse_args(application["arguments"])
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in application["driver"]["volumeMounts"]}

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
    assert application["driver"]["volumeMounts"] == application["executor"]["volumeMounts"]
    assert {mount["name"] for mount in application["driver"]["volumeMounts"]} == {
        each["name"] for each in application["volumes"]
    }


def test_versions_are_those_of_the_lock(application: Json) -> None:
    lock = (ROOT / "uv.lock").read_text()
    locked = re.findall(r'name = "pyspark"\nversion = "([^"]+)"', lock)
    uv = re.findall(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    dockerfile = (FOLDER / "Dockerfile").read_text()

    assert [application["sparkVersion"]] == locked
    assert re.findall(r"SPARK_IMAGE=spark:([\d.]+)-", dockerfile) == locked
    assert {*re.findall(r"uv==(\S+)", dockerfile)} == {*uv}


def test_the_driver_may_do_what_it_must_as_whom_it_runs(objects: list[Json], application: Json) -> None:
    role, binding = named(objects, "Role", NAME), named(objects, "RoleBinding", NAME)

    assert NAME == named(objects, "ServiceAccount", NAME)["metadata"]["name"]
    assert [application["driver"]["serviceAccount"]] == [each["name"] for each in binding["subjects"]] == [NAME]
    assert role["metadata"]["name"] == binding["roleRef"]["name"]
    assert {"pods", "configmaps", "services"} < set(role["rules"][0]["resources"])
