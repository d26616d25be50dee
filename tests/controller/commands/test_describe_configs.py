"""DescribeConfigs: what is set, what counts, where it comes from, and what is nobody's to know. Kafka: ConfigHelper."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from kraft.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from quorate.controller.commands.describe_configs import describe_configs
from quorate.controller.configs.broker import DYNAMIC
from quorate.controller.configs.broker_file import FILE_ONLY, INTERNAL
from quorate.controller.configs.topic import CONFIGS
from quorate.controller.configs.values import Source, ValueType
from quorate.controller.settings import Settings
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, Resource
from quorate.records import ConfigRecord
from tests.controller.clusters import Cluster

Asked: TypeAlias = DescribeConfigsRequest.DescribeConfigsResource
Result: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult
Config: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
Synonym: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult.DescribeConfigsSynonym

ORDERS, BILLS = Resource(TOPIC, "orders"), Resource(TOPIC, "bills")
ONE, ALL = Resource(BROKER, "1"), Resource(BROKER, "")
PAYMENTS, PHONES = Resource(GROUP, "payments"), Resource(CLIENT_METRICS, "phones")
FILE = {
    "log.retention.hours": "2",
    "log.roll.hours": "3",
    "ssl.key.password": "hush-static",
    "no.such.static": "hush-unknown",
    "group.consumer.session.timeout.ms": "50000",
    "group.streams.assignors": "sticky,own",
}
SET = (
    (ORDERS, "flush.ms", "1"),
    (ORDERS, "remote.log.copy.disable", "true"),
    (BILLS, "message.format.version", "hush-3.0"),
    (ONE, "background.threads", "9"),
    (ONE, "listener.name.internal.ssl.key.password", "hush-listener"),
    (ONE, "listener.name.internal.plain.sasl.jaas.config", "hush-jaas"),
    (ONE, "listener.name.internal.ssl.client.auth", "required"),
    (ALL, "background.threads", "8"),
    (ALL, "log.flush.interval.ms", "7"),
    (ALL, "no.such.config", "hush-plugin"),
    (ALL, "log.roll.ms", "99"),
    (ALL, "group.consumer.assignment.interval.ms", "2000"),
    # No controller would write these today; a log may have them, and then no broker heeds them.
    (ALL, "min.insync.replicas", "none"),
    (ALL, "group.share.session.timeout.ms", "46000"),
    (ONE, "num.io.threads", "0"),
    (PAYMENTS, "share.auto.offset.reset", "earliest"),
    (PAYMENTS, "no.such.config", "hush-group"),
    (PAYMENTS, "streams.num.warmup.replicas", "3"),
    (PHONES, "interval.ms", "100"),
)


def cluster() -> Cluster:
    made = Cluster(33, settings=Settings(static_configs=FILE)).brokers(1, 2)
    made.topic("orders", [1])
    made.topic("bills", [1])
    made.apply(ConfigRecord(resource.type, resource.name, name, value) for resource, name, value in SET)
    return made


def described(resource: Resource, *keys: str, include_synonyms: bool = False) -> Result:
    asked = Asked(resource.type, resource.name, keys or None)
    request = DescribeConfigsRequest(resources=(asked,), include_synonyms=include_synonyms, include_documentation=True)
    made = cluster()
    decision = made.decide(describe_configs(request, settings=made.settings))
    assert () == decision.records
    return decision.response.results[0]


def config(resource: Resource, name: str) -> Config:
    """As it is answered, synonyms included."""
    (found,) = described(resource, name, include_synonyms=True).configs
    return found


def test_a_topic_has_every_config_by_name() -> None:
    result = described(ORDERS)

    assert (0, None, TOPIC, "orders") == (
        result.error_code,
        result.error_message,
        result.resource_type,
        result.resource_name,
    )
    assert list(CONFIGS) == [each.name for each in result.configs]
    assert {"flush.ms", "remote.log.copy.disable"} == {
        each.name for each in result.configs if each.config_source == Source.TOPIC
    }
    assert all(each.value is not None and not each.is_sensitive and not each.read_only for each in result.configs)
    assert {()} == {each.synonyms for each in result.configs}
    assert {None} == {each.documentation for each in result.configs}


def test_what_only_another_version_knows_is_there_by_name() -> None:
    """Kafka tells it, with no value: ConfigHelperUtils.createResponseConfig takes all that is set on the topic."""
    result = described(BILLS)

    assert sorted([*CONFIGS, "message.format.version"]) == [each.name for each in result.configs]
    assert ["message.format.version"] == [each.name for each in result.configs if each.config_source == Source.TOPIC]


def shown(
    name: str, value: str | None, value_type: ValueType, *sets: tuple[str, str | None, Source], read_only: bool = False
) -> Config:
    """What is expected: the first of `sets` is the source."""
    return Config(
        name=name,
        value=value,
        read_only=read_only,
        config_source=sets[0][2] if sets else Source.DEFAULT,
        synonyms=tuple(Synonym(*each) for each in sets),
        config_type=value_type,
        documentation=None,
    )


SHOWN = {
    "a topic's own": (
        ORDERS,
        shown(
            "flush.ms",
            "1",
            ValueType.LONG,
            ("flush.ms", "1", Source.TOPIC),
            ("log.flush.interval.ms", "7", Source.CLUSTER),
            ("log.flush.scheduler.interval.ms", "9223372036854775807", Source.DEFAULT),
        ),
    ),
    "all brokers' for a topic": (
        BILLS,
        shown(
            "flush.ms",
            "7",
            ValueType.LONG,
            ("log.flush.interval.ms", "7", Source.CLUSTER),
            ("log.flush.scheduler.interval.ms", "9223372036854775807", Source.DEFAULT),
        ),
    ),
    # A value in the topic's unit, a synonym in its own; and what is set in another unit only is told of by nobody.
    "the file's for a topic, in another unit": (ORDERS, shown("retention.ms", "7200000", ValueType.LONG)),
    "all brokers' for a topic, and the file's in another unit": (
        ORDERS,
        shown(
            "segment.ms",
            "99",
            ValueType.LONG,
            ("log.roll.ms", "99", Source.CLUSTER),
            ("log.roll.hours", "3", Source.STATIC),
            ("log.roll.hours", "168", Source.DEFAULT),
        ),
    ),
    "what no broker would take for all, for a topic": (
        ORDERS,
        shown("min.insync.replicas", "1", ValueType.INT, ("min.insync.replicas", "1", Source.DEFAULT)),
    ),
    "the default of a topic's that no broker config stands in for": (
        ORDERS,
        shown("remote.storage.enable", "false", ValueType.BOOLEAN),
    ),
    "a topic's own that no broker config stands in for": (
        ORDERS,
        shown("remote.log.copy.disable", "true", ValueType.BOOLEAN, ("remote.log.copy.disable", "true", Source.TOPIC)),
    ),
    "a list of a topic's": (
        ORDERS,
        shown("cleanup.policy", "delete", ValueType.LIST, ("log.cleanup.policy", "delete", Source.DEFAULT)),
    ),
    "a broker's own": (
        ONE,
        shown(
            "background.threads",
            "9",
            ValueType.INT,
            ("background.threads", "9", Source.BROKER),
            ("background.threads", "8", Source.CLUSTER),
            ("background.threads", "10", Source.DEFAULT),
        ),
    ),
    "a listener's": (
        ONE,
        shown(
            "listener.name.internal.ssl.client.auth",
            "required",
            ValueType.STRING,
            ("listener.name.internal.ssl.client.auth", "required", Source.BROKER),
            ("ssl.client.auth", "none", Source.DEFAULT),
        ),
    ),
    "the file's": (
        ONE,
        shown(
            "log.retention.hours",
            "2",
            ValueType.INT,
            ("log.retention.hours", "2", Source.STATIC),
            ("log.retention.hours", "168", Source.DEFAULT),
            read_only=True,
        ),
    ),
    "nothing": (ONE, shown("broker.rack", None, ValueType.STRING, read_only=True)),
    "all brokers'": (
        ALL,
        shown("background.threads", "8", ValueType.INT, ("background.threads", "8", Source.CLUSTER)),
    ),
    "a group's own": (
        PAYMENTS,
        shown(
            "share.auto.offset.reset",
            "earliest",
            ValueType.STRING,
            ("share.auto.offset.reset", "earliest", Source.GROUP),
            ("share.auto.offset.reset", "latest", Source.DEFAULT),
        ),
    ),
    "all brokers' for a group": (
        PAYMENTS,
        shown(
            "consumer.assignment.interval.ms",
            "2000",
            ValueType.INT,
            ("group.consumer.assignment.interval.ms", "2000", Source.CLUSTER),
            ("group.consumer.assignment.interval.ms", "1000", Source.DEFAULT),
        ),
    ),
    "what only a file sets, for a group": (
        PAYMENTS,
        shown(
            "share.session.timeout.ms",
            "45000",
            ValueType.INT,
            ("group.share.session.timeout.ms", "45000", Source.DEFAULT),
        ),
    ),
    "what no broker takes, of a broker": (
        ONE,
        shown("num.io.threads", "8", ValueType.INT, ("num.io.threads", "8", Source.DEFAULT)),
    ),
    "the file's for a group": (
        PAYMENTS,
        shown(
            "consumer.session.timeout.ms",
            "50000",
            ValueType.INT,
            ("group.consumer.session.timeout.ms", "50000", Source.STATIC),
            ("group.consumer.session.timeout.ms", "45000", Source.DEFAULT),
        ),
    ),
    "the first assignor that there may be": (
        PAYMENTS,
        shown(
            "streams.assignor.name",
            "sticky",
            ValueType.STRING,
            ("group.streams.assignors", "sticky", Source.STATIC),
            ("group.streams.assignors", "sticky", Source.DEFAULT),
        ),
    ),
    "a subscription's own": (
        PHONES,
        shown(
            "interval.ms",
            "100",
            ValueType.INT,
            ("interval.ms", "100", Source.CLIENT_METRICS),
        ),
    ),
    "the default of a subscription": (PHONES, shown("metrics", "", ValueType.LIST)),
}


@pytest.mark.parametrize(("resource", "expected"), SHOWN.values(), ids=SHOWN)
def test_shows(resource: Resource, expected: Config) -> None:
    assert expected == config(resource, expected.name)


def test_of_a_broker_all_is_shown_and_of_all_brokers_what_is_set() -> None:
    own = {name for resource, name, _ in SET if resource in (ONE, ALL)}
    known = DYNAMIC.keys() | FILE_ONLY.keys()

    assert sorted((known - INTERNAL) | own | FILE.keys()) == [each.name for each in described(ONE).configs]
    assert sorted(name for resource, name, _ in SET if resource == ALL) == [
        each.name for each in described(ALL).configs
    ]


def test_what_is_for_kafkas_own_use_is_shown_where_it_is_set() -> None:
    name = "streams.num.warmup.replicas"

    assert [name] == [each.name for each in described(PAYMENTS, name).configs]
    assert [] == [each.name for each in described(Resource(GROUP, "others"), name).configs]


@pytest.mark.parametrize(
    ("resource", "name", "value_type"),
    [
        (ONE, "ssl.key.password", ValueType.PASSWORD),
        (ONE, "sasl.jaas.config", ValueType.PASSWORD),
        (ONE, "listener.name.internal.ssl.key.password", ValueType.PASSWORD),
        (ONE, "listener.name.internal.plain.sasl.jaas.config", ValueType.PASSWORD),
        # What nobody knows may be one.
        (ONE, "no.such.config", ValueType.UNKNOWN),
        (ONE, "no.such.static", ValueType.UNKNOWN),
        (ALL, "no.such.config", ValueType.UNKNOWN),
        (BILLS, "message.format.version", ValueType.UNKNOWN),
        (PAYMENTS, "no.such.config", ValueType.UNKNOWN),
    ],
)
def test_a_secret_has_no_value(resource: Resource, name: str, value_type: ValueType) -> None:
    found = config(resource, name)

    assert (True, None, value_type) == (found.is_sensitive, found.value, found.config_type)
    assert {None} >= {each.value for each in found.synonyms}


@pytest.mark.parametrize("resource", [ORDERS, BILLS, ONE, Resource(BROKER, "2"), ALL, PAYMENTS, PHONES])
def test_no_secret_is_anywhere(resource: Resource) -> None:
    assert "hush" not in str(described(resource, include_synonyms=True))


def test_only_what_is_asked_for_is_told_and_an_empty_list_asks_for_all() -> None:
    made = cluster()
    asked = tuple(Asked(*ORDERS, keys) for keys in (("segment.ms", "flush.ms", "no.such.config"), (), None))
    response = made.decide(describe_configs(DescribeConfigsRequest(resources=asked), settings=made.settings)).response

    assert [["flush.ms", "segment.ms"], list(CONFIGS), list(CONFIGS)] == [
        [each.name for each in result.configs] for result in response.results
    ]


REFUSED = {
    "no such topic": (Resource(TOPIC, "nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "no name of a topic": (Resource(TOPIC, "a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no topic": (Resource(TOPIC, ""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no such broker": (Resource(BROKER, "9"), ErrorCode.BROKER_ID_NOT_REGISTERED),
    "no broker": (Resource(BROKER, "one"), ErrorCode.INVALID_REQUEST),
    "no group": (Resource(GROUP, ""), ErrorCode.INVALID_REQUEST),
    "no subscription": (Resource(CLIENT_METRICS, ""), ErrorCode.INVALID_REQUEST),
    "loggers": (Resource(BROKER_LOGGER, "1"), ErrorCode.INVALID_REQUEST),
    "a type that there is not": (Resource(99, "1"), ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize(("resource", "code"), REFUSED.values(), ids=REFUSED)
def test_one_that_cannot_be_does_not_keep_the_others(resource: Resource, code: ErrorCode) -> None:
    made = cluster()
    request = DescribeConfigsRequest(resources=(Asked(*resource), Asked(*ORDERS)))
    results = made.decide(describe_configs(request, settings=made.settings)).response.results

    assert [(resource, code), (ORDERS, ErrorCode.NONE)] == [
        (Resource(each.resource_type, each.resource_name), each.error_code) for each in results
    ]
    assert (0, len(CONFIGS)) == (len(results[0].configs), len(results[1].configs))
