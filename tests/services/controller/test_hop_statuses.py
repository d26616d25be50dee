"""What a controller says of its quorum node's failures: they are that call's, and not the answer to its own caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest
from kraft.service.quorum_pb2 import AlterQuorumRequest
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.clients.client import open_channel
from quorate.runtime.requests.statuses import UNTOUCHED, trailing_metadata
from services.controller.quorum_node import QuorumNode

_S: Final = grpc.StatusCode
_E: Final = ErrorCode


class Refusing(grpc.GenericRpcHandler):
    """Ends each call by one status, as gRPC does it where no handler has been reached."""

    def __init__(self, status: grpc.StatusCode, trailing: Any = ()) -> None:
        self._end = (status, "it ends", trailing)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def end(request: bytes, context: Any) -> bytes:
            await context.abort(*self._end)
            raise AssertionError("an aborted call has no answer")

        return grpc.unary_unary_rpc_method_handler(end)


@asynccontextmanager
async def node(status: grpc.StatusCode, trailing: Any = ()) -> AsyncIterator[QuorumNode]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Refusing(status, trailing),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        yield QuorumNode(channel)
    await server.stop(0)


async def altered(quorum: QuorumNode) -> None:
    async for _ in quorum.alter_quorum(AlterQuorumRequest(), left_s=60):
        pass


ASKED: Final[dict[str, tuple[Callable[[QuorumNode], Awaitable[object]], bool]]] = {
    "FindQuorum": (lambda quorum: quorum.quorum(), True),
    "FindQuorum, or what it last said": (lambda quorum: quorum.last_known(), True),
    "ConfirmLeadership": (lambda quorum: quorum.confirm(7), True),
    "UpgradeKRaftVersion": (lambda quorum: quorum.upgrade_kraft_version(1, 7), False),
    "AddRaftVoter": (lambda quorum: quorum.ask("AddRaftVoter", AddRaftVoterRequest(), deadline_ms=60_000), False),
    "AlterQuorum": (altered, False),
}
"""Each with whether it leaves all as it was, so that another controller may be asked."""


@pytest.mark.parametrize("rpc", ASKED)
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (_S.UNAVAILABLE, _E.NOT_CONTROLLER),
        (_S.CANCELLED, _E.NOT_CONTROLLER),
        (_S.DEADLINE_EXCEEDED, _E.REQUEST_TIMED_OUT),
        (_S.RESOURCE_EXHAUSTED, _E.THROTTLING_QUOTA_EXCEEDED),
        (_S.UNIMPLEMENTED, _E.UNKNOWN_SERVER_ERROR),
        (_S.UNAUTHENTICATED, _E.UNKNOWN_SERVER_ERROR),
        (_S.PERMISSION_DENIED, _E.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_bare_status_is_an_error_of_the_controller(rpc: str, status: grpc.StatusCode, code: ErrorCode) -> None:
    ask, leaves_all = ASKED[rpc]
    async with node(status) as quorum:
        with pytest.raises(
            ApiError, match=f"the quorum node beside this controller: {status.name}: it ends"
        ) as refused:
            await ask(quorum)

    assert code is refused.value.code
    assert (leaves_all and code is _E.NOT_CONTROLLER) == (UNTOUCHED in refused.value.metadata)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (_E.CLUSTER_AUTHORIZATION_FAILED, _E.UNKNOWN_SERVER_ERROR),  # it is this controller that has no right
        (_E.SASL_AUTHENTICATION_FAILED, _E.UNKNOWN_SERVER_ERROR),
        (_E.INVALID_REQUEST, _E.INVALID_REQUEST),
    ],
)
async def test_a_refusal_of_the_controller_is_not_its_callers(sent: ErrorCode, told: ErrorCode) -> None:
    async with node(_S.PERMISSION_DENIED, trailing_metadata(ApiError(sent, "it ends"))) as quorum:
        with pytest.raises(ApiError, match="it ends") as refused:
            await quorum.ask("AddRaftVoter", AddRaftVoterRequest(), deadline_ms=60_000)

    assert told is refused.value.code
