"""Writes the rows of the source `kraft` as plain Parquet: each Python worker writes the files of what it decodes.

No row passes through the JVM, which only hands out the tasks: its row-wise Parquet writer takes more CPU than all
else. The files appear together, by renaming their directory when all tasks have ended.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from quorate.pipeline.files import is_url, local_path
from quorate.pipeline.rows import CUT
from services.pipeline.row_files import CODEC, row_file
from services.pipeline.source.columns import Bundle, arrow_schema, check_columns
from services.pipeline.source.kraft import KraftReader

__all__ = ["Exported", "export"]

ROW_GROUP_ROWS: Final = 1 << 17
"""Rows of a row group; a task holds as many in memory, some 50 MB."""
_RESULT: Final = "file string, rows bigint, damaged bigint"


class Exported(NamedTuple):
    """The counts of an export: of files, of rows, and of rows among them that report damage."""

    files: int
    rows: int
    damaged: int


def export(spark: SparkSession, options: Mapping[str, str], to: str) -> Exported:
    """Writes the rows that `options` of the source select to the new directory `to`, one file a task.

    The directory is one that the driver and all workers reach by the same path. Raises FileExistsError if it exists,
    OSError if it is in an object store, where a directory cannot be renamed, and the source's own errors.
    Without success nothing is left but, after a kill, a hidden directory beside `to`.
    """
    if is_url(to):
        raise OSError(f"{to}: an export needs a file system that renames directories, not an object store")
    place = Path(local_path(to)).absolute()
    if place.exists():
        raise FileExistsError(f"{place} is there already; an export makes its directory")
    columns = check_columns(arrow_schema().names)
    reader = KraftReader(options, columns)
    bundles = [each for each in reader.partitions() if isinstance(each, Bundle)]
    staging = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    staging.mkdir(parents=True)
    try:
        written = _write(spark, reader, bundles, staging)
        _leave_only({file for file, _, _ in written}, staging)
        if not written:  # a reader finds the columns all the same
            pq.write_table(arrow_schema().empty_table(), staging / "part-00000.parquet")
        (staging / "_SUCCESS").touch()
        staging.rename(place)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return Exported(len(written), sum(rows for _, rows, _ in written), sum(damaged for _, _, damaged in written))


def _write(
    spark: SparkSession, reader: KraftReader, bundles: list[Bundle], staging: Path
) -> list[tuple[str, int, int]]:
    """Runs a task for each bundle; returns name, rows and damaged rows of each file. Without rows there is no file."""

    def written(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                # A task may run twice: each attempt has a name of its own, and only what the job returns is kept.
                name = f"part-{number:05}-{uuid.uuid4().hex}.{CODEC}.parquet"
                rows, damaged = _file(reader.read(bundles[number]), staging / name)
                if rows:
                    yield pa.RecordBatch.from_pydict({"file": [name], "rows": [rows], "damaged": [damaged]})

    if not bundles:
        return []
    tasks = spark.range(0, len(bundles), 1, len(bundles))
    return sorted((row["file"], row["rows"], row["damaged"]) for row in tasks.mapInArrow(written, _RESULT).collect())


def _file(batches: Iterator[pa.RecordBatch], path: Path) -> tuple[int, int]:
    """Writes a file, unless there are no rows; returns how many there are, and how many of them report damage."""
    rows = damaged = waiting = 0
    held: list[pa.RecordBatch] = []
    writer: pq.ParquetWriter | None = None
    try:
        for batch in batches:
            held.append(batch)
            waiting += batch.num_rows
            rows += batch.num_rows
            said = pc.starts_with(batch.column("_corrupt"), CUT)  # null where a row reports nothing
            damaged += pc.sum(pc.invert(said)).as_py() or 0
            if waiting >= ROW_GROUP_ROWS:
                writer = writer or row_file(path, batch.schema)
                writer.write_table(pa.Table.from_batches(held))
                held, waiting = [], 0
        if held:
            writer = writer or row_file(path, held[0].schema)
            writer.write_table(pa.Table.from_batches(held))
    finally:
        if writer is not None:
            writer.close()
    assert (writer is None) == (rows == 0), (path, rows)  # the job keeps a file only if it has rows
    return rows, damaged


def _leave_only(files: set[str], staging: Path) -> None:
    """Deletes the files of attempts that did not count."""
    for path in staging.iterdir():
        if path.name not in files:
            path.unlink()
