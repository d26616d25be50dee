"""The jobs where Spark runs elsewhere: under spark-submit, through Spark Connect, as Declarative Pipelines."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.spark import HOW_TO_GET, environment, is_installed
from tests.pipeline.logs import batches, flipped, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from services.pipeline.tables import ParquetTables

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET),
]

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))
SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
CONNECT = ("pandas", "grpc_status", "zstandard", "google.rpc")
NO_PIPELINES = "Declarative Pipelines need pyspark[pipelines]: Connect's packages and PyYAML"
NO_CONNECT = "Spark Connect's client needs pyspark[connect]: pandas, grpcio-status, zstandard"


def is_there(*packages: str) -> bool:
    """Can all of them be imported?"""
    return all(importlib.util.find_spec(each.partition(".")[0]) and importlib.util.find_spec(each) for each in packages)


def confs(settings: dict[str, str]) -> list[str]:
    """As Spark's scripts take them."""
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]


def variables() -> dict[str, str]:
    """Of a process with Spark in it that finds this code."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    scripts = os.pathsep.join((str(SCRIPTS), os.environ["PATH"]))
    return {**os.environ, **environment(), "PYTHONPATH": path, "PATH": scripts}


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """One process until it ends."""
    return subprocess.run(command, cwd=cwd, env=variables(), capture_output=True, text=True, timeout=800, check=False)


def test_spark_submit_runs_a_job_and_ends_with_its_exit_code(spark: SparkSession, tmp_path: Path) -> None:
    content = batches(history(4))
    segment(node(tmp_path / "logs", "one"), [*content[:2], flipped(content[2]), *content[3:]])
    asked = ("ingest", "--from", str(tmp_path / "logs"), "--to", str(tmp_path / "lake"))
    ran = run(
        str(SCRIPTS / "spark-submit"),
        "--master",
        "local[2]",
        *confs(SMALL),
        str(ROOT / "deploy" / "spark" / "job.py"),
        *asked,
        cwd=tmp_path,
    )

    told = ran.stdout + ran.stderr  # spark-submit puts what a driver says to stdout, whichever it was
    assert 1 == ran.returncode, told  # there is damage
    assert "records: 5 new" in told
    assert "batch at offset 3 has checksum" in told
    assert 5 == spark.read.parquet(str(tmp_path / "lake" / "bronze" / "records")).count()


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """A Spark Connect server of this machine; its address, once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    command = (
        str(SCRIPTS / "spark-submit"),
        "--master",
        "local[2]",
        *confs({**SMALL, **place, "spark.sql.warehouse.dir": str(directory / "warehouse")}),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    )
    with (
        (directory / "server.log").open("w") as log,
        subprocess.Popen(command, cwd=directory, env=variables(), stdout=log, stderr=log) as server,
    ):
        try:
            while server.poll() is None and not answers(port):
                time.sleep(0.2)
            assert server.poll() is None, (directory / "server.log").read_text()[-2000:]
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()


def answers(port: int) -> bool:
    """Does anybody listen there?"""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(not is_there(*CONNECT), reason=NO_CONNECT)
def test_through_spark_connect_the_tables_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    segment(node(tmp_path / "logs", "one"), batches(history(4)))
    with connect_server(tmp_path) as address:
        asked = ("--to", str(lake), "--master", address)
        ran = [
            run(sys.executable, "-m", "services.pipeline", *job, *asked, cwd=tmp_path)
            for job in (("ingest", "--from", str(tmp_path / "logs")), ("silver",))
        ]

    assert [0, 0] == [each.returncode for each in ran], [each.stderr for each in ran]
    assert "records: 6 new" in ran[0].stderr
    assert "partition_history: 5 rows" in ran[1].stderr
    histories = spark.read.parquet(str(lake / "silver" / "partition_history"))
    assert [[1, 2], [1, 2], [1], [1, 2], [1]] == [
        row["isr"] for row in histories.orderBy("valid_from_offset").select("isr").collect()
    ]


@pytest.mark.skipif(not is_there(*CONNECT, "yaml"), reason=NO_PIPELINES)
def test_declared_views_are_the_tables_of_the_jobs(spark: SparkSession, lake: ParquetTables, tmp_path: Path) -> None:
    """The spec as it is, with this test's places in it, run to its end; then every view row for row."""
    events = lake.read("silver/events")
    assert events is not None
    tables = events.inputFiles()[0].removeprefix("file://").partition("/silver/")[0]
    folder = ROOT / "deploy" / "spark"
    spec = (folder / "pipeline.yaml").read_text()
    spec = spec.replace("file:///var/lib/quorate/pipeline", f"file://{tmp_path / 'storage'}")
    spec = spec.replace("/var/lib/quorate/tables", tables)
    (tmp_path / "pipeline.yaml").write_text(spec)
    (tmp_path / "definitions.py").write_text((folder / "definitions.py").read_text())
    ran = run(
        str(SCRIPTS / "spark-pipelines"),
        "run",
        "--spec",
        str(tmp_path / "pipeline.yaml"),
        "--remote",
        "local[2]",
        *confs(SMALL),
        cwd=tmp_path,
    )

    assert 0 == ran.returncode, ran.stdout[-3000:] + ran.stderr[-3000:]
    names = re.findall(r'^    "gold_(\w+)":', (folder / "definitions.py").read_text(), re.MULTILINE)
    differing = {}
    for name in names:
        expected = lake.read(f"gold/{name}")
        if expected is None:
            continue
        made = spark.read.parquet(str(tmp_path / "spark-warehouse" / f"gold_{name}")).select(*expected.columns)
        differing[name] = (expected.exceptAll(made).count(), made.exceptAll(expected).count())

    assert len(differing) >= 3
    assert {} == {name: counts for name, counts in differing.items() if counts != (0, 0)}
