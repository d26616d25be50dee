"""The live log of a running quorum, and its batch reader for the source `kraft`: committed records only.

A stream offset is {cluster: {"offset": 71, "epoch": 3, "snapshot": [58, 2]}}: the next offset to read, the epoch of the
record before it, and the snapshot that replaced records that the log no longer has (null if none did).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from quorate.network.metadata_fetch import FETCH_BYTES_MAX
from quorate.nouns import Offset, OffsetAndEpoch
from quorate.pipeline.column_rows import read_arrays_of
from quorate.pipeline.live import EpochBehind, QuorumReader
from quorate.pipeline.log_files import CHECKPOINT_KIND, LOG_KIND, FilePart, LogFile, fingerprint
from quorate.pipeline.rows import RowFilter, read
from quorate.pipeline.tail import EpochWentBack
from quorate.wire.batch import peek_header
from services.pipeline.source.columns import arrow_batch, check_columns, spared
from services.pipeline.source.conditions import narrowed
from services.pipeline.source.loss import RANGE, START, DataLoss, LostRange
from services.pipeline.source.nodes import nodes_of
from services.pipeline.source.options import BOOTSTRAP, FOREVER, Options, parse

__all__ = ["Entry", "LiveLog", "LiveReader"]

TASK_OFFSETS: Final = 100_000
"""How many offsets one task reads: a few seconds of work."""
RECORD_BYTES: Final = 1_024
"""An upper estimate of a record's size in bytes, so that a fetch for a few offsets gets a small answer."""
Entry = dict[str, Any]


class ReadRange(InputPartition):
    """A Spark input partition: a range of offsets (end exclusive), a snapshot, or a lost range with the reason."""

    def __init__(
        self, cluster_id: str, start: Offset, end: Offset, *, snapshot: OffsetAndEpoch | None = None, problem: str = ""
    ) -> None:
        super().__init__(None)
        self.cluster_id = cluster_id
        self.start = start
        self.end = end
        self.snapshot = snapshot
        self.problem = problem


class LiveLog:
    """The live log, for batch and stream readers: finds its end offsets, plans tasks, and reads their rows."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        self.options = options
        self.wanted = spared(options.wanted, columns)
        """The rows to return: the options, narrowed by the query's conditions.

        The conditions do not influence from which snapshot reading starts.
        """
        self._columns = tuple(columns)
        self._addresses = dict(options.kafka).get(BOOTSTRAP) or ",".join(options.endpoints)
        self._source = f"kraft://{self._addresses}"

    def first(self) -> dict[str, Entry]:
        """Returns the stream offset of a new stream: nothing was read, or all that is committed (startingOffsets)."""
        bounds = self.options.bounds
        if bounds.from_latest == frozenset():
            return {}
        return {cluster: end for cluster, end in self.latest({}, FOREVER).items() if bounds.begins_at_end(cluster)}

    def latest(self, start: Mapping[str, Entry], limit: Offset, *, below: Offset = FOREVER) -> dict[str, Entry]:
        """Returns the stream offset about `limit` offsets after `start`, at a batch's end, and at most about `below`.

        Raises EpochWentBack; ValueError and AnotherCluster if the endpoints now belong to another cluster than before;
        Unanswered, naming the endpoint.
        """
        with closing(self._quorum(self.options.cluster_id)) as quorum:
            cluster_id = quorum.cluster_id
            others = sorted(set(start) - {cluster_id})
            if others:
                raise ValueError(
                    f"{self._addresses} is of cluster {cluster_id}, and {others[0]} was read from it before"
                )
            entry = start.get(cluster_id)
            bounded = self.options.bounds.limited(self.wanted, cluster_id)
            first = self.options.limited(cluster_id).start_offset
            entry = _first(quorum, first) if entry is None else _checked(quorum, entry)
            target = min(entry["committed"], below, bounded.end_offset, entry["offset"] + limit)
            end = quorum.batch_end(target - 1) if target > entry["offset"] else None
            if end is not None:
                entry |= {"offset": end.offset, "epoch": end.epoch}
            return {cluster_id: {name: entry[name] for name in ("offset", "epoch", "snapshot")}}

    def ranges(self, start: Mapping[str, Entry], end: Mapping[str, Entry]) -> list[InputPartition]:
        """Plans the tasks between two stream offsets: ranges, a snapshot if the log was cleaned, and lost ranges.

        Raises DataLoss for a lost range, unless failOnDataLoss is false.
        """
        found: list[InputPartition] = []
        for cluster_id, entry in end.items():
            before = start.get(cluster_id, {})
            bounded = self.options.bounds.limited(self.wanted, cluster_id)
            low = before.get("offset", self.options.limited(cluster_id).start_offset)
            snapshot = _point(entry["snapshot"])
            if snapshot is not None and entry["snapshot"] != before.get("snapshot"):
                was_read = before.get("epoch", -1) >= 0
                if snapshot.offset > low and (was_read or cluster_id in dict(self.options.bounds.starts)):
                    found.append(self._lost(cluster_id, low, snapshot.offset, RANGE if was_read else START))
                if self._reads(cluster_id, CHECKPOINT_KIND):
                    found.append(ReadRange(cluster_id, 0, snapshot.offset, snapshot=snapshot))
                low = max(low, snapshot.offset)
            if self._reads(cluster_id, LOG_KIND):
                low, high = max(low, bounded.start_offset), min(entry["offset"], bounded.end_offset)
                found += [
                    ReadRange(cluster_id, at, min(high, at + TASK_OFFSETS)) for at in range(low, high, TASK_OFFSETS)
                ]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task as Arrow batches.

        Raises Unanswered, naming the endpoint, AnotherCluster, and DataLoss, unless failOnDataLoss is false.
        """
        if not isinstance(partition, ReadRange):
            return  # Spark passes another partition if the plan is empty
        if partition.problem:
            yield from self._lost_rows(partition, partition.problem)
            return
        with closing(self._quorum(partition.cluster_id)) as quorum:
            if partition.snapshot is None:
                yield from self._log(quorum, partition)
            else:
                yield from self._checkpoint(quorum, partition, partition.snapshot)

    def _reads(self, cluster_id: str, kind: str) -> bool:
        return kind in self.options.include and self.wanted.is_of(cluster_id, kind)

    def _quorum(self, cluster_id: str | None) -> QuorumReader:
        """Opens a client of the quorum; the caller closes it."""
        return QuorumReader(nodes_of(self.options), cluster_id=cluster_id, retry_s=self.options.retry_ms / 1000)

    def _log(self, quorum: QuorumReader, asked: ReadRange) -> Iterator[pa.RecordBatch]:
        place = LogFile(self._source, asked.cluster_id, LOG_KIND, 0)
        bounded = self.options.bounds.limited(self.wanted, asked.cluster_id)
        wanted = bounded._replace(start_offset=asked.start, end_offset=asked.end)
        at = asked.start
        while at < asked.end:
            data = quorum.records(at, bytes_max=min(FETCH_BYTES_MAX, (asked.end - at) * RECORD_BYTES)).records
            if not data:
                lost = self._lost(asked.cluster_id, at, asked.end, RANGE)
                yield from self._lost_rows(lost, lost.problem)
                return
            # The first batch may begin below the range; its offset is then not checked against an expected one.
            offset = at if peek_header(data).base_offset == at else None
            size, at = _below(data, asked.end)
            yield from self._rows(FilePart(place, 0, size, offset, False), wanted, data)

    def _checkpoint(self, quorum: QuorumReader, asked: ReadRange, snapshot: OffsetAndEpoch) -> Iterator[pa.RecordBatch]:
        data = quorum.snapshot(snapshot)
        if data is None:
            which = f"the checkpoint at offset {snapshot.offset} of epoch {snapshot.epoch}"
            why = f"cluster {asked.cluster_id}: {which} was removed from {self._source} before it was read"
            if self.options.fails_on_loss:
                raise DataLoss(RANGE, why)
            yield from self._lost_rows(asked, why)
            return
        place = LogFile(self._source, asked.cluster_id, CHECKPOINT_KIND, snapshot.offset, snapshot.epoch)
        part = FilePart(place, 0, len(data), 0, True, fingerprint(data))
        yield from self._rows(part, self.wanted, data)

    def _rows(self, part: FilePart, wanted: RowFilter, data: bytes) -> Iterator[pa.RecordBatch]:
        for columns in read_arrays_of(part, wanted, data):
            yield arrow_batch(part, columns, self._columns, None)

    def _lost(self, cluster_id: str, start: Offset, end: Offset, condition: str) -> ReadRange:
        """Returns a task that reports lost offsets; raises DataLoss, unless failOnDataLoss is false."""
        lost = LostRange(cluster_id, start, end, self._source, condition)
        if self.options.fails_on_loss:
            raise DataLoss(condition, lost.text)
        return ReadRange(cluster_id, start, end, problem=lost.text)

    def _lost_rows(self, asked: ReadRange, problem: str) -> Iterator[pa.RecordBatch]:
        place = LogFile(self._source, asked.cluster_id, LOG_KIND, asked.start, problem=problem)
        part = FilePart(place, 0, 0, asked.start, False)
        for columns in read(part, self.wanted):
            yield arrow_batch(part, columns, self._columns, None)


class LiveReader(DataSourceReader):
    """Reads all records that are committed when the query is planned."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._live = LiveLog(parse(options), check_columns(columns))
        self._live.options.bounds.check_for_batch()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # Spark's name
        """Notes the conditions that reduce fetching and decoding.

        Returns all of them, so Spark checks each row again.
        """
        for each in filters:
            self._live.wanted = narrowed(self._live.wanted, each)
            yield each

    def partitions(self) -> list[InputPartition]:
        """Plans ranges of offsets, and the snapshot before them if the log was cleaned.

        Raises ValueError if an option names another cluster; DataLoss, unless failOnDataLoss is false.
        """
        end = self._live.latest({}, FOREVER)
        self._live.options.bounds.check_clusters(end)
        return self._live.ranges({}, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of an offset range or a snapshot as Arrow batches."""
        return self._live.read(partition)


def _first(quorum: QuorumReader, offset: Offset) -> Entry:
    """Returns where reading starts: at `offset`, or at the latest snapshot if the log no longer has that offset."""
    committed = quorum.high_watermark()
    entry: Entry = {"offset": offset, "epoch": -1, "snapshot": None, "committed": committed}
    if offset >= committed:
        return entry
    answer = quorum.records(offset, bytes_max=1)
    return entry if answer.snapshot is None else entry | _from(answer.snapshot)


def _checked(quorum: QuorumReader, entry: Entry) -> Entry:
    """Checks that the log still continues from the entry, and adds the high watermark. Raises EpochWentBack.

    If the log was cleaned past the entry's offset, the entry moves to the latest snapshot.
    """
    offset, epoch = entry["offset"], entry["epoch"]
    if epoch < 0:  # nothing has been read yet
        return _first(quorum, offset)
    try:
        answer = quorum.fetch(offset, epoch)
    except EpochBehind as behind:
        raise _went_back(quorum, entry, f"knows of no such epoch: {behind}") from None
    if answer.diverging is not None:
        raise _went_back(quorum, entry, f"ends epoch {answer.diverging.epoch} at offset {answer.diverging.offset}")
    found = entry | {"committed": answer.high_watermark}
    if answer.snapshot is None or offset >= answer.high_watermark:
        return found
    # A replica would load the snapshot here. The stream reads the records that the log still has instead.
    kept = quorum.records(offset, bytes_max=1)
    if kept.snapshot is not None:
        return found | _from(kept.snapshot)
    before = quorum.batch_end(offset - 1)
    if before is not None and before.epoch != epoch:
        raise _went_back(quorum, entry, f"has offset {offset - 1} of epoch {before.epoch}")
    return found


def _went_back(quorum: QuorumReader, entry: Entry, found: str) -> EpochWentBack:
    given = f"offset {entry['offset'] - 1} was given out of epoch {entry['epoch']}"
    return EpochWentBack(f"cluster {quorum.cluster_id}: epoch went back: {given}, and the quorum's log {found}")


def _from(snapshot: OffsetAndEpoch) -> Entry:
    return {"offset": snapshot.offset, "epoch": snapshot.epoch, "snapshot": [snapshot.offset, snapshot.epoch]}


def _point(written: Sequence[int] | None) -> OffsetAndEpoch | None:
    return None if written is None else OffsetAndEpoch(offset=written[0], epoch=written[1])


def _below(data: bytes, end: Offset) -> tuple[int, Offset]:
    """Returns how many bytes are batches that begin below `end`, at least one batch, and the next offset after them."""
    position, reached = 0, -1
    while position < len(data):
        header = peek_header(data, position)
        if reached >= end:
            break
        reached, position = header.next_offset, position + header.size
    return position, reached
