"""DeleteAcls and DescribeAcls: which entries a filter means, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.api.delete_acls import DeleteAclsRequest
from kraft.api.describe_acls import DescribeAclsRequest
from quorate.controller.acl_filters import Matcher
from quorate.controller.commands.delete_acls import REMOVED_MAX, delete_acls
from quorate.controller.commands.describe_acls import describe_acls
from quorate.errors import ErrorCode
from quorate.metadata.acls import Operation, PatternType, Permission, ResourceType
from quorate.records import AccessControlEntryRecord as Entry
from tests.controller.clusters import Cluster, uuid

Filter = DeleteAclsRequest.DeleteAclsFilter
ANY, MATCH, LITERAL, PREFIXED = PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE = Operation.READ, Operation.WRITE
ALLOW, DENY = Permission.ALLOW, Permission.DENY

ENTRIES = {
    "orders": Entry(uuid(5), TOPIC, "orders", LITERAL, "User:alice", "*", READ, ALLOW),
    "ord*": Entry(uuid(4), TOPIC, "ord", PREFIXED, "User:alice", "*", WRITE, ALLOW),
    "all": Entry(uuid(3), TOPIC, "*", LITERAL, "User:bob", "10.0.0.1", READ, DENY),
    "ord": Entry(uuid(2), TOPIC, "ord", LITERAL, "User:bob", "*", READ, ALLOW),
    "group": Entry(uuid(1), GROUP, "orders", LITERAL, "User:alice", "*", READ, ALLOW),
}


def cluster() -> Cluster:
    made = Cluster(25)
    made.apply(ENTRIES.values())
    return made


def everything(**changes: Any) -> Filter:
    """Matches every entry, but for what a test says."""
    return Filter(
        **{
            "resource_type_filter": ResourceType.ANY,
            "resource_name_filter": None,
            "pattern_type_filter": ANY,
            "principal_filter": None,
            "host_filter": None,
            "operation": Operation.ANY,
            "permission_type": Permission.ANY,
            **changes,
        }
    )


CASES = [
    ({}, ["all", "ord", "ord*", "orders", "group"]),
    ({"resource_type_filter": GROUP}, ["group"]),
    ({"resource_type_filter": ResourceType.USER}, []),
    ({"resource_name_filter": "ord"}, ["ord", "ord*"]),
    ({"resource_name_filter": "ord", "pattern_type_filter": LITERAL}, ["ord"]),
    ({"resource_name_filter": "ord", "pattern_type_filter": PREFIXED}, ["ord*"]),
    ({"resource_name_filter": "orders", "pattern_type_filter": PREFIXED}, []),
    ({"resource_name_filter": "orders", "pattern_type_filter": MATCH}, ["all", "ord*", "orders", "group"]),
    ({"resource_name_filter": "or", "pattern_type_filter": MATCH}, ["all"]),
    ({"resource_name_filter": "*"}, ["all"]),
    ({"resource_name_filter": "*", "pattern_type_filter": MATCH}, ["all"]),
    ({"pattern_type_filter": MATCH}, ["all", "ord", "ord*", "orders", "group"]),
    ({"pattern_type_filter": PREFIXED}, ["ord*"]),
    ({"principal_filter": "User:bob"}, ["all", "ord"]),
    ({"principal_filter": "User:*"}, []),
    ({"host_filter": "*"}, ["ord", "ord*", "orders", "group"]),
    ({"host_filter": "10.0.0.1"}, ["all"]),
    ({"operation": WRITE}, ["ord*"]),
    ({"operation": Operation.ALL}, []),
    ({"permission_type": DENY}, ["all"]),
]
"""Names in ENTRIES that match, in the order in which they are told. Kafka: AclBindingFilter.matches."""


@pytest.mark.parametrize(("changes", "expected"), CASES, ids=str)
def test_a_filter_means_these(changes: dict[str, Any], expected: list[str]) -> None:
    found = Matcher(cluster().state.acls.entries()).matches(everything(**changes))

    assert [ENTRIES[name] for name in expected] == found


@pytest.mark.parametrize(("changes", "expected"), CASES, ids=str)
def test_deletes_what_the_filter_means_and_nothing_else(changes: dict[str, Any], expected: list[str]) -> None:
    made = cluster()
    response = made.write(delete_acls(DeleteAclsRequest((everything(**changes),))))
    (result,) = response.filter_results

    assert [ENTRIES[name].principal for name in expected] == [match.principal for match in result.matching_acls]
    assert {entry.id for name, entry in ENTRIES.items() if name not in expected} == {e.id for e in made.state.acls}


def test_what_two_filters_match_is_told_twice_and_goes_once() -> None:
    request = DeleteAclsRequest((everything(resource_name_filter="ord"), everything(principal_filter="User:bob")))
    decision = cluster().decide(delete_acls(request))

    assert [2, 2] == [len(result.matching_acls) for result in decision.response.filter_results]
    assert [uuid(2), uuid(4), uuid(3)] == [record.id for record in decision.records]  # type: ignore[attr-defined]


def test_a_filter_with_unknown_numbers_does_not_keep_the_others() -> None:
    made = cluster()
    request = DeleteAclsRequest((everything(operation=77), everything(resource_type_filter=GROUP)))
    response = made.write(delete_acls(request))

    assert [ErrorCode.INVALID_REQUEST, ErrorCode.NONE] == [ErrorCode(e.error_code) for e in response.filter_results]
    assert "the filter's operation 77 is unknown" == response.filter_results[0].error_message
    assert 4 == len(made.state.acls)


def test_not_more_than_a_write_holds_is_removed() -> None:
    made = Cluster(25)
    made.apply(Entry(uuid(i), TOPIC, f"t{i}", LITERAL, "User:a", "*", READ, ALLOW) for i in range(REMOVED_MAX))
    all_of_it = delete_acls(DeleteAclsRequest((everything(), everything())))

    assert REMOVED_MAX == len(made.decide(all_of_it).records)

    made.apply([Entry(uuid(REMOVED_MAX), TOPIC, "one more", LITERAL, "User:a", "*", READ, ALLOW)])
    refused = made.refusal(all_of_it)

    assert (ErrorCode.INVALID_REQUEST, "the filters match 10001 entries; one request removes at most 10000") == (
        refused.code,
        refused.message,
    )


def test_describes_by_resource_in_an_order_that_does_not_depend_on_ids() -> None:
    request = DescribeAclsRequest(*(getattr(everything(), name) for name in DescribeAclsRequest.__struct_fields__[:-1]))
    response = cluster().decide(describe_acls(request)).response
    told = [
        (each.resource_type, each.resource_name, each.pattern_type, [acl.principal for acl in each.acls])
        for each in response.resources
    ]

    assert [
        (TOPIC, "*", LITERAL, ["User:bob"]),
        (TOPIC, "ord", LITERAL, ["User:bob"]),
        (TOPIC, "ord", PREFIXED, ["User:alice"]),
        (TOPIC, "orders", LITERAL, ["User:alice"]),
        (GROUP, "orders", LITERAL, ["User:alice"]),
    ] == told


def test_the_entries_of_one_resource_are_one_group() -> None:
    made = Cluster(25)
    made.apply(Entry(uuid(9 - i), TOPIC, "t", LITERAL, f"User:{i % 2}", "*", 3 + i, ALLOW) for i in range(4))
    request = DescribeAclsRequest(TOPIC, "t", LITERAL, None, None, Operation.ANY, Permission.ANY)
    (resource,) = made.decide(describe_acls(request)).response.resources

    assert [("User:0", 3), ("User:0", 5), ("User:1", 4), ("User:1", 6)] == [
        (acl.principal, acl.operation) for acl in resource.acls
    ]


def test_a_description_by_unknown_numbers_is_refused() -> None:
    refused = cluster().refusal(describe_acls(DescribeAclsRequest(TOPIC, None, 9, None, None, 1, 1)))

    assert (ErrorCode.INVALID_REQUEST, "the filter's pattern type 9 is unknown") == (refused.code, refused.message)


names = st.sampled_from(["*", "o", "or", "ord", "orders", "x"])
entries = st.builds(
    Entry,
    id=st.integers(1, 50).map(uuid),
    resource_type=st.sampled_from([TOPIC, GROUP]),
    resource_name=names,
    pattern_type=st.sampled_from([LITERAL, PREFIXED]),
    principal=st.sampled_from(["User:a", "User:*"]),
    host=st.just("*"),
    operation=st.sampled_from([READ, WRITE]),
    permission_type=st.sampled_from([ALLOW, DENY]),
)


@given(st.lists(entries), names, st.sampled_from([TOPIC, GROUP]))
def test_match_means_what_a_decision_about_that_resource_looks_at(there: list[Entry], name: str, kind: int) -> None:
    made = Cluster(25)
    made.apply(there)
    wanted = everything(resource_type_filter=kind, resource_name_filter=name, pattern_type_filter=MATCH)
    covering = [
        entry
        for pattern in made.state.acls.covering(kind, name)
        for principal in ("User:a", "User:*")
        for entry in made.state.acls.said(pattern, principal)
    ]

    assert {e.id for e in covering} == {e.id for e in Matcher(made.state.acls.entries()).matches(wanted)}
