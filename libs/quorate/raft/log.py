"""What the core knows of its log: where it starts and ends, its epochs, voters and snapshots, but no bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from quorate.epochs import EpochCache
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft.history import History
from quorate.raft.voters import VoterHistory, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records that are written together. `last_offset` is inclusive, as in Kafka's batch header; `size` in bytes."""

    base_offset: Offset
    last_offset: Offset
    epoch: Epoch
    size: int = 0
    data: object = b""
    """The driver's: bytes, usually. Never read here."""
    voters: VoterSet | None = None
    """The voter set, if this is a control batch with a KRaftVoters record. KIP-853."""
    kraft_version: int | None = None
    """The level, if this is a control batch with a KRaftVersion record. KIP-853."""

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return self.last_offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersChange:
    """A control batch for the driver to encode: KRaftVersion if `kraft_version` is set, then KRaftVoters. KIP-853."""

    base_offset: Offset
    epoch: Epoch
    voters: VoterSet
    kraft_version: int | None = None

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return self.base_offset + (1 if self.kraft_version is None else 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """The first batch of an epoch, for the driver to encode: LeaderChange, and perhaps the voters. KIP-595, KIP-853."""

    base_offset: Offset
    epoch: Epoch
    leader_id: NodeId
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]
    change: VotersChange | None = None
    """Further records of the same batch, right after the first: the voters that were known from before the log, or
    what has changed of the leader itself."""

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return self.base_offset + 1 if self.change is None else self.change.end_offset


Entry: TypeAlias = Batch | LeaderChange | VotersChange
"""What can be appended: bytes from elsewhere, or a control batch of the leader's own."""


@dataclass(slots=True, kw_only=True)
class LogView:
    """The ends of one node's log. At start-up the driver fills it from disk; from then on the core keeps it.

    `start` <= `high_watermark` <= `leo`, and `flushed` <= `leo`, are all exclusive ends but `start`.
    """

    voters: VoterHistory
    kraft_versions: History[int] = field(default_factory=lambda: History(0))
    """0: the voters are configured; 1: they are in the log. KIP-853."""
    epochs: EpochCache = field(default_factory=EpochCache)
    leo: Offset = 0
    flushed: Offset = 0
    """Everything below is on stable storage."""
    high_watermark: Offset = 0
    """Everything below is known to be committed. After a restart that is the snapshot at the log's start."""
    snapshots: dict[OffsetAndEpoch, int] = field(default_factory=dict)
    """Size in bytes of each complete snapshot."""
    start: Offset = field(init=False)
    """First offset of the log, which is that of the floor; a snapshot ends there unless it is 0."""

    def __post_init__(self) -> None:
        self.start = self.epochs.floor.offset
        self.high_watermark = max(self.high_watermark, self.start)
        assert self.start <= self.flushed <= self.leo, (self.start, self.flushed, self.leo)
        assert self.start == 0 or self.epochs.floor in self.snapshots, (self.epochs.floor, self.snapshots)
        for (_, before), (offset, after) in pairwise(self.voters.changes):
            assert before.overlaps(after), (offset, before, after)

    @property
    def last(self) -> OffsetAndEpoch:
        """How far the log goes: epoch of its last record, and `leo`."""
        return OffsetAndEpoch(epoch=self.epochs.last_epoch, offset=self.leo)

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of its last record, or of the one before the log if it has none."""
        return self.epochs.last_epoch

    @property
    def last_flushed(self) -> OffsetAndEpoch:
        """How far the log goes on stable storage."""
        return OffsetAndEpoch(epoch=self.epochs.epoch_at(self.flushed - 1), offset=self.flushed)

    @property
    def kraft_version(self) -> int:
        """The level in force, committed or not."""
        return self.kraft_versions.latest

    @property
    def is_voter_change_committed(self) -> bool:
        """Is the voter set in force known to be committed?"""
        offset = self.voters.latest_offset
        return offset is None or offset < self.high_watermark

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The oldest snapshot there is."""
        return min(self.snapshots, key=lambda snapshot: snapshot.offset, default=None)

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot there is."""
        return max(self.snapshots, key=lambda snapshot: snapshot.offset, default=None)

    def end_offset_for(self, epoch: Epoch) -> OffsetAndEpoch:
        """The largest epoch here that is not above `epoch`, and where it ends."""
        return self.epochs.end_offset_for(epoch, leo=self.leo)

    def append(self, entry: Entry) -> None:
        """`entry` was added at the end."""
        assert entry.base_offset == self.leo, (entry.base_offset, self.leo)
        assert entry.end_offset > entry.base_offset, entry
        self.epochs.assign(epoch=entry.epoch, start_offset=entry.base_offset)
        change = entry.change if isinstance(entry, LeaderChange) else entry
        if change is not None and change.kraft_version is not None:
            self.kraft_versions.append(entry.base_offset, change.kraft_version)
        if change is not None and change.voters is not None:
            self._change_voters(entry.base_offset, change.voters)
        self.leo = entry.end_offset

    def _change_voters(self, offset: Offset, voters: VoterSet) -> None:
        """The set is in force from here on, committed or not. KIP-853."""
        assert voters.voters, offset  # the set is never empty
        # A set known from before the log may be anything: a newcomer knows no voters, or those of its configuration.
        is_known = self.voters.latest_offset is not None
        assert not is_known or self.voters.latest.overlaps(voters), (self.voters.latest, voters)
        self.voters.append(offset, voters)

    def flush(self, to: Offset) -> None:
        """Everything below `to` has reached stable storage."""
        assert to <= self.leo, (to, self.leo)
        self.flushed = max(self.flushed, to)

    def commit(self, to: Offset) -> None:
        """Everything below `to` is committed."""
        assert self.high_watermark < to <= self.leo, (self.high_watermark, to, self.leo)
        self.high_watermark = to

    def truncate(self, *, to: Offset) -> None:
        """Records at `to` and after were removed."""
        assert self.start <= to < self.leo, (self.start, to, self.leo)
        # Committed records are never undone; if a peer asks for it, one of us has lost what it had promised to keep.
        assert to >= self.high_watermark, (to, self.high_watermark)
        # A follower asks only for what comes after its flushed end, so no flush can be under way here.
        assert self.flushed == self.leo, (self.flushed, self.leo)
        self.epochs.truncate(to=to)
        self.voters.truncate(to=to)
        self.kraft_versions.truncate(to=to)
        self.leo = self.flushed = to

    def install(
        self, snapshot: OffsetAndEpoch, *, size: int, voters: VoterSet | None, kraft_version: int | None
    ) -> None:
        """The whole log was replaced by `snapshot`, whose header has these; None for what it has not. KIP-630."""
        assert snapshot.offset >= self.high_watermark, (snapshot, self.high_watermark)
        assert self.flushed == self.leo, (self.flushed, self.leo)
        self.epochs.restart_at(snapshot)
        self.voters.restart_with(voters)
        self.kraft_versions.restart_with(kraft_version)
        self.snapshots = {snapshot: size}
        self.start = self.leo = self.flushed = self.high_watermark = snapshot.offset

    def start_at(self, snapshot: OffsetAndEpoch) -> None:
        """Records below `snapshot`, and the snapshots before it, were removed."""
        assert snapshot in self.snapshots, (snapshot, self.snapshots)
        assert self.start <= snapshot.offset <= self.high_watermark, (self.start, snapshot, self.high_watermark)
        self.epochs.start_at(snapshot)
        self.voters.start_at(snapshot.offset)
        self.kraft_versions.start_at(snapshot.offset)
        self.start = snapshot.offset
        self.snapshots = {kept: size for kept, size in self.snapshots.items() if kept.offset >= snapshot.offset}
