"""Configs altered request after request, at random, as a Kafka release altered them: the same errors, and records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraft import Message
from kraft.api.alter_configs import AlterConfigsRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.controller.commands.alter_configs import alter_configs
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.engine.decision import Command
from quorate.metadata.configs import BROKER
from quorate.records import ClearElrRecord, ConfigRecord
from tests.controller.clusters import Cluster

TOLD = Path(__file__).parents[1] / "kafka/config_changes.jsonl"
CLUSTERS = [json.loads(line) for line in TOLD.read_text().splitlines()]


def cluster(told: dict[str, Any]) -> Cluster:
    made = Cluster(told["level"], elr=told["elr"]).brokers(1, 2)
    made.topic("orders", [1])
    made.topic("bills", [1])
    made.apply((ConfigRecord(BROKER, "2", "cordoned.log.dirs", "/a,/b"),))
    return made


def value(told: str | None) -> str | None:
    """Of a long one the text has its length."""
    return "x" * int(told[2:]) if told is not None and told.startswith("x*") else told


def command(step: dict[str, Any], made: Cluster) -> Command[Any]:
    if step["api"] == "legacy":
        listed = AlterConfigsRequest.AlterConfigsResource
        resources = tuple(
            listed(
                each["type"],
                each["name"],
                tuple(listed.AlterableConfig(name, value(told)) for name, _, told in each["configs"]),
            )
            for each in step["asked"]
        )
        return alter_configs(AlterConfigsRequest(resources=resources), settings=made.settings)
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = tuple(
        asked(
            each["type"],
            each["name"],
            tuple(asked.AlterableConfig(name, operation, value(told)) for name, operation, told in each["configs"]),
        )
        for each in step["asked"]
    )
    return incremental_alter_configs(IncrementalAlterConfigsRequest(resources=changes), settings=made.settings)


def expected_record(told: dict[str, Any]) -> Message:
    if "clear" in told:
        return ClearElrRecord(told["clear"])
    return ConfigRecord(told["type"], told["name"], told["config"], value(told["value"]))


def ordered(records: tuple[Message, ...], *, legacy: bool) -> list[Message]:
    """What AlterConfigs deletes of a resource, Kafka deletes in the order of a hash table; we by name."""
    if not legacy:
        return list(records)
    return sorted(records, key=str)


@pytest.mark.parametrize("told", CLUSTERS, ids=[f"cluster {number}" for number in range(len(CLUSTERS))])
def test_answers_and_writes_what_kafka_does(told: dict[str, Any]) -> None:
    made = cluster(told)
    for step in told["steps"]:
        decision = made.decide(command(step, made))
        expected = tuple(map(expected_record, step["records"]))
        codes = {(each["type"], each["name"]): each["code"] for each in step["errors"]}

        assert codes == {
            (each.resource_type, each.resource_name): each.error_code for each in decision.response.responses
        }, step
        legacy = step["api"] == "legacy"
        assert ordered(expected, legacy=legacy) == ordered(decision.records, legacy=legacy), step
        made.apply(decision.records)
