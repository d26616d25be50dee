"""Takes out of a request what its caller may not ask for, and puts refusals into the answer.

What is refused here is not looked at any further: nothing is told of a resource that may not be seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from kraft.api.alter_configs import AlterConfigsResponse
from kraft.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraft.api.describe_configs import DescribeConfigsResponse
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsResponse
from quorate.authorizer import CLUSTER_NAME
from quorate.errors import ErrorCode
from quorate.metadata.acls import Operation, ResourceType
from quorate.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from quorate.metadata.state import ClusterState
from quorate.nouns import ZERO_UUID


class Rights(Protocol):
    """What a caller may do."""

    def __call__(self, operation: Operation, kind: ResourceType, name: str, *, is_told: bool = True) -> bool:
        """May it be done to the resource of this type and name? A denial is told in the audit log, unless it decides
        nothing by itself."""


class Screened(NamedTuple):
    """What is left of a request, and what has to be done to its response."""

    asked: Any
    finish: Callable[[Any], Any]


Screen: TypeAlias = Callable[[Rights, Any, ClusterState], Screened]

_CONFIGURED: Final[Mapping[int, tuple[ResourceType, ErrorCode]]] = {
    TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    BROKER: (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    BROKER_LOGGER: (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    CLIENT_METRICS: (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
}
"""Whose right is asked for by the type of a config's resource. Other types are refused by the command."""


def _create_topics(rights: Rights, asked: CreateTopicsRequest, _: ClusterState) -> Screened:
    """CREATE on the cluster, or on each topic; and what a topic's configs are takes DESCRIBE_CONFIGS (KIP-525)."""
    names = [topic.name for topic in asked.topics]
    refused = set()
    if not rights(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, is_told=False):
        refused = {name for name in _once(names) if not rights(Operation.CREATE, ResourceType.TOPIC, name)}
    closed = {name for name in names if not rights(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, is_told=False)}
    result = CreateTopicsResponse.CreatableTopicResult

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        told = [_closed(topic) if topic.name in closed and not topic.error_code else topic for topic in response.topics]
        refusals = [
            result(name=name, error_code=_TOPIC_REFUSED, error_message=_not_allowed(Operation.CREATE))
            for name in names
            if name in refused
        ]
        return replace(response, topics=(*told, *refusals))

    return Screened(replace(asked, topics=tuple(topic for topic in asked.topics if topic.name not in refused)), finish)


def _closed(topic: CreateTopicsResponse.CreatableTopicResult) -> CreateTopicsResponse.CreatableTopicResult:
    """Created, and that is all there is to be told."""
    return replace(topic, topic_config_error_code=_TOPIC_REFUSED, num_partitions=-1, replication_factor=-1, configs=())


def _create_partitions(rights: Rights, asked: CreatePartitionsRequest, _: ClusterState) -> Screened:
    names = [topic.name for topic in asked.topics]
    refused = {name for name in _once(names) if not rights(Operation.ALTER, ResourceType.TOPIC, name)}
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    refusals = tuple(result(name, _TOPIC_REFUSED, _not_allowed(Operation.ALTER)) for name in names if name in refused)
    return Screened(
        replace(asked, topics=tuple(topic for topic in asked.topics if topic.name not in refused)),
        lambda response: replace(response, results=(*response.results, *refusals)),
    )


def _delete_topics(rights: Rights, asked: DeleteTopicsRequest, state: ClusterState) -> Screened:
    """DELETE on the cluster, or on each topic. A topic that may not be seen is the same whether there is one or not."""
    if rights(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, is_told=False):
        return Screened(asked, _as_it_is)
    by_name = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in asked.topic_names]
    left, refusals = [], []
    for each in (*asked.topics, *by_name):
        refusal = _not_deleted(rights, each, state)
        if refusal is None:
            left.append(each)
        else:
            refusals.append(refusal)
    return Screened(
        replace(asked, topics=tuple(left), topic_names=()),
        lambda response: replace(response, responses=(*response.responses, *refusals)),
    )


def _not_deleted(
    rights: Rights, each: DeleteTopicsRequest.DeleteTopicState, state: ClusterState
) -> DeleteTopicsResponse.DeletableTopicResult | None:
    by_id = state.topics.by_id(each.topic_id) if each.topic_id != ZERO_UUID else None
    name = each.name if by_id is None else by_id.name
    if name is None:
        return None  # nobody can guess an id: there is no such topic
    seen = rights(Operation.DESCRIBE, ResourceType.TOPIC, name)
    exists = by_id is not None or state.topics.by_name(name) is not None
    if rights(Operation.DELETE, ResourceType.TOPIC, name) or (seen and not exists):
        return None
    return DeleteTopicsResponse.DeletableTopicResult(
        name=name if seen else each.name,
        topic_id=each.topic_id,
        error_code=_TOPIC_REFUSED,
        error_message=_not_allowed(Operation.DELETE),
    )


def _configs(
    rights: Rights, asked: Any, _: ClusterState, *, operation: Operation, items: str, result: Callable[..., Any]
) -> Screened:
    """The right to configure, on the topic or the group, or on the cluster for everything else."""
    left, refusals = [], []
    for resource in asked.resources:
        kind, code = _CONFIGURED.get(resource.resource_type, (None, ErrorCode.NONE))
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else resource.resource_name
        if kind is None or rights(operation, kind, name):
            left.append(resource)
            continue
        refusals.append(
            result(
                error_code=int(code),
                error_message=_not_allowed(operation),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return Screened(
        replace(asked, resources=tuple(left)),
        lambda response: replace(response, **{items: (*getattr(response, items), *refusals)}),
    )


SCREENS: Final[Mapping[str, Screen]] = {
    "AlterConfigs": partial(
        _configs,
        operation=Operation.ALTER_CONFIGS,
        items="responses",
        result=AlterConfigsResponse.AlterConfigsResourceResponse,
    ),
    "CreatePartitions": _create_partitions,
    "CreateTopics": _create_topics,
    "DeleteTopics": _delete_topics,
    "DescribeConfigs": partial(
        _configs,
        operation=Operation.DESCRIBE_CONFIGS,
        items="results",
        result=DescribeConfigsResponse.DescribeConfigsResult,
    ),
    "IncrementalAlterConfigs": partial(
        _configs,
        operation=Operation.ALTER_CONFIGS,
        items="responses",
        result=IncrementalAlterConfigsResponse.AlterConfigsResourceResponse,
    ),
}
"""By the RPC's name."""

_TOPIC_REFUSED: Final = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _once(names: list[str]) -> set[str]:
    """What is there twice is refused by the command, whoever asks, and told by its name alone."""
    return {name for name, count in Counter(names).items() if count == 1}


def _not_allowed(operation: Operation) -> str:
    return f"it takes {operation.name}, which the caller has not"


def _as_it_is(response: Any) -> Any:
    return response
