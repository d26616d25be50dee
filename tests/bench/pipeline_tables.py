"""From a log to answers: what bronze, silver, verify and gold take, and what their tables weigh, record by record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.bench.measure import Table
from tests.bench.pipeline_jobs import Asked, Job, Round
from tests.bench.pipeline_jobs import run as run_apart
from tests.bench.pipeline_logs import Logs, is_ready, logs, megabytes

RECORDS: Final = 300_000
MASTER: Final = "local[2]"
JOBS: Final = ("bronze", "silver", "verify", "gold", "silver", "unchanged", "gold")
"""Silver and gold twice: the first time, the JVM compiles."""
COLUMNS: Final = ("job", "round", "seconds", "records/s", "a core's", "compiled", "JVM peak", "largest worker")
SIZES: Final = ("bronze/records", "silver/events", "silver/partition_history", "silver", "gold", "verify")
SIZE_COLUMNS: Final = ("what", "size", "a record", "files")


def run(records: int = RECORDS, there: Path | None = None) -> list[Table]:
    """One log of so many records, or what lies `there`; nothing without Spark."""
    if not is_ready():
        return []
    with logs(records, there) as found:
        jobs = [Job(name=name, rows=found.records, logs=str(found.directory), lake=str(found.lake)) for name in JOBS]
        rounds = run_apart(Asked(master=MASTER, jobs=jobs))
        weights = list(_weights(found))
        return [
            Table(
                title=f"Log to answers at {MASTER}; {found}",
                columns=COLUMNS,
                rows=[_row(each, rounds[:at]) for at, each in enumerate(rounds)],
                data=[asdict(each) for each in rounds],
            ),
            Table(
                title=f"What lies on the disk then, {found}",
                columns=SIZE_COLUMNS,
                rows=[_weight(what, size, files, found) for what, size, files in weights],
                data=[{"what": what, "bytes": size, "files": files} for what, size, files in weights],
            ),
        ]


def _row(each: Round, before: list[Round]) -> tuple[str, ...]:
    number = 1 + sum(other.name == each.name for other in before)
    return (
        each.name,
        str(number),
        f"{each.seconds:.1f} s",
        f"{each.per_second / 1000:,.0f} k/s",
        f"{each.per_core / 1000:,.0f} k/s",
        f"{each.per_core_compiled / 1000:,.0f} k/s",
        megabytes(each.jvm_bytes),
        megabytes(each.worker_bytes),
    )


def _weights(found: Logs) -> Iterator[tuple[str, int, int]]:
    """What, its bytes, and in how many files."""
    segments = list(found.directory.rglob("*.log"))
    yield "the log", sum(path.stat().st_size for path in segments), len(segments)
    for name in SIZES:
        files = [path for path in (found.lake / name).rglob("*.parquet") if path.is_file()]
        yield name, sum(path.stat().st_size for path in files), len(files)


def _weight(what: str, size: int, files: int, found: Logs) -> tuple[str, ...]:
    return what, megabytes(size), f"{size / found.records:.1f} B", f"{files:,}"
