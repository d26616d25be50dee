"""The writes of a cluster's log to the database of the state: the state itself, and what each batch has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, TypeVar

from kraft import Message
from quorate.metadata.state import ClusterState
from quorate.records import SnapshotHeaderRecord, VotersRecord
from quorate.runtime.event_loop.turns import decoded, in_turns
from quorate.runtime.following.log_reader import CommittedBatch, LoadedSnapshot
from quorate.sql.following import Following, Place
from quorate.sql.state_database import Applied
from quorate.wire.batch import BatchHeader, ControlType, batches, data_values, records
from quorate.wire.codec import decode

__all__ = ["apply", "loaded", "skip"]

VERSION: Final = 0
"""The version of control records that Kafka writes; what has another one is not looked at."""

M = TypeVar("M", bound=Message)


async def apply(following: Following, batch: CommittedBatch) -> None:
    """Applies a batch to `following`, whose changes are then written; record by record, in turns of the loop.

    Nothing is written here. Raises Corrupt and ReplayFault.
    """
    header = batch.header
    place = Place(header.base_offset, header.epoch, header.max_timestamp)
    if header.is_control:
        following.vote(_voters(batch.data, 0, header), place, end=header.next_offset)
        return
    found = await decoded(data_values(batch.data))
    await in_turns(following.apply(found, place, end=header.next_offset))


async def skip(following: Following, batch: CommittedBatch) -> None:
    """Applies a batch to the state of `following` alone: the database has its changes already. Raises as `apply`."""
    if batch.header.is_control:
        await apply(following, batch)
        following.changes.clear()  # a Kafka leader's LeaderChange may lie in a metadata transaction that it then ends
        return
    following.skip(await decoded(data_values(batch.data)), batch.header.base_offset, end=batch.header.next_offset)


async def loaded(snapshot: LoadedSnapshot, cluster_id: str) -> tuple[Following, Applied]:
    """Returns a Following with a snapshot's state, and how much of the log that has. Raises Corrupt, ReplayFault."""
    state, voters, timestamp_ms = ClusterState(), None, 0
    for position, header in batches(snapshot.data):
        if header.is_control:
            voters = _voters(snapshot.data, position, header) or voters
            for first in _control(snapshot.data, position, header, ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord):
                timestamp_ms = first.last_contained_log_timestamp
        else:
            state.load_more(await decoded(data_values(snapshot.data, position, header)), snapshot.end_offset)
        await asyncio.sleep(0)
    following = Following(state, end=snapshot.end_offset, voters=voters)
    return following, Applied(cluster_id, snapshot.end_offset, snapshot.epoch, timestamp_ms)


def _voters(data: bytes, position: int, header: BatchHeader) -> VotersRecord | None:
    """Returns the last set of voters in a control batch; None if it has none (KIP-853)."""
    return next(iter(reversed(list(_control(data, position, header, ControlType.KRAFT_VOTERS, VotersRecord)))), None)


def _control(data: bytes, position: int, header: BatchHeader, kind: ControlType, found: type[M]) -> Iterator[M]:
    for record in records(data, position, header):
        key, value = record.key or b"", record.value or b""
        if (int.from_bytes(key[2:4], "big"), int.from_bytes(value[:2], "big")) == (kind, VERSION):
            yield decode(found, value, VERSION)
