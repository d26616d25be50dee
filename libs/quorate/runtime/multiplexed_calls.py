"""Serves `kraft.service.Multiplexed`: the unary methods of a server, called many in a message of one stream.

Each call goes through the door as one of its own: rights, limits, errors and traces are those of its method.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Never

import grpc

from kraft.service.multiplexed_pb2 import CallBatch, ResultBatch
from kraft.service.multiplexed_pb2_grpc import MultiplexedServicer
from quorate.runtime.door import UnaryMethod
from quorate.runtime.stream_requests import RequestContext, StreamContext, StreamRequests

__all__ = ["SERVICE", "MultiplexedCalls", "is_binary"]

SERVICE: Final = "kraft.service.Multiplexed"
BESIDE_BYTES: Final = 64 << 10
"""Room for what a message has beside a response: its trailing metadata, of 8 KiB at most by gRPC's default, and ids."""
UNDER_WAY_MAX: Final = 2_000
"""Calls of one stream that run at once. Beyond it the stream is not read; the call limits refuse before."""

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
        self._streams: set[StreamRequests[CallBatch.Call, ResultBatch]] = set()

    async def Calls(self, batches: AsyncIterator[CallBatch], context: Any) -> AsyncIterator[ResultBatch]:  # noqa: N802 (the RPC's name)
        """Answers the calls of a stream, each as soon as it is ready."""
        opened, running = StreamContext(context), dict[int, asyncio.Task[Any]]()

        async def begun() -> AsyncIterator[Sequence[CallBatch.Call]]:
            async for batch in batches:
                for number in batch.cancelled:
                    if number in running:
                        running[number].cancel()
                yield batch.calls

        under_way = StreamRequests[CallBatch.Call, ResultBatch](
            lambda called: self._run(called, opened, running),
            batch=ResultBatch,
            answers_of=attrgetter("results"),
            under_way_max=UNDER_WAY_MAX,
        )
        self._streams.add(under_way)
        try:
            under_way.begin(begun())
            while (ready := await under_way.ready()) is not None:
                yield ready
        finally:
            self._streams.discard(under_way)
            await under_way.end()

    def read_no_more(self) -> None:
        """Has each stream end once the calls that it has had are answered: a server that stops takes no new ones."""
        for stream in self._streams:
            stream.read_no_more()

    async def _run(
        self, called: CallBatch.Call, opened: StreamContext, running: dict[int, asyncio.Task[Any]]
    ) -> ResultBatch.Result | None:
        """Runs one call until its end, its deadline, or until it is cancelled; then there is no result."""
        task = asyncio.current_task()
        assert task is not None, "a call is run as a task"
        running[called.id] = task
        deadline = None
        if called.timeout_ms > 0:
            deadline = asyncio.get_running_loop().call_later(called.timeout_ms / 1000, task.cancel)
        try:
            return await self._result(called, opened)
        finally:
            if deadline is not None:
                deadline.cancel()
            running.pop(called.id, None)

    async def _result(self, called: CallBatch.Call, opened: StreamContext) -> ResultBatch.Result:
        method = self._methods.get(called.method)
        if method is None:
            return _ended(called, grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        if sum(len(each.key) + len(each.value) for each in called.metadata) > self._metadata_bytes_max:
            why = f"the metadata of the call has more than {self._metadata_bytes_max} bytes"
            return _ended(called, grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        try:
            context = _CallContext(opened, called)
            answer = await method.answer(method.decode(called.request), context)
            response = method.encode(answer)
            if len(response) > self._response_bytes_max:
                why = f"the response has {len(response)} bytes, and may have {self._response_bytes_max}"
                return _ended(called, grpc.StatusCode.RESOURCE_EXHAUSTED, why)
            result = ResultBatch.Result(id=called.id, response=response)
            _add(result, context.trailing_metadata())
        except _Aborted as ended:
            return _ended(called, ended.status, ended.details, ended.trailing)
        except UnicodeDecodeError as problem:
            return _ended(called, grpc.StatusCode.INVALID_ARGUMENT, f"the metadata is not ASCII: {problem}")
        return result


def _ended(
    called: CallBatch.Call, status: grpc.StatusCode, details: str, trailing: Metadata = ()
) -> ResultBatch.Result:
    result = ResultBatch.Result(id=called.id, status=status.value[0], details=details)
    _add(result, trailing)
    return result


def _add(result: ResultBatch.Result, trailing: Metadata) -> None:
    for key, value in trailing:
        result.trailing.add(key=key, value=value.encode("ascii") if isinstance(value, str) else value)


class _Aborted(grpc.aio.AbortError):
    """Ends a call by a status other than OK, as gRPC's own contexts do it."""

    def __init__(self, status: grpc.StatusCode, details: str, trailing: Metadata) -> None:
        super().__init__(details)
        self.status = status
        self.details = details
        self.trailing = trailing


class _CallContext(RequestContext):
    """The context of one call: its own metadata and deadline, and the stream's peer."""

    def __init__(self, opened: StreamContext, called: CallBatch.Call) -> None:
        """Raises UnicodeDecodeError."""
        super().__init__(opened, called.timeout_ms if called.timeout_ms > 0 else None)
        self._metadata = tuple(
            (each.key, each.value if is_binary(each.key) else each.value.decode("ascii")) for each in called.metadata
        )
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
