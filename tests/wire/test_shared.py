"""A value that very many messages have is made into protobuf once, and no message notices."""

from __future__ import annotations

import pytest

from kraft.api.create_topics import CreateTopicsResponse
from kraft.api.create_topics_pb2 import CreateTopicsResponse as Sent
from quorate.controller.engine.steps import after_step
from quorate.wire.codec import encode
from quorate.wire.items import ITEMS_PER_STEP
from quorate.wire.protobuf import to_protobuf, to_struct, to_struct_in_steps
from quorate.wire.shared import Shared

Result = CreateTopicsResponse.CreatableTopicResult
Config = Result.CreatableTopicConfigs

CONFIGS = (Config(name="cleanup.policy", value="delete"), Config(name="retention.ms", value=None, config_source=5))


MANY = tuple(Config(name=f"config-{number}", value=str(number), config_source=5) for number in range(8))
"""So many are not read again."""


def response(*configs: tuple[Config, ...] | None) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=tuple(Result(name="orders", configs=each) for each in configs))


def test_shared_or_not_a_message_is_the_same() -> None:
    shared = Shared(CONFIGS)
    for _ in range(2):  # the second time it is there already
        assert to_protobuf(response(CONFIGS, CONFIGS)) == to_protobuf(response(shared, shared))
        assert response(CONFIGS, None) == to_struct(to_protobuf(response(shared, None)))


def test_nothing_shared_is_not_absent() -> None:
    for _ in range(2):
        assert ((), None) == tuple(each.configs for each in to_struct(to_protobuf(response(Shared(), None))).topics)


def test_a_message_that_is_changed_changes_no_other() -> None:
    shared = Shared(CONFIGS)
    first = to_protobuf(response(shared))
    assert isinstance(first, Sent)
    del first.topics[0].configs.items[0]

    assert to_protobuf(response(CONFIGS)) == to_protobuf(response(shared))


def test_what_was_read_a_short_while_ago_is_not_read_again() -> None:
    first, second = to_struct(to_protobuf(response(MANY, MANY))).topics

    assert MANY == first.configs
    assert first.configs is second.configs
    assert (*MANY[1:], MANY[0]) == to_struct(to_protobuf(response((*MANY[1:], MANY[0])))).topics[0].configs


def test_nor_is_it_in_a_large_message_where_it_counts_as_one_item() -> None:
    sent = response(*[MANY] * (2 * ITEMS_PER_STEP), None)
    steps, count = to_struct_in_steps(to_protobuf(sent)), 0
    while (read := after_step(steps)) is None:
        count += 1

    assert sent == read
    assert 2 == len({id(topic.configs) for topic in read.topics})
    assert 4 == count


def test_an_array_that_is_absent_costs_nothing_whatever_was_read_before() -> None:
    sent, count = to_protobuf(response(*[None] * (ITEMS_PER_STEP - 1))), 0
    assert to_struct(to_protobuf(response(*[MANY] * ITEMS_PER_STEP))).topics
    steps = to_struct_in_steps(sent)
    while after_step(steps) is None:
        count += 1

    assert 0 == count


@pytest.mark.parametrize("version", [4, 5, 7])
def test_shared_or_not_it_is_written_the_same_in_every_version(version: int) -> None:
    for configs in (MANY, CONFIGS, ()):
        shared = Shared(configs)
        for _ in range(2):  # the second time it is there already
            assert encode(response(configs, None), version) == encode(response(shared, None), version)


def test_an_array_that_does_not_fit_is_refused_each_time() -> None:
    long = Shared((*MANY, Config(name="long", value="x" * 40_000)))
    for _ in range(2):
        with pytest.raises(ValueError, match="long"):
            encode(response(long), 7)
