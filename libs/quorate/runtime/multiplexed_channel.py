"""A channel whose unary calls share one stream (`kraft.service.Multiplexed`), for programs that make many.

    stub = ControllerStub(MultiplexedChannel(open_channel("localhost:9094")))

The stub's methods are called as on any channel, and fail as they do there. Calls that are made while a message is being
sent leave together in the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from kraft.service.multiplexed_pb2 import CallBatch, ResultBatch
from kraft.service.multiplexed_pb2_grpc import MultiplexedStub
from quorate.runtime.multiplexed_calls import is_binary

__all__ = ["MultiplexedChannel"]

CARRIED_BYTES_MAX: Final = 256 << 10
"""A larger request is a call by itself: it would keep the others of its message waiting."""
BATCH_BYTES_MAX: Final = 1 << 20
"""Requests of more bytes do not share a message; servers take at least 4 MiB."""
STREAM_AGE_S: Final = 60.0
"""A stream takes calls for so long, and the next one is opened with the certificates of that time."""
UNSERVED_S: Final = 60.0
"""So long calls are made one by one at a server that does not serve Multiplexed: one of an earlier release."""

_STATUSES: Final = {each.value[0]: each for each in grpc.StatusCode}

Metadata = Sequence[tuple[str, str | bytes]]


class MultiplexedChannel(grpc.aio.Channel):
    """Carries the unary calls of generated stubs over one stream of `channel`; all else goes over `channel` itself."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._calls = MultiplexedStub(channel).Calls
        self._stream: _Stream | None = None
        self._unserved_until = 0.0

    def stream(self) -> _Stream | None:
        """Returns the stream that takes calls now; None while the server does not serve it."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._unserved_until:
            return None
        if self._stream is None or self._stream.has_ended or now_s >= self._stream.retires_at:
            if self._stream is not None:
                self._stream.retire()
            self._stream = _Stream(self._calls, now_s + STREAM_AGE_S)
        return self._stream

    def is_not_served(self) -> None:
        """Notes that the server does not serve the stream."""
        self._unserved_until = asyncio.get_running_loop().time() + UNSERVED_S

    def unary_unary(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool | None = False,
    ) -> Any:
        """Returns a callable for a unary method."""
        make: Any = self._channel.unary_unary  # gRPC's stubs lack the last argument, which generated code gives
        alone = make(method, request_serializer, response_deserializer, _registered_method)
        return _Method(self, method, request_serializer, response_deserializer, alone)

    # What every channel has.

    async def __aenter__(self) -> MultiplexedChannel:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Closes the channel, and cancels its calls after `grace` seconds, at once without."""
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
        """Returns a callable of the channel's own for a method of this kind, as the next two do."""
        return self._channel.unary_stream(*args, **kwargs)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """As `unary_stream`."""
        return self._channel.stream_unary(*args, **kwargs)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """As `unary_stream`."""
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
        self.name = path.lstrip("/")
        self._serialize = serialize
        self.deserialize = deserialize
        self.alone = alone

    def __call__(self, request: Any, *, timeout: float | None = None, metadata: Metadata | None = None) -> Any:
        stream = self._channel.stream()
        if stream is None:
            return self.alone(request, timeout=timeout, metadata=metadata)
        data = self._serialize(request)
        if len(data) > CARRIED_BYTES_MAX:
            return self.alone(request, timeout=timeout, metadata=metadata)
        answer = stream.begin(self.name, data, timeout, metadata or ())

        def by_itself() -> Any:
            self._channel.is_not_served()
            return self.alone(request, timeout=timeout, metadata=metadata)

        return _Call(answer, self.deserialize, by_itself)


class _Call:
    """A call under way; awaited, it gives the response, or raises AioRpcError."""

    __slots__ = ("_answer", "_by_itself", "_deserialize", "_trailing")

    def __init__(
        self,
        answer: asyncio.Future[ResultBatch.Result],
        deserialize: Callable[[bytes], Any],
        by_itself: Callable[[], Any],
    ) -> None:
        self._answer = answer
        self._deserialize = deserialize
        self._by_itself = by_itself
        self._trailing: Metadata = ()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._response().__await__()

    async def trailing_metadata(self) -> Metadata:
        """Returns the trailing metadata of a call that has been awaited."""
        return self._trailing

    async def _response(self) -> Any:
        try:
            result = await self._answer
        except _NotServed:
            call = self._by_itself()
            response = await call
            self._trailing = tuple(await call.trailing_metadata() or ())
            return response
        self._trailing = tuple(
            (each.key, each.value if is_binary(each.key) else each.value.decode("ascii", "replace"))
            for each in result.trailing
        )
        if result.status:
            raise _failure(_STATUSES.get(result.status, grpc.StatusCode.UNKNOWN), result.details, self._trailing)
        try:
            return self._deserialize(result.response)
        except DecodeError as problem:
            raise _failure(grpc.StatusCode.INTERNAL, f"the response does not parse: {problem}") from None


class _NotServed(Exception):
    """The server does not know the stream; no call of it has been executed."""


class _Stream:
    """One stream, with the calls that are under way in it."""

    def __init__(self, calls: Callable[[], Any], retires_at: float) -> None:
        self.retires_at = retires_at
        self.has_ended = False
        self._pending: dict[int, asyncio.Future[ResultBatch.Result]] = {}
        self._last_id = 0
        self._batches = [CallBatch()]
        self._bytes = 0
        self._wanted = asyncio.Event()
        self._is_retired = False
        self._running = asyncio.ensure_future(self._run(calls))

    def begin(
        self, method: str, request: bytes, timeout: float | None, metadata: Metadata
    ) -> asyncio.Future[ResultBatch.Result]:
        """Begins a call: returns what gets its result, or AioRpcError, or _NotServed."""
        self._last_id = number = self._last_id + 1
        timeout_ms = 0 if timeout is None else max(1, int(timeout * 1000))
        pairs = [(key, value.encode("ascii") if isinstance(value, str) else value) for key, value in metadata]
        called = self._batch(len(request)).calls.add(id=number, method=method, request=request, timeout_ms=timeout_ms)
        for key, value in pairs:
            called.metadata.add(key=key, value=value)
        self._wanted.set()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ResultBatch.Result] = loop.create_future()
        self._pending[number] = answer
        deadline = None if timeout is None else loop.call_later(timeout, self._expire, number)

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

    def _batch(self, size: int) -> CallBatch:
        if self._bytes + size > BATCH_BYTES_MAX:
            self._batches.append(CallBatch())
            self._bytes = 0
        self._bytes += size
        return self._batches[-1]

    def _expire(self, number: int) -> None:
        answer = self._pending.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(_failure(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))
            self._cancel(number)

    def _cancel(self, number: int) -> None:
        if self._pending.pop(number, None) is not None and not self.has_ended:
            self._batches[-1].cancelled.append(number)
            self._wanted.set()

    def _end_if_idle(self) -> None:
        if self._is_retired and not self._pending:
            self._running.cancel()

    async def _run(self, calls: Callable[[], Any]) -> None:
        stream = calls()
        writing = asyncio.ensure_future(self._write(stream))
        failure: Exception = _failure(grpc.StatusCode.UNAVAILABLE, "the server has ended the stream of this call")
        try:
            async for batch in stream:
                for result in batch.results:
                    answer = self._pending.pop(result.id, None)
                    if answer is not None and not answer.done():
                        answer.set_result(result)
        except grpc.aio.AioRpcError as error:
            is_unknown = error.code() is grpc.StatusCode.UNIMPLEMENTED
            failure = _NotServed() if is_unknown else error
        except asyncio.CancelledError:  # by the channel, which is closed, or by `retire`
            failure = _failure(grpc.StatusCode.CANCELLED, "the channel is closed")
        finally:
            self.has_ended = True
            writing.cancel()
            stream.cancel()
            self._fail(failure)

    async def _write(self, stream: Any) -> None:
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                batches, self._batches, self._bytes = self._batches, [CallBatch()], 0
                for batch in batches:
                    await stream.write(batch)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # it has ended, and the reader learns why

    def _fail(self, failure: Exception) -> None:
        pending, self._pending = self._pending, {}
        for answer in pending.values():
            if not answer.done():
                answer.set_exception(failure)


def _failure(status: grpc.StatusCode, details: str, trailing: Metadata = ()) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details=details)
