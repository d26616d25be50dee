"""Which topic configs there are and which values they take, against a Kafka release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.controller.configs.topic import CONFIGS, REMOTE_STORAGE_SYSTEM, Effective, effective, faults
from quorate.controller.configs.values import Source
from quorate.metadata.configs import BROKER
from quorate.metadata.state import ClusterState
from quorate.records import ConfigRecord

TOLD = [json.loads(line) for line in (Path(__file__).parent / "kafka/topic_configs.jsonl").read_text().splitlines()]
VALUES = [told for told in TOLD if told["kind"] == "values"]
CHANGED = [told for told in TOLD if told["kind"] == "changed"]
EFFECTIVE = [told for told in TOLD if told["kind"] == "effective"]

NOTHING: dict[str, Any] = {"configs": ClusterState().configs, "static": {REMOTE_STORAGE_SYSTEM: "true"}}


@pytest.mark.parametrize("told", VALUES, ids=[told["name"] for told in VALUES])
def test_takes_what_kafka_takes(told: dict[str, Any]) -> None:
    asked = [*told["taken"], *told["refused"]]

    assert told["taken"] == [value for value in asked if not faults({told["name"]: value}, **NOTHING)]


def test_knows_every_config_that_kafka_knows() -> None:
    assert [told["name"] for told in VALUES if told["name"] != "no.such.config"] == list(CONFIGS)


def _words(told: dict[str, Any]) -> str:
    return f"{told['before']} -> {told['now']}, {'with' if told['tiered'] else 'without'} tiered storage"


@pytest.mark.parametrize("told", CHANGED, ids=[_words(told) for told in CHANGED])
def test_sees_what_cannot_go_together(told: dict[str, Any]) -> None:
    static = {REMOTE_STORAGE_SYSTEM: str(told["tiered"]).lower()}
    found = faults(told["now"], before=told["before"], configs=ClusterState().configs, static=static)

    assert told["valid"] == (not found), found


@pytest.mark.parametrize("told", EFFECTIVE, ids=["nothing set", "all four sources", "minutes before hours"])
def test_finds_the_value_that_counts_where_kafka_finds_it(told: dict[str, Any]) -> None:
    state = ClusterState()
    for offset, (name, value) in enumerate(told["cluster"].items()):
        state.apply(ConfigRecord(BROKER, "", name, value), offset)
    found = {
        name: effective(config, topic=told["topic"], configs=state.configs, static=told["static"])
        for name, config in CONFIGS.items()
        if not config.internal
    }
    expected = {name: (row["value"], row["source"]) for name, row in told["result"].items() if row["value"] is not None}

    assert expected == {name: (value.value, value.source) for name, value in found.items()}


def test_says_what_is_wrong() -> None:
    assert ["segment.bytes='7': it must be a whole number from 1048576 to 2147483647"] == faults(
        {"segment.bytes": "7"}, **NOTHING
    )


def test_what_is_not_set_on_the_topic_counts_as_well() -> None:
    state = ClusterState()
    state.apply(ConfigRecord(BROKER, "", "log.cleaner.max.compaction.lag.ms", "9"), 0)

    assert ["min.compaction.lag.ms=10 is above max.compaction.lag.ms=9"] == faults(
        {"min.compaction.lag.ms": "10"}, configs=state.configs, static={}
    )


@pytest.mark.parametrize("value", ["abc", "", "-3", "1.5"])
@pytest.mark.parametrize("name", ["log.retention.ms", "log.retention.hours"])
def test_what_no_broker_can_read_does_not_count(name: str, value: str) -> None:
    state = ClusterState()
    state.apply(ConfigRecord(BROKER, "", name, value), 0)
    found = effective(CONFIGS["retention.ms"], topic={}, configs=state.configs, static={"log.retention.minutes": "2"})

    assert Effective("120000", Source.STATIC) == found
    assert [] == faults({"retention.ms": "5"}, configs=state.configs, static={})


@pytest.mark.parametrize(
    ("value", "taken"), [("\x007\x1f", True), ("\N{NO-BREAK SPACE}7", False), ("7\N{EM SPACE}", False)]
)
def test_blanks_around_a_value_are_javas(value: str, taken: bool) -> None:
    assert taken == (not faults({"flush.ms": value}, **NOTHING))


def test_a_number_with_blanks_is_reckoned_with() -> None:
    lags = {"min.compaction.lag.ms": "\x0010", "max.compaction.lag.ms": " 9\x1f"}

    assert ["min.compaction.lag.ms=10 is above max.compaction.lag.ms=9"] == faults(lags, **NOTHING)


@pytest.mark.parametrize(
    ("value", "taken"),
    [("0" * 10_000 + "7", True), ("-" + "0" * 10_000, True), ("9" * 10_000, False), ("9" * 19, False)],
)
def test_a_number_may_have_any_number_of_digits(value: str, taken: bool) -> None:
    """Python reads no more than some 4,000 of them."""
    assert taken == (not faults({"min.compaction.lag.ms": value}, **NOTHING))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush.ms", "0" * 32_000 + "x"),
        ("flush.ms", " " * 16_000 + "x" + " " * 16_000),
        ("min.cleanable.dirty.ratio", "1" * 32_000 + "x"),
        ("cleanup.policy", "compact" + " " * 32_000 + "delete"),
        ("leader.replication.throttled.replicas", "0" * 16_000 + ":" + "1" * 16_000 + "x"),
    ],
)
def test_a_long_value_is_refused_as_soon_as_a_short_one(name: str, value: str) -> None:
    """With a pattern that goes back and forth these would take minutes."""
    assert 1 == len(faults({name: value}, **NOTHING))
