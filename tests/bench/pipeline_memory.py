"""Memory as the log grows: the largest Python worker and the JVM, reading ten times and a hundred times as much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.bench.measure import Table
from tests.bench.pipeline_jobs import HEAP, Asked, Job, Round
from tests.bench.pipeline_jobs import run as run_apart
from tests.bench.pipeline_logs import Logs, is_ready, logs, megabytes

RECORDS: Final = 1_000_000
STEPS: Final = (100, 10, 1)
"""The sizes are so many times smaller than the largest."""
RECORDS_MIN: Final = 1_000
MASTER: Final = "local[2]"
JOBS: Final = ("parquet", "bronze")
COLUMNS: Final = ("records", "log", "job", "JVM peak", "largest worker", "workers", "together", "seconds")


def run(records: int = RECORDS, there: Path | None = None) -> list[Table]:
    """Logs of a hundredth, a tenth and all of so many records; or those `there`. Nothing without Spark."""
    if not is_ready():
        return []
    sizes = [max(RECORDS_MIN, records // step) for step in STEPS] if there is None else [records]
    rows: list[tuple[str, ...]] = []
    data: list[dict[str, object]] = []
    for size in sizes:
        with logs(size, there) as found:
            for name in JOBS:  # each in a process of its own: a heap that has grown does not shrink
                (measured,) = run_apart(Asked(master=MASTER, jobs=_jobs(found, name)))
                rows.append(_row(found, measured))
                data.append({"log_bytes": found.bytes, **asdict(measured)})
    title = f"Memory of log to Parquet and log to bronze at {MASTER}, heap {HEAP}"
    return [Table(title=title, columns=COLUMNS, rows=rows, data=data)]


def _jobs(found: Logs, name: str) -> Sequence[Job]:
    return [Job(name=name, rows=found.records, logs=str(found.directory), lake=str(found.lake))]


def _row(found: Logs, each: Round) -> tuple[str, ...]:
    return (
        f"{found.records:,}",
        megabytes(found.bytes),
        each.name,
        megabytes(each.jvm_bytes),
        megabytes(each.worker_bytes),
        str(each.workers),
        megabytes(each.jvm_bytes + each.workers * each.worker_bytes),
        f"{each.seconds:.1f} s",
    )
