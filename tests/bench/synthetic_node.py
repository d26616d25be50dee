"""A controller with its log and nobody beside it: what it decides lies in Kafka's files at once, and is committed.

The decisions are our engine's, on the state that they apply to; batches, segments, epochs and checkpoints are written
by the code that a quorum node writes them with. There is no quorum, and nothing waits for the disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from kraft import Message, Uuid
from quorate.controller.engine.decision import Command
from quorate.controller.engine.engine import Engine
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, OffsetAndEpoch, ReplicaKey, uuid_text
from quorate.raft.log import LeaderChange, VotersChange
from quorate.raft.voters import ListenerEndpoint, Voter, VoterSet
from quorate.records import encode_record
from quorate.storage.disk_log import DiskLog
from quorate.storage.meta_properties import MetaProperties, write_meta_properties
from quorate.storage.names import BOOTSTRAP_ID
from quorate.wire.batch import data_batch
from services.quorum.batches import control_batch_of
from services.quorum.checkpoints import CheckpointVoters, StateSnapshot

__all__ = ["CONTROLLERS", "KRAFT_VERSION", "Node", "cluster_name", "named_uuid"]

T = TypeVar("T")

CONTROLLERS: Final[tuple[NodeId, ...]] = (9001, 9002, 9003)
KRAFT_VERSION: Final = 1
CHECKPOINT_SLICE: Final = 8192
JITTER: Final = (0.5, 1.5)


def named_uuid(*names: object) -> Uuid:
    """An id that is the same in every run, and in no other place."""
    return Uuid(hashlib.md5("/".join(map(str, names)).encode(), usedforsecurity=False).digest())


class Node:
    """The active controller of one cluster, under a clock that goes on by `ms_per_record` with every record, about.

    All is written below `directory`. `chance` gives trace ids and the clock's unevenness.
    """

    def __init__(
        self,
        directory: Path,
        *,
        cluster_id: str,
        chance: Random,
        start_ms: int,
        ms_per_record: float,
        segment_bytes: int,
        checkpoint_every: int,
    ) -> None:
        self.cluster_id = cluster_id
        self.now_ms = start_ms
        self.batches = 0
        self.checkpoints: list[OffsetAndEpoch] = []
        self._engine = Engine(ClusterState())
        self._voters = _voters(cluster_id)
        self._chance = chance
        self._ms_per_record = ms_per_record
        self._checkpoint_every = checkpoint_every
        self._log = DiskLog(directory, segment_bytes=segment_bytes, segment_ms=1 << 60)
        self._quorum = CheckpointVoters(self._voters, KRAFT_VERSION)
        _finish(StateSnapshot(self._log.directory, BOOTSTRAP_ID, start_ms, self._quorum), ())
        directory_id = self._voters.voters[0].key.directory_id
        assert directory_id is not None, self._voters
        owner = MetaProperties(cluster_id=cluster_id, node_id=CONTROLLERS[0], directory_id=directory_id)
        write_meta_properties(directory, owner)

    @property
    def state(self) -> ClusterState:
        """What all records come to."""
        return self._engine.state

    @property
    def next_offset(self) -> int:
        """How many records there are."""
        return self._engine.next_offset

    @property
    def epoch(self) -> int:
        """The epoch it leads in."""
        assert self._engine.epoch is not None, "it has not begun"
        return self._engine.epoch

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._log.size

    def lead(self) -> None:
        """Begin the next epoch: one of the controllers is elected, and another stays away from the vote."""
        base, first = self.next_offset, self._engine.epoch is None
        epoch = 1 if first else self.epoch + 1
        leader, granting = self._chance.choice(self._voters.keys), self._chance.choice(self._voters.keys)
        change = VotersChange(base_offset=base + 1, epoch=epoch, voters=self._voters, kraft_version=KRAFT_VERSION)
        elected = LeaderChange(
            base_offset=base,
            epoch=epoch,
            leader_id=leader.id,
            voters=self._voters.keys,
            granting=tuple(sorted({leader, granting}, key=lambda key: key.id)),
            change=change if first else None,
        )
        self._append(control_batch_of(elected, timestamp_ms=self.now_ms))
        self._engine.claim(epoch, elected.end_offset)
        self._engine.note_appended(elected.end_offset)
        self._engine.commit(elected.end_offset)

    def write(self, command: Command[T], *, is_traced: bool = True) -> T:
        """Decide, apply, append, commit; a chore is not traced. Raises ApiError if the command refuses."""
        base = self.next_offset
        self._engine.write(None, command, now_ms=self.now_ms, traceparent=self._traceparent() if is_traced else None)
        ready = self._engine.ready()
        for append in ready.appends:
            self._append(
                data_batch(
                    base_offset=append.base_offset, epoch=append.epoch, timestamp_ms=self.now_ms, values=append.values
                )
            )
        end = self.next_offset
        self._engine.note_appended(end)
        self._engine.commit(end)
        (answer,) = (*ready.answers, *self._engine.ready().answers)
        if answer.error is not None:
            raise answer.error
        self.now_ms += round(max(1, end - base) * self._ms_per_record * self._chance.uniform(*JITTER))
        if end // self._checkpoint_every > base // self._checkpoint_every:
            self._checkpoint()
        response: T = answer.response
        return response

    def close(self) -> None:
        """Everything to the disk."""
        self._log.flush()
        self._log.close()

    def _append(self, batch: bytes) -> None:
        self._log.append(batch)
        self.batches += 1

    def _traceparent(self) -> bytes:
        """A W3C trace context, as telemetry makes them."""
        bits = self._chance.getrandbits
        return b"00-%032x-%016x-01" % (bits(128) | 1, bits(64) | 1)

    def _checkpoint(self) -> None:
        snapshot = OffsetAndEpoch(epoch=self.epoch, offset=self.next_offset)
        written = StateSnapshot(self._log.directory, snapshot, self.now_ms, self._quorum)
        _finish(written, self.state.records())
        self.checkpoints.append(snapshot)


def _finish(snapshot: StateSnapshot, records: Iterator[tuple[Message, int]] | tuple[()]) -> None:
    values = (encode_record(record, version) for record, version in records)
    while piece := list(islice(values, CHECKPOINT_SLICE)):
        snapshot.write(piece)
    snapshot.finish().close()


def _voters(cluster_id: str) -> VoterSet:
    def voter(node_id: NodeId) -> Voter:
        listener = ListenerEndpoint("CONTROLLER", f"controller-{node_id}.{cluster_id[:4]}.example", 9093)
        key = ReplicaKey(node_id, named_uuid(cluster_id, "directory of", node_id))
        return Voter(key=key, endpoints=(listener,))

    return VoterSet(tuple(map(voter, CONTROLLERS)))


def cluster_name(seed: int, number: int) -> str:
    """The id of a cluster, as `random-uuid` would print it."""
    return uuid_text(named_uuid("cluster", seed, number))
