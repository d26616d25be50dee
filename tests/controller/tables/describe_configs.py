"""DescribeConfigs (32)."""

from __future__ import annotations

from typing import Any, TypeAlias

from kraft.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from quorate.controller.commands.describe_configs import CONFIGS_MAX, describe_configs
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.values import LONG_MAX, Source, ValueType
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource
from quorate.records import ConfigRecord
from tests.controller.clusters import Cluster
from tests.controller.tables.table import Row, Table

Asked: TypeAlias = DescribeConfigsRequest.DescribeConfigsResource
Result: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult
Config: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
Synonym: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult.DescribeConfigsSynonym
Set: TypeAlias = tuple[str, str | None, Source]

ORDERS, BILLS = ConfigResource(TOPIC, "orders"), ConfigResource(TOPIC, "bills")
ONE, ALL = ConfigResource(BROKER, "1"), ConfigResource(BROKER, "")
PAYMENTS, PHONES = ConfigResource(GROUP, "payments"), ConfigResource(CLIENT_METRICS, "phones")
BOOLEAN, STRING, INT, LONG, LIST = (
    ValueType.BOOLEAN,
    ValueType.STRING,
    ValueType.INT,
    ValueType.LONG,
    ValueType.LIST,
)
PASSWORD, UNKNOWN = ValueType.PASSWORD, ValueType.UNKNOWN
FILE = {
    "log.retention.hours": "2",
    "log.roll.hours": "3",
    "ssl.key.password": "hush",
    "no.such.static": "hush",
    "group.consumer.session.timeout.ms": "50000",
    "group.streams.assignors": "sticky,own",
}
AUTH, KEY = "listener.name.internal.ssl.client.auth", "listener.name.internal.ssl.key.password"
JAAS = "listener.name.internal.plain.sasl.jaas.config"
SET = (
    (ORDERS, "flush.ms", "1"),
    (ORDERS, "remote.log.copy.disable", "true"),
    (ORDERS, "message.format.version", "hush"),
    (ONE, "background.threads", "9"),
    (ONE, "num.io.threads", "0"),
    (ONE, AUTH, "required"),
    (ONE, KEY, "hush"),
    (ONE, JAAS, "hush"),
    (ALL, "background.threads", "8"),
    (ALL, "log.flush.interval.ms", "7"),
    (ALL, "log.roll.ms", "99"),
    (ALL, "min.insync.replicas", "none"),
    (ALL, "group.consumer.assignment.interval.ms", "2000"),
    (ALL, "group.share.session.timeout.ms", "46000"),
    (ALL, "no.such.config", "hush"),
    (PAYMENTS, "share.auto.offset.reset", "earliest"),
    (PAYMENTS, "streams.num.warmup.replicas", "3"),
    (PAYMENTS, "no.such.config", "hush"),
    (PHONES, "interval.ms", "100"),
)


def some_of_all() -> Cluster:
    """Broker 1; topics orders, bills; configs are set on the log (`SET`) and in the controllers' file (`FILE`)."""
    cluster = Cluster(33, settings=ControllerSettings(static_configs=FILE)).brokers(1)
    cluster.topic("orders", [1])
    cluster.topic("bills", [1])
    cluster.apply(ConfigRecord(*resource, name, value) for resource, name, value in SET)
    return cluster


def asked(resource: ConfigResource, *names: str) -> Asked:
    return Asked(*resource, names)


def request(*resources: Asked, synonyms: bool = False, documentation: bool = False) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(resources, include_synonyms=synonyms, include_documentation=documentation)


def config(
    name: str,
    value: str | None,
    value_type: ValueType,
    *sets: Set,
    source: Source = Source.DEFAULT,
    read_only: bool = False,
    secret: bool = False,
) -> Config:
    """The first of `sets` is the source, if there are any."""
    return Config(
        name=name,
        value=value,
        read_only=read_only,
        config_source=sets[0][2] if sets else source,
        is_sensitive=secret,
        synonyms=tuple(Synonym(*each) for each in sets),
        config_type=value_type,
        documentation=None,
    )


def has(resource: ConfigResource, *configs: Config) -> Result:
    return Result(NONE, "", *resource, configs)


def refused(resource: ConfigResource, code: ErrorCode) -> Result:
    return Result(code, None, *resource)


def told(*results: Result) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=results)


def one(case: str, rule: str, resource: ConfigResource, expected: Config) -> Row:
    """One config is asked for, with synonyms."""
    return Row(
        case=case,
        rule=rule,
        request=request(asked(resource, expected.name), synonyms=True),
        answer=told(has(resource, expected)),
    )


def none(case: str, rule: str, resource: ConfigResource, name: str) -> Row:
    """One config is asked for, and it is not in the answer."""
    return Row(case=case, rule=rule, request=request(asked(resource, name)), answer=told(has(resource)))


def fault(case: str, rule: str, resource: ConfigResource, code: ErrorCode) -> Row:
    """One resource that cannot be described, between two that can."""
    bills = Asked(*BILLS, ("flush.ms",))
    good = has(BILLS, config("flush.ms", "7", LONG, source=Source.CLUSTER))
    return Row(
        case=case,
        rule=rule,
        request=request(bills, asked(resource), bills),
        answer=told(good, refused(resource, code), good),
    )


def command(cluster: Cluster, request: DescribeConfigsRequest) -> Command[Any]:
    return describe_configs(request, settings=cluster.settings)


NONE, BAD_REQUEST = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
OF_TOPIC, OF_BROKER = "ConfigHelper.createTopicConfigEntry", "ConfigHelper.createBrokerConfigEntry"
OF_GROUP, OF_CLIENTS = "ConfigHelper.createGroupConfigEntry", "ConfigHelper.createClientMetricsConfigEntry"
SYNONYMS, SECRET = "ConfigHelper.configSynonyms", "KafkaConfig.maybeSensitive"
DESCRIBE, LISTED = "ConfigHelper.describeConfigs", "ConfigHelperUtils.createResponseConfig"
OWN, CLUSTER, STATIC, DEFAULT = Source.BROKER, Source.CLUSTER, Source.STATIC, Source.DEFAULT
FLUSHED = (
    ("log.flush.interval.ms", "7", CLUSTER),
    ("log.flush.scheduler.interval.ms", str(LONG_MAX), DEFAULT),
)
ASSIGNED, SESSION = "group.consumer.assignment.interval.ms", "group.consumer.session.timeout.ms"

TABLE = Table(
    api="DescribeConfigs",
    kafka="ConfigHelper.describeConfigs (KIP-133, KIP-226, KIP-569)",
    command=command,
    given=some_of_all,
    rows=(
        one(
            "a topic's own",
            f"{OF_TOPIC}: its own first, then what stands in, as {SYNONYMS} has it (KIP-226).",
            ORDERS,
            config("flush.ms", "1", LONG, ("flush.ms", "1", Source.TOPIC), *FLUSHED),
        ),
        one(
            "a topic's, set for all brokers",
            f"{OF_TOPIC}: the broker config that stands in for it, under its own name.",
            BILLS,
            config("flush.ms", "7", LONG, *FLUSHED),
        ),
        one(
            "a topic's, in the file in another unit",
            f"{OF_TOPIC}: a value in its own unit, and no source, as no broker config of that unit is set.",
            ORDERS,
            config("retention.ms", "7200000", LONG),
        ),
        one(
            "a topic's, set for all brokers, and in the file in another unit",
            f"{SYNONYMS}: each in its unit.",
            ORDERS,
            config(
                "segment.ms",
                "99",
                LONG,
                ("log.roll.ms", "99", CLUSTER),
                ("log.roll.hours", "3", STATIC),
                ("log.roll.hours", "168", DEFAULT),
            ),
        ),
        one(
            "a topic's, set for all brokers as none would take it",
            "DynamicBrokerConfig.validate: no broker heeds it; Kafka hides it where it does not count.",
            ORDERS,
            config("min.insync.replicas", "1", INT, ("min.insync.replicas", "1", DEFAULT)),
        ),
        one(
            "a topic's that no broker config stands in for",
            f"{OF_TOPIC}: the default, and no synonym.",
            ORDERS,
            config("remote.storage.enable", "false", BOOLEAN),
        ),
        one(
            "a topic's own that no broker config stands in for",
            f"{OF_TOPIC}: its own alone.",
            ORDERS,
            config("remote.log.copy.disable", "true", BOOLEAN, ("remote.log.copy.disable", "true", Source.TOPIC)),
        ),
        one(
            "a topic's list",
            f"{OF_TOPIC}: with its type (KIP-569).",
            ORDERS,
            config("cleanup.policy", "delete", LIST, ("log.cleanup.policy", "delete", DEFAULT)),
        ),
        one(
            "a topic's that only another version knows",
            f"{LISTED}: told by name; of what nobody knows no value ({SECRET}).",
            ORDERS,
            config(
                "message.format.version",
                None,
                UNKNOWN,
                ("message.format.version", None, Source.TOPIC),
                secret=True,
            ),
        ),
        none("a topic's that nobody has set or knows", f"{LISTED}: nothing is told of it.", ORDERS, "no.such.config"),
        one(
            "a broker's own",
            f"{SYNONYMS}: its own, all brokers', the file's, the default.",
            ONE,
            config(
                "background.threads",
                "9",
                INT,
                ("background.threads", "9", OWN),
                ("background.threads", "8", CLUSTER),
                ("background.threads", "10", DEFAULT),
            ),
        ),
        one(
            "a listener's",
            "ConfigHelper.brokerSynonyms: then the config without the listener.",
            ONE,
            config(AUTH, "required", STRING, (AUTH, "required", OWN), ("ssl.client.auth", "none", DEFAULT)),
        ),
        one(
            "a broker's, set as it would not take it",
            "DynamicBrokerConfig.validate: it does not heed it.",
            ONE,
            config("num.io.threads", "8", INT, ("num.io.threads", "8", DEFAULT)),
        ),
        one(
            "the file's",
            f"{OF_BROKER}: read only, as only a restart changes it (KIP-226).",
            ONE,
            config(
                "log.retention.hours",
                "2",
                INT,
                ("log.retention.hours", "2", STATIC),
                ("log.retention.hours", "168", DEFAULT),
                read_only=True,
            ),
        ),
        one(
            "a broker's that is not set and has no default",
            f"{OF_BROKER}: no value.",
            ONE,
            config("broker.rack", None, STRING, read_only=True),
        ),
        one(
            "a broker's password, in the file",
            f"{SECRET}: that it is set, and no value.",
            ONE,
            config("ssl.key.password", None, PASSWORD, ("ssl.key.password", None, STATIC), secret=True),
        ),
        one(
            "a listener's password",
            f"{SECRET}: that it is set, and no value.",
            ONE,
            config(KEY, None, PASSWORD, (KEY, None, OWN), ("ssl.key.password", None, STATIC), secret=True),
        ),
        one(
            "a listener's password for one SASL mechanism",
            f"{SECRET}: that it is set, and no value.",
            ONE,
            config(JAAS, None, PASSWORD, (JAAS, None, OWN), secret=True),
        ),
        one(
            "a broker's, of a plugin, maybe, in the file",
            f"{SECRET}: what nobody knows may be one.",
            ONE,
            config("no.such.static", None, UNKNOWN, ("no.such.static", None, STATIC), secret=True),
        ),
        one(
            "a broker's, of a plugin, maybe, set for all brokers",
            f"{SECRET}: what nobody knows may be one.",
            ONE,
            config("no.such.config", None, UNKNOWN, ("no.such.config", None, CLUSTER), secret=True),
        ),
        one(
            "a broker's password that is not set",
            f"{SECRET}: it is one all the same.",
            ONE,
            config("sasl.jaas.config", None, PASSWORD, secret=True),
        ),
        one(
            "all brokers'",
            "DynamicBrokerConfig.currentDynamicDefaultConfigs: what is set for all, and nothing else.",
            ALL,
            config("background.threads", "8", INT, ("background.threads", "8", CLUSTER)),
        ),
        one(
            "all brokers', of a plugin, maybe",
            f"{SECRET}: what nobody knows may be one.",
            ALL,
            config("no.such.config", None, UNKNOWN, ("no.such.config", None, CLUSTER), secret=True),
        ),
        none(
            "all brokers' that is not set for all",
            "DynamicBrokerConfig.currentDynamicDefaultConfigs: what is set for all, and nothing else.",
            ALL,
            "num.io.threads",
        ),
        one(
            "a group's own",
            f"{OF_GROUP}: its own, then the default (KIP-848).",
            PAYMENTS,
            config(
                "share.auto.offset.reset",
                "earliest",
                STRING,
                ("share.auto.offset.reset", "earliest", Source.GROUP),
                ("share.auto.offset.reset", "latest", DEFAULT),
            ),
        ),
        one(
            "a group's, set for all brokers",
            "GroupConfig.brokerSynonym: the broker config that stands in for it.",
            PAYMENTS,
            config(
                "consumer.assignment.interval.ms",
                "2000",
                INT,
                (ASSIGNED, "2000", CLUSTER),
                (ASSIGNED, "1000", DEFAULT),
            ),
        ),
        one(
            "a group's, in the file",
            "GroupConfig.brokerSynonym: the broker config that stands in for it.",
            PAYMENTS,
            config(
                "consumer.session.timeout.ms", "50000", INT, (SESSION, "50000", STATIC), (SESSION, "45000", DEFAULT)
            ),
        ),
        one(
            "a group's, set for all brokers though only a file may",
            "DynamicBrokerConfig.validate: no broker heeds it; Kafka hides it where it does not count.",
            PAYMENTS,
            config("share.session.timeout.ms", "45000", INT, ("group.share.session.timeout.ms", "45000", DEFAULT)),
        ),
        one(
            "a group's that only another version knows",
            f"{LISTED}: told by name; of what nobody knows no value ({SECRET}).",
            PAYMENTS,
            config("no.such.config", None, UNKNOWN, ("no.such.config", None, Source.GROUP), secret=True),
        ),
        one(
            "a group's assignor",
            "GroupConfig.brokerSynonym: the first that the brokers' list has (KIP-1071).",
            PAYMENTS,
            config(
                "streams.assignor.name",
                "sticky",
                STRING,
                ("group.streams.assignors", "sticky", STATIC),
                ("group.streams.assignors", "sticky", DEFAULT),
            ),
        ),
        one(
            "a group's that is Kafka's own, set",
            f"{LISTED}: what is internal is told of where it is set.",
            PAYMENTS,
            config(
                "streams.num.warmup.replicas",
                "3",
                INT,
                ("streams.num.warmup.replicas", "3", Source.GROUP),
                ("group.streams.num.warmup.replicas", "2", DEFAULT),
            ),
        ),
        none(
            "a group's that is Kafka's own, not set",
            f"{LISTED}: what is internal is told of where it is set.",
            ConfigResource(GROUP, "others"),
            "streams.num.warmup.replicas",
        ),
        one(
            "a subscription's own",
            f"{OF_CLIENTS} (KIP-714).",
            PHONES,
            config("interval.ms", "100", INT, ("interval.ms", "100", Source.CLIENT_METRICS)),
        ),
        one("a subscription's default", f"{OF_CLIENTS}: no synonym.", PHONES, config("metrics", "", LIST)),
        one(
            "of a subscription that nobody has made",
            f"{OF_CLIENTS}: as one with nothing set.",
            ConfigResource(CLIENT_METRICS, "others"),
            config("interval.ms", "300000", INT),
        ),
        Row(
            case="without synonyms",
            rule=f"{OF_TOPIC}: only if they are asked for; the source is told all the same (KIP-226).",
            request=request(asked(ORDERS, "flush.ms")),
            answer=told(has(ORDERS, config("flush.ms", "1", LONG, source=Source.TOPIC))),
        ),
        Row(
            case="with documentation",
            rule=f"{OF_TOPIC}: Kafka's words are Kafka's (KIP-569); there are none here.",
            request=request(asked(ORDERS, "flush.ms"), documentation=True),
            answer=told(has(ORDERS, config("flush.ms", "1", LONG, source=Source.TOPIC))),
        ),
        Row(
            case="several of one, one of which there is not",
            rule=f"{LISTED}: those of the list that there are; here by name.",
            request=request(asked(ORDERS, "segment.ms", "no.such.config", "flush.ms")),
            answer=told(
                has(
                    ORDERS,
                    config("flush.ms", "1", LONG, source=Source.TOPIC),
                    config("segment.ms", "99", LONG, source=CLUSTER),
                )
            ),
        ),
        Row(
            case="one resource twice",
            rule=f"{DESCRIBE}: answered as often as it is asked about.",
            request=request(asked(PHONES, "metrics"), asked(PHONES, "interval.ms")),
            answer=told(
                has(PHONES, config("metrics", "", LIST)),
                has(PHONES, config("interval.ms", "100", INT, source=Source.CLIENT_METRICS)),
            ),
        ),
        Row(
            case="all of a subscription",
            rule=f"{LISTED}: an empty list asks for all.",
            request=request(asked(PHONES)),
            answer=told(
                has(
                    PHONES,
                    config("interval.ms", "100", INT, source=Source.CLIENT_METRICS),
                    config("match", "", LIST),
                    config("metrics", "", LIST),
                )
            ),
        ),
        Row(
            case="all of a subscription, without a list",
            rule=f"{LISTED}: no list asks for all.",
            request=request(Asked(*PHONES, None)),
            answer=told(
                has(
                    PHONES,
                    config("interval.ms", "100", INT, source=Source.CLIENT_METRICS),
                    config("match", "", LIST),
                    config("metrics", "", LIST),
                )
            ),
        ),
        fault(
            "no such topic",
            f"{DESCRIBE}: each by itself.",
            ConfigResource(TOPIC, "no"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        fault(
            "no name of a topic",
            f"{DESCRIBE}: Topic.validate before whether it exists.",
            ConfigResource(TOPIC, "a/b"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ),
        fault(
            "a topic without a name",
            "Topic.validate: an empty name is none.",
            ConfigResource(TOPIC, ""),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ),
        fault(
            "no such broker",
            f"{DESCRIBE}: a Kafka node tells of itself only; here any tells of all that are registered.",
            ConfigResource(BROKER, "9"),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        fault(
            "no number of a broker",
            "ConfigHelper.resourceNameToBrokerId: brokers are named by id.",
            ConfigResource(BROKER, "one"),
            BAD_REQUEST,
        ),
        fault("no group", f"{DESCRIBE}: a group has a name.", ConfigResource(GROUP, ""), BAD_REQUEST),
        fault("no subscription", f"{DESCRIBE}: it has a name.", ConfigResource(CLIENT_METRICS, ""), BAD_REQUEST),
        fault(
            "loggers",
            f"{DESCRIBE}: a Kafka node tells of its own (KIP-412); here they are nobody's.",
            ConfigResource(BROKER_LOGGER, "1"),
            BAD_REQUEST,
        ),
        fault(
            "a type that there is not",
            "ConfigHelper.handleDescribeConfigsRequest: InvalidRequestException, in Kafka for the whole request.",
            ConfigResource(99, "1"),
            BAD_REQUEST,
        ),
        Row(
            case="more configs than one request reads",
            rule=f"{DESCRIBE}: a resource is answered as often as it is named; the limit is ours.",
            request=request(*(asked(ONE, "no.such.config"),) * (CONFIGS_MAX // 300)),
            answer=ErrorCode.POLICY_VIOLATION,
        ),
        Row(
            case="nothing",
            rule=f"{DESCRIBE}: nothing is told of nothing.",
            request=request(),
            answer=told(),
        ),
    ),
)
