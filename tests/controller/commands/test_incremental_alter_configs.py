"""IncrementalAlterConfigs: long values, words, and secrets; the rest is in its table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.engine.decision import Moment, steps_of
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER, TOPIC, ConfigResource
from tests.controller.altering import (
    ORDERS,
    Config,
    altered,
    append,
    asked,
    decided,
    record,
    subtract,
    to_set,
    with_orders,
)
from tests.controller.clusters import Cluster

ALL, ONE = ConfigResource(BROKER, ""), ConfigResource(BROKER, "1")
HUSH = "listener.name.internal.ssl.key.password"
THROTTLED = "follower.replication.throttled.replicas"

LENGTHS = {
    "a topic's longest": (ORDERS, to_set(THROTTLED, "0:1,1:1" + ",0:1" * 8_190), ErrorCode.NONE),
    "a topic's too long": (ORDERS, to_set(THROTTLED, "0:1" + ",0:1" * 8_192), ErrorCode.INVALID_CONFIG),
    "all brokers' longest": (ALL, to_set("no.such.config", "x" * 32_767), ErrorCode.NONE),
    "all brokers' too long": (ALL, to_set("no.such.config", "x" * 32_768), ErrorCode.INVALID_CONFIG),
    "too long for Java": (ALL, to_set("no.such.config", "\N{GRINNING FACE}" * 16_384), ErrorCode.INVALID_CONFIG),
}


@pytest.mark.parametrize(("resource", "config", "code"), LENGTHS.values(), ids=LENGTHS)
def test_a_value_has_a_length(resource: ConfigResource, config: Config, code: ErrorCode) -> None:
    cluster = with_orders()
    expected = () if code else (record(resource, config.name, config.value),)

    assert expected == decided(cluster, asked(resource, config)).records
    assert [(resource, code)] == altered(cluster, asked(resource, config))


@pytest.mark.parametrize("change", [append, subtract])
def test_the_length_of_a_value_is_looked_at_before_its_list(change: Callable[[str, str], Config]) -> None:
    cluster = with_orders()
    request = IncrementalAlterConfigsRequest(resources=(asked(ORDERS, change("retention.ms", "5," * 300_000)),))
    response = cluster.write(incremental_alter_configs(request, settings=cluster.settings))

    assert ["topic 'orders': retention.ms has a value of more than 32767 characters, which is the limit"] == [
        each.error_message for each in response.responses
    ]


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (append(THROTTLED, "2:1,0:1,2:1,1:1"), "0:1,1:1,0:1,0:1,2:1"),
        (subtract(THROTTLED, "0:1,2:1,0:1"), "1:1,0:1"),
    ],
    ids=["APPEND adds once", "SUBTRACT removes as often as it names"],
)
def test_a_part_may_be_named_twice(change: Config, after: str) -> None:
    cluster = with_orders({THROTTLED: "0:1,1:1,0:1,0:1"})

    assert (record(ORDERS, THROTTLED, after),) == decided(cluster, asked(ORDERS, change)).records


def test_a_few_resources_with_long_values_are_changed_in_steps() -> None:
    cluster = with_orders()
    long = ",".join(f"{number}:1" for number in range(4_000))
    few = tuple(asked(ConfigResource(TOPIC, f"t{number}"), append(THROTTLED, long)) for number in range(20))
    for resource in few:
        cluster.topic(resource.resource_name, [1])
    command = incremental_alter_configs(IncrementalAlterConfigsRequest(resources=few), settings=cluster.settings)
    steps = list(steps_of(command, cluster.state, Moment(next_offset=cluster.next_offset, now_ms=0)))

    assert len(steps) > 1
    assert 20 == len(cluster.decide(command).records)


def test_says_what_is_wrong() -> None:
    cluster = with_orders()
    request = IncrementalAlterConfigsRequest(resources=(asked(ORDERS, append("retention.ms", "5")),))
    response = cluster.write(incremental_alter_configs(request, settings=cluster.settings))

    assert ["topic 'orders': APPEND is for lists only, and retention.ms is not a list"] == [
        each.error_message for each in response.responses
    ]


def test_a_secret_that_is_refused_is_not_told() -> None:
    cluster = Cluster(33).brokers(1, 2)
    request = IncrementalAlterConfigsRequest(
        resources=(
            asked(ALL, to_set(HUSH, "hush")),
            asked(ONE, to_set("ssl.key.password", "hush")),
            asked(ConfigResource(BROKER, "2"), append(HUSH, "hush")),
            asked(ConfigResource(BROKER, "9"), to_set("no.such.config", "hush")),
        )
    )
    response = cluster.write(incremental_alter_configs(request, settings=cluster.settings))

    assert 4 == len([each for each in response.responses if each.error_code])
    assert "hush" not in str(response)


def test_a_request_or_a_record_that_is_shown_shows_no_value() -> None:
    change = asked(ONE, to_set(HUSH, "hush"))

    assert "hush" not in repr(change)
    assert "hush" not in repr(decided(with_orders(), change).records)
