"""DescribeClientQuotas (48): lists the quotas of the entities that a filter matches, from committed state. KIP-546."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TypeAlias

from kraft.api.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.client_quotas import CLIENT_ID, IP, TYPES, USER, Entity
from quorate.metadata.state import ClusterState

__all__ = ["MatchType", "describe_client_quotas"]

_Component: TypeAlias = DescribeClientQuotasRequest.ComponentData
_Entry: TypeAlias = DescribeClientQuotasResponse.EntryData
_Part: TypeAlias = DescribeClientQuotasResponse.EntryData.EntityData
_Value: TypeAlias = DescribeClientQuotasResponse.EntryData.ValueData


class MatchType(IntEnum):
    """How a filter component matches an entity's name: exactly, the default entity, or any name or default."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def describe_client_quotas(request: DescribeClientQuotasRequest) -> Command[DescribeClientQuotasResponse]:
    """Returns the command that lists the matching entities and their quotas, sorted.

    A strict filter matches only entities without other parts. A filter without components matches all entities, a
    strict one none. The command raises ApiError: INVALID_REQUEST for a filter that makes no sense (a type twice, `ip`
    beside another, a match without its name), UNSUPPORTED_VERSION for an unknown entity type.
    """

    def command(state: ClusterState, _: Moment) -> Decision[DescribeClientQuotasResponse]:
        _check(request.components)
        entries = tuple(_described(state, entity) for entity in _matching(state, request))
        assert all(each.values for each in entries), f"an entity without a quota is in the table: {entries}"
        return Decision(DescribeClientQuotasResponse(error_message=None, entries=entries))

    return command


def _check(components: Iterable[_Component]) -> None:
    types: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("a component without an entity type")
        if kind in types:
            raise _invalid(f"the entity type {kind!r} is in the filter more than once")
        if kind not in TYPES:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"there is no entity type {kind!r}; there are {', '.join(sorted(TYPES))}",
            )
        _check_match(component)
        types.add(kind)
    if IP in types and len(types) > 1:
        raise _invalid(f"{IP} cannot be combined with {USER} or {CLIENT_ID}")


def _check_match(component: _Component) -> None:
    kind, match = component.entity_type, component.match
    if component.match_type not in tuple(MatchType):
        raise _invalid(f"{kind}: there is no match type {component.match_type}")
    match_type = MatchType(component.match_type)
    if match_type is MatchType.EXACT and match is None:
        raise _invalid(f"{kind}: match type {match_type.name} needs a name")
    if match_type is not MatchType.EXACT and match is not None:
        raise _invalid(f"{kind}: match type {match_type.name} must have no name, and has {match!r}")


def _matching(state: ClusterState, request: DescribeClientQuotasRequest) -> Iterator[Entity]:
    wanted = request.components
    for entity in state.client_quotas:
        if request.strict and len(entity) != len(wanted):
            continue
        parts = dict(entity)
        if all(_matches(parts, component) for component in wanted):
            yield entity


def _matches(parts: dict[str, str | None], component: _Component) -> bool:
    if component.entity_type not in parts:
        return False
    # With DEFAULT the filter's name is null, as is the name of a default entity.
    return component.match_type == MatchType.SPECIFIED or parts[component.entity_type] == component.match


def _described(state: ClusterState, entity: Entity) -> _Entry:
    values = state.client_quotas.of(entity)
    return _Entry(
        entity=tuple(_Part(kind, name) for kind, name in entity),
        values=tuple(_Value(key, values[key]) for key in sorted(values)),
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
