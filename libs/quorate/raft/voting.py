"""Pre-vote, vote, and the waits between (KIP-595, KIP-996)."""

from __future__ import annotations

from typing import assert_never

from quorate.errors import ErrorCode
from quorate.raft import enter, following, quorum
from quorate.raft.messages import VoteRequest, VoteResponse
from quorate.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached, known_leader
from quorate.raft.turn import Turn
from quorate.raft.voters import is_same

BACKOFF_BASE_MS = 100
BACKOFF_DOUBLINGS_MAX = 20


def answer_vote(turn: Turn, role: Role, request: VoteRequest) -> Role | None:
    """Grants the vote for this epoch, or refuses it. KIP-595, "Vote".

    One vote an epoch, and only for a log at least as far as ours. The vote is durable before the answer
    leaves: a granted vote changes the election state, which `Ready` has the driver persist first.
    """
    assert request.epoch == role.epoch, (request.epoch, role.epoch)  # `Raft.step` has fenced the rest

    # Kafka grants a vote twice without a second look at the log. But a candidate that crashed may have lost a tail
    # that it had not flushed, and with it records that are committed on others; so the log is compared every time.
    is_ahead = request.last >= turn.log.last and not turn.is_recovering  # we cannot say what we had
    granted = is_ahead and (_would_vote(turn, role, request) if request.pre_vote else _may_vote(role, request))
    turn.answer(request, VoteResponse(epoch=role.epoch, leader_id=known_leader(role), granted=granted))

    if not granted or request.pre_vote or role.voted is not None:
        return None
    # Kafka's prospective voter goes on asking; ours stands back for the one it voted for.
    return enter.unattached(turn, epoch=role.epoch, voted=request.replica, reason=f"voted for {request.replica.id}")


def _would_vote(turn: Turn, role: Role, request: VoteRequest) -> bool:
    """Is an election in the next epoch welcome? Not while the leader is heard. KIP-996."""
    match role:
        case Leader():
            return False
        case Follower():
            return not role.has_fetched
        case Prospective():
            # Kafka's would grant. But if two ask each other at once, both are then candidates, and the votes split.
            is_first = (request.last, request.replica) > (turn.log.last_flushed, turn.node)
            return is_first or not turn.requests.is_asked(request.replica.id)
        case Unattached() | Candidate() | Resigned():
            return True
        case _:
            assert_never(role)


def _may_vote(role: Role, request: VoteRequest) -> bool:
    """Is the vote of this epoch free, or already `request.replica`'s?"""
    match role:
        case Unattached() | Prospective():
            if role.voted is not None:
                return is_same(role.voted, request.replica)
            return role.leader_id is None  # who knows the leader of an epoch needs no other in it
        case Candidate() | Leader() | Follower() | Resigned():
            return False
        case _:
            assert_never(role)


def count_vote(turn: Turn, role: Prospective | Candidate, response: VoteResponse) -> None:
    """Notes one voter's answer; `seek_pre_votes` and `seek_votes` draw the sum."""
    if isinstance(role, Prospective):
        _count_pre_vote(turn, role, response)
    elif response.error is not ErrorCode.NONE:
        turn.pause(turn.peer)
    else:
        (role.granted if response.granted else role.rejected).add(turn.peer)


def _count_pre_vote(turn: Turn, role: Prospective, response: VoteResponse) -> None:
    """A voter that refuses is asked again after a pause: it may just not know yet that the leader is gone."""
    # One that has no pre-vote (Kafka before 4.0) cannot refuse it; if it hears the leader, it will refuse the vote.
    is_unsupported = response.error is ErrorCode.UNSUPPORTED_VERSION
    if is_unsupported or (response.granted and response.error is ErrorCode.NONE):
        role.granted.add(turn.peer)
        role.rejected.discard(turn.peer)
        return
    if response.error is ErrorCode.NONE:
        role.rejected.add(turn.peer)
    turn.pause(turn.peer)


def await_election(turn: Turn, role: Unattached) -> Role | None:
    """A voter without a leader waits for its election timeout; the only voter does not wait."""
    if turn.may_stand and (turn.is_sole_voter or turn.is_due(role.election_ms)):
        return enter.prospective(turn, role, reason="no leader")
    return None


def watch_leader(turn: Turn, role: Follower) -> Role | None:
    """A follower whose leader is silent for the fetch timeout, or lost, looks for another."""
    # The only voter waits too: its leader may be about to leave, and needs our fetches to commit that.
    if not turn.is_due(role.fetch_ms):
        return None
    reason = f"leader {role.leader_id} is {'lost' if role.is_lost else 'silent'}"
    if turn.may_stand:
        return enter.prospective(turn, role, reason=reason)
    return enter.unattached(turn, epoch=role.epoch, voted=role.voted, reason=reason)


def seek_pre_votes(turn: Turn, role: Prospective) -> Role | None:
    """Asks every voter; becomes a candidate by a majority, and gives up if there can be none. KIP-996."""
    voters = turn.voters.ids
    if not turn.may_stand:
        return enter.unattached(turn, epoch=role.epoch, voted=role.voted, reason="no voter any more")
    if quorum.is_won(granted=role.granted, voters=voters):
        reason = f"{len(role.granted)} of {len(voters)} pre-votes"
        return enter.candidate(turn, epoch=role.epoch + 1, retries=role.retries, reason=reason)
    if quorum.is_lost(rejected=role.rejected, voters=voters):
        return _stand_back(turn, role, f"{len(role.rejected)} of {len(voters)} pre-votes refused")
    if turn.is_due(role.election_ms):
        return _stand_back(turn, role, f"{len(role.granted)} of {len(voters)} pre-votes in time")
    _ask_voters(turn, role, pre_vote=True)
    return None


def _stand_back(turn: Turn, role: Prospective, reason: str) -> Role:
    """Follows the leader again, if one is known: the others may well hear it."""
    if role.leader_id is None:
        return enter.unattached(turn, epoch=role.epoch, voted=role.voted, reason=reason)
    follower = enter.follower(turn, epoch=role.epoch, leader_id=role.leader_id, voted=role.voted, reason=reason)
    if role.lost_rounds is not None:
        following.give_up_soon(turn, follower, lost_rounds=role.lost_rounds + 1)
    return follower


def seek_votes(turn: Turn, role: Candidate) -> Role | None:
    """Asks every voter; leads by a majority, and pauses before it tries again if there is none in time."""
    voters = turn.voters.ids
    if not turn.may_stand:
        return enter.unattached(turn, epoch=role.epoch, voted=role.voted, reason="no voter any more")
    if quorum.is_won(granted=role.granted, voters=voters):
        return enter.leader(turn, role, reason=f"{len(role.granted)} of {len(voters)} votes")
    if role.backoff_ms is None and (_is_lost(turn, role) or turn.is_due(role.election_ms)):
        role.backoff_ms = turn.now_ms + backoff_ms(turn, role.retries)
    if role.backoff_ms is None:
        _ask_voters(turn, role, pre_vote=False)
    elif turn.is_due(role.backoff_ms):
        return enter.prospective(turn, role, retries=role.retries + 1, reason=f"{len(role.granted)} votes, try again")
    return None


def _is_lost(turn: Turn, role: Candidate) -> bool:
    """Can there be no majority, as far as can be seen now?"""
    # A dead voter does not answer. To wait for it, after the votes of the others have split, is to wait in vain.
    gone = {voter.id for voter in turn.other_voters if turn.requests.is_failing(voter.id)}
    return quorum.is_lost(rejected=role.rejected | (gone - role.granted), voters=turn.voters.ids)


def backoff_ms(turn: Turn, retries: int) -> int:
    """The pause after a lost election: random, its range doubled each time, and bounded."""
    doubled = 2 << min(BACKOFF_DOUBLINGS_MAX, retries - 1)
    return min(turn.settings.election_backoff_max_ms, BACKOFF_BASE_MS * turn.random.randrange(doubled))


def _ask_voters(turn: Turn, role: Prospective | Candidate, *, pre_vote: bool) -> None:
    """Sends the request to every voter whose answer may still change and which is not being asked."""
    for voter in turn.other_voters:
        is_final = voter.id in role.granted or (voter.id in role.rejected and not pre_vote)
        if is_final or not turn.may_ask(voter.id):
            continue
        request = VoteRequest(
            epoch=role.epoch,
            replica=turn.node,
            # Only what a crash would leave us: votes won by a tail that is then lost could elect us without it.
            last=turn.log.last_flushed,
            pre_vote=pre_vote,
            voter=voter,
        )
        turn.ask(voter.id, request)
