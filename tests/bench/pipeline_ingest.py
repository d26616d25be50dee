"""P21: from a metadata log to Parquet: by Spark, by one process without it, by a decoder that keeps nothing.

A core's worth is records a second of CPU. Spark's is that of the JVM and of its Python workers together; the first
round, in which the JVM compiles most, is not counted, and `compiled` is what it comes to without all compiling.
"""

from __future__ import annotations

import mmap
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from quorate.pipeline.columns import COLUMNS as ROW_COLUMNS
from quorate.pipeline.commitment import Commitment
from quorate.pipeline.log_files import LOG_KIND, FilePart, find, parts
from quorate.pipeline.rows import RowFilter, read
from quorate.records import decode_record
from quorate.wire.batch import check_batch, data_values
from tests.bench.measure import Figure, Table, rate
from tests.bench.pipeline_jobs import Asked, Job, Round
from tests.bench.pipeline_jobs import run as run_apart
from tests.bench.pipeline_logs import Logs, is_ready, logs

RECORDS: Final = 500_000
ROUNDS: Final = 3
MASTERS: Final = ("local[1]", "local[2]")
ALONE_BYTES: Final = 8 << 20
"""How much of the log one process alone reads in a round."""
ALL_COLUMNS: Final = (
    *("cluster_id", "source", "kind", "snapshot_offset", "snapshot_epoch", "fingerprint"),
    *ROW_COLUMNS,
)
"""What Spark asks of the source where all is wanted."""
SPARK: Final = {
    "read": "Spark: log to nothing",
    "parquet": "Spark: log to Parquet",
    "export": "Spark: log to Parquet, written by the workers",
    "bronze": "Spark: log to bronze, each record once",
    "bronze_rows": "Spark: the same through the JVM",
    "again": "Spark: the same logs again, nothing new",
    "range": "Spark: a range to such Parquet, without a log",
}
TARGETS: Final = {("local[2]", name): "≥ 400 k/s (P21)" for name in ("parquet", "export")}
COLUMNS: Final = (
    *("what", "cores", "records/s", "a core's", "compiled", "of the decoder's", "spread", "of it Python", "target"),
)


def run(records: int = RECORDS, there: Path | None = None) -> list[Table]:
    """A log of so many records, or those that lie `there`; nothing without Spark."""
    if not is_ready():
        return []
    with logs(records, there) as found:
        alone = _alone(found)
        decoder = alone[0].rate
        rows = [_row_alone(figure, decoder) for figure in alone]
        data: list[dict[str, object]] = [asdict(figure) for figure in alone]
        for master in MASTERS:
            rounds = run_apart(Asked(master=master, jobs=_jobs(found)))
            rows += [_row(master, counted, decoder) for counted in by_job(rounds)]
            data += [{"master": master, **asdict(each)} for each in rounds]
        return [Table(title=f"P21: log to Parquet; {found}", columns=COLUMNS, rows=rows, data=data)]


def by_job(rounds: Sequence[Round]) -> Iterator[list[Round]]:
    """The rounds of each job, without its first if there are more."""
    for name in dict.fromkeys(each.name for each in rounds):
        same = [each for each in rounds if each.name == name]
        yield same[1:] or same


def _jobs(found: Logs) -> list[Job]:
    return [
        Job(
            name=name,
            rows=found.records,
            rounds=ROUNDS,
            logs=str(found.directory),
            lake=str(found.lake),
            part_bytes=max(1, found.bytes // 8),
        )
        for name in SPARK
    ]


def _row(master: str, rounds: Sequence[Round], decoder: float) -> tuple[str, ...]:
    name = rounds[0].name
    per_second = [each.per_second for each in rounds]
    per_core = statistics.median(each.per_core for each in rounds)
    median = statistics.median(per_second)
    return (
        SPARK[name],
        master,
        f"{median / 1000:,.0f} k/s",
        f"{per_core / 1000:,.0f} k/s",
        f"{statistics.median(each.per_core_compiled for each in rounds) / 1000:,.0f} k/s",
        f"{per_core / decoder:.0%}",
        f"{(max(per_second) - min(per_second)) / median:.0%}",
        f"{statistics.median(each.python_cpu / each.cpu for each in rounds):.0%}",
        TARGETS.get((master, name), ""),
    )


# -- without Spark -------------------------------------------------------------------------------------


def _alone(found: Logs) -> list[Figure]:
    """One process, step by step more of it: what each part of the way costs."""
    places = [place for place in find([str(found.directory)]) if place.kind == LOG_KIND]
    part = next(parts(places[0], part_bytes=ALONE_BYTES))
    with TemporaryDirectory(prefix="quorate-bench-") as folder:
        steps: list[tuple[str, Callable[[], int]]] = [
            ("alone: bytes to records, all let go", lambda: _decode(part)),
            ("alone: … to columns, payloads as JSON", lambda: sum(map(len, read(part, RowFilter())))),
            ("alone: … to Arrow, record by record", lambda: sum(batch.num_rows for batch in _arrow(part, read))),
            ("alone: … to Arrow, by column", lambda: sum(batch.num_rows for batch in _arrow(part, read_by_column))),
            ("alone: … to Parquet", lambda: _parquet(part, Path(folder) / "alone.parquet")),
        ]
        return [rate(what, step) for what, step in steps]


def _decode(part: FilePart) -> int:
    """The best that a decoder of these records can do in Python: no column, no text."""
    count, at = 0, part.start
    with Path(part.place.path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while at < part.end:
            header = check_batch(data, at)
            if not header.is_control:
                count += len([decode_record(value) for value in data_values(data, at, header)])
            at += header.size
    return count


def _arrow(part: FilePart, read_part: Callable[..., Iterator[Any]]) -> Iterator[Any]:  # Any: pyarrow has no types
    from services.pipeline.source.columns import arrow_batch

    for columns in read_part(part, RowFilter()):
        yield arrow_batch(part, columns, ALL_COLUMNS, Commitment())


def read_by_column(part: FilePart, wanted: RowFilter) -> Iterator[Any]:
    """What the source does; imported late, as it needs Arrow."""
    from quorate.pipeline.column_rows import read_arrays

    return read_arrays(part, wanted)


def _parquet(part: FilePart, path: Path) -> int:
    import pyarrow.parquet as pq

    writer, count = None, 0
    for batch in _arrow(part, read_by_column):
        writer = writer or pq.ParquetWriter(path, batch.schema)
        writer.write_batch(batch)
        count += batch.num_rows
    assert writer is not None, part
    writer.close()
    return count


def _row_alone(figure: Figure, decoder: float) -> tuple[str, ...]:
    rate_text = f"{figure.rate / 1000:,.0f} k/s"
    return (figure.what, "1", "", rate_text, "", f"{figure.rate / decoder:.0%}", f"{figure.spread:.0%}", "100%", "")
