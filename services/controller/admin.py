"""Submit and AdminStream: any admin API in one envelope, with a dry run, a safe retry, and many at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple

from google.protobuf.message_factory import GetMessageClass

from kraft import Message
from kraft.service.admin_pb2 import (
    AdminError,
    AdminRequest,
    AdminRequests,
    AdminResponse,
    AdminResponses,
    ProposedRecord,
)
from quorate.controller.decision import Proposal
from quorate.controller.engine import Answer
from quorate.controller.repeats import ID_BYTES, RequestId
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.secrets import redacted
from quorate.metadata.versions import record_version
from quorate.runtime.statuses import is_retriable
from quorate.runtime.telemetry import Span, SpanKind, Telemetry
from quorate.wire.compile import struct_class
from quorate.wire.protobuf import to_protobuf, to_struct
from quorate.wire.schema import layout
from services.controller.apis import HANDLERS, Apis
from services.controller.call import Call
from services.controller.forwarding import Forwarding, is_forwarded

TIMEOUT_MS: Final = 60_000
"""For a request that does not say how long its answer is waited for."""
UNDER_WAY_MAX: Final = 1_000
"""Requests of one stream that may wait at once: half of what the engine takes. The stream is not read beyond."""
METHOD: Final = "kraft.service.Controller/AdminStream"


class Api(NamedTuple):
    """One arm of the envelope: its field, the RPC of the same form, and the response's class."""

    field: str
    rpc: str
    response: type[Message]


def _class_of(descriptor: Any) -> Any:
    return GetMessageClass(descriptor)


def _apis() -> dict[str, Api]:
    found = {}
    responses: Any = AdminResponse.DESCRIPTOR.fields_by_name  # the stubs have no message type for a field
    for field in AdminRequest.DESCRIPTOR.oneofs_by_name["request"].fields:
        response = responses[field.name].message_type
        rpc = response.name.removesuffix("Response")
        if rpc in HANDLERS:
            found[field.name] = Api(field.name, rpc, struct_class(layout(_class_of(response))))
    return found


APIS: Final = _apis()
"""By the field of the envelope."""
NOT_REPEATABLE: Final = frozenset({"CreateDelegationToken"})
"""Their answers are secret: they are not kept in the log."""


class AdminDoor:
    """Takes envelopes apart and answers them through the same handlers as the RPCs of Kafka's form."""

    def __init__(self, apis: Apis, forwarding: Forwarding, telemetry: Telemetry) -> None:
        self._apis = apis
        self._forwarding = forwarding
        self._telemetry = telemetry

    async def submit(self, request: AdminRequest, context: Any) -> AdminResponse:
        """One request. Raises ApiError."""

        async def here() -> AdminResponse:
            return await self._answer(request, host=context.peer())

        with self._span(request, context):
            response: AdminResponse = await self._forwarding.serve("Submit", request, context, here)
            return response

    async def stream(self, requests: AsyncIterator[AdminRequests], context: Any) -> AsyncIterator[AdminResponses]:
        """Many requests, each answered when it is ready."""
        under_way = _UnderWay(lambda request: self._one_of_many(request, context))
        try:
            under_way.begin(requests)
            while responses := await under_way.ready():
                yield AdminResponses(responses=responses)
        finally:
            await under_way.end()

    async def _one_of_many(self, request: AdminRequest, stream: Any) -> AdminResponse:
        timeout_ms = request.timeout_ms or TIMEOUT_MS
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.submit(request, _OneOfMany(stream, timeout_ms))
        except TimeoutError:
            error = ApiError(ErrorCode.REQUEST_TIMED_OUT, f"no answer within its timeout_ms of {timeout_ms}")
        except ApiError as refusal:
            error = refusal
        return AdminResponse(correlation_id=request.correlation_id, error=_told(error))

    async def _answer(self, request: AdminRequest, *, host: str) -> AdminResponse:
        api = _chosen(request)
        asked = to_struct(getattr(request, api.field))
        answer = await self._apis.answer(
            Call(
                rpc=api.rpc,
                asked=asked,
                host=host,
                validate_only=request.validate_only,
                request_id=_request_id(request, api),
            )
        )
        return self._filled(request, api, answer)

    def _filled(self, request: AdminRequest, api: Api, answer: Answer) -> AdminResponse:
        filled = AdminResponse(
            correlation_id=request.correlation_id,
            leader_id=self._apis.driver.leader_id,
            leader_epoch=answer.epoch,
            offset=answer.offset,
        )
        response = answer.response
        if isinstance(response, Proposal):
            level = self._apis.driver.engine.state.features.record_level
            for record in response.records:
                proposed: ProposedRecord = filled.records.add(version=record_version(record, level))
                proposed.record.Pack(to_protobuf(redacted(record)))
            response = response.response
        getattr(filled, api.field).CopyFrom(to_protobuf(response))
        return filled

    def _span(self, request: AdminRequest, context: Any) -> Span:
        """The request's own span if it has a trace of its own; else what it does hangs on the call's."""
        api = request.WhichOneof("request") or ""
        own = b"" if is_forwarded(context) else request.traceparent.encode("latin-1", "replace")
        return self._telemetry.span(
            METHOD, kind=SpanKind.SERVER, parent=own or None, attributes={"kraft.api": api}, root=False
        )


class _UnderWay:
    """The requests of one stream that have begun, and the answers that have not left yet."""

    def __init__(self, answer: Callable[[AdminRequest], Awaitable[AdminResponse]]) -> None:
        self._answer = answer
        self._room = asyncio.Semaphore(UNDER_WAY_MAX)
        self._changed = asyncio.Event()
        self._ready: list[AdminResponse] = []
        self._failed: BaseException | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, requests: AsyncIterator[AdminRequests]) -> None:
        """Read from now on."""
        self._spawn(self._read(requests))

    async def ready(self) -> list[AdminResponse]:
        """All answers that wait to leave, one at least; none when everything is answered. Raises what went wrong."""
        while not self._ready and self._tasks and self._failed is None:
            self._changed.clear()
            await self._changed.wait()
        if self._failed is not None:
            raise self._failed
        ready, self._ready = self._ready, []
        return ready

    async def end(self) -> None:
        """Nobody waits for the rest. What was appended may be committed all the same."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[AdminRequests]) -> None:
        async for message in requests:
            for request in message.requests:
                await self._room.acquire()
                self._spawn(self._one(request))

    async def _one(self, request: AdminRequest) -> None:
        try:
            answer = await self._answer(request)
            self._ready.append(answer)
        finally:
            self._room.release()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._is_over)

    def _is_over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failed = failure
        self._changed.set()


class _OneOfMany:
    """What a handler asks of a call's context, for one request of a stream."""

    def __init__(self, stream: Any, timeout_ms: int) -> None:
        self._stream = stream
        self._ends = time.monotonic() + timeout_ms / 1000

    def invocation_metadata(self) -> Any:
        return self._stream.invocation_metadata()

    def peer(self) -> str:
        peer: str = self._stream.peer()
        return peer

    def time_remaining(self) -> float:
        return self._ends - time.monotonic()

    def set_trailing_metadata(self, _: Any) -> None:
        """It stands in the answer."""


def _chosen(request: AdminRequest) -> Api:
    field = request.WhichOneof("request")
    if field is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "request: one of the admin APIs must be asked for", {"field": "request"}
        )
    if field not in APIS:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{field} is not served by this controller")
    return APIS[field]


def _request_id(request: AdminRequest, api: Api) -> RequestId | None:
    if not request.request_id:
        return None
    if len(request.request_id) != ID_BYTES:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"request_id: it has {len(request.request_id)} bytes, and takes {ID_BYTES}",
            {"field": "request_id"},
        )
    if api.rpc in NOT_REPEATABLE:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"request_id: the answer to {api.rpc} is secret and not kept, so that it cannot be given twice",
            {"field": "request_id"},
        )
    return RequestId(request.request_id, api.response)


def _told(error: ApiError) -> AdminError:
    return AdminError(
        error_code=error.code,  # type: ignore[arg-type]  # the stubs' enum type does not know ours
        message=error.message,
        retriable=is_retriable(error),
        metadata=error.metadata,
    )
