"""DeleteAcls (31)."""

from __future__ import annotations

from typing import Any

from kraft.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from quorate.controller.commands.delete_acls import REMOVED_MAX, delete_acls
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.records import AccessControlEntryRecord as Entry
from quorate.records import RemoveAccessControlEntryRecord as Removed
from tests.controller.acl_entries import ENTRIES, FILTERS, Filter, Meant, everything, five_entries
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.table import Row, Table

Result = DeleteAclsResponse.DeleteAclsFilterResult
Match = Result.DeleteAclsMatchingAcl


def many(count: int) -> Cluster:
    cluster = Cluster(25)
    cluster.apply(
        Entry(
            uuid(i),
            ResourceType.TOPIC,
            f"t{i:05}",
            PatternType.LITERAL,
            "User:a",
            "*",
            AclOperation.READ,
            AclPermission.ALLOW,
        )
        for i in range(count)
    )
    return cluster


def one_too_many() -> Cluster:
    """User a: READ of 10,001 topics, one entry each."""
    return many(REMOVED_MAX + 1)


def no_entries() -> Cluster:
    """No entries."""
    return Cluster(25)


def asked(*filters: Filter) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=filters)


def gone(*names: str) -> tuple[Removed, ...]:
    return tuple(Removed(ENTRIES[name].id) for name in names)


def told(*results: Result) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=results)


def refused(code: ErrorCode) -> Result:
    return Result(error_code=code, error_message=None)


def matched(*names: str) -> Result:
    return Result(error_message=None, matching_acls=tuple(map(match, names)))


def match(name: str) -> Match:
    entry = ENTRIES[name]
    return Match(
        error_message=None,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def row(meant: Meant) -> Row:
    """The entries of one filter go, and are listed."""
    return Row(
        case=meant.case,
        rule=meant.rule,
        request=asked(meant.filter),
        records=gone(*meant.names),
        answer=told(matched(*meant.names)),
    )


def command(_: Cluster, request: DeleteAclsRequest) -> Command[Any]:
    return delete_acls(request)


INVALID = ErrorCode.INVALID_REQUEST
UNKNOWN = "AclControlManager.validateFilter: a number that has no name is that filter's error."

TABLE = Table(
    api="DeleteAcls",
    kafka="AclControlManager.deleteAcls (KIP-140, KIP-290)",
    command=command,
    given=five_entries,
    rows=(
        *map(row, FILTERS),
        Row(
            case="two filters that mean the same entry",
            rule="AclControlManager.deleteAcls: each filter tells all that it means, and an entry goes once.",
            request=asked(everything(resource_name_filter="ord"), everything(principal_filter="User:bob")),
            records=gone("ord", "ord*", "all"),
            answer=told(matched("ord", "ord*"), matched("all", "ord")),
        ),
        Row(
            case="no filter",
            rule="AclControlManager.deleteAcls: one result a filter.",
            request=asked(),
            answer=told(),
        ),
        Row(
            case="nothing is there",
            rule="AclControlManager.deleteAclsForFilter: what means nothing is no error.",
            given=no_entries,
            request=asked(everything()),
            answer=told(matched()),
        ),
        Row(
            case="an unknown resource type, and another filter",
            rule=UNKNOWN,
            request=asked(everything(resource_type_filter=0), everything(resource_type_filter=ResourceType.GROUP)),
            records=gone("group"),
            answer=told(refused(INVALID), matched("group")),
        ),
        Row(
            case="an unknown pattern type",
            rule=UNKNOWN,
            request=asked(everything(pattern_type_filter=5)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="an unknown operation",
            rule=UNKNOWN,
            request=asked(everything(operation=77)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="an unknown permission type",
            rule=UNKNOWN,
            request=asked(everything(permission_type=-1)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="more than one write holds",
            rule="AclControlManager.deleteAcls: 10,000 at most, and none goes.",
            given=one_too_many,
            request=asked(everything(), everything()),
            answer=INVALID,
        ),
    ),
)
