"""AlterQuorum: has the leader add and remove voters until the voter set is the target.

The walk keeps nothing: before each step it asks the leader of the moment who votes, and takes the first step of
the way from there. So it survives a change of leader, and whoever asks again goes on where another has stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

import grpc

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest, AddRaftVoterResponse
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft.service.quorum_pb2 import AlterQuorumRequest, AlterQuorumResponse, FindQuorumRequest, FindQuorumResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId, ReplicaKey, uuid_text
from quorate.raft.alteration import Add, Step, way
from quorate.raft.roles import known_leader
from quorate.runtime.client import call, open_channel
from quorate.runtime.statuses import is_retriable
from services.quorum.driver import Driver
from services.quorum.translate import Address, Endpoints
from services.quorum.translate.envelope import key_of

STEP_TIMEOUT_MS: Final = 30_000
"""A new voter that is far behind is waited for by asking again, so this is no limit to the whole."""
MARGIN_MS: Final = 1_000
"""The leader answers in time; the call only ends a little later than that."""
PAUSE_S: Final = 0.2
"""Between two tries of one step."""

_RACED: Final = frozenset({ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND})
"""Somebody else has done this step: look again."""
_Told = AlterQuorumResponse


class LeaderFinder:
    """The way to whoever leads, as this node knows it: the node itself, too."""

    def __init__(self, driver: Driver, endpoints: Endpoints) -> None:
        self._driver = driver
        self._endpoints = endpoints
        self._channels: dict[Address, grpc.aio.Channel] = {}

    async def leader(self) -> tuple[NodeId, QuorumStub] | None:
        """Who leads and how it is asked; None while nobody does, or nobody knows where it listens."""
        leader_id = known_leader(self._driver.core.role)
        if leader_id is None or leader_id not in self._endpoints:
            return None
        address = self._endpoints[leader_id]
        if address not in self._channels:
            self._channels[address] = open_channel(str(address))
        return leader_id, QuorumStub(self._channels[address])

    async def close(self) -> None:
        """Close every connection."""
        for channel in self._channels.values():
            await channel.close()


class Walk:
    """One walk to one target. Raises ApiError(INVALID_REQUEST) for a target that cannot be one."""

    def __init__(self, request: AlterQuorumRequest, leader: LeaderFinder) -> None:
        self._target = {key_of(voter.id, voter.directory_id): voter for voter in request.voters}
        self._cluster_id = request.cluster_id or None
        self._leader = leader

    async def plan(self) -> AsyncIterator[AlterQuorumResponse]:
        """Every step that there is now; nothing is done."""
        view, _ = await self._view()
        steps = self._way(view)
        for done, step in enumerate(steps):
            told = _Told.STEP_ADDING if isinstance(step, Add) else _Told.STEP_REMOVING
            yield self._about(told, step, view, len(steps) - done - 1)
        yield _Told(step=_Told.STEP_DONE, voters=view.voters)

    async def steps(self) -> AsyncIterator[AlterQuorumResponse]:
        """Every step as it is done. Raises ApiError for what no waiting helps."""
        begun: Step | None = None
        while True:
            view, stub = await self._view()
            way_left = self._way(view)
            if not way_left:
                yield _Told(step=_Told.STEP_DONE, voters=view.voters)
                return
            step = way_left[0]
            is_add = isinstance(step, Add)
            if step != begun:
                begun = step
                told = _Told.STEP_ADDING if is_add else _Told.STEP_REMOVING
                yield self._about(told, step, view, len(way_left) - 1)
            refusal = await self._take(step, stub)
            if refusal is None:
                view, _ = await self._view()
                left = len(self._way(view))
                yield self._about(_Told.STEP_ADDED if is_add else _Told.STEP_REMOVED, step, view, left)
            elif refusal.code not in _RACED:
                if not is_retriable(refusal):
                    raise refusal
                waiting = self._about(_Told.STEP_WAITING, step, view, len(way_left) - 1)
                waiting.reason = f"{refusal.code.name}: {refusal.message}"
                yield waiting
                await asyncio.sleep(PAUSE_S)

    async def _view(self) -> tuple[FindQuorumResponse, QuorumStub]:
        """The quorum as its leader sees it, once there is one that answers."""
        while True:
            found = await self._leader.leader()
            if found is not None:
                leader_id, stub = found
                try:
                    view = await call(stub.FindQuorum, FindQuorumRequest(), deadline_ms=STEP_TIMEOUT_MS)
                except ApiError as failure:
                    if not is_retriable(failure):
                        raise
                else:
                    if view.leader_id == view.node_id == leader_id:
                        return view, stub
            await asyncio.sleep(PAUSE_S)

    def _way(self, view: FindQuorumResponse) -> tuple[Step, ...]:
        try:
            steps = way(_keys(view.voters), list(self._target), view.leader_id)
        except ValueError as problem:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"voters: {problem}", {"field": "voters"}) from None
        for step in steps:
            if isinstance(step, Add) and not self._target[step.key].listeners:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"voters: {step.key} is to be added, and has no listeners; the other voters must find it",
                    {"field": "voters"},
                )
        return steps

    async def _take(self, step: Step, stub: QuorumStub) -> ApiError | None:
        """Asks the leader for one step; None once it is committed, else why not."""
        answer: AddRaftVoterResponse | RemoveRaftVoterResponse
        try:
            if isinstance(step, Add):
                answer = await call(stub.AddRaftVoter, self._add(step.key), deadline_ms=STEP_TIMEOUT_MS + MARGIN_MS)
            else:
                answer = await call(stub.RemoveRaftVoter, self._remove(step.key), deadline_ms=STEP_TIMEOUT_MS)
        except ApiError as failure:
            return failure
        return ApiError(ErrorCode(answer.error_code), answer.error_message) if answer.error_code else None

    def _add(self, key: ReplicaKey) -> AddRaftVoterRequest:
        return AddRaftVoterRequest(
            cluster_id=self._cluster_id,
            timeout_ms=STEP_TIMEOUT_MS,
            voter_id=key.id,
            voter_directory_id=uuid_text(key.directory_id),
            listeners=self._target[key].listeners,
        )

    def _remove(self, key: ReplicaKey) -> RemoveRaftVoterRequest:
        return RemoveRaftVoterRequest(
            cluster_id=self._cluster_id, voter_id=key.id, voter_directory_id=uuid_text(key.directory_id)
        )

    @staticmethod
    def _about(what: _Told.Step.ValueType, step: Step, view: FindQuorumResponse, left: int) -> AlterQuorumResponse:
        return _Told(
            step=what,
            voter_id=step.key.id,
            directory_id=uuid_text(step.key.directory_id),
            steps_left=left,
            voters=view.voters,
        )


def _keys(voters: Iterable[FindQuorumResponse.Voter]) -> list[ReplicaKey]:
    return [key_of(voter.id, voter.directory_id) for voter in voters]
