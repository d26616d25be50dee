"""One client cannot stop the others: turns of requests, large requests in steps, and what all connections may hold."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from kraft import Message
from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.sasl_authenticate import SaslAuthenticateRequest
from kraft.api.sasl_handshake import SaslHandshakeRequest
from quorate.network.buffers import Buffers
from quorate.network.client import Disconnected, connect
from quorate.network.connections import ConnectionCounts
from quorate.network.fair_turns import LOGINS_AT_ONCE, FairTurns, in_turns
from quorate.protocol import Request, ServerSettings, api_of
from quorate.protocol.apis import all_apis
from quorate.protocol.sasl.mechanism import Answered
from tests.network.test_network import LOOPBACK, Handler, Named, Reports, served, until
from tests.protocol.pair import describe
from tests.protocol.test_connection import raw
from tests.protocol.test_sasl import CLIENTS, MECHANISMS

API_VERSIONS = raw(all_apis()[18], ApiVersionsRequest("tool", "1"), 3)
QUOTAS = api_of(AlterClientQuotasRequest)
BURST = 300
"""Connections at once: more than asyncio's own backlog of 100, and no more than select takes."""

T = TypeVar("T")


@asynccontextmanager
async def most_in_one_turn_of_the_loop(count: Callable[[], int]) -> AsyncIterator[list[int]]:
    """Notes how far `count` rises at most from one turn of the event loop to the next."""
    loop, most, before, goes_on = asyncio.get_running_loop(), [0], count(), True

    def look() -> None:
        nonlocal before
        most[0] = max(most[0], count() - before)
        before = count()
        if goes_on:
            loop.call_soon(look)

    look()
    try:
        yield most
    finally:
        goes_on = False


async def test_each_connection_has_one_request_answered_in_a_turn_of_the_loop() -> None:
    """Requests that a client sends at once wait while others are served; before a login, too. Kafka takes one of
    each."""
    answered = 0

    def counted(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        nonlocal answered
        answered += 1
        return describe(request, version)

    async with served(Handler(), describe_versions=counted) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        async with most_in_one_turn_of_the_loop(lambda: answered) as most:
            writer.write(API_VERSIONS * 500)
            for _ in range(500):
                await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        writer.close()

    assert (500, 1) == (answered, most[0])


async def test_a_client_that_takes_no_answers_has_none_made() -> None:
    answered = 0

    def counted(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        nonlocal answered
        answered += 1
        return describe(request, version)

    async with served(Handler(), describe_versions=counted) as server:
        _, writer = await asyncio.open_connection(LOOPBACK, server.port, limit=1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is asyncio's own
        writer.write(API_VERSIONS * 60_000)
        async with connected(server.port) as ask:
            before = -1
            while answered != before:
                before = answered
                for _ in range(20):
                    await ask()
        assert answered < 60_000
        writer.close()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Callable[[], object]]:
    client = await connect(LOOPBACK, port)
    try:
        yield lambda: client.ask(DescribeClusterRequest())
    finally:
        await client.close()


def quotas(entries: int) -> bytes:
    entry = AlterClientQuotasRequest.EntryData()
    return raw(QUOTAS, AlterClientQuotasRequest(entries=(entry,) * entries), 1)


async def test_a_large_request_is_decoded_in_steps_and_one_with_too_many_items_is_not() -> None:
    asked: list[Request] = []
    turns = 0

    async def handle(request: Request, _: object) -> Message:
        asked.append(request)
        return request.api.response()

    def look() -> None:
        nonlocal turns
        turns += 1
        if not asked:
            asyncio.get_running_loop().call_soon(look)

    reports, settings = Reports(), ServerSettings(items_max=20_000)
    async with served(Handler(), handle=handle, settings=settings, report=reports) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(quotas(20_000))
        look()
        await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        writer.write(quotas(20_001))
        await reader.read()
        writer.close()

    (request,) = asked
    assert isinstance(request.message, AlterClientQuotasRequest)
    assert 20_000 == len(request.message.entries)
    assert turns > 15
    assert ["v1: AlterClientQuotasRequest: more than 20000 items in all lists together"] == reports.reasons


async def test_large_requests_wait_for_their_turn_and_small_ones_do_not() -> None:
    released, under_way, most = asyncio.Event(), 0, 0

    async def handle(request: Request, _: object) -> Message:
        nonlocal under_way, most
        if isinstance(request.message, AlterClientQuotasRequest):
            under_way += 1
            most = max(most, under_way)
            await released.wait()
            under_way -= 1
        return request.api.response()

    async with served(Handler(), handle=handle, large=FairTurns(2)) as server, connected(server.port) as ask:
        clients = [await asyncio.open_connection(LOOPBACK, server.port) for _ in range(5)]
        for _, writer in clients:
            writer.write(quotas(6_000) * 3)
        await until(lambda: under_way == 2)
        assert await ask()
        released.set()
        for reader, writer in clients:
            for _ in range(3):
                await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            writer.close()

    assert 2 == most


async def test_few_large_requests_are_decoded_at_once_where_many_may_be_under_way() -> None:
    released, decoding, most, waiting = asyncio.Event(), 0, 0, 0

    async def counted(steps: Generator[None, None, T]) -> T:
        nonlocal decoding, most
        decoding += 1
        most = max(most, decoding)
        try:
            return await in_turns(steps)
        finally:
            decoding -= 1

    async def handle(request: Request, _: object) -> Message:
        nonlocal waiting
        waiting += 1
        if waiting == 5:
            released.set()
        await released.wait()
        return request.api.response()

    async with served(Handler(), handle=handle, large_may_wait=True, in_turns=counted) as server:
        clients = [await asyncio.open_connection(LOOPBACK, server.port) for _ in range(5)]
        for _, writer in clients:
            writer.write(quotas(20_000))
        async with asyncio.timeout(60):
            await released.wait()
        assert 2 == most
        for _, writer in clients:
            writer.close()


async def test_halves_of_requests_are_not_kept_beyond_the_limit_of_all_connections() -> None:
    """The client that holds most has to leave; the others are answered, and all is given back."""
    buffers, reports = Buffers(1 << 20), Reports()
    async with served(Handler(), buffers=buffers, report=reports) as server, connected(server.port) as ask:
        half = (1 << 20).to_bytes(4) + bytes(300_000)
        clients = [await asyncio.open_connection(LOOPBACK, server.port) for _ in range(8)]
        for _, writer in clients:
            writer.write(half)
        await until(lambda: len(reports.reasons) >= 5)
        assert await ask()
        assert buffers.total <= 1 << 20
        for _, writer in clients:
            writer.close()
        await until(lambda: len(server) == 1)
        assert 0 == buffers.total

    assert (
        "hold more than queued.max.request.bytes = 1048576 together, those from 127.0.0.1 the most"
        in (reports.reasons[0])
    )


@pytest.mark.parametrize(
    ("cap", "full"),
    [
        ({"counts": ConnectionCounts(limit=3)}, "3 connections are open, as many as max.connections allows"),
        (
            {"counts": ConnectionCounts(limit_per_ip=3)},
            "3 connections from 127.0.0.1 are open, as many as max.connections.per.ip allows",
        ),
        (
            {"connections_max": 3, "name": "SECURE"},
            "3 connections are open at SECURE, as many as its max.connections allows",
        ),
    ],
)
async def test_who_only_stays_connected_keeps_nobody_out(cap: dict[str, object], full: str) -> None:
    """The oldest that has not logged in goes for another connection. Only if all have logged in it is refused."""
    reports, begin = Reports(), CLIENTS["PLAIN"]
    async with served(Handler(), mechanisms=MECHANISMS, report=reports, **cap) as server:
        first = await connect(LOOPBACK, server.port, begin=begin)
        silent = [await asyncio.open_connection(LOOPBACK, server.port) for _ in range(2)]
        others = [first, await connect(LOOPBACK, server.port, begin=begin)]
        reader, writer = silent[1]
        writer.write(API_VERSIONS)  # which anybody may ask for: it is no login
        await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        others.append(await connect(LOOPBACK, server.port, begin=begin))
        for reader, writer in silent:
            await reader.read()
            writer.close()
        with pytest.raises(Disconnected):
            await connect(LOOPBACK, server.port, begin=begin)
        for client in others:
            assert await client.ask(DescribeClusterRequest())
            await client.close()
        await until(lambda: len(server) == 0)

    assert [*[f"{full}; of those that have not logged in this one is the oldest"] * 2, full] == reports.reasons


async def test_at_a_listener_without_logins_who_has_asked_for_nothing_goes_first() -> None:
    reports, counts = Reports(), ConnectionCounts(limit=3, limit_per_ip=2)
    async with served(Handler(), counts=counts, report=reports) as server, connected(server.port) as ask:
        assert await ask()
        silent = [await asyncio.open_connection(LOOPBACK, server.port) for _ in range(200)]
        async with asyncio.TaskGroup() as closing:
            for reader, _ in silent[:-1]:
                closing.create_task(reader.read())
        assert await ask()
        assert 2 == len(server)
        for _, writer in silent:
            writer.close()
        await until(lambda: len(server) == 1)
        async with connected(server.port) as another:
            assert await another()

    assert 199 == len(reports.reasons)


async def test_connections_of_a_burst_are_kept_until_the_loop_accepts_them() -> None:
    """The system drops those beyond the backlog, and their clients try again after a second: the good ones, too."""
    async with served(Handler()) as server:
        burst = [socket.socket() for _ in range(BURST)]
        for each in burst:  # the loop accepts none meanwhile
            each.setblocking(False)
            each.connect_ex((LOOPBACK, server.port))
        _, connected_now, _ = select.select((), burst, (), 0)
        for each in burst:
            each.close()

    assert BURST == len(connected_now)


class Waiting(Named):
    """A login that is answered on command, and notes whose is asked for."""

    def __init__(self, asked: list[str], released: asyncio.Event) -> None:
        self._asked = asked
        self._released = released

    async def ask(self, response: bytes) -> Answered:
        self._asked.append(response.decode())
        await self._released.wait()
        return await super().ask(response)


@pytest.mark.parametrize("host", [LOOPBACK, "127.0.0.2"], ids=["the same address", "another"])
async def test_many_logins_of_one_name_do_not_stand_before_that_of_another(host: str) -> None:
    """At a gateway, which has the controller answer them: so many at once, then each address and name in turn."""
    asked, released = list[str](), asyncio.Event()
    mechanisms = {"NAMED": lambda: Waiting(asked, released)}
    async with served(Handler(), mechanisms=mechanisms, settings=ServerSettings()) as server:

        async def begin(name: str, source: str) -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection(LOOPBACK, server.port, local_addr=(source, 0))
            for each in (SaslHandshakeRequest("NAMED"), SaslAuthenticateRequest(name.encode())):
                writer.write(raw(api_of(type(each)), each, 1))
            opened.append(writer)
            await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            return reader

        opened = list[asyncio.StreamWriter]()
        for _ in range(60):
            await begin("mallory", LOOPBACK)
        last = await begin("alice", host)
        await until(lambda: len(asked) >= LOGINS_AT_ONCE)
        released.set()
        await last.readexactly(int.from_bytes(await last.readexactly(4)))
        for each in opened:
            each.close()

    assert asked.index("alice") <= LOGINS_AT_ONCE + 1


async def test_turns_go_by_address_and_then_by_name() -> None:
    turns, order = FairTurns(1), list[str]()

    async def work(host: str, name: str) -> None:
        async with turns.turn(host, name):
            order.append(f"{host}{name}")

    await turns.begin("x")
    waiting = [asyncio.create_task(work(*each)) for each in ("aa", "aa", "aa", "ab", "ba", "aa", "bb")]
    await asyncio.sleep(0)
    waiting[1].cancel()
    turns.end()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert ["aa", "ba", "ab", "bb", "aa", "aa"] == order
    order.clear()
    await turns.begin("x")
    waiting = [asyncio.create_task(work("a", name)) for name in "bcdefg"]
    await asyncio.sleep(0)
    turns.end()
    await asyncio.gather(*waiting)
    assert ["ab", "ag", "ac", "af", "ad", "ae"] == order
    async with turns.turn("x"):
        assert order
