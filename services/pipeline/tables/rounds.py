"""Which files of a directory of Parquet count while some are being rewritten, or were when a job was killed.

A directory cannot change at once, but a file can get its name at once. So each round of a compaction is a note beside
the files, which names the old ones:

    planned   written before the first new file is: the new files do not count
    done      the same note under another name: the old ones do not count, and are deleted one by one

When the last is deleted, so is the note. New files are known by the round's id, with which their names begin.
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
"""Below a table's directory; Spark passes over what begins with a line, and so does everybody after Hive."""
PLANNED: Final = ".planned.json"
FINISHED: Final = ".done.json"


class Round(NamedTuple):
    """A compaction that has begun and is not at its end."""

    id: str
    old: tuple[str, ...]
    """The files that it rewrites, below the table's directory, as Spark's `_metadata.file_path` spells them."""
    is_done: bool

    def note(self, place: str) -> str:
        """The path of its note."""
        return f"{place}/{NOTES}/{self.id}{FINISHED if self.is_done else PLANNED}"

    def text(self) -> str:
        """What its note says."""
        return json.dumps({"old": self.old})


def rounds_of(spark: SparkSession, place: str) -> tuple[Round, ...]:
    """The rounds that readers have to know of, by id; hardly ever any."""
    # A note that goes while it is read was one of a round that has ended.
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
        # Where a rename is a copy and a deletion, there may be both: what is done is done.
        if is_done or id_ not in rounds:
            rounds[id_] = Round(id_, tuple(json.loads(bytes(row["content"]))["old"]), is_done)
    return tuple(rounds[id_] for id_ in sorted(rounds))


def without_hidden(rows: DataFrame, rounds: Sequence[Round]) -> DataFrame:
    """The rows of the files that count."""
    for each in rounds:
        rows = rows.where(~_hidden(each))
    return rows


def file_name() -> Column:
    """Of the file that a row is from, without its directory."""
    return fn.col("_metadata.file_name")


def relative(levels: int) -> Column:
    """The path of the file that a row is from, below `levels` directories of partitions."""
    return fn.substring_index(fn.col("_metadata.file_path"), "/", -(levels + 1))


def _hidden(each: Round) -> Column:
    if each.is_done:
        return relative(each.old[0].count("/")).isin(list(each.old))
    return fn.startswith(file_name(), fn.lit(each.id))
