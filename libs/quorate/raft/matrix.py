"""The protocol as a table: the handler of each message in each role, and the work of each role after every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from quorate.raft import (
    follower_fetch,
    following,
    joining,
    leadership_transfer,
    membership,
    presence,
    progress,
    quorum_epoch,
    read_index,
    serving,
    voting,
    walking,
)
from quorate.raft.messages import (
    AddRaftVoterRequest,
    AlterQuorumRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ConfirmLeadershipRequest,
    ControllerPresenceRequest,
    ControllerPresenceResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    TransferLeadershipRequest,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from quorate.raft.step_context import StepContext

R = TypeVar("R", bound=Role)
M = TypeVar("M", bound=Message)

Handler = Callable[[StepContext, Role, Message], Role | None]
"""A function that handles a message; it returns the next role, or None to stay."""

Pursuit = Callable[[StepContext, Role], Role | None]
"""A function that does what is due after a step and sets its timer; it returns the next role, or None to stay."""

ROWS: dict[tuple[type[object], type[object]], Handler] = {}
"""The handler for each pair of role type and message type."""
PURSUITS: dict[type[object], tuple[Pursuit, ...]] = {}
"""The functions that each role type runs after every step, in this order."""


def row(role: type[R], message: type[M], handler: Callable[[StepContext, R, M], Role | None]) -> None:
    """Adds a handler to the table; mypy checks that it fits the role and the message."""
    assert (role, message) not in ROWS, (role, message)
    # The table has the rows of all roles; the core looks them up by the same types that mypy has checked.
    ROWS[role, message] = cast(Handler, handler)


def pursue(role: type[R], *pursuits: Callable[[StepContext, R], Role | None]) -> None:
    """Sets the functions that a role runs after every step, in order; the first that returns a role ends the round."""
    assert role not in PURSUITS, role
    PURSUITS[role] = cast(tuple[Pursuit, ...], pursuits)  # as above


# A request without a row is answered with NOT_LEADER_OR_FOLLOWER; a response without one is dropped.
row(Unattached, VoteRequest, voting.answer_vote)
row(Prospective, VoteRequest, voting.answer_vote)
row(Candidate, VoteRequest, voting.answer_vote)
row(Leader, VoteRequest, voting.answer_vote)
row(Follower, VoteRequest, voting.answer_vote)
row(Resigned, VoteRequest, voting.answer_vote)
row(Prospective, VoteResponse, voting.count_vote)
row(Candidate, VoteResponse, voting.count_vote)
row(Follower, BeginQuorumEpochRequest, quorum_epoch.acknowledge_begin)
row(Prospective, BeginQuorumEpochRequest, quorum_epoch.return_to_leader)
row(Leader, BeginQuorumEpochResponse, quorum_epoch.take_begin_acknowledged)
row(Follower, EndQuorumEpochRequest, quorum_epoch.acknowledge_end)
row(Prospective, EndQuorumEpochRequest, quorum_epoch.take_end)
row(Resigned, EndQuorumEpochResponse, quorum_epoch.take_end_acknowledged)
row(Leader, FetchRequest, serving.serve_fetch)
row(Follower, FetchRequest, follower_fetch.relay_fetch)
row(Follower, FetchResponse, following.take_fetch)
row(Leader, FetchSnapshotRequest, serving.serve_snapshot)
row(Follower, FetchSnapshotRequest, follower_fetch.relay_snapshot)
row(Follower, FetchSnapshotResponse, following.take_chunk)
row(Leader, AddRaftVoterRequest, membership.add_voter)
row(Leader, ApiVersionsResponse, membership.take_kraft_versions)
row(Leader, RemoveRaftVoterRequest, membership.remove_voter)
row(Leader, AlterQuorumRequest, walking.alter_quorum)
row(Leader, UpdateRaftVoterRequest, membership.update_voter)
row(Leader, TransferLeadershipRequest, leadership_transfer.begin)
row(Leader, ConfirmLeadershipRequest, read_index.confirm)
row(Leader, ControllerPresenceRequest, presence.record_presence)
row(Follower, UpdateRaftVoterResponse, joining.take_updated)
row(Follower, RemoveRaftVoterResponse, joining.take_removed)
row(Follower, ControllerPresenceResponse, presence.take_presence_acknowledged)
row(Unattached, ApiVersionsRequest, joining.answer_api_versions)
row(Prospective, ApiVersionsRequest, joining.answer_api_versions)
row(Candidate, ApiVersionsRequest, joining.answer_api_versions)
row(Leader, ApiVersionsRequest, joining.answer_api_versions)
row(Follower, ApiVersionsRequest, joining.answer_api_versions)
row(Resigned, ApiVersionsRequest, joining.answer_api_versions)

pursue(Unattached, leadership_transfer.await_successor, voting.await_election, following.seek_leader)
pursue(Prospective, leadership_transfer.await_successor, voting.seek_pre_votes)
pursue(Candidate, leadership_transfer.await_successor, voting.seek_votes)
# The order matters. A leader that has lost its quorum resigns before anything else. The high watermark moves before the
# work that depends on it: voter changes, held fetches, transfers. The resignations of a leader that transfers its
# leadership, lacks its controller or is no voter any more come last.
pursue(
    Leader,
    quorum_epoch.check_quorum,
    quorum_epoch.send_begin_quorum_epoch,
    progress.advance,
    membership.finish_change,
    walking.walk,
    serving.answer_parked,
    read_index.ask_voters,
    leadership_transfer.hand_over,
    presence.resign_without_controller,
    membership.leave_office,
)
# A follower fetches after it has seen whether its leader is still there.
pursue(
    Follower,
    leadership_transfer.await_successor,
    voting.watch_leader,
    joining.send_voter_request,
    presence.report_presence,
    following.fetch,
    follower_fetch.answer_parked,
)
pursue(Resigned, leadership_transfer.await_successor, quorum_epoch.send_end_quorum_epoch)


def handler(role: Role, message: Message) -> Handler | None:
    """Returns the handler of `message` in `role`; None if the role does not handle it."""
    return ROWS.get((type(role), type(message)))


def as_markdown() -> str:
    """Returns the table as the README shows it; a message with the same handler in all roles is one row."""
    lines = ["| role | message | handler |", "|---|---|---|"]
    everybody = {message for message in {row[1] for row in ROWS} if all((role, message) in ROWS for role in PURSUITS)}
    for (role, message), how in ROWS.items():
        if message not in everybody:
            lines.append(f"| {role.__name__} | {message.__name__} | {_name(how)} |")
        elif role is next(iter(PURSUITS)):
            assert all(ROWS[other, message] is how for other in PURSUITS), message
            lines.append(f"| *any* | {message.__name__} | {_name(how)} |")
    lines += [
        f"| {role.__name__} | *after every step* | {', '.join(map(_name, pursuits))} |"
        for role, pursuits in PURSUITS.items()
    ]
    return "\n".join(lines)


def _name(function: Callable[..., object]) -> str:
    return f"`{function.__module__.rpartition('.')[2]}.{function.__name__}`"
