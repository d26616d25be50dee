"""Fetches that a gateway answers without a task: the same bytes as the handler's, and for the same callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kraft import Message
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import ErrorCode
from quorate.network.client import Connection, connect
from quorate.network.listening import Listening
from quorate.network.server import serving
from quorate.protocol import ClientSettings
from quorate.protocol.sasl.plain import PlainClient, PlainServer
from quorate.runtime.requests.statuses import trailing_metadata
from quorate.tls.node_ids import NodeIds
from quorate.wire.codec import encode
from quorate.wire.fitting import fitted
from services.gateway import reader_fetches
from services.gateway.apis import SERVED, Backend
from services.gateway.fetch_form import VERSION_MIN, FetchForm
from services.gateway.guard import ClusterActionGuard
from services.gateway.handler import Gateway
from services.gateway.older import REPLICA_STATE_SINCE
from tests.services.gateway.test_guard import REFUSAL, SUPER, Controller
from tests.services.gateway.test_handler import APIS, GATEWAYS, Services
from tests.services.gateway.test_reader_fetches import (
    BROKER,
    EPOCH,
    LISTENER,
    LONG_MS,
    START,
    answered,
    fetch,
    following,
    turns,
)
from tests.services.gateway.test_reader_fetches import Gateway as Readers
from tests.services.scripted import LOOPBACK, failed

FETCH: Final = APIS["Fetch"]
RULES: Final = r"RULE:^broker-([0-9]+)$/$1/"


@pytest.mark.hypothesis
@given(
    st.integers(VERSION_MIN, FETCH.versions[-1]),
    st.binary(max_size=300),
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
    st.integers(0, 9),
)
def test_it_has_the_bytes_of_the_answer_in_each_version(
    version: int, records: bytes, high_watermark: int, leader: int, throttle_ms: int
) -> None:
    said = answered(leader=leader, records=b"of another fetch")
    said = FetchResponse(throttle_ms, responses=said.responses, node_endpoints=said.node_endpoints)
    form = FetchForm(said)
    expected = form.response(records, high_watermark)
    (partition,) = expected.responses[0].partitions

    assert (records, high_watermark) == (partition.records, partition.high_watermark)
    assert form.is_of(expected)
    assert encode(fitted(expected, version), version) == b"".join(form.body(version, records, high_watermark))


@asynccontextmanager
async def gateway(
    readers: Readers, services: Services | None = None, *, user: str | None = None, **more: Any
) -> AsyncIterator[Connection]:
    """A broker's connection to a gateway that follows the log."""
    stubs: dict[Backend, Any] = dict.fromkeys(Backend, services or Services())
    made = Gateway(stubs, {LISTENER: GATEWAYS["KAFKA"]}, readers=readers.readers, **more)
    await made.features.refresh()
    listening = Listening(
        name=LISTENER,
        handle=made,
        take=made.at_once,
        served=SERVED,
        describe_versions=made.features.describe,
        mechanisms=None if user is None else {"PLAIN": lambda: PlainServer(lambda *_: True)},
    )
    begin = None if user is None else lambda: PlainClient(user, "x")
    async with (
        serving(listening, LOOPBACK) as server,
        await connect(LOOPBACK, server.port, settings=ClientSettings(client_id="broker"), begin=begin) as client,
    ):
        yield client


def of(version: int, request: FetchRequest) -> FetchRequest:
    """In an older version the replica's id is in another field."""
    if version >= REPLICA_STATE_SINCE:
        return request
    return replace(request, replica_id=request.replica_state.replica_id, replica_state=FetchRequest.ReplicaState())


def told(answer: Message) -> tuple[bytes, int]:
    assert isinstance(answer, FetchResponse), answer
    partition = answer.responses[0].partitions[0]
    return partition.records or b"", partition.high_watermark


@pytest.mark.parametrize("version", [REPLICA_STATE_SINCE - 1, REPLICA_STATE_SINCE, FETCH.versions[-1]])
async def test_a_broker_is_answered_from_the_end_of_the_log(version: int) -> None:
    services = Services()
    async with following() as readers, gateway(readers, services) as client:
        first = readers.log.commit(START)
        await turns()
        at_once = told(await client.ask(of(version, fetch(START, wait_ms=LONG_MS)), version=version))
        held = asyncio.ensure_future(client.ask(of(version, fetch(START + 1, wait_ms=LONG_MS)), version=version))
        await turns()
        second = readers.log.commit(START + 1)

        assert (second, START + 2) == told(await held)
    assert (first, START + 1) == at_once
    assert [] == services.asked


async def test_what_another_leader_has_to_say_is_passed_on() -> None:
    services = Services(Fetch=answered(leader=2, epoch=EPOCH + 1))
    async with following() as readers, gateway(readers, services) as client:
        held = asyncio.ensure_future(client.ask(fetch(START, wait_ms=LONG_MS)))
        await turns()
        readers.log.led_by(2, EPOCH + 1)
        answer = await held

    assert (b"", START) == told(answer)
    assert ["Fetch"] == [rpc for rpc, *_ in services.asked]


@pytest.mark.parametrize("version", [REPLICA_STATE_SINCE - 1, REPLICA_STATE_SINCE])
async def test_the_node_sees_every_other_fetch_if_it_has_to_see_the_next(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """As a release that takes no reports, or one that is adding the reader as a voter."""
    monkeypatch.setattr(reader_fetches, "NODE_EVERY_S", 0.0)
    monkeypatch.setattr(reader_fetches, "REPORT_EVERY_S", 0.0)
    services, seen = Services(Fetch=answered()), list[int]()
    async with following() as readers, gateway(readers, services) as client:
        readers.takes_reports = False
        for _ in range(5):
            await client.ask(of(version, fetch(START)), version=version)
            seen.append(len(services.asked))

    assert [0, 1, 1, 2, 2] == seen


@pytest.mark.parametrize("user", ["root", "alice", "broker-101"])
async def test_a_caller_gets_no_more_than_by_the_handler(user: str) -> None:
    """Of a super user nobody is asked; with rules for nodes it may speak for its own."""
    refusing = Controller(failed(grpc.StatusCode.PERMISSION_DENIED, trailing_metadata(REFUSAL), "no"))
    more = {"guard": ClusterActionGuard(refusing, SUPER)} if user != "broker-101" else {"nodes": NodeIds(RULES)}
    async with following() as readers, gateway(readers, user=user, **more) as client:
        own = await client.ask_for(FetchResponse, fetch(START))
        readers.readers.passed(fetch(START, replica=BROKER + 1), LISTENER, answered())
        others = await client.ask_for(FetchResponse, fetch(START, replica=BROKER + 1))

    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    expected = {"root": (0, 0), "alice": (refused, refused), "broker-101": (0, refused)}
    assert expected[user] == (own.error_code, others.error_code)
