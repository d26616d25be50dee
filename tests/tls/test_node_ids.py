"""Which node a principal is by `principal.node.id.mapping.rules`."""

from __future__ import annotations

import pytest

from quorate.nouns import ANONYMOUS, Principal
from quorate.tls.node_ids import ANY_NODE, NodeIds

RULES = (
    r"RULE:^spiffe:\/\/east\/(?:quorum|controller)\/([0-9]+)$/$1/,"
    r"RULE:^CN=[a-z-]*-([0-9]+)\..*$/$1/,"
    r"RULE:^(?:quorum|broker)-(.*)$/$1/,"
    r"RULE:^(?:gateway|heartbeat)-[0-9]+$/*/"
)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("spiffe://east/quorum/1", 1),
        ("spiffe://east/controller/3001", 3001),
        ("spiffe://west/quorum/1", None),
        ("CN=east-quorum-2.east-quorum.kafka.svc,O=east", 2),
        ("quorum-7", 7),
        ("quorum-007", 7),
        ("broker-2147483647", 2**31 - 1),
        ("broker-2147483648", None),
        ("broker-", None),
        ("broker--1", None),
        ("broker-1 ", None),
        ("broker-\u0661", None),
        ("broker-*", ANY_NODE),
        ("gateway-1", ANY_NODE),
        ("gateway-1\n", None),
        ("alice", None),
        (ANONYMOUS.name, None),
        ("", None),
    ],
)
def test_the_first_rule_that_is_for_a_name_says_its_node(name: str, node: int | str | None) -> None:
    ids = NodeIds(RULES)
    principal = Principal("User", name)

    assert node == ids.of(principal)
    mine = () if not isinstance(node, int) else (node,)
    assert [other for other in (0, 1, 2, 3, 7, 3001, 2**31 - 1) if ids.allows(principal, other)] == (
        [0, 1, 2, 3, 7, 3001, 2**31 - 1] if node == ANY_NODE else list(mine)
    )
    assert ids.allows(principal, -1)  # a reader of the log that is no node


def test_one_certificate_for_all_nodes_is_said_and_not_assumed() -> None:
    ids = NodeIds("RULE:^cluster$/*/")

    assert (ANY_NODE, None) == (ids.of(Principal("User", "cluster")), ids.of(Principal("User", "admin")))


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("", "there is no rule"),
        ("quorum-1", "'quorum-1' is neither DEFAULT nor RULE"),
        ("RULE:(/$1/", "no regular expression"),
        ("RULE:a/$1/", "has 0 groups"),
    ],
)
def test_rules_that_are_none_are_refused(rules: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        NodeIds(rules)
