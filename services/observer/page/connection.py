"""The bytes of one connection of a browser, by TLS or in the clear; each wait for the other end has a bound."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from quorate.network.tls import TlsServer
from services.observer.page.http import Http, Request

__all__ = ["IDLE_S", "TAKEN_S", "Connection", "Gone"]

READ_BYTES: Final = 64 << 10
BEGUN_S: Final = 10.0
"""How long (s) a request may take to come, from its first byte on, and a TLS handshake."""
IDLE_S: Final = 60.0
"""How long (s) a connection may stay without a request."""
TAKEN_S: Final = 30.0
"""How long (s) the other end may take for what is sent to it."""


class Gone(Exception):
    """The other end has ended the connection, or does not take what is sent."""


class Connection:
    """One connection; `tls` is what it speaks TLS with, None for clear text."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext | None) -> None:
        self._reader = reader
        self._writer = writer
        self.tls = None if tls is None else TlsServer(tls)
        """The TLS of the connection; the handshake is over once a request has come."""
        self.http = Http()
        self.left: Callable[[], None] = lambda: None
        """Is called when the connection makes room for another."""
        writer.transport.set_write_buffer_limits(high=READ_BYTES)
        address = writer.get_extra_info("peername")
        self.host, self.port = str(address[0]), int(address[1])

    def leave(self, _reason: str) -> None:
        """Ends the connection at once, to make room."""
        self.left()
        self._writer.transport.abort()

    async def request(self) -> Request | None:
        """Returns the next request, once it is whole; None if the other end sends no more.

        Raises HttpError, Gone, TlsError. Gone also after 60 s without a request, or 10 s from its first byte on.
        """
        async with _within(IDLE_S if self._is_ready else BEGUN_S):
            found = self._next()
            while found is None and not self.http.has_begun:
                if not await self._receive():
                    return None
                found = self._next()
        async with _within(BEGUN_S):
            while found is None:
                if waited_for := self.http.go_on():
                    await self.send(waited_for)
                if not await self._receive():
                    return None
                found = self._next()
        return found

    async def send(self, data: bytes) -> None:
        """Sends bytes, and waits while the other end is behind with the bytes sent before. Raises Gone."""
        if self.tls is None:
            self._writer.write(data)
        else:
            self.tls.send(data)
            self._writer.write(self.tls.data_to_send())
        await self._drain()

    def close(self) -> None:
        """Ends the connection once what was sent is taken; after some time it is cut."""
        if self.tls is not None:
            self.tls.close()
            if answer := self.tls.data_to_send():
                self._writer.write(answer)
        self._writer.close()
        asyncio.get_running_loop().call_later(TAKEN_S, self._writer.transport.abort)

    @property
    def _is_ready(self) -> bool:
        return self.tls is None or self.tls.is_ready

    def _next(self) -> Request | None:
        try:
            return self.http.request()
        except EOFError:
            raise Gone from None

    async def _receive(self) -> bool:
        """Reads what comes next; returns whether there is more to come."""
        try:
            data = await self._reader.read(READ_BYTES)
        except OSError:
            return False
        if not data:
            return False
        if self.tls is None:
            self.http.receive(data)
            return True
        try:
            if plain := self.tls.receive_data(data):
                self.http.receive(plain)
        finally:
            if answer := self.tls.data_to_send():  # of the handshake, or an alert
                self._writer.write(answer)
        await self._drain()
        return not self.tls.has_ended

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(TAKEN_S):
                await self._writer.drain()
        except (OSError, TimeoutError):
            raise Gone from None
        if self._writer.transport.is_closing():
            raise Gone


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """A block that raises Gone if it takes longer (s)."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Gone from None
