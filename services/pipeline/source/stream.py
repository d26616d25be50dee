"""The stream of the source `kraft`: logs that grow, by the directories that lie below a path.

An offset of the stream says for each cluster how far it has been given out, and for each directory of it where in the
files that is: {cluster: {"offset": 71, "epoch": 3, "logs": {directory: cursor}}}. So replicas of one cluster, of which
each has its own tail, are each read to their ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from quorate.pipeline.places import Place, bundled, has_settled, named
from quorate.pipeline.planning import between
from quorate.pipeline.rows import read
from quorate.pipeline.tail import Cursor, Directory, Look, advance, directories
from quorate.runtime.clock import Clock, SystemClock
from services.pipeline.source.columns import Bundle, arrow_batch, check_columns
from services.pipeline.source.options import FOREVER, parse

__all__ = ["KraftStreamReader"]

StreamOffset = dict[str, dict[str, Any]]
"""By cluster: how far it has been given out, and by directory a cursor as a dict. Spark keeps it as JSON."""

CLOCK: Final = SystemClock()
_LOGS: Final = "logs"


class KraftStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream over files: how far it can go, and which bytes lie between two of its offsets."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str], clock: Clock = CLOCK) -> None:
        self._clock = clock
        self.options = parse(options)
        self._columns = check_columns(columns)
        self._sizes: dict[str, int] | None = None

    def initialOffset(self) -> StreamOffset:  # Spark's name
        """Nothing has been read. Raises FileNotFoundError for a path that is not there."""
        self._directories()
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # Spark's name
        """By maxOffsetsPerTrigger."""
        limit = self.options.offsets_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # Spark's name
        """From here on the files are what they are now."""
        every = [place for each in self._directories() for place in (*each.segments, *each.checkpoints, *each.halves)]
        sizes = {place.path: _size(place) for place in every}
        self._sizes = {path: size for path, size in sizes.items() if size is not None}

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # Spark's name
        """How far the next batch goes: `limit` offsets about, shared by all directories. Raises EpochWentBack."""
        look = Look(partial(has_settled, by_ms=self._clock.wall_ms() - self.options.settle_ms), self._sizes)
        reached = {cluster: {**each, _LOGS: dict(each[_LOGS])} for cluster, each in start.items()}
        every = self._directories()
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else FOREVER
        for left, directory in zip(range(len(every), 0, -1), every, strict=True):
            at = _cursor(start, directory)
            # Each gets its share, and at least one batch: no log waits for ever behind a longer one.
            end = _advanced(directory, at, look, limit=max(1, room // left))
            room -= max(0, end.offset - at.offset)
            if end != at:
                reached.setdefault(directory.cluster_id, {_LOGS: {}})[_LOGS][directory.path] = end._asdict()
        return {cluster: _summed(each[_LOGS]) for cluster, each in sorted(reached.items())}

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """What is to be read between two offsets, in bundles. Raises EpochWentBack."""
        part_bytes = self.options.part_bytes
        every = [
            part
            for directory in self._directories()
            for part in between(directory, _cursor(start, directory), _cursor(end, directory), part_bytes=part_bytes)
        ]
        return [Bundle(bundle) for bundle in bundled(every, part_bytes=part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a bundle. Raises OSError for a file that was removed or cut meanwhile."""
        assert isinstance(partition, Bundle), partition
        for part in partition.parts:
            size = Path(part.place.path).stat().st_size
            if size < part.end:
                raise OSError(
                    f"{part.place.path} was cut to {size} bytes while {part.end} were to be read: start again"
                )
            for columns in read(part, self.options.wanted):
                yield arrow_batch(part, columns, self._columns)

    def _directories(self) -> list[Directory]:
        places = named(self.options.paths, cluster_id=self.options.cluster_id)
        if self._sizes is not None:
            places = [place for place in places if place.path in self._sizes]
        return directories(place for place in places if self.options.may_hold(place))


def _size(place: Place) -> int | None:
    """In bytes; None for one that is gone again: a checkpoint has another name once it is whole."""
    try:
        return Path(place.path).stat().st_size
    except FileNotFoundError:
        return None


def _advanced(directory: Directory, at: Cursor, look: Look, *, limit: int) -> Cursor:
    try:
        return advance(directory, at, look, limit=limit)
    except FileNotFoundError:
        return at  # retention has removed it between two looks; the next one is at what is left


def _cursor(offset: StreamOffset, directory: Directory) -> Cursor:
    found = offset.get(directory.cluster_id, {}).get(_LOGS, {}).get(directory.path)
    return Cursor() if found is None else Cursor(**found)


def _summed(logs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A cluster's entry: it has come as far as the directory that has come furthest."""
    offset, epoch = max((each["offset"], each["epoch"]) for each in logs.values())
    return {"offset": offset, "epoch": epoch, _LOGS: dict(sorted(logs.items()))}
