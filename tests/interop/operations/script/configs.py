"""What is set on topics, brokers, groups and client metrics; and what may not be."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kraft.api.alter_configs import AlterConfigsRequest
from kraft.api.describe_configs import DescribeConfigsRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kraft.errors import ErrorCode as E
from tests.interop.operations.script.ask import ask, but_ours, create, delete, laid_out
from tests.interop.operations.step import Ask, Step

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
Whole = AlterConfigsRequest.AlterConfigsResource


def alter(
    name: str,
    kind: int,
    resource: str,
    *changes: tuple[int, str, str | None],
    errors: Collection[E] = (),
    dry: bool = False,
) -> Ask:
    """IncrementalAlterConfigs of one resource: (operation, config, value)."""
    return ask(name, IncrementalAlterConfigsRequest((changed(kind, resource, *changes),), dry), *errors)


def changed(kind: int, resource: str, *changes: tuple[int, str, str | None]) -> Resource:
    return Resource(kind, resource, tuple(Resource.AlterableConfig(key, how, value) for how, key, value in changes))


def replace(
    name: str, kind: int, resource: str, *values: tuple[str, str | None], errors: Collection[E] = (), dry: bool = False
) -> Ask:
    """AlterConfigs of one resource: what is not named is gone."""
    configs = tuple(Whole.AlterableConfig(key, value) for key, value in values)
    return ask(name, AlterConfigsRequest((Whole(kind, resource, configs),), dry), *errors)


def describe(name: str, kind: int, resource: str, *errors: E, keys: tuple[str, ...] | None = None) -> Ask:
    """DescribeConfigs of one resource; None for all of its keys."""
    wanted = DescribeConfigsRequest.DescribeConfigsResource(kind, resource, keys)
    return ask(name, DescribeConfigsRequest((wanted,), include_synonyms=True), *errors)


OF_TOPICS: Final[tuple[Step, ...]] = (
    create("a topic to set", laid_out("set", (101, 102, 103))),
    alter("one", TOPIC, "set", (SET, "retention.ms", "60000")),
    alter("the same value again", TOPIC, "set", (SET, "retention.ms", "60000")),
    alter("several", TOPIC, "set", (SET, "segment.ms", "3600000"), (SET, "cleanup.policy", "compact")),
    alter("one more in a list", TOPIC, "set", (APPEND, "cleanup.policy", "delete")),
    alter("what is in the list", TOPIC, "set", (APPEND, "cleanup.policy", "delete")),
    alter("one less in a list", TOPIC, "set", (SUBTRACT, "cleanup.policy", "compact")),
    alter("what is not in the list", TOPIC, "set", (SUBTRACT, "cleanup.policy", "compact")),
    alter("deleted", TOPIC, "set", (DELETE, "segment.ms", None)),
    alter("deleted, though it is not there", TOPIC, "set", (DELETE, "segment.ms", None)),
    alter("with a value, deleted", TOPIC, "set", (DELETE, "segment.ms", "1")),
    alter("spaces around a number", TOPIC, "set", (SET, "retention.ms", " 70000 ")),
    alter("only to see a value", TOPIC, "set", (SET, "retention.ms", "1"), dry=True),
    alter(
        "only to see what fails, set", TOPIC, "set", (SET, "retention.ms", "-7"), dry=True, errors=[E.INVALID_CONFIG]
    ),
    alter("a config unknown, set", TOPIC, "set", (SET, "no.such.thing", "1"), errors=[E.INVALID_CONFIG]),
    alter("a config unknown, deleted", TOPIC, "set", (DELETE, "no.such.thing", None)),
    alter("no number", TOPIC, "set", (SET, "retention.ms", "soon"), errors=[E.INVALID_CONFIG]),
    alter("too small", TOPIC, "set", (SET, "retention.ms", "-2"), errors=[E.INVALID_CONFIG]),
    alter("too large", TOPIC, "set", (SET, "segment.bytes", "99999999999"), errors=[E.INVALID_CONFIG]),
    alter("no such policy", TOPIC, "set", (SET, "cleanup.policy", "burn"), errors=[E.INVALID_CONFIG]),
    alter("no such policy, appended", TOPIC, "set", (APPEND, "cleanup.policy", "burn"), errors=[E.INVALID_CONFIG]),
    alter("no truth", TOPIC, "set", (SET, "preallocate", "maybe"), errors=[E.INVALID_CONFIG]),
    but_ours(alter("no value", TOPIC, "set", (SET, "retention.ms", None)), E.INVALID_REQUEST),
    alter("a value again", TOPIC, "set", (SET, "retention.ms", "80000")),
    alter("no list", TOPIC, "set", (APPEND, "retention.ms", "1"), errors=[E.INVALID_CONFIG]),
    alter("no list to take from", TOPIC, "set", (SUBTRACT, "retention.ms", "1"), errors=[E.INVALID_CONFIG]),
    but_ours(
        alter("a key twice", TOPIC, "set", (SET, "retention.ms", "1"), (DELETE, "retention.ms", None)),
        E.INVALID_REQUEST,
    ),
    alter("a value once more", TOPIC, "set", (SET, "retention.ms", "80000")),
    alter("an empty key", TOPIC, "set", (SET, "", "1"), errors=[E.INVALID_CONFIG]),
    alter("a topic unknown, set", TOPIC, "nowhere", (SET, "retention.ms", "1"), errors=[E.UNKNOWN_TOPIC_OR_PARTITION]),
    alter("a bad topic name, set", TOPIC, "no topic", (SET, "retention.ms", "1"), errors=[E.INVALID_TOPIC_EXCEPTION]),
    alter("no topic name, set", TOPIC, "", (SET, "retention.ms", "1"), errors=[E.INVALID_REQUEST]),
    alter("nothing, set", TOPIC, "set"),
    alter("of Kafka's own tests", TOPIC, "set", (SET, "internal.segment.bytes", "-5")),
    alter(
        "of Kafka's own tests, no number", TOPIC, "set", (SET, "internal.segment.bytes", "x"), errors=[E.INVALID_CONFIG]
    ),
    describe("a topic's, with what is internal", TOPIC, "set"),
    create("a topic with what is internal", laid_out("internal", (101,), internal_segment_bytes="1000")),
    alter("of Kafka's own tests, deleted", TOPIC, "set", (DELETE, "internal.segment.bytes", None)),
    describe("a topic's, without what is internal", TOPIC, "set"),
    alter("throttled replicas", TOPIC, "set", (SET, "leader.replication.throttled.replicas", "0:101,0:102")),
    alter(
        "throttled badly", TOPIC, "set", (SET, "leader.replication.throttled.replicas", "x"), errors=[E.INVALID_CONFIG]
    ),
    alter("more in sync than there are", TOPIC, "set", (SET, "min.insync.replicas", "5")),
    ask(
        "good and bad topics, set",
        IncrementalAlterConfigsRequest(
            (
                changed(TOPIC, "set", (SET, "flush.ms", "10")),
                changed(TOPIC, "nowhere", (SET, "flush.ms", "10")),
                changed(TOPIC, "orders", (SET, "flush.ms", "never")),
            )
        ),
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.INVALID_CONFIG,
    ),
    ask(
        "a resource twice",
        IncrementalAlterConfigsRequest(
            (changed(TOPIC, "set", (SET, "flush.ms", "11")), changed(TOPIC, "set", (SET, "flush.ms", "12")))
        ),
        E.INVALID_REQUEST,
    ),
)

REPLACED: Final[tuple[Step, ...]] = (
    replace("all of a topic's", TOPIC, "set", ("retention.ms", "50000"), ("flush.messages", "7")),
    replace("the same once more", TOPIC, "set", ("retention.ms", "50000"), ("flush.messages", "7")),
    replace("only to see all", TOPIC, "set", ("retention.ms", "1"), dry=True),
    replace("a config unknown, replaced", TOPIC, "set", ("no.such.thing", "1"), errors=[E.INVALID_CONFIG]),
    replace("a value of no good, replaced", TOPIC, "set", ("retention.ms", "soon"), errors=[E.INVALID_CONFIG]),
    but_ours(replace("no value, replaced", TOPIC, "set", ("retention.ms", None)), E.INVALID_REQUEST),
    replace("two values", TOPIC, "set", ("flush.ms", "1"), ("flush.messages", "2")),
    but_ours(replace("a key twice, replaced", TOPIC, "set", ("flush.ms", "1"), ("flush.ms", "2")), E.INVALID_REQUEST),
    replace("two values again", TOPIC, "set", ("flush.ms", "1"), ("flush.messages", "2")),
    replace("a topic unknown, replaced", TOPIC, "nowhere", ("flush.ms", "1"), errors=[E.UNKNOWN_TOPIC_OR_PARTITION]),
    replace("nothing left", TOPIC, "set"),
    alter("set once more", TOPIC, "set", (SET, "retention.ms", "44444")),
    delete("the topic, and its configs", "set"),
)

OF_OTHERS: Final[tuple[Step, ...]] = (
    alter("a broker's", BROKER, "101", (SET, "log.cleaner.threads", "2")),
    alter("all brokers'", BROKER, "", (SET, "message.max.bytes", "2000000")),
    alter("all brokers' min.insync.replicas", BROKER, "", (SET, "min.insync.replicas", "2")),
    alter(
        "all brokers' min.insync.replicas, deleted",
        BROKER,
        "",
        (DELETE, "min.insync.replicas", None),
        errors=[E.INVALID_CONFIG],
    ),
    alter(
        "one broker's min.insync.replicas", BROKER, "101", (SET, "min.insync.replicas", "2"), errors=[E.INVALID_CONFIG]
    ),
    alter("a listener's", BROKER, "101", (SET, "listener.name.plaintext.ssl.keystore.type", "JKS")),
    but_ours(alter("a broker's, of no good", BROKER, "101", (SET, "log.cleaner.threads", "many")), E.INVALID_REQUEST),
    alter("a broker's, of good", BROKER, "101", (SET, "log.cleaner.threads", "2")),
    alter("a broker's that is unknown", BROKER, "101", (SET, "no.such.thing", "1")),
    but_ours(alter("a broker's that cannot change", BROKER, "101", (SET, "log.dirs", "/elsewhere")), E.INVALID_REQUEST),
    alter("a broker's that cannot change, deleted", BROKER, "101", (DELETE, "log.dirs", None)),
    alter("a broker that is none", BROKER, "first", (SET, "log.cleaner.threads", "2"), errors=[E.INVALID_REQUEST]),
    alter(
        "a broker that is unknown",
        BROKER,
        "999",
        (SET, "log.cleaner.threads", "2"),
        errors=[E.BROKER_ID_NOT_REGISTERED],
    ),
    alter("a broker's, deleted", BROKER, "101", (DELETE, "log.cleaner.threads", None)),
    alter("a logger's", BROKER_LOGGER, "101", (SET, "kafka", "DEBUG"), errors=[E.INVALID_REQUEST]),
    alter("a subscription", CLIENT_METRICS, "watch", (SET, "interval.ms", "60000"), (SET, "metrics", "org.,kafka.")),
    alter("a subscription, appended", CLIENT_METRICS, "watch", (APPEND, "metrics", "jvm."), errors=[E.INVALID_CONFIG]),
    alter("too often", CLIENT_METRICS, "watch", (SET, "interval.ms", "1"), errors=[E.INVALID_REQUEST]),
    alter(
        "a subscription of no good", CLIENT_METRICS, "watch", (SET, "match", "planet=earth"), errors=[E.INVALID_CONFIG]
    ),
    alter("a subscription's config unknown", CLIENT_METRICS, "watch", (SET, "speed", "1"), errors=[E.INVALID_REQUEST]),
    alter(
        "a subscription without a name", CLIENT_METRICS, "", (SET, "interval.ms", "60000"), errors=[E.INVALID_REQUEST]
    ),
    alter("a group's", GROUP, "readers", (SET, "consumer.session.timeout.ms", "50000")),
    alter(
        "a group's, of no good", GROUP, "readers", (SET, "consumer.session.timeout.ms", "x"), errors=[E.INVALID_CONFIG]
    ),
    alter("a group's config unknown", GROUP, "readers", (SET, "speed", "1"), errors=[E.INVALID_CONFIG]),
    alter(
        "a group without a name", GROUP, "", (SET, "consumer.session.timeout.ms", "50000"), errors=[E.INVALID_REQUEST]
    ),
    alter("a kind unknown", 77, "x", (SET, "a", "b"), errors=[E.UNSUPPORTED_VERSION]),
    replace("all of a broker's", BROKER, "101", ("log.cleaner.threads", "3")),
    replace("all of all brokers'", BROKER, "", ("message.max.bytes", "3000000"), errors=[E.INVALID_CONFIG]),
    replace("all of all brokers', but one", BROKER, "", ("message.max.bytes", "3000000"), ("min.insync.replicas", "2")),
    replace("all of a group's", GROUP, "readers", ("consumer.heartbeat.interval.ms", "6000")),
    replace("all of a subscription's", CLIENT_METRICS, "watch", ("interval.ms", "70000")),
    replace("none of a subscription's", CLIENT_METRICS, "watch"),
)


DESCRIBED: Final[tuple[Step, ...]] = (
    describe("one of a topic's, told", TOPIC, "compact", keys=("cleanup.policy",)),
    describe("all of a topic's, told", TOPIC, "compact"),
    describe("a topic unknown, told", TOPIC, "nowhere", E.UNKNOWN_TOPIC_OR_PARTITION),
    describe("a bad topic name, told", TOPIC, "no topic", E.INVALID_TOPIC_EXCEPTION),
    describe("one of a group's, told", GROUP, "readers", keys=("consumer.heartbeat.interval.ms",)),
    describe("all of a group's, told", GROUP, "readers"),
    describe("all of all brokers', told", BROKER, ""),
    describe("a subscription's, told", CLIENT_METRICS, "watch"),
    describe("a subscription without a name, told", CLIENT_METRICS, "", E.INVALID_REQUEST),
    describe("a broker that is none, told", BROKER, "first", E.INVALID_REQUEST),
    describe("a kind unknown, told", 77, "x", E.INVALID_REQUEST),
)

SCRIPT: Final[tuple[Step, ...]] = (*OF_TOPICS, *REPLACED, *OF_OTHERS, *DESCRIBED)
