"""Voters with the rules of Kafka's controllers (KafkaRaftClient of 4.0 to 4.4) where these differ from our core's.

* Flush: one thread writes, flushes and answers, so no request is handled during a flush. The leader counts its log end
  just before it flushes; ours goes on during the flush, and counts its flushed end.
* Candidate: it states its log end; ours its flushed end.
* Vote: the candidate that has the vote is granted it again without a look at the logs; ours compares them each time.
* Pre-vote of a later epoch: that is entered before it is refused; ours stays in its epoch while its leader lives.
* Prospective: it grants every pre-vote for a log that is not behind, and goes on asking after its own vote. Of two of
  ours that ask each other one gives way, and a voter becomes unattached.
* Follower: it refuses pre-votes until its fetch timeout is over (KIP-996), also after EndQuorumEpoch. Ours refuses them
  until its stream to the leader breaks, or the leader has ended.
* A leader that is lost: it waits for the fetch timeout; ours for some 50 ms.
* A lost election: when a majority has refused; ours counts voters that cannot be reached, too.
* APIs: those of the KIPs, without AlterQuorum, TransferLeadership and ControllerPresence.

All else is our core, which `tests/interop/test_mixed_voters.py` tries against a Kafka release.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

import pytest

from quorate.nouns import NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft import Raft, following, matrix, progress, quorum, quorum_epoch, role_entry, voting
from quorate.raft.messages import (
    AlterQuorumRequest,
    ControllerPresenceRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Request,
    TransferLeadershipRequest,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.roles import Candidate, Follower, Leader, Prospective, Role, Unattached, known_leader
from quorate.raft.step_context import StepContext
from quorate.raft.voters import is_same
from tests.sim.driver import Driver
from tests.sim.node import Node

OURS_ALONE: Final = (AlterQuorumRequest, ControllerPresenceRequest, TransferLeadershipRequest)
"""Requests that Kafka does not have: its ApiVersions does not list them, so they are not even sent."""


class KafkaVoter(Node):
    """A Kafka controller as other voters see it."""

    is_kafka = True

    def new_driver(self, random: Random) -> Driver:
        return KafkaDriver(self, random)

    def knows(self, request: Request) -> bool:
        """Does Kafka have this API?"""
        return not isinstance(request, OURS_ALONE)


class KafkaDriver(Driver):
    """One thread writes, flushes and answers: the next request waits for the flush."""

    def flush(self, raft: Raft) -> Iterator[str]:
        log = self.node.disk.log
        if log.flushed < log.leo:
            yield from self.synced(iter(["log.fsync"]))
            log.flushed = log.leo
            raft.flushed(log.leo, self.node.turn_ms)


@contextmanager
def pretending(kafkas: Collection[NodeId]) -> Iterator[None]:
    """While it lasts, the cores of these nodes do as Kafka does."""
    if not kafkas:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        _Kafka(kafkas, patch).pretend()
        yield


class _Kafka:
    """Replaces our rules by Kafka's, for the nodes that are Kafka voters."""

    def __init__(self, kafkas: Collection[NodeId], patch: pytest.MonkeyPatch) -> None:
        self._kafkas = kafkas
        self._patch = patch

    def pretend(self) -> None:
        self._replace(progress, "voter_end", _voter_end)
        self._replace(voting, "enters_epoch", _enters_epoch)
        self._replace(voting, "_is_lost", _is_lost)
        self._replace(voting, "stated_end", _stated_end)
        self._replace(following, "give_up_soon", _wait_as_ever)
        self._replace_row(VoteRequest, voting.answer_vote, _answer_vote)
        self._replace_row(EndQuorumEpochRequest, quorum_epoch.acknowledge_end, _acknowledge_end)
        self._replace_row(EndQuorumEpochRequest, quorum_epoch.take_end, _take_end)

    def _replace(self, module: object, name: str, theirs: Callable[..., object]) -> None:
        self._patch.setattr(module, name, self._either(getattr(module, name), theirs))

    def _replace_row(self, message: type, ours: Callable[..., object], theirs: Callable[..., object]) -> None:
        how = self._either(ours, theirs)
        rows = {key: how if key[1] is message and each is ours else each for key, each in matrix.ROWS.items()}
        self._patch.setattr(matrix, "ROWS", rows)

    def _either(self, ours: Callable[..., object], theirs: Callable[..., object]) -> Callable[..., object]:
        def either(context: StepContext, *arguments: object, **named: object) -> object:
            return (theirs if context.node.id in self._kafkas else ours)(context, *arguments, **named)

        return either


def _voter_end(context: StepContext, role: Leader, voter: ReplicaKey) -> Offset | None:
    """LeaderState.updateLocalState comes before the flush."""
    if is_same(voter, context.node):
        return context.log.leo
    known = role.replicas.get(voter)
    return None if known is None else known.leo


def _enters_epoch(context: StepContext, role: Role, request: Request) -> bool:
    return True


def _stated_end(context: StepContext) -> OffsetAndEpoch:
    return context.log.last


def _is_lost(context: StepContext, role: Candidate) -> bool:
    return quorum.is_lost(rejected=role.rejected, voters=context.voters.ids)


def _wait_as_ever(context: StepContext, role: Follower, *, lost_rounds: int) -> None:
    """A connection that breaks is opened again; the fetch timeout goes on."""


def _answer_vote(context: StepContext, role: Role, request: VoteRequest) -> Role | None:
    """The canGrantVote of each of Kafka's states."""
    is_ahead = request.last >= context.log.last
    granted = _would_vote(role, is_ahead) if request.pre_vote else _may_vote(role, request, is_ahead)
    context.answer(request, VoteResponse(epoch=role.epoch, leader_id=known_leader(role), granted=granted))
    if not granted or request.pre_vote or role.voted is not None:
        return None
    if isinstance(role, Prospective):
        role.voted = request.replica  # and it stays prospective: prospectiveAddVotedState
        return None
    return role_entry.unattached(context, epoch=role.epoch, voted=request.replica, reason="voted, as Kafka does")


def _would_vote(role: Role, is_ahead: bool) -> bool:
    match role:
        case Leader():
            return False
        case Follower():
            return is_ahead and not role.has_fetched
        case _:
            return is_ahead


def _may_vote(role: Role, request: VoteRequest, is_ahead: bool) -> bool:
    if not isinstance(role, Unattached | Prospective):
        return False
    if role.voted is not None:
        return is_same(role.voted, request.replica)
    return role.leader_id is None and is_ahead


def _acknowledge_end(context: StepContext, role: Follower, request: EndQuorumEpochRequest) -> None:
    """Those that are not named wait for the longest pause; nobody grants pre-votes for it."""
    context.answer(request, EndQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))
    wait_ms = quorum_epoch.successor_wait_ms(context.settings, context.node, request.preferred_successors)
    role.fetch_deadline_ms = context.now_ms + (context.settings.election_backoff_max_ms if wait_ms is None else wait_ms)


def _take_end(context: StepContext, role: Prospective, request: EndQuorumEpochRequest) -> None:
    context.answer(request, EndQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))
