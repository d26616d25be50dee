"""What one bad caller sends to a listener for Kafka's wire: each kind until it is told to end, from its own process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

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
from tests.fuzz.attacks import Door, giant, idle, rapid_reset, slow_handshake, storm

NAME_MAX: Final = 32_000
EMPTY_ENTRIES: Final = 1_400_000
NAMES: Final = 20_000
PIPELINED: Final = 8_000
"""ApiVersions in one write: some 256 KiB."""
CONNECTIONS: Final = 30
GONE: Final = (OSError, ssl.SSLError, EOFError, TimeoutError)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of bad caller: what it does once, how many of it do so at the same time, and what it makes before."""

    once: Callable[[Door], Awaitable[None]]
    at_once: int = 1
    prepare: Callable[[], object] = bool


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


async def pipeline(door: Door, *, reads: bool) -> None:
    """Sends very many small requests at once; reads what comes, or nothing of it."""
    reader, writer = await _connected(door)
    try:
        writer.write(frame(ApiVersionsRequest("bad", "1"), version=3) * PIPELINED)
        async with asyncio.timeout(10):
            if reads:
                await writer.drain()
                await reader.readexactly(1 << 20)
            else:
                await asyncio.sleep(10)
    finally:
        writer.transport.abort()


def _asking(make: Callable[[], bytes]) -> Kind:
    made = cache(make)

    async def once(door: Door) -> None:
        await ask(door, made())

    return Kind(once=once, prepare=made)


KINDS: Final[Mapping[str, Kind]] = {
    "a mechanism of 32,000 characters": _asking(
        lambda: frame(SaslHandshakeRequest(mechanism="token-" * (NAME_MAX // 6)))
    ),
    "topics with names of 32,000 characters": _asking(_long_topic),
    "1.4 million empty quotas": _asking(_empty_quotas),
    "20,000 topics to create": _asking(_many_topics),
    "20,000 topics to delete": _asking(_many_deletions),
    "20,000 configs to describe": _asking(_many_configs),
    "20,000 configs to alter": _asking(_many_alterations),
    "20,000 ACLs to create": _asking(_many_acls),
    "60,000 unknown tagged fields": _asking(_unknown_tags),
    "8,000 pipelined requests": Kind(once=partial(pipeline, reads=True), at_once=CONNECTIONS),
    "answers that are not read": Kind(once=partial(pipeline, reads=False), at_once=CONNECTIONS),
    "connection storm": Kind(once=storm, at_once=50),
    "slow handshakes": Kind(once=slow_handshake, at_once=500),
    "connections that say nothing": Kind(once=idle, at_once=500),
    "announced giants": Kind(once=giant, at_once=50),
    "requests, and then gone": Kind(once=rapid_reset, at_once=50),
}
"""Each is a caller with a certificate and without any right."""


async def _go_on(door: Door, kind: Kind, seconds: float) -> int:
    done = 0

    async def again() -> None:
        nonlocal done
        while True:
            with contextlib.suppress(*GONE):
                await kind.once(door)
                done += 1
            await asyncio.sleep(0.01)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
            for _ in range(kind.at_once):
                tasks.create_task(again())
    return done


def go_on(door: Door, name: str, seconds: float) -> int:
    """One kind, again and again for so long, in this process; how often it was done to its end."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it says of each connection that it is gone
    return asyncio.run(_go_on(door, KINDS[name], seconds))


def prepare(name: str) -> None:
    """Makes in this process what one kind sends, so that `go_on` begins at once."""
    KINDS[name].prepare()
