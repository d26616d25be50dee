"""A node of a pretend cluster: the driver's loop around the real core, over a pretend disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from quorate.epochs import EpochCache
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft import Batch, ElectionState, LeaderChange, LogView, Raft, Ready, Settings, VoterHistory, VoterSet
from quorate.raft.messages import FetchResponse, FetchSnapshotResponse, Read, Response, SnapshotRead

CLUSTER_ID = "simulated"

BEGINNING = OffsetAndEpoch(epoch=0, offset=0)

Record = tuple[Offset, Epoch, str]


def as_batch(entry: Batch | LeaderChange) -> Batch:
    """What the driver writes: a leader change is encoded as a batch of one record."""
    if isinstance(entry, Batch):
        return entry
    return Batch(base_offset=entry.base_offset, last_offset=entry.base_offset, epoch=entry.epoch, data="leader-change")


def records_of(batch: Batch) -> list[Record]:
    """One row a record."""
    return [(offset, batch.epoch, str(batch.data)) for offset in range(batch.base_offset, batch.end_offset)]


def encode_snapshot(records: Sequence[Record]) -> bytes:
    return json.dumps(records).encode()


def decode_snapshot(data: bytes) -> list[Record]:
    return [(offset, epoch, text) for offset, epoch, text in json.loads(data)]


@dataclass
class Disk:
    """What survives a crash: all but the batches that were not flushed."""

    batches: list[Batch] = field(default_factory=list)
    flushed: Offset = 0
    floor: OffsetAndEpoch = BEGINNING
    snapshots: dict[OffsetAndEpoch, bytes] = field(default_factory=dict)
    election: ElectionState | None = None

    @property
    def leo(self) -> Offset:
        return self.batches[-1].end_offset if self.batches else self.floor.offset

    def view(self, voters: VoterSet) -> LogView:
        """The log as a driver would find it at start."""
        history = VoterHistory(voters, ((b.base_offset, b.voters) for b in self.batches if b.voters is not None))
        epochs = EpochCache(((batch.epoch, batch.base_offset) for batch in self.batches), floor=self.floor)
        sizes = {snapshot_id: len(data) for snapshot_id, data in self.snapshots.items()}
        return LogView(voters=history, epochs=epochs, leo=self.leo, flushed=self.flushed, snapshots=sizes)

    def append(self, batch: Batch) -> None:
        assert batch.base_offset == self.leo, (batch, self.leo)
        self.batches.append(batch)

    def truncate(self, to: Offset) -> None:
        while self.batches and self.batches[-1].base_offset >= to:
            self.batches.pop()
        assert self.leo == to, (self.leo, to)  # a log is only ever cut between batches
        self.flushed = min(self.flushed, to)

    def install(self, snapshot_id: OffsetAndEpoch) -> None:
        self.batches.clear()
        self.floor = snapshot_id
        self.snapshots = {snapshot_id: self.snapshots[snapshot_id]}
        self.flushed = snapshot_id.offset

    def cut_prefix(self, snapshot_id: OffsetAndEpoch) -> None:
        self.batches = [batch for batch in self.batches if batch.base_offset >= snapshot_id.offset]
        self.floor = snapshot_id
        self.snapshots = {kept: data for kept, data in self.snapshots.items() if kept.offset >= snapshot_id.offset}

    def lose_unflushed(self, random: Random) -> None:
        """A crash: some of what was not flushed may have reached the disk, in order."""
        kept = random.randrange(self.flushed, self.leo + 1)
        while self.batches and self.batches[-1].end_offset > max(kept, self.flushed):
            self.batches.pop()
        self.flushed = self.leo

    def records(self, *, below: Offset | None = None) -> list[Record]:
        """Everything from the beginning of time, the snapshot at the log's start included."""
        rows = decode_snapshot(self.snapshots[self.floor]) if self.floor.offset else []
        for batch in self.batches:
            rows += records_of(batch)
        return rows if below is None else rows[:below]

    def read(self, read: Read) -> tuple[Batch, ...]:
        """Whole batches; `max_bytes` counts records here, and at least one batch comes."""
        found: list[Batch] = []
        for batch in self.batches:
            if batch.base_offset < read.offset:
                continue
            if found and batch.end_offset - read.offset > read.max_bytes:
                break
            found.append(batch)
        return tuple(found)

    def read_snapshot(self, read: SnapshotRead) -> bytes:
        return self.snapshots[read.snapshot_id][read.position : read.position + read.max_bytes]


@dataclass
class Node:
    """One process and its disk. `raft` is None while it is down."""

    key: ReplicaKey
    voters: VoterSet
    settings: Settings
    random: Random
    disk: Disk = field(default_factory=Disk)
    raft: Raft | None = None
    life: int = 0
    download: bytes = b""

    @property
    def id(self) -> NodeId:
        return self.key.id

    @property
    def core(self) -> Raft:
        assert self.raft is not None, f"node {self.id} is down"
        return self.raft

    def start(self, now_ms: int) -> None:
        assert self.raft is None
        self.life += 1
        self.download = b""
        self.raft = Raft(
            node=self.key,
            cluster_id=CLUSTER_ID,
            log=self.disk.view(self.voters),
            election=self.disk.election,
            random=self.random,
            now_ms=now_ms,
            settings=self.settings,
        )

    def crash(self) -> None:
        self.raft = None
        self.disk.lose_unflushed(self.random)

    def carry_out(self, ready: Ready) -> Iterator[str]:
        """Does what stands before the sending, one write at a time, and names each after it is done."""
        if ready.election is not None:
            self.disk.election = ready.election
            yield "persist"
        if ready.truncate_to is not None:
            self.disk.truncate(ready.truncate_to)
            yield "truncate"
        if ready.install is not None:
            self.disk.install(ready.install)
            yield "install"
        for entry in ready.append:
            self.disk.append(as_batch(entry))
            yield "append"
        if ready.chunk is not None:
            chunk = ready.chunk
            assert chunk.position in (0, len(self.download)), (chunk.position, len(self.download))
            self.download = self.download[: chunk.position] + chunk.data
            if chunk.is_last:
                self.disk.snapshots[chunk.snapshot_id] = self.download
            yield "chunk"

    def fill(self, answer: Response) -> Response:
        """The answer with the bytes that it says are to be read."""
        if isinstance(answer, FetchResponse) and answer.read is not None:
            return replace(answer, batches=self.disk.read(answer.read), read=None)
        if isinstance(answer, FetchSnapshotResponse) and answer.read is not None:
            return replace(answer, data=self.disk.read_snapshot(answer.read), read=None)
        return answer
