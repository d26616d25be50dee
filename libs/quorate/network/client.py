"""A client's connection to one node over a socket: `ask` sends a request and waits for its answer."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Final, Self, TypeVar, cast

from kraft import Message
from kraft.api.api_versions import ApiVersionsResponse
from quorate.errors import ApiError, ErrorCode
from quorate.protocol import ClientConnection, ClientSettings, Close, ConnectionReady, Response
from quorate.protocol.sasl.client import Begin

__all__ = ["DEFAULT_SETTINGS", "DEFAULT_TIMEOUTS", "Connection", "Disconnected", "Timeouts", "connect"]

M = TypeVar("M", bound=Message)


class Disconnected(ConnectionError):
    """The connection has ended; the text says why. The request may or may not have been carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long a client waits, under Kafka's names."""

    connect_ms: int = 10_000
    """Kafka's `socket.connection.setup.timeout.ms`; here the login is part of it."""
    request_ms: int = 30_000
    """Kafka's `request.timeout.ms`: an answer that takes longer ends the connection, as in NetworkClient."""


DEFAULT_SETTINGS: Final = ClientSettings()
DEFAULT_TIMEOUTS: Final = Timeouts()


async def connect(
    host: str,
    port: int,
    *,
    settings: ClientSettings = DEFAULT_SETTINGS,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
    begin: Begin | None = None,
    tls: ssl.SSLContext | None = None,
    api_versions_version: int | None = None,
) -> Connection:
    """Connects, learns the node's versions, and logs in if `begin` is given.

    Raises OSError (Disconnected, TimeoutError and ssl.SSLError among it), or ApiError with the node's refusal. When to
    try again is the caller's to say.
    """
    loop = asyncio.get_running_loop()
    state = ClientConnection(settings, begin=begin, api_versions_version=api_versions_version)
    connection = Connection(state, timeouts)
    try:
        async with asyncio.timeout(timeouts.connect_ms / 1000) as limit:
            try:
                await loop.create_connection(lambda: connection, host, port, ssl=tls)
            except OSError:  # ssl.SSLCertVerificationError is a ValueError, too
                raise
            except (ValueError, OverflowError) as problem:  # a host without a form in DNS (IDNA), or no port
                raise OSError(f"{host!r}, port {port}, is no address: {problem}") from None
            try:
                await connection.wait_ready()
            except BaseException:
                connection.abort()
                raise
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(
            f"no connection within {timeouts.connect_ms} ms (socket.connection.setup.timeout.ms)"
        ) from None
    return connection


class Connection(asyncio.Protocol):
    """A connection to a node. Tasks may `ask` at once; beyond `max.in.flight.requests.per.connection` they wait."""

    def __init__(self, state: ClientConnection, timeouts: Timeouts) -> None:
        self._state = state
        self._timeouts = timeouts
        self._changed = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._transport: asyncio.Transport | None = None
        self._failure: Exception | None = None
        self._ended = asyncio.Event()
        self._renewal: asyncio.TimerHandle | None = None
        self.silent_since: float | None = None
        """The loop's time of the first request after the last answer, also one that nobody waits for; None after it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def node(self) -> ApiVersionsResponse:
        """The APIs and versions that the node supports."""
        assert self._state.node is not None, "not ready"
        return self._state.node

    @property
    def is_open(self) -> bool:
        """Whether a request can still be sent."""
        return self._failure is None

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for an answer."""
        return not self._waiting

    def version_of(self, request: type[Message]) -> int:
        """Returns the version that `ask` would choose. Raises ApiError(UNSUPPORTED_VERSION)."""
        return self._state.version_of(request)

    async def wait_ready(self) -> None:
        """Waits until a request may be sent: the versions are known, the login is complete, and not too many are open.

        It has no time limit. Raises why the connection has ended: Disconnected, or ApiError with the node's refusal.
        """
        while not self._state.can_send:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure

    async def ask(self, request: Message, *, version: int | None = None) -> Message:
        """Returns the answer to a request, sent in the highest version of both sides, or in `version`.

        An error code in the answer is not raised. Raises ApiError(UNSUPPORTED_VERSION); ApiError(REQUEST_TIMED_OUT)
        when `request_ms` are over, and the connection has ended then; else why it has ended, as `wait_ready`.
        """
        if self.silent_since is None:
            self.silent_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._timeouts.request_ms / 1000):
                await self.wait_ready()
                return await self._sent(request, version)
        except TimeoutError:
            text = f"{type(request).__name__}: no answer within {self._timeouts.request_ms} ms (request.timeout.ms)"
            self._fail(Disconnected(text))
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, text) from None

    async def ask_for(self, answer: type[M], request: Message, *, version: int | None = None) -> M:
        """Does what `ask` does, for an answer that is known to be of class `answer`."""
        found = await self.ask(request, version=version)
        assert isinstance(found, answer), (type(found), answer)
        return found

    async def close(self) -> None:
        """Ends the connection, and waits until it is closed; requests that are open raise Disconnected."""
        self._fail(Disconnected("closed by this client"))
        await self._ended.wait()

    def abort(self) -> None:
        """Ends the connection, as `close`, but does not wait until it is closed."""
        self._fail(Disconnected("closed by this client"))

    async def _sent(self, request: Message, version: int | None) -> Message:
        number = self._state.send(request, version=version)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._flush()
            return await future
        finally:
            # Of a cancelled request the answer still comes, and is in flight until then.
            self._waiting.pop(number, None)

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses of it
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(Disconnected(f"the node closed the connection{f': {exc}' if exc else ''}"))
        self._ended.set()

    def data_received(self, data: bytes) -> None:
        self._state.receive_data(data)
        try:
            while (event := self._state.next_event()) is not None:
                self._take(event)
                self._changed.set()
        except ApiError as refusal:
            self._fail(refusal)
        self._flush()

    def eof_received(self) -> bool:
        return False

    # -- events

    def _take(self, event: ConnectionReady | Response | Close) -> None:
        match event:
            case ConnectionReady():
                if (after_ms := self._state.renew_after_ms) is not None:
                    self._renewal = asyncio.get_running_loop().call_later(after_ms / 1000, self._renew)
            case Response():
                self.silent_since = None
                future = self._waiting.get(event.correlation_id)
                if future is not None and not future.done():
                    future.set_result(event.message)
            case Close():
                self._fail(Disconnected(f"the node's bytes break the protocol: {event.reason}"))

    def _renew(self) -> None:
        """Logs in again before the session ends; requests wait for that. KIP-368."""
        if self._failure is None:
            self._state.renew()
            self._flush()

    def _flush(self) -> None:
        if self._transport is not None and not self._transport.is_closing() and (data := self._state.data_to_send()):
            self._transport.write(data)

    def _fail(self, failure: Exception) -> None:
        """Ends the connection for this reason; the first one counts."""
        if self._failure is None:
            self._failure = failure
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(failure)
            self._changed.set()
        if self._renewal is not None:
            self._renewal.cancel()
        if self._transport is not None:
            self._transport.abort()
        else:
            self._ended.set()
