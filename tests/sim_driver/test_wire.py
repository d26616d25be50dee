"""What the simulated wire must not do: serve a call whose connection is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
import pytest

from kraft.service.quorum_pb2 import ListenRequest, ListenResponse
from kraft.service.quorum_pb2_grpc import RaftClientServicer, RaftClientStub, add_RaftClientServicer_to_server
from tests.sim_driver.loop import Life, Loop, context_of
from tests.sim_driver.wire import Call, Channel, Network, Server

ADDRESS = "node1:9093"
SECOND_US = 1_000_000
SEEDS = range(12)
"""The server's end may hear of the break before the call arrives, and the client's after."""


@dataclass
class Host:
    """Whose processes they are."""

    host: int = 1


class Unwatched:
    """Looks at nothing."""

    def sent(self, life: Life | None, method: str, request: Any, answer: Any | None) -> None: ...
    def called(self, call: Call) -> None: ...
    def received(self, life: Life, method: str, answer: Any) -> None: ...
    def failed(self, life: Life, error: BaseException) -> None:
        raise error

    def fired(self, row: str) -> None: ...


@dataclass
class Listened(RaftClientServicer):
    """Says who listens at present, and never has news."""

    present: list[int] = field(default_factory=list)

    async def Listen(self, request: ListenRequest, context: Any) -> AsyncIterator[ListenResponse]:
        self.present.append(request.session_id)
        try:
            await asyncio.Event().wait()
            yield ListenResponse()
        finally:
            self.present.remove(request.session_id)


@dataclass
class Place:
    """A node, and the controller beside it, between which a message takes up to 20 ms: `seed` says how long each."""

    seed: int
    loop: Loop = field(default_factory=lambda: Loop(Random(1), disorder=0))  # type: ignore[abstract]  # enough of it
    servicer: Listened = field(default_factory=Listened)
    codes: list[grpc.StatusCode] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.network = Network(self.loop, Random(self.seed), Unwatched(), delay_ms_max=1)
        self.network.slow_beside_ms = 20
        self.client, node = Life(Host(), "controller"), Life(Host(), "node")
        server = Server(node, host=1)
        add_RaftClientServicer_to_server(self.servicer, server)  # type: ignore[arg-type]
        self.network.listen(ADDRESS, server)

    def listen(self) -> None:
        """As a controller does."""

        async def ask() -> None:
            channel: Any = Channel(self.network, self.client, ADDRESS)
            try:
                await RaftClientStub(channel).Listen(ListenRequest(session_id=1)).read()
            except grpc.aio.AioRpcError as broken:
                self.codes.append(broken.code())

        self.run(lambda: self.loop.create_task(ask(), context=context_of(self.client)))

    def run(self, what: Callable[[], object], *, us: int = 0) -> None:
        self.network.context.run(what)
        self.loop.run_until_us(self.loop.now_us + us)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_call_that_has_arrived_ends_with_its_connection(seed: int) -> None:
    place = Place(seed)
    place.listen()
    place.run(lambda: None, us=SECOND_US)
    assert [1] == place.servicer.present

    place.run(lambda: place.network.part(place.client, ADDRESS), us=SECOND_US)

    assert [] == place.servicer.present
    assert [grpc.StatusCode.UNAVAILABLE] == place.codes


@pytest.mark.parametrize("seed", SEEDS)
def test_a_call_that_is_under_way_when_its_connection_breaks_is_never_served(seed: int) -> None:
    """Else it would be served for ever: its client has gone, and nobody is left to end it."""
    place = Place(seed)
    place.listen()
    assert [] == place.servicer.present

    place.run(lambda: place.network.part(place.client, ADDRESS), us=SECOND_US)

    assert [] == place.servicer.present
    assert [grpc.StatusCode.UNAVAILABLE] == place.codes
