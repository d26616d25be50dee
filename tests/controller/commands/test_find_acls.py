"""DeleteAcls and DescribeAcls: how much at once, in which words, and MATCH. What a filter means: `tables/*_acls.py`."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.api.delete_acls import DeleteAclsRequest
from kraft.api.describe_acls import DescribeAclsRequest
from quorate.controller.access.acl_filters import ENTRIES_PER_STEP, Matcher
from quorate.controller.commands.delete_acls import MATCHES_MAX, REMOVED_MAX, delete_acls
from quorate.controller.commands.describe_acls import describe_acls
from quorate.controller.engine.decision import Moment, steps_of
from quorate.controller.engine.steps import finished
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.records import AccessControlEntryRecord as Entry
from tests.controller.acl_entries import Filter, everything, five_entries
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.delete_acls import TABLE, gone, many
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
        ("more than one write holds", "the filters match 10001 entries or more; one request removes at most 10000"),
    ],
)
def test_says_why(case: str, says: str) -> None:
    assert says == words(TABLE, case)


def test_as_much_as_a_write_holds_is_removed() -> None:
    decision = many(REMOVED_MAX).decide(delete_acls(DeleteAclsRequest((everything(), everything()))))

    assert REMOVED_MAX == len(decision.records)


def test_an_answer_lists_so_many_matches() -> None:
    filters = (everything(),) * (MATCHES_MAX // REMOVED_MAX)
    made = many(REMOVED_MAX)

    assert REMOVED_MAX == len(made.decide(delete_acls(DeleteAclsRequest(filters))).records)

    refused = made.refusal(delete_acls(DeleteAclsRequest((*filters, everything()))))

    assert ErrorCode.INVALID_REQUEST is refused.code
    assert "match entries 110000 times or more; one answer lists at most 100000 matches" in refused.message


def step_count(made: Cluster, *filters: Filter) -> int:
    """How many steps the removal takes, and that it removes what one without steps does."""
    command = delete_acls(DeleteAclsRequest(filters))
    steps = steps_of(command, made.state, Moment(next_offset=made.next_offset, now_ms=0))
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert made.decide(command) == end.value
            return count
        count += 1


def of_one_topic(count: int) -> Cluster:
    """Entries of one topic, each of a principal and a host of its own."""
    made = Cluster(25)
    made.apply(
        Entry(uuid(i), TOPIC, "orders", LITERAL, f"User:{i}", f"10.0.{i // 256}.{i % 256}", READ, ALLOW)
        for i in range(count)
    )
    return made


def test_filters_look_only_at_the_entries_of_the_field_that_leaves_the_fewest() -> None:
    by_principal = tuple(everything(resource_name_filter="orders", principal_filter=f"User:{i}") for i in range(300))
    by_host = tuple(everything(resource_name_filter="orders", host_filter=f"10.0.1.{i}") for i in range(256))

    assert 2 == step_count(of_one_topic(4_000), *by_principal, *by_host)


def test_filters_that_look_at_all_entries_take_many_steps() -> None:
    filters = (everything(operation=WRITE),) * 50

    assert 50 * 2_000 // ENTRIES_PER_STEP < step_count(of_one_topic(2_000), *filters)


def test_a_name_is_looked_up_by_the_prefixes_that_entries_have() -> None:
    """All prefixes of this name would take terabytes."""
    long = everything(resource_name_filter="orders" + 2_000_000 * "x", pattern_type_filter=MATCH)

    assert gone("all", "ord*") == five_entries().decide(delete_acls(DeleteAclsRequest((long,)))).records


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

    assert {e.id for e in covering} == {e.id for e in finished(Matcher(made.state.acls.entries()).matching(wanted))}
