"""The pipeline over one format's tables in a process of its own, as that needs a session of its own.

    python -m tests.pipeline.format_story FORMAT HOME first     ingest, then an append that never ends: to be killed
    python -m tests.pipeline.format_story FORMAT HOME rest      everything else; what was found is HOME/found.json

Logs are in HOME/logs, more of them in HOME/more; the tables are HOME/lake.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from services.pipeline import bronze, jobs
from services.pipeline.__main__ import parser
from services.pipeline.session import start
from services.pipeline.tables import Tables, open_tables
from tests.pipeline.conftest import SETTINGS

TABLES = (
    "bronze/records",
    "bronze/snapshots",
    "silver/events",
    "silver/topic_history",
    "silver/partition_history",
    "silver/config_history",
    "silver/broker_history",
    "silver/kept_history",
    "silver/feature_history",
    "silver/voter_history",
    "gold/audit_timeline",
    "gold/availability",
    "gold/isr_churn",
    "gold/commit_slo",
    "gold/placement_skew",
    "gold/fleet_doctor",
    "gold/causes",
    "gold/story",
    "verify/checkpoints",
    "verify/differences",
)
BEFORE = "2027-01-01"
_TOOK = re.compile(r"^ *\d+\.\d s  ")
"""The logs are of the day before: all of bronze is closed."""


def run(spark: SparkSession, format_: str, home: Path, *arguments: str) -> dict[str, Any]:
    """One job; its exit code, and what it said."""
    asked = parser().parse_args([*arguments, "--to", str(home / "lake"), "--format", format_])
    with redirect_stderr(StringIO()) as told:
        code = jobs.run(spark, asked)
    lines = (_TOOK.sub("", line) for line in told.getvalue().splitlines())
    return {"code": code, "said": [line for line in lines if not line.endswith(" s")]}


def content(tables: Tables, names: Sequence[str] = TABLES) -> dict[str, list[str]]:
    """Every row of these tables, in order."""
    found = {name: tables.read(name) for name in names}
    return {
        name: sorted(json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in rows.collect())
        for name, rows in found.items()
        if rows is not None
    }


def story(spark: SparkSession, format_: str, home: Path) -> dict[str, Any]:
    """From the tables that a killed job has left to the answers; each step with what was found."""
    tables = open_tables(spark, str(home / "lake"), format_)
    found: dict[str, Any] = {"after the kill": content(tables, TABLES[:3])}
    logs, more = str(home / "logs"), str(home / "more")
    found["again"] = run(spark, format_, home, "ingest", "--from", logs)
    found["silver"] = run(spark, format_, home, "silver")
    found["overlap"] = run(spark, format_, home, "ingest", "--from", more)
    for job in ("silver", "gold", "verify"):
        found[job] = run(spark, format_, home, job)
    found["tables"] = content(tables)
    found["compact"] = run(spark, format_, home, "compact", "--before", BEFORE)
    found["compacted"] = content(tables, TABLES[:2])
    found["other format"] = run(spark, "parquet", home, "silver")
    return found


def endless(spark: SparkSession, format_: str, home: Path) -> None:
    """An append of which one task is done, and the other one never."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            while batch["offset"].iloc[0] and not (home / "never").exists():
                time.sleep(0.1)

    tables = open_tables(spark, str(home / "lake"), format_)
    there = tables.read(bronze.RECORDS)
    assert there is not None
    one = there.limit(1).drop("offset")
    two = spark.range(2, numPartitions=2).withColumnRenamed("id", "offset").crossJoin(fn.broadcast(one))
    wanted = two.select(*there.columns)
    tables.append(bronze.RECORDS, wanted.mapInPandas(rows, wanted.schema), partition_by=("cluster_id", "date"))


def main(format_: str, home: Path, part: str) -> None:
    """A part of the story."""
    spark = start(
        "local[2]", {**SETTINGS, "spark.sql.warehouse.dir": f"{home}/warehouse"}, format_=format_, for_few=True
    )
    if part == "first":
        first = run(spark, format_, home, "ingest", "--from", str(home / "logs"))
        first["files"] = len(list((home / "lake" / bronze.RECORDS).rglob("*.parquet")))
        (home / "first.json.new").write_text(json.dumps(first))
        (home / "first.json.new").rename(home / "first.json")
        endless(spark, format_, home)
    else:
        (home / "found.json").write_text(json.dumps(story(spark, format_, home)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
