"""CreateAcls (30): adds ALLOW and DENY entries; each entry succeeds or fails by itself. KIP-140, KIP-290, KIP-1276."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

from msgspec.structs import replace

from kraft import Message, Uuid
from kraft.api.create_acls import CreateAclsRequest, CreateAclsResponse
from quorate.authorizer import CLUSTER_NAME, fault_of_host, is_network
from quorate.controller.access.acl_filters import code_name
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import RELEASES
from quorate.nouns import ZERO_UUID
from quorate.records import AccessControlEntryRecord

__all__ = ["create_acls"]

_Asked: TypeAlias = CreateAclsRequest.AclCreation
_Result: TypeAlias = CreateAclsResponse.AclCreationResult

NETWORKS: Final = 32
"""The metadata.version from which a host may be a network (CIDR); an older broker would match nobody with it."""

_FOR_FILTERS: Final = frozenset({"UNKNOWN", "ANY", "MATCH"})
"""Enum names that are valid in filters only, not in an entry."""


def create_acls(request: CreateAclsRequest, *, new_acl_id: Callable[[], Uuid]) -> Command[CreateAclsResponse]:
    """Returns the command that adds the entries of `request`; an entry that exists is not written again.

    Each entry succeeds or fails by itself; the results are in the order of the request. `new_acl_id` returns a random
    id at each call; ids that are taken are skipped.
    """

    def command(state: ClusterState, _: Moment) -> Decision[CreateAclsResponse]:
        results: list[_Result] = []
        new: dict[AccessControlEntryRecord, None] = {}
        for asked in request.creations:
            try:
                entry = _entry(state, asked)
            except ApiError as refusal:
                results.append(_Result(error_code=int(refusal.code), error_message=refusal.message))
                continue
            results.append(_Result(error_message=""))
            if not state.acls.has(entry):
                new[entry] = None
        assert len(results) == len(request.creations), (len(results), len(request.creations))
        return Decision(CreateAclsResponse(results=tuple(results)), tuple(_with_ids(state, list(new), new_acl_id)))

    return command


def _entry(state: ClusterState, asked: _Asked) -> AccessControlEntryRecord:
    """Returns the requested entry, still without an id. Raises ApiError if it is invalid."""
    _check_resource(asked)
    _check_number("operation", AclOperation, asked.operation)
    _check_number("permission type", AclPermission, asked.permission_type)
    if ":" not in asked.principal:
        raise _invalid(f"principal {asked.principal!r} has no type; it is written as type:name, such as User:alice")
    _check_host(state, asked.host)
    return AccessControlEntryRecord(
        id=ZERO_UUID,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        pattern_type=asked.resource_pattern_type,
        principal=asked.principal,
        host=asked.host,
        operation=asked.operation,
        permission_type=asked.permission_type,
    )


def _check_resource(asked: _Asked) -> None:
    _check_number("resource type", ResourceType, asked.resource_type)
    _check_number("pattern type", PatternType, asked.resource_pattern_type)
    if asked.resource_type == ResourceType.CLUSTER and asked.resource_name != CLUSTER_NAME:
        raise _invalid(f"cluster {asked.resource_name!r}: the only name of the CLUSTER resource is {CLUSTER_NAME!r}")
    if not asked.resource_name:
        raise _invalid("the resource name is empty; '*' stands for all resources of a type")


def _check_number(thing: str, numbers: type[IntEnum], number: int) -> None:
    name = code_name(numbers, number)
    if name in _FOR_FILTERS:
        raise _invalid(f"{thing} {number} ({name}) is for filters only; an ACL cannot have it")


def _check_host(state: ClusterState, host: str) -> None:
    if is_network(host) and state.features.record_level < NETWORKS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"host {host!r} is a network, which needs metadata.version {RELEASES[NETWORKS]}; "
            f"the cluster is at {RELEASES[state.features.record_level]}",
        )
    fault = fault_of_host(host)
    if fault is not None:
        raise _invalid(fault)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _with_ids(
    state: ClusterState, entries: list[AccessControlEntryRecord], new_acl_id: Callable[[], Uuid]
) -> list[Message]:
    assert all(entry.id == ZERO_UUID for entry in entries), entries
    ids: dict[Uuid, None] = {}
    while len(ids) < len(entries):
        acl_id = new_acl_id()
        if acl_id != ZERO_UUID and state.acls.get(acl_id) is None:
            ids[acl_id] = None
    return [replace(entry, id=acl_id) for entry, acl_id in zip(entries, ids, strict=True)]
