"""Many small files of plain Parquet as one a partition, so that no reader and no kill loses a row or doubles one.

Each round takes some partitions: it notes which files it will rewrite, writes the new ones (which do not count yet),
compares them with the old, turns the note over (now they count, and the old ones do not), deletes the old and the note.
`rounds` is what readers make of notes. A run begins with what a killed one left: what was only planned is taken back,
what was done is brought to its end. Files that come meanwhile are in no note, and stay.
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
"""Old files of one round: so long is its note, which readers have in their plans, and so much a kill may cost."""

BASENAME: Final = "mapreduce.output.basename"
"""With what the names of written files begin, in place of `part`."""
_ORDER: Final = ("fingerprint", "offset", "start_ns")
"""Rows lie in this order, as far as there are such columns, so that Parquet's statistics cut reads."""
_OF_FILES: Final = ("path", "modificationTime", "length", "content")


class Compaction:
    """Of one table at `place`."""

    def __init__(self, spark: SparkSession, place: str, files: Files) -> None:
        self._spark = spark
        self._place = place
        self._files = files

    def run(self, *, before: date, files_max: int = ROUND_FILES_MAX) -> Compacted:
        """All closed partitions with several files. Raises ArithmeticError, having changed nothing, where a round's
        new files have not the rows of its old.
        """
        for left in rounds_of(self._spark, self._place):
            self._end(left) if left.is_done else self._take_back(left)
        count, into = 0, 0
        for old in _rounds(self._closed(before), files_max):
            count += len(old)
            into += self._round(old)
        return Compacted(count, into)

    def _round(self, old: Sequence[str]) -> int:
        """Rewrite these files; how many they are now."""
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
        """The old files go, and the note."""
        for old in done.old:
            self._files.delete(self._path(old))
        self._files.delete(done.note(self._place))
        # Where a rename is a copy and a deletion.
        self._files.delete(done._replace(is_done=False).note(self._place))

    def _take_back(self, planned: Round) -> None:
        """What there is of the new files goes, and the note."""
        made = self._listed().where(fn.startswith(file_name(), fn.lit(planned.id)))
        for row in made.select("path").collect():
            self._files.delete(row["path"])
        self._files.delete(planned.note(self._place))

    def _closed(self, before: date) -> list[list[str]]:
        """The files of each closed partition that has several."""
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
        """A row a file, whichever counts; nothing of it is read."""
        return self._spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet").load(self._place)

    def _read(self, files: Sequence[str]) -> DataFrame:
        """The rows of these; a column that only some of them have is none that may go."""
        reader = self._spark.read.option("basePath", self._place).option("mergeSchema", "true")
        return reader.parquet(*(self._path(each) for each in files))

    def _write(self, rows: DataFrame, id_: str, levels: int) -> None:
        partitions = rows.columns[-levels:]
        order = [name for name in _ORDER if name in rows.columns]
        one_each = rows.repartition(*partitions).sortWithinPartitions(*partitions, *order)
        writer = one_each.write.mode("append").option(BASENAME, id_).option(ATTEMPT, new_attempt())
        writer.partitionBy(*partitions).parquet(self._place)

    def _sums(self, rows: DataFrame) -> tuple[int, int | None]:
        """How many rows, and the exclusive-or of their hashes."""
        parts = [part for field in rows.schema for part in _hashable(field)]
        told = rows.select(fn.xxhash64(*parts).alias("hash"))
        count, parity = told.agg(fn.count("*"), fn.bit_xor("hash")).collect()[0]
        return count, parity

    def _path(self, name: str) -> str:
        return f"{self._place}/{unquote(name)}"


def _rounds(partitions: Sequence[Sequence[str]], files_max: int) -> Iterator[list[str]]:
    """The files of whole partitions, about so many at a time.

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
    """What of a column is hashed: its value, and whether it is null, which a hash passes over."""
    value = fn.col(field.name)
    # A map or a variant has no hash, nor has what holds one.
    is_plain = isinstance(field.dataType, AtomicType) and not isinstance(field.dataType, VariantType)
    return value if is_plain else fn.to_json(fn.struct(value)), value.isNull()
