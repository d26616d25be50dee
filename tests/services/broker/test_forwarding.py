"""Forwarding without a gateway that answers: the request's own time bounds it, and its client is told so."""

from __future__ import annotations

import pytest

from deploy.local.ports import HOST, free_ports
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_quorum import DescribeQuorumRequest
from kraft.protocol.request_header import RequestHeader
from quorate.errors import ErrorCode
from quorate.network.listening import ConnectedClient
from quorate.protocol import Request
from quorate.protocol.apis import api_of
from quorate.runtime.setting_types import Endpoint
from services.broker.forwarding import FORWARDED, Forwarding
from services.broker.peers import Peers

CLIENT = ConnectedClient(host=HOST, port=1, software=("", ""), is_tls=False)


def request(message: CreateTopicsRequest) -> Request:
    api = api_of(type(message))
    header = RequestHeader(api.key, api.versions[-1], 1, "admin")
    return Request(api=api, header=header, message=message)


@pytest.mark.asyncio
async def test_without_an_answer_each_topic_has_timed_out() -> None:
    forwarding = Forwarding([Endpoint(HOST, port) for port in free_ports(2)], Peers())
    topics = tuple(CreateTopicsRequest.CreatableTopic(name=name) for name in ("a", "b"))
    answer = await forwarding.answer(request(CreateTopicsRequest(topics=topics, timeout_ms=300)), CLIENT)

    assert isinstance(answer, CreateTopicsResponse)
    assert [("a", ErrorCode.REQUEST_TIMED_OUT), ("b", ErrorCode.REQUEST_TIMED_OUT)] == [
        (each.name, each.error_code) for each in answer.topics
    ]
    assert all("300 ms" in (each.error_message or "") for each in answer.topics)


def test_without_a_gateway_nothing_is_offered() -> None:
    described = api_of(DescribeQuorumRequest).key

    assert {} == Forwarding([], Peers()).served
    assert described in Forwarding([Endpoint(HOST, 1)], Peers()).served
    assert 67 not in FORWARDED  # AllocateProducerIds
