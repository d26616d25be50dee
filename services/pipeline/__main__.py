"""`python -m services.pipeline ingest|silver|gold|verify --to TABLES [--from LOGS]`"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from quorate.pipeline.places import find
from services.pipeline import bronze, gold, verify
from services.pipeline.session import NoJava, start
from services.pipeline.silver import image
from services.pipeline.silver.events import reach
from services.pipeline.source import FAILFAST, NAME, PERMISSIVE
from services.pipeline.tables import ParquetTables, Tables

__all__ = ["main", "parser", "run"]

DONE: Final = 0
FOUND: Final = 1
"""It ran, and there is something wrong: damage, differences."""
FAILED: Final = 2
SHOWN_MAX: Final = 20
UNDER_SUBMIT: Final = "submit"


def main(arguments: Sequence[str]) -> int:
    """Run one job in a session of its own; the exit code is DONE, FOUND or FAILED."""
    asked = parser().parse_args(arguments)
    try:
        if asked.name == "ingest":
            find([asked.source])  # before the wait for a session: what is not there is said at once
        spark = start(None if asked.master == UNDER_SUBMIT else asked.master)
    except (NoJava, OSError) as problem:
        _say(f"{asked.name}: {problem}")
        return FAILED
    try:
        return run(spark, asked)
    finally:
        spark.stop()


def run(spark: SparkSession, asked: argparse.Namespace) -> int:
    """Run one job, as `parser` understood it."""
    began = time.monotonic()
    try:
        code: int = asked.job(spark, ParquetTables(spark, asked.to), asked)
    except LookupError as problem:
        _say(f"{asked.name}: {problem}")
        return FAILED
    except PySparkException as problem:
        _say(f"{asked.name}: {_first_words(problem)}")
        return FAILED
    _say(f"{asked.name}: {time.monotonic() - began:.1f} s")
    return code


def ingest(spark: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """Log files to bronze."""
    read = spark.read.format(NAME).option("mode", asked.mode)
    rows = (read if asked.cluster_id is None else read.option("clusterId", asked.cluster_id)).load(asked.source)
    counts = bronze.ingest(rows.persist(), tables)
    _say(f"records: {counts.records} new")
    _say(f"checkpoint records: {counts.snapshots} new")
    _say(f"quarantine: {counts.quarantined} new")
    return FOUND if _show_damage(tables) else DONE


def silver(_: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """Bronze to histories."""
    records, snapshots = tables.read(bronze.RECORDS), tables.read(bronze.SNAPSHOTS)
    if records is None:
        raise LookupError(f"{asked.to} holds no {bronze.RECORDS}: run ingest before")
    whole = None if snapshots is None else bronze.whole_snapshots(snapshots)
    made = image.build(records, whole, tables)
    for name, table in made.items():
        _say(f"{name}: {table.count()} rows")
    return FOUND if _show_gaps(reach(bronze.settled(records), whole)) else DONE


def make_gold(_: SparkSession, tables: Tables, __: argparse.Namespace) -> int:
    """Histories to answers."""
    for name, table in gold.build(tables).items():
        _say(f"{name}: {table.count()} rows")
    return DONE


def verify_replay(_: SparkSession, tables: Tables, __: argparse.Namespace) -> int:
    """Is the replay what the checkpoints say?"""
    replays = verify.verify_replay(tables)
    compared = 0
    for row in replays.checkpoints.orderBy("cluster_id", "snapshot_offset").collect():
        compared += row["verdict"] == verify.COMPARED
        _say(f"{row['cluster_id']} at offset {row['snapshot_offset']}: {row['verdict']} ({row['source']})")
    count = replays.differences.count()
    for row in replays.differences.orderBy("cluster_id", "snapshot_offset", "kind", "key").take(SHOWN_MAX):
        place = f"{row['cluster_id']} at offset {row['snapshot_offset']}: {row['kind']} {row['key']}"
        _say(f"{place}: replayed {row['replayed']}, the checkpoint has {row['checkpoint']}")
    _say(f"{compared} checkpoints compared, {count} differences")
    return DONE if compared and not count else FOUND


Job = Callable[[SparkSession, Tables, argparse.Namespace], int]
JOBS: Final[dict[str, tuple[Job, str]]] = {
    "ingest": (ingest, "files of metadata logs and checkpoints to bronze"),
    "silver": (silver, "bronze to histories: what was so from when to when"),
    "gold": (make_gold, "histories to answers: audit, availability, churn"),
    "verify": (verify_replay, "compare the replayed log with every checkpoint"),
}


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    whole = argparse.ArgumentParser(
        prog="python -m services.pipeline", description="Metadata logs as tables, on Spark."
    )
    jobs = whole.add_subparsers(dest="name", required=True)
    for name, (job, what) in JOBS.items():
        one = jobs.add_parser(name, help=what, description=what)
        one.set_defaults(job=job)
        one.add_argument("--to", required=True, metavar="TABLES", help="the directory of the tables")
        one.add_argument(
            "--master", default="local[*]", help="where Spark runs (local[*]); 'submit' under spark-submit"
        )
        if name == "ingest":
            one.add_argument("--from", required=True, dest="source", metavar="LOGS", help="a directory, file or glob")
            one.add_argument("--cluster-id", help="for files that have no meta.properties beside them")
            one.add_argument("--mode", default=PERMISSIVE, choices=(PERMISSIVE, FAILFAST), help="what damage does")
    return whole


def _show_damage(tables: Tables) -> bool:
    """Say what lies in quarantine, and which offsets have two contents; is there anything?"""
    quarantine, records = tables.read(bronze.QUARANTINE), tables.read(bronze.RECORDS)
    damaged = [] if quarantine is None else quarantine.select("source", "_corrupt").take(SHOWN_MAX)
    for row in damaged:
        _say(f"{row['source']}: {row['_corrupt']}")
    twice = [] if records is None else bronze.conflicts(records).orderBy("cluster_id", "offset").take(SHOWN_MAX)
    for row in twice:
        place = f"{row['cluster_id']}: offset {row['offset']} of epoch {row['epoch']}"
        _say(f"{place} has {row['contents']} contents: {', '.join(row['sources'])}")
    return bool(damaged or twice)


def _show_gaps(far: DataFrame) -> bool:
    """Say which clusters cannot be followed to the end of their logs; is there any?"""
    rows = far.where("base_offset is null or end_offset < log_end_offset").collect()
    for row in rows:
        if row["base_offset"] is None:
            _say(f"{row['cluster_id']}: begins at offset {row['log_start_offset']}, and no checkpoint is its base")
        else:
            _say(f"{row['cluster_id']}: offset {row['end_offset']} is missing; silver ends there")
    return bool(rows)


def _first_words(problem: PySparkException) -> str:
    """What is wrong, without Spark's stack: the last error that Python raised, if it was ours."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("quorate.errors.", "FileNotFoundError", "ValueError"))]
    return (ours or lines)[0]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
