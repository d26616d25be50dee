"""DescribeConfigs (32): returns the configs of resources with their effective values. KIP-133, KIP-226, KIP-569.

In Kafka a controller describes the configs of one node, its own; here any controller describes every broker, too, from
the state. Another controller's are that one's to describe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from kraft.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from quorate.controller.configs import broker, client_metrics, group, topic
from quorate.controller.configs.broker import Scope
from quorate.controller.configs.broker_file import FILE_ONLY, INTERNAL, NODE_IDS, NODES_OWN
from quorate.controller.configs.kinds import RESOURCE_TYPES, kind_of, node_id_of, said
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.values import Set, Source, ValueType
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment
from quorate.controller.engine.steps import Steps
from quorate.controller.secrets import PUBLIC, is_secret
from quorate.controller.topic_names import fault_of_name
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource
from quorate.metadata.state import ClusterState
from quorate.nouns import NOBODY, NodeId

__all__ = ["describe_configs"]

_Asked: TypeAlias = DescribeConfigsRequest.DescribeConfigsResource
_Result: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult
_Config: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
_Synonym: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult.DescribeConfigsSynonym

CONFIGS_MAX: Final = 500_000
"""The most configs that one request reads: enough for 10,000 topics, which have some 40 each."""
CONFIGS_PER_STEP: Final = 1_000
"""The configs that are read in one step: some 6 ms of CPU."""
RESOURCES_AT_ONCE: Final = 10
"""The resources that are read in a single step; a broker has some 350 configs."""
assert CONFIGS_PER_STEP < CONFIGS_MAX, (CONFIGS_PER_STEP, CONFIGS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One config: its effective value and where it is set, most specific first; `sets` is empty for a default."""

    name: str
    value: str | None
    sets: tuple[Set, ...]
    type: ValueType
    read_only: bool = False


def describe_configs(
    request: DescribeConfigsRequest, *, settings: ControllerSettings
) -> Command[DescribeConfigsResponse]:
    """Returns the command that reads the configs of each resource of `request`; the values of secrets are left out.

    The response has no documentation texts. A broker's own properties file is unknown: the controllers' file stands for
    it. As in Kafka, a resource that is named twice is answered twice. Each resource succeeds or fails by itself. The
    command raises ApiError(POLICY_VIOLATION) if the resources have more than `CONFIGS_MAX` configs together.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[DescribeConfigsResponse]]:
        results: list[_Result] = []
        config_count = since_step = 0
        for asked in request.resources:
            result, read_count = _described(state, asked, request.include_synonyms, settings)
            results.append(result)
            config_count += read_count
            if config_count > CONFIGS_MAX:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"the resources have {config_count} configs or more; one request reads at most {CONFIGS_MAX}",
                )
            since_step += 1 + read_count
            if since_step >= CONFIGS_PER_STEP:
                since_step = 0
                yield
        assert len(results) == len(request.resources), (len(results), len(request.resources))
        return Decision(DescribeConfigsResponse(results=tuple(results)))

    # A read in steps takes its turn among the writes; few resources are read at once, and need not wait for a write.
    return command if len(request.resources) > RESOURCES_AT_ONCE else command.__call__


def _described(
    state: ClusterState, asked: _Asked, include_synonyms: bool, settings: ControllerSettings
) -> tuple[_Result, int]:
    """Returns the result of one resource, and how many configs were read for it."""
    resource = ConfigResource(asked.resource_type, asked.resource_name)
    try:
        _check(state, resource, settings)
    except ApiError as refusal:
        return _Result(int(refusal.code), refusal.message, resource.type, resource.name), 0
    entries = list(_ENTRIES[resource.type](state, resource.name, settings))
    assert len({each.name for each in entries}) == len(entries), (resource, [each.name for each in entries])
    wanted = frozenset(asked.configuration_keys or ())
    configs = tuple(
        _config(each, include_synonyms=include_synonyms, sensitive=is_secret(resource.type, each.name))
        for each in entries
        if not wanted or each.name in wanted
    )
    return _Result(0, "", resource.type, resource.name, configs), len(entries)


def _check_answers(state: ClusterState, resource: ConfigResource, settings: ControllerSettings) -> None:
    """Raises ApiError(INVALID_REQUEST) for another controller: its file is its own, as in Kafka."""
    node_id = node_id_of(resource.name) if resource.type == BROKER else None
    if node_id is None or node_id in state.brokers or settings.node_id == NOBODY:
        return
    raise ApiError(
        ErrorCode.INVALID_REQUEST,
        f"{said(resource)} is a controller, and describes its own configs; controller {settings.node_id} was asked",
    )


def _check(state: ClusterState, resource: ConfigResource, settings: ControllerSettings) -> None:
    if resource.type not in _ENTRIES:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{said(resource)} of type {resource.type}: described are the types {', '.join(map(str, _ENTRIES))}",
        )
    fault = fault_of_name(resource.name) if resource.type == TOPIC else None
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    kind = kind_of(resource)
    kind.check_name(resource.name)
    if resource != ConfigResource(BROKER, str(settings.node_id)):  # it knows of itself before it has registered
        kind.check_exists(state, resource.name)
        _check_answers(state, resource, settings)


def _config(entry: _Entry, *, include_synonyms: bool, sensitive: bool) -> _Config:
    synonyms = (_Synonym(each.name, None if sensitive else each.value, int(each.source)) for each in entry.sets)
    return _Config(
        name=entry.name,
        value=None if sensitive else entry.value,
        read_only=entry.read_only,
        config_source=int(entry.sets[0].source if entry.sets else Source.DEFAULT),
        is_sensitive=sensitive,
        synonyms=tuple(synonyms) if include_synonyms else (),
        config_type=int(entry.type),
        documentation=None,
    )


def _topic(state: ClusterState, name: str, settings: ControllerSettings) -> Iterator[_Entry]:
    own = state.configs.of(TOPIC, name)
    for each in sorted(topic.CONFIGS.keys() | own.keys()):
        config = topic.CONFIGS.get(each)
        if config is None:
            yield _unknown(Set(each, own[each], Source.TOPIC))
        elif each in own or not config.internal:
            yield _Entry(
                name=config.name,
                value=settings.effective(state, name, config.name).value,
                sets=tuple(topic.candidates(config, topic=own, configs=state.configs, static=settings.static_configs)),
                type=config.values.type,
            )


def _unknown(own: Set) -> _Entry:
    """Returns the entry of a config unknown to this version, set by a controller of another version, as Kafka does."""
    return _Entry(name=own.name, value=own.value, sets=(own,), type=ValueType.UNKNOWN)


def _broker(state: ClusterState, name: str, settings: ControllerSettings) -> Iterator[_Entry]:
    """Yields all configs of one broker, or for the default of all brokers (no name) only those that are set."""
    cluster, static = state.configs.of(BROKER, ""), settings.static_configs
    if not name:
        for each in sorted(cluster):
            yield _broker_entry(each, [Set(each, cluster[each], Source.CLUSTER)])
        return
    own = state.configs.of(BROKER, name)
    if name == str(settings.node_id):
        static = _with_ids(static, settings.node_id)
    else:  # the controllers' file stands for the broker's, but for what each node has for itself
        static = _with_ids({each: value for each, value in static.items() if each not in NODES_OWN}, node_id_of(name))
    known = (FILE_ONLY.keys() | broker.DYNAMIC.keys()) - INTERNAL - broker.QUOTAS
    for each in sorted(known | own.keys() | cluster.keys() | static.keys()):
        yield _broker_entry(each, broker.candidates(each, own=own, cluster=cluster, static=static))


def _with_ids(static: Mapping[str, str], node_id: NodeId | None) -> Mapping[str, str]:
    return {**static, **dict.fromkeys(NODE_IDS, str(node_id))}


def _broker_entry(name: str, sets: Iterable[Set]) -> _Entry:
    config, found = broker.config_of(name), tuple(sets)
    return _Entry(
        name=name,
        value=found[0].value if found else None,
        sets=found,
        type=ValueType.UNKNOWN if config is None else config.values.type,
        read_only=config is not None and config.scope == Scope.FILE,
    )


def _client_metrics(state: ClusterState, name: str, _: ControllerSettings) -> Iterator[_Entry]:
    own = state.configs.of(CLIENT_METRICS, name)
    for config in client_metrics.CONFIGS.values():
        yield _Entry(
            name=config.name,
            value=own.get(config.name, config.default),
            sets=tuple(client_metrics.candidates(config, own)),
            type=config.values.type,
        )


def _group(state: ClusterState, name: str, settings: ControllerSettings) -> Iterator[_Entry]:
    own, cluster = state.configs.of(GROUP, name), state.configs.of(BROKER, "")
    for each in sorted(group.CONFIGS.keys() | own.keys()):
        config = group.CONFIGS.get(each)
        if config is None:
            yield _unknown(Set(each, own[each], Source.GROUP))
        elif not config.internal or each in own:
            found = tuple(group.candidates(config, group=own, cluster=cluster, static=settings.static_configs))
            assert found[-1].source is not Source.GROUP, f"behind a group's own value is a broker's or Kafka's: {found}"
            yield _Entry(name=config.name, value=found[0].value, sets=found, type=config.values.type)


_ENTRIES: Final[Mapping[int, Callable[[ClusterState, str, ControllerSettings], Iterator[_Entry]]]] = {
    TOPIC: _topic,
    BROKER: _broker,
    CLIENT_METRICS: _client_metrics,
    GROUP: _group,
}
"""By resource type: a function that yields a resource's configs by name."""
assert _ENTRIES.keys() == RESOURCE_TYPES, "what can be altered can be described"
assert _ENTRIES.keys() == PUBLIC.keys(), "of what is described it is known which values are secret"
