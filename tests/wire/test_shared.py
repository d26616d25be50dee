"""What very many messages have is made into protobuf once, and no message notices."""

from __future__ import annotations

from kraft.api.create_topics import CreateTopicsResponse
from kraft.api.create_topics_pb2 import CreateTopicsResponse as Sent
from quorate.wire.protobuf import to_protobuf, to_struct
from quorate.wire.shared import Shared

Result = CreateTopicsResponse.CreatableTopicResult
Config = Result.CreatableTopicConfigs

CONFIGS = (Config(name="cleanup.policy", value="delete"), Config(name="retention.ms", value=None, config_source=5))


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
