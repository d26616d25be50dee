"""What is a secret: one rule for every place that shows the values of configs."""

from __future__ import annotations

import pytest

from kraft.api.describe_configs import DescribeConfigsRequest
from quorate.controller.commands.describe_configs import describe_configs
from quorate.controller.secrets import PUBLIC, REDACTED, is_secret, redacted
from quorate.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from quorate.records import ConfigRecord, UserScramCredentialRecord
from tests.controller.clusters import Cluster
from tests.controller.told import told

PASSWORDS = [each["name"] for each in told("broker") if each["type"] == "PASSWORD"]
TABLE = {
    (BROKER, "my.plugin.api.key"): True,
    (BROKER, "listener.name.a.my.plugin.api.key"): True,
    (BROKER, "listener.name.a.plain.sasl.jaas.config"): True,
    (BROKER, "listener.name.a.ssl.keystore.location"): False,
    (BROKER, "listener.name.a.plain.sasl.login.class"): False,
    (BROKER, "plain.sasl.login.class"): True,
    (BROKER, "log.retention.ms"): False,
    (BROKER, "log.retention.ms\n"): True,
    (BROKER, "retention.ms"): True,
    (TOPIC, "retention.ms"): False,
    (TOPIC, "listener.name.a.retention.ms"): True,
    (TOPIC, "my.plugin.api.key"): True,
    (CLIENT_METRICS, "interval.ms"): False,
    (CLIENT_METRICS, "retention.ms"): True,
    (GROUP, "share.auto.offset.reset"): False,
    (GROUP, "retention.ms"): True,
    (BROKER_LOGGER, "kafka.controller"): True,
    (3, "retention.ms"): True,
}


@pytest.mark.parametrize(("config", "expected"), TABLE.items(), ids=[f"{kind} {name!r}" for kind, name in TABLE])
def test_told_is_only_what_is_known_to_be_no_password(config: tuple[int, str], expected: bool) -> None:
    assert expected == is_secret(*config)


@pytest.mark.parametrize("prefix", ["", "listener.name.internal."])
def test_every_password_of_kafkas_is_a_secret_and_no_other_config_of_a_broker(prefix: str) -> None:
    assert 10 == len(PASSWORDS)
    assert PASSWORDS == [each["name"] for each in told("broker") if is_secret(BROKER, prefix + each["name"])]


def test_describe_configs_says_the_same() -> None:
    cluster = Cluster().brokers(1)
    cluster.topic("orders", [1])
    cluster.apply(ConfigRecord(kind, name_of(kind), name, "7") for kind, name in TABLE)
    asked = DescribeConfigsRequest.DescribeConfigsResource
    resources = tuple(asked(kind, name_of(kind), None) for kind in PUBLIC)
    request = DescribeConfigsRequest(resources=resources)
    results = cluster.decide(describe_configs(request, settings=cluster.settings)).response.results
    answered = {(result.resource_type, config.name): config for result in results for config in result.configs}

    assert len(answered) > sum(map(len, PUBLIC.values())) - 50  # without those for Kafka's own use
    assert {key: config.is_sensitive for key, config in answered.items()} == {key: is_secret(*key) for key in answered}
    assert [] == [key for key, config in answered.items() if config.is_sensitive and config.value is not None]


def name_of(kind: int) -> str:
    return "1" if kind == BROKER else "orders"


def test_a_record_is_shown_without_them() -> None:
    hidden = ConfigRecord(BROKER, "1", "my.plugin.api.key", "topsecret2")
    told_of = ConfigRecord(BROKER, "1", "log.retention.ms", "7")
    removed = ConfigRecord(BROKER, "1", "my.plugin.api.key", None)
    credential = UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096)

    assert ConfigRecord(BROKER, "1", "my.plugin.api.key", REDACTED) == redacted(hidden)
    assert [told_of, removed] == [redacted(told_of), redacted(removed)]
    assert UserScramCredentialRecord("alice", 1, b"", b"", b"", 4096) == redacted(credential)
