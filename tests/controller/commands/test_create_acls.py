"""CreateAcls: in which words an entry is refused. What may be one: `tables/create_acls.py`."""

from __future__ import annotations

import pytest

from tests.controller.tables.create_acls import TABLE
from tests.controller.words import words


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("an unknown resource type", "resource type 0 (UNKNOWN) is for filters only"),
        ("any resource type", "resource type 1 (ANY)"),
        ("a resource type without a name", "resource type 8 (UNKNOWN)"),
        ("any pattern", "pattern type 1 (ANY)"),
        ("what matches a pattern", "pattern type 2 (MATCH)"),
        ("any operation", "operation 1 (ANY)"),
        ("an operation without a name", "operation 16 (UNKNOWN)"),
        ("any permission", "permission type 1 (ANY)"),
        ("a permission without a name", "permission type -1 (UNKNOWN)"),
        ("a resource without a name", "the resource name is empty"),
        ("another cluster", "the only name of the CLUSTER resource is 'kafka-cluster'"),
        ("every cluster", "the only name of the CLUSTER resource"),
        ("a principal without a type", "principal 'alice' has no type"),
        ("no host", "a host is needed"),
        ("more bits than an IPv4 address has", "no network in CIDR notation"),
        ("a network of no address", "no network in CIDR notation"),
        ("a network of a part of an address", "no network in CIDR notation"),
        ("more bits than an IPv6 address has", "no network in CIDR notation"),
        ("bits in very many digits", "no network in CIDR notation"),
        ("a network of IPv4 inside IPv6", "no network in CIDR notation"),
        ("a network of a name", "no network in CIDR notation"),
        ("a network that is none, which some broker may not know", "which needs metadata.version 4.4-IV1"),
    ],
)
def test_says_why(case: str, says: str) -> None:
    assert says in words(TABLE, case)
