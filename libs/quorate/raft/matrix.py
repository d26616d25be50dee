"""The protocol as a table: which role answers which message how, and what it does of its own accord."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from quorate.raft import (
    confirming,
    following,
    joining,
    leading,
    membership,
    progress,
    relaying,
    serving,
    transferring,
    voting,
)
from quorate.raft.messages import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ConfirmLeadershipRequest,
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
from quorate.raft.turn import Turn

R = TypeVar("R", bound=Role)
M = TypeVar("M", bound=Message)

Handler = Callable[[Turn, Role, Message], Role | None]
"""Takes a message; returns the next role, or None to stay."""

Pursuit = Callable[[Turn, Role], Role | None]
"""Does whatever is due, and says when it wants to be asked again; returns the next role, or None to stay."""

ROWS: dict[tuple[type[object], type[object]], Handler] = {}
PURSUITS: dict[type[object], tuple[Pursuit, ...]] = {}


def row(role: type[R], message: type[M], handler: Callable[[Turn, R, M], Role | None]) -> None:
    """`role` takes `message` by `handler`; the types of all three are held together here."""
    assert (role, message) not in ROWS, (role, message)
    # Rows of all roles share one table; `Raft.step` looks them up by the very types that are checked above.
    ROWS[role, message] = cast(Handler, handler)


def pursue(role: type[R], *pursuits: Callable[[Turn, R], Role | None]) -> None:
    """After every step `role` goes through `pursuits` in order; the first that returns a role ends it."""
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
row(Follower, BeginQuorumEpochRequest, leading.acknowledge_begin)
row(Prospective, BeginQuorumEpochRequest, leading.return_to_leader)
row(Leader, BeginQuorumEpochResponse, leading.take_begin_acknowledged)
row(Follower, EndQuorumEpochRequest, leading.acknowledge_end)
row(Prospective, EndQuorumEpochRequest, leading.take_end)
row(Resigned, EndQuorumEpochResponse, leading.take_end_acknowledged)
row(Leader, FetchRequest, serving.serve_fetch)
row(Follower, FetchRequest, relaying.relay_fetch)
row(Follower, FetchResponse, following.take_fetch)
row(Leader, FetchSnapshotRequest, serving.serve_snapshot)
row(Follower, FetchSnapshotRequest, relaying.relay_snapshot)
row(Follower, FetchSnapshotResponse, following.take_chunk)
row(Leader, AddRaftVoterRequest, membership.add_voter)
row(Leader, ApiVersionsResponse, membership.take_kraft_versions)
row(Leader, RemoveRaftVoterRequest, membership.remove_voter)
row(Leader, UpdateRaftVoterRequest, membership.update_voter)
row(Leader, TransferLeadershipRequest, transferring.begin)
row(Leader, ConfirmLeadershipRequest, confirming.confirm)
row(Follower, UpdateRaftVoterResponse, joining.take_updated)
row(Follower, RemoveRaftVoterResponse, joining.take_removed)
row(Unattached, ApiVersionsRequest, joining.answer_api_versions)
row(Prospective, ApiVersionsRequest, joining.answer_api_versions)
row(Candidate, ApiVersionsRequest, joining.answer_api_versions)
row(Leader, ApiVersionsRequest, joining.answer_api_versions)
row(Follower, ApiVersionsRequest, joining.answer_api_versions)
row(Resigned, ApiVersionsRequest, joining.answer_api_versions)

pursue(Unattached, transferring.await_successor, voting.await_election, following.seek_leader)
pursue(Prospective, transferring.await_successor, voting.seek_pre_votes)
pursue(Candidate, transferring.await_successor, voting.seek_votes)
pursue(
    Leader,
    leading.check_quorum,
    leading.tell_voters,
    progress.advance,
    membership.finish_change,
    serving.answer_parked,
    confirming.ask_voters,
    transferring.hand_over,
    membership.leave_office,
)
pursue(
    Follower,
    transferring.await_successor,
    voting.watch_leader,
    joining.tell_leader,
    following.fetch,
    relaying.answer_parked,
)
pursue(Resigned, transferring.await_successor, leading.tell_end)


def handler(role: Role, message: Message) -> Handler | None:
    """How `role` takes `message`; None if it does not."""
    return ROWS.get((type(role), type(message)))


def as_markdown() -> str:
    """The table, as the README shows it: what all roles do is one row."""
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
