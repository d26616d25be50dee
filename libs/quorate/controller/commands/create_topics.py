"""CreateTopics (19): creates topics; each topic succeeds or fails by itself. KIP-4, KIP-464, KIP-525.

The driver asks `wanted_placements` which topics need a placement, and passes the placer's answers to `create_topics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from kraft import Message, Uuid
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.topic import MIN_INSYNC_REPLICAS, Items, all_effective, faults
from quorate.controller.configs.values import VALUE_CHARS_MAX, is_too_long
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
from quorate.controller.policies import AlterConfigPolicy, ConfigChange, NewTopic
from quorate.controller.topic_names import fault_of_name
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import BROKER, TOPIC, ConfigResource
from quorate.metadata.state import ClusterState
from quorate.nouns import METADATA_TOPIC
from quorate.placement import PlacementSpec, Replicas
from quorate.records import ClearElrRecord, ConfigRecord, TopicRecord
from quorate.wire.shared import Shared

__all__ = ["create_topics", "wanted_placements"]

_Topic: TypeAlias = CreateTopicsRequest.CreatableTopic
_Result: TypeAlias = CreateTopicsResponse.CreatableTopicResult
_Config: TypeAlias = CreateTopicsResponse.CreatableTopicResult.CreatableTopicConfigs


class _New(NamedTuple):
    """A topic to create: its id, the replicas of each partition, its own configs."""

    name: str
    id: Uuid
    replicas: tuple[Replicas, ...]
    configs: Mapping[str, str]


def create_topics(
    request: CreateTopicsRequest,
    *,
    placements: Placements,
    new_topic_id: Callable[[], Uuid],
    settings: ControllerSettings,
) -> Command[CreateTopicsResponse]:
    """Returns the command that creates the topics of `request`. Each topic succeeds or fails by itself.

    `placements` has what the placer said to each topic of `wanted_placements`. `new_topic_id` returns a random id at
    each call; ids that are taken or reserved are skipped. With `validate_only` nothing is written.

    The command raises ApiError: POLICY_VIOLATION for more than `PARTITIONS_PER_REQUEST_MAX` partitions in all;
    StalePlacement if the placer has to be asked again.
    """

    twice = _asked_twice(request)
    asked = _asked(request, twice)

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[CreateTopicsResponse]]:
        refused = yield from _check(state, asked, settings, policy=settings.alter_config_policy)
        results: dict[str, _Result] = {}
        records: list[Message] = []
        firsts, defaults = FirstRecords(state), _defaults(state, settings)
        for some in slices(asked):
            if results:
                yield
            for topic in some:
                try:
                    new = _choose(state, topic, refused, placements, new_topic_id, settings)
                except StalePlacement:
                    raise
                except ApiError as refusal:
                    results[topic.name] = _refusal(topic.name, refusal)
                    continue
                assert topic.name not in results, f"decided twice: {topic.name}"
                records += _records(state, new, firsts)
                results[topic.name] = _created(new, defaults)
        assert len(results) == len(asked), (len(results), len(asked))
        last = (*_refused_twice(twice), *_refused_ours(request, twice))
        response = CreateTopicsResponse(topics=(*results.values(), *last))
        decision = Decision(response, tuple(records))
        return dry(decision) if request.validate_only else decision

    return command


def wanted_placements(
    state: ClusterState, request: CreateTopicsRequest, settings: ControllerSettings
) -> tuple[tuple[str, PlacementSpec], ...]:
    """Returns (topic name, what to ask the placer) for the topics of `request`, in its order.

    Topics that have assigned replicas, are named twice, exist already, or ask for an impossible number of partitions or
    replicas are left out. The other checks are made once, by the command: a placement that it does not use costs less
    than to check each topic twice.

    Raises ApiError(POLICY_VIOLATION) for more than `PARTITIONS_PER_REQUEST_MAX` partitions in all.
    """
    asked = _asked(request, _asked_twice(request))
    _check_size(asked, settings)
    return tuple([(topic.name, _spec(topic, settings)) for topic in asked if _needs_placement(state, topic)])


def _needs_placement(state: ClusterState, topic: _Topic) -> bool:
    is_possible = _is_count(topic.num_partitions) and _is_count(topic.replication_factor)
    return is_possible and not topic.assignments and state.topics.id_of(topic.name) is None


# Check.


def _check(
    state: ClusterState,
    asked: Sequence[_Topic],
    settings: ControllerSettings,
    *,
    policy: AlterConfigPolicy | None = None,
) -> Steps[dict[str, ApiError]]:
    """Returns the errors of refused topics by name, before any placement; calls the config policy (KIP-133)."""
    _check_size(asked, settings)
    refused: dict[str, ApiError] = {}
    for place, some in enumerate(slices(asked)):
        if place:
            yield
        for topic in some:
            try:
                _check_topic(state, topic, settings, policy)
            except ApiError as refusal:
                refused[topic.name] = refusal.as_value()
    return refused


def _check_topic(
    state: ClusterState, topic: _Topic, settings: ControllerSettings, policy: AlterConfigPolicy | None
) -> None:
    _check_name(state, topic.name)
    _check_configs(state, topic, settings)
    if policy is not None and topic.configs:
        policy.validate(ConfigChange(resource=ConfigResource(TOPIC, topic.name), configs=_configs(topic)))
    if topic.assignments:
        _check_assignments(state, topic)
    else:
        _check_counts(topic)


def _check_size(asked: Sequence[_Topic], settings: ControllerSettings) -> None:
    count = sum([len(topic.assignments) or max(0, _partition_count(topic, settings)) for topic in asked])
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request has {count} partitions; one request has at most {PARTITIONS_PER_REQUEST_MAX}",
        )


def _check_name(state: ClusterState, name: str) -> None:
    if state.topics.id_of(name) is not None:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists")
    fault = fault_of_name(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    alike = state.topics.alike(name)
    if alike:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} would be mixed up with topic {alike[0]!r} in metrics, where '.' and '_' are the same",
        )


def _check_configs(state: ClusterState, topic: _Topic, settings: ControllerSettings) -> None:
    without = [config.name for config in topic.configs if config.value is None]
    if without:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"topic {topic.name!r}: no value for {', '.join(without)}; a config of a new topic cannot be null",
        )
    too_long = [config.name for config in topic.configs if config.value is not None and is_too_long(config.value)]
    if too_long:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"topic {topic.name!r}: {', '.join(too_long)} has a value of more than {VALUE_CHARS_MAX} characters",
        )
    found = faults(_configs(topic), configs=state.configs, static=settings.static_configs)
    if found:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"topic {topic.name!r}: {'; '.join(found)}")


def _is_count(count: int) -> bool:
    """Whether it may be asked for: -1 is the default."""
    return count > 0 or count == -1


def _check_counts(topic: _Topic) -> None:
    if not _is_count(topic.replication_factor):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"topic {topic.name!r}: a replication factor of {topic.replication_factor} is not possible; "
            "it must be above 0, or -1 for the default",
        )
    if not _is_count(topic.num_partitions):
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name!r}: {topic.num_partitions} partitions are not possible; "
            "there must be at least one, or -1 for the default",
        )


def _check_assignments(state: ClusterState, topic: _Topic) -> None:
    for field, value in (("replication factor", topic.replication_factor), ("partition count", topic.num_partitions)):
        if value != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"topic {topic.name!r}: replicas are assigned by hand, so the {field} must be -1, not {value}",
            )
    seen: dict[int, Replicas] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in seen:
            raise bad_assignment(topic.name, f"partition {assignment.partition_index} is assigned more than once")
        check_assigned(state, topic.name, assignment.partition_index, assignment.broker_ids)
        first = next(iter(seen.values()), assignment.broker_ids)
        if len(first) != len(assignment.broker_ids):
            raise bad_assignment(
                topic.name,
                f"partition {assignment.partition_index} has {len(assignment.broker_ids)} replicas and others have "
                f"{len(first)}; all partitions must have equally many",
            )
        seen[assignment.partition_index] = assignment.broker_ids
    if sorted(seen) != list(range(len(seen))):
        raise bad_assignment(
            topic.name, f"the partitions are {sorted(seen)}; they must be numbered from 0 on, without a gap"
        )


# Choose.


def _choose(
    state: ClusterState,
    topic: _Topic,
    refused: Mapping[str, ApiError],
    placements: Placements,
    new_topic_id: Callable[[], Uuid],
    settings: ControllerSettings,
) -> _New:
    if topic.name in refused:
        raise refused[topic.name]
    if topic.assignments:
        by_id = sorted(topic.assignments, key=lambda assignment: assignment.partition_index)
        assert by_id[-1].partition_index == len(by_id) - 1, topic  # `_check_assignments` has refused gaps
        replicas = tuple(assignment.broker_ids for assignment in by_id)
    else:
        replicas = placed(state, topic.name, placements, _spec(topic, settings))
    if settings.create_topic_policy is not None:
        settings.create_topic_policy.validate(_proposed(topic, replicas))
    assert len(set(map(len, replicas))) == 1, f"all partitions have equally many replicas: {topic.name}"
    return _New(topic.name, _unused_id(state, new_topic_id), replicas, _configs(topic))


def _proposed(topic: _Topic, replicas: tuple[Replicas, ...]) -> NewTopic:
    """Returns the new topic as the create topic policy sees it. KIP-108."""
    by_hand = bool(topic.assignments)
    return NewTopic(
        topic=topic.name,
        num_partitions=None if by_hand else len(replicas),
        replication_factor=None if by_hand else len(replicas[0]),
        replicas_assignments=dict(enumerate(replicas)) if by_hand else None,
        configs=_configs(topic),
    )


def _unused_id(state: ClusterState, new_topic_id: Callable[[], Uuid]) -> Uuid:
    while True:
        topic_id = new_topic_id()
        if state.topics.by_id(topic_id) is None and any(topic_id[:15]):
            return topic_id


# Records.


def _records(state: ClusterState, new: _New, firsts: FirstRecords) -> Iterator[Message]:
    """Yields the records of a new topic, its configs and its partitions, in Kafka's order."""
    yield TopicRecord(new.name, new.id)
    for name, value in new.configs.items():
        yield ConfigRecord(TOPIC, new.name, name, value)
    if state.features.elr_enabled and MIN_INSYNC_REPLICAS in new.configs:
        yield ClearElrRecord(new.name)  # The ELR is empty; Kafka writes it with any change of the config.
    yield from partition_records(firsts, new.id, new.replicas)


# Response.


def _defaults(state: ClusterState, settings: ControllerSettings) -> tuple[Items, Items]:
    """Returns the dynamic default configs of all brokers, and the controller's static configs."""
    return tuple(state.configs.of(BROKER, "").items()), tuple(settings.static_configs.items())


def _created(new: _New, defaults: tuple[Items, Items]) -> _Result:
    return _Result(
        name=new.name,
        topic_id=new.id,
        error_message=None,
        num_partitions=len(new.replicas),
        replication_factor=len(new.replicas[0]),
        configs=_described(tuple(new.configs.items()), *defaults),
    )


@lru_cache(maxsize=256)  # most topics have the same configs
def _described(topic: Items, cluster: Items, static: Items) -> Shared[_Config]:
    return Shared(
        _Config(name=name, value=each.value, config_source=int(each.source))
        for name, each in all_effective(topic, cluster, static).items()
    )


def _refusal(name: str, refusal: ApiError) -> _Result:
    return _Result(name=name, error_code=int(refusal.code), error_message=refusal.message)


def _refused_twice(twice: Mapping[str, int]) -> Iterator[_Result]:
    """Yields an error for each name that is in the request more than once, after the other results, as in Kafka."""
    for name, count in twice.items():
        yield _refusal(
            name,
            ApiError(
                ErrorCode.INVALID_REQUEST, f"topic {name!r} is in the request {count} times; it may be there once"
            ),
        )


def _refused_ours(request: CreateTopicsRequest, twice: Mapping[str, int]) -> Iterator[_Result]:
    """Yields the refusal of the metadata log's name, after all other results, as in Kafka."""
    if METADATA_TOPIC not in twice and any(topic.name == METADATA_TOPIC for topic in request.topics):
        why = f"{METADATA_TOPIC} is the metadata log; it cannot be created as a topic"
        yield _refusal(METADATA_TOPIC, ApiError(ErrorCode.INVALID_REQUEST, why))


# The request.


def _asked(request: CreateTopicsRequest, twice: Mapping[str, int]) -> list[_Topic]:
    """Returns the topics to check: those that are not named `twice`, except the metadata log."""
    return [topic for topic in request.topics if topic.name not in twice and topic.name != METADATA_TOPIC]


def _asked_twice(request: CreateTopicsRequest) -> Mapping[str, int]:
    """Returns the names that are in the request more than once, with their counts."""
    names = [topic.name for topic in request.topics]
    if len(set(names)) == len(names):
        return {}
    return {name: count for name, count in Counter(names).items() if count > 1}


def _partition_count(topic: _Topic, settings: ControllerSettings) -> int:
    return settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions


def _spec(topic: _Topic, settings: ControllerSettings) -> PlacementSpec:
    return PlacementSpec(
        partition_count=_partition_count(topic, settings),
        replication_factor=(
            settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
        ),
    )


def _configs(topic: _Topic) -> dict[str, str]:
    return {config.name: config.value for config in topic.configs if config.value is not None}
