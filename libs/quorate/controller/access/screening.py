"""Authorization item by item: removes from a request the items its caller may not use, and adds their refusals.

A refused item does not reach the command, so the answer reveals nothing about a resource that the caller may not see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from kraft.api.alter_configs import AlterConfigsResponse
from kraft.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraft.api.describe_configs import DescribeConfigsResponse
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsResponse
from quorate.authorizer import CLUSTER_NAME
from quorate.controller.engine.steps import Steps
from quorate.controller.refused_items import (
    CONFIGS_ALTERED,
    CONFIGS_DESCRIBED,
    PARTITIONS_CREATED,
    TOPICS_CREATED,
    TOPICS_DELETED,
    Items,
)
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, RESOURCE_TYPES, TOPIC
from quorate.metadata.state import ClusterState
from quorate.nouns import ZERO_UUID


class CallerRights(Protocol):
    """The rights of one caller, as a callable: whether this caller may do an operation on a resource."""

    def __call__(self, operation: AclOperation, kind: ResourceType, name: str, *, is_audited: bool = True) -> bool:
        """Returns whether the caller may do the operation on the resource.

        With `is_audited` False a denial is not audited, because it alone refuses nothing.
        """


class ScreenedRequest(NamedTuple):
    """The request with only its allowed items; `finish` returns the command's response with the refusals added."""

    asked: Any
    finish: Callable[[Any], Any]


Screen: TypeAlias = Callable[[CallerRights, Any, ClusterState], Steps[ScreenedRequest]]
"""Checks the items in steps, since a request may have 10,000 of them, and each refusal is a line of the audit log."""

_CONFIGURED: Final[Mapping[int, tuple[ResourceType, ErrorCode]]] = {
    TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    BROKER: (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    BROKER_LOGGER: (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    CLIENT_METRICS: (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
}
"""Resource type and error code of the right that a config resource needs, by its type; commands refuse other types."""

assert _CONFIGURED.keys() == RESOURCE_TYPES.keys(), "a type without a right could be altered by anybody"
for _type, _code in _CONFIGURED.values():
    assert _code.name == f"{_type.name}_AUTHORIZATION_FAILED", (_type, _code)


def create_topics(rights: CallerRights, asked: CreateTopicsRequest, _: ClusterState) -> Steps[ScreenedRequest]:
    """Refuses the topics that the caller may not create: it needs CREATE on the cluster or on the topic.

    Without DESCRIBE_CONFIGS on a created topic its configs and counts are taken out of the response (KIP-525). A topic
    that is named twice is left to the command, which refuses it for every caller.
    """
    once = _once([topic.name for topic in asked.topics])
    may_create = rights(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, is_audited=False)
    closed = set()
    result = CreateTopicsResponse.CreatableTopicResult

    def refusal_of(topic: CreateTopicsRequest.CreatableTopic) -> CreateTopicsResponse.CreatableTopicResult | None:
        name = topic.name
        if not rights(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, is_audited=False):
            closed.add(name)
        if may_create or name not in once or rights(AclOperation.CREATE, ResourceType.TOPIC, name):
            return None
        return result(
            name=name, error_code=_TOPIC_REFUSED, error_message=_not_allowed(AclOperation.CREATE, f"topic {name!r}")
        )

    left, refusals = yield from TOPICS_CREATED.taking_out(asked, refusal_of)

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        shown = [
            _closed(topic) if topic.name in closed and not topic.error_code else topic for topic in response.topics
        ]
        return TOPICS_CREATED.put_back(replace(response, topics=tuple(shown)), refusals)

    return ScreenedRequest(left, finish)


def _closed(topic: CreateTopicsResponse.CreatableTopicResult) -> CreateTopicsResponse.CreatableTopicResult:
    """Returns a created topic's result without its configs, partition count and replication factor."""
    return replace(topic, topic_config_error_code=_TOPIC_REFUSED, num_partitions=-1, replication_factor=-1, configs=())


def create_partitions(rights: CallerRights, asked: CreatePartitionsRequest, _: ClusterState) -> Steps[ScreenedRequest]:
    """Refuses the topics on which the caller lacks ALTER; one that is named twice is left to the command."""
    once = _once([topic.name for topic in asked.topics])
    result = CreatePartitionsResponse.CreatePartitionsTopicResult

    def refusal_of(
        topic: CreatePartitionsRequest.CreatePartitionsTopic,
    ) -> CreatePartitionsResponse.CreatePartitionsTopicResult | None:
        if topic.name not in once or rights(AclOperation.ALTER, ResourceType.TOPIC, topic.name):
            return None
        return result(topic.name, _TOPIC_REFUSED, _not_allowed(AclOperation.ALTER, f"topic {topic.name!r}"))

    return (yield from _screened(PARTITIONS_CREATED, asked, refusal_of))


def delete_topics(rights: CallerRights, asked: DeleteTopicsRequest, state: ClusterState) -> Steps[ScreenedRequest]:
    """Refuses the topics that the caller may not delete: it needs DELETE on the cluster or on the topic.

    Without DESCRIBE on a topic the refusal does not reveal whether it exists, nor the name that belongs to its id.
    """
    if rights(AclOperation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, is_audited=False):
        return ScreenedRequest(asked, _as_it_is)
    return (yield from _screened(TOPICS_DELETED, asked, lambda each: _not_deleted(rights, each, state)))


def _not_deleted(
    rights: CallerRights, each: DeleteTopicsRequest.DeleteTopicState | str, state: ClusterState
) -> DeleteTopicsResponse.DeletableTopicResult | None:
    if isinstance(each, str):
        each = DeleteTopicsRequest.DeleteTopicState(name=each)
    by_id = state.topics.by_id(each.topic_id) if each.topic_id != ZERO_UUID else None
    name = each.name if by_id is None else by_id.name
    if name is None:
        return None  # no such topic id: the command answers so, which reveals nothing, as ids cannot be guessed
    seen = rights(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    exists = by_id is not None or state.topics.by_name(name) is not None
    if rights(AclOperation.DELETE, ResourceType.TOPIC, name) or (seen and not exists):
        return None
    return DeleteTopicsResponse.DeletableTopicResult(
        name=name if seen else each.name,
        topic_id=each.topic_id,
        error_code=_TOPIC_REFUSED,
        error_message=_not_allowed(AclOperation.DELETE, f"topic {name!r}" if seen else "the topic"),
    )


def _configs(operation: AclOperation, items: Items, result: Callable[..., Any]) -> Screen:
    """Needs `operation` on the topic or group of each resource, or on the cluster for all other resource types."""

    def screen(rights: CallerRights, asked: Any, _: ClusterState) -> Steps[ScreenedRequest]:
        def refusal_of(resource: Any) -> Any | None:
            kind, code = _CONFIGURED.get(resource.resource_type, (None, ErrorCode.NONE))
            name = CLUSTER_NAME if kind is ResourceType.CLUSTER else resource.resource_name
            if kind is None or rights(operation, kind, name):
                return None
            return result(
                error_code=int(code),
                error_message=_not_allowed(operation, f"{kind.name.lower()} {name!r}"),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )

        return (yield from _screened(items, asked, refusal_of))

    return screen


def _screened(items: Items, asked: Any, refusal_of: Callable[[Any], Any | None]) -> Steps[ScreenedRequest]:
    left, refusals = yield from items.taking_out(asked, refusal_of)
    return ScreenedRequest(left, lambda response: items.put_back(response, refusals))


alter_configs: Final = _configs(
    AclOperation.ALTER_CONFIGS, CONFIGS_ALTERED, AlterConfigsResponse.AlterConfigsResourceResponse
)
describe_configs: Final = _configs(
    AclOperation.DESCRIBE_CONFIGS, CONFIGS_DESCRIBED, DescribeConfigsResponse.DescribeConfigsResult
)
incremental_alter_configs: Final = _configs(
    AclOperation.ALTER_CONFIGS, CONFIGS_ALTERED, IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
)

_TOPIC_REFUSED: Final = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _once(names: list[str]) -> set[str]:
    """Returns the names that occur once; the command refuses a duplicate for every caller, so it needs no check."""
    return {name for name, count in Counter(names).items() if count == 1}


def _not_allowed(operation: AclOperation, resource: str) -> str:
    return f"{operation.name} on {resource} is required; the caller does not have it"


def _as_it_is(response: Any) -> Any:
    return response
