"""gRPC ↔ the driver: each RPC becomes a command here, or is passed on to the active controller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final

import grpc

from kraft import Uuid
from kraft.service.admin_pb2 import AdminRequest, AdminRequests, AdminResponse, AdminResponses
from kraft.service.controller_pb2 import (
    ChangeBrokerStateRequest,
    ChangeBrokerStateResponse,
    ListErrorReasonsRequest,
    ListErrorReasonsResponse,
)
from kraft.service.controller_pb2_grpc import ControllerServicer
from kraft.service.quorum_pb2 import AlterQuorumRequest, AlterQuorumResponse
from quorate.controller.commands.change_broker_state import change_in_turns
from quorate.controller.engine import Answer
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.nouns import parse_uuid
from quorate.runtime.statuses import error_from_call, is_retriable, status_code
from quorate.wire.protobuf import to_protobuf, to_struct
from services.controller.admin import AdminDoor
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.forwarding import Forwarding
from services.controller.handlers import HANDLERS, answer_to
from services.controller.quorum_node import CHANGE_DEADLINE_MS, DEADLINE_MS

ABOUT_THE_QUORUM: Final = {
    "AddRaftVoter": CHANGE_DEADLINE_MS,
    "DescribeQuorum": DEADLINE_MS,
    "RemoveRaftVoter": CHANGE_DEADLINE_MS,
    "TransferLeadership": CHANGE_DEADLINE_MS,
}
"""RPCs that the leader's quorum node answers, which lies beside the active controller, and how long it may take."""


class Servicer(ControllerServicer):
    """Serves `kraft.service.Controller` on one controller, active or not. Most of its methods come from tables."""

    def __init__(self, apis: Apis, forwarding: Forwarding, admin: AdminDoor) -> None:
        self._apis = apis
        self._driver = apis.driver
        self._forwarding = forwarding
        self._admin = admin

    async def Submit(self, request: AdminRequest, context: Any) -> AdminResponse:
        """One envelope."""
        return await self._admin.submit(request, context)

    async def AdminStream(
        self, request_iterator: AsyncIterator[AdminRequests], context: Any
    ) -> AsyncIterator[AdminResponses]:
        """Many envelopes."""
        async for answer in self._admin.stream(request_iterator, context):
            yield answer

    async def ChangeBrokerState(self, request: ChangeBrokerStateRequest, context: Any) -> ChangeBrokerStateResponse:
        """The heartbeat service reports, this controller decides."""
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
            self._check("ChangeBrokerState", context)
            answer = await self._driver.write_in_turns("ChangeBrokerState", turns)
            self._speak_of(answer, context)
            return ChangeBrokerStateResponse(state=_NUMBERS[answer.response.state], offset=answer.offset)  # type: ignore[arg-type]

        return await self._forwarding.serve("ChangeBrokerState", request, context, change)

    async def AlterQuorum(self, request: AlterQuorumRequest, context: Any) -> AsyncIterator[AlterQuorumResponse]:
        """The quorum node beside this controller walks, whoever leads."""
        self._check("AlterQuorum", context)
        try:
            async for step in self._apis.quorum.alter_quorum(request, left_s=context.time_remaining()):
                yield step
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error) from None

    async def ListErrorReasons(self, request: ListErrorReasonsRequest, context: Any) -> ListErrorReasonsResponse:
        """Every error that there is."""
        reason = ListErrorReasonsResponse.Reason
        return ListErrorReasonsResponse(
            reasons=[
                reason(
                    error_code=code,  # type: ignore[arg-type]  # the stubs' enum type does not know ours
                    status=status_code(code).name,
                    retriable=is_retriable(ApiError(code, "")),
                )
                for code in ErrorCode
                if code is not ErrorCode.NONE
            ]
        )

    async def serve(self, rpc: str, request: Any, context: Any) -> Any:
        """One of `HANDLERS`."""

        async def here() -> Any:
            principal, host, client_id = self._apis.authorizing.caller(context)
            call = Call(rpc=rpc, asked=to_struct(request), principal=principal, host=host, client_id=client_id)
            answer = await answer_to(self._apis, call)
            self._speak_of(answer, context)
            return to_protobuf(answer.response)

        return await self._forwarding.serve(rpc, request, context, here)

    async def ask_quorum(self, rpc: str, request: Any, context: Any) -> Any:
        """One of `ABOUT_THE_QUORUM`."""

        async def here() -> Any:
            self._check(rpc, context)
            left_s, most_ms = context.time_remaining(), ABOUT_THE_QUORUM[rpc]
            left_ms = most_ms if left_s is None else max(1, min(most_ms, int(left_s * 1000)))
            return await self._apis.quorum.ask(rpc, request, deadline_ms=left_ms)

        return await self._forwarding.serve(rpc, request, context, here)

    def _check(self, rpc: str, context: Any) -> None:
        """May whoever calls ask for this? Raises ApiError(CLUSTER_AUTHORIZATION_FAILED)."""
        self._apis.authorizing.check(rpc, self._apis.authorizing.caller(context))

    def _speak_of(self, answer: Answer, context: Any) -> None:
        """Say of which state the answer speaks."""
        context.set_trailing_metadata(
            (
                ("kraft-leader-id", str(self._driver.leader_id)),
                ("kraft-leader-epoch", str(answer.epoch)),
                ("kraft-offset", str(answer.offset)),
            )
        )


def _ids(field: str, texts: Iterable[str]) -> tuple[Uuid, ...]:
    """Raises ApiError(INVALID_REQUEST) for what is no id."""
    try:
        return tuple(map(parse_uuid, texts))
    except ValueError as problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{field}: {problem}", {"field": field}) from None


def _method(serve: Callable[[Servicer, str, Any, Any], Awaitable[Any]], rpc: str) -> Callable[..., Awaitable[Any]]:
    async def method(self: Servicer, request: Any, context: Any) -> Any:
        return await serve(self, rpc, request, context)

    return method


for _rpc in HANDLERS:
    setattr(Servicer, _rpc, _method(Servicer.serve, _rpc))
for _rpc in ABOUT_THE_QUORUM:
    setattr(Servicer, _rpc, _method(Servicer.ask_quorum, _rpc))

_STATES: Final = {
    1: ControlState.FENCED,
    2: ControlState.UNFENCED,
    3: ControlState.CONTROLLED_SHUTDOWN,
    4: ControlState.SHUTDOWN_NOW,
}
"""The proto's enum numbers, which have an unspecified one below them."""
_NUMBERS: Final = {state: number for number, state in _STATES.items()}
