"""DescribeAcls (29)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kraft.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from quorate.controller.commands.describe_acls import describe_acls
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.records import AccessControlEntryRecord as Entry
from tests.controller.acl_entries import ENTRIES, FILTERS, Filter, Meant, everything, five_entries
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.table import Row, Table

Resource = DescribeAclsResponse.DescribeAclsResource
Description = Resource.AclDescription
READ, WRITE = AclOperation.READ, AclOperation.WRITE
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


def one_topic() -> Cluster:
    """Topic t: User b may READ; User a may WRITE, READ from anywhere, may not READ from 10.0.0.1; none by its order."""
    cluster = Cluster(25)
    said = (("b", "*", READ, ALLOW), ("a", "*", WRITE, ALLOW), ("a", "10.0.0.1", READ, DENY), ("a", "*", READ, ALLOW))
    cluster.apply(
        Entry(uuid(9 - i), ResourceType.TOPIC, "t", PatternType.LITERAL, f"User:{user}", host, operation, permission)
        for i, (user, host, operation, permission) in enumerate(said)
    )
    return cluster


def starred() -> Cluster:
    """Topics *…, as a prefix: User a may READ."""
    cluster = Cluster(25)
    cluster.apply([Entry(uuid(1), ResourceType.TOPIC, "*", PatternType.PREFIXED, "User:a", "*", READ, ALLOW)])
    return cluster


def asked(wanted: Filter) -> DescribeAclsRequest:
    return msgspec.convert(wanted, DescribeAclsRequest, from_attributes=True)


def told(*resources: Resource) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_message="", resources=resources)


def resource(entry: Entry) -> Resource:
    """Of the five no two have one pattern."""
    description = Description(entry.principal, entry.host, entry.operation, entry.permission_type)
    return Resource(entry.resource_type, entry.resource_name, entry.pattern_type, (description,))


def row(meant: Meant) -> Row:
    """The entries that a filter means are listed; nothing is written."""
    entries: Sequence[Entry] = [ENTRIES[name] for name in meant.names]
    return Row(case=meant.case, rule=meant.rule, request=asked(meant.filter), answer=told(*map(resource, entries)))


def command(_: Cluster, request: DescribeAclsRequest) -> Command[Any]:
    return describe_acls(request)


INVALID = ErrorCode.INVALID_REQUEST
UNKNOWN = "DescribeAclsRequest.normalizeAndValidate: nothing is UNKNOWN."

TABLE = Table(
    api="DescribeAcls",
    kafka="StandardAuthorizer.acls, DescribeAclsResponse.aclsResources (KIP-140, KIP-290)",
    command=command,
    given=five_entries,
    rows=(
        *map(row, FILTERS),
        Row(
            case="several entries of one resource",
            rule="DescribeAclsResponse.aclsResources: a resource is told once, with all its entries.",
            given=one_topic,
            request=asked(everything()),
            answer=told(
                Resource(
                    ResourceType.TOPIC,
                    "t",
                    PatternType.LITERAL,
                    (
                        Description("User:a", "*", READ, ALLOW),
                        Description("User:a", "*", WRITE, ALLOW),
                        Description("User:a", "10.0.0.1", READ, DENY),
                        Description("User:b", "*", READ, ALLOW),
                    ),
                )
            ),
        ),
        Row(
            case="some entries of one resource",
            rule="DescribeAclsResponse.aclsResources: of a resource those that the filter means.",
            given=one_topic,
            request=asked(everything(principal_filter="User:a", permission_type=ALLOW)),
            answer=told(
                Resource(
                    ResourceType.TOPIC,
                    "t",
                    PatternType.LITERAL,
                    (Description("User:a", "*", READ, ALLOW), Description("User:a", "*", WRITE, ALLOW)),
                )
            ),
        ),
        Row(
            case="what covers a name, beside the wildcard as a prefix",
            rule="ResourcePatternFilter.matches: only the literal wildcard stands for all (KIP-290).",
            given=starred,
            request=asked(everything(resource_name_filter="orders", pattern_type_filter=PatternType.MATCH)),
            answer=told(),
        ),
        Row(
            case="the unknown resource type",
            rule=UNKNOWN,
            request=asked(everything(resource_type_filter=0)),
            answer=INVALID,
        ),
        Row(
            case="the unknown pattern type",
            rule=UNKNOWN,
            request=asked(everything(pattern_type_filter=0)),
            answer=INVALID,
        ),
        Row(case="the unknown operation", rule=UNKNOWN, request=asked(everything(operation=0)), answer=INVALID),
        Row(
            case="the unknown permission type",
            rule=UNKNOWN,
            request=asked(everything(permission_type=0)),
            answer=INVALID,
        ),
    ),
)
