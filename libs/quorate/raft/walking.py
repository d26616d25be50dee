"""AlterQuorum: the log has a target voter set, and each leader changes one voter at a time until it is reached.

KIP-595's first form changed several voters at once; here each step is one change of KIP-853. The target is a part of
each voter set until that is the target (I-87). So truncation removes it, snapshots keep it, and the next leader goes on
(I-89).
"""

from __future__ import annotations

from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.raft import quorum
from quorate.raft.membership import answer, append, note_step
from quorate.raft.membership_faults import form_fault, progress_fault, time_fault
from quorate.raft.messages import AddRaftVoterRequest, AlterQuorumRequest, RemoveRaftVoterRequest
from quorate.raft.roles import Leader, PendingChange, Progress, Walk
from quorate.raft.step_context import NO_FAULT, Refused, StepContext
from quorate.raft.target_voters import Add, Step, steps_between
from quorate.raft.voters import Voter, VoterSet


def alter_quorum(context: StepContext, role: Leader, request: AlterQuorumRequest) -> None:
    """Appends the voter set with the target of the request. It replaces an earlier target; None cancels it (I-88).

    It is answered when that is committed; at once if it is refused, only validated, or nothing changes.
    """
    target = None if request.target is None else _with_known_listeners(context, request.target)
    walked = context.voters.walking_to(target)
    fault = time_fault(context, role)
    if fault is not None and target is not None and _is_under_way(role, walked, context.voters):
        fault = None
    if fault is None and target is not None:
        fault = _steps_fault(context, role, target) or _unknown_fault(context, role, target)
    if fault is not None or request.validate_only or walked == context.voters:
        # The voter set at the high watermark has the target: at most one step towards it is not committed yet.
        end_offset = None if request.validate_only else role.high_watermark
        answer(context, role, request, fault or NO_FAULT, end_offset=end_offset)
        return
    assert walked.keys == context.voters.keys, (walked, context.voters)  # I-87: the target changes, no voter does
    deadline_ms = context.now_ms + context.settings.request_timeout_ms
    end_offset = append(context, role, walked)
    role.walk = Walk()
    role.pending = PendingChange(request=request, deadline_ms=deadline_ms, end_offset=end_offset)


def walk(context: StepContext, role: Leader) -> None:
    """Begins the next step to the target voter set (AlterQuorum) as soon as the last change is committed.

    A leader whose own removal is committed begins none: it is about to resign, and the next leader goes on.
    """
    if context.voters.target is None or not context.is_voter or time_fault(context, role) is not None:
        return
    if context.handover.transfer is not None or not context.wait_until(role.walk.retry_at_ms):
        return
    try:
        step = steps_between(context.voters.keys, context.voters.target.keys, context.node.id)[0]
    except ValueError as problem:  # the voters were changed since, so that no step leads there
        note_step(context, role, Refused(ErrorCode.INVALID_REQUEST, str(problem)))
        return
    if step != role.walk.step:
        role.walk = Walk(step=step)
    _take(context, role, step, context.voters.target)


def _take(context: StepContext, role: Leader, step: Step, target: VoterSet) -> None:
    """Begins a step by the rules of AddRaftVoter or RemoveRaftVoter; records why if it cannot begin now."""
    deadline_ms = context.now_ms + context.settings.request_timeout_ms
    assert role.pending is None, role.pending  # I-31
    if not isinstance(step, Add):
        left = context.voters.without(step.key)
        if (fault := _majority_fault(context, role, left)) is not None:
            note_step(context, role, fault)
            return
        end_offset = append(context, role, left)
        removal = RemoveRaftVoterRequest(voter=step.key)
        role.pending = PendingChange(request=removal, deadline_ms=deadline_ms, end_offset=end_offset, is_of_walk=True)
        return
    voter = target.by_id(step.key.id)
    assert voter is not None, (step, target)
    assert step.key.id not in context.voters.ids, (step, context.voters.keys)  # I-34
    addition = AddRaftVoterRequest(voter=voter, timeout_ms=context.settings.request_timeout_ms)
    # The check for progress comes first: while the replica has not caught up, other changes need not wait for it.
    fault = form_fault(context, voter) or progress_fault(context, role, addition)
    if fault is not None:
        note_step(context, role, fault)
    else:
        role.pending = PendingChange(request=addition, deadline_ms=deadline_ms, is_of_walk=True)


def _majority_fault(context: StepContext, role: Leader, left: VoterSet) -> Refused | None:
    """Returns why the walk cannot go on to `left`, the voter set after a removal, now; None if it can.

    A majority of `left` must have fetched within the fetch timeout; the leader itself counts. Without it nothing could
    be committed, neither the removal nor an addition that takes it back. etcd refuses such a removal too
    (`strict-reconfig-check`). Kafka does not check this, nor does RemoveRaftVoter here: only AlterQuorum's steps do.
    """
    oldest_contact_at_ms = context.now_ms - context.settings.fetch_timeout_ms
    fetched_ms = {key: role.replicas.get(key, Progress()).last_fetch_at_ms for key in left.keys}
    heard = {
        key.id
        for key, ms in fetched_ms.items()
        if key == context.node or (ms is not None and ms >= oldest_contact_at_ms)
    }
    if quorum.is_won(granted=heard, voters=left.ids):
        return None
    silent = ", ".join(str(key) for key in left.keys if key.id not in heard)
    message = f"of the {len(left.keys)} voters that would be left, {silent} have not fetched lately; a majority must"
    return Refused(ErrorCode.REQUEST_TIMED_OUT, message)


def _with_known_listeners(context: StepContext, target: VoterSet) -> VoterSet:
    """Completes target voters that are named without listeners by those of the present voter set."""

    def known(voter: Voter) -> Voter:
        votes = context.voters.voter_of(voter.key)
        return voter if voter.endpoints or votes is None else replace(voter, endpoints=votes.endpoints)

    return VoterSet(tuple(map(known, target.voters)))


def _is_under_way(role: Leader, walked: VoterSet, voters: VoterSet) -> bool:
    """Returns whether the target is set already, and only a step to it is not committed.

    Then the target is committed, since a step begins only after that: the request is answered, not refused. That there
    is none any more, because the step is the last one, is committed only with the step.
    """
    return walked == voters and role.pending is not None and role.pending.is_of_walk


def _steps_fault(context: StepContext, role: Leader, target: VoterSet) -> Refused | None:
    """Refuses a target to which no steps lead, or with a new voter that lacks a directory id or listener."""
    try:
        steps = steps_between(context.voters.keys, target.keys, context.node.id)
    except ValueError as problem:
        return Refused(ErrorCode.INVALID_REQUEST, str(problem))
    come = [target.by_id(step.key.id) for step in steps if isinstance(step, Add)]
    return next((fault for voter in come if voter is not None and (fault := form_fault(context, voter))), None)


def _unknown_fault(context: StepContext, role: Leader, target: VoterSet) -> Refused | None:
    """Refuses a target with a replica that is no voter and no observer: the leader would wait for it for ever.

    KIP-595's first form answers UNKNOWN_VOTER_ID; Kafka now has VOTER_NOT_FOUND. Soon after an election the answer is
    REQUEST_TIMED_OUT: the leader has not seen all observers yet.
    """
    oldest_contact_at_ms = context.now_ms - context.settings.observer_session_timeout_ms
    for key in target.keys:
        contact_at_ms = role.replicas.get(key, Progress()).last_contact_at_ms
        is_heard = contact_at_ms is not None and contact_at_ms > oldest_contact_at_ms
        if context.voters.has(key) or key == context.node or is_heard:
            continue
        if context.now_ms < role.elected_at_ms + context.settings.observers_found_ms:
            message = f"{key} is no voter, and has not fetched yet since this leader was elected"
            return Refused(ErrorCode.REQUEST_TIMED_OUT, message)
        voters = ", ".join(map(str, context.voters.keys))
        message = f"{key} is unknown: it is none of the voters {voters}, and no observer that the leader has heard of"
        return Refused(ErrorCode.VOTER_NOT_FOUND, message)
    return None
