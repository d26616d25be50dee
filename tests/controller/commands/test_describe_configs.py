"""DescribeConfigs: all that the answer has of a resource, and the values that nobody may know; the rest is in its
table."""

from __future__ import annotations

import pytest

from kraft.api.describe_configs import DescribeConfigsResponse
from quorate.controller.commands.describe_configs import CONFIGS_PER_STEP
from quorate.controller.configs.broker import DYNAMIC, QUOTAS
from quorate.controller.configs.broker_file import FILE_ONLY, INTERNAL
from quorate.controller.configs.topic import CONFIGS
from quorate.controller.configs.values import Source
from quorate.controller.engine.decision import Moment, steps_of
from quorate.metadata.configs import BROKER, ConfigResource
from tests.controller.tables.describe_configs import (
    ALL,
    BILLS,
    FILE,
    ONE,
    ORDERS,
    PAYMENTS,
    PHONES,
    SET,
    asked,
    command,
    request,
    some_of_all,
)


def described(resource: ConfigResource, *, synonyms: bool = False) -> DescribeConfigsResponse.DescribeConfigsResult:
    cluster = some_of_all()
    decision = cluster.decide(command(cluster, request(asked(resource), synonyms=synonyms)))
    assert () == decision.records
    response: DescribeConfigsResponse = decision.response
    return response.results[0]


def names(resource: ConfigResource) -> list[str]:
    return [each.name for each in described(resource).configs]


SHOWN = [name for name, config in CONFIGS.items() if not config.internal]
"""An internal config is shown where it is set."""


def test_a_topic_has_every_config_by_name() -> None:
    configs = described(BILLS).configs

    assert SHOWN == [each.name for each in configs]
    assert all(each.value is not None and not each.is_sensitive and not each.read_only for each in configs)
    assert {()} == {each.synonyms for each in configs}
    assert {None} == {each.documentation for each in configs}


def test_what_is_set_on_a_topic_is_among_them_known_or_not() -> None:
    own = [name for resource, name, _ in SET if resource == ORDERS]

    assert sorted({*SHOWN, *own}) == names(ORDERS)
    assert sorted(own) == [each.name for each in described(ORDERS).configs if each.config_source == Source.TOPIC]


def test_of_a_broker_all_is_shown_and_of_all_brokers_what_is_set() -> None:
    own = {name for resource, name, _ in SET if resource in (ONE, ALL)}
    known = DYNAMIC.keys() | FILE_ONLY.keys()

    assert sorted((known - INTERNAL - QUOTAS) | own | FILE.keys()) == names(ONE)
    assert sorted(name for resource, name, _ in SET if resource == ALL) == names(ALL)


def test_many_resources_are_read_in_steps() -> None:
    cluster = some_of_all()
    many = command(cluster, request(*(asked(ONE),) * 50))
    steps = steps_of(many, cluster.state, Moment(next_offset=cluster.next_offset, now_ms=0))
    step_count = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            in_steps = end.value
            break
        step_count += 1

    assert step_count > 50 * len(names(ONE)) // (2 * CONFIGS_PER_STEP)
    assert (described(ONE),) * 50 == in_steps.response.results


@pytest.mark.parametrize("resource", [ORDERS, BILLS, ONE, ALL, PAYMENTS, PHONES])
def test_no_secret_is_anywhere(resource: ConfigResource) -> None:
    assert "hush" not in str(described(resource, synonyms=True))


def test_no_secret_is_shown_to_another_broker() -> None:
    cluster = some_of_all().brokers(2)
    two = request(asked(ConfigResource(BROKER, "2")), synonyms=True)

    assert "hush" not in str(cluster.decide(command(cluster, two)).response)
