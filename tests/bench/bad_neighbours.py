"""What one bad caller does, by kind, and those that send to a listener for Kafka's wire.

A kind counts how each of its attempts has ended, so that one which does nothing is seen. `bad_neighbours_grpc`,
`bad_neighbours_http2`, `bad_neighbours_logins` and `bad_neighbours_broker` have the kinds for other doors.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from kraft import Message
from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from kraft.api.alter_configs import AlterConfigsRequest
from kraft.api.api_versions import ApiVersionsRequest
from kraft.api.create_acls import CreateAclsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.describe_configs import DescribeConfigsRequest
from kraft.api.sasl_handshake import SaslHandshakeRequest
from quorate.protocol.apis import api_of
from quorate.protocol.messages import encode_request
from tests.fuzz.attacks import SLOW_S, Door, giant, rapid_reset, storm

NAME_MAX: Final = 32_000
EMPTY_ENTRIES: Final = 1_400_000
NAMES: Final = 20_000
PIPELINED: Final = 8_000
"""ApiVersions in one write: some 256 KiB."""
CONNECTIONS: Final = 30
KAFKAS: Final = ("gateway", "logins", "broker's wire", "broker's logins")
"""The doors at which Kafka's wire is spoken."""
PAUSE_S: Final = 0.01
GONE: Final = (OSError, ssl.SSLError, EOFError, TimeoutError)
HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a ClientHello of TLS that has 512 bytes."""

Ends = Counter[str]
"""How often attempts have ended how, by a word for it; a kind adds to it while it goes on."""
BAD: Final = "mallory"
"""A certificate without any right."""
USER: Final = "user"
"""A certificate with rights on its own topics."""
BROKER_ID: Final = 100
"""What `tests.runtime.test_decoded_cost.filled` gives as node id, so that its requests speak for the broker."""
BROKER: Final = f"broker-{BROKER_ID}"
"""The certificate of a broker, by gRPC and with CLUSTER_ACTION."""
DONE, OPEN, CUT = "done", "open", "cut off"
"""All that there was to do was done; a connection is open and stays so; the server has ended one."""


@dataclass(frozen=True, kw_only=True)
class Doors:
    """The ports of a side by name of a door, and the directory of everybody's certificates."""

    host: str
    ports: Mapping[str, int]
    directory: Path
    truststore: Path

    def door(self, kind: Kind) -> Door:
        """That of a kind, with the certificate that it shows."""
        return Door(
            host=self.host,
            port=self.ports[kind.at],
            keystore=self.directory / f"{kind.who}.pem",
            truststore=self.truststore,
            path=kind.path,
            speaks_kafka=kind.at in KAFKAS,
        )


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of bad caller.

    `once` is one attempt, which may go on until it is cancelled; `at_once` of it are made at the same time. `ends` has
    every way in which an attempt may end, and only if all of them were seen, the kind has done what it is for.
    """

    once: Callable[[Door, Ends], Awaitable[None]]
    at_once: int = 1
    prepare: Callable[[], object] = bool
    """Makes what it sends, so that it begins at once."""
    at: str = "gateway"
    """The door it comes to."""
    who: str = BAD
    """The certificate it shows."""
    path: str = ""
    """The method it calls, if it writes HTTP/2 itself."""
    ends: frozenset[str] = frozenset({DONE})


def frame(request: Message, *, version: int | None = None) -> bytes:
    """A request as it goes over the wire, in the latest version."""
    api = api_of(type(request))
    body = encode_request(
        api, request, version=api.versions[-1] if version is None else version, correlation_id=1, client_id="bad"
    )
    return struct.pack(">I", len(body)) + body


def _empty_quotas() -> bytes:
    """By hand, as each entry is the same three bytes: no entity, no operation, no tagged field."""
    whole = frame(AlterClientQuotasRequest())
    assert whole[-3:] == b"\x01\x00\x00", whole  # no entries, validate_only, no tagged fields
    body = whole[4:-3] + _varint(EMPTY_ENTRIES + 1) + b"\x01\x01\x00" * EMPTY_ENTRIES + whole[-2:]
    return struct.pack(">I", len(body)) + body


def _long_topic() -> bytes:
    topic = CreateTopicsRequest.CreatableTopic("token-" * (NAME_MAX // 6), 1, 1)
    return frame(CreateTopicsRequest((topic,) * 8, 10_000))


def _many_topics() -> bytes:
    topic = CreateTopicsRequest.CreatableTopic
    return frame(CreateTopicsRequest(tuple(topic(f"bad-{number}", 1, 1) for number in range(NAMES)), 10_000))


def _many_deletions() -> bytes:
    state = DeleteTopicsRequest.DeleteTopicState
    return frame(DeleteTopicsRequest(topics=tuple(state(f"bad-{number}") for number in range(NAMES))))


def _many_configs() -> bytes:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return frame(DescribeConfigsRequest(tuple(resource(2, f"bad-{number}", None) for number in range(NAMES))))


def _many_alterations() -> bytes:
    resource = AlterConfigsRequest.AlterConfigsResource
    return frame(AlterConfigsRequest(tuple(resource(2, f"bad-{number}", ()) for number in range(NAMES))))


def _many_acls() -> bytes:
    entry = CreateAclsRequest.AclCreation
    return frame(CreateAclsRequest(tuple(entry(2, f"bad-{number}", 3, "User:x", "*", 3, 3) for number in range(NAMES))))


def _unknown_tags() -> bytes:
    """An ApiVersions in version 3 whose body ends with very many tagged fields that nobody knows."""
    count = 60_000
    api = api_of(ApiVersionsRequest)
    body = encode_request(api, ApiVersionsRequest("bad", "1"), version=3, correlation_id=1, client_id="bad")
    tags = b"".join(_varint(tag) + b"\x00" for tag in range(1_000, 1_000 + count))
    whole = body[:-1] + _varint(count) + tags
    return struct.pack(">I", len(whole)) + whole


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


async def _connected(door: Door) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        door.host, door.port, ssl=door.member, server_hostname="localhost", ssl_handshake_timeout=30
    )


async def ask(door: Door, sent: bytes) -> None:
    """Sends these bytes on a connection of its own, and reads until there was one answer, or the end."""
    reader, writer = await _connected(door)
    try:
        writer.write(sent)
        await writer.drain()
        (size,) = struct.unpack(">I", await reader.readexactly(4))
        await reader.readexactly(size)
    finally:
        writer.transport.abort()


async def pipeline(door: Door, ends: Ends, *, reads: bool) -> None:
    """Sends very many small requests at once; reads what comes, or nothing of it."""
    reader, writer = await _connected(door)
    try:
        writer.write(frame(ApiVersionsRequest("bad", "1"), version=3) * PIPELINED)
        async with asyncio.timeout(10):
            if reads:
                (size,) = struct.unpack(">I", await reader.readexactly(4))
                await reader.readexactly(size)
                ends[DONE] += 1  # and there are more
                await writer.drain()
                await reader.readexactly(1 << 20)
            else:
                ends[OPEN] += 1
                await asyncio.sleep(10)
    finally:
        writer.transport.abort()


async def silent(door: Door, ends: Ends) -> None:
    """A connection that says nothing, until the server ends it."""
    reader, writer = await asyncio.open_connection(door.host, door.port)
    try:
        ends[OPEN] += 1
        await reader.read()
    finally:
        writer.transport.abort()


async def slow_handshake(door: Door, ends: Ends) -> None:
    """The beginning of a ClientHello, and then a byte of it at a time, until the server ends the connection."""
    reader, writer = await asyncio.open_connection(door.host, door.port)
    try:
        writer.write(HELLO)
        ends[OPEN] += 1
        for _ in range(500):
            writer.write(b"\x00")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SLOW_S):
                    if not await reader.read(1):
                        return
    finally:
        writer.transport.abort()


def asking(make: Callable[[], bytes], end: str = DONE) -> Kind:
    """The kind that sends the bytes that `make` makes, and waits for an answer."""
    made = cache(make)

    async def once(door: Door, ends: Ends) -> None:
        await ask(door, made())
        ends[DONE] += 1

    return Kind(once=once, prepare=made, ends=frozenset({end}))


def doing(once: Callable[[Door], Awaitable[None]], **more: Any) -> Kind:
    """The kind of an attack that ends by itself."""

    async def done(door: Door, ends: Ends) -> None:
        await once(door)
        ends[DONE] += 1

    return Kind(once=done, **more)


WIRE: Final[Mapping[str, Kind]] = {
    "a mechanism of 32,000 characters": asking(
        lambda: frame(SaslHandshakeRequest(mechanism="token-" * (NAME_MAX // 6)))
    ),
    "topics with names of 32,000 characters": asking(_long_topic),
    "1.4 million empty quotas": asking(_empty_quotas, CUT),  # as a gateway takes 100,000 items
    "20,000 topics to create": asking(_many_topics),
    "20,000 topics to delete": asking(_many_deletions),
    "20,000 configs to describe": asking(_many_configs),
    "20,000 configs to alter": asking(_many_alterations),
    "20,000 ACLs to create": asking(_many_acls),
    "60,000 unknown tagged fields": asking(_unknown_tags),
    "8,000 pipelined requests": Kind(once=partial(pipeline, reads=True), at_once=CONNECTIONS),
    "answers that are not read": Kind(once=partial(pipeline, reads=False), at_once=CONNECTIONS, ends=frozenset({OPEN})),
    "connection storm": doing(storm, at_once=50),
    "slow handshakes": Kind(once=slow_handshake, at_once=500, ends=frozenset({OPEN})),
    "connections that say nothing": Kind(once=silent, at_once=500, ends=frozenset({OPEN})),
    "announced giants": doing(giant, at_once=50),
    "requests, and then gone": doing(rapid_reset, at_once=50),
}
"""Each is a caller with a certificate and without any right."""


async def go_on(doors: Doors, kind: Kind, ends: Ends) -> None:
    """Attempts of one kind, again and again, until it is cancelled."""
    door = doors.door(kind)

    async def again() -> None:
        while True:
            try:
                await kind.once(door, ends)
            except GONE:
                ends[CUT] += 1
            await asyncio.sleep(PAUSE_S)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(kind.at_once):
            tasks.create_task(again())
