"""CreateAcls (30)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from kraft import Uuid
from kraft.api.create_acls import CreateAclsRequest, CreateAclsResponse
from quorate.controller.commands.create_acls import NETWORKS, create_acls
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.nouns import ZERO_UUID
from quorate.records import AccessControlEntryRecord as Entry
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.table import Row, Table

Asked = CreateAclsRequest.AclCreation
Result = CreateAclsResponse.AclCreationResult
CLUSTER = ResourceType.CLUSTER


def no_entries() -> Cluster:
    """No entries; 4.4-IV1."""
    return Cluster(NETWORKS)


def before_networks() -> Cluster:
    """No entries; 4.4-IV0."""
    return Cluster(NETWORKS - 1)


def one_entry() -> Cluster:
    """Alice may READ topic orders, by entry 1."""
    cluster = no_entries()
    cluster.apply([entry(1)])
    return cluster


def allowed(**changes: Any) -> Asked:
    """Alice may READ the topic orders, but for what is said."""
    return Asked(
        **{
            "resource_type": ResourceType.TOPIC,
            "resource_name": "orders",
            "resource_pattern_type": PatternType.LITERAL,
            "principal": "User:alice",
            "host": "*",
            "operation": AclOperation.READ,
            "permission_type": AclPermission.ALLOW,
            **changes,
        }
    )


def entry(number: int, **changes: Any) -> Entry:
    """The record of `allowed(**changes)`: the same values, and an id."""
    of = allowed(**changes)
    return Entry(
        uuid(number),
        of.resource_type,
        of.resource_name,
        of.resource_pattern_type,
        of.principal,
        of.host,
        of.operation,
        of.permission_type,
    )


def asked(*creations: Asked) -> CreateAclsRequest:
    return CreateAclsRequest(creations=creations)


def told(*codes: ErrorCode) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=tuple(Result(error_code=code, error_message=None if code else "") for code in codes)
    )


def added(case: str, rule: str, **changes: Any) -> Row:
    """One entry is one record."""
    return Row(case=case, rule=rule, request=asked(allowed(**changes)), records=(entry(1, **changes),), answer=told(OK))


def refused(case: str, rule: str, **changes: Any) -> Row:
    """One entry that cannot be, and after it one that can."""
    return Row(
        case=case,
        rule=rule,
        request=asked(allowed(**changes), allowed(principal="User:bob")),
        records=(entry(1, principal="User:bob"),),
        answer=told(INVALID, OK),
    )


def command(_: Cluster, request: CreateAclsRequest, drawn: Iterable[Uuid] = ()) -> Command[Any]:
    """`drawn`: the random ids, in order; without any they are 1, 2, 3 …"""
    ids = iter(drawn or map(uuid, count(1)))
    return create_acls(request, new_acl_id=lambda: next(ids))


OK, INVALID, TOO_OLD = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION
VALID = "AclControlManager.validateNewAcl"
NUMBERS = f"{VALID}: a number that has a name, and that is not for filters."
CLUSTERS_NAME = "AclApis.handleCreateAcls: the only cluster is kafka-cluster."
HOST = "AclControlManager.validateHostPattern"
NETWORK = f"{HOST}, CidrUtils.validate: a host with a slash is a network (KIP-1276)."
ONCE = "AclControlManager.createAcls: what is there is granted, and not written again."

TABLE = Table(
    api="CreateAcls",
    kafka="AclApis.handleCreateAcls, AclControlManager.createAcls (KIP-140, KIP-290)",
    command=command,
    given=no_entries,
    rows=(
        added("a topic", "AclControlManager.createAcls: an entry is one record under a random id (KIP-801)."),
        added("a prefix", "A pattern is literal or a prefix (KIP-290).", resource_pattern_type=PatternType.PREFIXED),
        added("every topic", "The wildcard is a literal name (KIP-290).", resource_name="*"),
        added("the cluster", CLUSTERS_NAME, resource_type=CLUSTER, resource_name="kafka-cluster"),
        added("a user", "Tokens are for users (KIP-373).", resource_type=ResourceType.USER, resource_name="User:bob"),
        added(
            "what denies", "Either permission (KIP-11).", operation=AclOperation.ALL, permission_type=AclPermission.DENY
        ),
        added("a principal with colons", f"{VALID}: the first colon ends the type.", principal="User:CN=alice,O=a:b"),
        added("a principal of nothing but a colon", f"{VALID}: a colon is all that is looked for.", principal=":"),
        added("a host that is no address", f"{HOST}: without a slash any text does.", host="not an address"),
        added("an IPv4 network", NETWORK, host="10.0.0.0/8"),
        added("a network's address with host bits", NETWORK, host="10.1.2.3/0"),
        added("an IPv6 network", NETWORK, host="2001:db8::/32"),
        Row(
            case="three entries",
            rule="AclControlManager.createAcls: records and results in the order of the request.",
            request=asked(allowed(), allowed(operation=AclOperation.WRITE), allowed(host="10.0.0.1")),
            records=(entry(1), entry(2, operation=AclOperation.WRITE), entry(3, host="10.0.0.1")),
            answer=told(OK, OK, OK),
        ),
        Row(case="none", rule="AclControlManager.createAcls: one result an entry.", request=asked(), answer=told()),
        Row(
            case="one that is there, twice",
            rule=ONCE,
            given=one_entry,
            request=asked(allowed(), allowed()),
            answer=told(OK, OK),
        ),
        Row(
            case="the same twice, and another between",
            rule=ONCE,
            request=asked(allowed(), allowed(principal="User:bob"), allowed()),
            records=(entry(1), entry(2, principal="User:bob")),
            answer=told(OK, OK, OK),
        ),
        Row(
            case="ids that are taken, or reserved, or drawn twice",
            rule="AclControlManager.newAclId, Uuid.randomUuid: drawn again until it is nobody's.",
            given=one_entry,
            request=asked(allowed(host="10.0.0.1"), allowed(host="10.0.0.2")),
            beside={"drawn": (ZERO_UUID, uuid(1), uuid(7), uuid(7), uuid(8))},
            records=(entry(7, host="10.0.0.1"), entry(8, host="10.0.0.2")),
            answer=told(OK, OK),
        ),
        refused("an unknown resource type", NUMBERS, resource_type=0),
        refused("a resource type without a name", NUMBERS, resource_type=8),
        refused("any resource type", NUMBERS, resource_type=ResourceType.ANY),
        refused("any pattern", NUMBERS, resource_pattern_type=PatternType.ANY),
        refused("what matches a pattern", NUMBERS, resource_pattern_type=PatternType.MATCH),
        refused("any operation", NUMBERS, operation=AclOperation.ANY),
        refused("an operation without a name", NUMBERS, operation=16),
        refused("any permission", NUMBERS, permission_type=AclPermission.ANY),
        refused("a permission without a name", NUMBERS, permission_type=-1),
        refused("a resource without a name", f"{VALID}, AclApis.handleCreateAcls: a name.", resource_name=""),
        refused("another cluster", CLUSTERS_NAME, resource_type=CLUSTER),
        refused("every cluster", CLUSTERS_NAME, resource_type=CLUSTER, resource_name="*"),
        refused("a principal without a type", f"{VALID}: type, colon, name.", principal="alice"),
        refused("no host", f"{HOST}: there has to be one.", host=""),
        refused("more bits than an IPv4 address has", NETWORK, host="10.0.0.0/33"),
        refused("a network of no address", NETWORK, host="10.0.0.256/8"),
        refused("a network of a part of an address", NETWORK, host="10.0.0/8"),
        refused("more bits than an IPv6 address has", NETWORK, host="2001:db8::/129"),
        refused("bits in very many digits", NETWORK, host="::/" + "9" * 5_000),
        refused("a network of IPv4 inside IPv6", NETWORK, host="::ffff:10.0.0.1/96"),
        refused("a network of a name", NETWORK, host="a/b"),
        Row(
            case="a network that some broker may not know, and another host",
            rule=f"{HOST}, MetadataVersion.isCidrAclSupported: from 4.4-IV1 (KIP-1276).",
            given=before_networks,
            request=asked(allowed(host="10.0.0.0/8"), allowed(host="10.0.0.1")),
            records=(entry(1, host="10.0.0.1"),),
            answer=told(TOO_OLD, OK),
        ),
        Row(
            case="a network that is none, which some broker may not know",
            rule=f"{HOST}: the level before the network.",
            given=before_networks,
            request=asked(allowed(host="10.0.0.0/33")),
            answer=told(TOO_OLD),
        ),
        Row(
            case="a principal without a type, or no name, and a network that some broker may not know",
            rule=f"{VALID}: the host last of all.",
            given=before_networks,
            request=asked(allowed(principal="alice", host="10.0.0.0/8"), allowed(resource_name="", host="10.0.0.0/8")),
            answer=told(INVALID, INVALID),
        ),
    ),
)
