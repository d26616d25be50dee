"""Storms of wrong logins: Basic and tokens in the metadata of gRPC calls, SCRAM and PLAIN at a gateway.

A wrong Basic login has the controller hash a password, a wrong SCRAM login has the client do so; what is begun and not
ended keeps its place.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import grpc

from kraft.api.sasl_authenticate import SaslAuthenticateRequest
from kraft.api.sasl_handshake import SaslHandshakeRequest
from quorate.errors import ApiError
from quorate.network.client import Timeouts, connect
from quorate.protocol.sasl.client import Begin
from quorate.protocol.sasl.plain import PLAIN, PlainClient
from quorate.protocol.sasl.scram import ScramClient
from tests.bench.bad_neighbours import OPEN, Ends, Kind, frame
from tests.bench.bad_neighbours_grpc import ANSWERED, open_channel
from tests.fuzz.attacks import Door

VICTIM: Final = "victim"
"""The user whose name bad callers try."""
SCRAM: Final = "SCRAM-SHA-512"
SCRAM_NUMBER: Final = 2
PER_CONNECTION: Final = 100
CONNECTIONS: Final = 3
"""300 Basic logins at once, as the issue has them."""
LOGINS: Final = 100
BEGUN: Final = 200
PATIENCE: Final = Timeouts(connect_ms=60_000, request_ms=60_000)
PATIENCE_S: Final = 60.0
DESCRIBE_CLUSTER: Final = "/kraft.service.Controller/DescribeCluster"
WRONG: Final = "UNAUTHENTICATED"
REFUSED: Final = "SASL_AUTHENTICATION_FAILED"


def _basic(user: Callable[[], str]) -> str:
    return "Basic " + base64.b64encode(f"{user()}:{secrets.token_hex(8)}".encode()).decode()


def _stranger() -> str:
    return f"nobody-{secrets.token_hex(8)}"


def _garbage() -> str:
    return "Basic " + "*" * 4_000


def _token() -> str:
    return f"DelegationToken {secrets.token_hex(11)}:{base64.b64encode(secrets.token_bytes(64)).decode()}"


def _ask(channel: grpc.Channel, credentials: Callable[[], str], count: int, note: Callable[[str], None]) -> None:
    """Makes so many calls at once, and notes how each has ended as soon as that is known."""
    ask = channel.unary_unary(DESCRIBE_CLUSTER)
    made: list[Any] = [
        ask.future(b"", metadata=(("authorization", credentials()),), timeout=PATIENCE_S) for _ in range(count)
    ]
    for each in made:
        error = each.exception()
        note(ANSWERED if error is None else str(error.code().name))


async def call_wrongly(credentials: Callable[[], str], count: int, door: Door, ends: Ends) -> None:
    """So many calls at once on one connection."""
    channel, loop = open_channel(door), asyncio.get_running_loop()

    def note(end: str) -> None:
        loop.call_soon_threadsafe(ends.update, (end,))

    try:
        await asyncio.to_thread(_ask, channel, credentials, count, note)
    finally:
        channel.close()


async def log_in_wrongly(begin: Callable[[], Begin], door: Door, ends: Ends) -> None:
    """One login over Kafka's wire."""
    try:
        connection = await connect(door.host, door.port, begin=begin(), tls=door.stranger, timeouts=PATIENCE)
    except ApiError as refusal:
        ends[refusal.code.name] += 1
    else:
        connection.abort()
        ends[ANSWERED] += 1


async def begin_only(door: Door, ends: Ends) -> None:
    """A SCRAM login of which only the first half comes, until the server ends the connection."""
    reader, writer = await asyncio.open_connection(door.host, door.port, ssl=door.stranger, server_hostname="localhost")
    try:
        first = f"n,,n={VICTIM},r={secrets.token_hex(16)}".encode()
        for request in (SaslHandshakeRequest(mechanism=SCRAM), SaslAuthenticateRequest(auth_bytes=first)):
            writer.write(frame(request))
            (size,) = struct.unpack(">I", await reader.readexactly(4))
            await reader.readexactly(size)
        ends[OPEN] += 1
        await reader.read()
    finally:
        writer.transport.abort()


def _scram(user: Callable[[], str]) -> Begin:
    name = user()
    return lambda: ScramClient(SCRAM_NUMBER, name, secrets.token_hex(8), nonce=partial(secrets.token_hex, 16))


def _plain() -> Begin:
    return lambda: PlainClient(VICTIM, secrets.token_hex(8))


def kinds(logins: int = LOGINS, begun: int = BEGUN, calls: int = PER_CONNECTION) -> Mapping[str, Kind]:
    """All of them: so many logins over Kafka's wire at once, so many of which only the half comes, so many calls of
    each of three connections.
    """
    by_call = {
        "wrong passwords of one user by Basic": partial(_basic, lambda: VICTIM),
        "passwords of nobody by Basic": partial(_basic, _stranger),
        "what is no Basic": _garbage,
        "tokens that there are not": _token,
    }
    by_wire = {
        f"wrong passwords of one user by {SCRAM}": partial(_scram, lambda: VICTIM),
        f"passwords of nobody by {SCRAM}": partial(_scram, _stranger),
        f"wrong passwords of one user by {PLAIN}": _plain,
    }
    found = {
        name: Kind(
            once=partial(call_wrongly, credentials, calls),
            at_once=CONNECTIONS,
            at="controller",
            ends=frozenset({WRONG}),
        )
        for name, credentials in by_call.items()
    }
    found |= {
        name: Kind(once=partial(log_in_wrongly, begin), at_once=logins, at="logins", ends=frozenset({REFUSED}))
        for name, begin in by_wire.items()
    }
    return found | {
        f"half a login by {SCRAM}": Kind(once=begin_only, at_once=begun, at="logins", ends=frozenset({OPEN}))
    }
