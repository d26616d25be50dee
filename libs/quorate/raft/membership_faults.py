"""The checks before a voter change: each returns why the leader refuses it, or None (KIP-853)."""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import ZERO_UUID, ReplicaKey
from quorate.raft.messages import (
    AddRaftVoterRequest,
    AlterQuorumRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from quorate.raft.roles import Leader, PendingChange, Progress
from quorate.raft.step_context import Refused, StepContext
from quorate.raft.voters import SUPPORTED, Voter, VoterSet


def form_fault(context: StepContext, voter: Voter) -> Refused | None:
    """Returns INVALID_REQUEST for a voter without a directory id or the listener by which peers reach it, else None."""
    if (fault := directory_fault(voter.key)) is not None:
        return fault
    wanted = context.settings.listener_name or context.me.listener_name
    if not voter.listens_on(wanted):
        names = ", ".join(endpoint.name for endpoint in voter.endpoints) or "none"
        message = f"voter {voter.key} has the listeners {names}; its peers need {wanted or 'any'}"
        return Refused(ErrorCode.INVALID_REQUEST, message)
    return None


def directory_fault(key: ReplicaKey) -> Refused | None:
    """Returns INVALID_REQUEST for a voter without a directory id, at every kraft.version; else None."""
    if key.directory_id != ZERO_UUID:
        return None
    return Refused(ErrorCode.INVALID_REQUEST, f"voter {key} has no directory id; a voter is an id on a disk")


def time_fault(context: StepContext, role: Leader) -> Refused | None:
    """Returns why no change can begin now (I-31), or None. The checks are in Kafka's order.

    REQUEST_TIMED_OUT: a change is under way, or this epoch has no committed record yet, or the voter set in force is
    not committed. UNSUPPORTED_VERSION: kraft.version is 0.
    """
    return _pending_fault(role) or commit_fault(role) or _static_fault(context) or _uncommitted_fault(context)


def update_time_fault(context: StepContext, role: Leader) -> Refused | None:
    """Returns REQUEST_TIMED_OUT if no update can begin now, as in `time_fault`. It may begin at kraft.version 0."""
    return _pending_fault(role) or commit_fault(role) or _uncommitted_fault(context)


def _pending_fault(role: Leader) -> Refused | None:
    """Refuses a change while another one is under way."""
    if role.pending is None:
        return None
    message = f"{change_name(role.pending)} is under way; one voter changes at a time"
    return Refused(ErrorCode.REQUEST_TIMED_OUT, message)


def commit_fault(role: Leader) -> Refused | None:
    """Returns REQUEST_TIMED_OUT before the leader has committed a record of its epoch (I-31), afterwards None."""
    # Otherwise an uncommitted voter change of an older epoch could still be committed, and the two changes together
    # would differ by more than one voter: Raft thesis 4.1 as corrected in 2015.
    if role.high_watermark is not None:
        return None
    message = f"the leader has committed nothing in epoch {role.epoch} yet; only then may voters change"
    return Refused(ErrorCode.REQUEST_TIMED_OUT, message)


def _static_fault(context: StepContext) -> Refused | None:
    """Refuses a change at kraft.version 0, where the voters are configured."""
    if context.log.kraft_version >= 1:
        return None
    message = "kraft.version is 0, where the voters are configured; from 1 on they can be changed"
    return Refused(ErrorCode.UNSUPPORTED_VERSION, message)


def _uncommitted_fault(context: StepContext) -> Refused | None:
    """Refuses a change while the voter set in force is not committed (I-31)."""
    if context.log.is_voter_change_committed:
        return None
    log = context.log
    message = (
        f"the voters of offset {log.voters.latest_offset} are not committed; the log is up to {log.high_watermark}"
    )
    return Refused(ErrorCode.REQUEST_TIMED_OUT, message)


def duplicate_fault(context: StepContext, voter: Voter) -> Refused | None:
    """Returns DUPLICATE_VOTER if a voter has the id of the one to add, on whatever disk (I-34); else None."""
    known = context.voters.by_id(voter.key.id)
    if known is None:
        return None
    message = f"voter {voter.key} cannot be added: {known.key} votes, and no two voters have one id"
    return Refused(ErrorCode.DUPLICATE_VOTER, message)


def removal_fault(context: StepContext, key: ReplicaKey) -> Refused | None:
    """Returns VOTER_NOT_FOUND for a replica that is no voter, or the only one (I-36): not to be removed. Else None."""
    if key not in context.voters.keys:
        known = ", ".join(map(str, context.voters.keys))
        return Refused(ErrorCode.VOTER_NOT_FOUND, f"{key} is no voter; these are: {known}")
    if len(context.voters.keys) == 1:
        return Refused(ErrorCode.VOTER_NOT_FOUND, f"{key} is the only voter; there must be at least one")
    return None


def update_fault(context: StepContext, voter: Voter) -> Refused | None:
    """Returns why a voter cannot be updated, or None.

    INVALID_REQUEST: it does not support the present kraft.version. VOTER_NOT_FOUND: it is no voter.
    """
    fault = range_fault(context, voter)
    if fault is None and not context.voters.has(voter.key):
        known = ", ".join(map(str, context.voters.keys))
        return Refused(ErrorCode.VOTER_NOT_FOUND, f"{voter.key} is no voter; these are: {known}")
    return fault


def range_fault(context: StepContext, voter: Voter) -> Refused | None:
    """Returns INVALID_REQUEST for a voter that does not support the present kraft.version, else None."""
    version = context.log.kraft_version
    if version in voter.kraft_versions:
        return None
    message = f"voter {voter.key} works with kraft.version {voter.kraft_versions}; the quorum is at {version}"
    return Refused(ErrorCode.INVALID_REQUEST, message)


def progress_fault(context: StepContext, role: Leader, request: AddRaftVoterRequest) -> Refused | None:
    """Returns REQUEST_TIMED_OUT for a new voter that was not at the leader's log end lately (I-35), else None.

    Lately is within the request's timeout, or the fetch timeout if that is longer. Commits would have to wait for it.
    """
    replica = role.replicas.get(request.voter.key, Progress())
    # Kafka requires that it has caught up once and fetched within the hour. A fetch may be held for half a second
    # without news, so the period is never shorter than the fetch timeout.
    since_at_ms = context.now_ms - max(request.timeout_ms, context.settings.fetch_timeout_ms)
    if replica.last_caught_up_at_ms is not None and replica.last_caught_up_at_ms >= since_at_ms:
        return None
    reach = "has not fetched yet" if replica.leo is None else f"is at offset {replica.leo} of {context.log.leo}"
    message = f"voter {request.voter.key} {reach}; it cannot be added before it has caught up"
    return Refused(ErrorCode.REQUEST_TIMED_OUT, message)


def version_fault(context: StepContext, version: int) -> Refused | None:
    """Returns INVALID_UPDATE_VERSION for a kraft.version below the present one, or unknown to this code; else None."""
    current = context.log.kraft_version
    if version < current:
        message = f"kraft.version is {current} and cannot be lowered to {version}"
    elif version not in SUPPORTED:
        message = f"kraft.version {version} is not supported; {SUPPORTED} is"
    else:
        return None
    return Refused(ErrorCode.INVALID_UPDATE_VERSION, message)


def announcement_fault(announced: VoterSet, version: int) -> Refused | None:
    """Returns INVALID_UPDATE_VERSION if a voter does not allow kraft.version to become `version`, else None.

    Its directory id or listeners are unknown, or it does not support that version.
    """
    for voter in announced.voters:
        if voter.key.directory_id == ZERO_UUID or not voter.endpoints:
            missing = "directory id" if voter.key.directory_id == ZERO_UUID else "listeners"
            message = f"voter {voter.key} has not announced its {missing} to the leader yet"
        elif version not in voter.kraft_versions:
            message = f"voter {voter.key} works with kraft.version {voter.kraft_versions}, not with {version}"
        else:
            continue
        return Refused(ErrorCode.INVALID_UPDATE_VERSION, message)
    return None


def change_name(pending: PendingChange) -> str:
    """Returns the change in words, for the reason of a refusal."""
    match pending.request:
        case AddRaftVoterRequest(voter=Voter(key=key)):
            return f"the addition of voter {key}"
        case UpdateRaftVoterRequest(voter=Voter(key=key)):
            return f"the update of voter {key}"
        case RemoveRaftVoterRequest(voter=key):
            return f"the removal of voter {key}"
        case AlterQuorumRequest():
            return "another target of the voter set"
