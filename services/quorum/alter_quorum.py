"""AlterQuorum: has the leader write a target voter set into the log, and streams each step of the change to the caller.

The leader of the time takes the steps (`quorate.raft.walking`), even if this node or the caller is gone. The steps are
read from the voter sets in this node's own log, so every node reports the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Final

from kraft.service.quorum_pb2 import AlterQuorumRequest, AlterQuorumResponse, FindQuorumRequest, FindQuorumResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ApiError, ErrorCode, error_name, refusal_of
from quorate.nouns import NOBODY, NodeId, Offset, ReplicaKey, uuid_text
from quorate.raft.roles import known_leader
from quorate.raft.target_voters import Add, Step, steps_between
from quorate.raft.voters import VoterSet
from quorate.runtime.clients.client import Channels, call, open_channel
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.requests.statuses import is_retriable
from services.quorum import translate
from services.quorum.describe import announced_voters
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.translate import Endpoints

SET_TIMEOUT_MS: Final = 5_000
"""Deadline of SetTargetVoters: above `controller.quorum.request.timeout.ms`, in which a live leader answers."""
LOOK_TIMEOUT_MS: Final = 1_000
"""Deadline of the query for the leader's failed step; short, as it is only for the report."""
PAUSE_S: Final = 0.2
"""Pause (s) between two attempts to set the target, and between two queries for the leader's failed step."""

_Report = AlterQuorumResponse


class LeaderFinder:
    """Finds the leader that this node knows, and keeps a channel to it; the leader may be this node."""

    def __init__(self, driver: QuorumDriver, endpoints: Endpoints, transport: Transport = PLAIN) -> None:
        self._driver = driver
        self._endpoints = endpoints
        self._channels = Channels(lambda address: open_channel(address, transport))

    async def leader(self) -> tuple[NodeId, QuorumStub] | None:
        """Returns the leader's id and a gRPC stub of it; None while no leader or no gRPC address of it is known."""
        leader_id = known_leader(self._driver.core.role)
        if leader_id is None or leader_id not in self._endpoints:
            return None
        return leader_id, QuorumStub(self._channels[str(self._endpoints[leader_id])])

    async def close(self) -> None:
        """Closes the channels."""
        await self._channels.close()


class Alteration:
    """Serves one AlterQuorum request: has the leader set the target, and reports the steps; `steps` does the work.

    Raises ApiError(INVALID_REQUEST) for an invalid target.
    """

    def __init__(
        self, request: AlterQuorumRequest, leader: LeaderFinder, driver: QuorumDriver, endpoints: NodeEndpoints
    ) -> None:
        self._request = request
        self._target = translate.alter_request(request, None).target
        self._leader = leader
        self._driver = driver
        self._endpoints = endpoints

    async def steps(self) -> AsyncIterator[AlterQuorumResponse]:
        """Has the leader write the target into the log, and yields each step that is committed.

        It ends once the target is reached, cancelled or replaced by another. With `validate_only` it yields the steps
        that would be taken. A retriable error is yielded as STEP_WAITING, and tried again without end. Raises ApiError
        for any other.
        """
        while isinstance(offset := await self._set(), ApiError):
            yield _Report(step=_Report.STEP_WAITING, reason=f"{offset.code.name}: {offset.message}")
            await asyncio.sleep(PAUSE_S)
        if self._request.validate_only:
            for step in self._plan(self._driver.core.log.voters.latest):
                yield step
        elif self._target is None:
            yield self._end(_Report.STEP_CANCELLED, self._driver.core.log.voters.latest)
        else:
            async for step in self._walk(offset, self._target):
                yield step

    async def _set(self) -> Offset | ApiError:
        """Asks the leader to write the target; returns the offset from which the log has it, or a retriable error.

        Raises ApiError for a final error.
        """
        if (found := await self._leader.leader()) is None:
            return ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader is known")
        _, stub = found
        try:
            answer = await call(stub.SetTargetVoters, self._request, deadline_ms=SET_TIMEOUT_MS)
        except ApiError as failure:
            refusal = failure.as_value()
        else:
            if not answer.error_code:
                return answer.offset
            refusal = refusal_of(answer.error_code, answer.error_message)
        if not is_retriable(refusal):
            raise refusal
        return refusal

    def _plan(self, voters: VoterSet) -> Iterator[AlterQuorumResponse]:
        """Yields the steps from `voters` to the target, without doing them (`validate_only`)."""
        steps = () if self._target is None else _way(voters, self._target, self._leader_id)
        for done, step in enumerate(steps):
            yield self._about(_begins(step), step.key, voters, len(steps) - done - 1)
        yield self._end(_Report.STEP_CANCELLED if self._target is None else _Report.STEP_DONE, voters)

    async def _walk(self, offset: Offset, target: VoterSet) -> AsyncIterator[AlterQuorumResponse]:
        """Yields each step once it is committed, and each new reason why the next one fails, until the change ends."""
        sets, known, heard = CommittedSets(self._driver, offset), None, FindQuorumResponse.FailedStep()
        while True:
            changed = self._driver.changed
            for voters in sets.take():
                for step in self._steps(known, voters, target):
                    yield step
                if voters.target is None or voters.target.keys != target.keys:
                    yield self._end(_outcome(voters, target), voters)
                    return
                known = voters
            failed = await self._failed_step(target)
            if known is not None and failed is not None and failed != heard:
                heard = failed
                reason = f"{error_name(failed.error_code)}: {failed.error_message}"
                waiting = self._end(_Report.STEP_WAITING, known)
                waiting.voter_id, waiting.directory_id, waiting.reason = failed.voter_id, failed.directory_id, reason
                waiting.steps_left = max(0, len(_way(known, target, self._leader_id)) - 1)
                yield waiting
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S):
                    await changed.wait()

    def _steps(self, known: VoterSet | None, voters: VoterSet, target: VoterSet) -> Iterator[AlterQuorumResponse]:
        """Yields the voters added and removed between the sets `known` and `voters`, and the step that begins next."""
        left = _way(voters, target, self._leader_id)
        before = voters.keys if known is None else known.keys
        for key in voters.keys:
            if key not in before:
                yield self._about(_Report.STEP_ADDED, key, voters, len(left))
        for key in before:
            if key not in voters.keys:
                yield self._about(_Report.STEP_REMOVED, key, voters, len(left))
        if left and voters.target is not None and voters.target.keys == target.keys:
            yield self._about(_begins(left[0]), left[0].key, voters, len(left) - 1)

    async def _failed_step(self, target: VoterSet) -> FindQuorumResponse.FailedStep | None:
        """Queries the leader for the step to `target` that failed last; None if there is none, or no leader."""
        found = await self._leader.leader()
        if found is None:
            return None
        _, stub = found
        try:
            view: FindQuorumResponse = await call(stub.FindQuorum, FindQuorumRequest(), deadline_ms=LOOK_TIMEOUT_MS)
        except ApiError:
            return None
        sought = [(key.id, uuid_text(key.directory_id)) for key in target.keys]
        is_ours = [(voter.id, voter.directory_id) for voter in view.target_voters] == sought
        return view.failed_step if is_ours and view.HasField("failed_step") else None

    @property
    def _leader_id(self) -> NodeId | None:
        return known_leader(self._driver.core.role)

    def _about(
        self, what: _Report.Step.ValueType, key: ReplicaKey, voters: VoterSet, steps_left: int
    ) -> AlterQuorumResponse:
        return _Report(
            step=what,
            voter_id=key.id,
            directory_id=uuid_text(key.directory_id),
            steps_left=steps_left,
            voters=announced_voters(voters, self._endpoints),
        )

    def _end(self, what: _Report.Step.ValueType, voters: VoterSet) -> AlterQuorumResponse:
        return _Report(step=what, voter_id=NOBODY, voters=announced_voters(voters, self._endpoints))


class CommittedSets:
    """Reads the committed voter sets of this node's log in order, from the one in force after offset `offset` on."""

    def __init__(self, driver: QuorumDriver, offset: Offset) -> None:
        self._driver = driver
        self._next = offset + 1
        self._has_begun = False

    def take(self) -> Iterator[VoterSet]:
        """Yields the voter sets committed since the last call, none while `offset` is not committed here.

        The first is the one in force after `offset`. If the log start has moved beyond what was read, the set in force
        there comes next, which may be the one yielded last: of the sets before the log start only the last is known.
        """
        log, end = self._driver.core.log, self._driver.high_watermark
        if not self._has_begun and end < self._next:
            return
        if not self._has_begun or log.start > self._next:
            self._next = max(self._next, log.start)
            self._has_begun = True
            yield log.voters.before(self._next)
        for at, voters in log.voters.changes:
            if self._next <= at < end:
                self._next = at + 1
                yield voters


def _way(voters: VoterSet, target: VoterSet, leader_id: NodeId | None) -> tuple[Step, ...]:
    """Returns the steps that are left; none if another change has made the target unreachable."""
    try:
        return steps_between(voters.keys, target.keys, leader_id)
    except ValueError:
        return ()


def _begins(step: Step) -> _Report.Step.ValueType:
    return _Report.STEP_ADDING if isinstance(step, Add) else _Report.STEP_REMOVING


def _outcome(voters: VoterSet, target: VoterSet) -> _Report.Step.ValueType:
    """Returns DONE, CANCELLED or REPLACED by the first voter set without this target."""
    if voters.target is not None:
        return _Report.STEP_REPLACED
    return _Report.STEP_DONE if voters.keys == target.keys else _Report.STEP_CANCELLED
