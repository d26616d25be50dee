"""Does the leader still lead? A read may be answered only if it did after the read was asked (Raft thesis §6.4).

Another may have been elected unheard: fetches on their way prove nothing, and a lease would trust clocks, where a
broken stream has followers elect within milliseconds. So a majority is asked, in rounds: what is asked during one
waits for the next, and a round costs one small request a voter, however many reads it serves.
"""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.raft import quorum
from quorate.raft.messages import BeginQuorumEpochRequest, ConfirmLeadershipRequest, ConfirmLeadershipResponse
from quorate.raft.requests import Lane
from quorate.raft.roles import Leader, Probe, Role, known_leader
from quorate.raft.turn import Fault, Turn


def confirm(turn: Turn, role: Leader, request: ConfirmLeadershipRequest) -> None:
    """Waits for the next round, if it is this epoch that is meant."""
    if request.epoch != role.epoch:
        turn.refuse(role, request, Fault(ErrorCode.FENCED_LEADER_EPOCH))
    else:
        role.unconfirmed.append(request)


def ask_voters(turn: Turn, role: Leader) -> None:
    """Begins a round if one is wanted, asks who has not answered in it, and ends it with a majority.

    BeginQuorumEpoch is the question: a voter that acknowledges it is in our epoch, and any other leader would have
    had a vote of one of them in a later one. A Kafka voter answers it as well.
    """
    while role.unconfirmed or role.probe is not None:
        if role.probe is None:
            role.probes += 1
            role.probe = Probe(number=role.probes, requests=tuple(role.unconfirmed))
            role.unconfirmed.clear()
        own = {turn.node.id} if turn.is_voter else set()
        said = {key.id for key in role.probe.acknowledged if turn.voters.has(key)}
        if not quorum.is_won(granted=said | own, voters=turn.voters.ids):
            _ask(turn, role, role.probe)
            return
        for request in role.probe.requests:
            turn.answer(request, ConfirmLeadershipResponse(epoch=role.epoch, leader_id=role.leader_id))
        role.probe = None


def _ask(turn: Turn, role: Leader, probe: Probe) -> None:
    for voter in turn.other_voters:
        if voter not in probe.acknowledged and turn.may_ask(voter.id, Lane.PROBE):
            request = BeginQuorumEpochRequest(
                epoch=role.epoch, leader_id=role.leader_id, voter=voter, probe=probe.number
            )
            turn.ask(voter.id, request)


def take_acknowledged(role: Leader, request: BeginQuorumEpochRequest) -> None:
    """A voter has said, after the round began, that we lead."""
    assert request.voter is not None, request
    if role.probe is not None and request.probe == role.probe.number:
        role.probe.acknowledged.add(request.voter)


def release(turn: Turn, role: Leader, after: Role) -> None:
    """Those who wait are told that `role` is over, and what we are now."""
    waiting = (*(role.probe.requests if role.probe is not None else ()), *role.unconfirmed)
    for request in waiting:
        answer = ConfirmLeadershipResponse(
            epoch=after.epoch, leader_id=known_leader(after), error=ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        turn.answer(request, answer)
