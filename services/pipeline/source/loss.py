"""Offsets that are needed and no longer there: the option `failOnDataLoss`, as Spark's own source for Kafka has it.

A snapshot lets a node remove the segments below it (KIP-630), also those that a stream has not read yet. The records
are lost for the reader only if no other replica has them: a follower that was down for long begins behind a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pyspark.errors import PySparkException

from quorate.nouns import Offset
from quorate.pipeline.column_rows import Arrays, read_arrays
from quorate.pipeline.log_files import LOG_KIND, FilePart, LogFile
from quorate.pipeline.row_filter import RowFilter
from quorate.pipeline.rows import Columns
from services.pipeline.source.bounds import Bounds

__all__ = ["RANGE", "START", "DataLoss", "LostRange", "Stretch", "below_starts", "lost", "parts_of", "read_or_lost"]

RANGE: Final = "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
"""Offsets between two stream offsets, or those of a planned task, were removed."""
START: Final = "KAFKA_DATA_LOSS.START_OFFSET_RESET"
"""The log begins above the offset that the option startingOffsets names."""
SQL_STATE: Final = "22000"
"""The SQLSTATE that Spark gives all its conditions KAFKA_DATA_LOSS."""
_ADVICE: Final = "with failOnDataLoss false the read goes on without them, and a row with _corrupt says so"


class DataLoss(PySparkException):
    """Offsets that are needed are no longer there; the condition has the name that Spark's source for Kafka gives it.

    `text` names the cluster, the offsets and where they were looked for.
    """

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(message=f"{text}; {_ADVICE}", errorClass=condition, messageParameters={"loss": text})

    def getSqlState(self) -> str:  # Spark's name
        """Returns the SQLSTATE; the conditions that PySpark lists do not have Kafka's."""
        return SQL_STATE


class LostRange(NamedTuple):
    """Offsets of a cluster that no log has any more; `end` is exclusive, and `place` is where they were looked for."""

    cluster_id: str
    start: Offset
    end: Offset
    place: str
    condition: str = RANGE

    @property
    def is_at_start(self) -> bool:
        """Whether the range was asked for by startingOffsets, and lies below the log."""
        return self.condition == START

    @property
    def text(self) -> str:
        """The sentence for the error, and for the row that is there instead of it."""
        which = f"cluster {self.cluster_id}: offsets {self.start} to {self.end - 1}"
        if self.is_at_start:
            return f"{which} are asked for by startingOffsets and were removed: {self.place} begins at {self.end}"
        return f"{which} were removed from {self.place} before they were read"


class Stretch(NamedTuple):
    """The offsets that a micro-batch reads of one directory's log, and those that the directory still has.

    It needs the offsets from `low` to `high` (exclusive). The log was read up to `read_to` before, 0 if it was not, and
    begins at `log_start`; None if the directory is gone or has no segment.
    """

    path: str
    low: Offset
    high: Offset
    read_to: Offset
    log_start: Offset | None

    def covers(self, low: Offset, high: Offset) -> bool:
        """Returns whether the offsets from `low` to `high` (exclusive) were read from this directory, or can be."""
        if self.read_to >= high:
            return True
        return self.log_start is not None and self.log_start <= max(low, self.read_to)


def lost(cluster_id: str, stretches: Sequence[Stretch]) -> Iterator[LostRange]:
    """Yields the needed offsets that one of a cluster's directories no longer has and no other one covers."""
    for each in stretches:
        high = each.high if each.log_start is None else min(each.high, each.log_start)
        others = (other for other in stretches if other.path != each.path)
        if each.low < high and not any(other.covers(each.low, high) for other in others):
            is_start = each.read_to == 0 and each.log_start is not None
            yield LostRange(cluster_id, each.low, high, each.path, START if is_start else RANGE)


def below_starts(bounds: Bounds, places: Sequence[LogFile]) -> Iterator[LostRange]:
    """Yields for a batch what startingOffsets asks for and no log of the cluster has, because all begin above it."""
    for cluster_id, start in bounds.starts:
        segments = [each for each in places if each.cluster_id == cluster_id and each.kind == LOG_KIND]
        first = min(segments, key=lambda each: each.base_offset, default=None)
        if first is not None and first.base_offset > start:
            yield LostRange(cluster_id, start, first.base_offset, first.path, START)


def parts_of(ranges: Sequence[LostRange], *, fails: bool) -> list[FilePart]:
    """Returns for each range a part whose only row reports it. Raises DataLoss for the first one if `fails`."""
    if fails and ranges:
        raise DataLoss(ranges[0].condition, ranges[0].text)
    return [
        FilePart(LogFile(each.place, each.cluster_id, LOG_KIND, each.start, problem=each.text), 0, 0, each.start, False)
        for each in ranges
    ]


def read_or_lost(part: FilePart, wanted: RowFilter, *, fails: bool) -> Iterator[Columns | Arrays]:
    """Yields the rows of a part; of a file that was removed since planning one row that says so.

    If `fails`, it raises DataLoss instead of that row.
    """
    try:
        yield from read_arrays(part, wanted)
    except FileNotFoundError:
        place = part.place
        text = f"cluster {place.cluster_id}: {place.path} was removed before it was read"
        if fails:
            raise DataLoss(RANGE, text) from None
        yield from read_arrays(part._replace(place=place._replace(problem=text), start=0, end=0), wanted)
