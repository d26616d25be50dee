"""The limits of a connection, under Kafka's names and with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClientSettings", "ServerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The limits of one connection at a listener: sizes, idle time, requests in flight, SASL sessions."""

    request_bytes_max: int = 100 * 1024 * 1024
    """Kafka's `socket.request.max.bytes`: the largest request, in bytes."""
    sasl_receive_bytes_max: int = 64 * 1024
    """Kafka's `sasl.server.max.receive.size`: the largest request before the client has logged in, in bytes.

    Kafka's default of 512 KiB is for tickets and tokens of mechanisms that are not here.
    """
    idle_ms_max: int = 10 * 60 * 1000
    """Kafka's `connections.max.idle.ms`: a connection without traffic for longer is closed."""
    reauth_ms_max: int = 0
    """Kafka's `connections.max.reauth.ms`: a SASL session ends after so long, unless renewed; 0 is never. KIP-368."""
    failed_authentication_delay_ms: int = 100
    """Kafka's `connection.failed.authentication.delay.ms`: how long a failed login waits for its answer."""
    in_flight_max: int = 16
    """How many requests of one connection are open at once, answered in order. Kafka handles one at a time."""
    large_bytes: int = 16 * 1024
    """A request with more bytes is decoded in steps, and is the only one of its connection until it is answered."""
    items_max: int = 100_000
    """The most items of all lists of such a request together: twice as many as a service takes in one request."""

    def __post_init__(self) -> None:
        assert self.request_bytes_max > 0, self.request_bytes_max
        assert self.sasl_receive_bytes_max > 0, self.sasl_receive_bytes_max
        assert self.idle_ms_max > 0, self.idle_ms_max
        assert self.reauth_ms_max >= 0, self.reauth_ms_max
        assert self.in_flight_max > 0, self.in_flight_max


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """A client's name and version, and the bounds of the answers that it accepts."""

    client_id: str | None = "quorate"
    """Kafka's `client.id`."""
    software_name: str = "quorate"
    software_version: str = "0.1.0"
    """Both for the node's metrics. KIP-511."""
    response_bytes_max: int = (1 << 31) - 1
    """The largest response, in bytes; Kafka's clients have no other limit than the size's four bytes."""
    in_flight_max: int = 5
    """Kafka's `max.in.flight.requests.per.connection`."""
