"""Forwarding without a gateway that answers: the request's own time bounds it, and its client gets that answer."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from deploy.local.ports import HOST, free_ports
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_quorum import DescribeQuorumRequest
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.protocol.request_header import RequestHeader
from quorate.errors import ErrorCode
from quorate.network.listening import ConnectedClient
from quorate.protocol import Request
from quorate.protocol.apis import api_of
from quorate.runtime.settings.setting_types import Endpoint
from services.broker.controller_connection import ControllerConnection, InTurn
from services.broker.forwarding import FORWARDED, Forwarding
from services.broker.peers import Peers
from tests.services.scripted import WITHIN_S

CLIENT = ConnectedClient(host=HOST, port=1, software=("", ""), is_tls=False)


def request(message: CreateTopicsRequest) -> Request:
    api = api_of(type(message))
    header = RequestHeader(api.key, api.versions[-1], 1, "admin")
    return Request(api=api, header=header, message=message)


def gateways(*ports: int) -> ControllerConnection:
    return ControllerConnection(InTurn([Endpoint(HOST, port) for port in ports]), Peers(), of="gateway")


@pytest.mark.asyncio
async def test_without_an_answer_each_topic_has_timed_out() -> None:
    forwarding = Forwarding(gateways(*free_ports(2)))
    topics = tuple(CreateTopicsRequest.CreatableTopic(name=name) for name in ("a", "b"))
    answer = await forwarding.answer(request(CreateTopicsRequest(topics=topics, timeout_ms=300)), CLIENT)

    assert isinstance(answer, CreateTopicsResponse)
    assert [("a", ErrorCode.REQUEST_TIMED_OUT), ("b", ErrorCode.REQUEST_TIMED_OUT)] == [
        (each.name, each.error_code) for each in answer.topics
    ]
    assert all("300 ms" in (each.error_message or "") for each in answer.topics)


class Slow:
    """Controllers that answer nothing before they may."""

    def __init__(self) -> None:
        self.whereabouts = InTurn([Endpoint(HOST, 1)])
        self.asked: list[EnvelopeRequest] = []
        self.two_asked, self.goes_on = asyncio.Event(), asyncio.Event()

    async def ask(self, _answer: object, request: EnvelopeRequest) -> EnvelopeResponse:
        self.asked.append(request)
        if len(self.asked) == 2:
            self.two_asked.set()
        await self.goes_on.wait()
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)


@pytest.mark.asyncio
async def test_of_one_connection_one_request_after_the_other_is_passed_on() -> None:
    """The first may wait for its placement, and the second, of the same topic, must not be decided before."""
    slow = Slow()
    forwarding = Forwarding(slow)  # type: ignore[arg-type]
    another = dataclasses.replace(CLIENT, port=2)
    answers = [
        asyncio.ensure_future(forwarding.answer(request(CreateTopicsRequest(timeout_ms=10_000)), client))
        for client in (CLIENT, CLIENT, another)
    ]
    await asyncio.wait_for(slow.two_asked.wait(), WITHIN_S)
    for _ in range(10):  # turns in which the third could be passed on
        await asyncio.sleep(0)
    before = len(slow.asked)
    slow.goes_on.set()
    await asyncio.gather(*answers)

    assert (2, 3) == (before, len(slow.asked))


def test_without_a_gateway_nothing_is_offered() -> None:
    described = api_of(DescribeQuorumRequest).key

    assert {} == Forwarding(None).served
    assert described in Forwarding(gateways(1)).served
    assert 67 not in FORWARDED  # AllocateProducerIds


def test_what_is_passed_on_is_offered_as_far_as_the_controllers_know_it() -> None:
    create, describe, other = 19, api_of(DescribeQuorumRequest).key, 1
    known: dict[int, range] = {}
    forwarding = Forwarding(gateways(1), lambda: known)
    ours = range(2, 8)
    before = forwarding.offered(create, ours)
    known |= {create: range(3, 6)}

    assert ours == before
    assert range(3, 6) == forwarding.offered(create, ours)
    assert not forwarding.offered(describe, ours)
    assert ours == forwarding.offered(other, ours)
