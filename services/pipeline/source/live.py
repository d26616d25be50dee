"""The source `kraft` of a running quorum: what is committed, as one read or as a stream.

An offset of the stream is {cluster: {"offset": 71, "epoch": 3, "snapshot": [58, 2]}}: the next offset, the epoch of the
record before it, and the checkpoint that was given in place of what the quorum has no more (null if none was).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from quorate.nouns import Offset, OffsetAndEpoch
from quorate.pipeline.live import Behind, Quorum
from quorate.pipeline.places import CHECKPOINT_KIND, LOG_KIND, Part, Place, fingerprint
from quorate.pipeline.rows import Wanted, read, read_bytes
from quorate.pipeline.tail import EpochWentBack
from quorate.runtime.log_reader import FETCH_BYTES_MAX
from quorate.wire.batch import peek_header
from services.pipeline.source.columns import arrow_batch, check_columns
from services.pipeline.source.conditions import narrowed
from services.pipeline.source.options import FOREVER, Options, parse

__all__ = ["LiveReader", "LiveStreamReader"]

TASK_OFFSETS: Final = 100_000
"""How many offsets one task reads: some seconds' work."""
RECORD_BYTES: Final = 1_024
"""More than a record takes: so much is asked for, that a few offsets do not cost a whole answer."""
Entry = dict[str, Any]


class Range(InputPartition):
    """Offsets that one task reads, the end exclusive; or a checkpoint; or offsets that are gone, and why."""

    def __init__(
        self, cluster_id: str, start: Offset, end: Offset, *, snapshot: OffsetAndEpoch | None = None, problem: str = ""
    ) -> None:
        super().__init__(None)
        self.cluster_id = cluster_id
        self.start = start
        self.end = end
        self.snapshot = snapshot
        self.problem = problem


class Live:
    """What a read and a stream have in common: how far a quorum is, what lies between two points, and reading it."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        self.options = options
        self.wanted = options.wanted
        """Of the rows; which snapshot is given in place of the log, the options alone say."""
        self._columns = tuple(columns)
        self._source = f"kraft://{','.join(options.endpoints)}"

    def latest(self, start: Mapping[str, Entry], limit: Offset, *, below: Offset = FOREVER) -> dict[str, Entry]:
        """The point at most `limit` offsets behind `start`, about, and not behind `below`.

        Raises EpochWentBack and AnotherCluster, naming what was read before and what is there now.
        """
        with closing(self._quorum(self.options.cluster_id)) as quorum:
            cluster_id = quorum.cluster_id
            others = sorted(set(start) - {cluster_id})
            if others:
                endpoints = ",".join(self.options.endpoints)
                raise ValueError(f"{endpoints} is of cluster {cluster_id}, and {others[0]} was read from it before")
            entry = start.get(cluster_id)
            entry = _first(quorum, self.options.wanted.start_offset) if entry is None else _checked(quorum, entry)
            target = min(entry["committed"], below, self.wanted.end_offset, entry["offset"] + limit)
            end = quorum.batch_end(target - 1) if target > entry["offset"] else None
            if end is not None:
                entry |= {"offset": end.offset, "epoch": end.epoch}
            return {cluster_id: {name: entry[name] for name in ("offset", "epoch", "snapshot")}}

    def ranges(self, start: Mapping[str, Entry], end: Mapping[str, Entry]) -> list[InputPartition]:
        """The tasks between two points."""
        found: list[InputPartition] = []
        for cluster_id, entry in end.items():
            before = start.get(cluster_id, {})
            low = before.get("offset", self.options.wanted.start_offset)
            snapshot = _point(entry["snapshot"])
            if snapshot is not None and entry["snapshot"] != before.get("snapshot"):
                if before.get("epoch", -1) >= 0 and snapshot.offset > low:
                    why = f"offsets {low} to {snapshot.offset - 1} were removed before they were read"
                    found.append(Range(cluster_id, low, snapshot.offset, problem=why))
                if CHECKPOINT_KIND in self.options.include:
                    found.append(Range(cluster_id, 0, snapshot.offset, snapshot=snapshot))
                low = max(low, snapshot.offset)
            if LOG_KIND in self.options.include:
                low, high = max(low, self.wanted.start_offset), min(entry["offset"], self.wanted.end_offset)
                found += [Range(cluster_id, at, min(high, at + TASK_OFFSETS)) for at in range(low, high, TASK_OFFSETS)]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task. Raises Unanswered, naming the endpoint, and AnotherCluster."""
        if not isinstance(partition, Range):
            return  # what Spark makes of no parts at all
        if partition.problem:
            yield from self._told(partition, partition.problem)
            return
        with closing(self._quorum(partition.cluster_id)) as quorum:
            if partition.snapshot is None:
                yield from self._log(quorum, partition)
            else:
                yield from self._checkpoint(quorum, partition, partition.snapshot)

    def _quorum(self, cluster_id: str | None) -> Quorum:
        """A connection to it, to be closed."""
        return Quorum(self.options.endpoints, cluster_id=cluster_id, retry_s=self.options.retry_ms / 1000)

    def _log(self, quorum: Quorum, asked: Range) -> Iterator[pa.RecordBatch]:
        place = Place(self._source, asked.cluster_id, LOG_KIND, 0)
        wanted = self.wanted._replace(start_offset=asked.start, end_offset=asked.end)
        at = asked.start
        while at < asked.end:
            data = quorum.records(at, bytes_max=min(FETCH_BYTES_MAX, (asked.end - at) * RECORD_BYTES)).records
            if not data:
                why = f"offsets {at} to {asked.end - 1} were removed before they were read"
                yield from self._told(Range(asked.cluster_id, at, asked.end), why)
                return
            # The first batch may begin before the range, and then it does not follow anything.
            offset = at if peek_header(data).base_offset == at else None
            size, at = _below(data, asked.end)
            yield from self._rows(Part(place, 0, size, offset, False), wanted, data)

    def _checkpoint(self, quorum: Quorum, asked: Range, snapshot: OffsetAndEpoch) -> Iterator[pa.RecordBatch]:
        data = quorum.snapshot(snapshot)
        if data is None:
            why = f"the checkpoint at offset {snapshot.offset} was removed before it was read"
            yield from self._told(asked, why)
            return
        place = Place(self._source, asked.cluster_id, CHECKPOINT_KIND, snapshot.offset, snapshot.epoch)
        part = Part(place, 0, len(data), 0, True, fingerprint(data))
        yield from self._rows(part, self.wanted, data)

    def _rows(self, part: Part, wanted: Wanted, data: bytes) -> Iterator[pa.RecordBatch]:
        for columns in read_bytes(part, wanted, data):
            yield arrow_batch(part, columns, self._columns)

    def _told(self, asked: Range, problem: str) -> Iterator[pa.RecordBatch]:
        place = Place(self._source, asked.cluster_id, LOG_KIND, asked.start, problem=problem)
        part = Part(place, 0, 0, asked.start, False)
        for columns in read(part, self.wanted):
            yield arrow_batch(part, columns, self._columns)


class LiveReader(DataSourceReader):
    """All that is committed now."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._live = Live(parse(options), check_columns(columns))

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # Spark's name
        """Take what spares fetching and decoding, as of files; all are given back: Spark looks at each row again."""
        for each in filters:
            self._live.wanted = narrowed(self._live.wanted, each)
            yield each

    def partitions(self) -> list[InputPartition]:
        """Ranges of offsets, and the checkpoint before them."""
        return self._live.ranges({}, self._live.latest({}, FOREVER))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        return self._live.read(partition)


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What is committed, as it comes."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._live = Live(parse(options), check_columns(columns))
        self._below = FOREVER

    def initialOffset(self) -> dict[str, Entry]:  # Spark's name
        """Nothing has been read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # Spark's name
        """By maxOffsetsPerTrigger."""
        limit = self._live.options.offsets_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # Spark's name
        """From here on the log ends where its high watermark is now."""
        (entry,) = self._live.latest({}, FOREVER).values()
        self._below = entry["offset"]

    def latestOffset(self, start: dict[str, Entry], limit: ReadLimit) -> dict[str, Entry]:  # Spark's name
        """The high watermark, or as far as the limit goes; at a batch's end."""
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else FOREVER
        return self._live.latest(start, room, below=self._below)

    def partitions(self, start: dict[str, Entry], end: dict[str, Entry]) -> list[InputPartition]:
        """Ranges of offsets between two points, and a checkpoint where the log does not go back so far."""
        return self._live.ranges(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        return self._live.read(partition)


def _first(quorum: Quorum, offset: Offset) -> Entry:
    """Where the reading begins: at `offset`, or at the latest snapshot if that is before what there is."""
    committed = quorum.high_watermark()
    entry: Entry = {"offset": offset, "epoch": -1, "snapshot": None, "committed": committed}
    if offset >= committed:
        return entry
    answer = quorum.records(offset, bytes_max=1)
    return entry if answer.snapshot is None else entry | _from(answer.snapshot)


def _checked(quorum: Quorum, entry: Entry) -> Entry:
    """The point again, if the log still goes on from there. Raises EpochWentBack."""
    offset, epoch = entry["offset"], entry["epoch"]
    if epoch < 0:  # nothing has been given yet
        return _first(quorum, offset)
    try:
        answer = quorum.fetch(offset, epoch)
    except Behind as behind:
        raise _went_back(quorum, entry, f"knows of no such epoch: {behind}") from None
    if answer.diverging is not None:
        raise _went_back(quorum, entry, f"ends epoch {answer.diverging.epoch} at offset {answer.diverging.offset}")
    found = entry | {"committed": answer.high_watermark}
    if answer.snapshot is None or offset >= answer.high_watermark:
        return found
    # A replica would be faster with the snapshot; we want each record that there still is.
    kept = quorum.records(offset, bytes_max=1)
    if kept.snapshot is not None:
        return found | _from(kept.snapshot)
    before = quorum.batch_end(offset - 1)
    if before is not None and before.epoch != epoch:
        raise _went_back(quorum, entry, f"has offset {offset - 1} of epoch {before.epoch}")
    return found


def _went_back(quorum: Quorum, entry: Entry, found: str) -> EpochWentBack:
    given = f"offset {entry['offset'] - 1} was given out of epoch {entry['epoch']}"
    return EpochWentBack(f"cluster {quorum.cluster_id}: epoch went back: {given}, and the quorum's log {found}")


def _from(snapshot: OffsetAndEpoch) -> Entry:
    return {"offset": snapshot.offset, "epoch": snapshot.epoch, "snapshot": [snapshot.offset, snapshot.epoch]}


def _point(written: Sequence[int] | None) -> OffsetAndEpoch | None:
    return None if written is None else OffsetAndEpoch(offset=written[0], epoch=written[1])


def _below(data: bytes, end: Offset) -> tuple[int, Offset]:
    """How many of these bytes are batches that begin below `end`, one at least, and where the last of them ends."""
    position, reached = 0, -1
    while position < len(data):
        header = peek_header(data, position)
        if reached >= end:
            break
        reached, position = header.next_offset, position + header.size
    return position, reached
