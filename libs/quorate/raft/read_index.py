"""Linearizable reads (ReadIndex, Raft thesis 6.4): a majority confirms the leader after the read arrived.

Without that, another leader may have been elected unnoticed. Fetches do not prove the contrary: they may have been sent
before. A leader lease would depend on clocks, and on followers waiting, which start elections within milliseconds of a
broken stream. A majority is asked in rounds. Reads that arrive during a round wait for the next one, so a round costs
one small request for each voter, however many reads it serves.
"""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.raft import quorum
from quorate.raft.messages import BeginQuorumEpochRequest, ConfirmLeadershipRequest, ConfirmLeadershipResponse
from quorate.raft.requests import RequestClass
from quorate.raft.roles import Leader, ReadIndexRound, Role, known_leader
from quorate.raft.step_context import Refused, StepContext


def confirm(context: StepContext, role: Leader, request: ConfirmLeadershipRequest) -> None:
    """Adds a read to the next round; refuses it with FENCED_LEADER_EPOCH if it names another epoch."""
    if request.epoch != role.epoch:
        context.refuse(role, request, Refused(ErrorCode.FENCED_LEADER_EPOCH))
    else:
        role.unconfirmed.append(request)


def ask_voters(context: StepContext, role: Leader) -> None:
    """Starts a round if reads wait and none runs, asks the voters by BeginQuorumEpoch, answers the reads at a majority.

    A voter that acknowledges BeginQuorumEpoch is in this leader's epoch at that time. A leader of a later epoch would
    have needed the vote of one of them, in that epoch. Kafka's voters answer it as well.
    """
    while role.unconfirmed or role.probe is not None:
        if role.probe is None:
            role.probes += 1
            role.probe = ReadIndexRound(number=role.probes, requests=tuple(role.unconfirmed))
            role.unconfirmed.clear()
        assert role.probe.number == role.probes, role.probe
        own = {context.node.id} if context.is_voter else set()
        acknowledged = {key.id for key in role.probe.acknowledged if context.voters.has(key)}
        if not quorum.is_won(granted=acknowledged | own, voters=context.voters.ids):
            _ask(context, role, role.probe)
            return
        for request in role.probe.requests:
            assert request.epoch == role.epoch, (request, role.epoch)  # I-40: the read asked about this leader
            context.answer(request, ConfirmLeadershipResponse(epoch=role.epoch, leader_id=role.leader_id))
        role.probe = None


def _ask(context: StepContext, role: Leader, probe: ReadIndexRound) -> None:
    """Sends BeginQuorumEpoch with the round's number to each voter that has not acknowledged it in this round."""
    for voter in context.other_voters:
        if voter not in probe.acknowledged and context.wait_to_ask(voter.id, RequestClass.PROBE):
            request = BeginQuorumEpochRequest(
                epoch=role.epoch, leader_id=role.leader_id, voter=voter, probe=probe.number
            )
            context.ask(voter.id, request)


def take_acknowledged(role: Leader, request: BeginQuorumEpochRequest) -> None:
    """Counts a voter's acknowledgement for the round in which the request was sent, if that still runs."""
    assert request.voter is not None, request
    assert request.epoch == role.epoch, (request, role.epoch)  # an answer to an earlier role's request is dropped
    if role.probe is not None and request.probe == role.probe.number:
        role.probe.acknowledged.add(request.voter)


def release(context: StepContext, role: Leader, after: Role) -> None:
    """Refuses all waiting reads with NOT_LEADER_OR_FOLLOWER because this node no longer leads."""
    waiting = (*(role.probe.requests if role.probe is not None else ()), *role.unconfirmed)
    for request in waiting:
        answer = ConfirmLeadershipResponse(
            epoch=after.epoch, leader_id=known_leader(after), error=ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        context.answer(request, answer)
