"""What can be configured of brokers, against a Kafka release; and where a value comes from."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.controller.configs.broker import DYNAMIC, candidates, config_of, default_of, faults, file_faults
from quorate.controller.configs.broker_file import FILE_ONLY, INTERNAL
from quorate.controller.configs.values import Set, Source, ValueType
from tests.controller.told import ASKED, told

TOLD = told("broker")
RUN_TIME = [each for each in TOLD if each["scope"] != "read-only"]
CHANGES = told("broker change")
CLASSES_OF_A_JVM = {"java.lang.String"}
"""Kafka looks for the class; we cannot, and take any name."""


def test_knows_every_config_that_kafka_knows() -> None:
    assert {each["name"]: each["scope"] for each in TOLD} == {
        **dict.fromkeys(FILE_ONLY, "read-only"),
        **{name: config.scope.value for name, config in DYNAMIC.items()},
    }
    assert {each["name"] for each in TOLD if each["internal"]} == INTERNAL


@pytest.mark.parametrize("row", TOLD, ids=[each["name"] for each in TOLD])
def test_has_its_type_and_default(row: dict[str, Any]) -> None:
    config = config_of(row["name"])
    assert config is not None, row

    assert (row["type"], row["default"]) == (config.values.type.name, default_of(row["name"]))


@pytest.mark.parametrize("row", RUN_TIME, ids=[each["name"] for each in RUN_TIME])
def test_takes_what_kafka_takes(row: dict[str, Any]) -> None:
    config = DYNAMIC[row["name"]]
    taken = [value for value in ASKED if config.values.takes(value)]
    if config.values.type == ValueType.CLASS:
        taken = [value for value in taken if value in CLASSES_OF_A_JVM]

    assert row["taken"] == taken


@pytest.mark.parametrize(
    "row", CHANGES, ids=[f"{each['values']} for {'one' if each['one broker'] else 'all'}" for each in CHANGES]
)
def test_sees_what_cannot_be_set(row: dict[str, Any]) -> None:
    found = faults(row["values"], one_broker=row["one broker"])
    if "principal.builder.class" in row["values"]:
        assert row["one broker"] == (not found)  # the class is not looked for
        return

    assert row["valid"] == (not found), found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.key.password", "hush"),
        ("listener.name.internal.ssl.key.password", "hush"),
        ("sasl.jaas.config", "hush"),
        ("no.such.config", "hush"),
        ("listener.name.internal.no.such.config", "hush"),
    ],
)
def test_tells_no_secret_when_it_refuses(name: str, value: str) -> None:
    found = faults({name: value}, one_broker=False)

    assert [] == [fault for fault in found if value in fault]


FILE = {"log.retention.hours": "5", "background.threads": "7"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "background.threads",
            [
                Set("background.threads", "9", Source.BROKER),
                Set("background.threads", "8", Source.CLUSTER),
                Set("background.threads", "7", Source.STATIC),
                Set("background.threads", "10", Source.DEFAULT),
            ],
        ),
        ("num.io.threads", [Set("num.io.threads", "8", Source.DEFAULT)]),
        (
            "log.retention.hours",
            [Set("log.retention.hours", "5", Source.STATIC), Set("log.retention.hours", "168", Source.DEFAULT)],
        ),
        # As Kafka has it: the hours are not shown as the milliseconds' value.
        ("log.retention.ms", []),
        (
            "log.roll.ms",
            [Set("log.roll.ms", "3", Source.CLUSTER), Set("log.roll.hours", "168", Source.DEFAULT)],
        ),
        (
            "listener.name.internal.ssl.client.auth",
            [
                Set("listener.name.internal.ssl.client.auth", "required", Source.BROKER),
                Set("ssl.client.auth", "none", Source.DEFAULT),
            ],
        ),
        ("ssl.keystore.location", []),
        ("no.such.config", []),
    ],
)
def test_finds_every_value_in_the_order_in_which_they_count(name: str, expected: list[Set]) -> None:
    own = {"background.threads": "9", "listener.name.internal.ssl.client.auth": "required"}
    cluster = {"background.threads": "8", "log.roll.ms": "3"}

    assert expected == list(candidates(name, own=own, cluster=cluster, static=FILE))


def test_sees_what_in_a_file_no_broker_could_read() -> None:
    good = {name: default for name in FILE_ONLY if (default := default_of(name)) is not None}
    bad = {
        "broker.id": "one",
        "background.threads": "0",  # a number: whether it is in range, the broker says
        "delegation.token.secret.key": "hush",
        "log.cleaner.io.buffer.load.factor": "x",
        "no.such.config": "x",
    }

    assert [] == file_faults(good)
    assert [
        "broker.id='one': it must be a whole number from -2147483648 to 2147483647",
        "log.cleaner.io.buffer.load.factor='x': it must be a number",
    ] == file_faults(bad)
