"""A follower is fed answers that are well formed and mean nothing: it takes what is right, and never fails."""

from __future__ import annotations

import struct
from random import Random
from typing import Any, Final

import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kraft import Uuid
from kraft.api.fetch_pb2 import FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotResponse
from quorate.errors import ApiError, Corrupt
from quorate.nouns import METADATA_TOPIC, METADATA_TOPIC_ID, ReplicaKey, uuid_text
from quorate.raft import messages as raft
from quorate.raft.core import Raft
from quorate.raft.invariants import check
from quorate.raft.log import LogView
from quorate.raft.voters import VoterHistory, VoterSet
from quorate.records import KRaftVersionRecord, VotersRecord
from quorate.wire.batch import CHECKED_FROM, CONTROL, CRC_POSITION, ControlType, control_batch, data_batch
from quorate.wire.codec import encode
from services.quorum import translate
from services.quorum.batches import parse_batches

EPOCH: Final = 5
LEADER: Final = 2
ATTRIBUTES: Final = 21
LAST_DELTA: Final = 23

small = st.integers(-2, 8)
int64s = st.one_of(small, st.sampled_from([1 << 31, (1 << 63) - 1, -(1 << 63)]))
int32s = st.one_of(small, st.sampled_from([(1 << 31) - 1, -(1 << 31)]))


def rewritten(data: bytes, position: int, field: bytes) -> bytes:
    """The batch with other bytes at `position`, under a checksum that is right."""
    made = bytearray(data)
    made[position : position + len(field)] = field
    struct.pack_into(">I", made, CRC_POSITION, crc32c(memoryview(made)[CHECKED_FROM:]))
    return bytes(made)


def voters_record(ids: list[int]) -> bytes:
    voter = VotersRecord.Voter
    voters = tuple(voter(voter_id=node_id, voter_directory_id=Uuid(bytes(16))) for node_id in ids)
    return encode(VotersRecord(voters=voters), 0)


def control(ids: list[int], *, base: int = 0, epoch: int = EPOCH) -> bytes:
    return control_batch(
        base_offset=base, epoch=epoch, timestamp_ms=0, records=[(ControlType.KRAFT_VOTERS, voters_record(ids))]
    )


def version(level: int) -> bytes:
    value = encode(KRaftVersionRecord(k_raft_version=level), 0)
    return control_batch(base_offset=0, epoch=EPOCH, timestamp_ms=0, records=[(ControlType.KRAFT_VERSION, value)])


def data(*, base: int = 0, epoch: int = EPOCH) -> bytes:
    return data_batch(base_offset=base, epoch=epoch, timestamp_ms=0, values=[b"value"])


KEYLESS: Final = rewritten(data(), ATTRIBUTES, struct.pack(">h", CONTROL))
LONG: Final = rewritten(data(), LAST_DELTA, struct.pack(">i", 9))


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (control([1, 1, 2]), r"ids \[1, 1, 2\]"),
        (control([]), r"ids \[\]"),
        (control([-1, 2]), r"ids \[-1, 2\]"),
        (version(9), "kraft.version is 9; this node works with 0-1"),
        (version(-1), "kraft.version is -1"),
        (KEYLESS, "control record 0 has key None"),
        (LONG, "of 1 records, its last is 9"),
    ],
    ids=["twice", "nobody", "negative", "level 9", "level -1", "no key", "a hole"],
)
def test_a_batch_with_a_right_checksum_that_means_nothing_is_refused_by_name(batch: bytes, words: str) -> None:
    with pytest.raises(Corrupt, match=words):
        list(parse_batches(batch))


batches = st.one_of(
    st.builds(data, base=st.integers(0, 4), epoch=st.integers(0, 8)),
    st.builds(control, st.lists(small, max_size=4), base=st.integers(0, 4), epoch=st.integers(0, 8)),
    st.builds(version, st.integers(-1, 3)),
    st.builds(
        lambda value: control_batch(
            base_offset=0, epoch=EPOCH, timestamp_ms=0, records=[(ControlType.KRAFT_VOTERS, value)]
        ),
        st.binary(min_size=1, max_size=30),
    ),
    st.builds(
        rewritten,
        st.sampled_from([data(), control([1, 2, 3])]),
        st.integers(ATTRIBUTES, 60),
        st.binary(min_size=1, max_size=4),
    ),
)


@st.composite
def fetched(draw: st.DrawFn) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(high_watermark=draw(int64s), log_start_offset=draw(int64s))
    partition.current_leader.leader_id = draw(st.sampled_from([LEADER, LEADER, LEADER, 1, 3, -1, -7]))
    partition.current_leader.leader_epoch = draw(st.sampled_from([EPOCH, EPOCH, EPOCH, EPOCH + 1, (1 << 31) - 1, -1]))
    partition.error_code = draw(st.sampled_from([0, 0, 0, 6, 74, 999]))  # type: ignore[assignment]
    if draw(st.booleans()):
        partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset = draw(int32s), draw(int64s)
    if draw(st.booleans()):
        partition.snapshot_id.epoch, partition.snapshot_id.end_offset = draw(int32s), draw(int64s)
    partition.records = b"".join(draw(st.lists(batches, max_size=3)))
    return FetchResponse(responses=[topic(topic_id=uuid_text(METADATA_TOPIC_ID), partitions=[partition])])


@st.composite
def pieces(draw: st.DrawFn) -> FetchSnapshotResponse:
    topic = FetchSnapshotResponse.TopicSnapshot
    partition = topic.PartitionSnapshot(
        size=draw(int64s), position=draw(int64s), unaligned_records=draw(st.binary(max_size=4))
    )
    partition.snapshot_id.epoch, partition.snapshot_id.end_offset = draw(int32s), draw(int64s)
    partition.current_leader.leader_id, partition.current_leader.leader_epoch = LEADER, EPOCH
    return FetchSnapshotResponse(topics=[topic(name=METADATA_TOPIC, partitions=[partition])])


def follower() -> Raft:
    """Node 1, which follows node 2 in epoch 5, with an empty log."""
    log = LogView(voters=VoterHistory(VoterSet.of(1, 2, 3)))
    core = Raft(node=ReplicaKey(1), cluster_id="c", log=log, election=None, random=Random(1), now_ms=0)
    core.step(raft.BeginQuorumEpochRequest(epoch=EPOCH, leader_id=LEADER), 0)
    return core


def with_records(records: bytes) -> FetchResponse:
    """What the leader of epoch 5 may well answer."""
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(high_watermark=0, log_start_offset=0, records=records)
    partition.current_leader.leader_id, partition.current_leader.leader_epoch = LEADER, EPOCH
    return FetchResponse(responses=[topic(topic_id=uuid_text(METADATA_TOPIC_ID), partitions=[partition])])


@settings(deadline=None, max_examples=400)
@example([with_records(control([1, 2, 3]))])  # voters, where kraft.version is 0
@given(st.lists(st.one_of(fetched(), pieces()), max_size=6))
def test_whatever_a_leader_answers_the_follower_goes_on_and_pauses(answers: list[Any]) -> None:
    core, now_ms = follower(), 0
    for answer in answers:
        ready = core.ready()
        core.flushed(core.log.leo, now_ms)
        ready = ready if ready.requests else core.ready()
        token = next((sent.request.reply_to for sent in ready.requests), None)
        leo, seen = core.log.leo, len(ready.requests)
        is_piece = any(isinstance(sent.request, raft.FetchSnapshotRequest) for sent in ready.requests)
        if is_piece != isinstance(answer, FetchSnapshotResponse):
            core.request_failed(token, now_ms)
        else:
            read = translate.from_fetch_snapshot if is_piece else translate.from_fetch
            try:
                core.step(read(answer, token), now_ms)
            except (ApiError, Corrupt):
                core.request_failed(token, now_ms)
        check(core)

        assert leo <= core.log.leo
        assert seen <= 1
        now_ms += 100
        core.tick(now_ms)
