"""IncrementalAlterConfigs of brokers, groups and client metrics subscriptions. Kafka: DynamicBrokerConfig, too."""

from __future__ import annotations

import pytest

from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.controller.commands.incremental_alter_configs import Operation, incremental_alter_configs
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER, CLIENT_METRICS, GROUP, Resource
from quorate.records import ClearElrRecord, ConfigRecord, RegisterControllerRecord
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
from tests.controller.clusters import Cluster, uuid

ALL, ONE = Resource(BROKER, ""), Resource(BROKER, "1")
HUSH = "listener.name.internal.ssl.key.password"

BROKERS_WRITTEN = {
    "for all": (ALL, to_set("background.threads", "5"), "5"),
    "for one": (ONE, to_set("background.threads", "5"), "5"),
    # A broker reads its key stores again when it is told their names: what is as it is is written, too.
    "as it is": (ONE, to_set("log.cleaner.threads", "2"), "2"),
    "delete": (ONE, delete("log.cleaner.threads"), None),
    "delete what is not set": (ONE, delete("background.threads"), None),
    "delete what is in the file only": (ONE, delete("log.dirs"), None),
    "of a listener": (ONE, to_set("listener.name.internal.ssl.client.auth", "none"), "none"),
    "a secret": (ONE, to_set(HUSH, "hush"), "hush"),
    "what a plugin may know": (ALL, to_set("no.such.config", "5"), "5"),
    "append to the default": (ALL, append("log.cleanup.policy", "compact"), "delete,compact"),
    "append to a list without a default": (ALL, append("config.providers", "a"), "a"),
    "an empty list of cordoned directories": (ONE, to_set("cordoned.log.dirs", ""), ""),
    "some of the cordoned directories": (Resource(BROKER, "2"), to_set("cordoned.log.dirs", "/b"), "/b"),
    "less of the cordoned directories": (Resource(BROKER, "2"), subtract("cordoned.log.dirs", "/a"), "/b"),
}


def with_brokers(*, level: int = 33, elr: bool = False) -> Cluster:
    cluster = Cluster(level, elr=elr).brokers(1, 2)
    cluster.apply(
        (
            ConfigRecord(BROKER, "1", "log.cleaner.threads", "2"),
            ConfigRecord(BROKER, "2", "cordoned.log.dirs", "/a, /b"),
        )
    )
    return cluster


@pytest.mark.parametrize(("resource", "config", "value"), BROKERS_WRITTEN.values(), ids=BROKERS_WRITTEN)
def test_writes_of_brokers(resource: Resource, config: Config, value: str | None) -> None:
    cluster = with_brokers()
    if config.config_operation == Operation.SUBTRACT:
        cluster.apply((ConfigRecord(BROKER, "2", "cordoned.log.dirs", "/a,/b"),))

    assert (record(resource, config.name, value),) == decided(cluster, asked(resource, config)).records
    assert [(resource, ErrorCode.NONE)] == altered(cluster, asked(resource, config))
    assert value == cluster.state.configs.get(*resource, config.name)


BROKERS_REFUSED = {
    # ControllerConfigurationValidator, ConfigResourceExistenceChecker.
    "no number": (Resource(BROKER, "one"), to_set("background.threads", "5"), ErrorCode.INVALID_REQUEST),
    "below zero": (Resource(BROKER, "-1"), to_set("background.threads", "5"), ErrorCode.INVALID_REQUEST),
    "a number otherwise": (Resource(BROKER, "01"), to_set("background.threads", "5"), ErrorCode.INVALID_REQUEST),
    "no int": (Resource(BROKER, "2147483648"), to_set("background.threads", "5"), ErrorCode.INVALID_REQUEST),
    "nobody": (Resource(BROKER, "9"), to_set("background.threads", "5"), ErrorCode.BROKER_ID_NOT_REGISTERED),
    # DynamicBrokerConfig.validateConfigs, which a broker asks before it passes on.
    "in the file only": (ONE, to_set("log.dirs", "/d"), ErrorCode.INVALID_REQUEST),
    "no value of it": (ALL, to_set("background.threads", "0"), ErrorCode.INVALID_REQUEST),
    "of one broker": (ALL, to_set("listeners", "PLAINTEXT://:1"), ErrorCode.INVALID_REQUEST),
    "of a listener": (ONE, to_set("ssl.client.auth", "none"), ErrorCode.INVALID_REQUEST),
    # ConfigurationControlManager.
    "no list": (ONE, append("background.threads", "5"), ErrorCode.INVALID_CONFIG),
    "no list, of a listener": (ONE, append("listener.name.a.ssl.cipher.suites", "5"), ErrorCode.INVALID_CONFIG),
    "too long": (ALL, to_set("no.such.config", "x" * 32_768), ErrorCode.INVALID_CONFIG),
    "too long for Java": (ALL, to_set("no.such.config", "\N{GRINNING FACE}" * 16_384), ErrorCode.INVALID_CONFIG),
    "a directory that is not cordoned": (ONE, to_set("cordoned.log.dirs", "/a"), ErrorCode.INVALID_CONFIG),
    "one directory more": (Resource(BROKER, "2"), append("cordoned.log.dirs", "/c"), ErrorCode.INVALID_CONFIG),
}


@pytest.mark.parametrize(("resource", "config", "code"), BROKERS_REFUSED.values(), ids=BROKERS_REFUSED)
def test_refuses_of_brokers(resource: Resource, config: Config, code: ErrorCode) -> None:
    cluster = with_brokers()

    assert () == decided(cluster, asked(resource, config)).records
    assert [(resource, code)] == altered(cluster, asked(resource, config))


def test_the_longest_value_that_there_can_be() -> None:
    cluster, longest = with_brokers(), to_set("no.such.config", "x" * 32_767)

    assert [(ALL, ErrorCode.NONE)] == altered(cluster, asked(ALL, longest))


def test_controllers_are_configured_like_brokers() -> None:
    cluster = with_brokers()
    cluster.apply((RegisterControllerRecord(3_000, uuid(1)),))
    three = Resource(BROKER, "3000")

    assert [(three, ErrorCode.NONE)] == altered(cluster, asked(three, to_set("num.io.threads", "5")))


def test_directories_are_cordoned_from_metadata_version_30_on() -> None:
    for change in (to_set("cordoned.log.dirs", ""), delete("cordoned.log.dirs")):
        assert [(ONE, ErrorCode.INVALID_CONFIG)] == altered(with_brokers(level=29), asked(ONE, change))
        assert [(ONE, ErrorCode.NONE)] == altered(with_brokers(level=30), asked(ONE, change))


def test_a_secret_that_is_refused_is_not_told() -> None:
    cluster = with_brokers()
    request = IncrementalAlterConfigsRequest(
        resources=(
            asked(ALL, to_set(HUSH, "hush")),
            asked(ONE, to_set("ssl.key.password", "hush")),
            asked(Resource(BROKER, "2"), append(HUSH, "hush")),
            asked(Resource(BROKER, "9"), to_set("no.such.config", "hush")),
        )
    )
    response = cluster.write(incremental_alter_configs(request, settings=cluster.settings))

    assert 4 == len([each for each in response.responses if each.error_code])
    assert "hush" not in str(response)


ELR_BROKERS = {
    "for all": (ALL, to_set("min.insync.replicas", "2"), ErrorCode.NONE),
    "for all, gone": (ALL, delete("min.insync.replicas"), ErrorCode.INVALID_CONFIG),
    "for one": (ONE, to_set("min.insync.replicas", "2"), ErrorCode.INVALID_CONFIG),
    "for one, gone": (ONE, delete("min.insync.replicas"), ErrorCode.INVALID_CONFIG),
}


@pytest.mark.parametrize(("resource", "config", "code"), ELR_BROKERS.values(), ids=ELR_BROKERS)
def test_with_elr_all_brokers_have_the_same_least_in_sync_replicas(
    resource: Resource, config: Config, code: ErrorCode
) -> None:
    assert [(resource, code)] == altered(with_brokers(elr=True), asked(resource, config))
    assert [(resource, ErrorCode.NONE)] == altered(with_brokers(), asked(resource, config))


def test_with_elr_the_clusters_least_in_sync_replicas_end_all_eligibility() -> None:
    cluster = with_brokers(elr=True)
    change = asked(ALL, to_set("min.insync.replicas", "2"))
    expected = (record(ALL, "min.insync.replicas", "2"), ClearElrRecord(""))

    assert expected == decided(cluster, change).records
    assert [(ALL, ErrorCode.NONE)] == altered(cluster, change)
    assert expected == decided(cluster, change).records  # as it is, and written all the same


# Client metrics subscriptions and groups.

PAYMENTS, PHONES = Resource(GROUP, "payments"), Resource(CLIENT_METRICS, "phones")

OTHERS = {
    "a group": (PAYMENTS, to_set("share.auto.offset.reset", "earliest"), ErrorCode.NONE),
    "no config of a group": (PAYMENTS, to_set("retention.ms", "5"), ErrorCode.INVALID_CONFIG),
    "no value of a group's": (PAYMENTS, to_set("consumer.session.timeout.ms", "1"), ErrorCode.INVALID_CONFIG),
    "all groups": (Resource(GROUP, ""), to_set("consumer.session.timeout.ms", "45000"), ErrorCode.INVALID_REQUEST),
    # Kafka's controller knows no types of theirs.
    "a group's list": (PAYMENTS, append("streams.rack.aware.assignment.tags", "a"), ErrorCode.INVALID_CONFIG),
    "a subscription": (PHONES, to_set("match", "client_software_name=a.*"), ErrorCode.NONE),
    "no config of a subscription": (PHONES, to_set("retention.ms", "5"), ErrorCode.INVALID_REQUEST),
    "no value of a subscription's": (PHONES, to_set("interval.ms", "99"), ErrorCode.INVALID_REQUEST),
    "no criterion": (PHONES, to_set("match", "client"), ErrorCode.INVALID_CONFIG),
    "all subscriptions": (Resource(CLIENT_METRICS, ""), to_set("interval.ms", "100"), ErrorCode.INVALID_REQUEST),
    "a subscription's list": (PHONES, append("metrics", "a"), ErrorCode.INVALID_CONFIG),
}


@pytest.mark.parametrize(("resource", "config", "code"), OTHERS.values(), ids=OTHERS)
def test_groups_and_subscriptions_need_not_be_made_first(resource: Resource, config: Config, code: ErrorCode) -> None:
    cluster = with_brokers()
    expected = (record(resource, config.name, config.value),) if code == ErrorCode.NONE else ()

    assert expected == decided(cluster, asked(resource, config)).records
    assert [(resource, code)] == altered(cluster, asked(resource, config))


def test_what_is_set_as_it_is_is_written_of_brokers_alone() -> None:
    cluster = with_orders({"flush.ms": "1"})
    group = asked(PAYMENTS, to_set("share.auto.offset.reset", "earliest"))
    altered(cluster, group)

    assert () == decided(cluster, group, asked(ORDERS, to_set("flush.ms", "1"))).records


def test_a_request_or_a_record_that_is_shown_shows_no_value() -> None:
    change = asked(ONE, to_set(HUSH, "hush"))

    assert "hush" not in repr(change)
    assert "hush" not in repr(decided(with_brokers(), change).records)
