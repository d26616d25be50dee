"""The readers' side of Parquet compaction: finds the files that count while, or after, a compaction rewrites some.

A directory cannot change atomically, but a single file can be renamed atomically. So each round of a compaction has
a note beside the files, which lists the old ones:

    planned   written before the first new file: readers ignore the new files
    done      the same note, renamed: readers ignore the old files, which are deleted one by one

When the last old file is deleted, the note is deleted too. The names of new files begin with the round's id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

__all__ = ["NOTES", "Round", "file_name", "relative", "rounds_of", "without_hidden"]

NOTES: Final = "_compaction"
"""Subdirectory of a table for its notes; Spark and other readers ignore names that begin with an underscore."""
PLANNED: Final = ".planned.json"
FINISHED: Final = ".done.json"


class Round(NamedTuple):
    """One unfinished round of a compaction."""

    id: str
    old: tuple[str, ...]
    """The old files, relative to the table's directory, as Spark's `_metadata.file_path` spells them."""
    is_done: bool

    def note(self, place: str) -> str:
        """Returns the path of the compaction round's note."""
        return f"{place}/{NOTES}/{self.id}{FINISHED if self.is_done else PLANNED}"

    def text(self) -> str:
        """Returns the content of the compaction round's note, as JSON."""
        return json.dumps({"old": self.old})


def rounds_of(spark: SparkSession, place: str) -> tuple[Round, ...]:
    """Returns the unfinished compaction rounds of a table by id; nearly always none."""
    # A note that disappears while it is read belongs to a round that has just ended.
    reader = spark.read.format("binaryFile").option("ignoreMissingFiles", "true")
    try:
        found = reader.load(f"{place}/{NOTES}/*.json").select("path", "content").collect()
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            return ()
        raise
    rounds: dict[str, Round] = {}
    for row in found:
        name = row["path"].rpartition("/")[2]
        is_done = name.endswith(FINISHED)
        id_ = name.removesuffix(FINISHED if is_done else PLANNED)
        # On object stores a rename is a copy and a deletion, so both notes may exist: then the round is done.
        if is_done or id_ not in rounds:
            rounds[id_] = Round(id_, tuple(json.loads(bytes(row["content"]))["old"]), is_done)
    return tuple(rounds[id_] for id_ in sorted(rounds))


def without_hidden(rows: DataFrame, rounds: Sequence[Round]) -> DataFrame:
    """Filters out the rows of files that do not count during a compaction."""
    for each in rounds:
        rows = rows.where(~_hidden(each))
    return rows


def file_name() -> Column:
    """Returns a column: the name of the file that a row comes from, without its directory."""
    return fn.col("_metadata.file_name")


def relative(levels: int) -> Column:
    """Returns a column: the path of the file that a row comes from, with `levels` directories of partitions."""
    return fn.substring_index(fn.col("_metadata.file_path"), "/", -(levels + 1))


def _hidden(each: Round) -> Column:
    if each.is_done:
        return relative(each.old[0].count("/")).isin(list(each.old))
    return fn.startswith(file_name(), fn.lit(each.id))
