"""AlterPartitionReassignments (45): starts or cancels reassignments of partitions to other brokers.

KIP-455, KIP-860.
"""

from __future__ import annotations

from typing import TypeAlias

from kraft.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, check_room
from quorate.controller.engine.steps import ITEMS_PER_STEP, Steps
from quorate.controller.partitions.broker_changes import Rulebook
from quorate.controller.partitions.elections import Election
from quorate.controller.partitions.new_partitions import bad_assignment, check_registered
from quorate.controller.partitions.partition_change import PartitionTarget, Rules, keeps_copies, partition_change
from quorate.controller.partitions.soundness import is_sound
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.placement import Replicas
from quorate.records import PartitionChangeRecord

__all__ = ["alter_partition_reassignments"]

_Asked: TypeAlias = AlterPartitionReassignmentsRequest.ReassignableTopic.ReassignablePartition
_Topic: TypeAlias = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
_Result: TypeAlias = _Topic.ReassignablePartitionResponse


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, *, settings: ControllerSettings
) -> Command[AlterPartitionReassignmentsResponse]:
    """Returns the command that starts the reassignments of `request`; null replicas cancel one.

    Each partition succeeds or fails by itself. A reassignment completes by itself when its new replicas are in sync.
    The command raises ApiError(POLICY_VIOLATION) if more than `RECORDS_PER_WRITE_MAX` partitions change.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[AlterPartitionReassignmentsResponse]]:
        book = Rulebook(state, settings)
        records: list[PartitionChangeRecord] = []
        topics = []
        decided_count = 0
        for topic in request.topics:
            results = []
            for asked in topic.partitions:
                if decided_count and decided_count % ITEMS_PER_STEP == 0:
                    yield
                decided_count += 1
                try:
                    change = _alter(state, topic.name, asked, book, request.allow_replication_factor_change)
                except ApiError as refusal:
                    results.append(_Result(asked.partition_index, int(refusal.code), refusal.message))
                    continue
                results.append(_Result(asked.partition_index, error_message=None))
                records += () if change is None else (change,)
                check_room(records)
            assert len(results) == len(topic.partitions), (topic, results)
            topics.append(_Topic(topic.name, tuple(results)))
        assert len(records) <= decided_count, (len(records), decided_count)
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
            responses=tuple(topics),
        )
        return Decision(response, tuple(records))

    return command


def _alter(
    state: ClusterState, name: str, asked: _Asked, book: Rulebook, may_change_factor: bool
) -> PartitionChangeRecord | None:
    topic = state.topics.by_name(name)
    partition = None if topic is None else topic.partitions.get(asked.partition_index)
    if topic is None or partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{asked.partition_index}")
    rules = book.rules(name, partition)
    if asked.replicas is None:
        wish = _back(name, asked.partition_index, partition, book, rules)
    else:
        check_registered(state, name, asked.partition_index, asked.replicas)
        if not may_change_factor:
            _check_factor(name, asked.partition_index, partition, asked.replicas)
        wish = _away(partition, asked.replicas)
    return partition_change(partition, topic.id, asked.partition_index, wish, rules)


def _away(partition: Partition, target: Replicas) -> PartitionTarget:
    """Returns the change that reassigns to `target`; the removed replicas stay until the added ones are in sync.

    If a reassignment is already in progress, it gets the new target. Kafka keeps a replica that is no longer wanted in
    both adding and removing, and the reassignment never completes; ours only removes it.
    """
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(partition.replicas)))
    kept = tuple(replica for replica in partition.adding_replicas if replica not in removing)
    replicas, adding, removing = (*target, *removing), adding or kept, removing or partition.removing_replicas
    assert set(adding).isdisjoint(removing) or not is_sound(partition), (partition, adding, removing)  # I-46
    assert set(replicas) == {*partition.replicas, *target}, (partition, target, replicas)
    assert len(set(replicas)) == len(replicas), (partition, target, replicas)
    return PartitionTarget(replicas=replicas, adding=adding, removing=removing)


def _back(name: str, partition_id: int, partition: Partition, book: Rulebook, rules: Rules) -> PartitionTarget:
    """Returns the change that cancels a reassignment: without the adding replicas, with the removing ones."""
    if not partition.is_reassigning:
        raise ApiError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"partition {name}-{partition_id} has no reassignment in progress"
        )
    coming = set(partition.adding_replicas)
    replicas = tuple(replica for replica in partition.replicas if replica not in coming)
    isr = tuple(replica for replica in partition.isr if replica not in coming)
    election = book.election(name)
    if not replicas:
        raise bad_assignment(
            name,
            f"the reassignment of partition {partition_id} cannot be cancelled: all its replicas are being added",
        )
    if not isr:
        # Only adding replicas are in sync. Going back without them loses records, which the topic must allow.
        if election is not Election.UNCLEAN:
            raise bad_assignment(
                name,
                f"the reassignment of partition {partition_id} cannot be cancelled: "
                f"none of {list(replicas)} is in the ISR, and unclean.leader.election.enable is false",
            )
        # The new leader has to recover; in Kafka the first replica counts as in sync, and leads as if it lacked
        # nothing. Only if no replica can lead, and the ISR may not be empty, the first replica is the ISR here, too.
        may_be_empty = rules.elr_enabled or any(map(rules.is_acceptable, replicas))
        isr = () if may_be_empty else replicas[:1]
    assert set(isr).issubset(replicas) or not is_sound(partition), (partition, isr, replicas)  # I-46
    wish = PartitionTarget(replicas=replicas, isr=isr, adding=(), removing=(), election=election)
    if election is not Election.UNCLEAN and not keeps_copies(partition, wish, rules):
        raise bad_assignment(
            name,
            f"the reassignment of partition {partition_id} cannot be cancelled yet: of {list(replicas)} only "
            f"{list(isr)} are in the ISR, and min.insync.replicas is {rules.min_isr}: "
            "start the others, or name other replicas in place of a cancel",
        )
    return wish


def _check_factor(name: str, partition_id: int, partition: Partition, target: Replicas) -> None:
    """Refuses another replication factor (KIP-860). During a reassignment the factor after its completion counts."""
    present = len({*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas))
    if len(target) != present:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"partition {name}-{partition_id} has {present} replicas and would have {len(target)}; "
            "allow_replication_factor_change is false",
        )
