"""A server of HTTP/2, written by hand, that refuses streams as one does that has too many of them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from google.protobuf.message import Message

from tests.fuzz.attacks import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    http2_frame,
    literal,
)

REFUSED: Final = struct.pack(">I", 7)
"""REFUSED_STREAM (RFC 9113, 7)."""
ACK: Final = 1
STATUS_200: Final = b"\x88"
"""`:status: 200` of HPACK's static table (RFC 7541, A)."""


class RefusingServer:
    """Refuses the `first` streams, all if None, and answers each later one with `body`."""

    def __init__(self, first: int | None, body: Message) -> None:
        self.refused = 0
        self.answered = 0
        self.address = ""
        self._first = first
        self._body = body.SerializeToString()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speaks to one connection until it is closed."""
        try:
            await reader.readexactly(len(PREFACE))
            writer.write(http2_frame(SETTINGS, 0, 0))
            while True:
                length, kind, flags, stream = struct.unpack(">IBBI", b"\0" + await reader.readexactly(9))
                await reader.readexactly(length)
                if kind == SETTINGS and not flags & ACK:
                    writer.write(http2_frame(SETTINGS, ACK, 0))
                if kind == HEADERS:
                    writer.write(self._answer(stream))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, stream: int) -> bytes:
        if self._first is None or self.refused < self._first:
            self.refused += 1
            return http2_frame(RST_STREAM, 0, stream, REFUSED)
        self.answered += 1
        message = struct.pack(">BI", 0, len(self._body)) + self._body
        begins = STATUS_200 + literal(b"content-type", b"application/grpc")
        return (
            http2_frame(HEADERS, END_HEADERS, stream, begins)
            + http2_frame(DATA, 0, stream, message)
            + http2_frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b"grpc-status", b"0"))
        )


@asynccontextmanager
async def refusing_streams(*, first: int | None, body: Message) -> AsyncIterator[RefusingServer]:
    """One on a free port."""
    made = RefusingServer(first, body)
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.address = "{}:{}".format(*listening.sockets[0].getsockname())
    try:
        yield made
    finally:
        listening.close()
