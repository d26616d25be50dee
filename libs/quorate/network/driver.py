"""Drives one connection of a client that speaks Kafka's protocol: socket events in, answers out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Final, Protocol, cast

from quorate.errors import Corrupt
from quorate.network.listening import ConnectedClient, Listening, Unanswerable
from quorate.network.tls import TlsError, TlsServer
from quorate.nouns import ANONYMOUS
from quorate.protocol import Close, Evaluate, LargeRequest, ProtocolError, Request, ServerConnection
from quorate.protocol.sasl.mechanism import Answered, SaslError
from quorate.wire.items import has_many_items

WRITE_BUFFER_BYTES: Final = 64 * 1024
"""Beyond so many bytes that a client has not taken, it is not read from until it takes them."""


class Port(Protocol):
    """The port at which a client has come: it counts its connections, and has their work done."""

    listening: Listening
    read_buffer: bytearray
    """Into which each connection is read; what it has is taken at once."""

    def add(self, driver: Driver) -> str | None:
        """Counts a connection. Returns why it is refused, or None."""

    def know(self, driver: Driver) -> None:
        """Notes that a client has logged in."""

    def remove(self, driver: Driver) -> None:
        """Counts a connection no more, if it is counted."""

    def begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Returns a task that does the work beside the connection; it ends with the port at the latest."""


class Driver(asyncio.BufferedProtocol):
    """Drives one client's connection: takes asyncio's socket events, has requests answered, and sends the answers."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._listening = port.listening
        self._now_ms = self._listening.now_ms
        self._connection = ServerConnection(
            self._listening.settings,
            served=self._listening.served,
            describe_versions=self._listening.describe_versions,
            mechanisms=self._listening.mechanisms,
            now_ms=self._now_ms(),
            wall_ms=self._listening.wall_ms,
        )
        self._tls = TlsServer(self._listening.tls()) if self._listening.tls is not None else None
        self.answering: dict[asyncio.Future[None], str] = {}  # with the API's name
        self._transport: asyncio.Transport | None = None
        self._may_write = True
        self._reads = True
        self._has_turn = False
        self._idle: asyncio.TimerHandle | None = None
        self._is_known = False
        self.host = ""
        self._closing = False
        software, is_tls, name = self._connection.software, self._tls is not None, self._listening.name
        self.client = ConnectedClient(host="", port=0, software=software, is_tls=is_tls, listener=name)

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.client = replace(self.client, host=self.host, port=port)
        if refusal := self._port.add(self):
            self._end(Close(reason=refusal))
        else:
            self._watch_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle is not None:
            self._idle.cancel()
        for task in self.answering:
            task.cancel()
        self._port.remove(self)
        self._transport = self._tls = None
        self._connection.forget()
        self._note_held()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._port.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._closing:
            self._receive(memoryview(self._port.read_buffer)[:nbytes])

    def _receive(self, data: memoryview) -> None:
        try:
            plain = data if self._tls is None else self._decrypted(self._tls, data)
        except (TlsError, Corrupt, ValueError) as problem:
            self._end(Close(reason=str(problem)))
            return
        self._connection.receive_data(plain, self._now_ms())
        if not self._has_turn:
            self._take_turn()
        if self._tls is not None and self._tls.has_ended:
            self._finish()

    def eof_received(self) -> bool:
        return False  # as Kafka: a client that has ended its side is gone

    def pause_writing(self) -> None:
        self._may_write = False
        self._read(False)

    def resume_writing(self) -> None:
        self._may_write = True
        self._advance()

    # -- between socket and connection

    def abort(self) -> None:
        """Ends the connection at once; what was not sent is lost."""
        if self._transport is not None:
            self._transport.abort()

    def leave(self, reason: str) -> None:
        """Ends the connection at once, reports why, and has the port count it no more: to make room."""
        self._end(Close(reason=reason))
        self.abort()
        self._port.remove(self)

    def _decrypted(self, tls: TlsServer, data: memoryview) -> bytes:
        """Raises TlsError, or what `certified` raises; then nothing of `data` counts."""
        was_ready = tls.is_ready
        plain = tls.receive_data(data)
        self._write(tls.data_to_send())
        if tls.is_ready and not was_ready and self._listening.certified is not None:
            certificate = tls.certificate
            self._connection.principal = ANONYMOUS if certificate is None else self._listening.certified(certificate)
        return plain

    @property
    def _has_ended(self) -> bool:
        return self._transport is None or self._closing or self._transport.is_closing()

    def _take_turn(self) -> None:
        """Handles one request; more of this connection wait until the others have had theirs, as in Kafka."""
        self._has_turn = False
        if self._has_ended or not self._may_write:
            return
        try:
            event = self._connection.next_event(self._now_ms())
        except Exception as problem:  # a fault of ours, of which other connections know nothing
            event = Close(reason=f"what answers a request by itself failed: {problem!r}")
        match event:
            case Request() as request:
                self._take(request)
            case LargeRequest() as large:
                self._begin(large.api.name, partial(self._answer_large, large))
            case Evaluate() as evaluate:
                self._begin("a login", partial(self._evaluate, evaluate))
            case Close() as close:
                self._end(close)
                return
        self._advance()

    def _advance(self) -> None:
        """Sends what is ready, and has the next request wait for its turn of the loop."""
        if self._has_ended:
            return
        if not self._is_known and self._connection.is_known:
            self._is_known = True
            self._port.know(self)
        self._send()
        has_event = self._connection.has_event
        self._read(self._may_write and not has_event and self._connection.wants_data)
        self._note_held()
        if has_event and self._may_write and not self._has_turn:
            self._has_turn = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _note_held(self) -> None:
        held = 0 if (to := self._transport) is None else self._connection.held_bytes + to.get_write_buffer_size()
        self._listening.buffers.note(self, self.host, held, self.leave)

    def _take(self, request: Request) -> None:
        """Has a request answered without a task, if it can be, else by the handler."""
        taken, take = _Taken(), self._listening.take
        try:
            if take is None or not take(request, self.client, partial(self._reply, request, taken)):
                self._hand_over(request)
            elif not taken.is_answered:
                taken.waiting = asyncio.get_running_loop().create_future()
                self.answering[taken.waiting] = request.api.name
        except Exception as problem:  # as in `_take_turn`
            self._end(Close(reason=f"{request.api.name}: what takes it failed: {problem!r}"))

    def _reply(self, request: Request, taken: _Taken, body: Sequence[bytes] | None) -> None:
        """Answers a request that was taken, or hands it over; once, perhaps in the turn in which it was taken."""
        assert not taken.is_answered, request
        taken.is_answered = True
        handed_over: asyncio.Task[None] | None = None
        if self._takes_answers and body is not None:
            self._connection.respond_encoded(request, body)
        elif self._takes_answers and not self._has_ended:
            handed_over = self._hand_over(request)
        if taken.waiting is None:
            return
        self.answering.pop(taken.waiting, None)
        if handed_over is None:
            taken.end()
        else:  # a stop that waits for the one waits for the other
            handed_over.add_done_callback(taken.end)
        self._advance()

    def _hand_over(self, request: Request) -> asyncio.Task[None]:
        return self._begin(request.api.name, partial(self._answer, request))

    def _begin(self, what: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        task = self._port.begin(self._guarded(what, work))
        self.answering[task] = what
        task.add_done_callback(self.answering.pop)
        return task

    async def _guarded(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Does the work. A fault in it, or in what it begins, ends this connection only."""
        try:
            await work()
        except Unanswerable as why:
            self._end(Close(reason=str(why)))
        except Exception as problem:  # a fault of ours, of which other connections know nothing
            self._end(Close(reason=f"{what}: the handler failed: {problem!r}"))

    @property
    def _takes_answers(self) -> bool:
        return self._connection.closing is None and self._transport is not None

    async def _answer(self, request: Request) -> None:
        if (software := self._connection.software) != self.client.software:
            self.client = replace(self.client, software=software)
        response = await self._listening.handle(request, self.client)
        if not self._takes_answers:
            return
        if response is not None and has_many_items(response):
            await self._listening.in_turns(self._connection.respond_in_steps(request, response))
        else:
            self._connection.respond(request, response)
        self._advance()

    async def _answer_large(self, large: LargeRequest) -> None:
        """Decodes a request in steps, each in a turn of the loop, and answers it."""
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(self._listening.large.turn(self.host))
            try:
                request = await self._listening.in_turns(large.steps)
            except ProtocolError as problem:
                self._end(Close(reason=str(problem)))
                return
            if self._listening.large_may_wait:
                await turn.aclose()
            if request is not None:
                await self._answer(request)
            self._advance()

    async def _evaluate(self, event: Evaluate) -> None:
        """Has another process answer a message of a login, when it is the turn of its address and name."""
        try:
            async with self._listening.logins.turn(self.host, event.exchange.name_in(event.message)):
                outcome: Answered | SaslError = await event.exchange.ask(event.message)
        except SaslError as refusal:
            outcome = refusal
        if self._transport is None or self._closing:
            return
        if (close := self._connection.evaluated(outcome, self._now_ms())) is not None:
            self._end(close)
        else:
            self._advance()

    def _send(self) -> None:
        if not (pieces := self._connection.pieces_to_send(self._now_ms())):
            return
        if self._tls is not None:
            for piece in pieces:
                self._tls.send(piece)
            self._write(self._tls.data_to_send())
        elif self._transport is not None:
            # `writelines` of asyncio's own loop pauses nobody in Python 3.12.0 to 3.12.8 and 3.13.0.
            for piece in pieces:
                self._transport.write(piece)

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def _read(self, wants: bool) -> None:
        """A client that does not take its answers, or has as many requests open as it may, is not read from."""
        if wants == self._reads or self._transport is None or self._has_ended:
            return
        self._reads = wants
        if wants:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _end(self, close: Close) -> None:
        if self._transport is None or self._closing:
            return
        self._listening.report(close.reason, self.client)
        self._closing = True
        if close.delay_ms:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(close.delay_ms / 1000, self._finish)
        else:
            self._finish()

    def _finish(self) -> None:
        """Sends what is left to say, and ends the connection once that is taken."""
        if self._transport is None:
            return
        self._send()
        if self._tls is not None:
            self._tls.close()
            self._write(self._tls.data_to_send())
        self._transport.close()

    def _watch_idle(self) -> None:
        """Ends the connection once nothing has come or gone for `connections.max.idle.ms`."""
        if self._transport is None:
            return
        left_ms = self._connection.idle_deadline() - self._now_ms()
        if left_ms < 0:
            self._listening.report("no traffic for connections.max.idle.ms", self.client)
            self._transport.abort()
            return
        self._idle = asyncio.get_running_loop().call_later(left_ms / 1000 + 0.001, self._watch_idle)


class _Taken:
    """Whether a request that was taken is answered; `waiting` is what a stop waits for, if that is later."""

    __slots__ = ("is_answered", "waiting")

    def __init__(self) -> None:
        self.is_answered = False
        self.waiting: asyncio.Future[None] | None = None

    def end(self, _: object = None) -> None:
        """Has a stop wait no longer."""
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)
