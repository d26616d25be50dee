"""The gRPC servicer of `kraft.service.Controller`: runs each RPC here, or forwards it to the active controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import grpc
from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.message_factory import GetMessageClass

from kraft import Uuid
from kraft.api.api_versions import ApiVersionsResponse as ApiVersionsStruct
from kraft.api.api_versions_pb2 import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.service.controller_pb2 import (
    DESCRIPTOR,
    AuthenticateRequest,
    AuthenticateResponse,
    AuthorizeRequest,
    AuthorizeResponse,
    ChangeBrokerStateRequest,
    ChangeBrokerStateResponse,
    ClaimSessionsRequest,
    ClaimSessionsResponse,
    ListErrorReasonsRequest,
    ListErrorReasonsResponse,
)
from kraft.service.quorum_pb2 import AlterQuorumRequest, AlterQuorumResponse
from quorate.controller.api_versions import api_versions
from quorate.controller.commands.change_broker_state import change_in_turns
from quorate.controller.engine.engine import Answer, QueueLimit
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import CONTROL_STATE_NUMBERS
from quorate.metadata.configs import BROKER
from quorate.nouns import parse_uuid
from quorate.protocol.sasl.mechanism import SaslError
from quorate.runtime.access.passing_on import LOGIN_REASON
from quorate.runtime.event_loop.turns import in_turns, struct_of
from quorate.runtime.logging.logs import logger
from quorate.runtime.requests.caps import check_items_in_steps
from quorate.runtime.requests.statuses import is_retriable, status_code
from quorate.wire.items import STEP_BYTES
from quorate.wire.protobuf import to_protobuf
from quorate.wire.schema import layout
from services.controller.admin import AdminDoor
from services.controller.answers import LARGE_BYTES, encoded_in_turns
from services.controller.api import Api
from services.controller.apis import Apis
from services.controller.call import Call, Caller
from services.controller.chunked_writes import write_in_chunks
from services.controller.deadlines import timeout_of
from services.controller.forwarding import Forwarding
from services.controller.handlers import APIS, HANDLERS, answer_to
from services.controller.handlers.own import (
    ADMIN_STREAM,
    API_VERSIONS,
    AUTHENTICATE,
    AUTHORIZE,
    CHANGE_BROKER_STATE,
    CLAIM_SESSIONS,
    LIST_ERROR_REASONS,
    SUBMIT,
)
from services.controller.handlers.quorum import ALTER_QUORUM
from services.controller.session_claims import SessionClaims

log = logger(__name__)


class ControllerService:
    """Serves `kraft.service.Controller`, active or standby: `methods` has all of its RPCs."""

    def __init__(self, apis: Apis, forwarding: Forwarding, admin: AdminDoor) -> None:
        self._apis = apis
        self._driver = apis.driver
        self._forwarding = forwarding
        self._admin = admin
        self._claims = SessionClaims(apis)

    def methods(self) -> Mapping[str, Callable[..., Any]]:
        """Returns what serves each RPC, by name: `serve` or `ask_quorum` for a row of the table, or its own method."""
        by_row = {
            api.name: partial(self.serve, api) if api.name in HANDLERS else partial(self.ask_quorum, api)
            for api in APIS.values()
            if api.name in HANDLERS or api.quorum_deadline_ms is not None
        }
        return {
            **by_row,
            ADMIN_STREAM.name: self._admin.stream,
            ALTER_QUORUM.name: self.alter_quorum,
            API_VERSIONS.name: self.api_versions,
            AUTHENTICATE.name: self.authenticate,
            AUTHORIZE.name: self.authorize,
            CHANGE_BROKER_STATE.name: self.change_broker_state,
            CLAIM_SESSIONS.name: self.claim_sessions,
            LIST_ERROR_REASONS.name: self.list_error_reasons,
            SUBMIT.name: self._admin.submit,
        }

    async def change_broker_state(self, request: ChangeBrokerStateRequest, context: Any) -> ChangeBrokerStateResponse:
        """Changes a broker's control state (fenced, unfenced, controlled shutdown); the heartbeat service calls it.

        Raises ApiError: INVALID_REQUEST for an unknown target or a malformed directory id, OPERATION_NOT_ATTEMPTED
        for a heartbeat service while another one counts.
        """
        if request.target not in _STATES:
            known = ", ".join(f"{number} {state.name}" for number, state in _STATES.items())
            why = f"target {request.target} is none of {known}"
            raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "target"})
        turns = change_in_turns(
            self._driver.engine.state,
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            target=_STATES[request.target],
            settings=self._apis.settings,
            offline_log_dirs=_ids("offline_log_dirs", request.offline_log_dirs),
            cordoned_log_dirs=_ids("cordoned_log_dirs", request.cordoned_log_dirs.items)
            if request.HasField("cordoned_log_dirs")
            else None,
        )

        async def change() -> ChangeBrokerStateResponse:
            caller = self._check(CHANGE_BROKER_STATE, context)
            self._apis.authorizing.check_node(CHANGE_BROKER_STATE, request, caller)
            self._claims.check(request.tracker_id)
            log.debug("a broker's state", broker=request.broker_id, target=request.target, reason=request.reason)
            with self._driver.tracer.state_change(request.broker_id, _STATES[request.target], request.reason):
                lane = CHANGE_BROKER_STATE.lane
                answer = await write_in_chunks(self._driver, CHANGE_BROKER_STATE.name, turns, lane=lane)
            self._set_position(answer, context)
            return ChangeBrokerStateResponse(state=CONTROL_STATE_NUMBERS[answer.response.state], offset=answer.offset)  # type: ignore[arg-type]  # the stubs' enum type

        return await self._forwarding.serve(CHANGE_BROKER_STATE, request, context, change)

    async def claim_sessions(self, request: ClaimSessionsRequest, context: Any) -> ClaimSessionsResponse:
        """Says whether the heartbeat service that asks counts, or stands by. Raises ApiError."""

        async def here() -> ClaimSessionsResponse:
            self._check(CLAIM_SESSIONS, context)
            return await self._claims.claim(request)

        return await self._forwarding.serve(CLAIM_SESSIONS, request, context, here, may_repeat=True)

    async def alter_quorum(self, request: AlterQuorumRequest, context: Any) -> AsyncIterator[AlterQuorumResponse]:
        """Has the leader write a target voter set, and streams each step. This controller's quorum node serves it."""
        self._check(ALTER_QUORUM, context)
        async for step in self._apis.quorum.alter_quorum(request, left_s=context.time_remaining()):
            yield step

    async def api_versions(self, request: ApiVersionsRequest, context: Any) -> ApiVersionsResponse:
        """Answers the API versions and features of this controller itself, active or standby, as in Kafka.

        Raises ApiError if its quorum node, which knows kraft.version, has never answered.
        """
        quorum = await self._apis.quorum.last_known()
        answer = api_versions(self._apis.features.now(), kraft_version=quorum.kraft_version, served=SERVED)
        return to_protobuf(answer)  # type: ignore[return-value]  # the protobuf class of this struct

    async def authenticate(self, request: AuthenticateRequest, context: Any) -> AuthenticateResponse:
        """Answers a message of a SCRAM exchange from the committed state of this controller, active or standby.

        Raises ApiError: SASL_AUTHENTICATION_FAILED, CLUSTER_AUTHORIZATION_FAILED if the caller is no gateway.
        """
        self._check(AUTHENTICATE, context)
        try:
            answer = self._apis.logins.answer(request.mechanism, request.messages)
        except SaslError as refusal:
            reason = {} if refusal.client_message is None else {LOGIN_REASON: refusal.client_message}
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(refusal), reason) from None
        response = AuthenticateResponse(message=answer.message)
        if answer.login is not None:
            who = answer.login.principal
            response.login.principal_type, response.login.principal_name = who.type, who.name
            response.login.is_token = answer.login.is_token
            if answer.login.expires_at_ms is not None:
                response.login.expires_at_ms = answer.login.expires_at_ms
        return response

    async def authorize(self, request: AuthorizeRequest, context: Any) -> AuthorizeResponse:
        """Answers if the caller for whom a gateway asks has CLUSTER_ACTION, for an API that another service answers.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED if not, INVALID_REQUEST for another API.
        """
        self._apis.authorizing.check_elsewhere(request.api, self._apis.authorizing.caller(context, AUTHORIZE.name))
        return AuthorizeResponse()

    async def list_error_reasons(self, request: ListErrorReasonsRequest, context: Any) -> ListErrorReasonsResponse:
        """Lists every error code with its gRPC status and whether it is retriable."""
        return _REASONS

    async def serve(self, api: Api, request: ProtobufMessage, context: Any) -> ProtobufMessage | bytes:
        """Answers a request of an API with a handler: here if this controller is active, else by the active one.

        Returns the response, a large one as bytes. Some reads are answered here also without a leader. Raises ApiError.
        """
        if request.ByteSize() >= STEP_BYTES:
            await self._check_caps(api, request)
        timeout_ms = timeout_of(api, request)
        here = partial(self._answered, api, request, context, timeout_ms)
        if not api.is_forwarded or self._is_of_this_node(request):
            return await here()
        return await self._forwarding.serve(
            api,
            request,
            context,
            here,
            alone=None if api.needs_leader else here,
            may_repeat=api.is_read,
            timeout_ms=timeout_ms,
        )

    async def _check_caps(self, api: Api, request: ProtobufMessage) -> None:
        """Checks the caps of a request, in turns of the loop if it is large. Raises ApiError."""
        if api.lane is not QueueLimit.CLUSTER:  # Kafka limits the items of an admin's request, not of a broker's
            await in_turns(check_items_in_steps(request))
        if request.ByteSize() >= LARGE_BYTES:
            await asyncio.sleep(0)

    async def _answered(
        self, api: Api, request: ProtobufMessage, context: Any, timeout_ms: int | None
    ) -> ProtobufMessage | bytes:
        """Answers a request here: its call, the answer of its handler, and that as a message. Raises ApiError."""
        caller = self._apis.authorizing.caller(context, api.name)
        asked = await struct_of(request)
        if request.ByteSize() >= LARGE_BYTES:
            await asyncio.sleep(0)
        answer = await answer_to(self._apis, Call(api=api, asked=asked, caller=caller, timeout_ms=timeout_ms))
        self._set_position(answer, context)
        return await encoded_in_turns(answer.response)

    def _is_of_this_node(self, request: ProtobufMessage) -> bool:
        """Whether the configs of this very node are asked for: nobody else has its file."""
        if not isinstance(request, DescribeConfigsRequest):
            return False
        own = str(self._apis.settings.node_id)
        return any(each.resource_type == BROKER and each.resource_name == own for each in request.resources)

    async def ask_quorum(self, api: Api, request: ProtobufMessage, context: Any) -> ProtobufMessage:
        """Answers a request about the quorum: the active controller sends it to its quorum node, which leads.

        Without a leader DescribeQuorum is answered by the own node, as one that does not lead. Raises ApiError.
        """

        async def here() -> ProtobufMessage:
            assert api.quorum_deadline_ms is not None, api.name
            self._check(api, context)
            left_s, most_ms = context.time_remaining(), api.quorum_deadline_ms
            left_ms = most_ms if left_s is None else max(1, min(most_ms, int(left_s * 1000)))
            if isinstance(request, DescribeQuorumRequest):
                return await self._apis.quorum.describe(request, deadline_ms=left_ms)
            return await self._apis.quorum.ask(api.name, request, deadline_ms=left_ms)

        alone = None if api.needs_leader else here
        return await self._forwarding.serve(api, request, context, here, alone=alone, may_repeat=api.is_read)

    def may_send(self, method: str, context: Any) -> None:
        """Refuses the caller of a large request, before it is decoded, that has not the API's right on the cluster.

        Only the active controller knows: a standby leaves it to the one to which it forwards the call. Raises ApiError,
        as `Authorizing.check`, which is asked again for the request itself.
        """
        api = APIS.get(method.rpartition("/")[2])
        if api is not None and (self._driver.is_active or not api.is_forwarded):
            self._apis.authorizing.check_early(api, self._apis.authorizing.caller(context, api.name))

    def _check(self, api: Api, context: Any) -> Caller:
        """Returns the caller. Raises ApiError(CLUSTER_AUTHORIZATION_FAILED) if it may not send this request."""
        caller = self._apis.authorizing.caller(context, api.name)
        self._apis.authorizing.check(api, caller)
        return caller

    def _set_position(self, answer: Answer, context: Any) -> None:
        """Sets the call's trailing metadata: leader id and epoch, the log offset of the answer, and who gives it."""
        context.set_trailing_metadata(
            (
                *(() if self._driver.is_active else (("kraft-standby", "true"),)),
                ("kraft-leader-id", str(self._driver.leader_id)),
                ("kraft-leader-epoch", str(answer.epoch)),
                ("kraft-offset", str(answer.offset)),
            )
        )


def add_to_server(service: ControllerService, server: grpc.aio.Server) -> None:
    """Adds all RPCs of `kraft.service.Controller` to a server, as generated code adds the methods of a servicer."""
    described = DESCRIPTOR.services_by_name["Controller"]
    handlers = {}
    for name, serve in service.methods().items():
        method = described.methods_by_name[name]
        response: Any = GetMessageClass(method.output_type)
        handlers[name] = _KINDS[method.client_streaming, method.server_streaming](
            serve,
            request_deserializer=APIS[name].request.FromString,
            response_serializer=response.SerializeToString,
        )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(described.full_name, handlers),))
    server.add_registered_method_handlers(described.full_name, handlers)


_KINDS: Final[Mapping[tuple[bool, bool], Callable[..., Any]]] = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}
"""How gRPC makes a method, by whether its requests and its responses are streams."""


_REASONS: Final = ListErrorReasonsResponse(
    reasons=[
        ListErrorReasonsResponse.Reason(
            error_code=code,  # type: ignore[arg-type]  # the stubs' enum type does not know ours
            status=status_code(code).name,
            retriable=is_retriable(ApiError(code, "")),
        )
        for code in ErrorCode
        if code is not ErrorCode.NONE
    ]
)
"""Made once: it is the same for each caller, and took as long as the rest of the call."""


def _served() -> Iterator[ApiVersionsStruct.ApiVersion]:
    """Yields each Kafka API of the table with all its versions: a protobuf message has the fields of all of them."""
    for api in APIS.values():
        if api.request.DESCRIPTOR.file.package == "kraft.api":
            message: Any = api.request  # a class, which the stubs do not take for hashable
            request = layout(message)
            assert request.key is not None, api.name
            yield ApiVersionsStruct.ApiVersion(request.key, request.versions.start, request.versions.stop - 1)


SERVED: Final = tuple(sorted(_served(), key=lambda api: api.api_key))
"""The Kafka APIs that ApiVersions lists, by API key."""


def _ids(field: str, texts: Iterable[str]) -> tuple[Uuid, ...]:
    """Parses directory ids. Raises ApiError(INVALID_REQUEST) with the field's name for a malformed one."""
    try:
        return tuple(map(parse_uuid, texts))
    except ValueError as problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{field}: {problem}", {"field": field}) from None


_STATES: Final = {number: state for state, number in CONTROL_STATE_NUMBERS.items()}
