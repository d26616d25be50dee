"""What the core knows of its log: where it starts and ends, its epochs, voters and snapshots, but no bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.epochs import EpochCache
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
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

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return self.last_offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """The first batch of an epoch, to be encoded by the driver: one LeaderChange control record. KIP-595."""

    base_offset: Offset
    epoch: Epoch
    leader_id: NodeId
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]

    @property
    def end_offset(self) -> Offset:
        """The offset after the record."""
        return self.base_offset + 1


@dataclass(slots=True, kw_only=True)
class LogView:
    """The ends of one node's log. At start-up the driver fills it from disk; from then on the core keeps it.

    `start` <= `high_watermark` <= `leo`, and `flushed` <= `leo`, are all exclusive ends but `start`.
    """

    voters: VoterHistory
    epochs: EpochCache = field(default_factory=EpochCache)
    leo: Offset = 0
    flushed: Offset = 0
    """Everything below is on stable storage."""
    high_watermark: Offset = 0
    """Everything below is known to be committed. After a restart that is the snapshot at the log's start."""
    snapshots: dict[OffsetAndEpoch, int] = field(default_factory=dict)
    """Size in bytes of each complete snapshot."""

    def __post_init__(self) -> None:
        self.high_watermark = max(self.high_watermark, self.start)
        assert self.start <= self.flushed <= self.leo, (self.start, self.flushed, self.leo)
        assert self.start == 0 or self.epochs.floor in self.snapshots, (self.epochs.floor, self.snapshots)

    @property
    def start(self) -> Offset:
        """First offset of the log; a snapshot ends there unless it is 0."""
        return self.epochs.floor.offset

    @property
    def last(self) -> OffsetAndEpoch:
        """How far the log goes: epoch of its last record, and `leo`."""
        return OffsetAndEpoch(epoch=self.epochs.last_epoch, offset=self.leo)

    @property
    def last_flushed(self) -> OffsetAndEpoch:
        """How far the log goes on stable storage."""
        return OffsetAndEpoch(epoch=self.epochs.epoch_at(self.flushed - 1), offset=self.flushed)

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

    def append(self, batch: Batch | LeaderChange) -> None:
        """`batch` was added at the end."""
        assert batch.base_offset == self.leo, (batch.base_offset, self.leo)
        assert batch.end_offset > batch.base_offset, batch
        self.epochs.assign(epoch=batch.epoch, start_offset=batch.base_offset)
        if isinstance(batch, Batch) and batch.voters is not None:
            self.voters.append(batch.base_offset, batch.voters)
        self.leo = batch.end_offset

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
        self.leo = self.flushed = to

    def install(self, snapshot: OffsetAndEpoch, *, size: int, voters: VoterSet | None) -> None:
        """The whole log was replaced by `snapshot`. KIP-630."""
        assert snapshot.offset >= self.high_watermark, (snapshot, self.high_watermark)
        assert self.flushed == self.leo, (self.flushed, self.leo)
        self.epochs.restart_at(snapshot)
        self.voters.restart_with(voters)
        self.snapshots = {snapshot: size}
        self.leo = self.flushed = self.high_watermark = snapshot.offset

    def start_at(self, snapshot: OffsetAndEpoch) -> None:
        """Records below `snapshot`, and the snapshots before it, were removed."""
        assert snapshot in self.snapshots, (snapshot, self.snapshots)
        assert self.start <= snapshot.offset <= self.high_watermark, (self.start, snapshot, self.high_watermark)
        self.epochs.start_at(snapshot)
        self.voters.start_at(snapshot.offset)
        self.snapshots = {kept: size for kept, size in self.snapshots.items() if kept.offset >= snapshot.offset}
