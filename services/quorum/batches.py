"""Bytes ↔ the core's batches: what raft has to know of a batch is an offset, an epoch, a size, and who votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorate.nouns import Epoch, Offset, ReplicaKey
from quorate.raft.log import Batch, LeaderChange, VotersChange
from quorate.raft.voters import Endpoint, VersionRange, Voter, VoterSet
from quorate.records import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from quorate.wire.batch import BatchHeader, ControlType, batches, check_batch, control_batch, data_batch, records
from quorate.wire.codec import decode, encode


def data_batches(
    batches: Sequence[Sequence[bytes]], *, base_offset: Offset, epoch: Epoch, timestamp_ms: int
) -> tuple[Batch, ...]:
    """The batches of the log that have these values, one right after the other from `base_offset` on."""
    made = []
    for values in batches:
        data = data_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms, values=values)
        end = base_offset + len(values)
        made.append(Batch(base_offset=base_offset, last_offset=end - 1, epoch=epoch, size=len(data), data=data))
        base_offset = end
    return tuple(made)


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
            kraft_version=kraft_version_of(data, position, header) if header.is_control else None,
        )


def voters_of(data: bytes, position: int, header: BatchHeader) -> VoterSet | None:
    """The voter set that a control batch brings; None if it brings none. KIP-853."""
    value = _control_value(data, position, header, ControlType.KRAFT_VOTERS)
    return None if value is None else voter_set(decode(VotersRecord, value, 0))


def kraft_version_of(data: bytes, position: int, header: BatchHeader) -> int | None:
    """The kraft.version that a control batch brings; None if it brings none. KIP-853."""
    value = _control_value(data, position, header, ControlType.KRAFT_VERSION)
    return None if value is None else decode(KRaftVersionRecord, value, 0).k_raft_version


def _control_value(data: bytes, position: int, header: BatchHeader, kind: ControlType) -> bytes | None:
    """The value of the last record of this kind in a control batch."""
    found = None
    for record in records(data, position, header):
        assert record.key is not None
        assert record.value is not None
        if int.from_bytes(record.key[2:4], "big") == kind:
            found = record.value
    return found


def voter_set(record: VotersRecord) -> VoterSet:
    """The voters of a KRaftVoters record."""
    return VoterSet(
        tuple(
            Voter(
                key=ReplicaKey(voter.voter_id, voter.voter_directory_id),
                endpoints=tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
                kraft_versions=VersionRange(
                    voter.k_raft_version_feature.min_supported_version,
                    voter.k_raft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        )
    )


def voters_record(voters: VoterSet) -> VotersRecord:
    """The KRaftVoters record of `voters`."""
    voter = VotersRecord.Voter
    return VotersRecord(
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
        )
    )


def control_batch_of(entry: LeaderChange | VotersChange, *, timestamp_ms: int) -> bytes:
    """A control batch of the leader's own, with every record that `entry` counts."""
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
    """Version 0, as Kafka 4.3 writes it at every kraft.version: version 1 would add the voters' directory ids."""
    return LeaderChangeMessage(
        leader_id=change.leader_id,
        voters=tuple(LeaderChangeMessage.Voter(voter_id=key.id) for key in change.voters),
        granting_voters=tuple(LeaderChangeMessage.Voter(voter_id=key.id) for key in change.granting),
    )
