"""Converts record batches between bytes and the Raft core's form: offsets, epoch, size, and a voter set if any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset, ReplicaKey
from quorate.raft import messages as raft
from quorate.raft.log import BatchInfo, LeaderChange, VotersChange
from quorate.raft.voters import SUPPORTED, ListenerEndpoint, VersionRange, Voter, VoterSet
from quorate.records import TARGET_TAG, KRaftVersionRecord, LeaderChangeMessage, VotersRecord, target_of
from quorate.wire.batch import (
    BatchHeader,
    ControlType,
    check_batch,
    control_batch,
    data_batch,
    fetched_batches,
    records,
)
from quorate.wire.codec import decode, encode

CONTROL_KEY_BYTES: Final = 4
"""Size of a control record's key: version and type, an int16 each."""
IDS_SHOWN_MAX: Final = 10


def data_batches(
    batches: Sequence[Sequence[bytes]], *, base_offset: Offset, epoch: Epoch, timestamp_ms: int
) -> tuple[BatchInfo, ...]:
    """Encodes one data batch for each list of encoded records, none of them empty, consecutive from `base_offset` on.

    `timestamp_ms` (ms since 1970) is the append time of all.
    """
    made = []
    for values in batches:
        assert values, base_offset  # I-10: a batch without records would have the offset of the next
        data = data_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms, values=values)
        end = base_offset + len(values)
        made.append(BatchInfo(base_offset=base_offset, last_offset=end - 1, epoch=epoch, size=len(data), data=data))
        base_offset = end
    return tuple(made)


def parse_batches(data: bytes) -> Iterator[BatchInfo]:
    """Yields each batch of a Fetch answer after checking its CRC and record count. Raises Corrupt.

    A last batch that is cut off is left out (KIP-74). A control batch comes with its voter set and kraft.version.
    """
    for position, _ in fetched_batches(data):
        header = check_batch(data, position)
        if header.count != header.last_offset_delta + 1:
            last = header.last_offset_delta
            why = f"batch at offset {header.base_offset} of {header.count} records, its last is {last}"
            raise Corrupt(why, position=position)
        yield BatchInfo(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            epoch=header.epoch,
            size=header.size,
            data=data[position : position + header.size],
            voters=voters_of(data, position, header) if header.is_control else None,
            kraft_version=kraft_version_of(data, position, header) if header.is_control else None,
        )


def size_of(message: raft.Message) -> int:
    """Returns how many bytes of batches or of a snapshot a message brings for the disk; 0 for any other message."""
    match message:
        case raft.FetchResponse():
            return sum(batch.size for batch in message.batches)
        case raft.FetchSnapshotResponse():
            return len(message.data)
        case _:
            return 0


def voters_of(data: bytes, position: int, header: BatchHeader) -> VoterSet | None:
    """Returns the voter set in the control batch at `position`; None if it has none. KIP-853. Raises Corrupt."""
    value = _control_value(data, position, header, ControlType.KRAFT_VOTERS)
    return None if value is None else voter_set(decode(VotersRecord, value, 0))


def kraft_version_of(data: bytes, position: int, header: BatchHeader) -> int | None:
    """Returns the kraft.version in the control batch at `position`; None if it has none. KIP-853. Raises Corrupt."""
    value = _control_value(data, position, header, ControlType.KRAFT_VERSION)
    return None if value is None else kraft_level(decode(KRaftVersionRecord, value, 0))


def _control_value(data: bytes, position: int, header: BatchHeader, kind: ControlType) -> bytes | None:
    """Returns the value of the last record of this type in a control batch; None without one. Raises Corrupt."""
    found = None
    for record in records(data, position, header):
        if record.key is None or len(record.key) < CONTROL_KEY_BYTES or record.value is None:
            why = f"control record {record.offset} has key {record.key!r}, value {record.value!r}: no type, or no body"
            raise Corrupt(why, position=position)
        if int.from_bytes(record.key[2:4], "big") == kind:
            found = record.value
    return found


def kraft_level(record: KRaftVersionRecord) -> int:
    """Returns the level of a KRaftVersion record. Raises Corrupt for a level that this node does not support."""
    level = record.k_raft_version
    if level not in SUPPORTED:
        raise Corrupt(f"kraft.version is {level}; this node works with {SUPPORTED}")
    return level


def voter_set(record: VotersRecord) -> VoterSet:
    """Returns the voter set of a KRaftVoters record, with its target.

    Raises Corrupt for an empty set, or double or negative ids.
    """
    target = target_of(record)
    return _voters(record).walking_to(None if target is None else _voters(decode(VotersRecord, target, 0)))


def in_order(listeners: Iterable[ListenerEndpoint]) -> tuple[ListenerEndpoint, ...]:
    """Returns a node's listeners in the order of their names: a Kafka leader writes them in no order (a HashMap).

    So a node finds its own entry unchanged, whichever leader has written the voter set.
    """
    return tuple(sorted(listeners, key=lambda each: each.name))


def _voters(record: VotersRecord) -> VoterSet:
    ids = [voter.voter_id for voter in record.voters]
    if not ids or len(set(ids)) < len(ids) or min(ids) < 0:
        raise Corrupt(f"a KRaftVoters record with the ids {ids[:IDS_SHOWN_MAX]}: each voter is there once, from 0 on")
    return VoterSet(
        tuple(
            Voter(
                key=ReplicaKey(voter.voter_id, voter.voter_directory_id),
                endpoints=in_order(ListenerEndpoint(each.name, each.host, each.port) for each in voter.endpoints),
                kraft_versions=VersionRange(
                    voter.k_raft_version_feature.min_supported_version,
                    voter.k_raft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        )
    )


def voters_record(voters: VoterSet) -> VotersRecord:
    """Returns a voter set as a KRaftVoters record. Its target is a tagged field, which a Kafka node skips."""
    target = voters.target
    tags = () if target is None else ((TARGET_TAG, encode(voters_record(target), 0)),)
    voter = VotersRecord.Voter
    return VotersRecord(
        unknown_tags=tags,
        voters=tuple(
            voter(
                voter_id=each.key.id,
                voter_directory_id=each.key.directory_id,
                endpoints=tuple(
                    voter.Endpoint(name=endpoint.name, host=endpoint.host, port=endpoint.port)
                    for endpoint in each.endpoints
                ),
                k_raft_version_feature=voter.KRaftVersionFeature(
                    min_supported_version=each.kraft_versions.lowest,
                    max_supported_version=each.kraft_versions.highest,
                ),
            )
            for each in voters.voters
        ),
    )


def control_batch_of(entry: LeaderChange | VotersChange, *, timestamp_ms: int) -> bytes:
    """Encodes the leader's control batch for `entry`: LeaderChange, KRaftVersion and KRaftVoters, as it has them."""
    found: list[tuple[ControlType, bytes]] = []
    if isinstance(entry, LeaderChange):
        found.append((ControlType.LEADER_CHANGE, encode(_leader_change_message(entry), 0)))
    change = entry.change if isinstance(entry, LeaderChange) else entry
    if change is not None and change.kraft_version is not None:
        version = KRaftVersionRecord(k_raft_version=change.kraft_version)
        found.append((ControlType.KRAFT_VERSION, encode(version, 0)))
    if change is not None:
        found.append((ControlType.KRAFT_VOTERS, encode(voters_record(change.voters), 0)))
    assert entry.base_offset + len(found) == entry.end_offset, (entry, len(found))
    return control_batch(base_offset=entry.base_offset, epoch=entry.epoch, timestamp_ms=timestamp_ms, records=found)


def _leader_change_message(change: LeaderChange) -> LeaderChangeMessage:
    """Returns a LeaderChangeMessage of version 0, as Kafka 4.3 writes it; version 1 would add directory ids."""
    return LeaderChangeMessage(
        leader_id=change.leader_id,
        voters=tuple(LeaderChangeMessage.Voter(voter_id=key.id) for key in change.voters),
        granting_voters=tuple(LeaderChangeMessage.Voter(voter_id=key.id) for key in change.granting),
    )
