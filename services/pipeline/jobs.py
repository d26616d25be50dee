"""The jobs of `quorate pipeline`: each reads and writes tables, reports on stderr, and returns an exit code."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as fn

from quorate.pipeline.files import size_of
from quorate.pipeline.log_files import find, is_being_written
from quorate.pipeline.rows import CUT
from quorate.runtime.event_loop.clock import SystemClock
from services.pipeline import bronze, gold, verify
from services.pipeline.apart import Failing, Only, apart
from services.pipeline.bronze.claims import withdraw_halves
from services.pipeline.bronze.spans import SPAN_FILES, SPANS, ingest_spans
from services.pipeline.bronze.stream import ingest_stream
from services.pipeline.difference_text import difference_text
from services.pipeline.exits import DONE, FAILED, FOUND
from services.pipeline.export import export
from services.pipeline.gold.what_if import Loss, what_if
from services.pipeline.locks import LOCKED, locked
from services.pipeline.memory import is_small
from services.pipeline.node_options import node_options
from services.pipeline.problems import no_space, words_of
from services.pipeline.report import report
from services.pipeline.silver import image, progress
from services.pipeline.silver.events import reach
from services.pipeline.silver.progress import PROGRESS
from services.pipeline.source.options import SETTLE_MS
from services.pipeline.steps import Steps, say
from services.pipeline.tables import Lake, Remembered, Reporting, Tables, opened

__all__ = ["JOBS", "run"]

SHOWN_MAX: Final = 20
"""Most damaged inputs or differences that are printed; the tables have all of them."""
COMPACTED: Final = (
    bronze.RECORDS,
    bronze.SNAPSHOTS,
    bronze.KNOWN,
    bronze.QUARANTINE,
    bronze.WITHDRAWN,
    SPANS,
    SPAN_FILES,
)
"""The append-only tables, which `compact` rewrites; all other tables are written whole."""
_TWO_JOBS: Final = "two jobs wrote at once; silver counts each once, another --to would have each once"
_EVENTS: Final = f"{image.SILVER}/events"
"""Whose clusters are those that silver has."""


def run(spark: SparkSession, asked: argparse.Namespace) -> int:
    """Runs the job that the parsed arguments name; returns its exit code, FAILED for an error, which it prints."""
    try:
        lake = opened(spark, asked.to)
        return _timed(asked.name, spark, Remembered(lake) if is_small(spark) else lake, asked)
    except Exception as problem:  # an exit code of 1 would mean that it ran and found damage
        say(f"{asked.name}: {no_space(problem, _written_to(asked)) or words_of(problem)}")
    return FAILED


def ingest(spark: SparkSession, tables: Lake, asked: argparse.Namespace) -> int:
    """The job `ingest`: reads files of logs and spans into bronze; FOUND if bronze has damage."""
    steps = Steps()
    if asked.source is not None:
        _show_files(asked)
        _ingest_records(spark, tables, asked, steps)
    if asked.spans is not None:
        spans = ingest_spans(spark, tables, asked.spans, cluster_id=asked.cluster_id)
        steps.done(f"spans: {spans.spans} new")
        say(f"quarantine: {spans.quarantined} spans new")
        _show_withdrawn(spans.withdrawn)
        for path in spans.waiting:
            say(f"{path}: its last line is being written; left for another time")
    return FOUND if _show_damage(tables) else DONE


def stream(spark: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """The job `stream`: streams records into bronze until interrupted, or with `once` until everything is read.

    Returns FOUND if bronze has damage.
    """

    def report_batch(number: int, counts: bronze.RowCounts) -> None:
        words = f"{counts.records} records, {counts.snapshots} checkpoint records, {counts.quarantined} in quarantine"
        say(f"batch {number}: {words} new")

    given = {"clusterId": asked.cluster_id, "mode": asked.mode, **node_options(asked)}
    query = ingest_stream(
        spark,
        asked.to,
        asked.source,
        asked.checkpoint or f"{asked.to.rstrip('/')}/_stream",
        options={name: value for name, value in given.items() if value is not None},
        available_now=asked.once,
        every_s=asked.every,
        on_batch=report_batch,
    )
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    return FOUND if _show_damage(tables) else DONE


def silver(spark: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """The job `silver`: builds the histories from bronze. Raises LookupError without records.

    Returns FOUND if a log has a gap or no base, or if a cluster is left out because the job fails for it.
    """
    if tables.read(bronze.RECORDS) is None:
        raise LookupError(f"{asked.to} holds no {bronze.RECORDS}: run ingest before")
    counting = Reporting(tables, _written(Steps()))
    # Rows that a failed run has left of a cluster must not stay beside what is sound.
    ends, failing = apart(counting, bronze.RECORDS, _histories, again=lambda: progress.note(spark, tables, {}))
    if not counting.table_count:
        say("silver: nothing new")
    return FOUND if _show_gaps(ends) | _show_failing("silver", failing) else DONE


def make_gold(_: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """The job `gold`: builds gold's tables from the histories; FOUND if a cluster is left out, as it fails for that."""
    counting = Reporting(tables, _written(Steps()))
    failing = apart(counting, _EVENTS, lambda some: gold.build(some, min_isr=asked.min_isr))[1]
    return FOUND if _show_failing("gold", failing) else DONE


def verify_replay(_: SparkSession, tables: Tables, __: argparse.Namespace) -> int:
    """The job `verify`: compares the replay with the checkpoints; FOUND if they differ or none was compared."""
    found = _compare(tables)
    return DONE if found.compared and not found.has_faults else FOUND


def make_report(_: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """The job `report`: writes the report page about the clusters whose gold is of the present silver.

    The page takes the place of the file `asked.report` when it is whole. Raises LookupError if there is no such gold.
    Returns FOUND if other clusters are left out.
    """
    of_silver = gold.of_silver(tables)
    for cluster_id in of_silver.others:
        say(f"report: cluster {cluster_id} is left out: its gold is not of the present silver; run gold")
    told = Only(tables, of_silver.clusters) if of_silver.others else tables
    steps = Steps()
    made, failing = apart(told, _EVENTS, lambda some: report(some, left_out=of_silver.others, on_section=steps.done))
    page = made.encode()
    path = Path(asked.report)
    # The page is written beside the old one and renamed, so nobody reads an incomplete page.
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(page)
    beside.replace(path)
    say(f"{path}: {len(page):,} bytes")
    return FOUND if _show_failing("report", failing) or of_silver.others else DONE


def run_all(spark: SparkSession, tables: Lake, asked: argparse.Namespace) -> int:
    """The job `run`: reads what there is, and runs silver, gold, verify and report in order; returns the highest code.

    It sets `once` and `every` of `asked`, so that a stream ends when all is read that is there now.
    A log without a checkpoint is not an error. Damage that was found ends no job: what is sound is shown.
    """
    reads = [*(["ingest"] if asked.source or asked.spans else []), *([] if asked.source else ["stream"])]
    asked.once, asked.every = True, None
    codes = [_timed(name, spark, tables, asked) for name in (*reads, "silver", "gold")]
    if tables.read(bronze.SNAPSHOTS) is None:
        say("verify: there is no checkpoint to compare the replay with")
    else:
        with locked(asked.to, "verify"):
            codes.append(FOUND if _compare(tables).has_faults else DONE)
    return max(*codes, _timed("report", spark, tables, asked))


def compact(_: SparkSession, tables: Lake, asked: argparse.Namespace) -> int:
    """The job `compact`: rewrites the small files of closed days as one file a day."""
    for name in COMPACTED:
        done = tables.compact(name, before=asked.before)
        say(f"{name}: {done.files} files are {done.into} now" if done.files else f"{name}: nothing to do")
    return DONE


def show_loss(_: SparkSession, tables: Tables, asked: argparse.Namespace) -> int:
    """The job `what-if`: prints the consequences of a loss to stdout, because they are the command's result."""
    loss = Loss(asked.brokers, asked.racks, asked.prefer, asked.min_isr)
    for line in what_if(tables, asked.cluster_id, loss, at_offset=asked.at_offset):
        print(line)
    return DONE


def export_rows(spark: SparkSession, _: Tables, asked: argparse.Namespace) -> int:
    """The job `export`: writes the rows of the source to a directory of Parquet files; FOUND if some report damage."""
    steps = Steps()
    _show_files(asked)
    given = {"path": asked.source, "clusterId": asked.cluster_id, "mode": asked.mode}
    found = export(spark, {name: value for name, value in given.items() if value is not None}, asked.to)
    steps.done(f"rows: {found.rows}, in {found.files} files")
    say(f"damaged places: {found.damaged}")
    return FOUND if found.damaged else DONE


def _written_to(asked: argparse.Namespace) -> list[str]:
    """Lists the places that a job writes to on this machine: tables, page, checkpoint, and Spark's own directory."""
    of_spark = dict(asked.conf).get("spark.local.dir", tempfile.gettempdir())
    named = (asked.to, getattr(asked, "report", None), getattr(asked, "checkpoint", None))
    return [*filter(None, named), *(os.environ.get("SPARK_LOCAL_DIRS") or of_spark).split(",")]


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
    "export": export_rows,
    "run": run_all,
}
assert LOCKED.keys() <= JOBS.keys(), LOCKED.keys()


def _timed(name: str, spark: SparkSession, tables: Lake, asked: argparse.Namespace) -> int:
    began = time.monotonic()
    with locked(asked.to, name):
        code = JOBS[name](spark, tables, asked)
    say(f"{name}: {time.monotonic() - began:.1f} s")
    return code


def _ingest_records(spark: SparkSession, tables: Lake, asked: argparse.Namespace, steps: Steps) -> None:
    given = {"path": asked.source, "clusterId": asked.cluster_id, "mode": asked.mode}
    counts = bronze.ingest_files(spark, {name: value for name, value in given.items() if value is not None}, tables)
    steps.done(f"records: {counts.records} new")
    say(f"checkpoint records: {counts.snapshots} new")
    say(f"quarantine: {counts.quarantined} new")
    _show_withdrawn(counts.withdrawn + withdraw_halves(tables))


def _written(steps: Steps) -> Callable[[str, int], None]:
    """Returns a function that reports each table that is written."""

    def report_table(name: str, rows: int) -> None:
        if name != PROGRESS:
            steps.done(f"{name.rpartition('/')[2]}: {rows} rows")

    return report_table


def _show_withdrawn(count: int) -> None:
    if count:
        say(f"quarantine: {count} withdrawn, as they are whole now or given up")


def _show_files(asked: argparse.Namespace) -> None:
    """Prints how many files are read and which are left out; under Spark Connect the files are not visible here."""
    by_ms = SystemClock().wall_ms() - SETTLE_MS
    with suppress(FileNotFoundError):
        places = find([asked.source], cluster_id=asked.cluster_id)
        size = sum(size_of(place.path, place.access) for place in places)
        say(f"files: {len(places)}, {size / 1e6:,.1f} MB")
        for place in places:
            if is_being_written(place, by_ms):
                say(f"{place.path}: being written; left for another time")


class _Comparison(NamedTuple):
    """How many checkpoints were compared; whether any differs, or could not be compared because of an error."""

    compared: int
    has_faults: bool


def _compare(tables: Tables) -> _Comparison:
    """Runs `verify` and prints its results."""
    steps = Steps()
    replays, failing = apart(tables, _EVENTS, verify.verify_replay)
    compared = 0
    for row in replays.checkpoints.orderBy("cluster_id", "snapshot_offset").collect():
        compared += row["verdict"] == verify.COMPARED
        say(f"{row['cluster_id']} at offset {row['snapshot_offset']}: {row['verdict']} ({row['source']})")
    count = replays.differences.count()
    for row in replays.differences.orderBy("cluster_id", "snapshot_offset", "kind", "key").take(SHOWN_MAX):
        say(difference_text(row.asDict()))
    steps.done(f"{compared} checkpoints compared, {count} differences")
    return _Comparison(compared, _show_failing("verify", failing) or count > 0)


def _show_damage(tables: Tables) -> bool:
    """Prints the claims in quarantine and the offsets with two contents; returns whether there is damage.

    An end that a node's start cuts off, as a copy of a running node's directory has it, is no damage: it is printed.
    """
    claims, records = bronze.standing(tables), tables.read(bronze.RECORDS)
    is_cut = fn.startswith("_corrupt", fn.lit(CUT)).alias("is_cut")
    said = [] if claims is None else claims.select("source", "_corrupt", is_cut).orderBy("is_cut").take(SHOWN_MAX)
    for row in said:
        say(f"{row['source']}: {row['_corrupt']}")
    damaged = [row for row in said if not row["is_cut"]]
    twice = [] if records is None else bronze.conflicts(records).orderBy("cluster_id", "offset").take(SHOWN_MAX)
    for row in twice:
        place = f"{row['cluster_id']}: offset {row['offset']} of epoch {row['epoch']}"
        say(f"{place} has {row['contents']} contents: {', '.join(row['sources'])}")
    doubled = [] if records is None else bronze.doubles(records).orderBy("cluster_id").collect()
    for row in doubled:
        what = f"{row['doubled']} records are in {bronze.RECORDS} again, the first at offset {row['first']}"
        say(f"{row['cluster_id']}: {what}: {_TWO_JOBS}")
    return bool(damaged or twice or doubled)


def _histories(tables: Tables) -> list[Row]:
    """Builds silver; returns the clusters whose log cannot be followed to its end, as `reach` has them."""
    records, snapshots = tables.read(bronze.RECORDS), tables.read(bronze.SNAPSHOTS)
    assert records is not None, "it was there before"
    whole = None if snapshots is None else bronze.whole_snapshots(snapshots)
    image.build(records, whole, tables)
    far = reach(bronze.settled(records, bronze.known(tables)), whole)
    return far.where("base_offset is null or end_offset < log_end_offset").collect()


def _show_gaps(rows: Sequence[Row]) -> bool:
    """Prints these clusters; returns whether there are any."""
    for row in rows:
        if row["base_offset"] is None:
            say(f"{row['cluster_id']}: begins at offset {row['log_start_offset']}, and no checkpoint is its base")
        else:
            place = f"{row['cluster_id']}: offset {row['end_offset']}"
            say(f"{place} is missing; silver ends there, until a file that has it is ingested")
    return bool(rows)


def _show_failing(job: str, failing: Sequence[Failing]) -> bool:
    """Prints the clusters that a job failed for; returns whether there are any."""
    for each in failing:
        say(f"{job}: cluster {each.cluster_id} is left out: {words_of(each.problem)}")
    return bool(failing)
