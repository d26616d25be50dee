"""The parts of a listener: its APIs, the handler of its requests, and the bounds that it shares with others of the
process."""

from __future__ import annotations

import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kraft import Message
from quorate.network.buffers import Buffers
from quorate.network.connections import NO_LIMIT, ConnectionCounts
from quorate.network.fair_turns import LARGE_AT_ONCE, LOGINS_AT_ONCE, FairTurns, InTurns, in_turns
from quorate.nouns import Principal
from quorate.protocol import Request, ServerSettings
from quorate.protocol.api_versions import Versions
from quorate.protocol.sasl.server import Mechanisms
from quorate.protocol.server import DescribeVersions

__all__ = ["Certified", "ConnectedClient", "Handle", "Listening", "Reply", "Report", "Take", "Unanswerable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedClient:
    """The client at the other end: its address, the name of its library, and the listener at which it has come."""

    host: str
    port: int
    software: tuple[str, str]
    is_tls: bool
    listener: str = ""


class Unanswerable(Exception):
    """Raised by a handler that has no answer, not even an error code: the connection is closed, the text says why."""


Handle = Callable[[Request, ConnectedClient], Awaitable[Message | None]]
"""Answers a request; None for one that takes no answer. It refuses by the response's error code, or by Unanswerable."""

Reply = Callable[[Sequence[bytes] | None], None]
"""Takes the body of an answer in pieces, encoded in the request's version, once; None leaves it to the handler."""


class Take(Protocol):
    """Answers requests that need no task: by what is in memory, at once or when that changes."""

    def __call__(self, request: Request, client: ConnectedClient, reply: Reply) -> bool:
        """Returns whether `reply` is called for this request, now or later; else the handler answers it."""


Certified = Callable[[bytes], Principal]
"""The principal of a client by its certificate (DER). Raises ValueError or Corrupt: the connection is closed."""

Report = Callable[[str, ConnectedClient], None]
"""Hears why a connection was closed by us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The parts and settings of a listener: handlers, TLS, logins, limits and clocks.

    `served` are its APIs and versions; with `mechanisms` a client must log in (SASL).
    """

    handle: Handle
    served: Versions
    describe_versions: DescribeVersions
    take: Take | None = None
    """Called before `handle`."""
    name: str = ""
    """The listener's name, by which a handler knows where a client has come."""
    mechanisms: Mechanisms | None = None
    settings: ServerSettings = field(default_factory=ServerSettings)
    tls: Callable[[], ssl.SSLContext] | None = None
    """The TLS context of the next connection; None is clear text."""
    certified: Certified | None = None
    """The principal of a client by its certificate, where there is no SASL; None makes everybody User:ANONYMOUS."""
    connections_max: int = NO_LIMIT
    """Kafka's `listener.name.<name>.max.connections`: beyond it one is closed."""
    counts: ConnectionCounts = field(default_factory=ConnectionCounts)
    """The connections of all listeners of the process."""
    buffers: Buffers = field(default_factory=Buffers)
    """The bytes that the connections of all listeners of the process hold."""
    large: FairTurns = field(default_factory=lambda: FairTurns(LARGE_AT_ONCE))
    """The turns of large requests, at all listeners of the process."""
    large_may_wait: bool = False
    """Whether one has its turn until it is decoded, and not until it is answered: where one may wait for another.

    So it is at a broker: a Produce waits for a follower's Fetch. Only `buffers` bounds the bytes that they hold
    meanwhile.
    """
    in_turns: InTurns = in_turns
    """How work in steps is done in turns of the loop: a process with more of it passes what all of it shares."""
    logins: FairTurns = field(default_factory=lambda: FairTurns(LOGINS_AT_ONCE))
    """The turns of logins that another process answers, at all listeners of the process."""
    report: Report = lambda _reason, _client: None
    now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    """The clock for idle time and sessions: one that is never set, as Kafka's `nanoTime`."""
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    """Now in ms since 1970: by it a delegation token ends."""
