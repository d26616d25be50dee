"""AlterClientQuotas and DescribeClientQuotas: what may have which quota, and what a filter means."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from kraft.api.describe_client_quotas import DescribeClientQuotasRequest
from quorate.controller.commands.alter_client_quotas import alter_client_quotas, wanted_hosts
from quorate.controller.commands.describe_client_quotas import MatchType, describe_client_quotas
from quorate.errors import ErrorCode
from quorate.metadata.client_quotas import Entity
from quorate.records import ClientQuotaRecord
from tests.controller.clusters import Cluster

Asked = AlterClientQuotasRequest.EntryData
Part = AlterClientQuotasRequest.EntryData.EntityData
Op = AlterClientQuotasRequest.EntryData.OpData
Component = DescribeClientQuotasRequest.ComponentData
EXACT, DEFAULT, SPECIFIED = MatchType.EXACT, MatchType.DEFAULT, MatchType.SPECIFIED

ALICE: Entity = (("user", "alice"),)
ANYBODY: Entity = (("user", None),)
APP: Entity = (("client-id", "app"),)
ALICES_APP: Entity = (("client-id", "app"), ("user", "alice"))
ALICES_OTHERS: Entity = (("client-id", None), ("user", "alice"))
HOST: Entity = (("ip", "10.0.0.1"),)
ANYWHERE: Entity = (("ip", None),)


def asked(entity: Entity, *ops: Op) -> Asked:
    return Asked(tuple(Part(kind, name) for kind, name in entity), ops)


def altered(cluster: Cluster, *entries: Asked, hosts: tuple[str, ...] = (), **changes: Any) -> list[ErrorCode]:
    request = AlterClientQuotasRequest(entries, **changes)
    response = cluster.write(alter_client_quotas(request, known_hosts=hosts))
    return [ErrorCode(entry.error_code) for entry in response.entries]


def quotas(cluster: Cluster) -> dict[Entity, dict[str, float]]:
    return {entity: dict(cluster.state.client_quotas.of(entity)) for entity in cluster.state.client_quotas}


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (ALICE, "producer_byte_rate", 1024.0),
        (ANYBODY, "consumer_byte_rate", 2.0**63),
        (APP, "request_percentage", 0.5),
        (ALICES_APP, "controller_mutation_rate", 1e-9),
        (ALICES_OTHERS, "producer_byte_rate", 5.0000001),
        (HOST, "connection_creation_rate", 2.0**31 - 1),
        (ANYWHERE, "connection_creation_rate", 1.0),
        ((("ip", "2001:db8::1"),), "connection_creation_rate", 1.0),
    ],
    ids=str,
)
def test_sets_a_quota(entity: Entity, key: str, value: float) -> None:
    cluster = Cluster(25)

    assert [ErrorCode.NONE] == altered(cluster, asked(entity, Op(key, value)))
    assert {entity: {key: value}} == quotas(cluster)


@pytest.mark.parametrize(
    ("entity", "op", "says"),
    [
        ((), Op("producer_byte_rate", 1.0), "an entity without parts"),
        ((("group", "g"),), Op("producer_byte_rate", 1.0), "there is no entity type 'group'"),
        ((("user", ""),), Op("producer_byte_rate", 1.0), "a name is not empty"),
        ((("user", "a"), ("user", "b")), Op("producer_byte_rate", 1.0), "a part of an entity is there once"),
        ((("ip", "10.0.0.1"), ("user", "a")), Op("connection_creation_rate", 1.0), "goes with no user"),
        ((("client-id", None), ("ip", None)), Op("connection_creation_rate", 1.0), "goes with no user"),
        ((("ip", "10.0.0.256"),), Op("connection_creation_rate", 1.0), "'10.0.0.256' is no address"),
        ((("ip", "nowhere.example"),), Op("connection_creation_rate", 1.0), "'nowhere.example' is no address"),
        (ALICE, Op("connection_creation_rate", 1.0), "user 'alice' has no quota 'connection_creation_rate'"),
        (HOST, Op("producer_byte_rate", 1.0), "ip '10.0.0.1' has no quota 'producer_byte_rate'"),
        (ALICE, Op("speed", 1.0), "has no quota 'speed'"),
        (ALICE, Op("request_percentage", 0.0), "request_percentage 0 is not a finite number above 0"),
        (ALICE, Op("request_percentage", -1.0), "not a finite number above 0"),
        (ALICE, Op("request_percentage", math.nan), "not a finite number above 0"),
        (ALICE, Op("request_percentage", math.inf), "not a finite number above 0"),
        (ALICE, Op("producer_byte_rate", 1.5), "producer_byte_rate 1.5 is not a whole number"),
        (ALICE, Op("producer_byte_rate", 0.9999999), "not a whole number"),
        (ALICE, Op("producer_byte_rate", 1e19), "is above 9223372036854775808"),
        (HOST, Op("connection_creation_rate", 2.0**31), "is above 2147483647"),
        (HOST, Op("connection_creation_rate", 1.5), "not a whole number"),
    ],
    ids=str,
)
def test_refuses_what_cannot_be_and_takes_the_others(entity: Entity, op: Op, says: str) -> None:
    """Kafka: ClientQuotaControlManager, validateEntity, configKeysForEntityType and validateQuotaKeyValue."""
    cluster = Cluster(25)
    request = AlterClientQuotasRequest((asked(entity, op), asked(APP, Op("producer_byte_rate", 1.0))))
    response = cluster.write(alter_client_quotas(request))

    assert [ErrorCode.INVALID_REQUEST, ErrorCode.NONE] == [ErrorCode(each.error_code) for each in response.entries]
    assert says in (response.entries[0].error_message or "")
    assert [APP] == list(quotas(cluster))


def test_all_of_an_entity_or_nothing() -> None:
    cluster = Cluster(25)
    good, bad = Op("producer_byte_rate", 1.0), Op("consumer_byte_rate", -1.0)

    assert [ErrorCode.INVALID_REQUEST] == altered(cluster, asked(ALICE, good, bad))
    assert {} == quotas(cluster)


@pytest.mark.parametrize(
    "entries",
    [
        (asked(ALICE, Op("producer_byte_rate", 1.0)), asked(ALICE, Op("consumer_byte_rate", 1.0))),
        (asked(ALICE, Op("producer_byte_rate", 1.0), Op("producer_byte_rate", 0.0, remove=True)),),
    ],
    ids=["an entity", "a key"],
)
def test_what_is_twice_in_a_request_changes_nothing(entries: tuple[Asked, ...]) -> None:
    """Kafka answers so, too, but writes the first of two entities."""
    cluster = Cluster(25)

    assert [ErrorCode.INVALID_REQUEST] == altered(cluster, *entries)
    assert {} == quotas(cluster)


def test_removes_a_quota_and_with_the_last_one_the_entity() -> None:
    cluster = Cluster(25)
    altered(cluster, asked(ALICE, Op("producer_byte_rate", 1.0), Op("request_percentage", 2.0)))

    assert [ErrorCode.NONE] == altered(cluster, asked(ALICE, Op("producer_byte_rate", remove=True)))
    assert {ALICE: {"request_percentage": 2.0}} == quotas(cluster)
    assert [ErrorCode.NONE] == altered(cluster, asked(ALICE, Op("request_percentage", remove=True)))
    assert {} == quotas(cluster)


@pytest.mark.parametrize(
    "op",
    [Op("producer_byte_rate", 1.0), Op("consumer_byte_rate", remove=True), Op("no such key", remove=True)],
    ids=["set as it is", "remove what is not set", "remove what there never is"],
)
def test_what_changes_nothing_is_granted_and_not_written(op: Op) -> None:
    cluster = Cluster(25)
    altered(cluster, asked(ALICE, Op("producer_byte_rate", 1.0)))
    decision = cluster.decide(alter_client_quotas(AlterClientQuotasRequest((asked(ALICE, op),))))

    assert (0, ()) == (decision.response.entries[0].error_code, decision.records)


def test_a_record_names_the_parts_by_type() -> None:
    request = AlterClientQuotasRequest(
        (asked((("user", "alice"), ("client-id", None)), Op("request_percentage", 7.0)),)
    )
    decision = Cluster(25).decide(alter_client_quotas(request))

    parts = (ClientQuotaRecord.EntityData("client-id", None), ClientQuotaRecord.EntityData("user", "alice"))
    assert (ClientQuotaRecord(parts, "request_percentage", 7.0),) == decision.records
    assert ALICES_OTHERS == tuple((p.entity_type, p.entity_name) for p in decision.response.entries[0].entity)


def test_when_only_asked_whether_it_could_nothing_is_written() -> None:
    cluster = Cluster(25)
    good, bad = asked(ALICE, Op("producer_byte_rate", 1.0)), asked(APP, Op("speed", 1.0))

    assert [ErrorCode.NONE, ErrorCode.INVALID_REQUEST] == altered(cluster, good, bad, validate_only=True)
    assert {} == quotas(cluster)


def test_a_host_counts_as_an_address_if_it_can_be_looked_up() -> None:
    cluster = Cluster(25)
    known, unknown = (("ip", "a.example"),), (("ip", "b.example"),)
    entries = [asked(entity, Op("connection_creation_rate", 1.0)) for entity in (known, unknown, HOST, ANYWHERE)]

    assert {"a.example", "b.example"} == wanted_hosts(AlterClientQuotasRequest(tuple(entries)))
    assert [0, 42, 0, 0] == altered(cluster, *entries, hosts=("a.example",))
    assert {known, HOST, ANYWHERE} == set(quotas(cluster))


def described() -> Cluster:
    cluster = Cluster(25)
    op = Op("producer_byte_rate", 1.0)
    altered(cluster, *(asked(entity, op) for entity in (ALICE, ANYBODY, APP, ALICES_APP, ALICES_OTHERS)))
    altered(cluster, *(asked(entity, Op("connection_creation_rate", 1.0)) for entity in (HOST, ANYWHERE)))
    return cluster


def told(cluster: Cluster, *components: Component, strict: bool = False) -> list[Entity]:
    response = cluster.decide(describe_client_quotas(DescribeClientQuotasRequest(components, strict))).response
    return [tuple((part.entity_type, part.entity_name) for part in entry.entity) for entry in response.entries or ()]


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [ALICES_OTHERS, APP, ALICES_APP, ANYWHERE, HOST, ANYBODY, ALICE]),
        ([], True, []),
        ([Component("user", EXACT, "alice")], False, [ALICES_OTHERS, ALICES_APP, ALICE]),
        ([Component("user", EXACT, "alice")], True, [ALICE]),
        ([Component("user", DEFAULT, None)], False, [ANYBODY]),
        ([Component("user", SPECIFIED, None)], False, [ALICES_OTHERS, ALICES_APP, ANYBODY, ALICE]),
        ([Component("user", SPECIFIED, None)], True, [ANYBODY, ALICE]),
        (
            [Component("user", SPECIFIED, None), Component("client-id", DEFAULT, None)],
            True,
            [ALICES_OTHERS],
        ),
        ([Component("client-id", EXACT, "app"), Component("user", EXACT, "alice")], True, [ALICES_APP]),
        ([Component("client-id", EXACT, "app")], False, [APP, ALICES_APP]),
        ([Component("ip", SPECIFIED, None)], False, [ANYWHERE, HOST]),
        ([Component("ip", EXACT, "10.0.0.2")], False, []),
    ],
    ids=str,
)
def test_a_filter_means_these(components: list[Component], strict: bool, expected: list[Entity]) -> None:
    """Kafka: ClientQuotasImage.describe."""
    assert expected == told(described(), *components, strict=strict)


def test_tells_entities_and_keys_in_order() -> None:
    cluster = described()
    altered(cluster, asked(ALICE, Op("consumer_byte_rate", 2.0)))
    response = cluster.decide(describe_client_quotas(DescribeClientQuotasRequest())).response

    assert [ALICES_OTHERS, APP, ALICES_APP, ANYWHERE, HOST, ANYBODY, ALICE] == told(cluster)
    assert response.entries is not None
    assert [("consumer_byte_rate", 2.0), ("producer_byte_rate", 1.0)] == [
        (value.key, value.value) for value in response.entries[-1].values
    ]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([Component("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([Component("user", EXACT, "a"), Component("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([Component("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([Component("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("user", SPECIFIED, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([Component("ip", EXACT, "10.0.0.1"), Component("user", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("client-id", SPECIFIED, None), Component("ip", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
    ],
    ids=str,
)
def test_refuses_a_filter_that_can_match_nothing(components: list[Component], code: ErrorCode) -> None:
    request = DescribeClientQuotasRequest(tuple(components))

    assert code == described().refusal(describe_client_quotas(request)).code
