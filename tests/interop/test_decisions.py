"""Our authorizer decides as Kafka's own StandardAuthorizer does, but where that one misses a denial."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from msgspec.structs import replace

from kraft import Uuid
from quorate.authorizer import AclResource, Requester, StandardAuthorizer
from quorate.metadata.acls import WILDCARD, AclOperation, AclPermission, Acls, PatternType, ResourceType
from quorate.nouns import Principal
from quorate.records import AccessControlEntryRecord
from quorate.timeline import SnapshotRegistry
from tests.interop.kafka import decisions
from tests.interop.kafka.decisions import World
from tests.interop.kafka.release import absent

WORLDS = decisions.kept()
PREFIXED = PatternType.PREFIXED
EVERYTHING = (WILDCARD, PatternType.LITERAL)
ANOTHER_SEED = 20_261_121


def entries_of(world: World) -> list[AccessControlEntryRecord]:
    return [
        AccessControlEntryRecord(Uuid(number.to_bytes(16, "big")), *fields)
        for number, fields in enumerate(world["entries"])
    ]


def acls_of(entries: list[AccessControlEntryRecord]) -> Acls:
    acls = Acls(SnapshotRegistry())
    for number, entry in enumerate(entries):
        acls.add(entry, number)
    return acls


def denials_of_everything(world: World) -> Acls:
    """The entries that deny every resource of a type, said of each name that begins with the wildcard."""
    return acls_of(
        [
            replace(entry, pattern_type=PREFIXED)
            for entry in entries_of(world)
            if (entry.resource_name, entry.pattern_type) == EVERYTHING and entry.permission_type == AclPermission.DENY
        ]
    )


def authorizer_of(world: World) -> StandardAuthorizer:
    return StandardAuthorizer(
        super_users=frozenset(user.strip() for user in world["superUsers"].split(";")),
        allow_everyone_if_no_acl_found=world["open"],
    )


def differences(world: World) -> tuple[list[str], Counter[str]]:
    """What we decide otherwise, and how often both said what. Kafka does not take an entry for every resource as
    one for a name that begins with the wildcard itself (`*a`), and so lets in who is denied everything: no other."""
    authorizer, acls, denials = authorizer_of(world), acls_of(entries_of(world)), denials_of_everything(world)
    found, results = [], Counter[str]()
    for kind, name, host, operation, resource_type, resource, result in world["decisions"]:
        who = Requester(principal=Principal(kind, name), host=host)
        asked = (who, AclOperation(operation), AclResource(resource_type, resource))
        is_missed = resource.startswith(WILDCARD) and resource != WILDCARD and is_denied(authorizer, denials, *asked)
        results[result] += 1
        if authorizer.allows(acls, *asked) != (result == "ALLOWED" and not is_missed):
            found.append(f"{who} {AclOperation(operation).name} {resource_type} {resource!r}: Kafka {result}")
    for kind, name, host, operation, resource_type, result in world["any"]:
        who = Requester(principal=Principal(kind, name), host=host)
        allowed = authorizer.allows_on_any(acls, who, AclOperation(operation), ResourceType(resource_type))
        results[f"any {result}"] += 1
        if allowed != (result == "ALLOWED"):
            found.append(f"{who} {AclOperation(operation).name} on any {resource_type}: Kafka {result}")
    return found, results


def is_denied(
    authorizer: StandardAuthorizer, acls: Acls, who: Requester, operation: AclOperation, resource: AclResource
) -> bool:
    """By an entry, and not for want of one."""
    return isinstance(authorizer.ruling(acls, who, operation, resource).because, AccessControlEntryRecord)


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


def test_the_kept_worlds_know_names_that_begin_with_the_wildcard() -> None:
    """Who took an entry for every resource as one for those, too, would decide otherwise than Kafka there."""
    others = []
    for world in WORLDS:
        entries = entries_of(world)
        everything = [entry for entry in entries if (entry.resource_name, entry.pattern_type) == EVERYTHING]
        wide = [replace(entry, id=Uuid(b"\xff" * 8 + entry.id[8:]), pattern_type=PREFIXED) for entry in everything]
        acls = acls_of([*entries, *wide])
        for kind, name, host, operation, resource_type, resource, result in world["decisions"]:
            who = Requester(principal=Principal(kind, name), host=host)
            asked = (who, AclOperation(operation), AclResource(resource_type, resource))
            if authorizer_of(world).allows(acls, *asked) != (result == "ALLOWED"):
                others.append(resource)

    assert others
    assert all(resource.startswith(WILDCARD) and resource != WILDCARD for resource in others), others


@pytest.mark.interop
@pytest.mark.skipif(absent() is not None, reason=absent() or "")
def test_the_release_still_decides_as_it_did() -> None:
    assert WORLDS == [json.loads(line) for line in decisions.asked(decisions.SEED).splitlines()]


@pytest.mark.interop
@pytest.mark.skipif(absent() is not None, reason=absent() or "")
def test_decides_as_kafka_does_in_worlds_that_nobody_has_seen() -> None:
    worlds = [json.loads(line) for line in decisions.asked(ANOTHER_SEED).splitlines()]

    assert [] == [difference for world in worlds for difference in differences(world)[0]]
