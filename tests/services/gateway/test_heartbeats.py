"""A gateway before two heartbeat services: a broker's heartbeat comes to the one that counts, whichever that is."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from quorate.errors import ApiError, ErrorCode
from services.gateway import heartbeats
from tests.services.gateway.test_handler import Answer, Services, gateway
from tests.services.scripted import WITHIN_S

STANDS_BY = ApiError(ErrorCode.NOT_CONTROLLER, "this heartbeat service (b:1) stands by; the one at a:1 counts")
COUNTS = BrokerHeartbeatResponse(is_fenced=False)
HEARTBEAT = BrokerHeartbeatRequest(broker_id=1)


class StandsStill(Services):
    """Takes heartbeats and answers none, as a process after SIGSTOP."""

    async def BrokerHeartbeat(self, request: Any, **limits: Any) -> None:
        self.asked.append(("BrokerHeartbeat", request, {}))
        await asyncio.get_running_loop().create_future()


class TakesOver(Services):
    """Stands by when it is asked for the first two times, and counts from then on."""

    @property
    def BrokerHeartbeat(self) -> Any:
        self.answers["BrokerHeartbeat"] = STANDS_BY if len(self.asked) < 2 else COUNTS
        return self.__getattr__("BrokerHeartbeat")


def asked(*services: Services) -> list[int]:
    return [len(each.asked) for each in services]


@pytest.mark.parametrize("first", [STANDS_BY, grpc.StatusCode.UNAVAILABLE])
async def test_the_one_that_counts_is_found_and_asked_from_then_on(first: Answer) -> None:
    one, two = Services(BrokerHeartbeat=first), Services(BrokerHeartbeat=COUNTS)
    async with gateway(Services(), heartbeats=(one, two)) as client:
        found = [await client.ask_for(BrokerHeartbeatResponse, HEARTBEAT) for _ in range(3)]
        before = asked(one, two)
        one.answers["BrokerHeartbeat"], two.answers["BrokerHeartbeat"] = COUNTS, STANDS_BY
        found.append(await client.ask_for(BrokerHeartbeatResponse, HEARTBEAT))

    assert [COUNTS] * 4 == found
    assert ([1, 3], [2, 4]) == (before, asked(one, two))


async def test_one_that_stands_still_is_not_waited_for_and_another_is_asked_until_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeats, "PATIENCE_S", 0.01)
    one, two = StandsStill(), TakesOver()
    async with asyncio.timeout(WITHIN_S), gateway(Services(), heartbeats=(one, two)) as client:
        found = [await client.ask_for(BrokerHeartbeatResponse, HEARTBEAT) for _ in range(2)]

    assert [COUNTS] * 2 == found
    assert [1, 4] == asked(one, two)


async def test_where_none_counts_each_is_asked_once_and_the_broker_is_told() -> None:
    one, two = Services(BrokerHeartbeat=STANDS_BY), Services(BrokerHeartbeat=STANDS_BY)
    async with gateway(Services(), heartbeats=(one, two)) as client:
        answer = await client.ask_for(BrokerHeartbeatResponse, HEARTBEAT)

    assert ErrorCode.NOT_CONTROLLER == answer.error_code
    assert [1, 1] == asked(one, two)


async def test_what_the_one_that_counts_refuses_is_not_asked_of_another() -> None:
    one, two = Services(BrokerHeartbeat=ApiError(ErrorCode.STALE_BROKER_EPOCH, "old")), Services()
    async with gateway(Services(), heartbeats=(one, two)) as client:
        answer = await client.ask_for(BrokerHeartbeatResponse, HEARTBEAT)

    assert ErrorCode.STALE_BROKER_EPOCH == answer.error_code
    assert [1, 0] == asked(one, two)
