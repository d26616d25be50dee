"""Leader election: pre-votes, votes, and the timeouts between them (KIP-595, KIP-996; Raft 5.2, thesis 9.6).

An election goes through these steps:

1. A voter waits: as Follower until the fetch timeout, as Unattached until a random election timeout.
2. As Prospective it asks for pre-votes, in its present epoch. If it cannot win, it goes back to step 1.
3. With a majority of pre-votes it becomes Candidate: it raises the epoch and votes for itself. Both are durable before
   the first Vote request leaves.
4. With a majority of votes it becomes Leader (I-06). If it cannot win, it pauses for a random time and repeats step 2.

Two rules make elections safe. One vote for each epoch, kept over restarts (I-04), so that an epoch has one leader
(I-01). And no vote for a log that is behind (I-05), so that the leader has every committed record (I-12): the majority
that committed it and the majority that votes share a node.
"""

from __future__ import annotations

from typing import assert_never

from quorate.errors import ErrorCode
from quorate.nouns import OffsetAndEpoch
from quorate.raft import following, quorum, role_entry
from quorate.raft.messages import Request, VoteRequest, VoteResponse
from quorate.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached, known_leader
from quorate.raft.step_context import StepContext
from quorate.raft.voters import is_same

BACKOFF_BASE_MS = 100
"""The unit of the random pause after a lost election, as in Kafka."""
BACKOFF_DOUBLINGS_MAX = 20
"""The range of the random pause is doubled at most so many times, as in Kafka."""


def enters_epoch(context: StepContext, role: Role, request: Request) -> bool:
    """Returns whether this node enters a later epoch of `request` before it answers: always, but for some pre-votes.

    Raft §5.1, KIP-595: a later epoch is entered first, and stays entered if the request is then refused. But a pre-vote
    is only a question (KIP-996; Raft thesis 9.6), and a node with a live leader refuses it: a voter that was removed or
    has fallen behind, in a later epoch, would unseat that leader again and again. Kafka enters the epoch before it
    looks at PreVote (KafkaRaftClient.handleVoteRequest). A voter in force still gets its election: it answers the
    leader's BeginQuorumEpoch with its epoch.
    """
    is_question = isinstance(request, VoteRequest) and request.pre_vote
    return not (is_question and _has_live_leader(role))


def answer_vote(context: StepContext, role: Role, request: VoteRequest) -> Role | None:
    """Answers a Vote request, for a vote or a pre-vote, in this node's epoch. KIP-595, "Vote"; KIP-996.

    A vote is granted if this node has voted for the same candidate already, or has not voted and knows no leader of the
    epoch; and the candidate's log must be at least as far as its own, compared by last epoch first (I-04, I-05). The
    vote is durable before the answer leaves: a granted vote changes the election state, which the driver persists
    before it sends. A granted pre-vote changes nothing. Like Kafka, it does not check that the candidate is a voter: it
    may know a newer voter set.
    """
    is_fenced = request.epoch == role.epoch or not enters_epoch(context, role, request)
    assert is_fenced, (request.epoch, role)  # `Raft.step` has fenced the rest

    # Kafka repeats a vote to the same candidate without comparing the logs again. But a candidate that crashed
    # meanwhile may have lost an unflushed tail, and with it records that a majority has committed; so the logs are
    # compared every time: the last epoch first, then the end offset (Raft §5.4.1).
    is_ahead = request.last >= context.log.last and not context.is_recovering  # in recovery, our own end is too low
    granted = is_ahead and (_would_vote(context, role, request) if request.pre_vote else _may_vote(role, request))
    context.answer(request, VoteResponse(epoch=role.epoch, leader_id=known_leader(role), granted=granted))

    assert not granted or request.last >= context.log.last, (request, context.log.last)  # I-05
    if not granted or request.pre_vote:
        return None
    assert role.voted is None or is_same(role.voted, request.replica), (role, request)  # I-04
    if role.voted is not None:
        return None
    assert role.leader_id is None, (role, request)  # an epoch with a leader has its majority already
    # In Kafka, a prospective voter goes on asking for pre-votes after its vote; here it gives its candidate time to
    # win.
    return role_entry.unattached(
        context, epoch=role.epoch, voted=request.replica, reason=f"voted for {request.replica.id}"
    )


def _would_vote(context: StepContext, role: Role, request: VoteRequest) -> bool:
    """Returns whether this node grants a pre-vote: whether it, too, has no live leader (KIP-996).

    The vote already cast in this epoch does not matter: a pre-vote asks about the next epoch. A follower refuses while
    it has fetched from its leader, so a node that was cut off does not disturb a quorum that works (I-72).
    """
    match role:
        case Leader() | Follower():
            return not _has_live_leader(role)
        case Prospective():
            # Kafka grants here. But two voters that ask each other at once would then both become candidates, and the
            # votes would split. So of two that ask each other, only the one with the longer log, or higher id, gets it.
            is_first = (request.last, request.replica) > (context.log.last_flushed, context.node)
            return is_first or not context.requests.is_asked(request.replica.id)
        case Unattached() | Candidate() | Resigned():
            return True
        case _:
            assert_never(role)


def _has_live_leader(role: Role) -> bool:
    """Returns whether this node leads, or has fetched from its leader within the fetch timeout."""
    return isinstance(role, Leader) or (isinstance(role, Follower) and role.has_fetched)


def _may_vote(role: Role, request: VoteRequest) -> bool:
    """Returns whether this epoch's vote is not yet cast, or was cast for the same replica (I-04)."""
    match role:
        case Unattached() | Prospective():
            if role.voted is not None:
                return is_same(role.voted, request.replica)
            return role.leader_id is None  # a known leader has won the epoch: nobody else can
        case Candidate() | Leader() | Follower() | Resigned():
            return False
        case _:
            assert_never(role)


def count_vote(context: StepContext, role: Prospective | Candidate, response: VoteResponse) -> None:
    """Records one voter's answer; `seek_pre_votes` or `seek_votes` counts them after the step."""
    if isinstance(role, Prospective):
        _count_pre_vote(context, role, response)
    elif response.error is not ErrorCode.NONE:
        context.pause(context.peer)
    else:
        (role.granted if response.granted else role.rejected).add(context.peer)
        assert role.granted.isdisjoint(role.rejected), role  # a voter is asked once for its vote


def _count_pre_vote(context: StepContext, role: Prospective, response: VoteResponse) -> None:
    """Records an answer to a pre-vote. A refusal is not final: the voter is asked again after a pause.

    The voter that refuses may only not have noticed yet that the leader is gone.
    """
    # A voter without pre-vote (Kafka before 4.0) counts as granting: if it still has a leader, it will refuse the vote.
    is_unsupported = response.error is ErrorCode.UNSUPPORTED_VERSION
    if is_unsupported or (response.granted and response.error is ErrorCode.NONE):
        role.granted.add(context.peer)
        role.rejected.discard(context.peer)
        return
    if response.error is ErrorCode.NONE:
        role.rejected.add(context.peer)
    context.pause(context.peer)


def await_election(context: StepContext, role: Unattached) -> Role | None:
    """Starts pre-votes when an unattached voter's election timeout is over; the only voter does not wait.

    A voter whose controller is absent waits longer, so that one with a controller can win first.
    """
    if not context.may_stand_in(role.epoch + 1):
        return None
    if context.is_sole_voter or context.wait_until(role.election_deadline_ms + context.presence_wait_ms):
        return role_entry.prospective(context, role, reason="no leader")
    return None


def watch_leader(context: StepContext, role: Follower) -> Role | None:
    """Starts pre-votes when the leader has been silent for the fetch timeout, or for the shorter wait if it was lost.

    A node that may not stand (an observer, or a voter in recovery) becomes unattached instead and looks for a leader.
    """
    # Even the only voter waits while it follows: its leader has removed itself, leads until that is committed (I-33),
    # and needs this voter's fetches for the commit.
    if not context.wait_until(role.fetch_deadline_ms):
        return None
    reason = f"leader {role.leader_id} is {'lost' if role.is_lost else 'silent'}"
    if context.may_stand_in(role.epoch + 1):
        role.has_fetched = False  # from now on this node grants pre-votes to others
        if not context.wait_until(role.fetch_deadline_ms + context.presence_wait_ms):
            return None
        return role_entry.prospective(context, role, reason=reason)
    return role_entry.unattached(context, epoch=role.epoch, voted=role.voted, reason=reason)


def seek_pre_votes(context: StepContext, role: Prospective) -> Role | None:
    """Asks each voter for a pre-vote; a majority makes this node a candidate of the next epoch. KIP-996.

    It gives up when a majority has become impossible or the election timeout is over. Only a won round of pre-votes
    raises the epoch.
    """
    voters = context.voters.ids
    if not context.may_stand_in(role.epoch + 1):
        return role_entry.unattached(context, epoch=role.epoch, voted=role.voted, reason="no voter any more")
    if quorum.is_won(granted=role.granted, voters=voters):
        reason = f"{len(role.granted)} of {len(voters)} pre-votes"
        return role_entry.candidate(context, epoch=role.epoch + 1, retries=role.retries, reason=reason)
    if quorum.is_lost(rejected=role.rejected, voters=voters):
        return _stand_back(context, role, f"{len(role.rejected)} of {len(voters)} pre-votes refused")
    if context.wait_until(role.election_deadline_ms):
        return _stand_back(context, role, f"{len(role.granted)} of {len(voters)} pre-votes in time")
    _ask_voters(context, role, pre_vote=True)
    return None


def _stand_back(context: StepContext, role: Prospective, reason: str) -> Role:
    """Ends a lost round of pre-votes: follows the known leader again, or is unattached if none is known. KIP-996.

    If the leader was lost, the follower's next wait is short, and doubles with each lost round.
    """
    if role.leader_id is None:
        return role_entry.unattached(context, epoch=role.epoch, voted=role.voted, reason=reason)
    follower = role_entry.follower(context, epoch=role.epoch, leader_id=role.leader_id, voted=role.voted, reason=reason)
    if role.lost_rounds is not None:
        following.give_up_soon(context, follower, lost_rounds=role.lost_rounds + 1)
    return follower


def seek_votes(context: StepContext, role: Candidate) -> Role | None:
    """Asks each voter for its vote; a majority makes this node the leader (I-06).

    When the votes can no longer be a majority, or the election timeout is over, it waits for a random pause and then
    starts pre-votes again, in the same epoch, with a longer pause for the next time.
    """
    voters = context.voters.ids
    assert role.voted == context.node, (role, context.node)  # I-82
    if not context.may_stand_in(role.epoch):
        return role_entry.unattached(context, epoch=role.epoch, voted=role.voted, reason="no voter any more")
    if quorum.is_won(granted=role.granted, voters=voters):
        return role_entry.leader(context, role, reason=f"{len(role.granted)} of {len(voters)} votes")
    if role.retry_at_ms is None and (_is_lost(context, role) or context.wait_until(role.election_deadline_ms)):
        role.retry_at_ms = context.now_ms + backoff_ms(context, role.retries)
    if role.retry_at_ms is None:
        _ask_voters(context, role, pre_vote=False)
    elif context.wait_until(role.retry_at_ms):
        return role_entry.prospective(
            context, role, retries=role.retries + 1, reason=f"{len(role.granted)} votes, try again"
        )
    return None


def _is_lost(context: StepContext, role: Candidate) -> bool:
    """Returns whether a majority is out of reach; a voter to which requests keep failing counts as a refusal."""
    # A dead voter never answers. Once the other votes have split, waiting for it would only cost the election timeout.
    gone = {voter.id for voter in context.other_voters if context.requests.is_failing(voter.id)}
    return quorum.is_lost(rejected=role.rejected | (gone - role.granted), voters=context.voters.ids)


def backoff_ms(context: StepContext, retries: int) -> int:
    """Returns the pause after a lost election, in ms: random, its range doubled each time, with an upper bound.

    It is 100 ms times a random number in [0, 2 << (retries - 1)), at most `election_backoff_max_ms`: Kafka's rule.
    """
    assert retries >= 1, retries
    doubled = 2 << min(BACKOFF_DOUBLINGS_MAX, retries - 1)
    return min(context.settings.election_backoff_max_ms, BACKOFF_BASE_MS * context.random.randrange(doubled))


def _ask_voters(context: StepContext, role: Prospective | Candidate, *, pre_vote: bool) -> None:
    """Sends Vote to each voter whose answer can still change and that has no request under way.

    A refused vote is final for the epoch; a refused pre-vote is not.
    """
    for voter in context.other_voters:
        is_final = voter.id in role.granted or (voter.id in role.rejected and not pre_vote)
        if is_final or not context.wait_to_ask(voter.id):
            continue
        request = VoteRequest(
            epoch=role.epoch,
            replica=context.node,
            last=stated_end(context),
            pre_vote=pre_vote,
            voter=voter,
        )
        context.ask(voter.id, request)


def stated_end(context: StepContext) -> OffsetAndEpoch:
    """Returns the end of the log by which this node asks for votes: its flushed end, not its log end.

    A crash could take the unflushed tail, and votes won by that tail would then elect a leader without committed
    records (I-12).
    """
    log = context.log
    assert log.last_flushed <= log.last, (log.last_flushed, log.last)  # I-12: it states no more
    return log.last_flushed
