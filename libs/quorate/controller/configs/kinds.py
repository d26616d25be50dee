"""Config resource types: how a resource of each type is named, whether it exists, and how changes are checked.

KIP-133.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.controller.configs import broker, client_metrics, group, topic
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.values import ValueType
from quorate.controller.topic_names import fault_of_name
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource
from quorate.metadata.configs import RESOURCE_TYPES as ALL_TYPES
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId

__all__ = ["RESOURCE_TYPES", "Change", "ResourceKind", "kind_of", "node_id_of", "said"]

_NODE_ID: Final = re.compile("0|[1-9][0-9]{0,9}")
_NODE_ID_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A config change of one resource, as its checks see it.

    `before` and `after` are all configs set on the resource, `given` those that the change sets, without deletions.
    """

    state: ClusterState
    settings: ControllerSettings
    resource: ConfigResource
    before: Mapping[str, str]
    given: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKind:
    """The rules for the configs of one resource type, such as topics. The checks raise ApiError."""

    noun: str
    check_name: Callable[[str], None]
    check_change: Callable[[Change], None]
    check_exists: Callable[[ClusterState, str], None]
    list_default: Callable[[str], str | None]
    """Returns the default of a list config by name; None for any other config."""


def kind_of(resource: ConfigResource) -> ResourceKind:
    """Returns the config rules of a resource's type. Raises ApiError.

    The code is UNSUPPORTED_VERSION for an unknown type number, and INVALID_REQUEST for broker loggers.
    """
    if resource.type == BROKER_LOGGER:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{said(resource)}: a logger's level is not in the metadata; only the node that logs can be asked",
        )
    kind = _KINDS.get(resource.type)
    if kind is None:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, f"there is no resource type {resource.type}; there are {sorted(_KINDS)}"
        )
    return kind


def said(resource: ConfigResource) -> str:
    """Returns the resource in words, for messages.

    >>> said(ConfigResource(TOPIC, "orders"))
    "topic 'orders'"
    """
    if resource.type == BROKER_LOGGER:
        return f"the loggers of {resource.name!r}"
    if resource == ConfigResource(BROKER, ""):
        return "the default of all brokers"
    kind = _KINDS.get(resource.type)
    return f"{'resource' if kind is None else kind.noun} {resource.name!r}"


def node_id_of(name: str) -> NodeId | None:
    """Returns the broker or controller id in a resource name; None for "", the default of all brokers.

    Raises ApiError(INVALID_REQUEST) if the name is not an id in its canonical form.
    """
    if not name:
        return None
    if not _NODE_ID.fullmatch(name) or int(name) > _NODE_ID_MAX:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{name!r} is no broker: brokers are named by their id, or not at all"
        )
    return int(name)


# Topics.


def _check_topic_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a topic without a name: topics have no common default to set")
    fault = fault_of_name(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


def _check_topic_change(change: Change) -> None:
    found = topic.faults(
        change.after, before=change.before, configs=change.state.configs, static=change.settings.static_configs
    )
    if found:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{said(change.resource)}: {'; '.join(found)}")


def _check_topic_exists(state: ClusterState, name: str) -> None:
    if state.topics.id_of(name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")


def _topic_list(name: str) -> str | None:
    config = topic.CONFIGS.get(name)
    return config.default if config is not None and config.values.type == ValueType.LIST else None


# Brokers, and controllers.


def _check_node_name(name: str) -> None:
    node_id_of(name)


def _check_broker_change(change: Change) -> None:
    """Checks a broker's config change.

    In Kafka the forwarding broker does this, with this error code, not the controller.
    """
    found = broker.faults(change.given, one_broker=bool(change.resource.name))
    if found:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{said(change.resource)}: {'; '.join(found)}")


def _check_node_exists(state: ClusterState, name: str) -> None:
    node_id = node_id_of(name)
    if node_id is not None and node_id not in state.brokers and node_id not in state.controllers:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"no broker and no controller {node_id} is registered")


def _broker_list(name: str) -> str | None:
    config = broker.config_of(name)
    if config is None or config.name != name or config.values.type != ValueType.LIST:
        return None
    return config.default or ""


# Client metrics subscriptions and groups: there are as many as have something set.


def _check_subscription_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a client metrics subscription without a name")


def _check_subscription_change(change: Change) -> None:
    try:
        client_metrics.check(change.after)
    except ApiError as refusal:
        raise ApiError(refusal.code, f"{said(change.resource)}: {refusal.message}") from None


def _check_group_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a group without a name: groups have no common default to set")


def _check_group_change(change: Change) -> None:
    found = group.faults(change.after, static=change.settings.static_configs)
    if found:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{said(change.resource)}: {'; '.join(found)}")


def _always_exists(_: ClusterState, __: str) -> None:
    """Accepts any name: such a resource exists as soon as one of its configs is set."""


def _no_list(_: str) -> str | None:
    """Returns None for every config: like Kafka's controller, APPEND and SUBTRACT support topics and brokers only."""
    return None


_KINDS: Final[Mapping[int, ResourceKind]] = {
    TOPIC: ResourceKind(
        noun="topic",
        check_name=_check_topic_name,
        check_change=_check_topic_change,
        check_exists=_check_topic_exists,
        list_default=_topic_list,
    ),
    BROKER: ResourceKind(
        noun="broker",
        check_name=_check_node_name,
        check_change=_check_broker_change,
        check_exists=_check_node_exists,
        list_default=_broker_list,
    ),
    CLIENT_METRICS: ResourceKind(
        noun="client metrics subscription",
        check_name=_check_subscription_name,
        check_change=_check_subscription_change,
        check_exists=_always_exists,
        list_default=_no_list,
    ),
    GROUP: ResourceKind(
        noun="group",
        check_name=_check_group_name,
        check_change=_check_group_change,
        check_exists=_always_exists,
        list_default=_no_list,
    ),
}
RESOURCE_TYPES: Final = _KINDS.keys()
"""The resource types that have configs in the metadata."""

assert RESOURCE_TYPES | {BROKER_LOGGER} == ALL_TYPES.keys(), (RESOURCE_TYPES, ALL_TYPES)
assert len({_kind.noun for _kind in _KINDS.values()}) == len(_KINDS), "a message says which is meant"
