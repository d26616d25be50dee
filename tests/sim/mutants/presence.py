"""Planted bugs in what is done about controllers that are away."""

from __future__ import annotations

from quorate.nouns import ReplicaKey
from quorate.raft import presence, progress, role_entry
from quorate.raft.messages import ControllerPresenceRequest
from quorate.raft.roles import Follower, Leader, Progress, Role
from quorate.raft.step_context import StepContext
from tests.seeds.planting import Mutant, Patch
from tests.sim.mutants.base import replace_pursuit, replace_row


def _hands_over_blindly(patch: Patch) -> None:
    """As it was: the voter that has come furthest is named, controller or not, and a leader without its own always
    resigns."""

    def successors(context: StepContext, role: Leader) -> tuple[ReplicaKey, ...]:
        def rank(key: ReplicaKey) -> tuple[int, ReplicaKey]:
            leo = role.replicas.get(key, Progress()).leo
            return (-leo if leo is not None else 1, key)

        return tuple(sorted(context.other_voters, key=rank))

    def resign_without_controller(context: StepContext, role: Leader) -> Role | None:
        known = context.handover.presence
        is_due = not known.is_present and known.resign_at_ms is not None and context.wait_until(known.resign_at_ms)
        return role_entry.resigned(context, role, reason="mutant") if is_due and not context.is_sole_voter else None

    patch.setattr(role_entry, "successors", successors)
    patch.setattr(StepContext, "presence_wait_ms", 0)
    replace_pursuit(patch, presence.resign_without_controller, resign_without_controller)


def _stays(patch: Patch) -> None:
    def resign_without_controller(context: StepContext, role: Leader) -> Role | None:
        return None

    replace_pursuit(patch, presence.resign_without_controller, resign_without_controller)


def _never_stands(patch: Patch) -> None:
    patch.setattr(
        StepContext,
        "presence_wait_ms",
        property(lambda context: 0 if context.handover.presence.is_present else 1 << 40),
    )


def _forgets_reports(patch: Patch) -> None:
    """As it was: a follower takes it that the leader knows nothing yet, also if it reported in an earlier role."""
    report_presence = presence.report_presence
    roles: dict[int, Follower] = {}

    def forgetful(context: StepContext, role: Follower) -> None:
        if roles.get(id(context.handover)) is not role:
            roles[id(context.handover)] = role
            context.handover.reported_epoch, context.handover.reported_present = role.epoch, True
        report_presence(context, role)

    replace_pursuit(patch, report_presence, forgetful)


def _hears_late_reports(patch: Patch) -> None:
    """As it was: a report counts whenever it arrives."""

    def record_presence(context: StepContext, role: Leader, request: ControllerPresenceRequest) -> None:
        role.replicas.setdefault(progress.tracked_key(context, request.replica), Progress()).report_sequence = 0
        right(context, role, request)

    right = presence.record_presence
    replace_row(patch, ControllerPresenceRequest, right, record_presence)


MUTANTS = (
    Mutant("E45", "leadership goes round among voters without a controller", _hands_over_blindly),
    Mutant("E46", "a leader without its controller stays", _stays),
    Mutant("E47", "a voter without its controller never stands", _never_stands),
    Mutant("E48", "a report of controller presence is forgotten with the role", _forgets_reports, is_rare=True),
    Mutant("E49", "a report of controller presence that comes late counts", _hears_late_reports, is_rare=True),
)
