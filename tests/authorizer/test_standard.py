"""The decision: cases one by one, a naive twin that looks at every entry, and the state's past."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kraft import Uuid
from quorate.authorizer import CLUSTER, AclResource, DefaultRule, Requester, Ruling, StandardAuthorizer, covers
from quorate.metadata.acls import AclOperation, AclPermission, Acls, PatternType, ResourceType
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from quorate.nouns import ANONYMOUS, Principal
from quorate.records import AccessControlEntryRecord as Entry
from quorate.records import RemoveAccessControlEntryRecord as Removal

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
ALL, READ, WRITE, DELETE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
ALTER, DESCRIBE, ALTER_CONFIGS = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS
DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS
ALICE = Requester(principal=Principal("User", "alice"), host="10.1.2.3")
ORDERS = AclResource(TOPIC, "orders")


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def state_of(entries: Iterable[Entry]) -> ClusterState:
    """A state with these entries, each under an id of its own."""
    state = ClusterState()
    for offset, entry in enumerate(entries):
        state.apply(replace(entry, id=uuid(offset + 1)), offset)
    return state


def entry(**changes: Any) -> Entry:
    """Alice may read the topic `orders` from anywhere, but for what a test says."""
    names = ("resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    plain = ("orders", LITERAL, "User:alice", "*", READ, ALLOW)
    fields = {"resource_type": TOPIC, **dict(zip(names, plain, strict=True)), **changes}
    return Entry(**fields)


@pytest.mark.parametrize(
    ("entries", "operation", "allowed"),
    [
        ([], READ, False),
        ([entry()], READ, True),
        ([entry()], WRITE, False),
        ([entry(operation=ALL)], ALTER, True),
        ([entry(principal="User:bob")], READ, False),
        ([entry(principal="Group:alice")], READ, False),
        ([entry(principal="User:*")], READ, True),
        ([entry(principal="Group:*")], READ, False),
        ([entry(host="10.1.2.3")], READ, True),
        ([entry(host="10.1.2.4")], READ, False),
        ([entry(host="10.1.0.0/16")], READ, True),
        ([entry(resource_type=GROUP)], READ, False),
        ([entry(resource_name="order")], READ, False),
        ([entry(resource_name="*")], READ, True),
        ([entry(resource_name="*", pattern_type=PREFIXED)], READ, False),
        ([entry(resource_name="ord", pattern_type=PREFIXED)], READ, True),
        ([entry(resource_name="orders", pattern_type=PREFIXED)], READ, True),
        ([entry(resource_name="orders-", pattern_type=PREFIXED)], READ, False),
        ([entry(), entry(permission_type=DENY)], READ, False),
        ([entry(), entry(permission_type=DENY, resource_name="*")], READ, False),
        ([entry(), entry(permission_type=DENY, resource_name="o", pattern_type=PREFIXED)], READ, False),
        ([entry(), entry(permission_type=DENY, principal="User:*")], READ, False),
        ([entry(), entry(permission_type=DENY, operation=ALL)], READ, False),
        ([entry(), entry(permission_type=DENY, host="10.0.0.0/8")], READ, False),
        ([entry(), entry(permission_type=DENY, host="10.9.0.0/16")], READ, True),
        ([entry(), entry(permission_type=DENY, operation=WRITE)], READ, True),
    ],
)
def test_decides(entries: list[Entry], operation: AclOperation, allowed: bool) -> None:
    acls = state_of(entries).acls

    assert allowed == StandardAuthorizer().allows(acls, ALICE, operation, ORDERS)


EVERYTHING = entry(resource_type=GROUP, resource_name="*")
DENIED = entry(resource_type=GROUP, resource_name="*", permission_type=DENY)


@pytest.mark.parametrize(
    ("entries", "name", "is_open", "allowed"),
    [
        ([EVERYTHING], "x", False, True),
        ([EVERYTHING], "*", False, True),
        ([EVERYTHING], "*x", False, False),
        ([EVERYTHING], "x*", False, True),
        ([replace(EVERYTHING, pattern_type=PREFIXED)], "*x", False, True),
        ([replace(EVERYTHING, resource_name="*x")], "*x", False, True),
        # Whether there is an entry at all, Kafka asks in the same way.
        ([replace(EVERYTHING, principal="User:bob")], "*x", True, True),
        ([replace(EVERYTHING, principal="User:bob")], "x", True, False),
        # A denial is one of all: there we are stricter.
        ([replace(EVERYTHING, resource_name="*x"), DENIED], "*x", False, False),
        ([DENIED], "*x", True, False),
        ([replace(DENIED, principal="User:bob")], "*x", True, True),
        ([replace(DENIED, operation=WRITE)], "*x", True, True),
    ],
)
def test_names_that_begin_with_the_wildcard(entries: list[Entry], name: str, is_open: bool, allowed: bool) -> None:
    """Kafka's StandardAuthorizerData.checkSection passes over `*` for them; ours does for all but denials."""
    authorizer = StandardAuthorizer(allow_everyone_if_no_acl_found=is_open)

    assert allowed == authorizer.allows(state_of(entries).acls, ALICE, READ, AclResource(GROUP, name))


@pytest.mark.parametrize(
    ("entries", "authorizer", "expected"),
    [
        ([], StandardAuthorizer(), Ruling(False, DefaultRule.DEFAULT_DENY)),
        ([], StandardAuthorizer(allow_everyone_if_no_acl_found=True), Ruling(True, DefaultRule.DEFAULT_ALLOW)),
        # Something is said about the resource, if not of Alice.
        (
            [entry(principal="User:bob")],
            StandardAuthorizer(allow_everyone_if_no_acl_found=True),
            Ruling(False, DefaultRule.DEFAULT_DENY),
        ),
        ([entry()], StandardAuthorizer(), Ruling(True, entry(id=uuid(1)))),
        (
            [entry(), entry(permission_type=DENY)],
            StandardAuthorizer(),
            Ruling(False, entry(id=uuid(2), permission_type=DENY)),
        ),
        (
            [entry(operation=WRITE), entry(host="10.9.9.9"), entry(principal="User:*")],
            StandardAuthorizer(),
            Ruling(True, entry(id=uuid(3), principal="User:*")),
        ),
        (
            [entry(permission_type=DENY)],
            StandardAuthorizer(super_users=frozenset({"User:alice"})),
            Ruling(True, DefaultRule.SUPER_USER),
        ),
    ],
)
def test_says_what_decided(entries: list[Entry], authorizer: StandardAuthorizer, expected: Ruling) -> None:
    """Kafka's MatchingAclRule, DefaultRule and SuperUserRule."""
    assert expected == authorizer.ruling(state_of(entries).acls, ALICE, READ, ORDERS)


@pytest.mark.parametrize("permitted", list(AclOperation)[2:])
def test_some_permissions_include_others_and_denials_do_not(permitted: AclOperation) -> None:
    """Kafka: StandardAuthorizerData, IMPLIES_DESCRIBE and IMPLIES_DESCRIBE_CONFIGS."""
    included = {READ: [DESCRIBE], WRITE: [DESCRIBE], DELETE: [DESCRIBE], ALTER: [DESCRIBE]} | {
        ALTER_CONFIGS: [DESCRIBE_CONFIGS],
        ALL: list(AclOperation)[2:],
    }
    allowed = {permitted, *included.get(permitted, [])}
    permits = state_of([entry(operation=permitted)]).acls
    denies = state_of([entry(operation=ALL), entry(operation=permitted, permission_type=DENY)]).acls
    asked = list(AclOperation)[3:]

    assert allowed - {ALL} == {each for each in asked if StandardAuthorizer().allows(permits, ALICE, each, ORDERS)}
    denied = set(asked) if permitted is ALL else {permitted}
    assert denied == {each for each in asked if not StandardAuthorizer().allows(denies, ALICE, each, ORDERS)}


def test_a_super_user_may_do_what_is_denied_to_everyone() -> None:
    acls = state_of([entry(principal="User:*", permission_type=DENY, operation=ALL)]).acls
    authorizer = StandardAuthorizer(super_users=frozenset({"User:alice"}))
    bob = Requester(principal=Principal("User", "bob"), host="10.1.2.3")

    assert authorizer.allows(acls, ALICE, READ, ORDERS)
    assert not authorizer.allows(acls, bob, READ, ORDERS)


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], True),
        ([entry(resource_name="payments")], True),
        ([entry(resource_type=GROUP)], True),
        ([entry(principal="User:bob", operation=WRITE, host="10.9.9.9")], False),
        ([entry(principal="User:bob", resource_name="*")], False),
        ([entry(principal="User:bob", resource_name="o", pattern_type=PREFIXED)], False),
        ([entry(principal="User:bob", permission_type=DENY)], False),
    ],
)
def test_what_has_no_entry_may_be_open_to_everyone(entries: list[Entry], allowed: bool) -> None:
    """An entry about the resource counts, whatever it says and of whom: `allow.everyone.if.no.acl.found`."""
    acls = state_of(entries).acls

    assert allowed == StandardAuthorizer(allow_everyone_if_no_acl_found=True).allows(acls, ALICE, READ, ORDERS)


def test_the_cluster_is_one_resource() -> None:
    acls = state_of([entry(resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster", operation=ALTER)]).acls

    assert StandardAuthorizer().allows(acls, ALICE, ALTER, CLUSTER)
    assert not StandardAuthorizer().allows(acls, Requester(principal=ANONYMOUS, host=""), ALTER, CLUSTER)


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], False),
        ([entry(resource_name="*")], True),
        ([entry()], True),
        ([entry(), entry(permission_type=DENY)], False),
        ([entry(), entry(permission_type=DENY, resource_name="ord", pattern_type=PREFIXED)], False),
        ([entry(), entry(permission_type=DENY, resource_name="*")], False),
        ([entry(resource_name="o", pattern_type=PREFIXED), entry(permission_type=DENY)], True),
        (
            [
                entry(resource_name="orders", pattern_type=PREFIXED),
                entry(permission_type=DENY, resource_name="o", pattern_type=PREFIXED),
            ],
            False,
        ),
        ([entry(operation=ALL)], True),
        ([entry(operation=DESCRIBE)], False),
        ([entry(host="10.9.9.9")], False),
        ([entry(principal="User:bob")], False),
        ([entry(resource_type=GROUP)], False),
    ],
)
def test_decides_about_any_resource_of_a_type(entries: list[Entry], allowed: bool) -> None:
    """Kafka: Authorizer.authorizeByResourceType. KIP-679."""
    assert allowed == StandardAuthorizer().allows_on_any(state_of(entries).acls, ALICE, READ, TOPIC)


letters = st.text("a*!é", max_size=3)
hosts = st.sampled_from(["*", "10.1.2.3", "10.1.0.0/16", "10.2.0.0/16", "::/0"])
principals = st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"])
entries = st.builds(
    Entry,
    id=st.integers(1, 30).map(uuid),
    resource_type=st.sampled_from([TOPIC, GROUP]),
    resource_name=letters.filter(bool),
    pattern_type=st.sampled_from([LITERAL, PREFIXED]),
    principal=principals,
    host=hosts,
    operation=st.sampled_from([ALL, READ, DESCRIBE, ALTER_CONFIGS]),
    permission_type=st.sampled_from([ALLOW, ALLOW, DENY]),
)
changes = st.lists(st.one_of(entries, st.integers(1, 30).map(uuid).map(Removal)), max_size=30)


def apply(state: ClusterState, records: Iterable[Entry | Removal], offset: int) -> None:
    for record in records:
        if isinstance(record, Entry) or state.acls.get(record.id) is not None:
            state.apply(record, offset)
            offset += 1


def naive(acls: Acls, who: Requester, operation: AclOperation, resource: AclResource, *, is_open: bool) -> bool:
    """KIP-11 and KIP-290 as they read: look at every entry."""
    about = [each for each in acls if each.resource_type == resource.type and _is_about(each, resource.name)]
    mine = [each for each in about if each.principal in (str(who.principal), "User:*") and covers(each.host, who.host)]
    if any(each.permission_type == DENY and each.operation in (ALL, operation) for each in mine):
        return False
    # Of a name that begins with the wildcard, Kafka has the entries for every resource say nothing.
    counts = {each.id for each in about if resource.name[:1] != "*" or _is_kafkas(each, resource.name)}
    about, mine = [each for each in about if each.id in counts], [each for each in mine if each.id in counts]
    includes = {DESCRIBE: {READ, WRITE, DELETE, ALTER}, DESCRIBE_CONFIGS: {ALTER_CONFIGS}}
    enough = {ALL, operation} | includes.get(operation, set())
    if any(each.permission_type == ALLOW and each.operation in enough for each in mine):
        return True
    return is_open and not about


def _is_about(each: Entry, name: str) -> bool:
    if each.pattern_type == PREFIXED:
        return name.startswith(each.resource_name)
    return each.resource_name in ("*", name)


def _is_kafkas(each: Entry, name: str) -> bool:
    return each.pattern_type == PREFIXED or each.resource_name == name


requests = st.tuples(st.sampled_from([READ, DESCRIBE, DESCRIBE_CONFIGS]), st.sampled_from([TOPIC, GROUP]), letters)


@given(changes, st.lists(requests, min_size=1, max_size=10), st.booleans())
def test_decides_as_who_looks_at_every_entry(
    records: list[Entry | Removal], asked: list[tuple[AclOperation, int, str]], is_open: bool
) -> None:
    state = ClusterState()
    apply(state, records, 0)
    authorizer = StandardAuthorizer(allow_everyone_if_no_acl_found=is_open)

    for operation, kind, name in asked:
        resource = AclResource(kind, name)
        expected = naive(state.acls, ALICE, operation, resource, is_open=is_open)
        assert expected == authorizer.allows(state.acls, ALICE, operation, resource), (operation, resource)


@given(changes, changes, st.lists(requests, min_size=1, max_size=5))
def test_the_past_is_decided_as_it_was_and_a_revert_brings_it_back(
    before: list[Entry | Removal], after: list[Entry | Removal], asked: list[tuple[AclOperation, int, str]]
) -> None:
    state, untouched = ClusterState(), ClusterState()
    apply(state, before, 0)
    apply(untouched, before, 0)
    state.registry.create(100)
    apply(state, after, 100)
    authorizer = StandardAuthorizer(allow_everyone_if_no_acl_found=True)

    def decided(acls: Acls) -> list[bool]:
        return [authorizer.allows(acls, ALICE, operation, AclResource(kind, name)) for operation, kind, name in asked]

    assert decided(untouched.acls) == decided(state.at(100).acls)
    state.registry.revert_to(100)
    assert decided(untouched.acls) == decided(state.acls)
    assert dict.fromkeys(untouched.acls.patterns(), 0) == dict.fromkeys(state.acls.patterns(), 0)
    reloaded = ClusterState()
    reloaded.load((record for record, _ in state.all_records(LATEST)), 0)
    assert decided(state.acls) == decided(reloaded.acls)
