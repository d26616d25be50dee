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


def add_voter(turn: StepContext, role: Leader, request: AddRaftVoterRequest) -> None:
    """Begins to add a voter: the leader first asks it by ApiVersions for its kraft.version range. KIP-853.

    The steps of KIP-853's AddVoter, in order: no other change is under way; the leader has committed a record of its
    epoch; kraft.version is 1 or more; the voter set in force is committed; the id does not vote yet; the voter's range
    covers the present kraft.version; it has caught up. Then KRaftVoters is appended, and the request is answered when
    that is committed by the new voter set, or at once without `ack_when_committed`.
    """
    fault = form_fault(turn, request.voter) or time_fault(turn, role) or duplicate_fault(turn, request.voter)
    if request.timeout_ms < 0:
        fault = Refused(ErrorCode.INVALID_REQUEST, f"the timeout is {request.timeout_ms} ms; it must not be negative")
    if fault is not None:
        answer(turn, role, request, fault)
    else:
        role.pending = PendingChange(request=request, deadline_ms=turn.now_ms + request.timeout_ms)


def remove_voter(turn: StepContext, role: Leader, request: RemoveRaftVoterRequest) -> None:
    """Appends the voter set without the voter. A leader may remove itself (I-33). KIP-853, "RemoveVoter"."""
    fault = directory_fault(request.voter) or time_fault(turn, role) or removal_fault(turn, request.voter)
    if fault is not None:
        answer(turn, role, request, fault)
        return
    # Kafka's request has no timeout of its own either.
    deadline_ms = turn.now_ms + turn.settings.request_timeout_ms
    end_offset = append(turn, role, turn.voters.without(request.voter))
    role.pending = PendingChange(request=request, deadline_ms=deadline_ms, end_offset=end_offset)


def update_voter(turn: StepContext, role: Leader, request: UpdateRaftVoterRequest) -> None:
    """Changes a voter's listeners and version range: in the log, or at kraft.version 0 in memory only. KIP-853.

    Another voter than the leader is first asked by ApiVersions at its new listeners, as in Kafka's trunk (4.4.0 does
    not): where nobody answers, no peer would find it. The answer does not wait for the commit, as in Kafka.
    """
    voter = request.voter
    fault = form_fault(turn, voter) or update_time_fault(turn, role) or update_fault(turn, voter)
    if fault is not None:
        answer(turn, role, request, fault)
    elif turn.log.kraft_version == 0:
        role.announced_voters = (role.announced_voters or turn.voters).updated(voter)
        answer(turn, role, request, NO_FAULT)
    elif voter in turn.voters.voters:
        answer(turn, role, request, NO_FAULT)
    else:
        deadline_ms = turn.now_ms + turn.settings.request_timeout_ms
        role.pending = PendingChange(request=request, deadline_ms=deadline_ms)
        if voter.key == turn.node:
            _update(turn, role, role.pending, voter)


def upgrade(turn: StepContext, role: Role, version: int, *, epoch: Epoch, validate_only: bool) -> Upgrade:
    """Raises kraft.version. From 0 to 1, it writes the voters that have announced themselves into the log. KIP-853."""
    leo = turn.log.leo
    if not isinstance(role, Leader) or role.epoch != epoch:
        message = f"this node is {type(role).__name__} of epoch {role.epoch}; the request is for epoch {epoch}"
        return Upgrade(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message=message, end_offset=leo)
    if version == turn.log.kraft_version:
        return Upgrade(end_offset=leo)
    announced = role.announced_voters or turn.voters
    fault = version_fault(turn, version) or commit_fault(role) or announcement_fault(announced, version)
    if fault is not None:
        return Upgrade(error=fault.error, message=fault.message, end_offset=leo)
    if not validate_only:
        leo = append(turn, role, announced, kraft_version=version)
        role.announced_voters = None
    return Upgrade(end_offset=leo)


# The change under way.


def take_kraft_versions(turn: StepContext, role: Leader, response: ApiVersionsResponse) -> None:
    """Handles the voter's ApiVersions: appends the voter set with it, a new one only if it has caught up (I-35)."""
    assert turn.flight is not None
    pending = role.pending
    # Ending a change also gives up its ApiVersions request, so there is a change whenever one is answered.
    assert pending is not None, response
    request = pending.request
    assert isinstance(request, AddRaftVoterRequest | UpdateRaftVoterRequest), request
    assert request.voter.key.id == turn.peer, (request, turn.peer)
    if response.error is not ErrorCode.NONE:
        turn.give_up(turn.flight)
        return
    voter = replace(request.voter, kraft_versions=response.kraft_versions)
    if isinstance(request, UpdateRaftVoterRequest):
        _update(turn, role, pending, voter)
        return
    fault = range_fault(turn, voter) or progress_fault(turn, role, request)
    if fault is not None:
        _end(turn, role, pending, fault)
        return
    pending.end_offset = append(turn, role, turn.voters.with_voter(voter))
    if not request.ack_when_committed:
        answer(turn, role, request, NO_FAULT)
        pending.is_answered = True


def _update(turn: StepContext, role: Leader, pending: PendingChange, voter: Voter) -> None:
    """Appends the voter set with the entry of a voter that has answered at its new listeners, and answers at once."""
    fault = update_fault(turn, voter)
    if fault is None:
        append(turn, role, turn.voters.updated(voter))
    _end(turn, role, pending, fault or NO_FAULT)


def finish_change(turn: StepContext, role: Leader) -> None:
    """Answers a change that is committed or whose time is over; asks the voter for its kraft.version range.

    A change whose time is over may still be committed: its record stays in the log.
    """
    pending = role.pending
    if pending is None:
        return
    if pending.end_offset is not None and pending.end_offset <= (role.high_watermark or 0):
        _end(turn, role, pending, NO_FAULT)
        return
    if turn.wait_until(pending.deadline_ms):
        message = f"{change_name(pending)} was not committed in time"
        if isinstance(pending.request, AddRaftVoterRequest | UpdateRaftVoterRequest) and pending.end_offset is None:
            key = pending.request.voter.key
            where = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in pending.request.voter.endpoints)
            message = f"voter {key} did not say in time at {where} with which kraft.version it works"
        _end(turn, role, pending, Refused(ErrorCode.REQUEST_TIMED_OUT, message))
        return
    request = pending.request
    if pending.end_offset is not None:
        return
    assert isinstance(request, AddRaftVoterRequest | UpdateRaftVoterRequest), request
    assert not pending.is_answered, pending  # its record is not in the log yet
    if turn.wait_to_ask(request.voter.key.id, RequestClass.VOTERS):
        turn.ask(request.voter.key.id, ApiVersionsRequest(), request.voter.endpoints)


def leave_office(turn: StepContext, role: Leader) -> Role | None:
    """Resigns once this leader's own removal is committed; until then only it can commit that (I-33). KIP-853."""
    if turn.is_voter or role.high_watermark is None or not turn.log.is_voter_change_committed:
        return None
    return role_entry.resigned(turn, role, reason="no voter any more")


def release_change(turn: StepContext, role: Leader, after: Role) -> None:
    """Refuses the change under way because this node no longer leads; only the next leader knows its outcome."""
    pending, role.pending = role.pending, None
    if pending is not None and not pending.is_answered and not pending.is_of_walk:
        message = f"{change_name(pending)}: this node no longer leads; the next leader knows what has become of it"
        answer(turn, after, pending.request, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, message))


def append(turn: StepContext, role: Leader, voters: VoterSet, *, kraft_version: int | None = None) -> Offset:
    """Appends the voter set, in force at once (I-32), and returns the end offset (exclusive) of its batch."""
    assert role.high_watermark is not None, role  # I-31: a record of this epoch is committed
    assert turn.log.is_voter_change_committed, (turn.log.voters.latest_offset, turn.log.high_watermark)  # I-31
    assert turn.log.kraft_version > 0 or kraft_version is not None, turn.log.kraft_version
    change = VotersChange(base_offset=turn.log.leo, epoch=role.epoch, voters=voters, kraft_version=kraft_version)
    turn.append(change)
    # The new voter set gets a full check-quorum period: a leader that was the only voter has not counted fetches at
    # all.
    role.fetched.clear()
    role.check_quorum_deadline_ms = turn.now_ms + turn.settings.check_quorum_ms
    if kraft_version is not None:
        _track_by_key(turn, role)
    return change.end_offset


def _track_by_key(turn: StepContext, role: Leader) -> None:
    """Tracks voters by their new keys after the upgrade, which added directory ids to their bare ids.

    Their log ends are unknown until they fetch: a bare id does not say whose disk it was.
    """
    for key in turn.other_voters:
        before = role.replicas.pop(ReplicaKey(key.id), Progress())
        role.replicas[key] = Progress(last_contact_at_ms=before.last_contact_at_ms)
    readers = {key: held for key, held in role.parked.items() if key.id < 0}
    replicas = {
        progress.tracked_key(turn, held.request.replica): held for key, held in role.parked.items() if key.id >= 0
    }
    for key in replicas:
        role.replicas.setdefault(key, Progress())
    role.parked = readers | replicas


def _end(turn: StepContext, role: Leader, pending: PendingChange, fault: Refused) -> None:
    """Ends the change under way and answers it, or notes the outcome of a step to the target."""
    assert role.pending is pending, (role.pending, pending)  # I-31: one at a time
    role.pending = None
    if pending.is_of_walk:
        note_step(turn, role, fault)
    elif not pending.is_answered:
        answer(turn, role, pending.request, fault, end_offset=pending.end_offset)
    request = pending.request
    if isinstance(request, AddRaftVoterRequest | UpdateRaftVoterRequest):
        peer = request.voter.key.id
        if turn.requests.is_asked(peer, RequestClass.VOTERS):
            turn.pause(peer, RequestClass.VOTERS)  # its ApiVersions is no longer awaited


def note_step(turn: StepContext, role: Leader, fault: Refused) -> None:
    """Records the outcome of a step to the target; after a failure it is tried again after the retry backoff."""
    walk = role.walk
    if fault.error is ErrorCode.NONE:
        role.walk = Walk()
        return
    walk.error, walk.message = fault.error, fault.message
    walk.retry_at_ms = turn.now_ms + turn.settings.retry_wait_ms(walk.failures, turn.random)
    assert walk.retry_at_ms > turn.now_ms, walk  # else the step would be tried in an endless loop
    walk.failures += 1


def answer(
    turn: StepContext, role: Role, request: PendingRequest, fault: Refused, *, end_offset: Offset | None = None
) -> None:
    """Answers a voter change: done with the batch that ends at `end_offset` (exclusive), or refused."""
    if fault.error is not ErrorCode.NONE:
        turn.refuse(role, request, fault)
        return
    assert end_offset is None or end_offset <= turn.log.leo, (end_offset, turn.log.leo)
    response = RESPONSES[type(request)](epoch=role.epoch, leader_id=known_leader(role))
    if isinstance(response, AlterQuorumResponse):
        response = replace(response, offset=None if end_offset is None else end_offset - 1)
    turn.answer(request, response)
