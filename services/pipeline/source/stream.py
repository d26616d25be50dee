"""The stream reader of the source `kraft` for files: tails the metadata logs in the directories below a path.

A stream offset is {cluster: {"offset": 71, "epoch": 3, "logs": {directory: cursor}}}: how far each cluster was read,
and a cursor into each of its directories. Replicas of one cluster may end differently, so each directory is read to
its own end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from quorate.pipeline.files import size_of
from quorate.pipeline.log_files import FilePart, LogFile, bundled, has_settled, named
from quorate.pipeline.planning import between
from quorate.pipeline.replicas import commitments, contradicted
from quorate.pipeline.tail import Cursor, Directory, TailSettings, advance, directories
from quorate.pipeline.twins import TwoClusters, twins
from quorate.runtime.event_loop.clock import Clock, SystemClock
from services.pipeline.source.columns import Bundle, arrow_batch, check_columns, spared
from services.pipeline.source.commit_column import COMMIT
from services.pipeline.source.loss import Stretch, lost, parts_of, read_or_lost
from services.pipeline.source.options import FOREVER, parse
from services.pipeline.source.read_limits import default_limit, most_of
from services.pipeline.source.triggers import Waiting

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
        self._waiting = Waiting(self.options.offsets_min, self.options.delay_ms, clock)
        self._agreed: set[tuple[str, str]] = set()

    def initialOffset(self) -> StreamOffset:  # Spark's name
        """Returns the empty stream offset, or with startingOffsets latest the present ends of the logs.

        Raises FileNotFoundError if a path does not exist.
        """
        every = self._directories({}).to_read
        look = self._look()
        ends = [
            (directory, _advanced(directory, Cursor(), look, limit=FOREVER))
            for directory in every
            if self.options.bounds.begins_at_end(directory.cluster_id)
        ]
        return _gathered({}, [(directory, end) for directory, end in ends if end != Cursor()])

    def getDefaultReadLimit(self) -> ReadLimit:  # Spark's name
        """Returns the limit that the options set; without any, all that is available."""
        return default_limit(self.options)

    def prepareForTriggerAvailableNow(self) -> None:  # Spark's name
        """Makes the stream end at the present ends of its files: Trigger.AvailableNow reads no more than them."""
        sizes = {place.path: _size(place) for place in self._places()}
        self._sizes = {path: size for path, size in sizes.items() if size is not None}

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # Spark's name
        """Returns the end of the next micro-batch: about `limit` more offsets over all directories.

        Returns `start` while fewer than minOffsetsPerTrigger are there and maxTriggerDelay is not over. Of two clusters
        under one id nothing more is read but a row that says so. Raises EpochWentBack, and TwoClusters if both were
        read before.
        """
        look = self._look()
        reached: list[tuple[Directory, Cursor]] = []
        every = self._directories(start).to_read
        if not self._is_time(every, start, limit, look):
            return start
        room = most_of(limit)
        for left, directory in zip(range(len(every), 0, -1), every, strict=True):
            at = _cursor(start, directory.cluster_id, directory.path)
            # Every directory gets a share of the limit and at least one batch, so that a long log does not starve the
            # others.
            end = _advanced(directory, at, look, limit=max(1, room // left))
            room -= max(0, end.offset - at.offset)
            if end != at:
                reached.append((directory, end))
        return _gathered(start, reached)

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """Returns the file parts between two stream offsets, in bundles for tasks.

        Raises EpochWentBack; DataLoss if offsets were removed that no other directory has, unless failOnDataLoss is
        false.
        """
        part_bytes, tells = self.options.part_bytes, self.options.tells_truncation
        listed = self._directories(start).every
        every = self._lost(listed, start, end)
        for each in listed:
            begin, stop = (_cursor(offset, each.cluster_id, each.path) for offset in (start, end))
            every += between(each, begin, stop, part_bytes=part_bytes, tells_truncation=tells)
        committed = commitments(self._places()) if COMMIT in self._columns else {}
        return [Bundle(bundle, committed) for bundle in bundled(every, part_bytes=part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a bundle as Arrow batches.

        Raises OSError if a file was truncated since planning; DataLoss if one was removed, unless failOnDataLoss is
        false.
        """
        assert isinstance(partition, Bundle), partition
        for part in partition.parts:
            size = _size(part.place)
            if size is not None and size < part.end:
                raise OSError(
                    f"{part.place.path} was cut to {size} bytes while {part.end} were to be read: start again"
                )
            wanted = self.options.bounds.limited(self._wanted, part.place.cluster_id)
            for columns in read_or_lost(part, wanted, fails=self.options.fails_on_loss):
                yield arrow_batch(part, columns, self._columns, partition.committed[part.place.cluster_id])

    def _look(self) -> TailSettings:
        by_ms = self._clock.wall_ms() - self.options.settle_ms
        return TailSettings(partial(has_settled, by_ms=by_ms), self._sizes)

    def _directories(self, start: StreamOffset) -> _Listing:
        """Lists the directories; raises TwoClusters if both logs of two clusters under one id were read before."""
        places = self._places()

        def was_read(place: LogFile) -> bool:
            return _cursor(start, place.cluster_id, _parent(place)).epoch >= 0

        # The log that was read before is right until the other one is gone: sorted last, it would be the one to refuse.
        refused = list(twins(sorted(places, key=was_read, reverse=True), self._agreed))
        if COMMIT in self._columns:
            refused += contradicted(sorted(places, key=was_read), commitments(places))
        for place in refused:
            if was_read(place):
                raise TwoClusters(f"{place.problem}, and records of both were returned")
        found = directories(place for place in places if self.options.may_hold(place))
        instead = {(_parent(place), place.cluster_id): place for place in refused}
        every = [_refused(each, instead.get((each.path, each.cluster_id))) for each in found]
        return _Listing(every, frozenset(place.cluster_id for place in refused))

    def _is_time(self, every: Sequence[Directory], start: StreamOffset, limit: ReadLimit, look: TailSettings) -> bool:
        """Returns whether a micro-batch starts, or waits for more offsets; one that reads all there is never waits."""
        if not self._waiting.least or isinstance(limit, ReadAllAvailable) or self._sizes is not None:
            return True
        available = 0
        for directory in every:
            at = _cursor(start, directory.cluster_id, directory.path)
            end = _advanced(directory, at, look, limit=self._waiting.least)
            available += max(0, end.offset - at.offset)
        return self._waiting.is_over(available)

    def _lost(self, every: Sequence[Directory], start: StreamOffset, end: StreamOffset) -> list[FilePart]:
        """Returns parts that report what is lost between two stream offsets and has no row yet. Raises DataLoss."""
        listed = {(each.cluster_id, each.path): each for each in every}
        found: list[FilePart] = []
        for cluster_id, entry in end.items():
            stretches = [
                self._stretch(cluster_id, path, start, Cursor(**cursor), listed.get((cluster_id, path)))
                for path, cursor in entry[_LOGS].items()
            ]
            ranges = list(lost(cluster_id, stretches))
            told = parts_of(ranges, fails=self.options.fails_on_loss)
            # Of a log that begins too high the missing offsets have a row anyway, as in a gap.
            starts = {each.path: each.log_start for each in stretches}
            found += [
                part for part, each in zip(told, ranges, strict=True) if starts[each.place] is None or each.is_at_start
            ]
        return found

    def _stretch(
        self, cluster_id: str, path: str, start: StreamOffset, end: Cursor, directory: Directory | None
    ) -> Stretch:
        begin = _cursor(start, cluster_id, path)
        segments = () if directory is None else directory.segments
        log_start = segments[0].base_offset if segments else None
        asked = dict(self.options.bounds.starts).get(cluster_id)
        low = max(begin.offset, self.options.limited(cluster_id).start_offset)
        if begin.epoch < 0 and asked is None and log_start is not None:
            low = max(low, log_start)  # nothing was read, and nothing is asked for that the log does not have
        return Stretch(path, low, end.offset, begin.offset if begin.epoch >= 0 else 0, log_start)

    def _places(self) -> list[LogFile]:
        places = named(self.options.paths, cluster_id=self.options.cluster_id, access=self.options.access)
        return places if self._sizes is None else [place for place in places if place.path in self._sizes]


class _Listing(NamedTuple):
    """The directories, and the clusters of which two logs contradict each other: nothing more is read of these.

    Of a directory that is refused only the segment with the contradiction is there, with a `problem`.
    """

    every: list[Directory]
    mixed: frozenset[str]

    @property
    def to_read(self) -> list[Directory]:
        """The directories that are read on. Of a refused one only the row of damage is left, which says why."""
        return [
            each
            for each in self.every
            if each.cluster_id not in self.mixed or any(place.problem is not None for place in each.segments)
        ]


def _refused(directory: Directory, place: LogFile | None) -> Directory:
    """Returns the directory with only the segment that says why it is refused; as it is without such a segment."""
    return directory if place is None else directory._replace(segments=(place,), checkpoints=(), halves=())


def _parent(place: LogFile) -> str:
    return str(Path(place.path).parent)


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


def _cursor(offset: StreamOffset, cluster_id: str, path: str) -> Cursor:
    found = offset.get(cluster_id, {}).get(_LOGS, {}).get(path)
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
