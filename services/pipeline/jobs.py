"""The jobs: each reads tables and writes tables, says on stderr what it did, and answers with an exit code."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from quorate.pipeline.places import find, is_being_written
from quorate.runtime.clock import SystemClock
from services.pipeline import bronze, gold, verify
from services.pipeline.bronze.claims import withdraw_halves
from services.pipeline.bronze.spans import SPAN_FILES, SPANS, ingest_spans
from services.pipeline.bronze.stream import ingest_stream
from services.pipeline.exits import DONE, FAILED, FOUND
from services.pipeline.report import report
from services.pipeline.silver import image
from services.pipeline.silver.events import reach
from services.pipeline.silver.progress import PROGRESS
from services.pipeline.source import NAME
from services.pipeline.source.options import SETTLE_MS
from services.pipeline.tables import Lake, Tables, Telling, open_tables, tables_of
from services.pipeline.what_if_text import consequences

__all__ = ["JOBS", "run"]

SHOWN_MAX: Final = 20
"""Of damage or differences; the tables have all."""
COMPACTED: Final = (bronze.RECORDS, bronze.SNAPSHOTS, bronze.QUARANTINE, bronze.WITHDRAWN, SPANS, SPAN_FILES)
"""Tables that are appended to; the others are written whole."""


def run(spark: SparkSession, asked: argparse.Namespace) -> int:
    """Run one job, as `parser` understood it. What is wrong is one line on stderr."""
    try:
        return _timed(asked.name, spark, open_tables(spark, asked.to, asked.format), asked)
    except (ArithmeticError, LookupError, NotImplementedError, OSError) as problem:
        _say(f"{asked.name}: {problem}")
    except PySparkException as problem:
        _say(f"{asked.name}: {_first_words(problem)}")
    return FAILED


def ingest(spark: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """Files of logs, and of spans, to bronze."""
    if asked.source is not None:
        _show_files(asked)
        _ingest_records(spark, tables, asked)
    if asked.spans is not None:
        spans = ingest_spans(spark, tables, asked.spans, cluster_id=asked.cluster_id)
        _say(f"spans: {spans.spans} new")
        _say(f"quarantine: {spans.quarantined} spans new")
        _show_withdrawn(spans.withdrawn)
        for path in spans.waiting:
            _say(f"{path}: its last line is being written; left for another time")
    return FOUND if _show_damage(tables) else DONE


def stream(spark: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """What comes to bronze, as it comes: until interrupted, or with `once` until all is read that is there."""

    def told(number: int, counts: bronze.Counts) -> None:
        words = f"{counts.records} records, {counts.snapshots} checkpoint records, {counts.quarantined} in quarantine"
        _say(f"batch {number}: {words} new")

    given = {"endpoints": asked.endpoints, "clusterId": asked.cluster_id, "mode": asked.mode}
    query = ingest_stream(
        spark,
        asked.to,
        asked.source,
        asked.checkpoint or f"{asked.to.rstrip('/')}/_stream",
        options={name: value for name, value in given.items() if value is not None},
        available_now=asked.once,
        every_s=asked.every,
        told=told,
        tables_of=tables_of(asked.format),
    )
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    return FOUND if _show_damage(tables) else DONE


def silver(_: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """Bronze to histories."""
    records, snapshots = tables.read(bronze.RECORDS), tables.read(bronze.SNAPSHOTS)
    if records is None:
        raise LookupError(f"{asked.to} holds no {bronze.RECORDS}: run ingest before")
    whole = None if snapshots is None else bronze.whole_snapshots(snapshots)
    telling = Telling(tables, _show_written)
    image.build(records, whole, telling)
    if not telling.told:
        _say("silver: nothing new")
    return FOUND if _show_gaps(reach(bronze.settled(records), whole)) else DONE


def make_gold(_: SparkSession, tables: Tables, __: argparse.Namespace) -> int:
    """Histories to answers."""
    gold.build(Telling(tables, _show_written))
    return DONE


def verify_replay(_: SparkSession, tables: Tables, __: argparse.Namespace) -> int:
    """Is the replay what the checkpoints say? FOUND if not, and if there was none to compare with."""
    compared, differing = _compare(tables)
    return DONE if compared and not differing else FOUND


def make_report(_: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """Answers to one page."""
    page = report(tables).encode()
    path = Path(asked.report)
    # Nobody ever reads half a page: the old one stays until the new one is whole.
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(page)
    beside.replace(path)
    _say(f"{path}: {len(page):,} bytes")
    return DONE


def run_all(spark: SparkSession, tables: Lake, asked: argparse.Namespace) -> int:
    """All jobs in order; the answer is FOUND if one found something. A log without a checkpoint is nothing wrong."""
    codes = [_timed(name, spark, tables, asked) for name in ("ingest", "silver", "gold")]
    if tables.read(bronze.SNAPSHOTS) is None:
        _say("verify: there is no checkpoint to compare the replay with")
    else:
        _, differing = _compare(tables)
        codes.append(FOUND if differing else DONE)
    return max(*codes, _timed("report", spark, tables, asked))


def compact(_: SparkSession, tables: Lake, asked: argparse.Namespace) -> int:
    """Many small files of closed days as one a day."""
    for name in COMPACTED:
        done = tables.compact(name, before=asked.before)
        _say(f"{name}: {done.files} files are {done.into} now" if done.files else f"{name}: nothing to do")
    return DONE


def show_loss(_: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """What would be, to stdout: it is an answer, not a progress."""
    lines = consequences(
        tables,
        asked.cluster_id,
        lost_brokers=asked.brokers,
        lost_racks=asked.racks,
        at_offset=asked.at_offset,
        prefer=asked.prefer,
    )
    for line in lines:
        print(line)
    return DONE


Job = Callable[[SparkSession, Lake, argparse.Namespace], int]
JOBS: Final[dict[str, Job]] = {
    "ingest": ingest,
    "stream": stream,
    "silver": silver,
    "gold": make_gold,
    "verify": verify_replay,
    "report": make_report,
    "what-if": show_loss,
    "compact": compact,
    "run": run_all,
}


def _timed(name: str, spark: SparkSession, tables: Lake, asked: argparse.Namespace) -> int:
    began = time.monotonic()
    code = JOBS[name](spark, tables, asked)
    _say(f"{name}: {time.monotonic() - began:.1f} s")
    return code


def _ingest_records(spark: SparkSession, tables: Tables, asked: argparse.Namespace) -> None:
    read = spark.read.format(NAME).option("mode", asked.mode)
    rows = (read if asked.cluster_id is None else read.option("clusterId", asked.cluster_id)).load(asked.source)
    counts = bronze.ingest(rows.persist(), tables)
    _say(f"records: {counts.records} new")
    _say(f"checkpoint records: {counts.snapshots} new")
    _say(f"quarantine: {counts.quarantined} new")
    _show_withdrawn(withdraw_halves(tables))


def _show_written(name: str, rows: int) -> None:
    if name != PROGRESS:
        _say(f"{name.rpartition('/')[2]}: {rows} rows")


def _show_withdrawn(count: int) -> None:
    if count:
        _say(f"quarantine: {count} withdrawn, as they are whole now or given up")


def _show_files(asked: argparse.Namespace) -> None:
    """Say what is read, and left out. Through Spark Connect the files are not to be seen from here."""
    by_ms = SystemClock().wall_ms() - SETTLE_MS
    with suppress(FileNotFoundError):
        places = find([asked.source], cluster_id=asked.cluster_id)
        size = sum(Path(place.path).stat().st_size for place in places)
        _say(f"files: {len(places)}, {size / 1e6:,.1f} MB")
        for place in places:
            if is_being_written(place, by_ms):
                _say(f"{place.path}: being written; left for another time")


def _compare(tables: Tables) -> tuple[int, int]:
    """Say what `verify` found; how many checkpoints were compared, and how many differences there are."""
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
    return compared, count


def _show_damage(tables: Tables) -> bool:
    """Say what is claimed in quarantine, and which offsets have two contents; is there anything?"""
    claims, records = bronze.standing(tables), tables.read(bronze.RECORDS)
    damaged = [] if claims is None else claims.select("source", "_corrupt").take(SHOWN_MAX)
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
    lines: Sequence[str] = [line.strip() for line in str(problem).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("quorate.errors.", "FileNotFoundError", "ValueError"))]
    return (ours or lines)[0]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
