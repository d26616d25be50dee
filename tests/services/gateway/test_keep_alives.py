"""Heartbeats that change nothing go together; each of the others goes by itself, as all did before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2 import KeepAliveResponse
from quorate.network.client import Connection, connect
from quorate.network.listening import Listening
from quorate.network.server import serving
from services.gateway import keep_alives
from services.gateway.apis import SERVED, Backend
from services.gateway.handler import Gateway
from services.gateway.heartbeats import HeartbeatServices
from services.gateway.keep_alives import PLAIN, KeepAlives
from tests.services.gateway.test_handler import GATEWAYS, Services
from tests.services.gateway.test_reader_fetches import turns
from tests.services.scripted import LOOPBACK, failed

FENCED: Final = 9
BY_ITSELF: Final = BrokerHeartbeatResponse(is_caught_up=True)


class Service(Services):
    """A heartbeat service that knows of one fenced broker; `failure` is what it says to calls of many."""

    def __init__(self, failure: grpc.StatusCode | None = None) -> None:
        super().__init__(BrokerHeartbeat=BY_ITSELF)
        self.failure = failure
        self.together: list[list[tuple[int, int, int]]] = []
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def KeepAlive(self, request: Any, **_: Any) -> KeepAliveResponse:
        lists = (request.broker_ids, request.broker_epochs, request.metadata_offsets)
        self.together.append(list(zip(*lists, strict=True)))
        await self.goes_on.wait()
        if self.failure is not None:
            raise failed(self.failure)
        return KeepAliveResponse(
            unanswered=[place for place, broker in enumerate(request.broker_ids) if broker == FENCED]
        )

    @property
    def alone(self) -> list[int]:
        return [request.broker_id for _, request, _ in self.asked]


@asynccontextmanager
async def gateway(service: Service | HeartbeatServices) -> AsyncIterator[Connection]:
    stubs: dict[Backend, Any] = {**dict.fromkeys(Backend, Services()), Backend.HEARTBEAT: service}
    made = Gateway(stubs, GATEWAYS)
    await made.features.refresh()
    describe = made.features.describe
    listening = Listening(name="KAFKA", handle=made, take=made.at_once, served=SERVED, describe_versions=describe)
    async with serving(listening, LOOPBACK) as server, await connect(LOOPBACK, server.port) as client:
        yield client


async def test_a_heartbeat_that_changes_nothing_is_answered_with_others_and_any_other_by_itself() -> None:
    service = Service()
    wants = [
        BrokerHeartbeatRequest(2, want_fence=True),
        BrokerHeartbeatRequest(3, want_shut_down=True),
        BrokerHeartbeatRequest(4, offline_log_dirs=(bytes(16),)),
        BrokerHeartbeatRequest(5, cordoned_log_dirs=()),
    ]
    async with gateway(service) as client:
        kept = await client.ask(BrokerHeartbeatRequest(1, 11, 12))
        fenced = await client.ask(BrokerHeartbeatRequest(FENCED, 11, 12))
        others = [await client.ask(each) for each in wants]

    assert ([PLAIN], [BY_ITSELF] * 5) == ([kept], [fenced, *others])
    assert [[(1, 11, 12)], [(FENCED, 11, 12)]] == service.together
    assert [FENCED, 2, 3, 4, 5] == service.alone


async def test_one_goes_at_once_and_what_comes_while_two_are_under_way_goes_together() -> None:
    service, kept = Service(), list[bool]()
    together = KeepAlives(service)
    service.goes_on.clear()
    for number in range(7):
        assert together.take(BrokerHeartbeatRequest(number), kept.append)
        if number < 3:
            await turns()
    before = [len(each) for each in service.together]
    service.goes_on.set()
    await turns()

    assert [1, 1] == before
    assert [1, 1, 5] == [len(each) for each in service.together]
    assert [True] * 7 == kept


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED])
async def test_what_is_not_answered_goes_by_itself_and_so_do_the_next(status: grpc.StatusCode) -> None:
    service = Service(status)
    async with gateway(service) as client:
        answers = [await client.ask(BrokerHeartbeatRequest(number)) for number in range(3)]

    assert [BY_ITSELF] * 3 == answers
    assert ([1], [0, 1, 2]) == ([len(each) for each in service.together], service.alone)


@pytest.mark.parametrize(
    ("status", "asked"),
    [
        (grpc.StatusCode.DEADLINE_EXCEEDED, [0, 1]),
        (grpc.StatusCode.UNAVAILABLE, [0, 1]),
        (grpc.StatusCode.UNIMPLEMENTED, [1, 0]),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, [1, 0]),
    ],
)
async def test_after_a_service_that_is_silent_or_gone_the_next_one_is_asked(
    status: grpc.StatusCode, asked: list[int]
) -> None:
    services = (Service(status), Service())
    async with gateway(HeartbeatServices(services)) as client:
        answer = await client.ask(BrokerHeartbeatRequest(7))

    assert BY_ITSELF == answer
    assert asked == [len(each.alone) for each in services]


async def test_a_service_that_is_back_is_asked_for_many_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_alives, "PAUSE_S", 0.0)
    service = Service(grpc.StatusCode.UNAVAILABLE)
    async with gateway(service) as client:
        lost = await client.ask(BrokerHeartbeatRequest(1))
        service.failure = None
        back = await client.ask(BrokerHeartbeatRequest(1))

    assert [BY_ITSELF, PLAIN] == [lost, back]
