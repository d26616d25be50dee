"""Leadership transfer: the leader brings one voter to its log end, then resigns in its favour. Raft thesis 3.10.

No records are appended meanwhile, or the voter might never reach the log end. If it does not in time, the leader goes
on. Once it has, the leader resigns and names it as first successor, so that it starts its election at once. The
requester is answered when the voter leads, or when it is known that it does not. Not in Kafka.
"""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import role_entry
from quorate.raft.messages import EPOCH_UNKNOWN, TransferLeadershipRequest, TransferLeadershipResponse
from quorate.raft.roles import Leader, Progress, Role, known_leader
from quorate.raft.step_context import NO_FAULT, LeadershipTransfer, Refused, StepContext


def begin(context: StepContext, role: Leader, request: TransferLeadershipRequest) -> None:
    """Starts a transfer: appends are refused from now on, until the voter has caught up or the time is over.

    Answers at once if it cannot be: another epoch is named, a transfer is under way (REQUEST_TIMED_OUT), there is no
    such voter, it leads already, or its controller is absent (ELIGIBLE_LEADERS_NOT_AVAILABLE).
    """
    to = _target(context, role, request.to)
    fault = _fault(context, role, request, to)
    if fault is not None:
        _answer(context, role, request, fault)
        return
    assert to is not None
    assert to.id != context.node.id, (to, context.node)
    assert context.handover.transfer is None, context.handover.transfer  # one at a time
    assert request.timeout_ms > 0, request  # `flaws.flaw` has refused the rest
    context.handover.transfer = LeadershipTransfer(
        request=request, to=to, epoch=role.epoch, deadline_ms=context.now_ms + request.timeout_ms
    )


def hand_over(context: StepContext, role: Leader) -> Role | None:
    """Resigns in favour of the transfer's voter once that one has the whole log; returns None until then.

    If that will not happen, it ends the transfer with an error, and this leader goes on.
    """
    transfer = context.handover.transfer
    if transfer is None:
        return None
    end = role.replicas.get(transfer.to, Progress()).leo
    fault = _hindrance(context, role, transfer, end)
    if fault is not None:
        _end(context, role, fault)
        return None
    if end != context.log.leo:
        return None
    transfer.deadline_ms = context.now_ms + transfer.request.timeout_ms
    assert context.voters.has(transfer.to), (transfer, context.voters.keys)
    resigned = role_entry.resigned(context, role, reason=f"hands over to {transfer.to.id}")
    others = (key for key in resigned.preferred_successors if key != transfer.to)
    resigned.preferred_successors = (transfer.to, *others)
    return resigned


def _hindrance(context: StepContext, role: Leader, transfer: LeadershipTransfer, end: Offset | None) -> Refused | None:
    """Returns why the transfer has failed and this leader goes on; None while the voter, now at `end`, may catch up."""
    if transfer.epoch != role.epoch:
        message = f"voter {transfer.to} was not elected; node {context.node.id} leads again"
        return Refused(ErrorCode.REQUEST_TIMED_OUT, message)
    if transfer.to not in context.voters.keys:
        return Refused(
            ErrorCode.VOTER_NOT_FOUND, f"voter {transfer.to} is no longer a voter; node {context.node.id} leads on"
        )
    if end == context.log.leo or not context.wait_until(transfer.deadline_ms):
        return None
    reach = "was not heard" if end is None else f"is at offset {end} of {context.log.leo}"
    message = f"voter {transfer.to} {reach} after {transfer.request.timeout_ms} ms; node {context.node.id} leads on"
    return Refused(ErrorCode.REQUEST_TIMED_OUT, message)


def await_successor(context: StepContext, role: Role) -> None:
    """Answers the transfer's requester when another leader is known, or when the time for the election is over."""
    transfer = context.handover.transfer
    if transfer is None:
        return
    leader_id = known_leader(role)
    if leader_id is not None and role.epoch > transfer.epoch:
        message = f"node {leader_id} leads instead of voter {transfer.to}"
        fault = NO_FAULT if leader_id == transfer.to.id else Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
        _end(context, role, fault)
    elif context.wait_until(transfer.deadline_ms):
        message = f"voter {transfer.to} has not been elected within {transfer.request.timeout_ms} ms"
        _end(context, role, Refused(ErrorCode.REQUEST_TIMED_OUT, message))


def _target(context: StepContext, role: Leader, wanted: NodeId | None) -> ReplicaKey | None:
    """Returns the voter `wanted`; for None the best successor. None if there is no such voter."""
    if wanted is None:
        return next(iter(role_entry.successors(context, role)), None)
    return next((key for key in context.voters.keys if key.id == wanted), None)


def _fault(
    context: StepContext, role: Leader, request: TransferLeadershipRequest, to: ReplicaKey | None
) -> Refused | None:
    """Returns why a transfer cannot be started; None if it can."""
    if request.epoch not in (EPOCH_UNKNOWN, role.epoch):
        return Refused(
            _epoch_error(request.epoch, role.epoch),
            f"the request is for epoch {request.epoch}; this node is in epoch {role.epoch}",
        )
    if context.handover.transfer is not None:
        return Refused(ErrorCode.REQUEST_TIMED_OUT, f"a transfer to voter {context.handover.transfer.to} is under way")
    if to is None:
        known = ", ".join(map(str, context.voters.keys))
        wanted = "no voter but this node" if request.to is None else f"no voter {request.to}"
        return Refused(ErrorCode.VOTER_NOT_FOUND, f"there is {wanted}; these are: {known}")
    if to.id == context.node.id:
        return Refused(ErrorCode.ELECTION_NOT_NEEDED, f"node {to.id} leads already")
    others = context.handover.presence.is_present or to not in role_entry.successors(context, role)
    if role.replicas.get(to, Progress()).is_absent and others:
        message = (
            f"the controller beside voter {to} is away, so nothing could be written; node {context.node.id} leads on"
        )
        return Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    return None


def _epoch_error(wanted: Epoch, epoch: Epoch) -> ErrorCode:
    """Returns the error code for a request that names another epoch than the present one."""
    return ErrorCode.FENCED_LEADER_EPOCH if wanted < epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def _end(context: StepContext, role: Role, fault: Refused) -> None:
    """Ends the transfer and answers its requester."""
    transfer, context.handover.transfer = context.handover.transfer, None
    assert transfer is not None
    _answer(context, role, transfer.request, fault)


def _answer(context: StepContext, role: Role, request: TransferLeadershipRequest, fault: Refused) -> None:
    response = TransferLeadershipResponse(
        epoch=role.epoch, leader_id=known_leader(role), error=fault.error, message=fault.message
    )
    context.answer(request, response)
