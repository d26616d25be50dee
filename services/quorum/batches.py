"""Bytes ↔ the core's batches: what raft has to know of a batch is an offset, an epoch, a size, and its voters."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.nouns import ReplicaKey
from quorate.raft.log import Batch, LeaderChange
from quorate.raft.voters import Voter, VoterSet
from quorate.records import LeaderChangeMessage, VotersRecord
from quorate.wire.batch import BatchHeader, ControlType, batches, check_batch, control_batch, records
from quorate.wire.codec import decode, encode


def parse_batches(data: bytes) -> Iterator[Batch]:
    """Every batch in `data`, checked by its CRC. Raises Corrupt."""
    for position, _ in batches(data):
        header = check_batch(data, position)
        yield Batch(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            epoch=header.epoch,
            size=header.size,
            data=data[position : position + header.size],
            voters=voters_of(data, position, header) if header.is_control else None,
        )


def voters_of(data: bytes, position: int, header: BatchHeader) -> VoterSet | None:
    """The voter set that a control batch brings; None if it brings none. KIP-853."""
    found = None
    for record in records(data, position, header):
        assert record.key is not None
        assert record.value is not None
        if int.from_bytes(record.key[2:4], "big") == ControlType.KRAFT_VOTERS:
            found = voter_set(decode(VotersRecord, record.value, 0))
    return found


def voter_set(record: VotersRecord) -> VoterSet:
    """The voters of a KRaftVoters record; each keeps its endpoints for the driver."""
    return VoterSet(
        tuple(
            Voter(
                key=ReplicaKey(voter.voter_id, voter.voter_directory_id),
                endpoints=tuple((endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints),
            )
            for voter in record.voters
        )
    )


def leader_change_batch(change: LeaderChange, *, timestamp_ms: int) -> bytes:
    """The first batch of an epoch: one LeaderChange record.

    Version 0, as Kafka 4.3 writes it at every kraft.version: version 1 would add the voters' directory ids.
    """
    record = LeaderChangeMessage(
        leader_id=change.leader_id,
        voters=tuple(LeaderChangeMessage.Voter(voter_id=key.id) for key in change.voters),
        granting_voters=tuple(LeaderChangeMessage.Voter(voter_id=key.id) for key in change.granting),
    )
    return control_batch(
        base_offset=change.base_offset,
        epoch=change.epoch,
        timestamp_ms=timestamp_ms,
        records=[(ControlType.LEADER_CHANGE, encode(record, 0))],
    )
