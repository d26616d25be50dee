"""The core's view of its log: start, end, epochs, voter sets and snapshots, but no bytes of records.

The view is ahead of the disk: an append or truncation changes it at once, and is an effect in the same `Ready`, which
the driver carries out before any message of that step leaves. Only `flushed` waits for the driver's report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import msgspec

from quorate.epochs import EpochCache
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft.history import History
from quorate.raft.voters import VoterHistory, VoterSet


class BatchInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of records. `last_offset` is inclusive, as in Kafka's batch header; `size` is in bytes."""

    base_offset: Offset
    last_offset: Offset
    epoch: Epoch
    size: int = 0
    data: object = b""
    """The driver's handle on the batch, usually its bytes. The core never reads it."""
    voters: VoterSet | None = None
    """The voter set, if the batch is a control batch with a KRaftVoters record. KIP-853."""
    kraft_version: int | None = None
    """The level, if the batch is a control batch with a KRaftVersion record. KIP-853."""

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return self.last_offset + 1


class VotersChange(msgspec.Struct, frozen=True, kw_only=True):
    """A control batch that the driver encodes: KRaftVersion if `kraft_version` is set, then KRaftVoters. KIP-853."""

    base_offset: Offset
    epoch: Epoch
    voters: VoterSet
    kraft_version: int | None = None

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return self.base_offset + (1 if self.kraft_version is None else 2)


class LeaderChange(msgspec.Struct, frozen=True, kw_only=True):
    """The first batch of an epoch, which the driver encodes: the LeaderChange record. KIP-595.

    `granting` are the voters whose votes elected the leader.
    """

    base_offset: Offset
    epoch: Epoch
    leader_id: NodeId
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]
    change: VotersChange | None = None
    """Voter records in the same batch, after LeaderChange: the voters if the log lacks them, or the leader's own new
    listeners and version range. None for none. KIP-853."""

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return self.base_offset + 1 if self.change is None else self.change.end_offset


Entry: TypeAlias = BatchInfo | LeaderChange | VotersChange
"""A batch to append: records that exist as bytes, or a control batch of the leader itself."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """Tells the driver to read whole batches from `offset` on: at least one, then up to `max_bytes`."""

    offset: Offset
    max_bytes: int
    below: Offset | None = None
    """The exclusive limit: no batch that ends after it is read; None to read to the log end."""


class SnapshotRead(msgspec.Struct, frozen=True, kw_only=True):
    """Tells the driver to read up to `max_bytes` bytes of a snapshot from byte `position` on."""

    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(slots=True, kw_only=True)
class LogView:
    """The state of one node's log. The driver fills it from disk at start; from then on the core keeps it up to date.

    `start` is the first offset; `flushed`, `high_watermark` and `leo` are exclusive ends. At all times `start` <=
    `high_watermark` <= `leo` (I-20), and `start` <= `flushed` <= `leo`. A follower's `high_watermark` may pass its
    `flushed`: what is committed is on a majority, which need not include this node.
    """

    voters: VoterHistory
    kraft_versions: History[int] = field(default_factory=lambda: History(0))
    """The levels of kraft.version by offset. 0: the voters are configured; 1: they are in the log. KIP-853."""
    epochs: EpochCache = field(default_factory=EpochCache)
    leo: Offset = 0
    flushed: Offset = 0
    """Everything below is on stable storage."""
    high_watermark: Offset = 0
    """Everything below is known to be committed. It is not stored: after a start it is the log start."""
    snapshots: dict[OffsetAndEpoch, int] = field(default_factory=dict)
    """The size in bytes of each complete snapshot."""
    start: Offset = field(init=False)
    """The log start offset. A log that does not start at 0 continues the snapshot that ends there (I-27)."""

    def __post_init__(self) -> None:
        self.start = self.epochs.floor.offset
        self.high_watermark = max(self.high_watermark, self.start)
        assert self.start <= self.flushed <= self.leo, (self.start, self.flushed, self.leo)
        assert self.start == 0 or self.epochs.floor in self.snapshots, (self.epochs.floor, self.snapshots)
        for (_, before), (offset, after) in pairwise(self.voters.changes):
            assert before.overlaps(after), (offset, before, after)

    @property
    def last(self) -> OffsetAndEpoch:
        """The epoch of the last record, with the log end offset. Elections compare the ends of logs so (Raft 5.4.1)."""
        return OffsetAndEpoch(epoch=self.epochs.last_epoch, offset=self.leo)

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of the last record; in an empty log, the epoch of the snapshot that it continues, or 0."""
        return self.epochs.last_epoch

    @property
    def last_flushed(self) -> OffsetAndEpoch:
        """The end of the flushed part of the log, with the epoch of the last flushed record."""
        return OffsetAndEpoch(epoch=self.epochs.epoch_at(self.flushed - 1), offset=self.flushed)

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version in force, committed or not."""
        return self.kraft_versions.latest

    @property
    def is_voter_change_committed(self) -> bool:
        """Whether the voter set in force is known to be committed (I-31)."""
        offset = self.voters.latest_offset
        return offset is None or offset < self.high_watermark

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The snapshot with the lowest end offset; None if there is none."""
        return min(self.snapshots, key=lambda snapshot: snapshot.offset, default=None)

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The snapshot with the highest end offset; None if there is none."""
        return max(self.snapshots, key=lambda snapshot: snapshot.offset, default=None)

    def end_offset_for(self, epoch: Epoch) -> OffsetAndEpoch:
        """Returns the largest epoch of this log that is not above `epoch`, with its end offset (exclusive). KIP-320."""
        return self.epochs.end_offset_for(epoch, leo=self.leo)

    def append(self, entry: Entry) -> None:
        """Adds `entry` at the log end. Voters and kraft.version that it sets are in force at once (I-32)."""
        assert entry.base_offset == self.leo, (entry.base_offset, self.leo)
        assert entry.end_offset > entry.base_offset, entry
        self.epochs.assign(epoch=entry.epoch, start_offset=entry.base_offset)
        change = entry.change if isinstance(entry, LeaderChange) else entry
        if isinstance(entry, LeaderChange) and entry.change is not None:
            assert entry.change.base_offset == entry.base_offset + 1, entry
            assert entry.change.epoch == entry.epoch, entry
        if change is not None and change.kraft_version is not None:
            assert change.kraft_version >= self.kraft_version, (change.kraft_version, self.kraft_version)
            self.kraft_versions.append(entry.base_offset, change.kraft_version)
        if change is not None and change.voters is not None:
            self._change_voters(entry.base_offset, change.voters)
        self.leo = entry.end_offset

    def _change_voters(self, offset: Offset, voters: VoterSet) -> None:
        """Puts the voter set of the record at `offset` in force, committed or not. KIP-853."""
        assert voters.voters, offset  # I-36
        # The set before the first record may be any: a new node knows no voters, or those of its configuration.
        is_known = self.voters.latest_offset is not None
        assert not is_known or self.voters.latest.overlaps(voters), (self.voters.latest, voters)
        self.voters.append(offset, voters)

    def flush(self, to: Offset) -> None:
        """Records that everything below `to` (exclusive) is on stable storage."""
        assert to <= self.leo, (to, self.leo)
        self.flushed = max(self.flushed, to)

    def commit(self, to: Offset) -> None:
        """Moves the high watermark up to `to`: everything below it (exclusive) is committed."""
        assert self.high_watermark < to <= self.leo, (self.high_watermark, to, self.leo)
        self.high_watermark = to

    def truncate(self, *, to: Offset) -> None:
        """Removes the records at `to` and after, with the epochs, voter sets and levels that they brought.

        All records must be flushed, and none below the high watermark is removed.
        """
        assert self.start <= to < self.leo, (self.start, to, self.leo)
        # I-13: committed records are never removed. Where a leader asks for it, one of the two has lost flushed
        # records.
        assert to >= self.high_watermark, (to, self.high_watermark)
        # A follower fetches only when all its records are flushed, so that no flush is under way here.
        assert self.flushed == self.leo, (self.flushed, self.leo)
        self.epochs.truncate(to=to)
        self.voters.truncate(to=to)
        self.kraft_versions.truncate(to=to)
        self.leo = self.flushed = to
        last_voters = self.voters.latest_offset
        assert last_voters is None or last_voters < to, (last_voters, to)  # I-32

    def take_snapshot(self, snapshot: OffsetAndEpoch, size: int) -> None:
        """Adds a complete snapshot of `size` bytes of this log: all that it has is committed (I-26). KIP-630."""
        assert self.start <= snapshot.offset <= self.high_watermark, (self.start, snapshot, self.high_watermark)
        assert size >= 0, (snapshot, size)
        assert self.epochs.epoch_at(snapshot.offset - 1) == snapshot.epoch, snapshot
        self.snapshots[snapshot] = size

    def install(
        self, snapshot: OffsetAndEpoch, *, size: int, voters: VoterSet | None, kraft_version: int | None
    ) -> None:
        """Replaces the whole log by `snapshot`; None for voters or level if its header has none. KIP-630.

        Log start, end, flushed end and high watermark are then all the end of the snapshot.
        """
        assert snapshot.offset >= self.high_watermark, (snapshot, self.high_watermark)
        assert self.flushed == self.leo, (self.flushed, self.leo)
        self.epochs.restart_at(snapshot)
        self.voters.restart_with(voters)
        self.kraft_versions.restart_with(kraft_version)
        self.snapshots = {snapshot: size}
        self.start = self.leo = self.flushed = self.high_watermark = snapshot.offset
        assert self.epochs.floor == snapshot, (self.epochs.floor, snapshot)  # I-27
        assert self.voters.latest_offset is None, self.voters.latest_offset  # the set of the snapshot's header counts

    def start_at(self, snapshot: OffsetAndEpoch) -> None:
        """Removes the records below the end of `snapshot`, and the snapshots before it (I-27).

        The snapshot is on stable storage, and with it everything below its end: `flushed` is at least there, also if a
        follower has not flushed those records (its `high_watermark` may pass its `flushed`).
        """
        assert snapshot in self.snapshots, (snapshot, self.snapshots)
        assert self.start <= snapshot.offset <= self.high_watermark, (self.start, snapshot, self.high_watermark)
        self.epochs.start_at(snapshot)
        self.voters.start_at(snapshot.offset)
        self.kraft_versions.start_at(snapshot.offset)
        self.start = snapshot.offset
        self.flushed = max(self.flushed, self.start)
        self.snapshots = {kept: size for kept, size in self.snapshots.items() if kept.offset >= snapshot.offset}
        assert self.epochs.floor == snapshot, (self.epochs.floor, snapshot)  # I-27
        assert self.start <= self.leo, (self.start, self.leo)
