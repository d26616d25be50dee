"""The listener of the page: accepts connections, as many as there is room for, and answers the requests of each."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from quorate.network.connections import LISTEN_BACKLOG, NO_LIMIT, ConnectionCounts, Room
from quorate.network.tls import TlsError
from quorate.runtime.calls.server import Server
from quorate.runtime.connections.transport import Transport
from quorate.runtime.event_loop.loop import CannotListen
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.config import ConfigError
from quorate.runtime.settings.setting_types import ListenerAddress
from services.observer.page.calls import PageCalls
from services.observer.page.connection import Connection, Gone
from services.observer.page.exchange import Site
from services.observer.page.files import page_files
from services.observer.page.http import HttpError

__all__ = ["CONNECTIONS_MAX", "CONNECTIONS_PER_HOST_MAX", "LISTENER", "PageListener"]

log = logger(__name__)

LISTENER: Final = "observer.page.listener"
CONNECTIONS_MAX: Final = 256
CONNECTIONS_PER_HOST_MAX: Final = 64
"""Connections at once, in all and from one address: a browser opens six. Beyond them the oldest goes of those that have
been answered no call, or else the new one."""

TlsOf = Callable[[], ssl.SSLContext]


class PageListener:
    """Serves the page, and the calls of `server` for it; `transport` has its certificate, None for clear text.

    Raises ConfigError for an unfit certificate.
    """

    def __init__(self, at: ListenerAddress, server: Server, transport: Transport | None) -> None:
        self._at = at
        self._tls = None if transport is None else _Contexts(transport)
        self._site = Site(PageCalls(server), page_files(), at.endpoint.host)
        self._counts = ConnectionCounts(limit=CONNECTIONS_MAX, limit_per_ip=CONNECTIONS_PER_HOST_MAX)
        self._room = Room(f"are open at {LISTENER}", LISTENER, NO_LIMIT)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[object]] = set()
        self._open: set[Connection] = set()
        self.port = 0

    async def open(self) -> None:
        """Binds the address, and begins to answer. Raises CannotListen."""
        host, port = self._at.endpoint.host or None, self._at.endpoint.port
        try:
            self._server = await asyncio.start_server(self._accepted, host, port, backlog=LISTEN_BACKLOG)
        except OSError as error:
            why = f"{LISTENER} = {self._at}: {error.strerror or error}"
            raise CannotListen(why) from None
        self.port = self._server.sockets[0].getsockname()[1]
        scheme = "http" if self._tls is None else "https"
        log.info("serves the page", at=f"{scheme}://{self._at.endpoint.host or 'localhost'}:{self.port}/")

    async def close(self) -> None:
        """Closes the listener and ends all connections at once: a browser asks again by itself."""
        if self._server is not None:
            self._server.close()
        for each in self._serving:
            each.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio has made a task for the connection"
        self._serving.add(task)
        try:
            connection = Connection(reader, writer, None if self._tls is None else self._tls())
        except TypeError:  # it has gone already, so it has no address
            writer.close()
        else:
            await self._counted(connection)
        finally:
            self._serving.discard(task)

    async def _counted(self, connection: Connection) -> None:
        full = self._counts.add(connection, self._room)
        if full is None:
            self._open.add(connection)
            connection.left = partial(self._remove, connection)
        if full is not None:
            log.info("refused a connection at the page", host=connection.host, reason=full)
            connection.leave(full)
            return
        try:
            await self._serve(connection)
        except Gone:
            pass
        except TlsError as problem:
            log.info("ended a connection at the page", host=connection.host, reason=str(problem))
        except asyncio.CancelledError:
            connection.leave("the listener is closed")
        finally:
            self._remove(connection)
            connection.close()

    def _know(self, connection: Connection) -> None:
        if connection in self._open:
            self._counts.know(connection, self._room)

    def _remove(self, connection: Connection) -> None:
        if connection in self._open:
            self._open.remove(connection)
            self._counts.remove(connection, self._room)

    async def _serve(self, connection: Connection) -> None:
        """Answers the requests of a connection, one after the other. Raises Gone and TlsError."""
        let_in = partial(self._know, connection)
        try:
            while connection.http.goes_on and (request := await connection.request()) is not None:
                await self._site.answer(connection, request, let_in)
        except HttpError as error:
            log.debug("refused a request at the page", host=connection.host, reason=str(error))
            await connection.send(connection.http.refusal(error))


class _Contexts:
    """The TLS context of the next connection: new files once they fit, else those before."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        try:
            self._taken = transport.listener_context()
        except ValueError as problem:
            raise ConfigError([str(problem)]) from None

    def __call__(self) -> ssl.SSLContext:
        try:
            self._taken = self._transport.listener_context()
        except ValueError as problem:
            log.warning("the page keeps the certificate that it has", reason=str(problem))
        return self._taken
