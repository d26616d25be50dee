"""Serves `kraft.service.Multiplexed`: the unary methods of a server, called many in a message of one stream.

Each call goes through the door as one of its own: rights, limits, errors and traces are those of its method.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Never

import grpc

from kraft.service.multiplexed_pb2 import CallBatch, ResultBatch
from kraft.service.multiplexed_pb2_grpc import MultiplexedServicer
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.door import UnaryMethod
from quorate.runtime.calls.stream_requests import RequestContext, StreamContext, StreamRequests
from quorate.runtime.event_loop.limit import Limit
from quorate.runtime.logging.logs import logger

__all__ = ["SERVICE", "MultiplexedCalls", "is_binary"]

log = logger(__name__)

SERVICE: Final = "kraft.service.Multiplexed"
BESIDE_BYTES: Final = 64 << 10
"""Room for what a message has beside a response: ids, and trailing metadata, which `statuses` keeps below 8 KiB."""
UNDER_WAY_MAX: Final = 2_000
"""Calls of one stream that run at once, and calls or ids in one message. Call limits mostly refuse before."""
SPAWNED_PER_TURN: Final = 100
"""Calls of a message that begin before the event loop runs other tasks."""
IDLE_S: Final = 120.0
"""A stream without calls ends after this time, and makes room for another; our clients open a new one sooner."""
KEYS_CACHED: Final = 64
"""How many keys of metadata are known to be keys; there are a dozen, and only a caller that tries others makes more."""
PAIR_BYTES: Final = 32
"""The bytes that each key of metadata counts beside its own, as in HTTP/2 (RFC 9113, 10.5.1)."""

_KEY: Final = re.compile(r"[0-9a-z_.-]+")
_S: Final = grpc.StatusCode

Metadata = Sequence[tuple[str, str | bytes]]


def is_binary(key: str) -> bool:
    """Returns whether a key of metadata has a value of any bytes, and not of text (gRPC's rule)."""
    return key.endswith("-bin")


class MultiplexedCalls(MultiplexedServicer):
    """The servicer. `methods` are the server's unary methods as the door has wrapped them, by `pkg.Service/Method`.

    `metadata_bytes_max` and `send_bytes_max` limit the metadata and the response of each call, as gRPC limits those of
    one by itself: a response above would end the stream, and with it the calls of others.
    """

    def __init__(self, methods: Mapping[str, UnaryMethod], *, metadata_bytes_max: int, send_bytes_max: int) -> None:
        assert send_bytes_max > BESIDE_BYTES, send_bytes_max
        self._methods = methods
        self._metadata_bytes_max = metadata_bytes_max
        self._response_bytes_max = send_bytes_max - BESIDE_BYTES
        self._is_stopping = False
        self._streams: set[_Stream] = set()

    async def Calls(  # type: ignore[override]  # noqa: N802  # the RPC's name; the door sends bytes as they are
        self, batches: AsyncIterator[CallBatch], context: Any
    ) -> AsyncIterator[bytes]:
        """Answers the calls of a stream: they run at once, and each result is sent when it is ready, in any order.

        Each message is a ResultBatch, encoded. An error of a call is its result. A message of too many calls ends the
        stream: ApiError(INVALID_REQUEST). A client that ends its half still gets all results; the calls of one that
        goes away are cancelled.
        """
        if self._is_stopping:
            return
        opened = StreamContext(context)
        stream: _Stream = _Stream(lambda called: self._run(called, opened, stream))
        self._streams.add(stream)
        try:
            stream.begin(batches)
            while (ready := await stream.requests.ready()) is not None:
                yield ready
        finally:
            self._streams.discard(stream)
            await stream.end()

    def stop(self) -> None:
        """Refuses new calls with UNAVAILABLE, and returns; each stream ends when its calls under way are answered."""
        self._is_stopping = True
        for stream in self._streams:
            stream.end_if_idle()

    async def _run(self, called: CallBatch.Call, opened: StreamContext, stream: _Stream) -> ResultBatch.Result | None:
        """Runs one call and returns its result: DEADLINE_EXCEEDED after its timeout, None if it is cancelled."""
        if self._is_stopping:
            return _ended(called, _S.UNAVAILABLE, "the server is stopping")
        if called.id in stream.running:
            return _ended(called, _S.INVALID_ARGUMENT, f"another call of the stream has id {called.id}")
        if len(stream.running) >= UNDER_WAY_MAX:
            return _ended(called, _S.RESOURCE_EXHAUSTED, f"{UNDER_WAY_MAX} calls of the stream are under way")
        task = asyncio.current_task(opened.loop)
        assert task is not None, "a call is run as a task"
        stream.running[called.id] = task
        ends = opened.loop.time() + called.timeout_ms / 1000 if called.timeout_ms > 0 else None
        deadline = Limit(opened.loop, ends)
        try:
            with deadline:
                return await self._result(called, opened)
        except TimeoutError:
            assert deadline.has_expired, "a handler's own TimeoutError is a result"
            return _ended(called, _S.DEADLINE_EXCEEDED, "Deadline Exceeded")
        finally:
            del stream.running[called.id]
            if self._is_stopping:
                stream.end_if_idle()

    async def _result(self, called: CallBatch.Call, opened: StreamContext) -> ResultBatch.Result:
        method = self._methods.get(called.method)
        if method is None:
            return _ended(called, _S.UNIMPLEMENTED, "Method not found!")
        try:
            context = _CallContext(opened, called, self._checked_metadata(called))
            response = method.encode(await method.answer(called.request, context))
            if len(response) > self._response_bytes_max:
                why = f"the response has {len(response)} bytes, and may have {self._response_bytes_max}"
                raise _Aborted(_S.RESOURCE_EXHAUSTED, why)
            result = ResultBatch.Result(id=called.id, response=response)
            _add(result, context.trailing_metadata())
        except _Aborted as ended:
            return _ended(called, ended.status, ended.details, ended.trailing)
        except Exception as error:  # the door answers what its handlers raise; the other calls of the stream go on
            log.error("a call of a stream has failed beside its handler", exception=error, method=called.method)
            return _ended(called, _S.INTERNAL, f"{called.method} failed by a fault of the server")
        return result

    def _checked_metadata(self, called: CallBatch.Call) -> Metadata:
        """Returns the metadata of a call. Raises _Aborted for what gRPC would not have carried."""
        most = self._metadata_bytes_max
        pairs = [(pair.key, pair.value) for pair in called.metadata[: most // PAIR_BYTES + 1]]
        size = PAIR_BYTES * len(pairs)
        for key, value in pairs:
            size += len(key) + len(value)
        if size > most:
            raise _Aborted(_S.RESOURCE_EXHAUSTED, f"the metadata of the call has more than {most} bytes")
        return tuple([(key, value if _checked_is_binary(key) else _text(key, value)) for key, value in pairs])


@lru_cache(KEYS_CACHED)
def _checked_is_binary(key: str) -> bool:
    """Returns whether a key has values of any bytes. Raises _Aborted for what is no key."""
    if not _KEY.fullmatch(key):
        raise _Aborted(_S.INVALID_ARGUMENT, f"metadata key {key!r}: only 0-9 a-z _ . - are allowed")
    return is_binary(key)


def _text(key: str, value: bytes) -> str:
    """Returns the value of a key of text. Raises _Aborted if it is not printable ASCII, 0x20 to 0x7e."""
    if not (value.isascii() and (text := value.decode("ascii")).isprintable()):
        raise _Aborted(_S.INVALID_ARGUMENT, f"metadata {key}: the value is not printable ASCII")
    return text


class _Stream:
    """One stream of calls: those that run, by their ids, and the results that are to be sent. `run` runs one call."""

    def __init__(self, run: Callable[[CallBatch.Call], Awaitable[ResultBatch.Result | None]]) -> None:
        self.running: dict[int, asyncio.Task[Any]] = {}
        self.requests = StreamRequests[CallBatch.Call](
            run,
            batch=ResultBatch,
            under_way_max=UNDER_WAY_MAX + SPAWNED_PER_TURN,  # those beyond `UNDER_WAY_MAX` are refused at once
        )
        self._loop = asyncio.get_running_loop()
        self._active_s = self._loop.time()
        self._watch = self._loop.call_later(IDLE_S, self._look)

    def begin(self, batches: AsyncIterator[CallBatch]) -> None:
        """Starts to read the stream and run its calls, in the background."""
        self.requests.begin(self._taken(batches))

    def end_if_idle(self) -> None:
        """Ends the stream if it has no call."""
        if not self.running:
            self.requests.read_no_more()

    async def end(self) -> None:
        """Cancels the calls that still run."""
        self._watch.cancel()
        await self.requests.end()

    async def _taken(self, batches: AsyncIterator[CallBatch]) -> AsyncIterator[Sequence[CallBatch.Call]]:
        """Yields the calls of each message in parts; raises ApiError(INVALID_REQUEST) for a message with too many."""
        async for batch in batches:
            self._active_s = self._loop.time()
            for what, count in (("calls", len(batch.calls)), ("cancelled", len(batch.cancelled))):
                if count > UNDER_WAY_MAX:
                    why = f"{what} has {count} entries; a message has {UNDER_WAY_MAX} at most"
                    raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": what})
            for number in batch.cancelled:
                if number in self.running:
                    self.running[number].cancel()
            for start in range(0, len(batch.calls), SPAWNED_PER_TURN):
                yield batch.calls[start : start + SPAWNED_PER_TURN]
                await asyncio.sleep(0)
            del batch  # which would be kept until there is another one

    def _look(self) -> None:
        idle_s = 0.0 if self.running else self._loop.time() - self._active_s
        if idle_s >= IDLE_S:
            self.requests.read_no_more()
        else:
            self._watch = self._loop.call_later(IDLE_S - idle_s, self._look)


def _ended(
    called: CallBatch.Call, status: grpc.StatusCode, details: str, trailing: Metadata = ()
) -> ResultBatch.Result:
    said = details.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate of a caller's text has no UTF-8
    result = ResultBatch.Result(id=called.id, status=status.value[0], details=said)
    _add(result, trailing)
    return result


def _add(result: ResultBatch.Result, trailing: Metadata) -> None:
    for key, value in trailing:
        result.trailing.add(key=key, value=value.encode("ascii") if isinstance(value, str) else value)


class _Aborted(grpc.aio.AbortError):
    """Ends a call by a status other than OK, as gRPC's own contexts do it."""

    def __init__(self, status: grpc.StatusCode, details: str, trailing: Metadata = ()) -> None:
        super().__init__(details)
        self.status = status
        self.details = details
        self.trailing = trailing


class _CallContext(RequestContext):
    """The context of one call: its own metadata and deadline, and the stream's peer."""

    def __init__(self, opened: StreamContext, called: CallBatch.Call, metadata: Metadata) -> None:
        super().__init__(opened, called.timeout_ms if called.timeout_ms > 0 else None)
        self._metadata = metadata
        self._trailing: Metadata = ()

    def invocation_metadata(self) -> Any:
        return self._metadata

    def set_trailing_metadata(self, trailing: Metadata) -> None:
        self._trailing = trailing

    def trailing_metadata(self) -> Metadata:
        return self._trailing

    def code(self) -> None:
        """Returns the status that a handler has set: none does, as they raise ApiError."""

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> Never:
        raise _Aborted(code, details, trailing_metadata)
