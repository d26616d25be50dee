"""Compaction of plain Parquet: merges the small files of a partition, so that readers see each row exactly once.

A round rewrites the files of some partitions. It writes a note that lists the old files, then new files, which readers
still ignore; compares the rows of both; renames the note, from when on readers use the new files instead of the old;
and deletes the old files and the note. `rounds` is the readers' side. A run first finishes or undoes the rounds that a
killed run left. Files that are appended meanwhile are in no note and are left alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import AtomicType, StructField, VariantType

from services.pipeline.tables.files import ATTEMPT, Files, new_attempt
from services.pipeline.tables.rounds import Round, file_name, relative, rounds_of
from services.pipeline.tables.verbs import Compacted

__all__ = ["ROUND_FILES_MAX", "Compaction"]

ROUND_FILES_MAX: Final = 2_000
"""About how many old files a round rewrites: it bounds the note, which readers have in their plans, and lost work."""

BASENAME: Final = "mapreduce.output.basename"
"""Hadoop's setting for the prefix of written file names, `part` by default."""
_ORDER: Final = ("fingerprint", "offset", "start_ns")
"""Sort order within a file, by those of these columns that exist, so that Parquet's statistics skip row groups."""
_OF_FILES: Final = ("path", "modificationTime", "length", "content")


class Compaction:
    """Merges the small files of one table of plain Parquet, in the directory `place`."""

    def __init__(self, spark: SparkSession, place: str, files: Files) -> None:
        self._spark = spark
        self._place = place
        self._files = files

    def run(self, *, before: date, files_max: int = ROUND_FILES_MAX) -> Compacted:
        """Rewrites all closed partitions that have several files, each as one.

        A partition is closed if its day is before `before`, or if the table has no days.

        Rounds that a killed run has left are finished or undone first. Returns how many files were rewritten.
        Raises ArithmeticError if a round's new files do not have the rows of its old ones; that round is undone.
        """
        for left in rounds_of(self._spark, self._place):
            self._end(left) if left.is_done else self._take_back(left)
        count, into = 0, 0
        closed = self._closed(before)
        for old in _rounds(closed, files_max):
            count += len(old)
            into += self._round(old)
        assert count == sum(map(len, closed)), (count, len(closed))
        return Compacted(count, into)

    def _round(self, old: Sequence[str]) -> int:
        """Rewrites these files in one round; returns how many new files replace them."""
        planned = Round(f"compact-{secrets.token_hex(8)}", tuple(old), is_done=False)
        self._files.write(planned.note(self._place), planned.text())
        levels = old[0].count("/")
        self._write(self._read(old), planned.id, levels)
        new = self._listed().where(fn.startswith(file_name(), fn.lit(planned.id)))
        made = [row[0] for row in new.select(relative(levels)).collect()]
        found, wanted = self._sums(self._read(made)), self._sums(self._read(old))
        if found != wanted:
            self._take_back(planned)
            raise ArithmeticError(f"{self._place}: {wanted} (rows, hash) became {found}: nothing was compacted")
        done = planned._replace(is_done=True)
        self._files.rename(planned.note(self._place), done.note(self._place))
        self._end(done)
        return len(made)

    def _end(self, done: Round) -> None:
        """Completes a round: deletes its old files, then its note."""
        for old in done.old:
            self._files.delete(self._path(old))
        self._files.delete(done.note(self._place))
        # On object stores a rename is a copy and a deletion, so the first note may still be there.
        self._files.delete(done._replace(is_done=False).note(self._place))

    def _take_back(self, planned: Round) -> None:
        """Undoes a round: deletes its new files, as far as they were written, then its note."""
        made = self._listed().where(fn.startswith(file_name(), fn.lit(planned.id)))
        for row in made.select("path").collect():
            self._files.delete(row["path"])
        self._files.delete(planned.note(self._place))

    def _closed(self, before: date) -> list[list[str]]:
        """Returns the files of each closed partition that has more than one."""
        try:
            listed = self._listed()
        except AnalysisException as problem:
            if problem.getCondition() == "PATH_NOT_FOUND":
                return []
            raise
        partitions = [name for name in listed.columns if name not in _OF_FILES]
        if not partitions:
            return []
        closed = listed.where(fn.col("date") < before.isoformat()) if "date" in partitions else listed
        files = fn.array_sort(fn.collect_list(relative(len(partitions)))).alias("files")
        each = closed.groupBy(*partitions).agg(files).where("size(files) > 1").orderBy(*partitions)
        return [list(row["files"]) for row in each.collect()]

    def _listed(self) -> DataFrame:
        """Lists the table's Parquet files, one row each, whether they count or not; no content is read."""
        return self._spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet").load(self._place)

    def _read(self, files: Sequence[str]) -> DataFrame:
        """Reads the rows of these files, with every column that any of them has."""
        reader = self._spark.read.option("basePath", self._place).option("mergeSchema", "true")
        return reader.parquet(*(self._path(each) for each in files))

    def _write(self, rows: DataFrame, id_: str, levels: int) -> None:
        partitions = rows.columns[-levels:]
        order = [name for name in _ORDER if name in rows.columns]
        one_each = rows.repartition(*partitions).sortWithinPartitions(*partitions, *order)
        writer = one_each.write.mode("append").option(BASENAME, id_).option(ATTEMPT, new_attempt())
        writer.partitionBy(*partitions).parquet(self._place)

    def _sums(self, rows: DataFrame) -> tuple[int, int | None]:
        """Returns the number of rows and the exclusive-or of their hashes, to compare old files with new ones."""
        parts = [part for field in rows.schema for part in _hashable(field)]
        hashed = rows.select(fn.xxhash64(*parts).alias("hash"))
        count, parity = hashed.agg(fn.count("*"), fn.bit_xor("hash")).collect()[0]
        return count, parity

    def _path(self, name: str) -> str:
        return f"{self._place}/{unquote(name)}"


def _rounds(partitions: Sequence[Sequence[str]], files_max: int) -> Iterator[list[str]]:
    """Groups the files of whole partitions into rounds of about `files_max` files.

    >>> list(_rounds([["a1", "a2"], ["b1", "b2"], ["c1", "c2", "c3"]], 4))
    [['a1', 'a2', 'b1', 'b2'], ['c1', 'c2', 'c3']]

    """
    taken: list[str] = []
    for files in partitions:
        if taken and len(taken) + len(files) > files_max:
            yield taken
            taken = []
        taken = [*taken, *files]
    if taken:
        yield taken


def _hashable(field: StructField) -> tuple[Column, Column]:
    """Returns what is hashed of a column: its value, and whether it is null, because xxhash64 skips nulls."""
    value = fn.col(field.name)
    # Maps and variants, and types that contain them, cannot be hashed; their JSON text is hashed instead.
    is_plain = isinstance(field.dataType, AtomicType) and not isinstance(field.dataType, VariantType)
    return value if is_plain else fn.to_json(fn.struct(value)), value.isNull()
