"""DescribeConfigs of a node: a controller tells of its own file, of brokers what the log has, of others nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from kraft.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from quorate.controller.commands.describe_configs import describe_configs
from quorate.controller.configs.broker import QUOTAS
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.values import Source
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER
from quorate.records import ConfigRecord, RegisterControllerRecord
from tests.controller.clusters import Cluster

FILE: Final = {"node.id": "1", "listeners": "CONTROLLER://:9093", "num.network.threads": "7"}
SETTINGS: Final = ControllerSettings(node_id=1, static_configs=FILE)
Described = dict[str, tuple[str | None, int]]


def result(name: str, settings: ControllerSettings = SETTINGS) -> DescribeConfigsResponse.DescribeConfigsResult:
    """What controller 1 says, where 1, 2 are controllers, and 101, 102 brokers."""
    cluster = Cluster().brokers(101, 102)
    cluster.apply(RegisterControllerRecord(node_id) for node_id in (1, 2))
    cluster.apply([ConfigRecord(BROKER, "102", each, "9") for each in QUOTAS])
    request = DescribeConfigsRequest((DescribeConfigsRequest.DescribeConfigsResource(BROKER, name),))
    (found,) = cluster.decide(describe_configs(request, settings=settings)).response.results
    return found


def configs(name: str, settings: ControllerSettings = SETTINGS) -> Described:
    return {each.name: (each.value, each.config_source) for each in result(name, settings).configs}


def test_a_controller_describes_its_own_file() -> None:
    told = configs("1")

    assert FILE == {name: told[name][0] for name in FILE}
    assert {Source.STATIC} == {told[name][1] for name in FILE}


@pytest.mark.parametrize("given", ["broker.id", "node.id"])
def test_node_id_and_broker_id_are_one(given: str) -> None:
    told = configs("1", replace(SETTINGS, static_configs={given: "1"}))

    assert {("1", Source.STATIC)} == {told["node.id"], told["broker.id"]}


def test_it_knows_of_itself_before_it_has_registered() -> None:
    assert "7" == configs("3", replace(SETTINGS, node_id=3))["num.network.threads"][0]


def test_another_controller_describes_itself() -> None:
    """Kafka: "Unexpected broker id, expected 1 or empty string, but received 2"."""
    told = result("2")

    assert (ErrorCode.INVALID_REQUEST, ()) == (told.error_code, told.configs)
    assert "2" in (told.error_message or "")


def test_what_a_controller_has_for_itself_is_not_said_of_a_broker() -> None:
    """Its file stands for the broker's in all that is alike on every node."""
    told = configs("101")

    assert {("101", Source.STATIC)} == {told["node.id"], told["broker.id"]}
    assert Source.STATIC != told["listeners"][1]
    assert ("7", Source.STATIC) == told["num.network.threads"]


def test_quotas_of_a_broker_are_described_where_they_are_set() -> None:
    """They are not among KafkaConfig's own: QuotaConfig.brokerQuotaConfigs."""
    assert set() == QUOTAS & configs("101").keys()
    assert dict.fromkeys(QUOTAS, ("9", Source.BROKER)) == {each: configs("102").get(each) for each in QUOTAS}
