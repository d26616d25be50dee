"""IncrementalAlterConfigs (44)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kraft import Message
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource
from quorate.records import ClearElrRecord, RegisterControllerRecord
from tests.controller.altering import (
    ORDERS,
    Asked,
    Config,
    append,
    asked,
    delete,
    record,
    subtract,
    to_set,
    with_orders,
    with_policy,
)
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.table import Row, Table

Result: TypeAlias = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
Written: TypeAlias = tuple[str, str | None]
ALL, ONE, TWO = ConfigResource(BROKER, ""), ConfigResource(BROKER, "1"), ConfigResource(BROKER, "2")
BILLS, NOBODY = ConfigResource(TOPIC, "bills"), ConfigResource(TOPIC, "nobody")
PAYMENTS, PHONES = ConfigResource(GROUP, "payments"), ConfigResource(CLIENT_METRICS, "phones")
MIN_ISR, THROTTLED = "min.insync.replicas", "leader.replication.throttled.replicas"
DIRECTORIES, NO_SUCH = "cordoned.log.dirs", "no.such.config"


def nothing_set() -> Cluster:
    """Broker 1; topic orders, nothing is set; metadata.version 4.4-IV2."""
    return with_orders()


def kept() -> Cluster:
    """The same, orders has retention.ms=5."""
    return with_orders({"retention.ms": "5"})


def compacted() -> Cluster:
    """The same, orders has cleanup.policy=compact."""
    return with_orders({"cleanup.policy": "compact"})


def throttled() -> Cluster:
    """The same, orders has leader.replication.throttled.replicas=0:1,1:2,0:1."""
    return with_orders({THROTTLED: "0:1,1:2,0:1"})


def with_blanks() -> Cluster:
    """The same, orders has leader.replication.throttled.replicas=0:1, 1:2."""
    return with_orders({THROTTLED: "0:1, 1:2"})


def two_brokers(level: int = 33, *, elr: bool = False) -> Cluster:
    """Broker 1 has log.cleaner.threads=2, broker 2 cordoned.log.dirs=/a, /b,/c; topics orders, bills: nothing set."""
    cluster = Cluster(level, elr=elr).brokers(1, 2)
    cluster.topic("orders", [1])
    cluster.topic("bills", [1])
    cluster.apply([record(ONE, "log.cleaner.threads", "2"), record(TWO, DIRECTORIES, "/a, /b,/c")])
    return cluster


def with_elr() -> Cluster:
    """The same, ELR is on; bills has min.insync.replicas=1."""
    cluster = two_brokers(elr=True)
    cluster.apply([record(BILLS, MIN_ISR, "1")])
    return cluster


def before_cordoning() -> Cluster:
    """The same without, at metadata.version 4.2-IV1."""
    return two_brokers(29)


def first_cordoning() -> Cluster:
    """The same at 4.3-IV0."""
    return two_brokers(30)


def controller_3000() -> Cluster:
    """The same at 4.4-IV2, and controller 3000."""
    cluster = two_brokers()
    cluster.apply([RegisterControllerRecord(3_000, uuid(1))])
    return cluster


def group_set() -> Cluster:
    """The same, group payments has share.auto.offset.reset=earliest."""
    cluster = two_brokers()
    cluster.apply([record(PAYMENTS, "share.auto.offset.reset", "earliest")])
    return cluster


def request(*resources: Asked, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def told(*outcomes: tuple[ConfigResource, ErrorCode]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(Result(code, None, resource.type, resource.name) for resource, code in outcomes)
    )


def one(
    case: str,
    rule: str,
    resource: ConfigResource,
    configs: Config | Sequence[Config],
    written: ErrorCode | str | Sequence[Written] | None,
    *more: Message,
    given: Callable[[], Cluster] | None = None,
) -> Row:
    """A request of one resource: an error, the value that is written of one config, or names and values of several."""
    changes = (configs,) if isinstance(configs, Config) else tuple(configs)
    code, records = NONE, tuple[Message, ...]()
    match written:
        case ErrorCode():
            code = written
        case None | str():
            records = (record(resource, changes[0].name, written),)
        case _:
            records = tuple(record(resource, *each) for each in written)
    return Row(
        case=case,
        rule=rule,
        given=given,
        request=request(asked(resource, *changes)),
        records=(*records, *more),
        answer=told((resource, code)),
    )


def command(cluster: Cluster, request: IncrementalAlterConfigsRequest) -> Command[Any]:
    return incremental_alter_configs(request, settings=cluster.settings)


NONE, UNKNOWN_TOPIC = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
BAD_REQUEST, BAD_CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
CHANGE = "ConfigurationControlManager.incrementalAlterConfigResource"
SAME = f"{CHANGE}: what is as it was is not written."
LIST = f"{CHANGE}: parts are added where they are not there yet; a list not set begins as Kafka's default (KIP-339)."
LESS = f"{CHANGE}: of each part that is named, one goes (KIP-339)."
NO_LIST = f"{CHANGE}: KafkaConfigSchema.isSplittable, which knows topics' and brokers' configs."
OF_BROKER = f"{CHANGE}: of brokers it is written all the same, as they read files again then."
FIRST = "ConfigAdminManager.preprocess"
VALID = "ControllerConfigurationValidator.validate"
TOPICS = "LogConfig.validate, by ControllerConfigurationValidator."
RUN_TIME = "DynamicBrokerConfig.validate, by ConfigAdminManager (KIP-226)."
BY_ID = f"{VALID}: brokers are named by id, as the log writes it."
THERE = "QuorumController.ConfigResourceExistenceChecker: it has to be there."
CLEAR = "ConfigurationControlManager.createClearElrRecordsAsNeeded"
OWN_ISR = "ConfigurationControlManager.isDisallowedBrokerMinIsrTransition: no broker has its own (KIP-966)."
CORDON = "ConfigurationControlManager.isCordonedLogDirsInvalid: only its broker adds one (KIP-1066)."
CORDONED_FROM = "ConfigurationControlManager.isCordonedLogDirsDisabled: from 4.3-IV0 on (KIP-1066)."
GROUPS, METRICS = f"{VALID}: GroupConfig (KIP-848)", f"{VALID}: ClientMetricsConfigs (KIP-714)"
LEAST = to_set(MIN_ISR, "2")
COMPACT, SHRED, GONE = append("cleanup.policy", "compact"), append("cleanup.policy", "shred"), delete("retention.ms")
OFFSETS = to_set("share.auto.offset.reset", "earliest")

TABLE = Table(
    api="IncrementalAlterConfigs",
    kafka="ConfigurationControlManager.incrementalAlterConfigs, ConfigAdminManager.preprocess (KIP-339)",
    command=command,
    given=nothing_set,
    rows=(
        # Topics.
        one("set", f"{CHANGE} (KIP-339).", ORDERS, to_set("retention.ms", "5"), "5"),
        one("set anew", f"{CHANGE} (KIP-339).", ORDERS, to_set("retention.ms", "6"), "6", given=kept),
        one("set as it is", SAME, ORDERS, to_set("retention.ms", "5"), [], given=kept),
        one("set to what means the same", SAME, ORDERS, to_set("retention.ms", "+5"), "+5", given=kept),
        one("set to the default", SAME, ORDERS, to_set("retention.ms", "604800000"), "604800000"),
        one("delete", f"{CHANGE}: null in the log.", ORDERS, GONE, None, given=kept),
        one("delete what is not set", SAME, ORDERS, GONE, []),
        one("delete what is no config", SAME, ORDERS, delete(NO_SUCH), []),
        one(
            "several",
            f"{CHANGE}: Kafka's order is that of a hash table, here the request's.",
            ORDERS,
            [to_set("segment.ms", "9"), GONE, to_set("flush.ms", "8")],
            [("segment.ms", "9"), ("retention.ms", None), ("flush.ms", "8")],
            given=kept,
        ),
        one("no config", f"{CHANGE}: nothing to be done is done.", ORDERS, [], []),
        one("append to the default", LIST, ORDERS, COMPACT, "delete,compact"),
        one("append what the default has", LIST, ORDERS, append("cleanup.policy", "delete"), "delete"),
        one("append", LIST, ORDERS, append("cleanup.policy", "delete"), "compact,delete", given=compacted),
        one("append what is there", SAME, ORDERS, COMPACT, [], given=compacted),
        one("append twice the same", LIST, ORDERS, append(THROTTLED, "0:1,0:1,1:2"), "0:1,1:2"),
        one("subtract", LESS, ORDERS, subtract(THROTTLED, "1:2"), "0:1,0:1", given=throttled),
        one("subtract one of two alike", LESS, ORDERS, subtract(THROTTLED, "0:1"), "1:2,0:1", given=throttled),
        one("subtract from the default", LESS, ORDERS, subtract("cleanup.policy", "delete"), ""),
        one("subtract what the default has not", LESS, ORDERS, subtract("cleanup.policy", "compact"), "delete"),
        one("subtract what is not there", SAME, ORDERS, subtract(THROTTLED, "7:7"), [], given=throttled),
        one("subtract regards blanks", LESS, ORDERS, subtract(THROTTLED, "1:2"), [], given=with_blanks),
        one("set with blanks", TOPICS, ORDERS, to_set("segment.bytes", " 1048576 "), " 1048576 "),
        one("append to what is no list", NO_LIST, ORDERS, append("retention.ms", "5"), BAD_CONFIG),
        one("subtract from what is no list", NO_LIST, ORDERS, subtract("compression.type", "gzip"), BAD_CONFIG),
        one("append to no config", NO_LIST, ORDERS, append(NO_SUCH, "5"), BAD_CONFIG),
        one("no such config", TOPICS, ORDERS, [to_set("flush.ms", "1"), to_set(NO_SUCH, "1")], BAD_CONFIG),
        one("no value of it", TOPICS, ORDERS, to_set("segment.bytes", "7"), BAD_CONFIG),
        one("no part of the list", TOPICS, ORDERS, SHRED, BAD_CONFIG),
        one(
            "cannot go together",
            "LogConfig.validate: the values that count, set or not.",
            ORDERS,
            [to_set("min.compaction.lag.ms", "10"), to_set("max.compaction.lag.ms", "9")],
            BAD_CONFIG,
        ),
        one(
            "tiered storage that nobody has",
            "LogConfig.validate: KIP-405.",
            ORDERS,
            to_set("remote.storage.enable", "true"),
            BAD_CONFIG,
        ),
        one("no value at all", f"{FIRST}: only a deletion has none.", ORDERS, to_set("flush.ms", None), BAD_REQUEST),
        one("nothing to append", f"{FIRST}: only a deletion has none.", ORDERS, append(THROTTLED, None), BAD_REQUEST),
        one(
            "one config twice",
            f"{FIRST}: a config is named once.",
            ORDERS,
            [to_set("retention.ms", "5"), GONE],
            BAD_REQUEST,
        ),
        one(
            "an operation that there is not",
            "ConfigAdminManager.validateBrokerConfigChange: Kafka says so of brokers only; there are four (KIP-339).",
            ORDERS,
            Config("retention.ms", 4, "5"),
            BAD_REQUEST,
        ),
        one("no such topic", THERE, NOBODY, to_set("flush.ms", "1"), UNKNOWN_TOPIC),
        one(
            "no such topic, and no value of it",
            "ConfigurationControlManager.validateAlterConfig: the values before whether it exists.",
            NOBODY,
            to_set("flush.ms", "x"),
            BAD_CONFIG,
        ),
        one("no such topic, and no list", NO_LIST, NOBODY, append("retention.ms", "5"), BAD_CONFIG),
        one(
            "no name of a topic, and no value of it",
            f"{VALID}: the name before the values; Topic.validate.",
            ConfigResource(TOPIC, "a/b"),
            to_set("flush.ms", "x"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ),
        one(
            "all topics",
            f"{VALID}: they have no default.",
            ConfigResource(TOPIC, ""),
            to_set("flush.ms", "1"),
            BAD_REQUEST,
        ),
        one(
            "a policy refuses",
            "ConfigurationControlManager.validateAlterConfig: an AlterConfigPolicy has the last word (KIP-133).",
            ORDERS,
            to_set("retention.ms", "999"),
            ErrorCode.POLICY_VIOLATION,
            given=with_policy,
        ),
        # Brokers.
        one("of all brokers", OF_BROKER, ALL, to_set("background.threads", "5"), "5"),
        one("of one broker", OF_BROKER, ONE, to_set("background.threads", "5"), "5"),
        one("of a broker as it is", OF_BROKER, ONE, to_set("log.cleaner.threads", "2"), "2", given=two_brokers),
        one("of a broker, delete", OF_BROKER, ONE, delete("log.cleaner.threads"), None, given=two_brokers),
        one("of a broker, delete what is not set", OF_BROKER, ONE, delete("background.threads"), None),
        one("of a broker, delete what is in its file only", OF_BROKER, ONE, delete("log.dirs"), None),
        one("of a listener", RUN_TIME, ONE, to_set("listener.name.a.ssl.client.auth", "none"), "none"),
        one("of a listener, a password", RUN_TIME, ONE, to_set("listener.name.a.ssl.key.password", "hush"), "hush"),
        one("of a plugin, maybe", RUN_TIME, ALL, to_set(NO_SUCH, "5"), "5"),
        one("of brokers, append to the default", LIST, ALL, append("log.cleanup.policy", "compact"), "delete,compact"),
        one("of brokers, append to no default", LIST, ALL, append("config.providers", "a"), "a"),
        one(
            "of a controller",
            "QuorumController.ConfigResourceExistenceChecker: they are configured as brokers are.",
            ConfigResource(BROKER, "3000"),
            to_set("num.io.threads", "5"),
            "5",
            given=controller_3000,
        ),
        one("no number of a broker", BY_ID, ConfigResource(BROKER, "one"), to_set("num.io.threads", "5"), BAD_REQUEST),
        one("a broker below zero", BY_ID, ConfigResource(BROKER, "-1"), to_set("num.io.threads", "5"), BAD_REQUEST),
        one("a number otherwise", BY_ID, ConfigResource(BROKER, "01"), to_set("num.io.threads", "5"), BAD_REQUEST),
        one("no int", BY_ID, ConfigResource(BROKER, "2147483648"), to_set("num.io.threads", "5"), BAD_REQUEST),
        one(
            "no such broker",
            THERE,
            ConfigResource(BROKER, "9"),
            to_set("num.io.threads", "5"),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        one("of a broker what is in its file only", RUN_TIME, ONE, to_set("log.dirs", "/d"), BAD_REQUEST),
        one("of brokers no value of it", RUN_TIME, ALL, to_set("background.threads", "0"), BAD_REQUEST),
        one("of all brokers what one has", RUN_TIME, ALL, to_set("listeners", "PLAINTEXT://:1"), BAD_REQUEST),
        one("of a listener without it", RUN_TIME, ONE, to_set("ssl.client.auth", "none"), BAD_REQUEST),
        one("of brokers, no list", NO_LIST, ONE, append("background.threads", "5"), BAD_CONFIG),
        one("of a listener, no list", NO_LIST, ONE, append("listener.name.a.ssl.cipher.suites", "5"), BAD_CONFIG),
        one("none is cordoned", CORDON, ONE, to_set(DIRECTORIES, ""), ""),
        one("one is cordoned", CORDON, ONE, to_set(DIRECTORIES, "/a"), BAD_CONFIG),
        one("one stays cordoned", CORDON, TWO, to_set(DIRECTORIES, "/b"), "/b", given=two_brokers),
        one("one is no longer cordoned", CORDON, TWO, subtract(DIRECTORIES, "/c"), "/a, /b", given=two_brokers),
        one("another is cordoned", CORDON, TWO, to_set(DIRECTORIES, "/d"), BAD_CONFIG, given=two_brokers),
        one("one more is cordoned", CORDON, TWO, append(DIRECTORIES, "/d"), BAD_CONFIG, given=two_brokers),
        one("set early enough", CORDONED_FROM, ONE, to_set(DIRECTORIES, ""), "", given=first_cordoning),
        one("deleted early enough", CORDONED_FROM, ONE, delete(DIRECTORIES), None, given=first_cordoning),
        one("cordoned too early", CORDONED_FROM, ONE, to_set(DIRECTORIES, ""), BAD_CONFIG, given=before_cordoning),
        one("deleted too early", CORDONED_FROM, ONE, delete(DIRECTORIES), BAD_CONFIG, given=before_cordoning),
        # Groups, subscriptions, loggers, and what there is not.
        one("of a group", f"{GROUPS}; nobody has to make it first.", PAYMENTS, OFFSETS, "earliest"),
        one("of a group as it is", SAME, PAYMENTS, OFFSETS, [], given=group_set),
        one("no config of a group", f"{GROUPS}.", PAYMENTS, to_set("retention.ms", "5"), BAD_CONFIG),
        one("no value of a group's", f"{GROUPS}.", PAYMENTS, to_set("consumer.session.timeout.ms", "1"), BAD_CONFIG),
        one("a group's list", NO_LIST, PAYMENTS, append("streams.rack.aware.assignment.tags", "a"), BAD_CONFIG),
        one("all groups", f"{VALID}: they have no default.", ConfigResource(GROUP, ""), OFFSETS, BAD_REQUEST),
        one("of a subscription", f"{METRICS}.", PHONES, to_set("match", "client_id=a.*"), "client_id=a.*"),
        one("no config of a subscription", f"{METRICS}.", PHONES, to_set("retention.ms", "5"), BAD_REQUEST),
        one("no value of a subscription's", f"{METRICS}.", PHONES, to_set("interval.ms", "99"), BAD_REQUEST),
        one("no criterion", f"{METRICS}.", PHONES, to_set("match", "client"), BAD_CONFIG),
        one("a subscription's list", NO_LIST, PHONES, append("metrics", "a"), BAD_CONFIG),
        one(
            "all subscriptions",
            f"{METRICS}: they have no default.",
            ConfigResource(CLIENT_METRICS, ""),
            to_set("interval.ms", "100"),
            BAD_REQUEST,
        ),
        one(
            "loggers",
            "ControllerApis.handleIncrementalAlterConfigs: a node's own loggers (KIP-412); here they are nobody's.",
            ConfigResource(BROKER_LOGGER, "1"),
            to_set("root", "INFO"),
            BAD_REQUEST,
        ),
        one(
            "a type that there is not",
            "ControllerApis.handleIncrementalAlterConfigs: ConfigResource.Type.UNKNOWN.",
            ConfigResource(3, "x"),
            to_set("flush.ms", "1"),
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        one(
            "no type",
            "ControllerApis.handleIncrementalAlterConfigs: ConfigResource.Type.UNKNOWN.",
            ConfigResource(0, "x"),
            to_set("flush.ms", "1"),
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        # Eligible leader replicas.
        one("without ELR, least in-sync replicas", f"{CLEAR}: there is none.", ORDERS, LEAST, "2"),
        one("without ELR, one broker's", f"{CLEAR}: there is none.", ONE, LEAST, "2"),
        one("without ELR, all brokers' go", f"{CLEAR}: there is none.", ALL, delete(MIN_ISR), None),
        one("without ELR, one broker's go", f"{CLEAR}: there is none.", ONE, delete(MIN_ISR), None),
        one(
            "ELR, a topic's least in-sync replicas",
            f"{CLEAR}: its ELR ends (KIP-966).",
            ORDERS,
            LEAST,
            "2",
            ClearElrRecord("orders"),
            given=with_elr,
        ),
        one(
            "ELR, a topic's least in-sync replicas go",
            f"{CLEAR}: its ELR ends (KIP-966).",
            BILLS,
            delete(MIN_ISR),
            None,
            ClearElrRecord("bills"),
            given=with_elr,
        ),
        one("ELR, a topic's as they are", f"{CLEAR}: its ELR stays.", BILLS, to_set(MIN_ISR, "1"), [], given=with_elr),
        one("ELR, another config", f"{CLEAR}: its ELR stays.", ORDERS, to_set("flush.ms", "2"), "2", given=with_elr),
        one(
            "ELR, all brokers' least in-sync replicas",
            f"{CLEAR}: every ELR ends (KIP-966).",
            ALL,
            LEAST,
            "2",
            ClearElrRecord(""),
            given=with_elr,
        ),
        one(
            "ELR, all brokers' least in-sync replicas go",
            "ConfigurationControlManager.isDisallowedClusterMinIsrTransition (KIP-966).",
            ALL,
            delete(MIN_ISR),
            BAD_CONFIG,
            given=with_elr,
        ),
        one("ELR, one broker's least in-sync replicas", OWN_ISR, ONE, LEAST, BAD_CONFIG, given=with_elr),
        one("ELR, one broker's go", OWN_ISR, ONE, delete(MIN_ISR), BAD_CONFIG, given=with_elr),
        # Several.
        Row(
            case="ELR, two topics' least in-sync replicas",
            rule=f"{CLEAR}: after all configs, in their order (KIP-966).",
            given=with_elr,
            request=request(asked(ORDERS, LEAST), asked(BILLS, LEAST)),
            records=(
                record(ORDERS, MIN_ISR, "2"),
                record(BILLS, MIN_ISR, "2"),
                ClearElrRecord("orders"),
                ClearElrRecord("bills"),
            ),
            answer=told((ORDERS, NONE), (BILLS, NONE)),
        ),
        Row(
            case="several, one of them cannot be",
            rule="ConfigurationControlManager.incrementalAlterConfigs: each by itself.",
            given=two_brokers,
            request=request(asked(BILLS, to_set("flush.ms", "1")), asked(NOBODY, LEAST), asked(ALL, LEAST)),
            records=(record(BILLS, "flush.ms", "1"), record(ALL, MIN_ISR, "2")),
            answer=told((BILLS, NONE), (NOBODY, UNKNOWN_TOPIC), (ALL, NONE)),
        ),
        Row(
            case="one resource three times, and another",
            rule="ControllerApis.handleIncrementalAlterConfigs: refused, and answered once.",
            given=two_brokers,
            request=request(asked(ORDERS, LEAST), asked(BILLS, LEAST), asked(ORDERS, GONE), asked(ORDERS)),
            records=(record(BILLS, MIN_ISR, "2"),),
            answer=told((ORDERS, BAD_REQUEST), (BILLS, NONE)),
        ),
        Row(
            case="only to be validated",
            rule="ControllerResult.withoutRecords: decided alike, nothing is written.",
            request=request(asked(ORDERS, LEAST), asked(NOBODY, GONE), validate_only=True),
            answer=told((ORDERS, NONE), (NOBODY, UNKNOWN_TOPIC)),
        ),
        Row(
            case="nothing",
            rule="ConfigurationControlManager.incrementalAlterConfigs: nothing to be done is done.",
            request=request(),
            answer=told(),
        ),
    ),
)
