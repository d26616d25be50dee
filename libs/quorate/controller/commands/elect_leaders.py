"""ElectLeaders (43): runs preferred or unclean leader elections at an operator's request. KIP-460."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, TypeAlias

from kraft.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, check_room
from quorate.controller.engine.steps import ITEMS_PER_STEP, Steps
from quorate.controller.partitions.broker_changes import Rulebook
from quorate.controller.partitions.elections import Election
from quorate.controller.partitions.partition_change import PartitionTarget, partition_change
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.records import PartitionChangeRecord

__all__ = ["elect_leaders"]

_ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}
"""The election types by Kafka's number."""

_Result: TypeAlias = ElectLeadersResponse.ReplicaElectionResult
_PartitionResult: TypeAlias = ElectLeadersResponse.ReplicaElectionResult.PartitionResult


def elect_leaders(request: ElectLeadersRequest, *, settings: ControllerSettings) -> Command[ElectLeadersResponse]:
    """Returns the command that elects leaders for the partitions of `request`; null `topic_partitions` means all.

    Each partition succeeds or fails by itself. If all are meant, the response has every topic, but only the partitions
    that needed an election. The command raises ApiError: INVALID_REQUEST for an unknown election type, POLICY_VIOLATION
    for more than `RECORDS_PER_WRITE_MAX` elections.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[ElectLeadersResponse]]:
        election = _ELECTIONS.get(request.election_type)
        if election is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"election_type {request.election_type} is none of {list(_ELECTIONS)} (preferred, unclean)",
                {"field": "election_type"},
            )
        book = Rulebook(state, settings)
        records: list[PartitionChangeRecord] = []
        results = []
        decided_count = 0
        for name, partition_ids in _asked(state, request, election):
            partition_results = []
            for partition_id in partition_ids:
                if decided_count and decided_count % ITEMS_PER_STEP == 0:
                    yield
                decided_count += 1
                try:
                    records += _elect(state, name, partition_id, election, book)
                except ApiError as refusal:
                    partition_results.append(_PartitionResult(partition_id, int(refusal.code), refusal.message))
                else:
                    partition_results.append(_PartitionResult(partition_id, error_message=None))
                    check_room(records)
            assert len(partition_results) == len(partition_ids), (name, partition_ids, partition_results)
            results.append(_Result(topic=name, partition_result=tuple(partition_results)))
        granted = sum(not each.error_code for result in results for each in result.partition_result)
        assert len(records) == granted, (len(records), granted)
        response = ElectLeadersResponse(replica_election_results=tuple(results))
        return Decision(response, tuple(records))

    return command


def _asked(
    state: ClusterState, request: ElectLeadersRequest, election: Election
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields each topic's name and partitions: those named, or if none are, all that need an election."""
    if request.topic_partitions is None:
        in_need = defaultdict(list)
        for topic, partition_id, partition in state.topics.imbalanced():
            if not _is_content(partition, election):
                in_need[topic.id].append(partition_id)
        for topic in sorted(state.topics, key=lambda topic: topic.name):
            yield topic.name, tuple(sorted(in_need[topic.id]))
    else:
        for asked in request.topic_partitions:
            yield asked.topic, asked.partitions


def _elect(
    state: ClusterState, name: str, partition_id: int, election: Election, book: Rulebook
) -> tuple[PartitionChangeRecord, ...]:
    topic, partition = _find(state, name, partition_id)
    if _is_content(partition, election):
        raise ApiError(
            ErrorCode.ELECTION_NOT_NEEDED, f"partition {name}-{partition_id}: broker {partition.leader} leads already"
        )
    rules = book.rules(name, partition)
    change = partition_change(partition, topic.id, partition_id, PartitionTarget(election=election), rules)
    if change is None:
        raise _nobody(name, partition_id, partition, election)
    return (change,)


def _find(state: ClusterState, name: str, partition_id: int) -> tuple[Topic, Partition]:
    topic = state.topics.by_name(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    partition = topic.partitions.get(partition_id)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} has no partition {partition_id}")
    return topic, partition


def _is_content(partition: Partition, election: Election) -> bool:
    """Returns whether no election is needed. Unclean election is for partitions without a leader."""
    if election is Election.PREFERRED:
        return partition.leader == partition.preferred_leader
    return partition.has_leader


def _nobody(name: str, partition_id: int, partition: Partition, election: Election) -> ApiError:
    if election is Election.PREFERRED:
        return ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"partition {name}-{partition_id}: the preferred leader, broker {partition.preferred_leader}, "
            "is not in the ISR or not online",
        )
    return ApiError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        f"partition {name}-{partition_id}: none of the replicas {list(partition.replicas)} is online and may lead",
    )
