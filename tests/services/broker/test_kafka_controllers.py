"""Kafka's controllers from controllers that answer by a script: the leader is followed, and each waits for its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest

from deploy.local.ports import HOST
from kraft import Message
from kraft.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.protocol.request_header import RequestHeader
from quorate.errors import ApiError, ErrorCode
from quorate.network.listening import ConnectedClient, Listening
from quorate.network.server import serving
from quorate.protocol import Request
from quorate.protocol.apis import api_of
from quorate.protocol.messages import encode_response
from quorate.runtime.settings.setting_types import Endpoint
from services.broker.controller_connection import ControllerConnection
from services.broker.forwarding import Forwarding
from services.broker.kafka_controllers import KafkaControllers, LedBy
from services.broker.peers import Peers
from tests.protocol.pair import describe

WITHIN_S = 60
DEADLINE_MS = 30_000
ASKED = (BrokerRegistrationRequest, BrokerHeartbeatRequest, AlterPartitionRequest, EnvelopeRequest)
SERVED = {18: range(5), **{api_of(each).key: api_of(each).versions for each in ASKED}}
CLIENT = ConnectedClient(host=HOST, port=1, software=("", ""), is_tls=False)


class Controller:
    """One with scripted answers, which remembers its requests."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.leads = True
        self.asked: list[type[Message]] = []
        self.hears: Callable[[], None] = lambda: None
        """Called with each request."""
        self.alters = asyncio.Event()
        """While it is not set, AlterPartition is not answered."""
        self.error = ErrorCode.NONE
        self.ports: set[int] = set()
        self.unheard: set[int] = set()
        """Connections, by the client's port, over which nothing comes any more."""

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        self.ports.add(client.port)
        if client.port in self.unheard:
            await asyncio.Event().wait()
        self.asked.append(type(request.message))
        error = self.error if self.leads else ErrorCode.NOT_CONTROLLER
        self.hears()
        match request.message:
            case BrokerRegistrationRequest():
                return BrokerRegistrationResponse(error_code=error, broker_epoch=self.epoch)
            case BrokerHeartbeatRequest():
                return BrokerHeartbeatResponse(error_code=error, is_fenced=False)
            case AlterPartitionRequest():
                await self.alters.wait()
                return AlterPartitionResponse(error_code=error)
            case EnvelopeRequest():
                made = CreateTopicsResponse.CreatableTopicResult(name="made", num_partitions=self.epoch)
                answer = CreateTopicsResponse(topics=(made,))
                data = encode_response(api_of(CreateTopicsRequest), answer, version=7, correlation_id=1)
                return EnvelopeResponse(response_data=None if error else data, error_code=error)
        raise AssertionError(request)


class Quorum:
    """Two controllers, and which of them gives the log."""

    def __init__(self, controllers: list[Controller], at: list[Endpoint]) -> None:
        self.first, self.second = controllers
        self.at = at
        self.leader: int | None = 0
        self.led_by = LedBy(self._leader_at, at)
        self.asking = KafkaControllers(self.led_by, Peers(), heartbeat_interval_ms=100)

    def _leader_at(self) -> tuple[str, int] | None:
        at = None if self.leader is None else self.at[self.leader]
        return None if at is None else (at.host, at.port)

    def fail_over(self) -> None:
        self.first.leads, self.leader = False, 1

    async def register(self, deadline_ms: int = DEADLINE_MS) -> int:
        answer = await self.asking.ask(BrokerRegistrationResponse, BrokerRegistrationRequest(), deadline_ms=deadline_ms)
        return answer.broker_epoch


@asynccontextmanager
async def quorum() -> AsyncIterator[Quorum]:
    controllers = [Controller(7), Controller(8)]
    async with asyncio.timeout(WITHIN_S), AsyncExitStack() as stack:
        at = []
        for each in controllers:
            kept = Listening(handle=each, served=SERVED, describe_versions=partial(describe, served=SERVED))
            at.append(Endpoint(HOST, (await stack.enter_async_context(serving(kept, HOST, 0))).port))
        found = Quorum(controllers, at)
        yield found
        await found.asking.close()


def created() -> Request:
    message = CreateTopicsRequest(topics=(CreateTopicsRequest.CreatableTopic(name="made"),), timeout_ms=DEADLINE_MS)
    api = api_of(CreateTopicsRequest)
    return Request(api=api, header=RequestHeader(api.key, 7, 1, "admin"), message=message)


async def test_who_resigns_is_asked_again_until_another_gives_the_log() -> None:
    async with quorum() as kafkas:
        before = await kafkas.register()
        kafkas.first.leads = False
        kafkas.first.hears = kafkas.fail_over
        after = await kafkas.register()

    assert (7, 8) == (before, after)
    assert [BrokerRegistrationRequest] * 2 == kafkas.first.asked


async def test_who_leads_no_more_is_not_asked_though_it_would_answer() -> None:
    """A leader that is cut off from the quorum does not know it yet: its answers are of an epoch that is over."""
    async with quorum() as kafkas:
        before = await kafkas.register()
        kafkas.leader = 1
        after = await kafkas.register()

    assert (7, 8) == (before, after)
    assert [BrokerRegistrationRequest] == kafkas.first.asked


async def test_while_nobody_leads_it_is_waited_for_as_long_as_the_request_has() -> None:
    async with quorum() as kafkas:
        kafkas.leader = None
        told = kafkas.asking.asked(BrokerHeartbeatRequest)
        with pytest.raises(ApiError) as refused:
            await kafkas.register(deadline_ms=250)

    assert ErrorCode.NOT_CONTROLLER is refused.value.code
    assert f"the leader, by {kafkas.at[0]}, {kafkas.at[1]}" == told
    assert [] == kafkas.first.asked + kafkas.second.asked


async def test_a_refusal_that_another_try_does_not_change_is_told_at_once() -> None:
    async with quorum() as kafkas:
        kafkas.first.error = ErrorCode.INCONSISTENT_CLUSTER_ID
        with pytest.raises(ApiError) as refused:
            await kafkas.register()

    assert ErrorCode.INCONSISTENT_CLUSTER_ID is refused.value.code
    assert [BrokerRegistrationRequest] == kafkas.first.asked


async def test_a_heartbeat_waits_for_no_alter_partition() -> None:
    """Of one connection answers come in the order of the requests."""
    async with quorum() as kafkas, asyncio.TaskGroup() as tasks:
        came = asyncio.Event()
        kafkas.first.hears = came.set
        ask = kafkas.asking.ask
        altering = tasks.create_task(
            ask(AlterPartitionResponse, AlterPartitionRequest(), deadline_ms=DEADLINE_MS), name="alter"
        )
        await came.wait()
        beat = await ask(BrokerHeartbeatResponse, BrokerHeartbeatRequest(), deadline_ms=5_000)
        was_open = not altering.done()
        kafkas.first.alters.set()

    assert not beat.is_fenced
    assert was_open
    assert ErrorCode.NONE == altering.result().error_code


async def test_after_a_heartbeat_without_an_answer_the_next_one_has_another_connection() -> None:
    async with quorum() as kafkas:
        beat = partial(kafkas.asking.ask, BrokerHeartbeatResponse, BrokerHeartbeatRequest())
        await beat(deadline_ms=DEADLINE_MS)
        kafkas.first.unheard |= kafkas.first.ports
        with pytest.raises(ApiError) as late:
            await beat(deadline_ms=200)
        answer = await beat(deadline_ms=DEADLINE_MS)

    assert ErrorCode.REQUEST_TIMED_OUT is late.value.code
    assert not answer.is_fenced


async def test_an_envelope_goes_to_who_is_the_active_controller_next() -> None:
    async with quorum() as kafkas:
        forwarding = Forwarding(ControllerConnection(kafkas.led_by, Peers(), of="controller"))
        kafkas.first.leads = False
        kafkas.first.hears = kafkas.fail_over
        answer = await forwarding.answer(created(), CLIENT)
        await forwarding.close()

    assert isinstance(answer, CreateTopicsResponse)
    assert [(ErrorCode.NONE, 8)] == [(each.error_code, each.num_partitions) for each in answer.topics]
    assert [EnvelopeRequest] == kafkas.first.asked
