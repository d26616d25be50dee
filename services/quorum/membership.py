"""The RPCs that change who votes or who leads, and those that a change needs (KIP-853)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest, AddRaftVoterResponse
from kraft.api.api_versions_pb2 import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft.api.update_raft_voter_pb2 import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft.service.quorum_pb2 import (
    AlterQuorumRequest,
    AlterQuorumResponse,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
)
from kraft.service.quorum_pb2_grpc import QuorumServicer
from services.quorum import translate
from services.quorum.alteration import LeaderFinder, Walk
from services.quorum.driver import Driver
from services.quorum.translate import Endpoints


class MembershipServicer(QuorumServicer):
    """The part of `kraft.service.Quorum` that is about voters."""

    def __init__(self, driver: Driver, endpoints: Endpoints) -> None:
        self._driver = driver
        self._endpoints = endpoints
        self._leaders = LeaderFinder(driver, endpoints)

    async def ApiVersions(self, request: ApiVersionsRequest, context: Any) -> ApiVersionsResponse:
        """KIP-35, KIP-584."""
        answer, _ = await self._driver.ask(lambda reply: translate.api_versions_request(request, reply))
        return translate.api_versions_answer(answer)

    async def AddRaftVoter(self, request: AddRaftVoterRequest, context: Any) -> AddRaftVoterResponse:
        """KIP-853; answered when it is committed, or will not be."""
        answer, _ = await self._driver.ask(lambda reply: translate.add_request(request, reply))
        return translate.add_answer(answer)

    async def RemoveRaftVoter(self, request: RemoveRaftVoterRequest, context: Any) -> RemoveRaftVoterResponse:
        """KIP-853; as above."""
        answer, _ = await self._driver.ask(lambda reply: translate.remove_request(request, reply))
        return translate.remove_answer(answer)

    async def UpdateRaftVoter(self, request: UpdateRaftVoterRequest, context: Any) -> UpdateRaftVoterResponse:
        """KIP-853."""
        answer, _ = await self._driver.ask(lambda reply: translate.update_request(request, reply))
        return translate.update_answer(answer, self._endpoints)

    async def TransferLeadership(self, request: TransferLeadershipRequest, context: Any) -> TransferLeadershipResponse:
        """Answered when the voter leads, or did not catch up in time."""
        answer, _ = await self._driver.ask(lambda reply: translate.transfer_request(request, reply))
        return translate.transfer_answer(answer)

    async def AlterQuorum(self, request: AlterQuorumRequest, context: Any) -> AsyncIterator[AlterQuorumResponse]:
        """KIP-595's name for what KIP-853 does voter by voter."""
        walk = Walk(request, self._leaders)
        async for step in walk.plan() if request.validate_only else walk.steps():
            yield step

    async def close(self) -> None:
        """Close every connection."""
        await self._leaders.close()
