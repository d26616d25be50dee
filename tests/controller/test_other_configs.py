"""What can be configured of groups and of client metrics subscriptions, against a Kafka release."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.controller.configs import client_metrics, group
from quorate.controller.configs.broker import default_of
from quorate.errors import ApiError, ErrorCode
from tests.controller.told import ASKED, told

GROUP = told("group")
GROUP_CHANGES = told("group change")
METRICS = told("client metrics")


def _default(config: group.GroupConfig) -> str | None:
    """Of an assignor Kafka's schema has none; the brokers' first one counts."""
    if config.synonym is None or config.synonym == group.STREAMS_ASSIGNORS:
        return config.default
    return default_of(config.synonym)


def test_knows_every_group_config_that_kafka_knows() -> None:
    assert [(row["name"], row["type"], row["default"], row["synonym"], row["internal"]) for row in GROUP] == [
        (config.name, config.values.type.name, _default(config), config.synonym, config.internal)
        for config in group.CONFIGS.values()
    ]


@pytest.mark.parametrize("row", GROUP, ids=[each["name"] for each in GROUP])
def test_takes_of_groups_what_kafka_takes(row: dict[str, Any]) -> None:
    assert row["taken"] == [value for value in ASKED if not group.faults({row["name"]: value}, static={})]


@pytest.mark.parametrize("row", GROUP_CHANGES, ids=[str(each["values"]) for each in GROUP_CHANGES])
def test_sees_what_cannot_go_together(row: dict[str, Any]) -> None:
    found = group.faults(row["values"], static={})

    assert row["valid"] == (not found), found


def test_the_brokers_file_says_how_far_a_group_may_go() -> None:
    values = {"consumer.session.timeout.ms": "45000"}

    assert [] == group.faults(values, static={})
    assert ["consumer.session.timeout.ms='45000' is above group.consumer.max.session.timeout.ms=44999"] == group.faults(
        values, static={"group.consumer.max.session.timeout.ms": "44999"}
    )
    assert ["consumer.session.timeout.ms=45000 is not above consumer.heartbeat.interval.ms=45000"] == group.faults(
        values, static={"group.consumer.heartbeat.interval.ms": "45000"}
    )


def test_knows_every_config_of_a_subscription() -> None:
    assert [(row["name"], row["type"], row["default"]) for row in METRICS] == [
        (config.name, config.values.type.name, config.default) for config in client_metrics.CONFIGS.values()
    ]


def refusal(values: dict[str, str]) -> ErrorCode:
    try:
        client_metrics.check(values)
    except ApiError as refused:
        return refused.code
    return ErrorCode.NONE


@pytest.mark.parametrize("row", METRICS, ids=[each["name"] for each in METRICS])
def test_takes_of_subscriptions_what_kafka_takes(row: dict[str, Any]) -> None:
    assert row["taken"] == [value for value in ASKED if refusal({row["name"]: value}) == ErrorCode.NONE]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"no.such.config": "1"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "x"}, ErrorCode.INVALID_CONFIG),
        ({"interval.ms": "9" * 10_000}, ErrorCode.INVALID_CONFIG),
        # The range before the criteria, as in Kafka.
        ({"interval.ms": "99", "match": "client_id"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "x", "match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=" + "(" * 10_000 + ")" * 10_000}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=("}, ErrorCode.INVALID_CONFIG),
        ({"match": r"client_id=\p{Alpha}+"}, ErrorCode.NONE),
        ({"match": r"client_id=(?<word>a)"}, ErrorCode.NONE),
    ],
)
def test_refuses_a_subscription_with_kafkas_code(values: dict[str, str], code: ErrorCode) -> None:
    assert code == refusal(values)


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ("PT9223372036854775807S", True),
        ("PT9223372036854775808S", False),
        ("P106751991167301D", False),
        ("PT" + "9" * 10_000 + "S", False),
    ],
)
def test_a_duration_is_within_what_java_can_count(value: str, taken: bool) -> None:
    assert taken == (not group.faults({"share.auto.offset.reset": f"by_duration:{value}"}, static={}))


def test_a_pattern_that_is_long_is_refused_before_it_is_compiled() -> None:
    longest = "client_id=" + "a" * client_metrics.PATTERN_CHARS_MAX

    assert [ErrorCode.NONE, ErrorCode.INVALID_CONFIG] == [refusal({"match": each}) for each in (longest, longest + "a")]
