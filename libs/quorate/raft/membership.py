"""Voter changes on the leader: one voter is added, removed or updated at a time (KIP-853; Raft thesis 4.1).

A change begins only when the last one, and a record of the leader's own epoch, are committed (I-31). So two
neighbouring voter sets differ by one voter (I-30), and any two majorities of them share a node: no two leaders can be
elected.

A refusal is an error code of Kafka's with a sentence. REQUEST_TIMED_OUT, as in Kafka: the change cannot begin now
(`membership_faults`), or was not committed in time; in that case its record stays in the log and can still be
committed.
"""

from __future__ import annotations

from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, Offset, ReplicaKey
from quorate.raft import progress, role_entry
from quorate.raft.log import VotersChange
from quorate.raft.membership_faults import (
    announcement_fault,
    change_name,
    commit_fault,
    directory_fault,
    duplicate_fault,
    form_fault,
    progress_fault,
    range_fault,
    removal_fault,
    time_fault,
    update_fault,
    update_time_fault,
    version_fault,
)
from quorate.raft.messages import (
    RESPONSES,
    AddRaftVoterRequest,
    AlterQuorumResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    PendingRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from quorate.raft.ready import Upgrade
from quorate.raft.requests import RequestClass
from quorate.raft.roles import Leader, PendingChange, Progress, Role, Walk, known_leader
from quorate.raft.step_context import NO_FAULT, Refused, StepContext
from quorate.raft.voters import Voter, VoterSet

# Requests.


def add_voter(context: StepContext, role: Leader, request: AddRaftVoterRequest) -> None:
    """Begins to add a voter: the leader first asks it by ApiVersions for its kraft.version range. KIP-853.

    The steps of KIP-853's AddVoter, in order: no other change is under way; the leader has committed a record of its
    epoch; kraft.version is 1 or more; the voter set in force is committed; the id does not vote yet; the voter's range
    covers the present kraft.version; it has caught up. Then KRaftVoters is appended, and the request is answered when
    that is committed by the new voter set, or at once without `ack_when_committed`.
    """
    fault = form_fault(context, request.voter) or time_fault(context, role) or duplicate_fault(context, request.voter)
    if request.timeout_ms < 0:
        fault = Refused(ErrorCode.INVALID_REQUEST, f"the timeout is {request.timeout_ms} ms; it must not be negative")
    if fault is not None:
        answer(context, role, request, fault)
    else:
        role.pending = PendingChange(request=request, deadline_ms=context.now_ms + request.timeout_ms)


def remove_voter(context: StepContext, role: Leader, request: RemoveRaftVoterRequest) -> None:
    """Appends the voter set without the voter, and answers once it is committed, or refuses. KIP-853, "RemoveVoter".

    A leader may remove itself (I-33).
    """
    fault = directory_fault(request.voter) or time_fault(context, role) or removal_fault(context, request.voter)
    if fault is not None:
        answer(context, role, request, fault)
        return
    # Kafka's request has no timeout of its own either.
    deadline_ms = context.now_ms + context.settings.request_timeout_ms
    end_offset = append(context, role, context.voters.without(request.voter))
    role.pending = PendingChange(request=request, deadline_ms=deadline_ms, end_offset=end_offset)


def update_voter(context: StepContext, role: Leader, request: UpdateRaftVoterRequest) -> None:
    """Changes a voter's listeners and version range: in the log, or at kraft.version 0 in memory only. KIP-853.

    Another voter than the leader is first asked by ApiVersions at its new listeners, as in Kafka's trunk (4.4.0 does
    not): where nobody answers, no peer would find it. The answer does not wait for the commit, as in Kafka.
    """
    voter = request.voter
    fault = form_fault(context, voter) or update_time_fault(context, role) or update_fault(context, voter)
    if fault is not None:
        answer(context, role, request, fault)
    elif context.log.kraft_version == 0:
        role.announced_voters = (role.announced_voters or context.voters).updated(voter)
        answer(context, role, request, NO_FAULT)
    elif voter in context.voters.voters:
        answer(context, role, request, NO_FAULT)
    else:
        deadline_ms = context.now_ms + context.settings.request_timeout_ms
        role.pending = PendingChange(request=request, deadline_ms=deadline_ms)
        if voter.key == context.node:
            _update(context, role, role.pending, voter)


def upgrade(context: StepContext, role: Role, version: int, *, epoch: Epoch, validate_only: bool) -> Upgrade:
    """Raises kraft.version, unless `validate_only`, and returns the log end after that, or the error. KIP-853.

    From 0 to 1, it writes the voters as they have announced themselves into the log.
    """
    leo = context.log.leo
    if not isinstance(role, Leader) or role.epoch != epoch:
        message = f"this node is {type(role).__name__} of epoch {role.epoch}; the request is for epoch {epoch}"
        return Upgrade(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message=message, end_offset=leo)
    if version == context.log.kraft_version:
        return Upgrade(end_offset=leo)
    announced = role.announced_voters or context.voters
    fault = version_fault(context, version) or commit_fault(role) or announcement_fault(announced, version)
    if fault is not None:
        return Upgrade(error=fault.error, message=fault.message, end_offset=leo)
    if not validate_only:
        leo = append(context, role, announced, kraft_version=version)
        role.announced_voters = None
    return Upgrade(end_offset=leo)


# The change under way.


def take_kraft_versions(context: StepContext, role: Leader, response: ApiVersionsResponse) -> None:
    """Handles the ApiVersions answer of the voter that is being added or updated: appends the voter set with it.

    The change is refused if the voter does not support the present kraft.version, or is new and has not caught up
    (I-35). After an error the voter is asked again.
    """
    assert context.flight is not None
    pending = role.pending
    # Ending a change also gives up its ApiVersions request, so there is a change whenever one is answered.
    assert pending is not None, response
    request = pending.request
    assert isinstance(request, AddRaftVoterRequest | UpdateRaftVoterRequest), request
    assert request.voter.key.id == context.peer, (request, context.peer)
    if response.error is not ErrorCode.NONE:
        context.give_up(context.flight)
        return
    voter = replace(request.voter, kraft_versions=response.kraft_versions)
    if isinstance(request, UpdateRaftVoterRequest):
        _update(context, role, pending, voter)
        return
    fault = range_fault(context, voter) or progress_fault(context, role, request)
    if fault is not None:
        _end(context, role, pending, fault)
        return
    pending.end_offset = append(context, role, context.voters.with_voter(voter))
    if not request.ack_when_committed:
        answer(context, role, request, NO_FAULT)
        pending.is_answered = True


def _update(context: StepContext, role: Leader, pending: PendingChange, voter: Voter) -> None:
    """Appends the voter set with the entry of a voter that has answered at its new listeners, and answers at once."""
    fault = update_fault(context, voter)
    if fault is None:
        append(context, role, context.voters.updated(voter))
    _end(context, role, pending, fault or NO_FAULT)


def finish_change(context: StepContext, role: Leader) -> None:
    """Answers a voter change that is committed, or REQUEST_TIMED_OUT when its time is over; else asks its voter.

    The voter is asked by ApiVersions for its kraft.version range if that is not known yet. A change whose time is over
    may still be committed: its record stays in the log.
    """
    pending = role.pending
    if pending is None:
        return
    if pending.end_offset is not None and pending.end_offset <= (role.high_watermark or 0):
        _end(context, role, pending, NO_FAULT)
        return
    if context.wait_until(pending.deadline_ms):
        message = f"{change_name(pending)} was not committed in time"
        if isinstance(pending.request, AddRaftVoterRequest | UpdateRaftVoterRequest) and pending.end_offset is None:
            key = pending.request.voter.key
            where = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in pending.request.voter.endpoints)
            message = f"voter {key} did not say in time at {where} with which kraft.version it works"
        _end(context, role, pending, Refused(ErrorCode.REQUEST_TIMED_OUT, message))
        return
    request = pending.request
    if pending.end_offset is not None:
        return
    assert isinstance(request, AddRaftVoterRequest | UpdateRaftVoterRequest), request
    assert not pending.is_answered, pending  # its record is not in the log yet
    if context.wait_to_ask(request.voter.key.id, RequestClass.VOTERS):
        context.ask(request.voter.key.id, ApiVersionsRequest(), request.voter.endpoints)


def leave_office(context: StepContext, role: Leader) -> Role | None:
    """Resigns once this leader's own removal is committed; until then only it can commit that (I-33). KIP-853."""
    if context.is_voter or role.high_watermark is None or not context.log.is_voter_change_committed:
        return None
    return role_entry.resigned(context, role, reason="no voter any more")


def release_change(context: StepContext, role: Leader, after: Role) -> None:
    """Answers the voter change under way with NOT_LEADER_OR_FOLLOWER, as this node no longer leads, and forgets it.

    One that is answered already, or is a step to the target voter set, gets none. Only the next leader knows its
    outcome.
    """
    pending, role.pending = role.pending, None
    if pending is not None and not pending.is_answered and not pending.is_of_walk:
        message = f"{change_name(pending)}: this node no longer leads; the next leader knows what has become of it"
        answer(context, after, pending.request, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, message))


def append(context: StepContext, role: Leader, voters: VoterSet, *, kraft_version: int | None = None) -> Offset:
    """Appends the voter set, in force at once (I-32), and returns the end offset (exclusive) of its batch.

    Check quorum starts anew.
    """
    assert role.high_watermark is not None, role  # I-31: a record of this epoch is committed
    assert context.log.is_voter_change_committed, (context.log.voters.latest_offset, context.log.high_watermark)  # I-31
    assert context.log.kraft_version > 0 or kraft_version is not None, context.log.kraft_version
    change = VotersChange(base_offset=context.log.leo, epoch=role.epoch, voters=voters, kraft_version=kraft_version)
    context.append(change)
    # The new voter set gets a full check-quorum period: a leader that was the only voter has not counted fetches at
    # all.
    role.fetched.clear()
    role.check_quorum_deadline_ms = context.now_ms + context.settings.check_quorum_ms
    if kraft_version is not None:
        _track_by_key(context, role)
    return change.end_offset


def _track_by_key(context: StepContext, role: Leader) -> None:
    """Tracks voters by their new keys after the upgrade, which added directory ids to their bare ids.

    Their log ends are unknown until they fetch: a bare id does not say whose disk it was.
    """
    for key in context.other_voters:
        before = role.replicas.pop(ReplicaKey(key.id), Progress())
        role.replicas[key] = Progress(last_contact_at_ms=before.last_contact_at_ms)
    readers = {key: held for key, held in role.parked.items() if not key.has_id}
    replicas = {
        progress.tracked_key(context, held.request.replica): held for key, held in role.parked.items() if key.has_id
    }
    for key in replicas:
        role.replicas.setdefault(key, Progress())
    role.parked = readers | replicas


def _end(context: StepContext, role: Leader, pending: PendingChange, fault: Refused) -> None:
    """Ends the change under way and answers it, or notes the outcome of a step to the target."""
    assert role.pending is pending, (role.pending, pending)  # I-31: one at a time
    role.pending = None
    if pending.is_of_walk:
        note_step(context, role, fault)
    elif not pending.is_answered:
        answer(context, role, pending.request, fault, end_offset=pending.end_offset)
    request = pending.request
    if isinstance(request, AddRaftVoterRequest | UpdateRaftVoterRequest):
        peer = request.voter.key.id
        if context.requests.is_asked(peer, RequestClass.VOTERS):
            context.pause(peer, RequestClass.VOTERS)  # its ApiVersions is no longer awaited


def note_step(context: StepContext, role: Leader, fault: Refused) -> None:
    """Records the outcome of a step to the target voter set; a failed step is tried again after the retry backoff."""
    walk = role.walk
    if fault.error is ErrorCode.NONE:
        role.walk = Walk()
        return
    walk.error, walk.message = fault.error, fault.message
    walk.retry_at_ms = context.now_ms + context.settings.retry_wait_ms(walk.failures, context.random)
    assert walk.retry_at_ms > context.now_ms, walk  # else the step would be tried in an endless loop
    walk.failures += 1


def answer(
    context: StepContext, role: Role, request: PendingRequest, fault: Refused, *, end_offset: Offset | None = None
) -> None:
    """Answers a voter change: with success if `fault` is NO_FAULT, else with its error.

    `end_offset` is the end (exclusive) of the batch with the change; only AlterQuorum's answer tells of it.
    """
    if fault.error is not ErrorCode.NONE:
        context.refuse(role, request, fault)
        return
    assert end_offset is None or end_offset <= context.log.leo, (end_offset, context.log.leo)
    response = RESPONSES[type(request)](epoch=role.epoch, leader_id=known_leader(role))
    if isinstance(response, AlterQuorumResponse):
        response = replace(response, offset=None if end_offset is None else end_offset - 1)
    context.answer(request, response)
