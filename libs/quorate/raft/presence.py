"""Controller presence: a voter whose controller is absent leads only if no other voter can. Not in Kafka.

In Kafka a voter and its controller are one process. Here they can end apart, and a leader without a controller keeps
the whole cluster from writing. So each follower reports to its leader when its controller connects or disconnects. The
leader does not name a voter without a controller as successor (`role_entry.successors`); if it loses its own
controller, it transfers leadership to a voter that has one. A voter without a controller starts its election later
than the others (`StepContext.presence_wait_ms`), but it does start one: if no voter has its controller, or if none of
those that have can win, a leader is elected all the same.
"""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import ReplicaKey
from quorate.raft import progress, role_entry
from quorate.raft.messages import ControllerPresenceRequest, ControllerPresenceResponse
from quorate.raft.requests import RequestClass
from quorate.raft.roles import Follower, Leader, Progress, Role
from quorate.raft.step_context import StepContext


def report_presence(context: StepContext, role: Follower) -> None:
    """Reports to the leader whether this voter's controller is present, if the leader may believe the opposite.

    A new leader assumes that all controllers are present. Later it believes the last report, even if the voter has left
    its role since then, for pre-votes or a restart. So the last report is remembered beyond the role (I-85).
    """
    handover = context.handover
    is_present = handover.presence.is_present
    known = handover.reported_present if handover.reported_epoch == role.epoch else True
    if not context.is_voter or known == is_present or not context.wait_to_ask(role.leader_id, RequestClass.PRESENCE):
        return
    assert handover.reported_epoch <= role.epoch, (handover, role.epoch)  # I-03
    handover.reported_epoch, handover.reported_present = role.epoch, None
    handover.report_sequence += 1
    request = ControllerPresenceRequest(
        epoch=role.epoch, replica=context.node, is_present=is_present, sequence=handover.report_sequence
    )
    context.ask(role.leader_id, request)


def take_presence_acknowledged(context: StepContext, _: Follower, response: ControllerPresenceResponse) -> None:
    """Records which presence of this voter's controller the leader knows, after it has answered a report.

    It is that of a newer report if the leader has ignored this one as late. After an error, the report is sent again
    after a pause.
    """
    if response.error is ErrorCode.NONE:
        context.handover.report_sequence = max(response.sequence, context.handover.report_sequence)
        context.handover.reported_present = response.is_present
    else:
        context.pause(context.peer, RequestClass.PRESENCE)


def record_presence(context: StepContext, role: Leader, request: ControllerPresenceRequest) -> None:
    """Records a voter's report of whether its controller is present, and answers with the newest report.

    A late report, and one of a replica that is no voter, changes nothing. A report may be delivered twice, and the
    second time after newer ones, by a connection that was slow (I-85).
    """
    key = progress.tracked_key(context, request.replica)
    sequence, is_present = request.sequence, request.is_present
    if context.voters.has(key):
        known = role.replicas.setdefault(key, Progress())
        if sequence > known.report_sequence:
            known.report_sequence, known.is_absent = sequence, not is_present
        sequence, is_present = known.report_sequence, not known.is_absent
    context.answer(
        request,
        ControllerPresenceResponse(
            epoch=role.epoch, leader_id=role.leader_id, sequence=sequence, is_present=is_present
        ),
    )


def resign_without_controller(context: StepContext, role: Leader) -> Role | None:
    """Resigns at `Presence.resign_at_ms` while the leader's controller is absent, if another voter can take over.

    That is a voter with a controller and the whole log. Without one the leader stays: a voter without a controller
    would do no better.
    """
    presence = context.handover.presence
    if presence.is_present or presence.resign_at_ms is None or context.handover.transfer is not None:
        return None
    if not context.wait_until(presence.resign_at_ms) or not any(
        _could_lead(context, role, key) for key in context.other_voters
    ):
        return None
    return role_entry.resigned(
        context, role, reason="its controller is away, and a voter that has one has the whole log"
    )


def _could_lead(context: StepContext, role: Leader, key: ReplicaKey) -> bool:
    """Returns whether the voter has its controller, the whole log, and was in contact within half a fetch timeout."""
    known = role.replicas.get(key, Progress())
    if known.is_absent or known.leo != context.log.leo or known.last_contact_at_ms is None:
        return False
    return known.last_contact_at_ms > context.now_ms - context.settings.begin_epoch_ms
