"""A request of many items, its answer and its refusal, are worked on in turns of the loop, through the real handler.

What one turn does is counted in calls of functions: not by a clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

import pytest
from google.protobuf.message import Message as ProtobufMessage

from kraft import Message
from kraft.api.alter_client_quotas import AlterClientQuotasResponse
from kraft.api.create_topics import CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsResponse
from kraft.api.end_quorum_epoch import EndQuorumEpochRequest
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.api.fetch import FetchRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsResponse
from kraft.protocol.default_principal_data import DefaultPrincipalData
from quorate.errors import ApiError, ErrorCode
from quorate.network.listening import Listening
from quorate.network.server import serving
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.wire.codec import encode
from quorate.wire.items import ITEMS_PER_STEP
from quorate.wire.protobuf import to_protobuf
from services.gateway.apis import SERVED, Backend
from services.gateway.handler import Gateway
from tests.services.counted_calls import calls_in_a_turn
from tests.services.gateway.test_handler import APIS, GATEWAYS, Services
from tests.services.gateway.test_sizes_of_refusals import with_many_items
from tests.services.scripted import LOOPBACK

MANY: Final = 16 * ITEMS_PER_STEP
CALLS_MAX: Final = 30 * ITEMS_PER_STEP
"""The calls of one turn of the loop: an item of a step has 27 at most. A function that is done at once to each item of
`MANY` has more, if it calls two others."""
REFUSAL: Final = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not for this caller")

assert CALLS_MAX < 2 * MANY

Topic = CreateTopicsResponse.CreatableTopicResult
Quota = AlterClientQuotasResponse.EntryData
Altered = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
ANSWERS: Final[dict[str, Message]] = {
    "AlterClientQuotas": AlterClientQuotasResponse(entries=(Quota(0, None, (Quota.EntityData("user", "a"),)),) * MANY),
    "CreateTopics": CreateTopicsResponse(topics=(Topic("a"),) * MANY),
    "DeleteTopics": DeleteTopicsResponse(responses=(DeleteTopicsResponse.DeletableTopicResult("a"),) * MANY),
    "IncrementalAlterConfigs": IncrementalAlterConfigsResponse(responses=(Altered(0, None, 2, "a"),) * MANY),
}


class Ready(Services):
    """Has its answers in the form in which gRPC would give them."""

    def __init__(self, **answers: ProtobufMessage | ApiError) -> None:
        super().__init__(**{name: each for name, each in answers.items() if isinstance(each, ApiError)})
        self._sent = answers

    def __getattr__(self, rpc: str) -> Callable[..., Any]:
        sent = self._sent.get(rpc)
        if sent is None or isinstance(sent, ApiError):
            return super().__getattr__(rpc)

        async def method(_request: Any, **_: Any) -> Any:
            return sent

        return method


async def answered(services: Services, frame: bytes) -> tuple[bytes, int]:
    """The answer to one request, and the most calls of functions in a turn of the loop meanwhile."""
    made = Gateway(dict.fromkeys(Backend, services), GATEWAYS)
    await made.features.refresh()
    listening = Listening(name="KAFKA", handle=made, served=SERVED, describe_versions=made.features.describe)
    async with serving(listening, LOOPBACK) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        for turn in range(2):  # the code for the messages is generated at the first request
            writer.write(len(frame).to_bytes(4) + frame)
            with calls_in_a_turn() if turn else nullcontext([0]) as most:
                answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        writer.close()
    return answer, most[0]


def body(name: str, answer: bytes, version: int) -> Any:
    _, position = decode_response_header(APIS[name], version, answer)
    return decode_body(APIS[name].response, answer, position, version)


def frame_of(name: str, request: Message, version: int) -> bytes:
    return encode_request(APIS[name], request, version=version, correlation_id=7, client_id="tool")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("AlterClientQuotas", 1), ("AlterPartitionReassignments", 1), ("CreateTopics", 7), ("CreateTopics", 2),
        ("DeleteTopics", 6), ("ElectLeaders", 2), ("IncrementalAlterConfigs", 1), ("UpdateFeatures", 0),
    ],
)  # fmt: skip
async def test_a_large_request_is_refused_in_turns(name: str, version: int) -> None:
    request = with_many_items(APIS[name].request, MANY)
    answer, most = await answered(Ready(**{name: REFUSAL}), frame_of(name, request, version))

    assert MANY <= str(body(name, answer, version)).count(f"error_code={REFUSAL.code.value}")
    assert most <= CALLS_MAX


@pytest.mark.parametrize("name", sorted(ANSWERS))
async def test_a_large_answer_is_given_in_turns(name: str) -> None:
    version = APIS[name].versions[-1]
    services = Ready(**{name: to_protobuf(ANSWERS[name])})
    answer, most = await answered(services, frame_of(name, with_many_items(APIS[name].request, 1), version))

    assert ANSWERS[name] == body(name, answer, version)
    assert most <= CALLS_MAX


async def test_a_large_request_in_an_envelope_is_refused_in_turns() -> None:
    inside = frame_of("CreateTopics", with_many_items(APIS["CreateTopics"].request, MANY), 7)
    answer, most = await answered(Ready(CreateTopics=REFUSAL), frame_of("Envelope", enveloped(inside), 0))
    told: EnvelopeResponse = body("Envelope", answer, 0)

    assert told.response_data is not None
    assert MANY == len(body("CreateTopics", told.response_data, 7).topics)
    assert most <= CALLS_MAX


async def test_an_envelope_has_no_more_items_than_a_request_without_one() -> None:
    inside = frame_of("CreateTopics", with_many_items(APIS["CreateTopics"].request, 100_001), 7)
    answer, _ = await answered(Ready(), frame_of("Envelope", enveloped(inside), 0))

    assert ErrorCode.UNSUPPORTED_VERSION == body("Envelope", answer, 0).error_code


async def test_a_large_request_of_an_older_shape_is_passed_on_in_turns() -> None:
    topic = EndQuorumEpochRequest.TopicData
    partition = topic.PartitionData(preferred_successors=tuple(range(MANY)))
    resigned = EndQuorumEpochRequest(topics=(topic("a", (partition,)),))
    _, most = await answered(Ready(), frame_of("EndQuorumEpoch", resigned, 0))
    fetched = FetchRequest(topics=(FetchRequest.FetchTopic("a", partitions=(PART,) * MANY),))
    answer, of_fetch = await answered(Ready(Fetch=REFUSAL), frame_of("Fetch", fetched, 12))

    assert MANY == len(body("Fetch", answer, 12).responses[0].partitions)
    assert max(most, of_fetch) <= CALLS_MAX


PART: Final = FetchRequest.FetchTopic.FetchPartition(1)


def enveloped(data: bytes) -> EnvelopeRequest:
    principal = DefaultPrincipalData("User", "alice")
    return EnvelopeRequest(data, (0).to_bytes(2) + encode(principal, 0), bytes((127, 0, 0, 1)))
