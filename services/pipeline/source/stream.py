"""The stream reader of the source `kraft` for files: tails the metadata logs in the directories below a path.

A stream offset is {cluster: {"offset": 71, "epoch": 3, "logs": {directory: cursor}}}: how far each cluster was read,
and a cursor into each of its directories. Replicas of one cluster may end differently, so each directory is read to
its own end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from quorate.pipeline.column_rows import read_arrays
from quorate.pipeline.files import size_of
from quorate.pipeline.log_files import LogFile, bundled, has_settled, named
from quorate.pipeline.planning import between
from quorate.pipeline.replicas import commitments
from quorate.pipeline.tail import Cursor, Directory, TailSettings, advance, directories
from quorate.runtime.clock import Clock, SystemClock
from services.pipeline.source.columns import Bundle, arrow_batch, check_columns, spared
from services.pipeline.source.commit_column import COMMIT
from services.pipeline.source.options import FOREVER, parse

__all__ = ["KraftStreamReader"]

StreamOffset = dict[str, dict[str, Any]]
"""A stream offset: by cluster id the offset and epoch reached, and a cursor for each directory.

Spark stores it as JSON.
"""

CLOCK: Final = SystemClock()
_LOGS: Final = "logs"


class KraftStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream reader over files: finds how far the logs can be read, and the parts between two stream offsets."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str], clock: Clock = CLOCK) -> None:
        self._clock = clock
        self.options = parse(options)
        self.options.bounds.check_for_stream()
        self._columns = check_columns(columns)
        self._wanted = spared(self.options.wanted, self._columns)
        self._sizes: dict[str, int] | None = None

    def initialOffset(self) -> StreamOffset:  # Spark's name
        """Returns the empty stream offset, or with startingOffsets latest the present ends of the logs.

        Raises FileNotFoundError if a path does not exist.
        """
        every = self._directories()
        look = self._look()
        ends = [
            (directory, _advanced(directory, Cursor(), look, limit=FOREVER))
            for directory in every
            if self.options.bounds.begins_at_end(directory.cluster_id)
        ]
        return _gathered({}, [(directory, end) for directory, end in ends if end != Cursor()])

    def getDefaultReadLimit(self) -> ReadLimit:  # Spark's name
        """Returns the limit that the option maxOffsetsPerTrigger sets; without it, all that is available."""
        limit = self.options.offsets_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # Spark's name
        """Fixes the files and sizes of this moment as the end of the stream."""
        every = [place for each in self._directories() for place in (*each.segments, *each.checkpoints, *each.halves)]
        sizes = {place.path: _size(place) for place in every}
        self._sizes = {path: size for path, size in sizes.items() if size is not None}

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # Spark's name
        """Returns the end of the next micro-batch: about `limit` more offsets over all directories.

        Raises EpochWentBack.
        """
        look = self._look()
        reached: list[tuple[Directory, Cursor]] = []
        every = self._directories()
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else FOREVER
        for left, directory in zip(range(len(every), 0, -1), every, strict=True):
            at = _cursor(start, directory)
            # Every directory gets a share of the limit and at least one batch, so that a long log does not starve the
            # others.
            end = _advanced(directory, at, look, limit=max(1, room // left))
            room -= max(0, end.offset - at.offset)
            if end != at:
                reached.append((directory, end))
        return _gathered(start, reached)

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """Returns the file parts between two stream offsets, in bundles for tasks. Raises EpochWentBack."""
        part_bytes = self.options.part_bytes
        every = [
            part
            for directory in self._directories()
            for part in between(directory, _cursor(start, directory), _cursor(end, directory), part_bytes=part_bytes)
        ]
        committed = commitments(self._places()) if COMMIT in self._columns else {}
        return [Bundle(bundle, committed) for bundle in bundled(every, part_bytes=part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a bundle as Arrow batches.

        Raises OSError if a file was removed or truncated since planning.
        """
        assert isinstance(partition, Bundle), partition
        for part in partition.parts:
            size = size_of(part.place.path, part.place.access)
            if size < part.end:
                raise OSError(
                    f"{part.place.path} was cut to {size} bytes while {part.end} were to be read: start again"
                )
            for columns in read_arrays(part, self.options.bounds.limited(self._wanted, part.place.cluster_id)):
                yield arrow_batch(part, columns, self._columns, partition.committed[part.place.cluster_id])

    def _look(self) -> TailSettings:
        by_ms = self._clock.wall_ms() - self.options.settle_ms
        return TailSettings(partial(has_settled, by_ms=by_ms), self._sizes)

    def _directories(self) -> list[Directory]:
        return directories(place for place in self._places() if self.options.may_hold(place))

    def _places(self) -> list[LogFile]:
        places = named(self.options.paths, cluster_id=self.options.cluster_id, access=self.options.access)
        return places if self._sizes is None else [place for place in places if place.path in self._sizes]


def _size(place: LogFile) -> int | None:
    """Returns the file's size in bytes; None if it no longer exists: a finished checkpoint loses its `.part` suffix."""
    try:
        return size_of(place.path, place.access)
    except FileNotFoundError:
        return None


def _advanced(directory: Directory, at: Cursor, look: TailSettings, *, limit: int) -> Cursor:
    try:
        return advance(directory, at, look, limit=limit)
    except FileNotFoundError:
        return at  # retention removed a file between listing and reading; the next call lists what is left


def _cursor(offset: StreamOffset, directory: Directory) -> Cursor:
    found = offset.get(directory.cluster_id, {}).get(_LOGS, {}).get(directory.path)
    return Cursor() if found is None else Cursor(**found)


def _gathered(start: StreamOffset, reached: Sequence[tuple[Directory, Cursor]]) -> StreamOffset:
    """Returns the stream offset `start` with these cursors in place of its own."""
    clusters = {cluster: {**each, _LOGS: dict(each[_LOGS])} for cluster, each in start.items()}
    for directory, end in reached:
        clusters.setdefault(directory.cluster_id, {_LOGS: {}})[_LOGS][directory.path] = end._asdict()
    return {cluster: _summed(each[_LOGS]) for cluster, each in sorted(clusters.items())}


def _summed(logs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Combines a cluster's cursors into its entry; offset and epoch are those of the furthest directory."""
    offset, epoch = max((each["offset"], each["epoch"]) for each in logs.values())
    return {"offset": offset, "epoch": epoch, _LOGS: dict(sorted(logs.items()))}
