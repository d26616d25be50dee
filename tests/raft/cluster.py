"""A node of a pretend cluster: the driver's loop around the real core, over a pretend disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from kraft import Uuid
from quorate.epochs import EpochCache
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft import (
    BatchInfo,
    ElectionState,
    LeaderChange,
    LogView,
    Raft,
    RaftSettings,
    Ready,
    VoterHistory,
    VoterSet,
)
from quorate.raft.history import History
from quorate.raft.log import Entry, Read, SnapshotRead
from quorate.raft.messages import FetchResponse, FetchSnapshotResponse, Response
from quorate.raft.voters import SUPPORTED, ListenerEndpoint, VersionRange, Voter

CLUSTER_ID = "simulated"

BEGINNING = OffsetAndEpoch(epoch=0, offset=0)

Record = tuple[Offset, Epoch, str]


def as_batch(entry: Entry) -> BatchInfo:
    """What the driver writes: a control batch has a text for each of its records."""
    if isinstance(entry, BatchInfo):
        return entry
    change = entry.change if isinstance(entry, LeaderChange) else entry
    texts = ["leader-change"] if isinstance(entry, LeaderChange) else []
    if change is not None:
        texts += [] if change.kraft_version is None else [f"kraft-version {change.kraft_version}"]
        texts.append("voters " + ",".join(map(str, change.voters.keys)))
    return BatchInfo(
        base_offset=entry.base_offset,
        last_offset=entry.end_offset - 1,
        epoch=entry.epoch,
        data=texts[0] if len(texts) == 1 else tuple(texts),
        voters=None if change is None else change.voters,
        kraft_version=None if change is None else change.kraft_version,
    )


def records_of(batch: BatchInfo) -> list[Record]:
    """One row a record."""
    count = batch.end_offset - batch.base_offset
    texts = batch.data if isinstance(batch.data, tuple) else (str(batch.data),) * count
    assert len(texts) == count, batch
    return [(batch.base_offset + at, batch.epoch, text) for at, text in enumerate(texts)]


@dataclass(frozen=True)
class Header:
    """What a snapshot says of the voters, if kraft.version is 1."""

    voters: VoterSet | None = None
    kraft_version: int | None = None


def encode_snapshot(records: Sequence[Record], header: Header | None = None) -> bytes:
    if header is None or header.voters is None:
        return json.dumps(records).encode()
    voters = [
        [voter.key.id, voter.key.directory_id.hex(), [[each.name, each.host, each.port] for each in voter.endpoints]]
        for voter in header.voters.voters
    ]
    return json.dumps({"voters": voters, "kraft_version": header.kraft_version, "records": records}).encode()


def decode_snapshot(data: bytes) -> list[Record]:
    found = json.loads(data)
    rows = found["records"] if isinstance(found, dict) else found
    return [(offset, epoch, text) for offset, epoch, text in rows]


def decode_header(data: bytes) -> Header:
    found = json.loads(data)
    if not isinstance(found, dict):
        return Header()
    voters = VoterSet(
        tuple(
            Voter(
                key=ReplicaKey(id, Uuid(bytes.fromhex(disk))),
                endpoints=tuple(ListenerEndpoint(*each) for each in endpoints),
            )
            for id, disk, endpoints in found["voters"]
        )
    )
    return Header(voters=voters, kraft_version=found["kraft_version"])


@dataclass
class Disk:
    """What survives a crash: all but the batches that were not flushed."""

    batches: list[BatchInfo] = field(default_factory=list)
    flushed: Offset = 0
    floor: OffsetAndEpoch = BEGINNING
    snapshots: dict[OffsetAndEpoch, bytes] = field(default_factory=dict)
    election: ElectionState | None = None

    @property
    def leo(self) -> Offset:
        return self.batches[-1].end_offset if self.batches else self.floor.offset

    def view(self, voters: VoterSet, kraft_version: int = 0) -> LogView:
        """The log as a driver would find it at start; the arguments are what the node was formatted with."""
        if self.floor.offset and (header := decode_header(self.snapshots[self.floor])).voters is not None:
            voters, kraft_version = header.voters, header.kraft_version or 0
        history = VoterHistory(voters, ((b.base_offset, b.voters) for b in self.batches if b.voters is not None))
        versions = History(
            kraft_version, ((b.base_offset, b.kraft_version) for b in self.batches if b.kraft_version is not None)
        )
        epochs = EpochCache(((batch.epoch, batch.base_offset) for batch in self.batches), floor=self.floor)
        sizes = {snapshot_id: len(data) for snapshot_id, data in self.snapshots.items()}
        return LogView(
            voters=history,
            kraft_versions=versions,
            epochs=epochs,
            leo=self.leo,
            flushed=self.flushed,
            snapshots=sizes,
        )

    def append(self, batch: BatchInfo) -> None:
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

    def read(self, read: Read) -> tuple[BatchInfo, ...]:
        """Whole batches; `max_bytes` counts records here, and at least one batch comes."""
        found: list[BatchInfo] = []
        for batch in self.batches:
            if batch.base_offset < read.offset:
                continue
            if read.below is not None and batch.end_offset > read.below:
                break
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
    settings: RaftSettings
    random: Random
    disk: Disk = field(default_factory=Disk)
    raft: Raft | None = None
    life: int = 0
    download: bytes = b""
    kraft_version: int = 0
    """With `voters`: what the node was formatted with."""
    endpoints: tuple[ListenerEndpoint, ...] = ()
    kraft_versions: VersionRange = SUPPORTED
    bootstrap: frozenset[NodeId] = frozenset()
    recover_to: OffsetAndEpoch | None = None
    """How far the log went before its disk lost a part."""

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
            log=self.disk.view(self.voters, self.kraft_version),
            election=self.disk.election,
            random=self.random,
            now_ms=now_ms,
            settings=self.settings,
            bootstrap=self.bootstrap,
            endpoints=self.endpoints,
            kraft_versions=self.kraft_versions,
            recover_to=self.recover_to,
        )

    def snapshot(self, end: Offset) -> bytes:
        """What a snapshot that ends at `end` holds."""
        log = self.core.log
        voters = log.voters.before(end) if log.kraft_versions.before(end) else None
        return encode_snapshot(self.disk.records(below=end), Header(voters, log.kraft_versions.before(end)))

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
