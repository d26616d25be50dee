"""ElectLeaders (43): an operator has leaders elected, preferred ones or at last any. KIP-460."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, TypeAlias

from kraft.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from quorate.controller.broker_changes import rules_for
from quorate.controller.decision import Command, Decision, Moment, check_room
from quorate.controller.elections import Election
from quorate.controller.partition_change import Wish, partition_change
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.records import PartitionChangeRecord

__all__ = ["elect_leaders"]

_ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}
"""Kafka's election types."""

_Result: TypeAlias = ElectLeadersResponse.ReplicaElectionResult
_PartitionResult: TypeAlias = ElectLeadersResponse.ReplicaElectionResult.PartitionResult


def elect_leaders(request: ElectLeadersRequest, *, settings: Settings) -> Command[ElectLeadersResponse]:
    """The command that elects leaders for the partitions of `request`, or for all where it names none.

    Each partition succeeds or fails by itself; of all, those that need no election are not told of, but every topic is.
    Raises ApiError: INVALID_REQUEST for an election type that there is not, POLICY_VIOLATION for too many elections.
    """

    def command(state: ClusterState, _: Moment) -> Decision[ElectLeadersResponse]:
        election = _ELECTIONS.get(request.election_type)
        if election is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"election_type {request.election_type} is none of {list(_ELECTIONS)} (preferred, unclean)",
                {"field": "election_type"},
            )
        records: list[PartitionChangeRecord] = []
        results = []
        for name, partition_ids in _asked(state, request, election):
            told = []
            for partition_id in partition_ids:
                try:
                    records += _elect(state, name, partition_id, election, settings)
                except ApiError as refusal:
                    told.append(_PartitionResult(partition_id, int(refusal.code), refusal.message))
                else:
                    told.append(_PartitionResult(partition_id, error_message=None))
                    check_room(records)
            results.append(_Result(topic=name, partition_result=tuple(told)))
        response = ElectLeadersResponse(replica_election_results=tuple(results))
        return Decision(response, tuple(records))

    return command


def _asked(
    state: ClusterState, request: ElectLeadersRequest, election: Election
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each topic by name, with its partitions that are named, or, where none are, with those that need an election."""
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
    state: ClusterState, name: str, partition_id: int, election: Election, settings: Settings
) -> tuple[PartitionChangeRecord, ...]:
    topic, partition = _find(state, name, partition_id)
    if _is_content(partition, election):
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {partition.leader} leads {name}-{partition_id} already")
    rules = rules_for(state, name, partition, settings)
    change = partition_change(partition, topic.id, partition_id, Wish(election=election), rules)
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
    """Is the leader the one that is wanted? Unclean election is for partitions that have none."""
    if election is Election.PREFERRED:
        return partition.leader == partition.preferred_leader
    return partition.has_leader


def _nobody(name: str, partition_id: int, partition: Partition, election: Election) -> ApiError:
    if election is Election.PREFERRED:
        return ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"broker {partition.preferred_leader} is preferred for {name}-{partition_id}, but not in sync or not there",
        )
    return ApiError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        f"no replica of {name}-{partition_id} is there: {list(partition.replicas)} are all fenced, gone or offline",
    )
