"""AlterClientQuotas (49): sets and removes quotas; each entity succeeds or fails by itself. KIP-546, KIP-599, KIP-612.

The driver resolves the host names that `wanted_hosts` returns, and passes those that resolve to `alter_client_quotas`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from ipaddress import ip_address
from typing import Final, TypeAlias

from kraft import Message
from kraft.api.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from quorate.controller.engine.decision import Command, Decision, Moment, dry
from quorate.controller.quotas.mutation_quotas import CONTROLLER_MUTATION_RATE
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.client_quotas import CLIENT_ID, IP, TYPES, USER, Entity, entity_of
from quorate.metadata.state import ClusterState
from quorate.records import ClientQuotaRecord

__all__ = ["alter_client_quotas", "wanted_hosts"]

_Asked: TypeAlias = AlterClientQuotasRequest.EntryData
_Op: TypeAlias = AlterClientQuotasRequest.EntryData.OpData
_Result: TypeAlias = AlterClientQuotasResponse.EntryData
_Part: TypeAlias = AlterClientQuotasResponse.EntryData.EntityData

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = float(2**63 - 1)

_OF_USERS_AND_CLIENTS: Final[Mapping[str, float | None]] = {
    "consumer_byte_rate": _LONG_MAX,
    "controller_mutation_rate": None,
    "producer_byte_rate": _LONG_MAX,
    "request_percentage": None,
}
"""The largest value of each user or client quota; None: any value, not only a whole number."""
_OF_ADDRESSES: Final[Mapping[str, float | None]] = {"connection_creation_rate": _INT_MAX}

assert _OF_ADDRESSES.keys().isdisjoint(_OF_USERS_AND_CLIENTS), (_OF_ADDRESSES, _OF_USERS_AND_CLIENTS)
assert CONTROLLER_MUTATION_RATE in _OF_USERS_AND_CLIENTS, "what this controller heeds can be set"

_NEAR_ENOUGH: Final = 1e-6
"""The rounding tolerance for whole numbers, sent as doubles.

As in Kafka, it applies from above only: 0.9999999 fails.
"""


def alter_client_quotas(
    request: AlterClientQuotasRequest, *, known_hosts: Collection[str] = ()
) -> Command[AlterClientQuotasResponse]:
    """Returns the command that sets and removes the quotas of `request`; unchanged quotas are not written again.

    `known_hosts` are those host names of `wanted_hosts(request)` that resolve: an `ip` entity with another one is
    refused. Each entity succeeds or fails by itself (INVALID_REQUEST). With `validate_only` nothing is written.
    """

    def command(state: ClusterState, _: Moment) -> Decision[AlterClientQuotasResponse]:
        counts = Counter(entity_of(asked.entity) for asked in request.entries)
        results: dict[Entity, _Result] = {}
        records: list[Message] = []
        for asked in request.entries:
            entity = entity_of(asked.entity)
            try:
                changes = _alter(state, entity, asked, counts, known_hosts)
                assert len(changes) <= len(asked.ops), (asked, changes)
                records += changes
            except ApiError as refusal:
                results[entity] = _Result(int(refusal.code), refusal.message, _parts(entity))
            else:
                assert entity not in results, f"decided twice: {entity}"
                results[entity] = _Result(0, None, _parts(entity))
        assert results.keys() == counts.keys(), (list(results), list(counts))
        decision = Decision(AlterClientQuotasResponse(entries=tuple(results.values())), tuple(records))
        return dry(decision) if request.validate_only else decision

    return command


def wanted_hosts(request: AlterClientQuotasRequest) -> frozenset[str]:
    """Returns the names of the `ip` entities of `request` that are no IP addresses. The caller is to resolve them.

    As in Kafka, such a name is valid if it resolves on the controller: see `known_hosts`.
    """
    return frozenset(
        part.entity_name
        for asked in request.entries
        for part in asked.entity
        if part.entity_type == IP and part.entity_name and not _is_address(part.entity_name)
    )


def _alter(
    state: ClusterState, entity: Entity, asked: _Asked, counts: Mapping[Entity, int], known_hosts: Collection[str]
) -> list[ClientQuotaRecord]:
    """Returns the records of one entity. Raises ApiError(INVALID_REQUEST), and then nothing of the entity changes."""
    _check_entity(entity, asked, known_hosts)
    if counts[entity] > 1:
        # Kafka writes the first of them, and answers with an error.
        raise _invalid(f"{_text(entity)} is in the request more than once")
    keys = [op.key for op in asked.ops]
    if len(keys) > len(set(keys)):
        raise _invalid(f"{_text(entity)}: a quota is in its changes more than once: {', '.join(sorted(keys))}")
    allowed = _OF_ADDRESSES if entity[0][0] == IP else _OF_USERS_AND_CLIENTS
    for op in asked.ops:
        if not op.remove:
            _check_value(entity, op, allowed)
    return list(_records(state, entity, asked))


def _check_entity(entity: Entity, asked: _Asked, known_hosts: Collection[str]) -> None:
    types = [part.entity_type for part in asked.entity]
    if not types:
        raise _invalid("the entity is empty; a quota is for a user, a client-id, both, or an ip")
    for kind, name in entity:
        if kind not in TYPES:
            raise _invalid(f"there is no entity type {kind!r}; there are {', '.join(sorted(TYPES))}")
        if name == "":
            raise _invalid(f"{_text(entity)}: a name must not be empty; that of the default is null")
    if len(types) > len(entity):
        raise _invalid(f"{_text(entity)}: an entity has each type at most once, and this one has {', '.join(types)}")
    if IP in types and len(types) > 1:
        raise _invalid(f"{_text(entity)}: {IP} cannot be combined with {USER} or {CLIENT_ID}")
    if IP in types:
        _check_address(entity[0][1], known_hosts)


def _check_address(name: str | None, known_hosts: Collection[str]) -> None:
    if name is not None and not _is_address(name) and name not in known_hosts:
        raise _invalid(f"{IP} {name!r} is no address, and no host that can be looked up")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _check_value(entity: Entity, op: _Op, allowed: Mapping[str, float | None]) -> None:
    what = f"{_text(entity)}: {op.key} {op.value:g}"
    if op.key not in allowed:
        raise _invalid(f"{_text(entity)} has no quota {op.key!r}; it has {', '.join(allowed)}")
    if not (math.isfinite(op.value) and op.value > 0):
        raise _invalid(f"{what} is not a finite number above 0")
    largest = allowed[op.key]
    if largest is None:
        return
    if op.value > largest:
        raise _invalid(f"{what} is above {largest:.0f}")
    if math.fmod(op.value, 1.0) > _NEAR_ENOUGH:
        raise _invalid(f"{what} is not a whole number")


def _records(state: ClusterState, entity: Entity, asked: _Asked) -> Iterator[ClientQuotaRecord]:
    present = state.client_quotas.of(entity)
    parts = tuple(ClientQuotaRecord.EntityData(kind, name) for kind, name in entity)
    for op in asked.ops:
        if op.remove and op.key in present:
            yield ClientQuotaRecord(entity=parts, key=op.key, remove=True)
        elif not op.remove and present.get(op.key) != op.value:
            yield ClientQuotaRecord(entity=parts, key=op.key, value=op.value)


def _parts(entity: Entity) -> tuple[_Part, ...]:
    return tuple(_Part(kind, name) for kind, name in entity)


def _text(entity: Entity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else repr(name)}" for kind, name in entity)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
