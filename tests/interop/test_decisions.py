"""Our authorizer decides as a released Kafka's StandardAuthorizer does, but where that one misses a wildcard."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from kraft import Uuid
from quorate.authorizer import Requester, Resource, StandardAuthorizer
from quorate.metadata.acls import WILDCARD, Acls, Operation, PatternType, ResourceType
from quorate.nouns import Principal
from quorate.records import AccessControlEntryRecord
from quorate.timeline import SnapshotRegistry
from tests.interop.kafka import decisions
from tests.interop.kafka.decisions import World
from tests.interop.kafka.release import absent

WORLDS = decisions.kept()
ANOTHER_SEED = 20_261_121


def acls_of(world: World, *, wildcards: bool = True) -> Acls:
    """The entries of a world; without `wildcards` those that name every resource of a type are left out."""
    acls = Acls(SnapshotRegistry())
    for number, fields in enumerate(world["entries"]):
        entry = AccessControlEntryRecord(Uuid(number.to_bytes(16, "big")), *fields)
        if wildcards or (entry.resource_name, entry.pattern_type) != (WILDCARD, PatternType.LITERAL):
            acls.add(entry, number)
    return acls


def authorizer_of(world: World) -> StandardAuthorizer:
    return StandardAuthorizer(
        super_users=frozenset(user.strip() for user in world["superUsers"].split(";")),
        allow_everyone_if_no_acl_found=world["open"],
    )


def differences(world: World) -> tuple[list[str], Counter[str]]:
    """What we decide otherwise, and how often both said what. Kafka does not take an entry for every resource as
    one for a name that begins with the wildcard itself (`*a`), and so may let in who is denied everything."""
    authorizer, acls, kafkas = authorizer_of(world), acls_of(world), acls_of(world, wildcards=False)
    found, results = [], Counter[str]()
    for kind, name, host, operation, resource_type, resource, result in world["decisions"]:
        who = Requester(principal=Principal(kind, name), host=host)
        seen = kafkas if resource.startswith(WILDCARD) and resource != WILDCARD else acls
        allowed = authorizer.allows(seen, who, Operation(operation), Resource(resource_type, resource))
        results[result] += 1
        if allowed != (result == "ALLOWED"):
            found.append(f"{who} {Operation(operation).name} {resource_type} {resource!r}: Kafka {result}")
    for kind, name, host, operation, resource_type, result in world["any"]:
        who = Requester(principal=Principal(kind, name), host=host)
        allowed = authorizer.allows_on_any(acls, who, Operation(operation), ResourceType(resource_type))
        results[f"any {result}"] += 1
        if allowed != (result == "ALLOWED"):
            found.append(f"{who} {Operation(operation).name} on any {resource_type}: Kafka {result}")
    return found, results


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"world {world['world']}")
def test_decides_as_kafka_did(world: World) -> None:
    assert [] == differences(world)[0]


def test_the_kept_worlds_show_something() -> None:
    results: Counter[str] = Counter()
    for world in WORLDS:
        results += differences(world)[1]

    assert 3_600 == results.total()
    assert min(results.values()) > 100, results
    assert {True, False} == {world["open"] for world in WORLDS}


def test_who_is_denied_everything_is_denied_names_that_begin_with_the_wildcard_too() -> None:
    """The one difference, on purpose: nobody who writes a denial for `*` means all but `*a`."""
    missed = [
        (world["world"], decision)
        for world in WORLDS
        for decision in world["decisions"]
        if decision[5].startswith(WILDCARD)
        and authorizer_of(world).allows(
            acls_of(world),
            Requester(principal=Principal(*decision[:2]), host=decision[2]),
            Operation(decision[3]),
            Resource(*decision[4:6]),
        )
        != (decision[6] == "ALLOWED")
    ]

    assert {"ALLOWED"} == {decision[6] for _, decision in missed}
    assert {WILDCARD} == {decision[5][0] for _, decision in missed}


@pytest.mark.interop
@pytest.mark.skipif(absent() is not None, reason=absent() or "")
def test_the_release_still_decides_as_it_did() -> None:
    assert WORLDS == [json.loads(line) for line in decisions.asked(decisions.SEED).splitlines()]


@pytest.mark.interop
@pytest.mark.skipif(absent() is not None, reason=absent() or "")
def test_decides_as_kafka_does_in_worlds_that_nobody_has_seen() -> None:
    worlds = [json.loads(line) for line in decisions.asked(ANOTHER_SEED).splitlines()]

    assert [] == [difference for world in worlds for difference in differences(world)[0]]
