"""Submit and AdminStream: any admin API in one envelope, with a dry run, an idempotent retry, and streaming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.message_factory import GetMessageClass
from msgspec.structs import replace

from kraft import Message
from kraft.service.admin_pb2 import (
    AdminError,
    AdminRequest,
    AdminRequests,
    AdminResponse,
    AdminResponses,
    ProposedRecord,
)
from quorate.controller.engine.decision import Proposal
from quorate.controller.engine.deduplication import ID_BYTES, RequestId
from quorate.controller.engine.engine import Answer, QueueLimit
from quorate.controller.secrets import redacted
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.versions import record_version
from quorate.nouns import Offset
from quorate.runtime.calls.call_login import login_of_call
from quorate.runtime.calls.stream_requests import RequestContext, StreamContext, StreamRequests
from quorate.runtime.event_loop.limit import Limit
from quorate.runtime.event_loop.turns import in_turns, protobuf_of, struct_of
from quorate.runtime.requests.caps import check_items_in_steps
from quorate.runtime.requests.statuses import is_retriable
from quorate.runtime.telemetry.tracing import Span, SpanKind, Telemetry
from quorate.wire.items import STEP_BYTES
from quorate.wire.protobuf import to_protobuf
from quorate.wire.schema import layout, struct_class
from services.controller.api import Api
from services.controller.apis import Apis
from services.controller.call import Call, Caller
from services.controller.deadlines import timeout_of
from services.controller.forwarding import Forwarding, is_forwarded
from services.controller.handlers import APIS, HANDLERS, answer_to
from services.controller.handlers.own import SUBMIT
from services.controller.pages import Pages, parse
from services.controller.pending import LEADER_EPOCH, OFFSET

TIMEOUT_MS: Final = 60_000
"""Timeout (ms) of an AdminStream request that states none."""
METHOD: Final = "kraft.service.Controller/AdminStream"
UNDER_WAY_MAX: Final = 1_000
"""Requests of one AdminStream that run at once: half of the engine's limit. Beyond it the stream is not read."""
PACKED_PER_TURN: Final = 500
"""Proposed records that are packed (about 6 ms) before the event loop runs other tasks."""


class Enveloped(NamedTuple):
    """An admin API of the envelope: its field in the `request` oneof, its `Api`, and the struct of its response."""

    field: str
    api: Api
    response: type[Message]


def _class_of(descriptor: Any) -> Any:
    return GetMessageClass(descriptor)


def _enveloped() -> dict[str, Enveloped]:
    found = {}
    responses: Any = AdminResponse.DESCRIPTOR.fields_by_name  # the stubs have no message type for a field
    for field in AdminRequest.DESCRIPTOR.oneofs_by_name["request"].fields:
        response = responses[field.name].message_type
        api = APIS[response.name.removesuffix("Response")]
        found[field.name] = Enveloped(field.name, api, struct_class(layout(_class_of(response))))
    return found


ENVELOPED: Final = _enveloped()
"""Admin APIs by their field in the envelope's `request` oneof."""

for _field, _each in ENVELOPED.items():
    _asked = AdminRequest.DESCRIPTOR.fields_by_name[_field].message_type
    assert _asked is _each.api.request.DESCRIPTOR, (_field, _each)
assert {each.api.name for each in ENVELOPED.values()} == {
    name for name in HANDLERS if APIS[name].lane is QueueLimit.ADMIN
}, ENVELOPED


class EnvelopeContext(RequestContext):
    """The context of one envelope of a stream."""

    def set_trailing_metadata(self, _: Any) -> None:
        """Does nothing: leader, epoch and offset are fields of an AdminResponse."""


class AdminDoor:
    """Serves Submit and AdminStream: an envelope has one request of any admin API, which the API's handler answers."""

    def __init__(self, apis: Apis, forwarding: Forwarding, telemetry: Telemetry) -> None:
        self._apis = apis
        self._forwarding = forwarding
        self._telemetry = telemetry
        self._pages = Pages(apis.driver.engine)

    async def submit(self, request: AdminRequest, context: Any) -> AdminResponse:
        """Answers one envelope: here if this controller is active, else by the active one. Raises ApiError.

        With `validate_only` nothing is written, and the answer has the records that would be. A retry with the same
        `request_id` gets the first answer again.
        """
        self._apis.logins.check_live(login_of_call())  # a stream may outlive what it was opened with
        with self._span(request, context):
            chosen = _chosen(request)
            api, asked = chosen.api, getattr(request, chosen.field)
            timeout_ms = timeout_of(api, asked)
            here = partial(self._answer, request, chosen, asked, timeout_ms, context)
            if not api.is_forwarded:
                return await here()
            response: AdminResponse = await self._forwarding.serve(
                SUBMIT,
                request,
                context,
                here,
                alone=None if api.needs_leader else here,
                may_repeat=api.is_read or request.validate_only or bool(request.request_id),
                timeout_ms=timeout_ms,
            )
            return response

    async def stream(self, requests: AsyncIterator[AdminRequests], context: Any) -> AsyncIterator[bytes]:
        """Answers a stream of envelopes, each as soon as it is ready, in any order; an error is sent in its own answer.

        Each message is an AdminResponses, encoded. A request that takes longer than its `timeout_ms` gets
        REQUEST_TIMED_OUT. Beyond `UNDER_WAY_MAX` no more are read.
        """
        opened = StreamContext(context)
        under_way = StreamRequests[AdminRequest](
            lambda request: self._one_of_many(request, opened), batch=AdminResponses, under_way_max=UNDER_WAY_MAX
        )
        try:
            under_way.begin(_requests_of(requests))
            while (ready := await under_way.ready()) is not None:
                yield ready
        finally:
            await under_way.end()

    async def _one_of_many(self, request: AdminRequest, opened: StreamContext) -> AdminResponse:
        timeout_ms = request.timeout_ms or TIMEOUT_MS
        try:
            with Limit(opened.loop, opened.loop.time() + timeout_ms / 1000):
                return await self.submit(request, EnvelopeContext(opened, timeout_ms))
        except TimeoutError:
            error = ApiError(ErrorCode.REQUEST_TIMED_OUT, f"no answer within its timeout_ms of {timeout_ms}")
        except ApiError as refusal:
            error = refusal.as_value()
        return self._refused(request, error)

    def _refused(self, request: AdminRequest, error: ApiError) -> AdminResponse:
        metadata = error.metadata
        refused = AdminResponse(correlation_id=request.correlation_id, error=_admin_error(error))
        if OFFSET in metadata:
            refused.leader_id = self._apis.driver.leader_id
            refused.leader_epoch, refused.offset = int(metadata[LEADER_EPOCH]), int(metadata[OFFSET])
        return refused

    async def _answer(
        self, request: AdminRequest, chosen: Enveloped, asked: ProtobufMessage, timeout_ms: int | None, context: Any
    ) -> AdminResponse:
        api, caller = chosen.api, self._apis.authorizing.caller(context, SUBMIT.name)
        if asked.ByteSize() >= STEP_BYTES:
            await in_turns(check_items_in_steps(asked))
        call = Call(
            api=api,
            asked=await struct_of(asked),
            caller=caller,
            timeout_ms=timeout_ms,
            validate_only=request.validate_only,
            request_id=_request_id(request, chosen, caller),
        )
        if api.has_pages:
            return await self._page(request, chosen, call)
        if request.page_token:
            raise _misfit("page_token", f"{api.name} answers in one piece; only {_paged()} has pages")
        return await self._filled(request, chosen, await answer_to(self._apis, call))

    async def _page(self, request: AdminRequest, chosen: Enveloped, call: Call) -> AdminResponse:
        """Answers one page of a list: the first shows the committed state of now, the others the same state."""
        engine = self._apis.driver.engine
        if request.page_token:
            page = parse(request.page_token)
            self._pages.hold(page)
            offset, call = page.offset, replace(call, asked=replace(call.asked, cursor=page.cursor))
        elif (stable := engine.hold_stable()) is not None:
            offset = stable
        else:
            return await self._filled(request, chosen, await answer_to(self._apis, call))
        try:
            return await self._page_of(request, chosen, replace(call, as_of=offset), offset)
        finally:
            engine.state.registry.release(offset)

    async def _page_of(self, request: AdminRequest, chosen: Enveloped, call: Call, offset: Offset) -> AdminResponse:
        answer = await answer_to(self._apis, call)
        following = self._pages.turn(offset, answer.response)  # before other tasks run: the state was held for the read
        filled = await self._filled(request, chosen, answer)
        filled.next_page_token = following
        return filled

    async def _filled(self, request: AdminRequest, chosen: Enveloped, answer: Answer) -> AdminResponse:
        filled = AdminResponse(
            correlation_id=request.correlation_id,
            leader_id=self._apis.driver.leader_id,
            leader_epoch=answer.epoch,
            offset=answer.offset,
        )
        response = answer.response
        if isinstance(response, Proposal):
            level = self._apis.driver.engine.state.features.record_level
            for count, record in enumerate(response.records, start=1):
                proposed: ProposedRecord = filled.records.add(version=record_version(record, level))
                proposed.record.Pack(to_protobuf(redacted(record)))
                if count % PACKED_PER_TURN == 0:
                    await asyncio.sleep(0)
            response = response.response
        getattr(filled, chosen.field).CopyFrom(await protobuf_of(response))
        return filled

    def _span(self, request: AdminRequest, context: Any) -> Span:
        """Returns the span of one envelope: a child of its `traceparent` if it has one, else of the call's span."""
        if not self._telemetry.enabled:
            return self._telemetry.span(METHOD)
        api = request.WhichOneof("request") or ""
        own = b"" if is_forwarded(context) else request.traceparent.encode("latin-1", "replace")
        return self._telemetry.span(
            METHOD, kind=SpanKind.SERVER, parent=own or None, attributes={"kraft.api": api}, root=False
        )


async def _requests_of(messages: AsyncIterator[AdminRequests]) -> AsyncIterator[Sequence[AdminRequest]]:
    async for message in messages:
        yield message.requests
        del message  # which would be kept until there is another one


def _chosen(request: AdminRequest) -> Enveloped:
    field = request.WhichOneof("request")
    if field is None:
        raise _misfit("request", "one of the admin APIs must be asked for")
    return ENVELOPED[field]


def _paged() -> str:
    return ", ".join(api.name for api in APIS.values() if api.has_pages)


def _request_id(request: AdminRequest, chosen: Enveloped, caller: Caller) -> RequestId | None:
    """Returns the id by which a retry gets the first answer again; None without one, or for a dry run."""
    if not request.request_id:
        return None
    if len(request.request_id) != ID_BYTES:
        raise _misfit("request_id", f"it has {len(request.request_id)} bytes, and must have {ID_BYTES}")
    if request.validate_only:
        return None
    asked = type(getattr(request, chosen.field))()
    asked.CopyFrom(getattr(request, chosen.field))
    if "timeout_ms" in asked.DESCRIPTOR.fields_by_name:
        asked.ClearField("timeout_ms")  # a retry has less time left
    return RequestId.of(
        request.request_id,
        caller=str(caller.principal),
        asked=asked.SerializeToString(deterministic=True),
        response=chosen.response,
    )


def _misfit(field: str, why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"{field}: {why}", {"field": field})


def _admin_error(error: ApiError) -> AdminError:
    return AdminError(
        error_code=error.code,  # type: ignore[arg-type]  # the stubs' enum type does not know ours
        message=error.message,
        retriable=is_retriable(error),
        metadata=error.metadata,
    )
