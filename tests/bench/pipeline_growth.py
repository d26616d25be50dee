"""How the reading of logs grows: with cores, with the number of segments and clusters that the same records lie in."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.bench.measure import Table
from tests.bench.pipeline_ingest import by_job
from tests.bench.pipeline_jobs import Asked, Job, Round
from tests.bench.pipeline_jobs import run as run_apart
from tests.bench.pipeline_logs import Logs, is_ready, logs

RECORDS: Final = 200_000
ROUNDS: Final = 3
MASTERS: Final = ("local[1]", "local[2]")
SHAPES: Final = ((1, 1), (1, 8), (20, 1))
"""Clusters, and segments of each."""
BYTES_PER_RECORD: Final = 50
COLUMNS: Final = (
    "records",
    "clusters",
    "segments",
    "cores",
    "records/s",
    "a core's",
    "compiled",
    "beside one core",
    "spread",
)


def run(records: int = RECORDS, there: Path | None = None) -> list[Table]:
    """The same number of records in files of several sizes; or those `there`, as they lie. Nothing without Spark."""
    if not is_ready():
        return []
    rows: list[tuple[str, ...]] = []
    data: list[dict[str, object]] = []
    for clusters, segments in SHAPES if there is None else ((0, 0),):
        size = max(1, records * BYTES_PER_RECORD // max(1, clusters * segments))
        with logs(records, there, clusters=max(1, clusters), segment_bytes=size if segments > 1 else None) as found:
            measured = {master: _measure(found, master) for master in MASTERS}
            first = statistics.median(each.per_second for each in measured[MASTERS[0]])
            count = len(list(found.directory.rglob("*.log")))
            rows += [_row(found, count, master, rounds, first) for master, rounds in measured.items()]
            data += [
                {"clusters": found.clusters, "segments": count, "master": master, **asdict(each)}
                for master, rounds in measured.items()
                for each in rounds
            ]
    return [Table(title="Growth: log to Parquet, by cores and by files", columns=COLUMNS, rows=rows, data=data)]


def _measure(found: Logs, master: str) -> list[Round]:
    job = Job(
        name="parquet",
        rows=found.records,
        rounds=ROUNDS,
        logs=str(found.directory),
        lake=str(found.lake),
        part_bytes=max(1, found.bytes // 8),
    )
    (rounds,) = by_job(run_apart(Asked(master=master, jobs=[job])))
    return rounds


def _row(found: Logs, segments: int, master: str, rounds: Sequence[Round], first: float) -> tuple[str, ...]:
    per_second = [each.per_second for each in rounds]
    median = statistics.median(per_second)
    return (
        f"{found.records:,}",
        f"{found.clusters}",
        f"{segments}",
        master,
        f"{median / 1000:,.0f} k/s",
        f"{statistics.median(each.per_core for each in rounds) / 1000:,.0f} k/s",
        f"{statistics.median(each.per_core_compiled for each in rounds) / 1000:,.0f} k/s",
        f"{median / first:.2f}",
        f"{(max(per_second) - min(per_second)) / median:.0%}",
    )
