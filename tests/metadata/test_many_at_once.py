"""Many records at once are encoded, decoded and applied as one after the other, whatever partitions have in common."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kraft import Message, Uuid
from quorate.errors import Corrupt
from quorate.metadata.canonical import canonical
from quorate.metadata.faults import ReplayFault
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import DIRECTORIES, ELIGIBLE_LEADER_REPLICAS, record_version
from quorate.records import (
    NoOpRecord,
    PartitionRecord,
    TopicRecord,
    decode_record,
    decode_records,
    encode_record,
    encode_records,
    with_trace,
)
from tests.metadata.histories import histories
from tests.metadata.test_properties import counts

LEVELS = (7, 14, 17, 22, 25, 30, 33)
LONG = 40
UNSOUND = {"directories": (Uuid(bytes(16)),) * 7}


def partitions(chance: Random, topic_id: Uuid) -> list[Message]:
    """Partitions that have few shapes, or each its own; with ids as of a new topic, but for some."""
    shapes = [shape(chance, topic_id) for _ in range(chance.choice([1, 2, 5, LONG]))]
    made: list[Message] = []
    for partition_id in range(chance.randrange(LONG)):
        record = replace(chance.choice(shapes), partition_id=partition_id)
        match chance.randrange(60):
            case 0:
                record = with_trace(record, b"00-trace")
            case 1:
                record = replace(record, partition_id=chance.randrange(-1, LONG))
            case 2:
                record = replace(record, **UNSOUND)
            case 3:
                made.append(NoOpRecord())
        made.append(record)
    return made


def shape(chance: Random, topic_id: Uuid) -> PartitionRecord:
    replicas = tuple(chance.sample(range(6), 3))
    return PartitionRecord(
        topic_id=topic_id,
        replicas=replicas,
        isr=chance.choice([replicas, replicas[:1], replicas[1:]]),
        adding_replicas=chance.choice([(), (), replicas[2:]]),
        leader=chance.choice([*replicas[:1] * 4, replicas[1], -1]),
        leader_recovery_state=0,
        leader_epoch=0,
        partition_epoch=0,
        directories=chance.choice([(), tuple(Uuid(bytes(15) + bytes([each])) for each in replicas)]),
        eligible_leader_replicas=chance.choice([None, None, replicas[1:]]),
    )


def topics(chance: Random, count: int) -> list[Message]:
    made: list[Message] = []
    for number in range(count):
        topic_id = Uuid(bytes(15) + bytes([number + 1]))
        if chance.random() < 0.95:
            made.append(TopicRecord(f"topic-{number}", topic_id))
        made += partitions(chance, topic_id)
    return made


LONG_TOPICS = st.builds(topics, st.randoms(use_true_random=False), st.integers(0, 4))


def one_by_one(state: ClusterState, log: list[Message], offset: int) -> None:
    for place, record in enumerate(log, offset):
        state.apply(record, place)


def replayed(apply: Callable[[ClusterState, list[Message], int], None], log: list[Message], cut: int) -> list[object]:
    """What is so after the whole log, what it says of a fault, and what is so after a revert to the cut."""
    state, fault = ClusterState(), None
    for offset, record in enumerate(log[:cut]):
        with suppress(ReplayFault):
            state.apply(record, offset)
    state.settle()
    if cut not in state.registry:
        state.registry.create(cut)
    try:
        apply(state, log[cut:], cut)
    except ReplayFault as raised:
        fault = str(raised), raised.record, raised.offset
    after = [fault, canonical(state), counts(state)]
    if cut in state.registry:  # an abort of what was open before it goes further back
        state.registry.revert_to(cut)
    return [*after, canonical(state), counts(state)]


@pytest.fixture(autouse=True, params=[2, 64], ids=["few misses", "as ever"])
def _misses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("quorate.records", "quorate.metadata.topics"):
        monkeypatch.setattr(f"{module}.MISSES_MAX", request.param)


@given(LONG_TOPICS, st.sampled_from(LEVELS))
def test_they_have_the_same_bytes(log: list[Message], level: int) -> None:
    def version_of(record: Message) -> int:
        return record_version(record, level)

    log = [fitting(record, level) for record in log]
    values = [encode_record(record, version_of(record)) for record in log]

    assert values == encode_records(log, version_of)
    assert list(map(decode_record, values)) == decode_records(values)


def fitting(record: Message, level: int) -> Message:
    """A partition without what its version at this level lacks."""
    if type(record) is not PartitionRecord:
        return record
    return replace(
        record,
        directories=record.directories if level >= DIRECTORIES else (),
        eligible_leader_replicas=record.eligible_leader_replicas if level >= ELIGIBLE_LEADER_REPLICAS else None,
    )


@given(st.randoms(use_true_random=False), st.data())
def test_damage_is_found_at_the_same_value(chance: Random, data: st.DataObject) -> None:
    log = [fitting(record, LEVELS[-1]) for record in topics(chance, 2)]
    values = [encode_record(record, record_version(record, LEVELS[-1])) for record in log]
    if not values:
        return
    place = data.draw(st.integers(0, len(values) - 1))
    damaged = bytearray(values[place])
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    values[place] = bytes(damaged[: data.draw(st.sampled_from([len(damaged), at]))])

    assert found(lambda: list(map(decode_record, values))) == found(lambda: decode_records(values))


def found(decoded: Callable[[], list[Message]]) -> object:
    try:
        return decoded()
    except Corrupt as damage:
        return str(damage), damage.position


@given(st.one_of(LONG_TOPICS, histories()), st.data())
def test_they_have_the_same_effect(log: list[Message], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))

    assert replayed(one_by_one, log, cut) == replayed(ClusterState.apply_all, log, cut)


def test_a_tag_of_one_version_is_the_directories_of_the_next() -> None:
    tagged = [encode_record(PartitionRecord(each, unknown_tags=((9, b""),)), 0) for each in range(4)]

    with pytest.raises(Corrupt):
        decode_records([*tagged, tagged[-1][:2] + b"\1" + tagged[-1][3:]])


def test_partitions_that_are_alike_share_one_object() -> None:
    topic_id = Uuid(bytes(15) + b"\1")
    alike = [PartitionRecord(each, topic_id, (1, 2), (1, 2), leader=1) for each in range(9)]
    state = ClusterState()
    state.apply_all([TopicRecord("a", topic_id), *alike], 0)
    topic = state.topics.by_name("a")

    assert topic is not None
    assert 1 == len({id(partition) for partition in topic.partitions.values()})
