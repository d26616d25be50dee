"""The leader hands over to a voter that is asked for: that one catches up, we leave, it leads. Not in Kafka.

Raft thesis §3.10. No records are taken meanwhile, or the voter might never have them all. If it does not catch up in
time, nothing has changed. Once it has, we resign and name it first, so that it asks for votes at once; whoever asked
is told when it leads, or that it does not.
"""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import enter
from quorate.raft.messages import EPOCH_UNKNOWN, TransferLeadershipRequest, TransferLeadershipResponse
from quorate.raft.roles import Leader, Progress, Role, known_leader
from quorate.raft.turn import NO_FAULT, Fault, Transfer, Turn


def begin(turn: Turn, role: Leader, request: TransferLeadershipRequest) -> None:
    """Takes no more records, and waits for the voter."""
    to = _target(turn, role, request.to)
    fault = _fault(turn, role, request, to)
    if fault is not None:
        _answer(turn, role, request, fault)
        return
    assert to is not None
    turn.handover.transfer = Transfer(
        request=request, to=to, epoch=role.epoch, expires_ms=turn.now_ms + request.timeout_ms
    )


def hand_over(turn: Turn, role: Leader) -> Role | None:
    """Leaves office once the voter has everything; leads on if it does not come to that."""
    transfer = turn.handover.transfer
    if transfer is None:
        return None
    end = role.replicas.get(transfer.to, Progress()).leo
    fault = _hindrance(turn, role, transfer, end)
    if fault is not None:
        _end(turn, role, fault)
        return None
    if end != turn.log.leo:
        return None
    transfer.expires_ms = turn.now_ms + transfer.request.timeout_ms
    resigned = enter.resigned(turn, role, reason=f"hands over to {transfer.to.id}")
    others = (key for key in resigned.preferred_successors if key != transfer.to)
    resigned.preferred_successors = (transfer.to, *others)
    return resigned


def _hindrance(turn: Turn, role: Leader, transfer: Transfer, end: Offset | None) -> Fault | None:
    """Why we lead on after all; None if the voter, which has come to `end`, may yet catch up, or has."""
    if transfer.epoch != role.epoch:
        message = f"voter {transfer.to} was not elected; node {turn.node.id} leads again"
        return Fault(ErrorCode.REQUEST_TIMED_OUT, message)
    if transfer.to not in turn.voters.keys:
        return Fault(ErrorCode.VOTER_NOT_FOUND, f"voter {transfer.to} votes no more; node {turn.node.id} leads on")
    if end == turn.log.leo or not turn.is_due(transfer.expires_ms):
        return None
    reach = "was not heard" if end is None else f"is at offset {end} of {turn.log.leo}"
    message = f"voter {transfer.to} {reach} after {transfer.request.timeout_ms} ms; node {turn.node.id} leads on"
    return Fault(ErrorCode.REQUEST_TIMED_OUT, message)


def await_successor(turn: Turn, role: Role) -> None:
    """Tells whoever asked who leads now, or that it takes too long."""
    transfer = turn.handover.transfer
    if transfer is None:
        return
    leader_id = known_leader(role)
    if leader_id is not None and role.epoch > transfer.epoch:
        message = f"node {leader_id} leads instead of voter {transfer.to}"
        fault = NO_FAULT if leader_id == transfer.to.id else Fault(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
        _end(turn, role, fault)
    elif turn.is_due(transfer.expires_ms):
        message = f"voter {transfer.to} has not been elected within {transfer.request.timeout_ms} ms"
        _end(turn, role, Fault(ErrorCode.REQUEST_TIMED_OUT, message))


def _target(turn: Turn, role: Leader, wanted: NodeId | None) -> ReplicaKey | None:
    """The voter that is meant; None if there is none such."""
    if wanted is None:
        return next(iter(enter.successors(turn, role)), None)
    return next((key for key in turn.voters.keys if key.id == wanted), None)


def _fault(turn: Turn, role: Leader, request: TransferLeadershipRequest, to: ReplicaKey | None) -> Fault | None:
    """Why it cannot even be tried; None if it can."""
    if request.epoch not in (EPOCH_UNKNOWN, role.epoch):
        return Fault(_epoch_error(request.epoch, role.epoch), f"epoch {request.epoch} was meant; this is {role.epoch}")
    if turn.handover.transfer is not None:
        return Fault(ErrorCode.REQUEST_TIMED_OUT, f"a transfer to voter {turn.handover.transfer.to} is under way")
    if to is None:
        known = ", ".join(map(str, turn.voters.keys))
        wanted = "no voter but this node" if request.to is None else f"no voter {request.to}"
        return Fault(ErrorCode.VOTER_NOT_FOUND, f"there is {wanted}; these are: {known}")
    if to.id == turn.node.id:
        return Fault(ErrorCode.ELECTION_NOT_NEEDED, f"node {to.id} leads already")
    return None


def _epoch_error(wanted: Epoch, epoch: Epoch) -> ErrorCode:
    return ErrorCode.FENCED_LEADER_EPOCH if wanted < epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def _end(turn: Turn, role: Role, fault: Fault) -> None:
    """No transfer is under way any more."""
    transfer, turn.handover.transfer = turn.handover.transfer, None
    assert transfer is not None
    _answer(turn, role, transfer.request, fault)


def _answer(turn: Turn, role: Role, request: TransferLeadershipRequest, fault: Fault) -> None:
    response = TransferLeadershipResponse(
        epoch=role.epoch, leader_id=known_leader(role), error=fault.error, message=fault.message
    )
    turn.answer(request, response)
