"""What a controller asks of the quorum node beside it, unary: the streams are in `quorum_link.py`."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc

from kraft.service.quorum_pb2 import (
    AlterQuorumRequest,
    AlterQuorumResponse,
    ConfirmLeadershipRequest,
    FindQuorumRequest,
    UpgradeKRaftVersionRequest,
)
from kraft.service.quorum_pb2_grpc import QuorumStub, RaftClientStub
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Epoch
from quorate.runtime.client import call

DEADLINE_MS: Final = 5_000
"""For a question to the node beside, which answers out of what it knows."""
CHANGE_DEADLINE_MS: Final = 60_000
"""A change of voters is answered once it is committed, or refused within its own time limit before."""


UNTOUCHED: Final = "untouched"
"""Metadata key of a refusal by which nothing was begun, so that the same call may go to another controller."""


class QuorumNode:
    """The node beside. Everything raises ApiError."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._quorum = QuorumStub(channel)
        self._raft_client = RaftClientStub(channel)
        self._under_way: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None

    async def kraft_version(self) -> int:
        """1 where the log has the voters (KIP-853), which is for the quorum node to know."""
        found = await call(self._quorum.FindQuorum, FindQuorumRequest(), deadline_ms=DEADLINE_MS)
        return found.kraft_version

    async def confirm(self, epoch: Epoch) -> None:
        """Returns if the node led `epoch` at some moment after this was called. Raises ApiError.

        Whoever calls meanwhile shares the next answer: the one under way may be older than their question.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._confirm_after(self._under_way, epoch))
        await asyncio.shield(self._next)

    async def _confirm_after(self, under_way: asyncio.Future[None] | None, epoch: Epoch) -> None:
        if under_way is not None:
            await asyncio.wait([under_way])
        self._under_way, self._next = self._next, None
        request = ConfirmLeadershipRequest(epoch=epoch)
        answer = await call(self._raft_client.ConfirmLeadership, request, deadline_ms=DEADLINE_MS)
        if answer.error_code:
            raise ApiError(
                ErrorCode.NOT_CONTROLLER,
                f"the quorum node beside leads no more in epoch {epoch}: {ErrorCode(answer.error_code).name}",
                {UNTOUCHED: "true"},
            )

    async def upgrade_kraft_version(self, version: int, epoch: Epoch, *, validate_only: bool = False) -> None:
        """Has the node, which leads `epoch`, write the level. The refusal names what is in the way."""
        request = UpgradeKRaftVersionRequest(epoch=epoch, version=version, validate_only=validate_only)
        _raise(await call(self._raft_client.UpgradeKRaftVersion, request, deadline_ms=DEADLINE_MS))

    async def ask(self, rpc: str, request: Any, *, deadline_ms: int) -> Any:
        """The answer to a request about the quorum, as it came. A request that fails as a whole raises."""
        answer = await call(getattr(self._quorum, rpc), request, deadline_ms=deadline_ms)
        _raise(answer)
        return answer

    def alter_quorum(
        self, request: AlterQuorumRequest, *, left_s: float | None
    ) -> grpc.aio.UnaryStreamCall[AlterQuorumRequest, AlterQuorumResponse]:
        """The walk to another voter set, step by step."""
        return self._quorum.AlterQuorum(request, timeout=left_s)


def _raise(answer: Any) -> None:
    if answer.error_code:
        raise ApiError(ErrorCode(answer.error_code), answer.error_message)
