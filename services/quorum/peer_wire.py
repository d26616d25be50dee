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
        """Sends one fetch and returns its answer; None if the peer has ended the stream, or the answer is no Fetch.

        Raises Unreached; over Kafka's wire also ApiError for a fetch that no version of the peer's can carry.
        """

    def cancel(self) -> None:
        """Ends the connection at once."""


class PeerWire(Protocol):
    """Carries requests to the peers that speak one protocol, as protobuf of Kafka's messages in the newest version."""

    async def call(self, at: Address, request: ProtobufMessage, *, timeout_s: float) -> Any:
        """Sends one request, and returns its answer, also one with an error code.

        Raises Unreached if none has come after `timeout_s` (s), ApiError if the request cannot be sent in a version of
        the peer's, Corrupt for an answer that does not parse.
        """

    def fetching(self, at: Address) -> Fetching:
        """Returns a connection for fetches. If the peer cannot be reached, the first fetch raises Unreached."""

    async def close(self) -> None:
        """Closes all connections."""


def rpc_of(request: ProtobufMessage) -> str:
    """Returns the name of the RPC, which is that of Kafka's API: VoteRequest is for Vote."""
    return request.DESCRIPTOR.name.removesuffix(REQUEST)


class GrpcWire:
    """Carries requests to our own nodes by gRPC, over one channel for each address, which is kept open."""

    def __init__(self, transport: Transport = PLAIN) -> None:
        self._channels = Channels(lambda address: open_channel(address, transport))
        self._stubs: dict[Address, QuorumStub] = {}

    async def call(self, at: Address, request: ProtobufMessage, *, timeout_s: float) -> Any:
        """Calls the RPC of the request's name, and returns its answer, also one with an error code.

        Raises Unreached if the call fails or takes more than `timeout_s` (s), Corrupt if the answer does not parse.
        """
        try:
            return parsed(await getattr(self._stub(at), rpc_of(request))(request, timeout=timeout_s))
        except grpc.aio.AioRpcError as failure:
            raise Unreached(_words(failure)) from None

    def fetching(self, at: Address) -> Fetching:
        """Begins a Fetch stream to a peer. If the peer cannot be reached, the first fetch raises Unreached."""
        return _GrpcFetching(self._stub(at))

    async def close(self) -> None:
        """Closes all channels, and with them the calls and streams that are open."""
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
