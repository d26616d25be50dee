"""A channel whose unary calls share one stream (`kraft.service.Multiplexed`), for programs that make many.

    stub = ControllerStub(MultiplexedChannel(open_channel("localhost:9094")))

The stub's methods take a request, `timeout` and `metadata`; what they return is awaited once, and fails with the
statuses of a call by itself. Calls that are made while a message is being sent leave together in the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from kraft.service.multiplexed_pb2 import CallBatch, ResultBatch
from kraft.service.multiplexed_pb2_grpc import MultiplexedStub
from quorate.runtime.calls.multiplexed_calls import UNDER_WAY_MAX, is_binary
from quorate.runtime.connections.reloading_channel import ReloadingChannel
from quorate.runtime.logging.logs import logger
from quorate.runtime.requests.statuses import BARE, error_from_call

__all__ = ["MultiplexedChannel"]

log = logger(__name__)

CARRIED_BYTES_MAX: Final = 256 << 10
"""A larger request is a call by itself: it would keep the others of its message waiting."""
BATCH_BYTES_MAX: Final = 1 << 20
"""Calls of more bytes do not share a message; servers take at least 4 MiB."""
BESIDE_BYTES: Final = 64
"""Bytes of a call beside its request, its method and its metadata: ids and lengths."""
PAIR_BYTES: Final = 8
"""Bytes that a key of metadata counts beside its own."""
METADATA_CACHED: Final = 1_024
"""The metadata of so many callers is cached as it goes out; that of a traced call is like no other."""
STREAM_AGE_S: Final = 30.0
"""A stream takes calls for so long; then the next call opens another, at the server that a name has by then."""
UNSERVED_S: Final = 60.0
"""So long calls are made one by one at a server that does not serve Multiplexed: one of an earlier release."""
REFUSED_S: Final = 1.0
"""The same at a server that has as many streams as it may have."""
TIMEOUT_MS_MAX: Final = 2**31 - 1

_STATUSES: Final = {each.value[0]: each for each in grpc.StatusCode}

Metadata = Sequence[tuple[str, str | bytes]]


class MultiplexedChannel(grpc.aio.Channel):
    """Carries the unary calls of generated stubs over one stream of `channel`; all else goes over `channel` itself."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._connected = channel.connected if isinstance(channel, ReloadingChannel) else lambda: None
        self._calls = MultiplexedStub(channel).Calls
        self._stream: _Stream | None = None
        self._alone_until_s = 0.0

    def stream(self) -> _Stream | None:
        """Returns the stream that takes calls now, a new one if need be; None while the server serves none."""
        if self._alone_until_s and asyncio.get_running_loop().time() < self._alone_until_s:
            return None
        # New certificates are for calls from now on, as on any channel: they are another connection.
        connected = self._connected()
        if self._stream is None or not self._stream.takes_calls or self._stream.connected is not connected:
            if self._stream is not None:
                self._stream.retire()
            self._stream = _Stream(self._calls(), connected)
        return self._stream

    def note_unserved(self, for_s: float) -> None:
        """Has each call of the next `for_s` (s) go over the channel by itself."""
        self._alone_until_s = asyncio.get_running_loop().time() + for_s

    def unary_unary(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool | None = False,
    ) -> Any:
        """Returns a callable for a unary method: its calls share the stream, except large ones."""
        make: Any = self._channel.unary_unary  # gRPC's stubs lack the last argument, which generated code gives
        alone = make(method, request_serializer, response_deserializer, _registered_method)
        return _Method(self, method, request_serializer, response_deserializer, alone)

    # For the interface of a channel.

    async def __aenter__(self) -> MultiplexedChannel:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Closes the channel, and cancels its calls after `grace` seconds, at once without."""
        if self._stream is not None:
            self._stream.retire()
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Returns the state of the channel."""
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Waits until the channel has another state."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Waits until the channel is connected."""
        await self._channel.channel_ready()

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the channel's own callable for a method that answers with a stream."""
        return self._channel.unary_stream(*args, **kwargs)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """As `unary_stream`, for a method that takes a stream."""
        return self._channel.stream_unary(*args, **kwargs)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """As `unary_stream`, for a method that takes and answers with a stream."""
        return self._channel.stream_stream(*args, **kwargs)


class _Method:
    """A unary method of a stub."""

    def __init__(
        self,
        channel: MultiplexedChannel,
        path: str,
        serialize: Callable[[Any], bytes],
        deserialize: Callable[[bytes], Any],
        alone: Callable[..., Any],
    ) -> None:
        self._channel = channel
        self._method = path.encode("ascii")  # by which name gRPC's own has it, and `call` writes it on a span
        self._name = path.lstrip("/")
        self._serialize = serialize
        self._deserialize = deserialize
        self._alone = alone

    def __call__(self, request: Any, *, timeout: float | None = None, metadata: Metadata | None = None) -> Any:
        stream = self._channel.stream()
        if stream is None:
            return self._alone(request, timeout=timeout, metadata=metadata)
        loop_s = stream.loop.time
        ends = None if timeout is None else loop_s() + timeout
        carried, body = _carried(tuple(metadata or ())), self._serialize(request)
        size = len(self._name) + len(body) + carried.size + BESIDE_BYTES
        if size > CARRIED_BYTES_MAX:
            return self._alone(request, timeout=timeout, metadata=metadata)

        def call_alone(unserved: _NotServed) -> Any:
            self._channel.note_unserved(unserved.for_s)
            left = None if ends is None else max(0.001, ends - loop_s())
            return self._alone(request, timeout=left, metadata=metadata)

        return _Call(stream.begin(_Unsent(self._name, body, carried.pairs, ends, size)), self._deserialize, call_alone)


class _Call:
    """A call under way; awaited, it gives the response, or raises AioRpcError."""

    __slots__ = ("_answer", "_call_alone", "_deserialize", "_trailing")

    def __init__(
        self,
        answer: asyncio.Future[ResultBatch.Result],
        deserialize: Callable[[bytes], Any],
        call_alone: Callable[[_NotServed], Any],
    ) -> None:
        self._answer = answer
        self._deserialize = deserialize
        self._call_alone = call_alone
        self._trailing: Callable[[], Metadata] = tuple

    def __await__(self) -> Generator[Any, None, Any]:
        return self._response().__await__()

    async def trailing_metadata(self) -> Metadata:
        """Returns the trailing metadata of a call that has been awaited."""
        return self._trailing()

    async def _response(self) -> Any:
        try:
            result = await self._answer
        except _NotServed as unserved:
            call = self._call_alone(unserved)
            response = await call
            trailing: Metadata = tuple(await call.trailing_metadata() or ())
            self._trailing = lambda: trailing
            return response
        self._trailing = partial(_trailing_of, result)  # most callers do not ask for it
        if result.status:
            raise _failure(_STATUSES.get(result.status, grpc.StatusCode.UNKNOWN), result.details, self._trailing())
        try:
            return self._deserialize(result.response)
        except DecodeError as problem:
            raise _failure(grpc.StatusCode.INTERNAL, f"the response does not parse: {problem}") from None


def _trailing_of(result: ResultBatch.Result) -> Metadata:
    return tuple(
        (each.key, each.value if is_binary(each.key) else each.value.decode("ascii", "replace"))
        for each in result.trailing
    )


class _NotServed(Exception):
    """The server has not taken the stream, so no call of it has been executed; it is not to be asked for `for_s` s.

    A failed first write is taken for that as well. Should its calls have arrived nevertheless, they are executed twice,
    as they are when a client of Kafka's sends them again after a lost connection.
    """

    def __init__(self, for_s: float) -> None:
        super().__init__()
        self.for_s = for_s


class _Carried(NamedTuple):
    """Metadata as it goes out, and about how many bytes it takes in a message."""

    pairs: Sequence[CallBatch.Metadatum]
    size: int


@lru_cache(METADATA_CACHED)
def _carried(metadata: tuple[tuple[str, str | bytes], ...]) -> _Carried:
    encoded = [(key, value.encode("ascii") if isinstance(value, str) else value) for key, value in metadata]
    pairs = tuple(CallBatch.Metadatum(key=key, value=value) for key, value in encoded)
    return _Carried(pairs, sum(len(key) + len(value) + PAIR_BYTES for key, value in encoded))


class _Unsent(NamedTuple):
    """A call that is not written yet; it `ends` at this time of the loop's clock, in s.

    `size` is about how many bytes it takes in a message.
    """

    method: str
    request: bytes
    metadata: Sequence[CallBatch.Metadatum]
    ends: float | None
    size: int


class _Stream:
    """One stream, with the calls that are under way in it; `connected` tells the connection that it was opened on."""

    def __init__(self, stream: Any, connected: object) -> None:
        self.connected = connected
        self._stream = stream
        self._pending: dict[int, asyncio.Future[ResultBatch.Result]] = {}
        self._unsent: dict[int, _Unsent] = {}
        self._cancelled: list[int] = []
        self._last_id = 0
        self._wanted = asyncio.Event()
        self._has_results = False
        self._has_sent = False
        self._has_ended = False
        self._is_retired = False
        self.loop = asyncio.get_running_loop()
        self._retiring = self.loop.call_later(STREAM_AGE_S, self.retire)
        self._running = asyncio.ensure_future(self._run())

    @property
    def takes_calls(self) -> bool:
        """Whether calls may begin here."""
        return not (self._has_ended or self._is_retired)

    def begin(self, call: _Unsent) -> asyncio.Future[ResultBatch.Result]:
        """Begins a call: returns what gets its result, or AioRpcError, or _NotServed."""
        self._last_id = number = self._last_id + 1
        self._unsent[number] = call
        self._wanted.set()
        answer: asyncio.Future[ResultBatch.Result] = self.loop.create_future()
        self._pending[number] = answer
        deadline = None if call.ends is None else self.loop.call_at(call.ends, self._expire, number)

        def is_over(answer: asyncio.Future[ResultBatch.Result]) -> None:
            if deadline is not None:
                deadline.cancel()
            if answer.cancelled():
                self._cancel(number)
            self._end_if_idle()

        answer.add_done_callback(is_over)
        return answer

    def retire(self) -> None:
        """Ends the stream once its calls are over; it gets no new ones."""
        self._is_retired = True
        self._end_if_idle()

    def _expire(self, number: int) -> None:
        answer = self._pending.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(_failure(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))
            self._cancel(number)

    def _cancel(self, number: int) -> None:
        """Takes back a call that is not written yet, or has the server cancel it."""
        if self._pending.pop(number, None) is None or self._unsent.pop(number, None) is not None:
            return
        if not self._has_ended:
            self._cancelled.append(number)
            self._wanted.set()

    def _end_if_idle(self) -> None:
        if self._is_retired and not self._pending:
            self._running.cancel()

    async def _run(self) -> None:
        writing = asyncio.ensure_future(self._write())
        failure: Exception = _failure(grpc.StatusCode.UNAVAILABLE, "the server has ended the stream of this call")
        try:
            async for batch in self._stream:
                self._has_results = True
                for result in batch.results:
                    answer = self._pending.pop(result.id, None)
                    if answer is not None and not answer.done():
                        answer.set_result(result)
        except grpc.aio.AioRpcError as error:
            failure = self._failure_of(error)
        except asyncio.CancelledError:  # by the channel, which is closed, or by `retire`
            failure = _failure(grpc.StatusCode.CANCELLED, "the channel is closed")
        except Exception as error:  # such as a message that does not parse
            log.error("a stream of calls has failed", exception=error)
            failure = _failure(grpc.StatusCode.INTERNAL, f"the stream of this call has failed: {error!r}")
        finally:
            self._has_ended = True
            self._retiring.cancel()
            writing.cancel()
            self._stream.cancel()
            self._fail(failure)

    def _failure_of(self, error: grpc.aio.AioRpcError) -> Exception:
        """Returns the end of the calls of a stream that has ended so."""
        code, metadata = error.code(), error_from_call(error).metadata
        # A write has failed: gRPC may tell that in place of the status with which the stream has ended.
        is_write = code is grpc.StatusCode.INTERNAL and BARE in metadata
        if not self._has_results:
            if code is grpc.StatusCode.UNIMPLEMENTED:
                return _NotServed(UNSERVED_S)
            if is_write and not self._has_sent:  # most likely a server without room for the stream
                return _NotServed(REFUSED_S)
            if "limit" in metadata:  # the limits on streams are checked before one is read
                return _NotServed(REFUSED_S)
        # Calls may have been executed, so none may be made again.
        is_lost = is_write or code is grpc.StatusCode.UNIMPLEMENTED
        return _failure(grpc.StatusCode.UNAVAILABLE, f"the stream has ended: {code.name}") if is_lost else error

    async def _write(self) -> None:
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                while self._unsent or self._cancelled:
                    await self._stream.write(self._next_batch())
                    self._has_sent = True
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            pass  # it has ended, and the reader learns why

    def _next_batch(self) -> CallBatch:
        """Takes what is to be sent next: calls up to a message's size, and the ids that are cancelled."""
        now_s = self.loop.time()
        batch = CallBatch(cancelled=self._cancelled[:UNDER_WAY_MAX])
        del self._cancelled[:UNDER_WAY_MAX]
        size = 0
        while self._unsent and len(batch.calls) < UNDER_WAY_MAX:
            number = next(iter(self._unsent))
            if self._pending[number].done():  # cancelled a moment ago, or too late
                del self._unsent[number], self._pending[number]
                continue
            size += self._unsent[number].size
            if size > BATCH_BYTES_MAX and batch.calls:
                break
            method, request, metadata, ends, _ = self._unsent.pop(number)
            left_ms = 0 if ends is None else min(TIMEOUT_MS_MAX, max(1, int((ends - now_s) * 1000)))
            batch.calls.add(id=number, method=method, request=request, timeout_ms=left_ms, metadata=metadata)
        return batch

    def _fail(self, failure: Exception) -> None:
        self._unsent.clear()
        pending, self._pending = self._pending, {}
        for answer in pending.values():
            if not answer.done():
                answer.set_exception(failure)


def _failure(status: grpc.StatusCode, details: str, trailing: Metadata = ()) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details=details)
