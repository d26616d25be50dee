"""AlterConfigs: what is not listed goes. Kafka: ConfigurationControlManager.legacyAlterConfigs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import pytest

from kraft import Message
from kraft.api.alter_configs import AlterConfigsRequest
from quorate.controller.commands.alter_configs import alter_configs
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER, BROKER_LOGGER, GROUP, TOPIC, Resource
from quorate.records import ClearElrRecord, ConfigRecord
from tests.controller.altering import ORDERS, record, with_orders
from tests.controller.clusters import Cluster

Asked: TypeAlias = AlterConfigsRequest.AlterConfigsResource
Config: TypeAlias = AlterConfigsRequest.AlterConfigsResource.AlterableConfig

ALL, ONE = Resource(BROKER, ""), Resource(BROKER, "1")


def asked(resource: Resource, configs: Mapping[str, str | None]) -> Asked:
    return Asked(resource.type, resource.name, tuple(Config(name, value) for name, value in configs.items()))


def written(cluster: Cluster, *resources: Asked, validate_only: bool = False) -> tuple[Message, ...]:
    request = AlterConfigsRequest(resources=resources, validate_only=validate_only)
    return cluster.decide(alter_configs(request, settings=cluster.settings)).records


def altered(cluster: Cluster, *resources: Asked) -> list[tuple[Resource, ErrorCode]]:
    request = AlterConfigsRequest(resources=resources)
    response = cluster.write(alter_configs(request, settings=cluster.settings))
    return [
        (Resource(each.resource_type, each.resource_name), ErrorCode(each.error_code)) for each in response.responses
    ]


REPLACED: dict[str, tuple[dict[str, str], dict[str, str | None], dict[str, str | None]]] = {
    "the first ones": ({}, {"flush.ms": "1", "flush.messages": "2"}, {"flush.ms": "1", "flush.messages": "2"}),
    "another value": ({"flush.ms": "1"}, {"flush.ms": "2"}, {"flush.ms": "2"}),
    "as it is": ({"flush.ms": "1"}, {"flush.ms": "1"}, {}),
    "others": (
        {"segment.ms": "3", "flush.ms": "1", "flush.messages": "2"},
        {"flush.ms": "1", "retention.ms": "4"},
        {"retention.ms": "4", "flush.messages": None, "segment.ms": None},
    ),
    "none any more": ({"flush.ms": "1"}, {}, {"flush.ms": None}),
    "none as before": ({}, {}, {}),
}


@pytest.mark.parametrize(("before", "listed", "records"), REPLACED.values(), ids=REPLACED)
def test_a_topic_has_what_is_listed_and_nothing_else(
    before: dict[str, str], listed: dict[str, str | None], records: dict[str, str | None]
) -> None:
    cluster = with_orders(before)

    assert tuple(record(ORDERS, *each) for each in records.items()) == written(cluster, asked(ORDERS, listed))
    assert [(ORDERS, ErrorCode.NONE)] == altered(cluster, asked(ORDERS, listed))
    assert listed == cluster.state.configs.of(*ORDERS)


REFUSED: dict[str, tuple[Resource, dict[str, str | None], ErrorCode]] = {
    "no value": (ORDERS, {"flush.ms": None}, ErrorCode.INVALID_REQUEST),
    "no value of it": (ORDERS, {"flush.ms": "x"}, ErrorCode.INVALID_CONFIG),
    "no such config": (ORDERS, {"no.such.config": "x"}, ErrorCode.INVALID_CONFIG),
    "no such topic": (Resource(TOPIC, "nobody"), {"flush.ms": "1"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "all topics": (Resource(TOPIC, ""), {"flush.ms": "1"}, ErrorCode.INVALID_REQUEST),
    "no such broker": (Resource(BROKER, "9"), {}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    "in the file only": (ONE, {"log.dirs": "/d"}, ErrorCode.INVALID_REQUEST),
    "loggers": (Resource(BROKER_LOGGER, "1"), {"root": "INFO"}, ErrorCode.INVALID_REQUEST),
    "a type that there is not": (Resource(99, "1"), {}, ErrorCode.UNSUPPORTED_VERSION),
}


@pytest.mark.parametrize(("resource", "listed", "code"), REFUSED.values(), ids=REFUSED)
def test_one_that_cannot_be_does_not_keep_the_others(
    resource: Resource, listed: dict[str, str | None], code: ErrorCode
) -> None:
    cluster = with_orders({"segment.ms": "3"})
    group = Resource(GROUP, "payments")

    assert [(resource, code), (group, ErrorCode.NONE)] == altered(
        cluster, asked(resource, listed), asked(group, {"share.auto.offset.reset": "earliest"})
    )
    assert {"segment.ms": "3"} == cluster.state.configs.of(*ORDERS)


def test_twice_one_config_or_one_resource_is_refused() -> None:
    cluster = with_orders()
    twice = Asked(TOPIC, "orders", (Config("flush.ms", "1"), Config("flush.ms", "2")))

    assert [(ORDERS, ErrorCode.INVALID_REQUEST)] == altered(cluster, twice)
    assert [(ORDERS, ErrorCode.INVALID_REQUEST)] == altered(cluster, asked(ORDERS, {}), asked(ORDERS, {}))


def test_of_brokers_what_is_as_it_is_is_written_too() -> None:
    cluster = with_orders()
    listed = asked(ONE, {"background.threads": "5"})
    altered(cluster, asked(ONE, {"num.io.threads": "5"}))
    first = (record(ONE, "background.threads", "5"), record(ONE, "num.io.threads", None))

    assert first == written(cluster, listed)
    assert [(ONE, ErrorCode.NONE)] == altered(cluster, listed)
    assert first[:1] == written(cluster, listed)


def test_asked_only_to_validate_it_writes_nothing() -> None:
    cluster = with_orders()

    assert () == written(cluster, asked(ORDERS, {"flush.ms": "1"}), validate_only=True)


def test_with_elr_the_cluster_keeps_its_least_in_sync_replicas() -> None:
    """What is left out is deleted, and this must not be."""
    cluster = with_orders(elr=True)
    cluster.apply((ConfigRecord(BROKER, "", "min.insync.replicas", "1"),))

    assert [(ALL, ErrorCode.INVALID_CONFIG)] == altered(cluster, asked(ALL, {"background.threads": "5"}))
    assert [(ALL, ErrorCode.NONE)] == altered(
        cluster, asked(ALL, {"background.threads": "5", "min.insync.replicas": "1"})
    )


def test_with_elr_a_topic_that_loses_its_own_least_in_sync_replicas_loses_its_elr() -> None:
    cluster = with_orders({"min.insync.replicas": "2"}, elr=True)

    assert (record(ORDERS, "min.insync.replicas", None), ClearElrRecord("orders")) == written(
        cluster, asked(ORDERS, {})
    )
