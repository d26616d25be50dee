"""Work on many items goes in steps of few of them, and has the result that it has at once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.create_topics import CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.fetch import FetchRequest
from quorate.errors import ApiError
from quorate.wire.codec import encode, encode_in_steps
from quorate.wire.fitting import fitted, fitted_in_steps
from quorate.wire.items import ITEMS_PER_STEP, STEP_BYTES, Steps, has_many_items
from quorate.wire.protobuf import to_protobuf, to_protobuf_in_steps, to_struct, to_struct_in_steps
from quorate.wire.shared import Shared

MANY: Final = 4 * ITEMS_PER_STEP
UNCOUNTED: Final = 100
"""Calls that a message has whatever its lists are."""
Result = CreateTopicsResponse.CreatableTopicResult
Entry = AlterClientQuotasRequest.EntryData
Topic = FetchRequest.FetchTopic

FLAT: Final = CreateTopicsResponse(topics=tuple(Result(f"t{number}") for number in range(MANY)))
CONFIGS: Final = (Result.CreatableTopicConfigs("a", "b"),) * MANY
INSIDE: Final = (Entry.EntityData("user", "a"), Entry.EntityData("client-id", None))
LARGE: Final = {
    "a list": (FLAT, 7),
    "an older version": (FLAT, 2),
    "one item with a long list": (FetchRequest(topics=(Topic("a", partitions=(Topic.FetchPartition(1),) * MANY),)), 12),
    "a nullable list": (CreateTopicsResponse(topics=(Result("a", configs=CONFIGS), Result("b"))), 7),
    "short lists in a list": (AlterClientQuotasRequest((Entry(INSIDE, (Entry.OpData("x", 1.5),)),) * MANY), 1),
    "ids": (BrokerRegistrationRequest(log_dirs=(bytes(16),) * MANY), 4),
    "texts": (DeleteTopicsRequest(topic_names=("a",) * MANY), 5),
}


def counted(steps: Steps[Any]) -> tuple[Any, int, float]:
    """The result, the steps, and how often the longest has called a function, for each call that a fair share has."""
    events = most = total = count = 0

    def note(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal events
        events += event in ("call", "c_call")

    while True:
        events, before, count = 0, sys.getprofile(), count + 1
        sys.setprofile(note)
        try:
            next(steps)
        except StopIteration as end:
            result = end.value
            break
        finally:
            sys.setprofile(before)
            most, total = max(most, events), total + events
    return result, count, max(0, most - UNCOUNTED) * MANY / ITEMS_PER_STEP / total


@pytest.mark.parametrize("name", LARGE)
def test_large_messages_are_converted_and_encoded_in_steps(name: str) -> None:
    message, version = LARGE[name]
    fit, sent = fitted(message, version), to_protobuf(message)
    asked: list[tuple[object, Callable[[], Steps[object]]]] = [
        (encode(fit, version), lambda: encode_in_steps(fit, version)),
        (sent, lambda: to_protobuf_in_steps(message)),
        (to_struct(sent), lambda: to_struct_in_steps(sent)),
        (fit, lambda: fitted_in_steps(message, version)),
    ]
    for at_once, in_steps in asked:
        for _ in range(2):  # the code is generated at the first time
            result, _, share = counted(in_steps())
        assert at_once == result
        assert share < 1.2
    assert has_many_items(message)
    assert sent.ByteSize() > STEP_BYTES


@pytest.mark.parametrize("name", ["a list", "short lists in a list", "one item with a long list"])
def test_no_step_has_more_items_than_it_may(name: str) -> None:
    message, version = LARGE[name]
    item_count = 4 * MANY if name == "short lists in a list" else MANY

    assert item_count // ITEMS_PER_STEP <= counted(encode_in_steps(message, version))[1] - 1
    assert item_count // ITEMS_PER_STEP <= counted(to_protobuf_in_steps(message))[1] - 1
    assert item_count // ITEMS_PER_STEP <= counted(to_struct_in_steps(to_protobuf(message)))[1] - 1


def test_what_is_shared_is_converted_once_in_steps() -> None:
    shared = Shared(CONFIGS)
    for step_count in (MANY // ITEMS_PER_STEP + 1, 1):
        result, count, _ = counted(to_protobuf_in_steps(CreateTopicsResponse(topics=(Result("a", configs=shared),))))

        assert step_count == count
        assert to_protobuf(CreateTopicsResponse(topics=(Result("a", configs=CONFIGS),))) == result


def test_few_items_are_few_wherever_they_are() -> None:
    one = Entry(INSIDE[:1])

    assert not has_many_items(DescribeClusterRequest())
    assert not has_many_items(AlterClientQuotasRequest((one,) * (ITEMS_PER_STEP // 2)))
    assert has_many_items(AlterClientQuotasRequest((one,) * (ITEMS_PER_STEP // 2 + 1)))


def test_what_does_not_fit_is_told_as_at_once() -> None:
    sent: Any = to_protobuf(LARGE["short lists in a list"][0])
    sent.entries[MANY - 1].ops[0].key = "x" * 40_000
    for read in (to_struct, lambda message: counted(to_struct_in_steps(message))):
        with pytest.raises(ApiError, match=rf"entries\[{MANY - 1}\].ops\[0\].key: 40000 bytes"):
            read(sent)
    with pytest.raises(ValueError, match="a value that version 7 cannot carry, in too many items to say where"):
        counted(encode_in_steps(CreateTopicsResponse(topics=(Result("x" * 40_000),)), 7))
