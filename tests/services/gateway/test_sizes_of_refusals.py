"""How large the refusal of a whole request may be that has many items: an answer costs no more than what was asked."""

from __future__ import annotations

from typing import Any

import pytest

from kraft import Message
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.requests.refusals import ITEM_BYTES_MAX, MESSAGES_BYTES_MAX
from quorate.wire.codec import encode
from quorate.wire.protobuf import json_form
from quorate.wire.schema import layout_of, struct_class
from tests.services.gateway.test_handler import APIS, BY_ITEM, Services, gateway

ITEM_COUNT = 20_000


@pytest.mark.parametrize("name", [*sorted(BY_ITEM), "AlterPartitionReassignments", "ElectLeaders", "UpdateFeatures"])
async def test_a_refusal_is_hardly_larger_than_its_request(name: str) -> None:
    """An item may have three bytes, and the message of its refusal five hundred."""
    api, services = APIS[name], Services()
    services.answers[name] = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "x" * 500)
    version = 0 if name == "UpdateFeatures" else api.versions[-1]
    request = with_many_items(api.request, ITEM_COUNT)
    async with gateway(services) as client:
        answer = await client.ask(request, version=version)
    messages = [each for each in texts_in(json_form(answer)) if each == "x" * 500]

    most = len(encode(request, version)) + ITEM_COUNT * ITEM_BYTES_MAX + MESSAGES_BYTES_MAX
    assert len(encode(answer, version)) <= most
    assert 0 < len(messages) <= MESSAGES_BYTES_MAX / 500 + 1


def with_many_items(request: type[Message], count: int) -> Message:
    """A request whose list has `count` small items: the first list that it has."""
    shape = layout_of(request)
    field = next(each for each in shape.fields if each.array and each.struct is not None)
    assert field.struct is not None
    item = struct_class(field.struct)
    if request is AlterUserScramCredentialsRequest:
        return request(deletions=tuple(item(name=f"{number}") for number in range(count)))
    made = item()
    if request is ElectLeadersRequest:
        made = item(topic="a", partitions=tuple(range(count)))
        return request(topic_partitions=(made,))
    if request is AlterPartitionReassignmentsRequest:
        parts = tuple(item.ReassignablePartition(partition_index=number) for number in range(count))
        return request(topics=(item(name="a", partitions=parts),))
    return request(**{field.name: (made,) * count})


def texts_in(answer: Any) -> list[str]:
    """Every text in it."""
    if isinstance(answer, dict | list):
        values = answer.values() if isinstance(answer, dict) else answer
        return [text for value in values for text in texts_in(value)]
    return [answer] if isinstance(answer, str) else []
