"""Which topic configs there are and which values they take, against a released Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.controller.topic_configs import CONFIGS, effective, faults
from quorate.metadata.configs import BROKER
from quorate.metadata.state import ClusterState
from quorate.records import ConfigRecord

INTERNAL = "internal.segment.bytes"  # for Kafka's own tests
TOLD = [json.loads(line) for line in (Path(__file__).parent / "kafka/topic_configs.jsonl").read_text().splitlines()]
VALUES = [told for told in TOLD if told["kind"] == "values" and told["name"] != INTERNAL]
TOGETHER = [told for told in TOLD if told["kind"] == "together"]
EFFECTIVE = [told for told in TOLD if told["kind"] == "effective"]


@pytest.mark.parametrize("told", VALUES, ids=[told["name"] for told in VALUES])
def test_takes_what_kafka_takes(told: dict[str, Any]) -> None:
    asked = [*told["taken"], *told["refused"]]

    assert told["taken"] == [value for value in asked if not faults({told["name"]: value})]


def test_knows_every_config_that_kafka_knows() -> None:
    assert [told["name"] for told in VALUES if told["name"] != "no.such.config"] == list(CONFIGS)


@pytest.mark.parametrize("told", TOGETHER, ids=[str(told["values"]) for told in TOGETHER])
def test_sees_what_cannot_go_together(told: dict[str, Any]) -> None:
    assert told["valid"] == (not faults(told["values"]))


@pytest.mark.parametrize("told", EFFECTIVE, ids=["nothing set", "all four sources", "minutes before hours"])
def test_finds_the_value_that_counts_where_kafka_finds_it(told: dict[str, Any]) -> None:
    state = ClusterState()
    for offset, (name, value) in enumerate(told["cluster"].items()):
        state.apply(ConfigRecord(BROKER, "", name, value), offset)
    found = {
        name: effective(config, topic=told["topic"], configs=state.configs, static=told["static"])
        for name, config in CONFIGS.items()
    }
    expected = {name: (row["value"], row["source"]) for name, row in told["result"].items() if name != INTERNAL}

    assert expected == {name: (value.value, value.source) for name, value in found.items()}


def test_says_what_is_wrong() -> None:
    assert faults({"segment.bytes": "7"}) == ["segment.bytes='7': it takes a whole number from 1048576 to 2147483647"]
