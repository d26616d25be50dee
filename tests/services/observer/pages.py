"""A page's listener in this process, with the door of a real gRPC server behind it, and what asks it."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from kraft.service.observer_pb2_grpc import ObserverStub, add_ObserverServicer_to_server
from quorate.runtime.access.entry_guard import EntryGuard
from quorate.runtime.calls.admission import DEFAULT_LIMITS, CallLimits
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.clients.client import open_channel
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.settings.setting_types import Endpoint, ListenerAddress
from quorate.runtime.telemetry.tracing import OFF
from services.observer.examinations import Restartable
from services.observer.page.listener import PageListener
from services.observer.servicer import ObserverService
from services.observer.spans import SpanStore
from tests.services.scripted import LOOPBACK, WITHIN_S, listening

OBSERVER = "kraft.service.Observer"


class Answer(NamedTuple):
    """What a request was answered."""

    status: int
    fields: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


class Served(NamedTuple):
    """The page's port, and a stub of the gRPC listener of the same server, where that speaks in the clear."""

    port: int
    stub: ObserverStub | None
    replica: Replica

    async def call(self, method: str, request: object, **fields: str) -> Answer:
        """One call as the page makes it."""
        of_json = {"Content-Type": "application/json", **fields}
        return await self.ask("POST", f"/{OBSERVER}/{method}", json.dumps(request), of_json)

    async def ask(
        self,
        method: str,
        path: str,
        body: str | None = None,
        fields: Mapping[str, str] | None = None,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> Answer:
        """One request on a connection of its own."""
        return await asyncio.to_thread(_ask, self.port, method, path, body, fields or {}, tls)

    async def raw(self, data: bytes) -> bytes:
        """All that is answered to bytes, after which nothing more is sent."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        writer.write(data)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer


def _ask(
    port: int, method: str, path: str, body: str | None, fields: Mapping[str, str], tls: ssl.SSLContext | None
) -> Answer:
    if tls is None:
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=WITHIN_S)
    else:
        connection = http.client.HTTPSConnection(LOOPBACK, port, timeout=WITHIN_S, context=tls)
    try:
        connection.request(method, path, body, dict(fields))
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


@asynccontextmanager
async def page_of(
    url: str | None = None,
    *,
    guard: EntryGuard | None = None,
    transport: Transport = PLAIN,
    limits: CallLimits = DEFAULT_LIMITS,
    store: SpanStore | None = None,
    replica: Replica | None = None,
    restartable: Restartable | None = None,
) -> AsyncIterator[Served]:
    """A page on a free port, in the clear or by TLS as `transport` is."""
    store = store or SpanStore()
    server = Server(guard=guard, transport=transport, limits=ServerLimits(calls=limits))
    replica = replica or Replica(LogReader(["127.0.0.1:1"], open_channel), SystemClock(), OFF)
    service = ObserverService(replica, store, guard, state_url=url, restartable=restartable)
    server.add(OBSERVER, add_ObserverServicer_to_server, service)
    at = ListenerAddress("PAGE", Endpoint(LOOPBACK, 0))
    page = PageListener(at, server, None if transport.is_plain else transport)
    async with asyncio.timeout(WITHIN_S), listening(server) as address, open_channel(address) as channel:
        await page.open()
        yield Served(page.port, ObserverStub(channel) if transport.is_plain else None, replica)
        await page.close()
    await service.close()
    await store.close()
