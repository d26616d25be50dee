"""gRPC without a network: the real stubs and servicers on the ends, and between them what delays, holds and breaks.

A call is two streams of bytes. They keep their order, each for itself; what is sent over a cut link waits, as TCP has
it, until the link is back or the call is given up. When a process ends, the other end of its calls hears of it: at
once, or much later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import suppress
from contextvars import Context
from random import Random
from typing import Any, Final, Protocol

import grpc
from grpc import ChannelConnectivity
from grpc.aio import EOF, AioRpcError, Metadata

from quorate.errors import ApiError
from quorate.runtime.requests.statuses import status_code, trailing_metadata
from tests.sim_driver.context import SERVED, CallContext
from tests.sim_driver.garbling import Garbler
from tests.sim_driver.loop import LIFE, Killed, Life, Loop, context_of

RETRANSMIT_MS: Final = 40
RECONNECT_MS: Final = 20
LOOKS_MS: Final = 2
UNAVAILABLE: Final = grpc.StatusCode.UNAVAILABLE

Bytes = Callable[[Any], bytes]
Message = Callable[[bytes], Any]


class Watcher(Protocol):
    """Who looks at what passes."""

    def sent(self, life: Life | None, method: str, request: Any, answer: Any | None) -> None:
        """`request` leaves a process, or the `answer` to it."""

    def called(self, call: Call) -> None:
        """A call leaves a process."""

    def received(self, life: Life, method: str, answer: Any) -> None:
        """A process takes the next answer to its call."""

    def failed(self, life: Life, error: BaseException) -> None:
        """A servicer has raised what is no answer."""

    def fired(self, row: str) -> None:
        """A fault has struck."""


def failure(code: grpc.StatusCode, details: str) -> AioRpcError:
    """The answer to a client."""
    return AioRpcError(code, Metadata(), Metadata(), details=details)


def refusal(error: ApiError, beside: tuple[tuple[str, str | bytes], ...]) -> AioRpcError:
    """What the server's interceptor makes of it, and of what the servicer has said `beside`."""
    trailing = Metadata(*beside, *trailing_metadata(error))
    return AioRpcError(status_code(error.code), Metadata(), trailing, details=error.message)


class Server:
    """What one process serves: the real servicers register themselves here as they do with gRPC's server."""

    def __init__(self, life: Life, host: int) -> None:
        self.life = life
        self.host = host
        self.context: Context = context_of(life)
        self.methods: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """gRPC's older way; the other one is enough."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        self.methods.update({f"/{service}/{name}": handler for name, handler in handlers.items()})


class Network:
    """Who listens where, and how long what takes."""

    def __init__(self, loop: Loop, random: Random, watcher: Watcher, *, delay_ms_max: int) -> None:
        self.loop = loop
        self.random = random
        self.watcher = watcher
        self.servers: dict[str, Server] = {}
        self.cut: set[tuple[int, int]] = set()
        self.half_open_ms = 0
        """How long the other end of a broken call may not hear of it; drawn for each."""
        self.slow_beside_ms = 0
        """How long a message may take within one host, whose processes have to wait for each other; 0 for hardly."""
        self.garbler = Garbler(random, permille=0)
        self.context = context_of(None)
        self._delay_ms_max = delay_ms_max
        self._calls: dict[int, Call] = {}
        self._number = 0

    def listen(self, address: str, server: Server) -> None:
        self.servers[address] = server

    def open_channel(self, address: str, transport: object = None) -> Channel:
        """Takes the place of `quorate.runtime.clients.client.open_channel`."""
        life = LIFE.get()
        assert life is not None, address
        return Channel(self, life, address)

    def delay_ms(self, one: int, other: int) -> int:
        """Whole milliseconds, so that much arrives at one moment."""
        if one == other:
            return (
                self.random.choice((0, 0, 0, 1))
                if self.slow_beside_ms == 0
                else self.random.randrange(self.slow_beside_ms)
            )
        if self.random.randrange(100) == 0:
            self.watcher.fired("S-03")
            return self.random.randrange(20 * self._delay_ms_max + 1)
        return self.random.randrange(self._delay_ms_max + 1)

    def after_ms(self, ms: int, what: Callable[..., object], *args: Any) -> None:
        """Nobody's process does it."""
        self.loop.call_later(ms / 1000, what, *args, context=self.context)

    def enlist(self, call: Call) -> int:
        self._number += 1
        self._calls[self._number] = call
        return self._number

    def strike(self, number: int) -> None:
        self._calls.pop(number, None)

    def lose(self, life: Life) -> None:
        """A process has ended."""
        for call in list(self._calls.values()):
            if life in (call.client, call.server and call.server.life):
                call.break_off(self.random.randrange(self.half_open_ms + 1))

    def reset(self, one: int, other: int) -> int:
        """Every connection between two hosts breaks; the answer is how many calls that were."""
        found = [call for call in self._calls.values() if call.hosts in ((one, other), (other, one))]
        for call in found:
            call.break_off(self.random.randrange(3))
        return len(found)

    def part(self, life: Life, address: str) -> None:
        """Every call of this process to the listener there breaks."""
        for call in list(self._calls.values()):
            if call.client is life and call.server is self.servers.get(address):
                call.break_off(self.random.randrange(3))

    def leave(self, one: int, *, late_ms: int) -> None:
        """The caller of `one` hears that the connection is broken, and `one` itself only so much later."""
        for call in list(self._calls.values()):
            if call.hosts[1] == one != call.hosts[0]:
                call.break_off(late_ms)


class Channel:
    """What a stub is made of."""

    def __init__(self, network: Network, life: Life, address: str) -> None:
        self.network = network
        self.life = life
        self.address = address

        self._state = ChannelConnectivity.IDLE
        self._reached: Life | None = None
        self._streams: dict[str, Call] = {}

    async def close(self) -> None:
        """Nothing is open between calls."""

    def get_state(self, try_to_connect: bool = False) -> ChannelConnectivity:
        """A connection is as good as the process at its other end; one that was refused is tried anew a while later."""
        if self._reached is not None and self._reached.is_over:
            self._state, self._reached = ChannelConnectivity.IDLE, None
        if try_to_connect and self._state is ChannelConnectivity.IDLE:
            self._state = ChannelConnectivity.CONNECTING
            self.network.after_ms(self._way_ms(), self._connect, self.network.servers.get(self.address))
        return self._state

    async def wait_for_state_change(self, last: ChannelConnectivity) -> None:
        while self.get_state() is last:  # noqa: ASYNC110  # there is no other event of a process's end
            await asyncio.sleep(LOOKS_MS / 1000)

    def _way_ms(self) -> int:
        server = self.network.servers.get(self.address)
        return 1 if server is None else 2 * self.network.delay_ms(_host(self.life), server.host)

    def _connect(self, server: Server | None) -> None:
        ways = () if server is None else ((_host(self.life), server.host), (server.host, _host(self.life)))
        if not self.network.cut.isdisjoint(ways):
            self.network.after_ms(RETRANSMIT_MS, self._connect, server)
        elif server is None or server.life.is_over:
            self._state = ChannelConnectivity.TRANSIENT_FAILURE
            self.network.after_ms(RECONNECT_MS, self._forget_failure)
        else:
            self._state, self._reached = ChannelConnectivity.READY, server.life

    def _forget_failure(self) -> None:
        self._state = ChannelConnectivity.IDLE

    def unary_unary(
        self, path: str, request_serializer: Bytes, response_deserializer: Message, **_: object
    ) -> Callable[..., AnsweredOnce]:
        def invoke(request: Any, timeout: float | None = None, metadata: Any = None, **_: object) -> AnsweredOnce:
            call = AnsweredOnce(
                self, path, request_serializer, response_deserializer, timeout_s=timeout, metadata=metadata
            )
            call.begin(request)
            return call

        return invoke

    def stream_unary(
        self, path: str, request_serializer: Bytes, response_deserializer: Message, **_: object
    ) -> Callable[..., Any]:
        def invoke(requests: AsyncIterator[Any] | None = None, timeout: float | None = None) -> Any:
            call = AnsweredOnce(self, path, request_serializer, response_deserializer, timeout_s=timeout)
            call.begin()
            return call if requests is None else send_all(call, requests)

        async def send_all(call: AnsweredOnce, requests: AsyncIterator[Any]) -> Any:
            with suppress(asyncio.InvalidStateError):  # it may be refused before all is written
                async for request in requests:
                    await call.write(request)
                await call.done_writing()
            return await call

        return invoke

    def unary_stream(
        self, path: str, request_serializer: Bytes, response_deserializer: Message, **_: object
    ) -> Callable[..., Call]:
        def invoke(request: Any, timeout: float | None = None) -> Call:
            call = Call(self, path, request_serializer, response_deserializer, timeout_s=timeout)
            if (before := self._streams.get(path)) is not None:
                before.cancel()  # nobody reads it any more: gRPC cancels a call that is collected
            self._streams[path] = call
            call.begin(request)
            return call

        return invoke

    def stream_stream(
        self, path: str, request_serializer: Bytes, response_deserializer: Message, **_: object
    ) -> Callable[[], Call]:
        def invoke() -> Call:
            call = Call(self, path, request_serializer, response_deserializer)
            call.begin()
            return call

        return invoke


class Pipe:
    """One direction of a call: in order, each piece in its own time."""

    def __init__(self, network: Network, source: int, target: int) -> None:
        self._network = network
        self._way = source, target
        self._under_way: deque[Callable[[], None]] = deque()
        self._until_us = 0

    def send(self, arrive: Callable[[], None]) -> None:
        loop = self._network.loop
        self._until_us = max(self._until_us, loop.now_us + 1000 * self._network.delay_ms(*self._way))
        self._under_way.append(arrive)
        loop.call_at(self._until_us / 1e6, self._deliver, context=self._network.context)

    def _deliver(self) -> None:
        if self._way in self._network.cut:
            self._network.after_ms(RETRANSMIT_MS, self._deliver)
        else:
            self._under_way.popleft()()


class Call:
    """One RPC under way. The client reads and writes; the server's side is served by a task of its process."""

    def __init__(
        self,
        channel: Channel,
        path: str,
        to_bytes: Bytes,
        to_message: Message,
        *,
        timeout_s: float | None = None,
        metadata: Any = None,
    ) -> None:
        self.path = path
        self.metadata: tuple[tuple[str, str | bytes], ...] = tuple(metadata or ())
        self.trailing: tuple[tuple[str, str | bytes], ...] = ()
        """What came beside the answer."""
        self.ended: AioRpcError | None = None
        """The status that the client has got, unless that is OK."""
        self._network = network = channel.network
        self.client = channel.life
        self.server = network.servers.get(channel.address)
        host = _host(channel.life)
        self.hosts = host, self.server.host if self.server is not None else host
        self._to_bytes, self._to_message = to_bytes, to_message
        self._there = Pipe(network, *self.hosts)
        self._back = Pipe(network, *reversed(self.hosts))
        self._requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._answers: asyncio.Queue[bytes | AioRpcError | None] = asyncio.Queue()
        self._serving: asyncio.Task[None] | None = None
        self._is_over = False
        self._is_cut_off = False
        """Has the server's end heard that the connection is gone? Messages that come over it later are of nobody."""
        self._number = network.enlist(self)
        self._ends_us: int | None = None
        if timeout_s is not None:
            self._ends_us = network.loop.now_us + round(1e6 * timeout_s)
            network.after_ms(round(1000 * timeout_s), self._expire)

    # The client's end.

    def begin(self, request: Any = None) -> None:
        """Reach the server; a call with a single request brings it along."""
        self._network.watcher.called(self)
        if request is not None:
            self._network.watcher.sent(self.client, self.path, request, None)
        data = None if request is None else self._passed(request, self._to_bytes(request))
        if request is None or data is not None:
            self._there.send(lambda: self._arrive(data))

    async def write(self, request: Any) -> None:
        if self._is_over:
            raise asyncio.InvalidStateError("the call has ended")
        self._network.watcher.sent(self.client, self.path, request, None)
        data = self._passed(request, self._to_bytes(request))
        if data is not None:
            self._there.send(lambda: self._requests.put_nowait(data))
        await asyncio.sleep(0)

    async def done_writing(self) -> None:
        self._there.send(lambda: self._requests.put_nowait(None))

    async def read(self) -> Any:
        """The next answer, or EOF. Raises AioRpcError."""
        found = await self._answers.get()
        if isinstance(found, AioRpcError):
            raise found
        if found is None:
            return EOF
        answer = self._to_message(found)
        self._network.watcher.received(self.client, self.path, answer)
        return answer

    def __aiter__(self) -> Call:
        return self

    async def __anext__(self) -> Any:
        try:
            answer = await self.read()
        except asyncio.CancelledError:  # as gRPC's streams do
            self.cancel()
            raise
        if answer is EOF:
            raise StopAsyncIteration
        return answer

    @property
    def is_over(self) -> bool:
        """Does the client want no more of it, or has it heard of its end?"""
        return self._is_over

    def cancel(self) -> None:
        """The client wants no more of it."""
        if not self._is_over:
            self._is_over = True
            self._there.send(self._end_serving)

    # The server's end.

    def _arrive(self, data: bytes | None) -> None:
        server = self.server
        if server is None or server.life.is_over:
            self.break_off(0)
        elif not self._is_over and not self._is_cut_off:
            self._serving = self._network.loop.create_task(self._serve(server, data), context=server.context.copy())

    async def _serve(self, server: Server, data: bytes | None) -> None:
        method = server.methods[self.path]
        request = None if data is None else method.request_deserializer(data)
        context = CallContext(self.path, self.hosts[0], self.metadata, self.left_s(), self._network.loop.time)
        SERVED.set(context)
        try:
            if method.response_streaming:
                await self._stream(server, method, request, context)
                self._back.send(lambda: self._end(None))
            else:
                handler = method.stream_unary or method.unary_unary
                answer = await handler(request or self._asked(method), context)
                self._send_back(server, method, request, answer, context)
        except ApiError as refused:
            status = refusal(refused, context.trailing)
            self._back.send(lambda: self._end(status))
        except asyncio.CancelledError:
            raise
        except Killed:
            raise
        except BaseException as error:
            self._network.watcher.failed(server.life, error)

    def left_s(self) -> float | None:
        """Of its deadline, if it has one."""
        return None if self._ends_us is None else max(0.0, (self._ends_us - self._network.loop.now_us) / 1e6)

    async def _stream(self, server: Server, method: Any, request: Any, context: CallContext) -> None:
        handler = method.stream_stream or method.unary_stream
        answers = handler(request or self._asked(method), context)
        is_whole = False
        try:
            async for answer in answers:
                self._send_back(server, method, request, answer, context)
                await self._room()
            is_whole = True
        finally:
            if not is_whole and not server.life.is_over:  # asyncio closes what is dropped, a little later
                self._network.loop.create_task(answers.aclose(), context=server.context.copy())

    def _send_back(self, server: Server, method: Any, request: Any, answer: Any, context: CallContext) -> None:
        self._network.watcher.sent(server.life, self.path, request, answer)
        data, trailing = self._passed(answer, method.response_serializer(answer)), context.trailing
        if data is not None:
            self._back.send(lambda: self._take(data, trailing))

    def _take(self, data: bytes, trailing: tuple[tuple[str, str | bytes], ...]) -> None:
        self.trailing = trailing
        self._answers.put_nowait(data)

    async def _asked(self, method: Any) -> AsyncIterator[Any]:
        while (data := await self._requests.get()) is not None:
            yield method.request_deserializer(data)

    async def _room(self) -> None:
        """Until the stream takes the next piece: mostly at once, and not always."""
        ms = self._network.random.choice((0, 0, 0, 1, 1, 2, 4, 30))
        await asyncio.sleep(ms / 1000)

    def _passed(self, message: Any, data: bytes) -> bytes | None:
        """What arrives of it; None if it ends the call."""
        if self.hosts[0] == self.hosts[1]:
            return data
        passed = self._network.garbler.spoilt(message, data)
        if passed != data:
            self._network.watcher.fired("S-09")
        if passed is None:
            self._back.send(lambda: self._end(failure(grpc.StatusCode.INTERNAL, "it does not parse")))
            self._there.send(self._end_serving)
        return passed

    # Its end.

    def break_off(self, late_ms: int) -> None:
        """The connection is gone; each end hears of it in its own time."""
        self._network.after_ms(self._network.delay_ms(*self.hosts), self._end, failure(UNAVAILABLE, "broken"))
        self._network.after_ms(late_ms, self._end_serving)

    def _expire(self) -> None:
        if not self._is_over:
            self._end(failure(grpc.StatusCode.DEADLINE_EXCEEDED, "too late"))
            self._there.send(self._end_serving)

    def _end(self, status: AioRpcError | None) -> None:
        self._network.strike(self._number)
        if not self._is_over:  # the connection may break after it has
            self._is_over, self.ended = True, status
        self._answers.put_nowait(status)

    def _end_serving(self) -> None:
        """gRPC ends the requests of a call that was cancelled as if they were all, and the servicer a little later."""
        self._network.strike(self._number)
        self._is_cut_off = True
        if self._serving is not None and not self._serving.done():
            if self._network.random.randrange(2):
                self._requests.put_nowait(None)
            self._network.after_ms(self._network.random.randrange(2), self._serving.cancel)


class AnsweredOnce(Call):
    """A call with one answer, which is had by awaiting it."""

    def __await__(self) -> Generator[Any, None, Any]:
        return self._only_answer().__await__()

    async def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return self.trailing

    async def _only_answer(self) -> Any:
        try:
            answer = await self.read()
            assert answer is not EOF, self.path
            return answer
        finally:
            self.cancel()


grpc.aio.Call.register(AnsweredOnce)  # it is asked for where the trailing metadata is


def _host(life: Life) -> int:
    host: int = life.owner.host
    return host
