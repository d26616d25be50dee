"""The leader changes who votes: one voter at a time, and only once the last change is committed (KIP-853).

Every refusal is an error code of Kafka's and a sentence. What is refused only for now is REQUEST_TIMED_OUT there, and
here: nothing was changed, and it may be asked again.
"""

from __future__ import annotations

from dataclasses import replace

from quorate.errors import ErrorCode
from quorate.nouns import ZERO_UUID, Offset, ReplicaKey
from quorate.raft import enter, progress
from quorate.raft.log import VotersChange
from quorate.raft.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from quorate.raft.ready import Upgrade
from quorate.raft.requests import Lane
from quorate.raft.roles import Leader, PendingChange, Progress, Role, known_leader
from quorate.raft.turn import NO_FAULT, Fault, Turn
from quorate.raft.voters import SUPPORTED, Voter, VoterSet

# What is asked.


def add_voter(turn: Turn, role: Leader, request: AddRaftVoterRequest) -> None:
    """Begins to add a voter: its kraft.version range is asked for first. KIP-853, "AddVoter"."""
    fault = _form_fault(turn, request.voter) or _time_fault(turn, role) or _duplicate_fault(turn, request.voter)
    if request.timeout_ms < 0:
        fault = Fault(ErrorCode.INVALID_REQUEST, f"the timeout is {request.timeout_ms} ms; it must not be negative")
    if fault is not None:
        _answer(turn, role, request, fault)
    else:
        role.pending = PendingChange(request=request, expires_ms=turn.now_ms + request.timeout_ms)


def remove_voter(turn: Turn, role: Leader, request: RemoveRaftVoterRequest) -> None:
    """Takes a voter out, ourselves too: then we lead on until that is committed. KIP-853, "RemoveVoter"."""
    fault = _time_fault(turn, role) or _removal_fault(turn, request.voter)
    if fault is not None:
        _answer(turn, role, request, fault)
        return
    # Kafka's request has no timeout of its own either.
    expires_ms = turn.now_ms + turn.settings.request_timeout_ms
    end_offset = _append(turn, role, turn.voters.without(request.voter))
    role.pending = PendingChange(request=request, expires_ms=expires_ms, end_offset=end_offset)


def update_voter(turn: Turn, role: Leader, request: UpdateRaftVoterRequest) -> None:
    """Notes what a voter says of itself: in the log, or at kraft.version 0 in memory. KIP-853, "UpdateVoter"."""
    voter = request.voter
    fault = _form_fault(turn, voter) or _update_time_fault(turn, role) or _update_fault(turn, voter)
    if fault is None and turn.log.kraft_version == 0:
        role.told_voters = (role.told_voters or turn.voters).updated(voter)
    elif fault is None and voter not in turn.voters.voters:
        _append(turn, role, turn.voters.updated(voter))
    fault = fault or NO_FAULT
    response = UpdateRaftVoterResponse(
        epoch=role.epoch, leader_id=role.leader_id, error=fault.error, message=fault.message
    )
    turn.answer(request, response)


def upgrade(turn: Turn, role: Leader, version: int, *, validate_only: bool) -> Upgrade:
    """Raises kraft.version, and from 0 to 1 writes the voters into the log with what they have told. KIP-853."""
    leo = turn.log.leo
    if version == turn.log.kraft_version:
        return Upgrade(end_offset=leo)
    told = role.told_voters or turn.voters
    fault = _version_fault(turn, version) or _commit_fault(role) or _told_fault(told, version)
    if fault is not None:
        return Upgrade(error=fault.error, message=fault.message, end_offset=leo)
    if not validate_only:
        leo = _append(turn, role, told, kraft_version=version)
        role.told_voters = None
    return Upgrade(end_offset=leo)


# How it goes on.


def take_kraft_versions(turn: Turn, role: Leader, response: ApiVersionsResponse) -> None:
    """The new voter has said what it can work with: it is added if it has caught up, or refused."""
    assert turn.flight is not None
    pending = role.pending
    # Whoever ends a change also forgets its question.
    assert pending is not None, response
    request = pending.request
    assert isinstance(request, AddRaftVoterRequest), request
    assert request.voter.key.id == turn.peer, (request, turn.peer)
    if response.error is not ErrorCode.NONE:
        turn.pause_flight(turn.flight)
        return
    voter = replace(request.voter, kraft_versions=response.kraft_versions)
    fault = _range_fault(turn, voter) or _progress_fault(turn, role, request)
    if fault is not None:
        _end(turn, role, pending, fault)
        return
    pending.end_offset = _append(turn, role, turn.voters.with_voter(voter))
    if not request.ack_when_committed:
        _answer(turn, role, request, NO_FAULT)
        pending.is_answered = True


def finish_change(turn: Turn, role: Leader) -> None:
    """Answers a change that is committed, or has taken too long; asks the new voter what it can work with."""
    pending = role.pending
    if pending is None:
        return
    if pending.end_offset is not None and pending.end_offset <= (role.high_watermark or 0):
        _end(turn, role, pending, NO_FAULT)
        return
    if turn.is_due(pending.expires_ms):
        message = f"{_name(pending)} was not committed in time"
        if pending.end_offset is None:
            message = f"voter {_key(pending)} did not say in time with which kraft.version it works"
        _end(turn, role, pending, Fault(ErrorCode.REQUEST_TIMED_OUT, message))
        return
    request = pending.request
    if pending.end_offset is None and turn.may_ask(_key(pending).id, Lane.VOTERS):
        assert isinstance(request, AddRaftVoterRequest), request
        turn.ask(request.voter.key.id, ApiVersionsRequest(), request.voter.endpoints)


def leave_office(turn: Turn, role: Leader) -> Role | None:
    """Resigns once our own removal is committed; until then only we can see to that. KIP-853."""
    if turn.is_voter or role.high_watermark is None or not turn.log.is_voter_change_committed:
        return None
    return enter.resigned(turn, role, reason="no voter any more")


def release_change(turn: Turn, role: Leader, after: Role) -> None:
    """Tells who waits for a change that we lead no more: whether it is committed, the next leader knows."""
    pending, role.pending = role.pending, None
    if pending is not None and not pending.is_answered:
        message = f"{_name(pending)}: this node leads no more; the next leader knows what has become of it"
        _answer(turn, after, pending.request, Fault(ErrorCode.NOT_LEADER_OR_FOLLOWER, message))


def _append(turn: Turn, role: Leader, voters: VoterSet, *, kraft_version: int | None = None) -> Offset:
    """Writes the voter set, which is in force at once; the answer is where its batch ends."""
    change = VotersChange(base_offset=turn.log.leo, epoch=role.epoch, voters=voters, kraft_version=kraft_version)
    turn.append(change)
    # The new set has its full time to be heard: a leader that was alone has not been counting at all.
    role.fetched.clear()
    role.check_quorum_ms = turn.now_ms + turn.settings.check_quorum_ms
    if kraft_version is not None:
        _track_by_key(turn, role)
    return change.end_offset


def _track_by_key(turn: Turn, role: Leader) -> None:
    """Voters that were known by their ids alone have directories now: how far those are, their next fetches tell."""
    for key in turn.other_voters:
        before = role.replicas.pop(ReplicaKey(key.id), Progress())
        role.replicas[key] = Progress(last_contact_ms=before.last_contact_ms)
    role.parked = {progress.tracked_key(turn, held.request.replica): held for held in role.parked.values()}
    for key in role.parked:
        role.replicas.setdefault(key, Progress())


def _end(turn: Turn, role: Leader, pending: PendingChange, fault: Fault) -> None:
    """Nothing is pending any more."""
    if not pending.is_answered:
        _answer(turn, role, pending.request, fault)
    role.pending = None
    if turn.requests.is_asked(_key(pending).id, Lane.VOTERS):
        turn.pause(_key(pending).id, Lane.VOTERS)  # its question is not waited for


def _answer(turn: Turn, role: Role, request: AddRaftVoterRequest | RemoveRaftVoterRequest, fault: Fault) -> None:
    response = AddRaftVoterResponse if isinstance(request, AddRaftVoterRequest) else RemoveRaftVoterResponse
    leader_id = known_leader(role)
    turn.answer(request, response(epoch=role.epoch, leader_id=leader_id, error=fault.error, message=fault.message))


def _key(pending: PendingChange) -> ReplicaKey:
    request = pending.request
    return request.voter.key if isinstance(request, AddRaftVoterRequest) else request.voter


def _name(pending: PendingChange) -> str:
    what = "addition" if isinstance(pending.request, AddRaftVoterRequest) else "removal"
    return f"the {what} of voter {_key(pending)}"


# Why not: each a fault, or None.


def _form_fault(turn: Turn, voter: Voter) -> Fault | None:
    """Does the request name a disk, and a listener by which we reach it?"""
    if voter.key.directory_id == ZERO_UUID:
        return Fault(ErrorCode.INVALID_REQUEST, f"voter {voter.key} has no directory id; a voter is an id on a disk")
    if not voter.listens_on(turn.me.listener_name):
        names = ", ".join(endpoint.name for endpoint in voter.endpoints) or "none"
        wanted = turn.me.listener_name or "any"
        message = f"voter {voter.key} has the listeners {names}; its peers need {wanted}"
        return Fault(ErrorCode.INVALID_REQUEST, message)
    return None


def _time_fault(turn: Turn, role: Leader) -> Fault | None:
    """May a voter come or go now? In Kafka's order."""
    return _pending_fault(role) or _commit_fault(role) or _static_fault(turn) or _uncommitted_fault(turn)


def _update_time_fault(turn: Turn, role: Leader) -> Fault | None:
    """May a voter be described anew now? At kraft.version 0 too."""
    return _pending_fault(role) or _commit_fault(role) or _uncommitted_fault(turn)


def _pending_fault(role: Leader) -> Fault | None:
    if role.pending is None:
        return None
    message = f"{_name(role.pending)} is under way; one voter changes at a time"
    return Fault(ErrorCode.REQUEST_TIMED_OUT, message)


def _commit_fault(role: Leader) -> Fault | None:
    # Without a commit of its own epoch a leader does not know whether an older change still may come back.
    if role.high_watermark is not None:
        return None
    message = f"the leader has committed nothing in epoch {role.epoch} yet; only then may voters change"
    return Fault(ErrorCode.REQUEST_TIMED_OUT, message)


def _static_fault(turn: Turn) -> Fault | None:
    if turn.log.kraft_version >= 1:
        return None
    message = "kraft.version is 0, where the voters are configured; from 1 on they can be changed"
    return Fault(ErrorCode.UNSUPPORTED_VERSION, message)


def _uncommitted_fault(turn: Turn) -> Fault | None:
    if turn.log.is_voter_change_committed:
        return None
    log = turn.log
    message = (
        f"the voters of offset {log.voters.latest_offset} are not committed; the log is up to {log.high_watermark}"
    )
    return Fault(ErrorCode.REQUEST_TIMED_OUT, message)


def _duplicate_fault(turn: Turn, voter: Voter) -> Fault | None:
    known = turn.voters.by_id(voter.key.id)
    if known is None:
        return None
    message = f"voter {voter.key} cannot be added: {known.key} votes, and no two voters have one id"
    return Fault(ErrorCode.DUPLICATE_VOTER, message)


def _removal_fault(turn: Turn, key: ReplicaKey) -> Fault | None:
    if key not in turn.voters.keys:
        known = ", ".join(map(str, turn.voters.keys))
        return Fault(ErrorCode.VOTER_NOT_FOUND, f"{key} is no voter; these are: {known}")
    if len(turn.voters.keys) == 1:
        return Fault(ErrorCode.VOTER_NOT_FOUND, f"{key} is the only voter; there must be at least one")
    return None


def _update_fault(turn: Turn, voter: Voter) -> Fault | None:
    fault = _range_fault(turn, voter)
    if fault is None and not turn.voters.has(voter.key):
        known = ", ".join(map(str, turn.voters.keys))
        return Fault(ErrorCode.VOTER_NOT_FOUND, f"{voter.key} is no voter; these are: {known}")
    return fault


def _range_fault(turn: Turn, voter: Voter) -> Fault | None:
    version = turn.log.kraft_version
    if version in voter.kraft_versions:
        return None
    message = f"voter {voter.key} works with kraft.version {voter.kraft_versions}; the quorum is at {version}"
    return Fault(ErrorCode.INVALID_REQUEST, message)


def _progress_fault(turn: Turn, role: Leader, request: AddRaftVoterRequest) -> Fault | None:
    """Has the new voter lately been where our log ended? If not, the commits would wait for it."""
    replica = role.replicas.get(request.voter.key, Progress())
    # Kafka is content with once, and a fetch within the hour. A fetch may be held for half a second without news.
    since_ms = turn.now_ms - max(request.timeout_ms, turn.settings.fetch_timeout_ms)
    if replica.last_caught_up_ms is not None and replica.last_caught_up_ms >= since_ms:
        return None
    reach = "has not fetched yet" if replica.leo is None else f"is at offset {replica.leo} of {turn.log.leo}"
    message = f"voter {request.voter.key} {reach}; it cannot be added before it has caught up"
    return Fault(ErrorCode.REQUEST_TIMED_OUT, message)


def _version_fault(turn: Turn, version: int) -> Fault | None:
    current = turn.log.kraft_version
    if version < current:
        message = f"kraft.version is {current} and cannot be lowered to {version}"
    elif version not in SUPPORTED:
        message = f"kraft.version {version} is not supported; {SUPPORTED} is"
    else:
        return None
    return Fault(ErrorCode.INVALID_UPDATE_VERSION, message)


def _told_fault(told: VoterSet, version: int) -> Fault | None:
    """Is everything known that the log is to say of each voter?"""
    for voter in told.voters:
        if voter.key.directory_id == ZERO_UUID or not voter.endpoints:
            missing = "directory id" if voter.key.directory_id == ZERO_UUID else "listeners"
            message = f"voter {voter.key} has not told the leader its {missing} yet"
        elif version not in voter.kraft_versions:
            message = f"voter {voter.key} works with kraft.version {voter.kraft_versions}, not with {version}"
        else:
            continue
        return Fault(ErrorCode.INVALID_UPDATE_VERSION, message)
    return None
