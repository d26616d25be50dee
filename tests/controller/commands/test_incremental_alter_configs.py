"""IncrementalAlterConfigs of topics, and what is refused of any. Kafka: ConfigurationControlManager, ControllerApis."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kraft import Message
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER_LOGGER, TOPIC, Resource
from quorate.records import ClearElrRecord
from tests.controller.altering import (
    ORDERS,
    Config,
    altered,
    append,
    asked,
    decided,
    delete,
    record,
    subtract,
    to_set,
    with_orders,
)


@dataclass(frozen=True)
class Case:
    """Configs of a topic that are set before; what is asked of it; the values that are written."""

    asked: tuple[Config, ...]
    written: dict[str, str | None]
    before: dict[str, str] = field(default_factory=dict)


WRITTEN = {
    "set": Case((to_set("retention.ms", "5"),), {"retention.ms": "5"}),
    "set anew": Case((to_set("retention.ms", "5"),), {"retention.ms": "5"}, {"retention.ms": "4"}),
    # Objects.equals(currentValue, newValue): nothing is written.
    "set as it is": Case((to_set("retention.ms", "5"),), {}, {"retention.ms": "5"}),
    # Values are text: what means the same is not the same.
    "set to what means the same": Case((to_set("retention.ms", "+5"),), {"retention.ms": "+5"}, {"retention.ms": "5"}),
    "set to the default": Case((to_set("retention.ms", "604800000"),), {"retention.ms": "604800000"}),
    "delete": Case((delete("retention.ms"),), {"retention.ms": None}, {"retention.ms": "5"}),
    "delete what is not set": Case((delete("retention.ms"),), {}),
    "delete what is no config": Case((delete("no.such.config"),), {}),
    "several, as they are asked for": Case(
        (to_set("segment.ms", "9"), delete("retention.ms"), to_set("flush.ms", "8")),
        {"segment.ms": "9", "retention.ms": None, "flush.ms": "8"},
        {"retention.ms": "5"},
    ),
    "nothing": Case((), {}),
    # getParts(): a list that is not set begins as Kafka's default.
    "append to the default": Case((append("cleanup.policy", "compact"),), {"cleanup.policy": "delete,compact"}),
    "append what the default has": Case((append("cleanup.policy", "delete"),), {"cleanup.policy": "delete"}),
    "append to what is set": Case(
        (append("cleanup.policy", "delete"),), {"cleanup.policy": "compact,delete"}, {"cleanup.policy": "compact"}
    ),
    "append what is there": Case((append("cleanup.policy", "compact"),), {}, {"cleanup.policy": "compact"}),
    "append twice the same": Case(
        (append("follower.replication.throttled.replicas", "0:1,0:1,1:2"),),
        {"follower.replication.throttled.replicas": "0:1,1:2"},
    ),
    "subtract": Case(
        (subtract("leader.replication.throttled.replicas", "1:2"),),
        {"leader.replication.throttled.replicas": "0:1"},
        {"leader.replication.throttled.replicas": "0:1,1:2"},
    ),
    "subtract from the default": Case((subtract("cleanup.policy", "delete"),), {"cleanup.policy": ""}),
    "subtract what is not there": Case((subtract("cleanup.policy", "compact"),), {"cleanup.policy": "delete"}, {}),
    "subtract one of two alike": Case(
        (subtract("leader.replication.throttled.replicas", "0:1"),),
        {"leader.replication.throttled.replicas": "0:1"},
        {"leader.replication.throttled.replicas": "0:1,0:1"},
    ),
    # ListConfig parts are not trimmed, unlike values when they are read.
    "subtract regards blanks": Case(
        (subtract("leader.replication.throttled.replicas", "1:2"),),
        {},
        {"leader.replication.throttled.replicas": "0:1, 1:2"},
    ),
    "what a value may be": Case((to_set("segment.bytes", " 1048576 "),), {"segment.bytes": " 1048576 "}),
    "the longest list": Case(
        (to_set("follower.replication.throttled.replicas", "0:1,1:1" + ",0:1" * 8_190),),
        {"follower.replication.throttled.replicas": "0:1,1:1" + ",0:1" * 8_190},
    ),
}


@pytest.mark.parametrize("case", WRITTEN.values(), ids=WRITTEN)
def test_writes(case: Case) -> None:
    cluster = with_orders(case.before)
    expected = [record(ORDERS, name, value) for name, value in case.written.items()]

    assert expected == list(decided(cluster, asked(ORDERS, *case.asked)).records)
    assert [(ORDERS, ErrorCode.NONE)] == altered(cluster, asked(ORDERS, *case.asked))

    after = {name: value for name, value in {**case.before, **case.written}.items() if value is not None}
    assert after == cluster.state.configs.of(*ORDERS)


REFUSED = {
    "no such config": ((to_set("no.such.config", "1"),), ErrorCode.INVALID_CONFIG),
    "no value of it": ((to_set("segment.bytes", "7"),), ErrorCode.INVALID_CONFIG),
    "no list of it": ((append("cleanup.policy", "shred"),), ErrorCode.INVALID_CONFIG),
    "append to what is no list": ((append("retention.ms", "5"),), ErrorCode.INVALID_CONFIG),
    "subtract from what is no list": ((subtract("compression.type", "gzip"),), ErrorCode.INVALID_CONFIG),
    "append to no config": ((append("no.such.config", "5"),), ErrorCode.INVALID_CONFIG),
    "too long": (
        (to_set("follower.replication.throttled.replicas", "0:1" + ",0:1" * 8_192),),
        ErrorCode.INVALID_CONFIG,
    ),
    "cannot go together": (
        (to_set("min.compaction.lag.ms", "10"), to_set("max.compaction.lag.ms", "9")),
        ErrorCode.INVALID_CONFIG,
    ),
    "tiered storage that nobody has": ((to_set("remote.storage.enable", "true"),), ErrorCode.INVALID_CONFIG),
    # A Kafka broker refuses these before a controller sees them: ConfigAdminManager.preprocess.
    "no value at all": ((to_set("retention.ms", None),), ErrorCode.INVALID_REQUEST),
    "nothing to append": ((append("cleanup.policy", None),), ErrorCode.INVALID_REQUEST),
    "twice one config": ((to_set("retention.ms", "5"), delete("retention.ms")), ErrorCode.INVALID_REQUEST),
    "no operation": ((Config("retention.ms", 4, "5"),), ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize(("configs", "code"), REFUSED.values(), ids=REFUSED)
def test_refuses_a_resource_and_changes_nothing_of_it(configs: tuple[Config, ...], code: ErrorCode) -> None:
    cluster = with_orders({"flush.ms": "3"})
    decision = decided(cluster, asked(ORDERS, to_set("segment.ms", "9"), *configs))

    assert () == decision.records
    assert [(ORDERS, code)] == altered(cluster, asked(ORDERS, to_set("segment.ms", "9"), *configs))
    assert {"flush.ms": "3"} == cluster.state.configs.of(*ORDERS)


NAMES = {
    # Kafka validates first and looks for the topic then.
    "no such topic": (Resource(TOPIC, "nobody"), to_set("flush.ms", "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "no such topic, no value": (Resource(TOPIC, "nobody"), to_set("flush.ms", "x"), ErrorCode.INVALID_CONFIG),
    "no name of a topic": (Resource(TOPIC, "a/b"), to_set("flush.ms", "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "all topics": (Resource(TOPIC, ""), to_set("flush.ms", "1"), ErrorCode.INVALID_REQUEST),
    "loggers": (Resource(BROKER_LOGGER, "1"), to_set("root", "INFO"), ErrorCode.INVALID_REQUEST),
    "a type that there is not": (Resource(3, "x"), to_set("flush.ms", "1"), ErrorCode.UNSUPPORTED_VERSION),
    "no type": (Resource(0, "x"), to_set("flush.ms", "1"), ErrorCode.UNSUPPORTED_VERSION),
}


@pytest.mark.parametrize(("resource", "config", "code"), NAMES.values(), ids=NAMES)
def test_one_that_cannot_be_does_not_keep_the_others(resource: Resource, config: Config, code: ErrorCode) -> None:
    cluster = with_orders()

    assert [(resource, code), (ORDERS, ErrorCode.NONE)] == altered(
        cluster, asked(resource, config), asked(ORDERS, to_set("flush.ms", "1"))
    )
    assert [ORDERS] == list(cluster.state.configs)


def test_a_resource_that_is_asked_for_twice_is_refused_once_and_stays() -> None:
    cluster = with_orders()
    cluster.topic("bills", [1])
    bills = Resource(TOPIC, "bills")
    one, other = asked(ORDERS, to_set("flush.ms", "1")), asked(ORDERS, to_set("segment.ms", "2"))

    assert [(ORDERS, ErrorCode.INVALID_REQUEST), (bills, ErrorCode.NONE)] == altered(
        cluster, one, asked(bills, to_set("flush.ms", "3")), other, one
    )
    assert [bills] == list(cluster.state.configs)


def test_asked_only_to_validate_it_answers_alike_and_writes_nothing() -> None:
    cluster = with_orders()
    resources = (asked(ORDERS, to_set("flush.ms", "1")), asked(Resource(TOPIC, "nobody"), delete("flush.ms")))
    meant, asked_only = decided(cluster, *resources), decided(cluster, *resources, validate_only=True)

    assert meant.response == asked_only.response
    assert (record(ORDERS, "flush.ms", "1"),) == meant.records
    assert () == asked_only.records


def test_says_what_is_wrong() -> None:
    cluster = with_orders()
    request = IncrementalAlterConfigsRequest(resources=(asked(ORDERS, append("retention.ms", "5")),))
    response = cluster.write(incremental_alter_configs(request, settings=cluster.settings))

    assert ["topic 'orders': APPEND retention.ms, which is no list"] == [
        each.error_message for each in response.responses
    ]


ELR = {
    "a topic's own": ((ORDERS, to_set("min.insync.replicas", "2")), [ClearElrRecord("orders")]),
    "a topic's own goes": ((Resource(TOPIC, "bills"), delete("min.insync.replicas")), [ClearElrRecord("bills")]),
    "as it is": ((Resource(TOPIC, "bills"), to_set("min.insync.replicas", "1")), []),
    "another config": ((ORDERS, to_set("flush.ms", "2")), []),
}


@pytest.mark.parametrize(("change", "cleared"), ELR.values(), ids=ELR)
def test_other_least_in_sync_replicas_end_the_eligibility(
    change: tuple[Resource, Config], cleared: list[Message]
) -> None:
    resource, config = change
    cluster = with_orders(elr=True)
    cluster.topic("bills", [1], min_insync_replicas="1")
    records = decided(cluster, asked(resource, config)).records

    assert cleared == [each for each in records if isinstance(each, ClearElrRecord)]


def test_eligibility_ends_after_all_configs_are_written() -> None:
    cluster = with_orders(elr=True)
    cluster.topic("bills", [1])
    bills = Resource(TOPIC, "bills")
    least = to_set("min.insync.replicas", "2")

    assert (
        record(ORDERS, "min.insync.replicas", "2"),
        record(bills, "min.insync.replicas", "2"),
        ClearElrRecord("orders"),
        ClearElrRecord("bills"),
    ) == decided(cluster, asked(ORDERS, least), asked(bills, least)).records


def test_without_the_feature_there_is_no_eligibility_to_end() -> None:
    cluster = with_orders()

    assert (record(ORDERS, "min.insync.replicas", "2"),) == decided(
        cluster, asked(ORDERS, to_set("min.insync.replicas", "2"))
    ).records
