"""The events that the two connections make of the bytes that they receive."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from kraft import Message
from kraft.protocol.request_header import RequestHeader
from quorate.nouns import ANONYMOUS, Principal
from quorate.protocol.apis import ApiMessageType
from quorate.protocol.sasl.mechanism import RemoteMechanism

__all__ = ["Close", "ConnectionReady", "Evaluate", "LargeRequest", "Request", "Response", "Taken"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """A request to answer with `ServerConnection.respond`, in any order; the answers go out in order."""

    api: ApiMessageType
    header: RequestHeader
    message: Message
    principal: Principal = ANONYMOUS
    is_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LargeRequest:
    """A request that takes long to decode. No other is taken meanwhile.

    `steps` return it, or None if the connection has answered it by itself, and raise ProtocolError.
    """

    api: ApiMessageType
    steps: Generator[None, None, Request | None]


@dataclass(frozen=True, slots=True)
class Taken:
    """A request that the connection has answered by itself, such as ApiVersions: the answer is among the bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """A message of a login that another process answers: its answer goes to `ServerConnection.evaluated`."""

    exchange: RemoteMechanism
    message: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The answer to the request that was sent with `correlation_id`."""

    api: ApiMessageType
    correlation_id: int
    message: Message


@dataclass(frozen=True, slots=True)
class ConnectionReady:
    """The versions are known and the login is complete: requests may be sent. It comes again after each new login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """The connection must be closed: after `delay_ms` what `data_to_send` still has is sent, and that is the end.

    The error of a login is sent late, as by Kafka (KIP-306): a client that guesses passwords waits for each answer.
    """

    reason: str
    delay_ms: int = 0
