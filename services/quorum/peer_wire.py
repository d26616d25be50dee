"""Requests to a peer: the interface that gRPC and Kafka's protocol share here, and its implementation over gRPC."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

import grpc
from google.protobuf.message import Message as ProtobufMessage

from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.runtime.clients.client import Channels, open_channel
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.requests.decoding import parsed
from services.quorum.translate import Address

__all__ = ["Fetching", "GrpcWire", "PeerWire", "Unreached", "rpc_of"]

REQUEST: Final = "Request"


class Unreached(Exception):
    """The peer has not answered: it was not reached, its connection broke, or its answer took too long."""


class Fetching(Protocol):
    """A connection for fetches alone, which may wait long for their answers; they come in the order of the requests."""

    async def ask(self, request: FetchRequest) -> FetchResponse | None:
        """Returns the answer; None if the peer has ended the connection. Raises Unreached."""

    def cancel(self) -> None:
        """Ends the connection at once."""


class PeerWire(Protocol):
    """Carries requests to the peers that speak one protocol, in terms of Kafka's messages of the newest version."""

    async def call(self, at: Address, request: ProtobufMessage, *, timeout_s: float) -> Any:
        """Returns the answer to one request. Raises Unreached, or ApiError or Corrupt for an answer that is none."""

    def fetching(self, at: Address) -> Fetching:
        """Opens a connection for fetches; that it cannot be reached shows in the first of them."""

    async def close(self) -> None:
        """Closes all connections."""


def rpc_of(request: ProtobufMessage) -> str:
    """Returns the name of the RPC, which is that of Kafka's API: VoteRequest is for Vote."""
    return request.DESCRIPTOR.name.removesuffix(REQUEST)


class GrpcWire:
    """Carries requests to our own nodes, over one channel for each address."""

    def __init__(self, transport: Transport = PLAIN) -> None:
        self._channels = Channels(lambda address: open_channel(address, transport))
        self._stubs: dict[Address, QuorumStub] = {}

    async def call(self, at: Address, request: ProtobufMessage, *, timeout_s: float) -> Any:
        """As `PeerWire.call`."""
        try:
            return parsed(await getattr(self._stub(at), rpc_of(request))(request, timeout=timeout_s))
        except grpc.aio.AioRpcError as failure:
            raise Unreached(_words(failure)) from None

    def fetching(self, at: Address) -> Fetching:
        """As `PeerWire.fetching`."""
        return _GrpcFetching(self._stub(at))

    async def close(self) -> None:
        """As `PeerWire.close`."""
        await self._channels.close()

    def _stub(self, at: Address) -> QuorumStub:
        if at not in self._stubs:
            self._stubs[at] = QuorumStub(self._channels[str(at)])
        return self._stubs[at]


class _GrpcFetching:
    """One Fetch stream."""

    def __init__(self, stub: QuorumStub) -> None:
        self._call = stub.FetchStream()

    async def ask(self, request: FetchRequest) -> FetchResponse | None:
        try:
            await self._call.write(request)
            answer = await self._call.read()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as failure:
            # InvalidStateError is gRPC's answer to a write on a stream that has just ended.
            raise Unreached(_words(failure)) from None
        return answer if isinstance(answer, FetchResponse) else None

    def cancel(self) -> None:
        self._call.cancel()


def _words(failure: grpc.aio.AioRpcError | asyncio.InvalidStateError) -> str:
    """Returns a status in the same words each time, without the time and the file of gRPC's own text."""
    return f"{failure.code().name}: {failure.details()}" if isinstance(failure, grpc.aio.AioRpcError) else str(failure)
