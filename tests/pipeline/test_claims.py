"""Claims in quarantine that are over are withdrawn, and may come again; wherever a job is killed, none is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.spark import environment
from quorate.nouns import OffsetAndEpoch
from tests.pipeline.conftest import SETTINGS
from tests.pipeline.logs import batches, checkpoint, history, node, segment
from tests.pipeline.traces import export, request, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from services.pipeline.bronze.spans import SpanCounts
    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)

ROOT = Path(__file__).parents[2]
WITHIN_S = 1_500
LONG_AGO = 1_000_000_000
CLUSTERS = ("one", "two")
LEFT = "left.jsonl"
MENDED = "mended.jsonl"

Claims = set[tuple[str, str]]
"""By cluster and file."""


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> ParquetTables:
    from services.pipeline.tables import ParquetTables

    return ParquetTables(spark, str(tmp_path / "lake"))


def ingest(spark: SparkSession, tables: ParquetTables, source: Path) -> SpanCounts:
    from services.pipeline.bronze.spans import ingest_spans

    return ingest_spans(spark, tables, str(source))


def standing(tables: ParquetTables) -> list[tuple[str, str]]:
    """What stands, each as often as it does."""
    from services.pipeline import bronze

    found = bronze.standing(tables)
    return [] if found is None else sorted((row["cluster_id"], Path(row["source"]).name) for row in found.collect())


def rows(tables: ParquetTables, name: str) -> int:
    found = tables.read(name)
    return 0 if found is None else found.count()


def torn(top: Path) -> Claims:
    """Two files in the folder of each cluster, that end in half a line for good."""
    for number, cluster in enumerate(CLUSTERS):
        (top / cluster).mkdir(parents=True)
        for other, name in enumerate((LEFT, MENDED)):
            path = top / cluster / name
            path.write_text(export([request(1 + number * 2 + other, 0, 1_000)])[:-70])
            os.utime(path, (LONG_AGO, LONG_AGO))
    return {(cluster, name) for cluster in CLUSTERS for name in (LEFT, MENDED)}


def mend(top: Path) -> Claims:
    """One file of each cluster has its end after all."""
    for number, cluster in enumerate(CLUSTERS):
        (top / cluster / MENDED).write_text(export([request(2 + number * 2, 0, 1_000)]) + "\n")
    return {(cluster, MENDED) for cluster in CLUSTERS}


def killed(source: Path, lake: Path, is_time: Callable[[], bool]) -> None:
    """The job in a process of its own, and SIGKILL to it and its JVM when it is time."""
    settings = " ".join(f"--conf {name}={value}" for name, value in SETTINGS.items())
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    asked = ("ingest", "--master", "local[2]", "--spans", str(source), "--to", str(lake))
    said = lake.parent / "said.txt"
    with said.open("wb") as log:
        job = subprocess.Popen(
            [sys.executable, "-m", "services.pipeline", *asked],
            env={
                **os.environ,
                **environment(),
                "PYTHONPATH": path,
                "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell",
            },
            cwd=lake.parent,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + WITHIN_S
    try:
        while not is_time():
            assert job.poll() is None, said.read_text()[-3000:]
            assert time.monotonic() < deadline, said.read_text()[-3000:]
            time.sleep(0.0005)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def test_a_job_that_is_killed_while_it_withdraws_loses_no_claim(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    """Killed when the first of what is over has its place; one before it had only begun to write."""
    logs, lake = tmp_path / "traces", tmp_path / "lake"
    every = torn(logs)
    ingest(spark, tables, logs)
    claimed = {path: path.read_bytes() for path in (lake / "bronze" / "quarantine").rglob("*.parquet")}
    assert every == set(standing(tables))
    over = mend(logs)
    withdrawn = lake / "bronze" / "withdrawn"

    def is_whole() -> bool:
        kept = {path: path.read_bytes() for path in (lake / "bronze" / "quarantine").rglob("*.parquet")}
        return kept == claimed and every - over <= set(standing(tables)) <= every

    (withdrawn / "_temporary" / "0").mkdir(parents=True)
    assert is_whole()
    killed(logs, lake, lambda: any(withdrawn.glob("cluster_id=*")))
    assert is_whole()
    ingest(spark, tables, logs)

    assert sorted(every - over) == standing(tables)
    assert len(over) == rows(tables, "bronze/withdrawn")


def test_what_a_killed_job_has_withdrawn_half_is_withdrawn_by_the_next(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    """Files get their names one by one at a job's end: one cluster's has, the other one's has not."""
    logs = tmp_path / "traces"
    every = torn(logs)
    ingest(spark, tables, logs)
    shutil.copytree(tmp_path / "lake" / "bronze" / "span_files", tmp_path / "before")
    over = mend(logs)
    assert len(over) == ingest(spark, tables, logs).withdrawn
    shutil.rmtree(tmp_path / "lake" / "bronze" / "withdrawn" / "cluster_id=two")
    shutil.rmtree(tmp_path / "lake" / "bronze" / "span_files")
    (tmp_path / "before").rename(tmp_path / "lake" / "bronze" / "span_files")

    assert sorted({*(every - over), ("two", MENDED)}) == standing(tables)
    counts = ingest(spark, tables, logs)
    assert (0, 0, 1) == (counts.spans, counts.quarantined, counts.withdrawn)
    assert sorted(every - over) == standing(tables)


def test_a_claim_that_comes_again_stands_again_and_is_withdrawn_again(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    from services.pipeline.jobs import COMPACTED

    store = tmp_path / "traces" / "spans.db"
    store.parent.mkdir()
    for time_, spans in enumerate(([], [request(1, 0, 1_000)])):
        store.unlink(missing_ok=True)
        store.write_text("no database at all" + " " * time_)
        assert 1 == ingest(spark, tables, store).quarantined
        assert [("traces", "spans.db")] == standing(tables)
        assert 0 == ingest(spark, tables, store).quarantined
        for name in COMPACTED:
            tables.compact(name, before=date(2100, 1, 1))
        assert [("traces", "spans.db")] == standing(tables)
        store.unlink()
        assert 1 == ingest(spark, tables, stored(store, spans)).withdrawn
        assert [] == standing(tables)

    assert [2, 2] == [rows(tables, name) for name in ("bronze/quarantine", "bronze/withdrawn")]


def test_a_stream_claims_again_what_was_withdrawn(spark: SparkSession, tmp_path: Path) -> None:
    from services.pipeline import bronze
    from services.pipeline.bronze.claims import withdraw_halves
    from services.pipeline.bronze.stream import ingest_stream
    from services.pipeline.tables import ParquetTables

    def stream() -> None:
        home = str(tmp_path / "checkpoint")
        ingest_stream(
            spark, str(tmp_path / "lake"), logs, home, options={"settleMs": "0"}, available_now=True
        ).awaitTermination()

    logs, tables = str(tmp_path / "logs"), ParquetTables(spark, str(tmp_path / "lake"))
    partition = node(tmp_path / "logs", "one")
    segment(partition, batches(history(2)))
    half = checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1)).rename(
        partition / "00000000000000000002-0000000001-4711260935.checkpoint.part"
    )
    bronze.ingest(spark.read.format("kraft").option("settleMs", "0").load(logs), tables)
    content = half.read_bytes()
    half.unlink()
    assert 1 == withdraw_halves(tables)
    assert [] == standing(tables)
    half.write_bytes(content)
    stream()
    stream()

    assert [("one", half.name)] == standing(tables)
    assert 2 == rows(tables, "bronze/quarantine")
