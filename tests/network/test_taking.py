"""Requests that are answered without a task: in their place, now or later, or by the handler after all."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.network.client import Disconnected, connect
from quorate.network.listening import ConnectedClient, Reply
from quorate.protocol import Request
from quorate.protocol.apis import all_apis
from quorate.wire.codec import encode
from tests.network.test_network import LOOPBACK, Handler, Reports, served, until


class Held:
    """Takes each Fetch, and answers on command; those with a session id it answers at once."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []

    def __call__(self, request: Request, client: ConnectedClient, reply: Reply) -> bool:
        if not isinstance(request.message, FetchRequest):
            return False
        if request.message.session_id:
            reply(self.body(request.message.session_id))
        else:
            self.replies.append(reply)
        return True

    @staticmethod
    def body(session_id: int) -> list[bytes]:
        version = all_apis()[1].versions[-1]
        return [b"", encode(FetchResponse(session_id=session_id), version)]


async def test_what_is_taken_is_answered_in_its_place_now_or_later_or_by_the_handler_after_all() -> None:
    handler, held = Handler(), Held()
    handler.released.set()
    async with served(handler, take=held) as server, await connect(LOOPBACK, server.port) as client:
        asked = [FetchRequest(), FetchRequest(session_id=3), FetchRequest(), DescribeClusterRequest()]
        waiting = [asyncio.create_task(client.ask(each)) for each in asked]
        await until(lambda: len(held.replies) == 2)
        await until(lambda: len(handler.requests) == 1)
        were_done = [task.done() for task in waiting]
        held.replies[1](None)
        held.replies[0](held.body(5))
        answers = await asyncio.gather(*waiting)

    assert [False] * 4 == were_done
    assert [5, 3, 7] == [each.session_id for each in answers[:3]]
    assert [DescribeClusterRequest, FetchRequest] == [type(each.message) for each in handler.requests]


async def test_a_stop_waits_for_what_is_held_and_a_client_that_has_gone_is_not_answered() -> None:
    held = Held()
    async with served(Handler(), take=held) as server, await connect(LOOPBACK, server.port) as client:
        gone = await connect(LOOPBACK, server.port)
        leaving, staying = (asyncio.create_task(each.ask(FetchRequest())) for each in (gone, client))
        await until(lambda: len(held.replies) == 2)
        gone.abort()
        await until(lambda: len(server) == 1)
        stopping = asyncio.create_task(server.drain(60))
        await asyncio.sleep(0)
        was_done = stopping.done()
        for number, reply in enumerate(held.replies):
            reply(held.body(number + 1))
        cut = await stopping
        answer = await staying

    assert (False, Counter()) == (was_done, cut)
    assert answer in [FetchResponse(session_id=1), FetchResponse(session_id=2)]
    assert isinstance(leaving.exception(), Disconnected)


async def test_a_stop_waits_for_what_is_handed_over_meanwhile() -> None:
    handler, held = Handler(), Held()
    async with served(handler, take=held) as server, await connect(LOOPBACK, server.port) as client:
        asked = asyncio.create_task(client.ask(FetchRequest()))
        await until(lambda: len(held.replies) == 1)
        stopping = asyncio.create_task(server.drain(60))
        await asyncio.sleep(0)
        held.replies[0](None)
        await until(lambda: len(handler.requests) == 1)
        was_done = stopping.done()
        handler.released.set()
        cut = await stopping

        assert (False, Counter()) == (was_done, cut)
        assert FetchResponse(session_id=7) == await asked


async def test_nothing_is_handed_over_once_its_connection_ends() -> None:
    """The server begins no more tasks by then, and who held the request has others to answer."""
    handler, held = Handler(), Held()
    async with served(handler, take=held) as server:
        client = await connect(LOOPBACK, server.port)
        asked = asyncio.create_task(client.ask(FetchRequest()))
        await until(lambda: len(held.replies) == 1)
    held.replies[0](None)

    with pytest.raises(Disconnected):
        await asked
    assert [] == handler.requests


async def test_a_fault_in_what_takes_a_request_ends_its_connection_only() -> None:
    def fails(*_: object) -> bool:
        raise RuntimeError("a fault of ours")

    reports = Reports()
    async with served(Handler(), take=fails, report=reports) as server:
        with pytest.raises(Disconnected):
            await (await connect(LOOPBACK, server.port)).ask(FetchRequest())
        assert ["Fetch: what takes it failed: RuntimeError('a fault of ours')"] == reports.reasons
