"""AlterPartition (56): sets the ISR that a partition's leader reports; each partition succeeds or fails alone.

KIP-497.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, TypeAlias

from kraft.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.partitions.broker_changes import Rulebook
from quorate.controller.partitions.partition_change import PartitionTarget, partition_change
from quorate.controller.partitions.soundness import is_sound
from quorate.controller.registrations import registered
from quorate.errors import ErrorCode
from quorate.metadata.partitions import RECOVERED, RECOVERING, Partition, merged
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.nouns import NodeId
from quorate.records import PartitionChangeRecord

__all__ = ["alter_partition"]

ANY_EPOCH = -1
"""The broker epoch of a replica whose leader does not know it. KIP-903."""

_Asked: TypeAlias = AlterPartitionRequest.TopicData.PartitionData
_Topic: TypeAlias = AlterPartitionResponse.TopicData
_Result: TypeAlias = AlterPartitionResponse.TopicData.PartitionData


def alter_partition(request: AlterPartitionRequest, *, settings: ControllerSettings) -> Command[AlterPartitionResponse]:
    """Returns the command that sets the ISRs reported by the broker of `request`, as leader of the partitions.

    Each partition succeeds or fails by itself. NEW_LEADER_ELECTED is no failure: the change is written, and it moves
    the leadership. The command raises ApiError(STALE_BROKER_EPOCH) for a broker that has registered again, or
    not at all.
    """

    def command(state: ClusterState, _: Moment) -> Decision[AlterPartitionResponse]:
        registered(state, request.broker_id, request.broker_epoch)
        book = Rulebook(state, settings)
        records: list[PartitionChangeRecord] = []
        topics = []
        for asked in request.topics:
            topic = state.topics.by_id(asked.topic_id)
            results = tuple(_alter(state, topic, request.broker_id, each, book, records) for each in asked.partitions)
            topics.append(_Topic(topic_id=asked.topic_id, partitions=results))
        assert len(topics) == len(request.topics), (request, topics)
        # One request may change more ISRs than one batch holds.
        return Decision(AlterPartitionResponse(topics=tuple(topics)), tuple(records), atomic=False)

    return command


def _alter(
    state: ClusterState,
    topic: Topic | None,
    leader: NodeId,
    asked: _Asked,
    book: Rulebook,
    records: list[PartitionChangeRecord],
) -> _Result:
    """Decides one partition: adds its record to `records` and returns its result."""
    partition_id = asked.partition_index
    epochs = _new_isr(asked)
    isr = tuple(epochs)
    try:
        if topic is None:
            _refuse(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = topic.partitions.get(partition_id)
        if partition is None:
            _refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        _check_epochs(partition, leader, asked)
        _check_isr(state, partition, asked, epochs)
    except _Refused as refused:
        return _Result(partition_index=partition_id, error_code=int(refused.code))
    change = partition_change(
        partition,
        topic.id,
        partition_id,
        PartitionTarget(
            isr=isr,
            recovered=asked.leader_recovery_state == RECOVERED,
            election=book.election(topic.name),
        ),
        book.rules(topic.name, partition),
    )
    if change is not None:
        records.append(change)
        before, partition = partition, merged(partition, change)
        assert partition.partition_epoch == before.partition_epoch + 1, (before, partition)  # I-50
        is_led = partition.leader == leader
        assert is_led or partition.leader_epoch == before.leader_epoch + 1, (before, partition)  # I-51
        # One who is elected uncleanly may be outside: those in sync may lie in directories that are lost.
        assert partition.isr == isr or not is_led or epochs.keys() >= set(partition.isr), (isr, partition)  # I-52
        assert partition.leader_recovery_state == RECOVERED or len(partition.isr) == 1, partition  # I-55
        is_moved = partition.replicas is not before.replicas
        assert not is_moved or is_sound(partition) or not is_sound(before), (before, partition)  # I-46
    if partition.leader != leader:
        # The new ISR has completed a reassignment that moves the leadership; the change is written all the same.
        return _Result(partition_index=partition_id, error_code=int(ErrorCode.NEW_LEADER_ELECTED))
    return _result(partition_id, partition)


def _new_isr(asked: _Asked) -> Mapping[NodeId, int]:
    """Returns the broker epoch by ISR member, in the order of the request; a duplicate member is kept once."""
    if asked.new_isr:
        return dict.fromkeys(asked.new_isr, ANY_EPOCH)
    return {member.broker_id: member.broker_epoch for member in asked.new_isr_with_epochs}


def _check_epochs(partition: Partition, leader: NodeId, asked: _Asked) -> None:
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        _refuse(ErrorCode.NOT_CONTROLLER)  # the broker knows a newer controller than this one
    if asked.leader_epoch < partition.leader_epoch:
        _refuse(ErrorCode.FENCED_LEADER_EPOCH)
    if leader != partition.leader:
        _refuse(ErrorCode.INVALID_REQUEST)
    if asked.partition_epoch < partition.partition_epoch:
        _refuse(ErrorCode.INVALID_UPDATE_VERSION)


def _check_isr(state: ClusterState, partition: Partition, asked: _Asked, isr: Mapping[NodeId, int]) -> None:
    count = len(asked.new_isr) or len(asked.new_isr_with_epochs)
    if len(isr) < count or not isr.keys() <= set(partition.replicas) or partition.leader not in isr:
        _refuse(ErrorCode.INVALID_REQUEST)
    if asked.leader_recovery_state not in (RECOVERED, RECOVERING):
        _refuse(ErrorCode.INVALID_REQUEST)
    # Other replicas join only after the leader has recovered, and a recovered leader stays recovered. KIP-704.
    may_recover = len(isr) == 1 and partition.leader_recovery_state == RECOVERING
    if asked.leader_recovery_state == RECOVERING and not may_recover:
        _refuse(ErrorCode.INVALID_REQUEST)
    if not all(_is_eligible(state, member, epoch) for member, epoch in isr.items()):
        _refuse(ErrorCode.INELIGIBLE_REPLICA)


def _is_eligible(state: ClusterState, member: NodeId, epoch: int) -> bool:
    """Returns whether a broker may be in an ISR: active, and in the broker epoch that the leader knows.

    KIP-841, KIP-903.
    """
    broker = state.brokers.get(member)
    return broker is not None and broker.is_active and epoch in (ANY_EPOCH, broker.epoch)


def _result(partition_id: int, partition: Partition) -> _Result:
    return _Result(
        partition_index=partition_id,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


class _Refused(Exception):
    """The refusal of one partition; the response has room for a code only."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code)
        self.code = code


def _refuse(code: ErrorCode) -> NoReturn:
    raise _Refused(code)
