"""Who may do what, how much, and how they log in: ACLs, quotas, SCRAM credentials, delegation tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kraft.api.create_acls import CreateAclsRequest
from kraft.api.create_delegation_token import CreateDelegationTokenRequest
from kraft.api.delete_acls import DeleteAclsRequest
from kraft.api.describe_acls import DescribeAclsRequest
from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest
from kraft.errors import ErrorCode as E
from tests.interop.operations.script.ask import ask, but_ours
from tests.interop.operations.step import Ask, Step

# The numbers of the wire.
ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 1, 2, 3, 4, 5, 6, 7
MATCH, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DENY, ALLOW = 2, 3

Creation = CreateAclsRequest.AclCreation
Filter = DeleteAclsRequest.DeleteAclsFilter


def acl(resource: int = TOPIC, name: str = "orders", **other: Any) -> Creation:
    """An entry; alice may read, unless said otherwise."""
    usual = {"principal": "User:alice", "host": "*", "operation": READ, "permission_type": ALLOW}
    return Creation(
        **{"resource_type": resource, "resource_name": name, "resource_pattern_type": LITERAL, **usual, **other}
    )


def create_acls(name: str, *creations: Creation, errors: Any = ()) -> Ask:
    return ask(name, CreateAclsRequest(creations=creations), *errors)


def having(**fields: Any) -> dict[str, Any]:
    """A filter that lets everything through, but for `fields`."""
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
        **fields,
    }


def describe_acls(name: str, *errors: E, **fields: Any) -> Ask:
    return ask(name, DescribeAclsRequest(**having(**fields)), *errors)


def delete_acls(name: str, *filters: dict[str, Any], errors: Any = ()) -> Ask:
    return ask(name, DeleteAclsRequest(filters=tuple(Filter(**having(**each)) for each in filters)), *errors)


ACLS: Final[tuple[Step, ...]] = (
    create_acls("alice may read", acl()),
    create_acls("alice may read, again", acl()),
    create_acls("one entry twice in a request", acl(operation=WRITE), acl(operation=WRITE)),
    create_acls("bob may not", acl(principal="User:bob", permission_type=DENY, operation=ALL)),
    create_acls("from one host", acl(host="10.0.0.1", operation=DESCRIBE)),
    create_acls("prefixed", acl(name="ord", resource_pattern_type=PREFIXED, operation=WRITE)),
    create_acls("everybody, everything", acl(name="*", principal="User:*", operation=DESCRIBE)),
    create_acls("a group", acl(GROUP, "readers")),
    create_acls("the cluster", acl(CLUSTER, "kafka-cluster", operation=CLUSTER_ACTION)),
    create_acls("a transactional id", acl(TRANSACTIONAL_ID, "tx", operation=WRITE)),
    create_acls("a token", acl(TOKEN, "token", operation=DESCRIBE)),
    create_acls("a user", acl(USER, "User:alice", operation=DESCRIBE)),
    create_acls("another cluster's name", acl(CLUSTER, "mine", operation=CREATE), errors=[E.INVALID_REQUEST]),
    create_acls("no name at all", acl(name=""), errors=[E.INVALID_REQUEST]),
    but_ours(
        create_acls("a pattern that matches", acl(resource_pattern_type=MATCH), errors=[E.UNKNOWN_SERVER_ERROR]),
        E.INVALID_REQUEST,
    ),
    but_ours(
        create_acls("any pattern", acl(resource_pattern_type=ANY), errors=[E.UNKNOWN_SERVER_ERROR]), E.INVALID_REQUEST
    ),
    but_ours(create_acls("any resource", acl(ANY), errors=[E.UNKNOWN_SERVER_ERROR]), E.INVALID_REQUEST),
    but_ours(create_acls("any operation", acl(operation=ANY), errors=[E.UNKNOWN_SERVER_ERROR]), E.INVALID_REQUEST),
    but_ours(
        create_acls("any permission", acl(permission_type=ANY), errors=[E.UNKNOWN_SERVER_ERROR]), E.INVALID_REQUEST
    ),
    create_acls("a principal without a type", acl(principal="alice"), errors=[E.INVALID_REQUEST]),
    create_acls("no principal", acl(principal=""), errors=[E.INVALID_REQUEST]),
    create_acls("good and bad entries", acl(name="good"), acl(name=""), errors=[E.INVALID_REQUEST]),
    create_acls("no entries"),
    describe_acls("all entries"),
    describe_acls("of topics", resource_type_filter=TOPIC),
    describe_acls("literally", resource_type_filter=TOPIC, resource_name_filter="orders", pattern_type_filter=LITERAL),
    describe_acls(
        "whatever matches", resource_type_filter=TOPIC, resource_name_filter="orders", pattern_type_filter=MATCH
    ),
    describe_acls("entries of nobody", principal_filter="User:nobody"),
    describe_acls("of one host", host_filter="10.0.0.1"),
    describe_acls("what is denied", permission_type=DENY),
    delete_acls("what is denied, taken back", {"permission_type": DENY}),
    delete_acls("what is denied, taken back again", {"permission_type": DENY}),
    delete_acls(
        "two filters that share an entry", {"resource_name_filter": "readers"}, {"resource_type_filter": GROUP}
    ),
    delete_acls("whatever matches, taken back", {"resource_name_filter": "orders", "pattern_type_filter": MATCH}),
    delete_acls("no filters"),
    create_acls("alice may read once more", acl()),
)

Entry = AlterClientQuotasRequest.EntryData


def alter_quotas(
    name: str,
    entity: Mapping[str, str | None],
    values: Mapping[str, float | None],
    *errors: E,
    validate_only: bool = False,
) -> Ask:
    """One entity; None removes a value."""
    return ask(name, AlterClientQuotasRequest((quota(entity, values),), validate_only), *errors)


def quota(entity: Mapping[str, str | None], values: Mapping[str, float | None]) -> Entry:
    return Entry(
        tuple(Entry.EntityData(kind, each) for kind, each in entity.items()),
        tuple(Entry.OpData(key, value or 0.0, value is None) for key, value in values.items()),
    )


ALICE: Final = {"user": "alice"}
RATE: Final = "producer_byte_rate"

QUOTAS: Final[tuple[Step, ...]] = (
    alter_quotas("a user's rate", ALICE, {RATE: 1_000_000.0}),
    alter_quotas("two of them", ALICE, {"consumer_byte_rate": 2e6, "request_percentage": 12.5}),
    alter_quotas("a smaller one", ALICE, {RATE: 1_000.0}),
    alter_quotas("a client's", {"client-id": "app"}, {"controller_mutation_rate": 5.0}),
    alter_quotas("a user's client's", {"user": "alice", "client-id": "app"}, {RATE: 7.0}),
    alter_quotas("all users'", {"user": None}, {RATE: 9.0}),
    alter_quotas("all users' clients'", {"user": None, "client-id": None}, {RATE: 11.0}),
    alter_quotas("an address's", {"ip": "127.0.0.2"}, {"connection_creation_rate": 10.0}),
    alter_quotas("all addresses'", {"ip": None}, {"connection_creation_rate": 20.0}),
    alter_quotas("one is removed", ALICE, {"request_percentage": None}),
    alter_quotas("one is removed that is not there", ALICE, {"controller_mutation_rate": None}),
    alter_quotas("of nobody, removed", {"user": "nobody"}, {RATE: None}),
    alter_quotas("only to see a rate", ALICE, {RATE: 77.0}, validate_only=True),
    alter_quotas("a quota unknown", ALICE, {"speed": 1.0}, E.INVALID_REQUEST),
    alter_quotas("not for addresses", {"ip": "127.0.0.2"}, {RATE: 1.0}, E.INVALID_REQUEST),
    alter_quotas("only for addresses", ALICE, {"connection_creation_rate": 1.0}, E.INVALID_REQUEST),
    alter_quotas("no address", {"ip": "no host here"}, {"connection_creation_rate": 1.0}, E.INVALID_REQUEST),
    alter_quotas("half a connection", {"ip": "127.0.0.3"}, {"connection_creation_rate": 1.5}, E.INVALID_REQUEST),
    alter_quotas("half a byte", ALICE, {RATE: 1.5}, E.INVALID_REQUEST),
    alter_quotas("a rate of 0", ALICE, {RATE: 0.0}, E.INVALID_REQUEST),
    alter_quotas("a negative rate", ALICE, {RATE: -1.0}, E.INVALID_REQUEST),
    alter_quotas("an entity unknown", {"planet": "earth"}, {RATE: 1.0}, E.INVALID_REQUEST),
    alter_quotas("an entity with an empty name", {"user": ""}, {RATE: 1.0}, E.INVALID_REQUEST),
    alter_quotas("a user and an address", {"user": "alice", "ip": "127.0.0.2"}, {RATE: 1.0}, E.INVALID_REQUEST),
    alter_quotas("no entity", {}, {RATE: 1.0}, E.INVALID_REQUEST),
    alter_quotas("no values", ALICE, {}),
    ask(
        "good and bad quotas",
        AlterClientQuotasRequest((quota({"user": "bob"}, {RATE: 3.0}), quota({"user": "eve"}, {"speed": 1.0}))),
        E.INVALID_REQUEST,
    ),
    ask("no quotas", AlterClientQuotasRequest()),
)

SHA_256, SHA_512 = 1, 2
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


def upsert(user: str, mechanism: int = SHA_256, iterations: int = 4096, size: int = 32) -> Upsertion:
    return Upsertion(user, mechanism, iterations, salt=b"salt of " + user.encode(), salted_password=b"\7" * size)


def alter_scram(name: str, *changes: Deletion | Upsertion, errors: Any = ()) -> Ask:
    deletions = tuple(each for each in changes if isinstance(each, Deletion))
    upsertions = tuple(each for each in changes if isinstance(each, Upsertion))
    return ask(name, AlterUserScramCredentialsRequest(deletions, upsertions), *errors)


SCRAM: Final[tuple[Step, ...]] = (
    alter_scram("alice's credentials", upsert("alice")),
    alter_scram("alice's other ones", upsert("alice", SHA_512, 8192, size=64)),
    alter_scram("alice's, changed", upsert("alice", iterations=5000)),
    alter_scram("bob's and carol's", upsert("bob"), upsert("carol", SHA_512, size=64)),
    alter_scram("a mechanism unknown", upsert("dave", 0), errors=[E.UNSUPPORTED_SASL_MECHANISM]),
    alter_scram("another mechanism unknown", upsert("dave", 3), errors=[E.UNSUPPORTED_SASL_MECHANISM]),
    alter_scram("too few iterations", upsert("dave", iterations=4095), errors=[E.UNACCEPTABLE_CREDENTIAL]),
    alter_scram("too few iterations for SHA-512", upsert("dave", SHA_512, 4095), errors=[E.UNACCEPTABLE_CREDENTIAL]),
    alter_scram("as many iterations as may be", upsert("erin", iterations=16384)),
    alter_scram("too many iterations", upsert("dave", iterations=16385), errors=[E.UNACCEPTABLE_CREDENTIAL]),
    alter_scram("no user", upsert(""), errors=[E.UNACCEPTABLE_CREDENTIAL]),
    alter_scram("the same twice", upsert("dave"), upsert("dave"), errors=[E.DUPLICATE_RESOURCE]),
    alter_scram("set and deleted", upsert("bob"), Deletion("bob", SHA_256), errors=[E.DUPLICATE_RESOURCE]),
    alter_scram("deleted twice", Deletion("bob", SHA_256), Deletion("bob", SHA_256), errors=[E.DUPLICATE_RESOURCE]),
    alter_scram(
        "one mechanism set, another deleted",
        upsert("bob", SHA_512, size=64),
        Deletion("bob", SHA_256),
        errors=[E.DUPLICATE_RESOURCE],
    ),
    alter_scram("nobody's deleted", Deletion("nobody", SHA_256), errors=[E.RESOURCE_NOT_FOUND]),
    alter_scram("no such mechanism of bob's", Deletion("bob", SHA_512), errors=[E.RESOURCE_NOT_FOUND]),
    alter_scram("a mechanism unknown, deleted", Deletion("bob", 9), errors=[E.UNSUPPORTED_SASL_MECHANISM]),
    alter_scram("bob's deleted", Deletion("bob", SHA_256)),
    alter_scram("good and bad credentials", upsert("frank"), upsert("dave", 0), errors=[E.UNSUPPORTED_SASL_MECHANISM]),
    alter_scram("no credentials"),
)

Renewer = CreateDelegationTokenRequest.CreatableRenewers


def create_token(
    name: str,
    *errors: E,
    owner: tuple[str | None, str | None] = (None, None),
    lifetime: int = -1,
    renewers: tuple[Renewer, ...] = (),
) -> Ask:
    request = CreateDelegationTokenRequest(*owner, renewers, lifetime)
    return ask(name, request, *errors, masks=("expiryTimestampMs", "maxTimestampMs"))


NOT_ALLOWED: Final = E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

TOKENS: Final[tuple[Step, ...]] = (
    create_token("a token for whoever asks", NOT_ALLOWED),
    create_token("a token for another", NOT_ALLOWED, owner=("User", "alice")),
    create_token("a token with a renewer", NOT_ALLOWED, renewers=(Renewer("User", "bob"),)),
    create_token("a renewer of another type", NOT_ALLOWED, renewers=(Renewer("Group", "bob"),)),
    ask("a token unknown, renewed", RenewDelegationTokenRequest(b"no such hmac", -1), NOT_ALLOWED),
    ask("a token unknown, expired", ExpireDelegationTokenRequest(b"no such hmac", -1), NOT_ALLOWED),
)

SCRIPT: Final[tuple[Step, ...]] = (*ACLS, *QUOTAS, *SCRAM, *TOKENS)
