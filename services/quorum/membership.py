"""The gRPC servicer for membership changes (KIP-853): voters, leadership transfer, AlterQuorum, controller presence."""

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
    ControllerPresenceRequest,
    ControllerPresenceResponse,
    SetTargetVotersResponse,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
)
from kraft.service.quorum_pb2_grpc import QuorumServicer
from quorate.runtime.connections.transport import PLAIN, Transport
from services.quorum import translate
from services.quorum.alter_quorum import Alteration, LeaderFinder
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.translate import Endpoints


class MembershipServicer(QuorumServicer):
    """Serves the RPCs of `kraft.service.Quorum` for membership changes and leadership transfer."""

    def __init__(self, driver: QuorumDriver, endpoints: NodeEndpoints, transport: Transport = PLAIN) -> None:
        self._driver = driver
        self._endpoints = endpoints
        self._transport = transport
        self._leaders = LeaderFinder(driver, endpoints, transport)

    async def ApiVersions(self, request: ApiVersionsRequest, context: Any) -> ApiVersionsResponse:
        """Answers the APIs and the kraft.version range that this node supports. KIP-35, KIP-584."""
        answer, _ = await self._driver.ask(lambda reply: translate.api_versions_request(request, reply))
        return translate.api_versions_answer(answer)

    async def AddRaftVoter(self, request: AddRaftVoterRequest, context: Any) -> AddRaftVoterResponse:
        """Adds a voter, as leader; answers once the change is committed or has failed. KIP-853.

        Without `ack_when_committed` it answers once the change is in its log. A node that does not lead answers
        NOT_LEADER_OR_FOLLOWER.
        """
        answer, _ = await self._driver.ask(lambda reply: translate.add_request(request, reply))
        return translate.add_answer(answer)

    async def RemoveRaftVoter(self, request: RemoveRaftVoterRequest, context: Any) -> RemoveRaftVoterResponse:
        """Removes a voter, as leader; answers once the change is committed or has failed. KIP-853.

        A node that does not lead answers NOT_LEADER_OR_FOLLOWER.
        """
        answer, _ = await self._driver.ask(lambda reply: translate.remove_request(request, reply))
        return translate.remove_answer(answer)

    async def UpdateRaftVoter(self, request: UpdateRaftVoterRequest, context: Any) -> UpdateRaftVoterResponse:
        """Writes a voter's listeners and kraft.version range into the log, as leader. KIP-853.

        It answers before that is committed. At kraft.version 0 it only remembers them. A node that does not lead
        refuses, and names the leader.
        """
        answer, _ = await self._driver.ask(lambda reply: translate.update_request(request, reply))
        return translate.update_answer(answer, self._for(context))

    async def ControllerPresence(self, request: ControllerPresenceRequest, context: Any) -> ControllerPresenceResponse:
        """Notes at the leader whether a voter's controller is present; other nodes answer NOT_LEADER_OR_FOLLOWER."""
        answer, _ = await self._driver.ask(lambda reply: translate.presence_request(request, reply))
        return translate.presence_answer(answer)

    async def TransferLeadership(self, request: TransferLeadershipRequest, context: Any) -> TransferLeadershipResponse:
        """Transfers its leadership; answers once the voter leads, or has not caught up in time. Raft thesis 3.10."""
        answer, _ = await self._driver.ask(lambda reply: translate.transfer_request(request, reply))
        return translate.transfer_answer(answer)

    async def AlterQuorum(self, request: AlterQuorumRequest, context: Any) -> AsyncIterator[AlterQuorumResponse]:
        """Has the leader write a target voter set, and streams each step (KIP-595, first form)."""
        async for step in Alteration(request, self._leaders, self._driver, self._endpoints).steps():
            yield step

    async def SetTargetVoters(self, request: AlterQuorumRequest, context: Any) -> SetTargetVotersResponse:
        """Writes a target voter set into the log, as leader, and answers when that is committed.

        A node that does not lead answers NOT_LEADER_OR_FOLLOWER.
        """
        answer, _ = await self._driver.ask(lambda reply: translate.alter_request(request, reply))
        return translate.alter_answer(answer)

    def _for(self, context: Any) -> Endpoints:
        """Returns the addresses for who asks; overridden where they depend on it."""
        return self._endpoints

    async def close(self) -> None:
        """Closes the channels to leaders."""
        await self._leaders.close()
