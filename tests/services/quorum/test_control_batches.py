"""Control batches: written as Kafka's controllers write them, and read back to what they were (KIP-595, KIP-853)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.nouns import ReplicaKey
from quorate.raft.log import LeaderChange, VotersChange
from quorate.raft.voters import ListenerEndpoint, VersionRange, Voter, VoterSet
from quorate.records import TARGET_TAG, VotersRecord
from quorate.wire.batch import ControlType, batches, check_batch, control_batch
from quorate.wire.codec import encode
from services.quorum.batches import control_batch_of, parse_batches, voters_record

FIXTURE = Path(__file__).parents[2] / "interop/fixtures/three-dynamic/controller-3/__cluster_metadata-0"
DISK = Uuid(bytes(15) + b"\xaa")
VOTERS = VoterSet(
    (
        Voter(
            key=ReplicaKey(1, DISK),
            endpoints=(ListenerEndpoint("CONTROLLER", "host1", 9093), ListenerEndpoint("TLS", "host1", 1)),
        ),
        Voter(key=ReplicaKey(2), kraft_versions=VersionRange(0, 0)),
    )
)
KEYS = VOTERS.keys
WALKING = VOTERS.walking_to(VoterSet(VOTERS.voters[:1]))
CHANGE = VotersChange(base_offset=8, epoch=3, voters=VOTERS, kraft_version=1)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (LeaderChange(base_offset=7, epoch=3, leader_id=1, voters=KEYS, granting=KEYS[:1]), (7, 7, None, None)),
        (
            LeaderChange(base_offset=7, epoch=3, leader_id=1, voters=KEYS, granting=KEYS[:1], change=CHANGE),
            (7, 9, VOTERS, 1),
        ),
        (CHANGE, (8, 9, VOTERS, 1)),
        (VotersChange(base_offset=8, epoch=3, voters=VOTERS), (8, 8, VOTERS, None)),
        (VotersChange(base_offset=8, epoch=3, voters=WALKING), (8, 8, WALKING, None)),
    ],
)
def test_what_is_written_is_read_back(
    entry: LeaderChange | VotersChange, expected: tuple[int, int, VoterSet | None, int | None]
) -> None:
    (batch,) = parse_batches(control_batch_of(entry, timestamp_ms=5))

    assert expected == (batch.base_offset, batch.last_offset, batch.voters, batch.kraft_version)
    assert (entry.epoch, entry.end_offset) == (batch.epoch, batch.end_offset)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (b"\x00", "version"),
        (encode(VotersRecord(), 0), r"the ids \[\]"),
        (encode(voters_record(VOTERS), 0) + b"!", "left over"),
    ],
    ids=["cut off", "nobody", "too long"],
)
def test_a_target_that_is_no_voter_set_is_corrupt(target: bytes, reason: str) -> None:
    record = replace(voters_record(VOTERS), unknown_tags=((TARGET_TAG, target),))
    data = control_batch(
        base_offset=8, epoch=3, timestamp_ms=5, records=[(ControlType.KRAFT_VOTERS, encode(record, 0))]
    )

    with pytest.raises(Corrupt, match=reason):
        list(parse_batches(data))


def test_the_first_batch_is_the_bytes_that_kafka_wrote() -> None:
    """Its leader took the voters from the bootstrap checkpoint, and wrote three records in one batch."""
    data = (FIXTURE / "00000000000000000000.log").read_bytes()
    position, _ = next(iter(batches(data)))
    header = check_batch(data, position)
    theirs = data[position : position + header.size]
    (batch,) = parse_batches(theirs)
    assert batch.voters is not None
    assert (0, 2, 1) == (batch.base_offset, batch.last_offset, batch.kraft_version)
    one, _, three = batch.voters.keys

    ours = LeaderChange(
        base_offset=0,
        epoch=batch.epoch,
        leader_id=one.id,
        voters=batch.voters.keys,
        granting=(three, one),  # in the order in which Kafka's leader happened to have them
        change=VotersChange(base_offset=1, epoch=batch.epoch, voters=batch.voters, kraft_version=1),
    )

    assert theirs == control_batch_of(ours, timestamp_ms=header.base_timestamp)
