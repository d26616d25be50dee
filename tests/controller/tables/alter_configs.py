"""AlterConfigs (33)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kraft import Message
from kraft.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from quorate.controller.commands.alter_configs import alter_configs
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource
from quorate.records import ClearElrRecord
from tests.controller.altering import ORDERS, record, with_orders, with_policy
from tests.controller.clusters import Cluster
from tests.controller.tables.table import Row, Table

Asked: TypeAlias = AlterConfigsRequest.AlterConfigsResource
Config: TypeAlias = AlterConfigsRequest.AlterConfigsResource.AlterableConfig
Result: TypeAlias = AlterConfigsResponse.AlterConfigsResourceResponse
ALL, ONE, NOBODY = ConfigResource(BROKER, ""), ConfigResource(BROKER, "1"), ConfigResource(TOPIC, "nobody")
PAYMENTS, PHONES = ConfigResource(GROUP, "payments"), ConfigResource(CLIENT_METRICS, "phones")
MIN_ISR = "min.insync.replicas"


def nothing_set() -> Cluster:
    """Broker 1; topic orders, nothing is set; metadata.version 4.4-IV2."""
    return with_orders()


def flush_set() -> Cluster:
    """The same, orders has flush.ms=1."""
    return with_orders({"flush.ms": "1"})


def three_set() -> Cluster:
    """The same, orders has segment.ms=3, flush.ms=1, flush.messages=2."""
    return with_orders({"segment.ms": "3", "flush.ms": "1", "flush.messages": "2"})


def broker_set() -> Cluster:
    """The same, nothing is set on orders; broker 1 has num.io.threads=5."""
    cluster = with_orders()
    cluster.apply([record(ONE, "num.io.threads", "5")])
    return cluster


def with_elr() -> Cluster:
    """The same, ELR is on; orders and all brokers have min.insync.replicas=1."""
    cluster = with_orders({MIN_ISR: "1"}, elr=True)
    cluster.apply([record(ALL, MIN_ISR, "1")])
    return cluster


def listed(resource: ConfigResource, configs: Mapping[str, str | None]) -> Asked:
    return Asked(resource.type, resource.name, tuple(Config(name, value) for name, value in configs.items()))


def asked(*resources: Asked, validate_only: bool = False) -> AlterConfigsRequest:
    return AlterConfigsRequest(resources=resources, validate_only=validate_only)


def told(*outcomes: tuple[ConfigResource, ErrorCode]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=tuple(Result(code, None, resource.type, resource.name) for resource, code in outcomes)
    )


def one(
    case: str,
    rule: str,
    resource: ConfigResource,
    configs: Mapping[str, str | None],
    written: Mapping[str, str | None] | ErrorCode,
    *more: Message,
    given: Callable[[], Cluster] | None = None,
) -> Row:
    """A request of one resource: what is listed, and what is written of it, or its error."""
    code = written if isinstance(written, ErrorCode) else NONE
    records = () if isinstance(written, ErrorCode) else tuple(record(resource, *each) for each in written.items())
    return Row(
        case=case,
        rule=rule,
        given=given,
        request=asked(listed(resource, configs)),
        records=(*records, *more),
        answer=told((resource, code)),
    )


def command(cluster: Cluster, request: AlterConfigsRequest) -> Command[Any]:
    return alter_configs(request, settings=cluster.settings)


NONE = ErrorCode.NONE
BAD_REQUEST, BAD_CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
REPLACE = "ConfigurationControlManager.legacyAlterConfigResource"
ASKED_ONCE = "ConfigAdminManager.preprocess"
VALID = "ControllerConfigurationValidator.validate"
CHECKED = "ConfigurationControlManager.validateAlterConfig"
LEFT = {"share.auto.offset.reset": "earliest"}

TABLE = Table(
    api="AlterConfigs",
    kafka="ConfigurationControlManager.legacyAlterConfigs, ConfigAdminManager.preprocess (KIP-133)",
    command=command,
    given=nothing_set,
    rows=(
        one(
            "the first ones",
            f"{REPLACE}: as listed; Kafka's order is that of a hash table.",
            ORDERS,
            {"flush.ms": "1", "flush.messages": "2"},
            {"flush.ms": "1", "flush.messages": "2"},
        ),
        one("another value", REPLACE, ORDERS, {"flush.ms": "2"}, {"flush.ms": "2"}, given=flush_set),
        one(
            "as it is",
            f"{REPLACE}: what is as it was is not written.",
            ORDERS,
            {"flush.ms": "1"},
            {},
            given=flush_set,
        ),
        one(
            "others",
            f"{REPLACE}: what is listed, then what is not listed is deleted; Kafka deletes in no order, here by name.",
            ORDERS,
            {"flush.ms": "1", "retention.ms": "4"},
            {"retention.ms": "4", "flush.messages": None, "segment.ms": None},
            given=three_set,
        ),
        one(
            "none any more",
            f"{REPLACE}: what is not listed is deleted.",
            ORDERS,
            {},
            {"flush.ms": None},
            given=flush_set,
        ),
        one("none as before", f"{REPLACE}: nothing to be done is done.", ORDERS, {}, {}),
        one(
            "of a broker as it is",
            f"{REPLACE}: of brokers it is written all the same, as they read files again then.",
            ONE,
            {"num.io.threads": "5"},
            {"num.io.threads": "5"},
            given=broker_set,
        ),
        one(
            "of a broker another",
            f"{REPLACE}: what is listed, then what goes.",
            ONE,
            {"background.threads": "5"},
            {"background.threads": "5", "num.io.threads": None},
            given=broker_set,
        ),
        one(
            "of all brokers",
            "ControllerConfigurationValidator.validate: a broker without a name is all of them (KIP-226).",
            ALL,
            {"background.threads": "5"},
            {"background.threads": "5"},
            given=broker_set,
        ),
        one("of a group", f"{VALID}: nobody has to make it first (KIP-848).", PAYMENTS, LEFT, LEFT),
        one(
            "of a client metrics subscription",
            f"{VALID}: nobody has to make it first (KIP-714).",
            PHONES,
            {"interval.ms": "100"},
            {"interval.ms": "100"},
        ),
        Row(
            case="several, one of them cannot be",
            rule="ConfigurationControlManager.legacyAlterConfigs: each by itself.",
            given=flush_set,
            request=asked(listed(PAYMENTS, LEFT), listed(NOBODY, {"flush.ms": "1"}), listed(ORDERS, {"flush.ms": "2"})),
            records=(record(PAYMENTS, *next(iter(LEFT.items()))), record(ORDERS, "flush.ms", "2")),
            answer=told((PAYMENTS, NONE), (NOBODY, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (ORDERS, NONE)),
        ),
        Row(
            case="one resource twice, and another",
            rule="ControllerApis.handleLegacyAlterConfigs: refused, and answered once.",
            request=asked(listed(ORDERS, {"flush.ms": "1"}), listed(PAYMENTS, LEFT), listed(ORDERS, {})),
            records=(record(PAYMENTS, *next(iter(LEFT.items()))),),
            answer=told((ORDERS, BAD_REQUEST), (PAYMENTS, NONE)),
        ),
        Row(
            case="one config twice",
            rule=f"{ASKED_ONCE}: a config is listed once.",
            request=asked(Asked(*ORDERS, (Config("flush.ms", "1"), Config("flush.ms", "2")))),
            answer=told((ORDERS, BAD_REQUEST)),
        ),
        Row(
            case="only to be validated",
            rule="ControllerResult.withoutRecords: decided alike, nothing is written (KIP-133).",
            given=flush_set,
            request=asked(listed(ORDERS, {}), listed(NOBODY, {}), validate_only=True),
            answer=told((ORDERS, NONE), (NOBODY, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        ),
        Row(
            case="nothing",
            rule="ConfigurationControlManager.legacyAlterConfigs: nothing to be done is done.",
            request=asked(),
            answer=told(),
        ),
        one("no value", f"{ASKED_ONCE}: what shall go is not listed.", ORDERS, {"flush.ms": None}, BAD_REQUEST),
        one(
            "no value, and no such topic",
            f"{ASKED_ONCE}: before the controller looks at it.",
            NOBODY,
            {"flush.ms": None},
            BAD_REQUEST,
        ),
        one(
            "no value of it",
            "LogConfig.validate, by ControllerConfigurationValidator.",
            ORDERS,
            {"flush.ms": "x"},
            BAD_CONFIG,
        ),
        one(
            "no such config",
            "LogConfig.validate: a topic has Kafka's configs only.",
            ORDERS,
            {"flush.ms": "1", "no.such.config": "x"},
            BAD_CONFIG,
        ),
        one(
            "no value of it, and no such topic",
            f"{CHECKED}: the values before whether it exists.",
            NOBODY,
            {"flush.ms": "x"},
            BAD_CONFIG,
        ),
        one(
            "no such topic",
            "QuorumController.ConfigResourceExistenceChecker: it has to be there.",
            NOBODY,
            {"flush.ms": "1"},
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        one(
            "no name of a topic, and no value of it",
            f"{VALID}: the name before the values; Topic.validate.",
            ConfigResource(TOPIC, "a/b"),
            {"flush.ms": "x"},
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ),
        one("all topics", f"{VALID}: they have no default.", ConfigResource(TOPIC, ""), {"flush.ms": "1"}, BAD_REQUEST),
        one("all groups", f"{VALID}: they have no default.", ConfigResource(GROUP, ""), LEFT, BAD_REQUEST),
        one(
            "no such broker",
            "QuorumController.ConfigResourceExistenceChecker: it has to be there.",
            ConfigResource(BROKER, "9"),
            {},
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        one(
            "no number of a broker",
            f"{VALID}: brokers are named by id.",
            ConfigResource(BROKER, "one"),
            {"background.threads": "5"},
            BAD_REQUEST,
        ),
        one(
            "of a broker what is in its file only",
            f"{ASKED_ONCE}: DynamicBrokerConfig.validate (KIP-226).",
            ONE,
            {"log.dirs": "/d"},
            BAD_REQUEST,
        ),
        one(
            "loggers",
            f"{ASKED_ONCE}: only the incremental way has them (KIP-412).",
            ConfigResource(BROKER_LOGGER, "1"),
            {"root": "INFO"},
            BAD_REQUEST,
        ),
        one(
            "a type that there is not",
            "ControllerApis.handleLegacyAlterConfigs: ConfigResource.Type.UNKNOWN.",
            ConfigResource(99, "1"),
            {},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        one(
            "a policy refuses",
            f"{CHECKED}: an AlterConfigPolicy has the last word (KIP-133).",
            ORDERS,
            {"retention.ms": "999"},
            ErrorCode.POLICY_VIOLATION,
            given=with_policy,
        ),
        one(
            "a policy lets it be",
            f"{CHECKED}: an AlterConfigPolicy has the last word (KIP-133).",
            ORDERS,
            {"retention.ms": "1000"},
            {"retention.ms": "1000"},
            given=with_policy,
        ),
        one(
            "ELR, all brokers' least in-sync replicas are not listed",
            "ConfigurationControlManager.isDisallowedClusterMinIsrTransition: they cannot be deleted (KIP-966).",
            ALL,
            {"background.threads": "5"},
            BAD_CONFIG,
            given=with_elr,
        ),
        one(
            "ELR, all brokers' least in-sync replicas are listed",
            "ConfigurationControlManager.createClearElrRecordsAsNeeded: every ELR ends, as it is or not (KIP-966).",
            ALL,
            {"background.threads": "5", MIN_ISR: "1"},
            {"background.threads": "5", MIN_ISR: "1"},
            ClearElrRecord(""),
            given=with_elr,
        ),
        one(
            "ELR, one broker's least in-sync replicas",
            "ConfigurationControlManager.isDisallowedBrokerMinIsrTransition: no broker has its own (KIP-966).",
            ONE,
            {MIN_ISR: "1"},
            BAD_CONFIG,
            given=with_elr,
        ),
        one(
            "ELR, a topic's least in-sync replicas go",
            "ConfigurationControlManager.createClearElrRecordsAsNeeded: its ELR ends with them (KIP-966).",
            ORDERS,
            {},
            {MIN_ISR: None},
            ClearElrRecord("orders"),
            given=with_elr,
        ),
        one(
            "ELR, a topic's least in-sync replicas as they are",
            "ConfigurationControlManager.createClearElrRecordsAsNeeded: nothing is written, its ELR stays (KIP-966).",
            ORDERS,
            {MIN_ISR: "1"},
            {},
            given=with_elr,
        ),
    ),
)
