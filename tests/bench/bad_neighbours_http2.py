"""What a bad caller does with HTTP/2 itself: it reads slowly or not, writes slowly, opens very many streams, says half.

Frames are written by hand (RFC 9113), as gRPC's own client would not do so. These callers come from an address of their
own, since the limits of an address are counted by streams, and behind one NAT would be the good callers', too.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from functools import partial
from typing import Final

from quorate.runtime.calls.wrapped_server import ServerLimits
from tests.bench.bad_neighbours import OPEN, Ends, Kind, doing, silent, slow_handshake
from tests.fuzz.attacks import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    SLOW_S,
    Door,
    Streams,
    giant,
    http2_frame,
    pings,
    rapid_reset,
    request_headers,
    storm,
)

FROM: Final = "127.0.0.2"
GOAWAY: Final = 7
ACK: Final = 1
NO_WINDOW: Final = struct.pack(">HI", 4, 0)
"""SETTINGS_INITIAL_WINDOW_SIZE of 0: the server may send no message on a new stream."""
EMPTY: Final = bytes(5)
"""A gRPC message without a field."""
ANNOUNCED: Final = struct.pack(">BI", 0, 4 << 20)
"""The beginning of a gRPC message of 4 MiB."""
STREAMS: Final = ServerLimits().streams_per_connection_max
AT_ONCE: Final = 50
MANY: Final = 500
BEGUN, REFUSED, RESET, SENT_AWAY = "answer begun", "stream refused", "stream reset", "sent away"
REASONS: Final = "/kraft.service.Controller/ListErrorReasons"
ADMIN_STREAM: Final = "/kraft.service.Controller/AdminStream"
CREATE_TOPICS: Final = "/kraft.service.Controller/CreateTopics"


async def _connect(door: Door) -> Streams:
    return await asyncio.open_connection(
        door.host,
        door.port,
        ssl=door.member,
        server_hostname="localhost",
        ssl_handshake_timeout=30,
        local_addr=(FROM, 0),
    )


async def _listen(streams: Streams, ends: Ends) -> None:
    """Reads frames until the server ends the connection, answers its PINGs, and counts what becomes of the streams."""
    reader, writer = streams
    while True:
        length, kind, flags, _ = struct.unpack(">IBBI", b"\0" + await reader.readexactly(9))
        payload = await reader.readexactly(length)
        if kind == PING and flags & ACK:
            ends[OPEN] += 1
        elif kind == PING:
            writer.write(http2_frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            ends[REFUSED if flags & END_STREAM else BEGUN] += 1
        elif kind in (RST_STREAM, GOAWAY):
            ends[RESET if kind == RST_STREAM else SENT_AWAY] += 1


async def hold(settings: bytes, body: bytes, flags: int, door: Door, ends: Ends) -> None:
    """Opens as many streams as a connection may have, each with these bytes, and holds them as long as the server does.

    The PING after them is answered once the server has seen them all.
    """
    streams = await _connect(door)
    headers = request_headers(door.path)
    try:
        out = [PREFACE, http2_frame(SETTINGS, 0, 0, settings)]
        for stream in range(1, 2 * STREAMS, 2):
            out.append(http2_frame(HEADERS, END_HEADERS, stream, headers))
            if body:
                out.append(http2_frame(DATA, flags, stream, body))
        streams[1].write(b"".join([*out, http2_frame(PING, 0, 0, bytes(8))]))
        await _listen(streams, ends)
    finally:
        streams[1].transport.abort()


async def write_slowly(door: Door, ends: Ends) -> None:
    """Announces a message of 4 MiB on each stream, and sends it by single bytes."""
    reader, writer = await _connect(door)
    headers = request_headers(door.path)
    try:
        writer.write(PREFACE + http2_frame(SETTINGS, 0, 0))
        for stream in range(1, 2 * STREAMS, 2):
            writer.write(http2_frame(HEADERS, END_HEADERS, stream, headers) + http2_frame(DATA, 0, stream, ANNOUNCED))
        writer.write(http2_frame(PING, 0, 0, bytes(8)))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_listen((reader, writer), ends))
            while True:
                await asyncio.sleep(SLOW_S)
                writer.write(b"".join(http2_frame(DATA, 0, stream, b"\0") for stream in range(1, 2 * STREAMS, 2)))
                await writer.drain()
    except* (OSError, EOFError):
        pass
    finally:
        writer.transport.abort()


async def read_nothing(door: Door, ends: Ends) -> None:
    """Asks on as many streams as may be open, and again as soon as they are over, and never reads its socket."""
    reader, writer = await _connect(door)
    headers = request_headers(door.path)
    try:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of a socket has it
        writer.write(PREFACE + http2_frame(SETTINGS, 0, 0))
        for stream in range(1, 2 * STREAMS, 2):
            writer.write(
                http2_frame(HEADERS, END_HEADERS, stream, headers) + http2_frame(DATA, END_STREAM, stream, EMPTY)
            )
        await writer.drain()
        ends[OPEN] += 1
        await asyncio.Event().wait()
    finally:
        writer.transport.abort()
        del reader


async def say_half(begin: bytes, door: Door, ends: Ends) -> None:
    """A whole handshake of TLS, and then these bytes, until the server ends the connection."""
    reader, writer = await _connect(door)
    try:
        writer.write(begin)
        ends[OPEN] += 1
        await reader.read()
        while await reader.read(1 << 16):
            pass
    finally:
        writer.transport.abort()


def _held(settings: bytes, body: bytes, flags: int, path: str, *ends: str, at_once: int = AT_ONCE) -> Kind:
    return Kind(
        once=partial(hold, settings, body, flags), at_once=at_once, at="controller", path=path, ends=frozenset(ends)
    )


def kinds(at_once: int = AT_ONCE, many: int = MANY) -> Mapping[str, Kind]:
    """All of them, at a controller, from who has no right.

    So many connections at once, or `many` where they say less.
    """
    at = {"at": "controller", "path": CREATE_TOPICS}
    return {
        "answers without a window": _held(NO_WINDOW, EMPTY, END_STREAM, REASONS, OPEN, BEGUN, at_once=at_once),
        "streams that say nothing": _held(b"", b"", 0, ADMIN_STREAM, OPEN, REFUSED, at_once=at_once),
        "unary calls that never end": _held(b"", ANNOUNCED, 0, CREATE_TOPICS, OPEN, at_once=at_once),
        "requests a byte at a time": Kind(once=write_slowly, at_once=at_once, ends=frozenset({OPEN}), **at),
        "sockets that are not read": Kind(
            once=read_nothing, at_once=at_once, at="controller", path=REASONS, ends=frozenset({OPEN})
        ),
        "TLS, and then silence": Kind(once=partial(say_half, b""), at_once=many, ends=frozenset({OPEN}), **at),
        "half a preface": Kind(once=partial(say_half, PREFACE[:9]), at_once=many, ends=frozenset({OPEN}), **at),
        "half handshakes by gRPC": Kind(once=slow_handshake, at_once=many, ends=frozenset({OPEN}), **at),
        "connections that say nothing by gRPC": Kind(once=silent, at_once=many, ends=frozenset({OPEN}), **at),
        "connection storm by gRPC": doing(storm, at_once=at_once, **at),
        "rapid resets": doing(rapid_reset, at_once=at_once, **at),
        "announced giants by gRPC": doing(giant, at_once=at_once, **at),
        "pings": doing(pings, at_once=at_once, **at),
    }
