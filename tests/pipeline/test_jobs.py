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
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from deploy.spark import HOW_TO_GET, environment, is_installed
from quorate.nouns import OffsetAndEpoch
from tests.pipeline.logs import batches, checkpoint, flipped, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from services.pipeline.tables import ParquetTables

pytestmark = [
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET),
]

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))
CONNECT = ("pandas", "grpc_status", "zstandard", "google.rpc")
NO_PIPELINES = "Declarative Pipelines need pyspark[pipelines]: Connect's packages and PyYAML"
OF_A_PROFILER = "[UNKNOWN_RESPONSE] Unknown response: Plan observed(__python_accumulator__="
"""Of Spark 4.3.0, when a run over a Python source is over: SPARK-59135."""
NO_CONNECT = "Spark Connect's client needs pyspark[connect]: pandas, grpcio-status, zstandard"


def is_there(*packages: str) -> bool:
    """Can all of them be imported?"""
    return all(importlib.util.find_spec(each.partition(".")[0]) and importlib.util.find_spec(each) for each in packages)


def settings(directory: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variable by which every Spark below takes settings for few records; the jobs are to take it for any other.

    As Spark's defaults: a client that starts a server of its own loses most of many `--conf` (deploy/spark/README.md).
    """
    from services.pipeline.memory import IS_SMALL
    from services.pipeline.session import SMALL

    every = {**SMALL, "spark.ui.enabled": "false", "spark.driver.memory": "1g", **(more or {})}
    directory.mkdir(exist_ok=True)
    lines = (f"{name} {value}\n" for name, value in every.items() if name != IS_SMALL)
    (directory / "spark-defaults.conf").write_text("".join(lines))
    return {"SPARK_CONF_DIR": str(directory)}


def variables() -> dict[str, str]:
    """Of a process with Spark in it that finds this code."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    scripts = os.pathsep.join((str(SCRIPTS), os.environ["PATH"]))
    return {**os.environ, **environment(), "PYTHONPATH": path, "PATH": scripts}


def workers_python() -> dict[str, str]:
    """Else clients, servers and each process of a worker compile the pyspark of Spark's zip file for themselves."""
    from services.pipeline.session import WORKER_PYTHON

    return {"PYSPARK_PYTHON": str(WORKER_PYTHON), "WORKER_PYTHON": sys.executable}


def run(*command: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """One process until it ends, with `more` variables."""
    env = {**variables(), **settings(cwd / "conf"), **more}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=1_600, check=False)


def test_spark_submit_runs_a_job_and_ends_with_its_exit_code(spark: SparkSession, tmp_path: Path) -> None:
    content = batches(history(4))
    segment(node(tmp_path / "logs", "one"), [*content[:2], flipped(content[2]), *content[3:]])
    asked = ("ingest", "--from", str(tmp_path / "logs"), "--to", str(tmp_path / "lake"))
    ran = run(
        str(SCRIPTS / "spark-submit"),
        "--master",
        "local[2]",
        str(ROOT / "deploy" / "spark" / "job.py"),
        *asked,
        cwd=tmp_path,
    )

    told = ran.stdout + ran.stderr  # spark-submit puts what a driver says to stdout, whichever it was
    assert 1 == ran.returncode, told  # there is damage
    assert "records: 5 new" in told
    assert "batch at offset 3 has checksum" in told
    assert 5 == spark.read.parquet(str(tmp_path / "lake" / "bronze" / "records")).count()


class Server(NamedTuple):
    """A Spark Connect server: where it listens, and the directory of its tables."""

    address: str
    warehouse: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests that ask a server which was there before: a JVM is slow until it has run everything once."""
    if not is_there(*CONNECT):
        pytest.skip(NO_CONNECT)
    directory = tmp_path_factory.mktemp("server")
    with connect_server(directory) as address:
        yield Server(address, directory / "warehouse")


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """A Spark Connect server of this machine; its address, once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    command = (
        str(SCRIPTS / "spark-submit"),
        "--master",
        "local[2]",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    )
    env = {**variables(), **workers_python(), **settings(directory / "server-conf", place)}
    with (
        (directory / "server.log").open("w") as log,
        subprocess.Popen(command, cwd=directory, env=env, stdout=log, stderr=log) as server,
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


def test_through_spark_connect_the_tables_are_the_same(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    directory = node(tmp_path / "logs", "one")
    segment(directory, batches(history(4)))
    half = directory / "00000000000000000002-0000000001.checkpoint.part"
    half.touch()
    os.utime(half, (5, 5))
    ingest = ("ingest", "--from", str(tmp_path / "logs"))

    def job(*asked: str) -> subprocess.CompletedProcess[str]:
        where = ("--to", str(lake), "--master", server.address)
        return run(sys.executable, "-m", "services.pipeline", *asked, *where, cwd=tmp_path)

    ran = [job(*ingest)]
    half.unlink()
    ran += [job(*ingest), job("silver")]

    assert [1, 0, 0] == [each.returncode for each in ran], [each.stderr for each in ran]
    assert "records: 6 new\ncheckpoint records: 0 new\nquarantine: 1 new\n" in ran[0].stderr
    assert "quarantine: 1 withdrawn" in ran[1].stderr
    assert "partition_history: 5 rows" in ran[2].stderr
    histories = spark.read.parquet(str(lake / "silver" / "partition_history"))
    assert [[1, 2], [1, 2], [1], [1, 2], [1]] == [
        row["isr"] for row in histories.orderBy("valid_from_offset").select("isr").collect()
    ]


def declared(name: str, place: Path, given: dict[str, str], remote: str = "local[2]") -> str:
    """Run a spec of deploy/spark with other values of some settings; what it said.

    Its server is at `remote`, or the client starts one.
    """
    folder = ROOT / "deploy" / "spark"
    spec = (folder / f"{name}.yaml").read_text()
    for setting, value in {"storage": f"file://{place}/storage-{name}", **given}.items():
        spec, count = re.subn(rf"^( *{re.escape(setting)}:) .*$", rf"\1 {value}", spec, flags=re.MULTILINE)
        assert 1 == count, (setting, spec)
    (place / f"{name}.yaml").write_text(spec)
    (definitions,) = re.findall(r"^ *include: (\S+)$", spec, re.MULTILINE)
    (place / definitions).write_text((folder / definitions).read_text())
    command = (str(SCRIPTS / "spark-pipelines"), "run", "--spec", str(place / f"{name}.yaml"), "--remote", remote)
    ran = run(*command, cwd=place, **workers_python())
    told = ran.stdout + ran.stderr
    assert "Run is COMPLETED." in told, told[-3000:]
    assert "FAILED" not in told, told[-3000:]
    assert 0 == ran.returncode or OF_A_PROFILER in told, told[-3000:]
    return told


def differing(expected: dict[str, DataFrame], spark: SparkSession, prefix: str) -> dict[str, tuple[str, ...]]:
    """What rows a declared view has too few, and then too many, of the views that have any."""
    found = {}
    for name, rows in expected.items():
        made = spark.read.parquet(f"{prefix}{name}").select(*rows.columns)
        wanted, there = (Counter(map(str, each.collect())) for each in (rows, made))
        found[name] = (*(f"- {row}" for row in wanted - there), *(f"+ {row}" for row in there - wanted))
    return {name: rows for name, rows in found.items() if rows}


def place_of(tables: ParquetTables) -> str:
    """The directory of tables that have silver."""
    events = tables.read("silver/events")
    assert events is not None
    return events.inputFiles()[0].removeprefix("file://").partition("/silver/")[0]


def read(tables: ParquetTables, layer: str, *names: str) -> dict[str, DataFrame]:
    """These tables of a layer, all of which must be there."""
    found = {name: tables.read(f"{layer}/{name}") for name in names}
    assert None not in found.values(), found
    return {name: rows for name, rows in found.items() if rows is not None}


@pytest.mark.skipif(not is_there(*CONNECT, "yaml"), reason=NO_PIPELINES)
def test_declared_answers_are_the_tables_of_the_jobs(
    spark: SparkSession, server: Server, lake: ParquetTables, tmp_path: Path
) -> None:
    """The spec as it is, with this test's places in it, run to its end; then every view row for row."""
    from services.pipeline.gold import TABLES

    told = declared("pipeline", tmp_path, {"spark.quorate.silver": f"{place_of(lake)}/silver/"}, server.address)
    assert "Traceback" not in told, told[-3000:]

    assert {} == differing(read(lake, "gold", *TABLES), spark, f"{server.warehouse}/gold_")


@pytest.mark.skipif(not is_there(*CONNECT, "yaml"), reason=NO_PIPELINES)
@pytest.mark.timeout(2400)
def test_declared_bronze_and_silver_are_the_tables_of_the_jobs(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Bronze as a stream of the source, silver over it: of one replica, as a declared stream looks at nothing else.

    The client of bronze starts its server itself.
    """
    from services.pipeline import bronze
    from services.pipeline.silver import image
    from services.pipeline.tables import ParquetTables

    directory = node(tmp_path / "logs" / "one", "one")
    segment(directory, batches(history(4)))
    checkpoint(directory, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    tables = ParquetTables(spark, str(tmp_path / "lake"))
    bronze.ingest(spark.read.format("kraft").load(str(tmp_path / "logs")), tables)
    there = read(tables, "bronze", "records", "snapshots")
    image.build(there["records"], bronze.whole_snapshots(there["snapshots"]), tables)
    warehouse = f"{tmp_path}/spark-warehouse"
    declared("bronze", tmp_path, {"spark.quorate.logs": str(tmp_path / "logs")})
    declared("silver", tmp_path, {"spark.quorate.bronze": f"{warehouse}/bronze_"}, server.address)
    names = ("events", "feature_history", "voter_history", *image.HISTORIES)

    assert (6, 4) == (there["records"].count(), there["snapshots"].count())
    assert {} == differing(there, spark, f"{warehouse}/bronze_")
    assert {} == differing(read(tables, "silver", *names), spark, f"{server.warehouse}/silver_")
