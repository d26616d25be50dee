"""DeleteAcls and DescribeAcls: how much at once, in which words, and MATCH. What a filter means: `tables/*_acls.py`."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.api.delete_acls import DeleteAclsRequest
from kraft.api.describe_acls import DescribeAclsRequest
from quorate.controller.access.acl_filters import Matcher
from quorate.controller.commands.delete_acls import REMOVED_MAX, delete_acls
from quorate.controller.commands.describe_acls import describe_acls
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.records import AccessControlEntryRecord as Entry
from tests.controller.acl_entries import everything, five_entries
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.delete_acls import TABLE, many
from tests.controller.words import words

MATCH, LITERAL, PREFIXED = PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE = AclOperation.READ, AclOperation.WRITE
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("an unknown resource type, and another filter", "the filter's resource type 0 is unknown"),
        ("an unknown pattern type", "the filter's pattern type 5 is unknown"),
        ("an unknown operation", "the filter's operation 77 is unknown"),
        ("an unknown permission type", "the filter's permission type -1 is unknown"),
        ("more than one write holds", "the filters match 10001 entries; one request removes at most 10000"),
    ],
)
def test_says_why(case: str, says: str) -> None:
    assert says == words(TABLE, case)


def test_as_much_as_a_write_holds_is_removed() -> None:
    decision = many(REMOVED_MAX).decide(delete_acls(DeleteAclsRequest((everything(), everything()))))

    assert REMOVED_MAX == len(decision.records)


def test_a_description_by_a_number_without_a_name_is_refused() -> None:
    """Kafka's own parser knows 0 for unknown, and nothing above; by such a number it describes nothing."""
    asked = msgspec.convert(everything(pattern_type_filter=9), DescribeAclsRequest, from_attributes=True)
    refused = five_entries().refusal(describe_acls(asked))

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
