"""CreatePartitions (37): adds partitions to topics; each topic succeeds or fails by itself. KIP-195.

The driver asks `wanted_more` which topics need a placement, and passes the placer's answers to `create_partitions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from kraft import Message
from kraft.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, dry
from quorate.controller.engine.steps import Steps, slices
from quorate.controller.partitions.new_partitions import (
    PARTITIONS_PER_REQUEST_MAX,
    FirstRecords,
    Placements,
    StalePlacement,
    bad_assignment,
    check_assigned,
    partition_records,
    placed,
)
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.placement import PlacementSpec, Replicas

__all__ = ["create_partitions", "wanted_more"]

_Asked: TypeAlias = CreatePartitionsRequest.CreatePartitionsTopic
_Result: TypeAlias = CreatePartitionsResponse.CreatePartitionsTopicResult


def create_partitions(request: CreatePartitionsRequest, *, placements: Placements) -> Command[CreatePartitionsResponse]:
    """Returns the command that adds the partitions of `request`. Each topic succeeds or fails by itself.

    `placements` has what the placer said to each topic of `wanted_more`. With `validate_only` nothing is written. The
    command raises ApiError: POLICY_VIOLATION for more than `PARTITIONS_PER_REQUEST_MAX` new partitions in all;
    StalePlacement if the placer has to be asked again.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[CreatePartitionsResponse]]:
        _check_size(state, request)
        results: list[_Result] = []
        records: list[Message] = []
        for some in slices(_asked_once(request)):
            if results:
                yield
            for asked in some:
                before = len(records)
                try:
                    records += _more(state, asked, placements)
                except StalePlacement:
                    raise
                except ApiError as refusal:
                    assert len(records) == before, f"refused, and begun all the same: {asked}"
                    results.append(_refusal(asked.name, refusal))
                else:
                    results.append(_Result(name=asked.name))
        twice = tuple(_refused_twice(request))
        assert len(results) + len(twice) == len({asked.name for asked in request.topics}), (results, twice)
        response = CreatePartitionsResponse(results=(*results, *twice))
        decision = Decision(response, tuple(records))
        return dry(decision) if request.validate_only else decision

    return command


def wanted_more(state: ClusterState, request: CreatePartitionsRequest) -> tuple[tuple[str, PlacementSpec], ...]:
    """Returns (topic name, what to ask the placer) for the topics of `request`, in its order.

    Topics that `create_partitions` will refuse, or that have assigned replicas, are left out. Raises
    ApiError(POLICY_VIOLATION) for more than `PARTITIONS_PER_REQUEST_MAX` new partitions in all.
    """
    _check_size(state, request)
    wanted = []
    for asked in _asked_once(request):
        if asked.assignments is not None:
            continue
        try:
            wanted.append((asked.name, _spec(_grown(state, asked), asked)))
        except ApiError:
            continue  # the command returns the error
    assert len({name for name, _ in wanted}) == len(wanted), f"placements are found by name: {wanted}"
    return tuple(wanted)


def _check_size(state: ClusterState, request: CreatePartitionsRequest) -> None:
    count = sum(max(0, asked.count - _present(state, asked.name)) for asked in _asked_once(request))
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request has {count} new partitions; one request has at most {PARTITIONS_PER_REQUEST_MAX}",
        )


def _present(state: ClusterState, name: str) -> int:
    topic = state.topics.by_name(name)
    return 0 if topic is None else len(topic.partitions)


def _grown(state: ClusterState, asked: _Asked) -> Topic:
    """Returns the topic. Raises ApiError if it does not exist or already has as many partitions as requested."""
    topic = state.topics.by_name(asked.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name!r}")
    present = len(topic.partitions)
    if asked.count <= present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {asked.name!r} has {present} partitions; a count of {asked.count} adds none, "
            "and partitions cannot be removed",
        )
    return topic


def _spec(topic: Topic, asked: _Asked) -> PlacementSpec:
    """Returns the placement request for the new partitions, with the replication factor of partition 0."""
    present = len(topic.partitions)
    assert asked.count > present, (asked, present)  # `_grown` has refused the others
    return PlacementSpec(
        start_partition=present,
        partition_count=asked.count - present,
        replication_factor=len(topic.partitions[0].replicas),
    )


def _more(state: ClusterState, asked: _Asked, placements: Placements) -> Iterator[Message]:
    topic = _grown(state, asked)
    spec = _spec(topic, asked)
    if asked.assignments is None:
        replicas = placed(state, asked.name, placements, spec)
    else:
        replicas = _assigned(state, asked, spec)
    assert len(replicas) == spec.partition_count, (asked, spec, len(replicas))
    return partition_records(FirstRecords(state), topic.id, replicas, first_id=spec.start_partition)


def _assigned(state: ClusterState, asked: _Asked, spec: PlacementSpec) -> tuple[Replicas, ...]:
    assert asked.assignments is not None, asked
    replicas = tuple(assignment.broker_ids for assignment in asked.assignments)
    if len(replicas) != spec.partition_count:
        raise bad_assignment(
            asked.name,
            f"{spec.partition_count} partitions are to be added, and replicas are assigned to {len(replicas)}",
        )
    for partition_id, brokers in zip(spec.partition_ids, replicas, strict=True):
        check_assigned(state, asked.name, partition_id, brokers)
        if len(brokers) != spec.replication_factor:
            raise bad_assignment(
                asked.name,
                f"partition {partition_id} has {len(brokers)} replicas and others have {spec.replication_factor}; "
                "all partitions must have equally many",
            )
    return replicas


def _asked_once(request: CreatePartitionsRequest) -> list[_Asked]:
    counts = Counter(asked.name for asked in request.topics)
    return [asked for asked in request.topics if counts[asked.name] == 1]


def _refused_twice(request: CreatePartitionsRequest) -> Iterator[_Result]:
    for name, count in Counter(asked.name for asked in request.topics).items():
        if count > 1:
            refusal = ApiError(ErrorCode.INVALID_REQUEST, f"topic {name!r} is in the request {count} times")
            yield _refusal(name, refusal)


def _refusal(name: str, refusal: ApiError) -> _Result:
    return _Result(name=name, error_code=int(refusal.code), error_message=refusal.message)
