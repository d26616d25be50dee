"""Kafka's wire to a peer: a Kafka controller, or a gateway. The messages are the same; the bytes are Kafka's."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from typing import Any, Final

from google.protobuf.message import Message as ProtobufMessage
from msgspec import structs

from kraft.api.add_raft_voter import AddRaftVoterRequest
from kraft.api.api_versions import ApiVersionsRequest
from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import Connection, Disconnected, Timeouts
from quorate.network.client_config import ClientConfig
from quorate.runtime.logging.logs import logger
from quorate.wire.protobuf import to_protobuf, to_struct
from services.quorum.peer_wire import Fetching, Unreached
from services.quorum.translate import Address

__all__ = ["KafkaWire"]

log = logger(__name__)

_NO_ANSWER: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT})
"""A refusal by this side of the connection that says that the peer was not heard."""


class KafkaWire:
    """Carries requests to peers at listeners of one security protocol; `config` says how to log in there.

    A peer has two connections, because it answers the requests of one in their order: one for fetches, which wait for
    news, and one for all else, so that no vote waits behind a fetch. Kafka's own nodes have one and wait.
    """

    def __init__(self, config: ClientConfig, *, timeout_ms: int) -> None:
        """`timeout_ms` is how long a connection may take to be opened, and a fetch to be answered."""
        timeouts = Timeouts(connect_ms=timeout_ms, request_ms=timeout_ms)
        self._door = _Door(replace(config, timeouts=timeouts))
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}

    async def call(self, at: Address, request: ProtobufMessage, *, timeout_s: float) -> Any:
        """Sends one request in the highest version of both sides, and returns its answer, also one with an error code.

        Raises Unreached if none has come after `timeout_s` (s), the connection breaks or the login is refused;
        ApiError for a request that no version of the peer's can carry, which is not sent.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await _asked(await self._connected(at), request)
        except TimeoutError:
            self._drop(at)  # its late answer would hold up those of the next requests
            raise Unreached(f"{at}: no answer within {timeout_s:g} s") from None
        except OSError as failure:
            raise Unreached(f"{at}: {failure}") from None

    def fetching(self, at: Address) -> Fetching:
        """Returns a connection for fetches, which the first one opens; Unreached is raised there if it cannot be."""
        return _KafkaFetching(self._door, at)

    async def close(self) -> None:
        """Closes the connections of `call`. A connection for fetches is closed by its own `cancel`."""
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _connected(self, at: Address) -> Connection:
        """Returns the open connection to an address; tasks that need it at the same time share one."""
        async with self._opening.setdefault(at, asyncio.Lock()):
            known = self._connections.get(at)
            if known is not None and known.is_open:
                return known
            self._connections[at] = await self._door.open(at)
            return self._connections[at]

    def _drop(self, at: Address) -> None:
        if (connection := self._connections.pop(at, None)) is not None:
            connection.abort()


class _Door:
    """Opens connections, and says once of a peer that it is there and lets this node not in, until it does."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._closed: set[Address] = set()

    async def open(self, at: Address) -> Connection:
        """Connects, and logs in. Raises OSError, or Unreached for a login that is refused."""
        try:
            connection = await self._config.connect((at.host, at.port))
        except ApiError as refusal:
            self._note(at, refusal)
            raise Unreached(f"{at}: {refusal}") from None
        except (ssl.SSLError, Disconnected) as failure:
            self._note(at, failure)
            raise
        self._closed.discard(at)
        return connection

    def _note(self, at: Address, reason: Exception) -> None:
        if at not in self._closed:
            self._closed.add(at)
            log.warning("a peer does not let this node in", peer=str(at), reason=str(reason))


class _KafkaFetching:
    """A connection for fetches to one leader."""

    def __init__(self, door: _Door, at: Address) -> None:
        self._door = door
        self._at = at
        self._connection: Connection | None = None

    async def ask(self, request: FetchRequest) -> FetchResponse | None:
        try:
            if self._connection is None:
                self._connection = await self._door.open(self._at)
            answer = await _asked(self._connection, request)
        except OSError as failure:
            raise Unreached(f"{self._at}: {failure}") from None
        assert isinstance(answer, FetchResponse), answer
        return answer

    def cancel(self) -> None:
        if self._connection is not None:
            self._connection.abort()


async def _asked(connection: Connection, request: ProtobufMessage) -> ProtobufMessage:
    """Asks once, in the highest version of both sides. Raises OSError, ApiError, or Unreached."""
    asked = to_struct(request)
    if isinstance(asked, ApiVersionsRequest):
        return to_protobuf(connection.node)  # every connection begins with it
    try:
        if isinstance(asked, AddRaftVoterRequest) and connection.version_of(AddRaftVoterRequest) == 0:
            # Kafka 4.0 always answers once it is committed. This node's fetches do not wait for that: see KafkaWire.
            asked = structs.replace(asked, ack_when_committed=True)
        return to_protobuf(await connection.ask(asked))
    except ApiError as refusal:
        if refusal.code in _NO_ANSWER:
            raise Unreached(str(refusal)) from None
        if refusal.code is ErrorCode.UNSUPPORTED_VERSION:  # the client's own: a peer's is in its answer
            raise ApiError(refusal.code, f"it was not sent: {refusal.message}") from None
        raise
