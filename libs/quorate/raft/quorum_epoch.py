"""BeginQuorumEpoch, EndQuorumEpoch and check quorum: how a leader announces, keeps and leaves its epoch (KIP-595).

A leader in the Raft paper sends empty AppendEntries as heartbeats. In KIP-595 followers pull, so the fetches are the
heartbeats: an answered fetch shows a follower that its leader lives, and fetches of a majority show the leader that it
is still followed (check quorum). BeginQuorumEpoch lets voters know at once from whom to fetch. EndQuorumEpoch spares
them the fetch timeout when a leader resigns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quorate.errors import ErrorCode
from quorate.nouns import EPOCHS_END, ReplicaKey
from quorate.raft import read_index, role_entry
from quorate.raft.log import BatchInfo
from quorate.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from quorate.raft.ready import Refusal
from quorate.raft.requests import request_class_of
from quorate.raft.roles import Follower, Leader, Progress, Prospective, Resigned, Role, known_leader
from quorate.raft.settings import RaftSettings
from quorate.raft.step_context import StepContext


def check_quorum(context: StepContext, role: Leader) -> Role | None:
    """Resigns if no majority of the voters has fetched for 1.5 fetch timeouts (I-24). KIP-595, KAFKA-15489.

    By then the voters follow another leader or are cut off from this one: staying would only keep clients waiting. The
    only voter never resigns for this.
    """
    if context.is_sole_voter or not context.wait_until(role.check_quorum_deadline_ms):
        return None
    return role_entry.resigned(
        context, role, reason=f"no fetches of a majority for {context.settings.check_quorum_ms} ms"
    )


def append(context: StepContext, role: Role, batches: Sequence[BatchInfo]) -> Refusal | None:
    """Appends the controller's batches, which are of one epoch and follow each other, or returns why not.

    This node must lead their epoch, they must begin at its log end, and no leadership transfer may be under way.
    """
    assert batches
    assert all(batch.epoch == batches[0].epoch for batch in batches), batches
    assert all(a.end_offset == b.base_offset for a, b in pairwise(batches)), batches
    error = _append_error(context, role, batches[0])
    if error is not ErrorCode.NONE:
        return Refusal(error=error, leader_id=known_leader(role), epoch=role.epoch, wanted_offset=context.log.leo)
    for batch in batches:
        context.append(batch)
    return None


def _append_error(context: StepContext, role: Role, first: BatchInfo) -> ErrorCode:
    """Returns why batches of which `first` is the first are not appended; NONE if they are.

    NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH: this node does not lead the batches' epoch.
    REQUEST_TIMED_OUT: a leadership transfer is under way, to be tried again. OFFSET_OUT_OF_RANGE: they do not begin at
    the log end.
    """
    if not isinstance(role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if first.epoch < role.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if first.epoch > role.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    assert context.log.last_epoch == role.epoch, (context.log.last, role.epoch)  # its LeaderChange record came first
    if context.handover.transfer is not None:  # a retriable error: the transfer ends soon
        return ErrorCode.REQUEST_TIMED_OUT
    return ErrorCode.NONE if first.base_offset == context.log.leo else ErrorCode.OFFSET_OUT_OF_RANGE


def send_begin_quorum_epoch(context: StepContext, role: Leader) -> None:
    """Sends BeginQuorumEpoch to each voter from which the leader has had no contact for half a fetch timeout.

    Contact is a fetch, or an answer to an earlier BeginQuorumEpoch.
    """
    for voter in context.other_voters:
        progress = role.replicas.get(voter)
        if progress is None:
            progress = role.replicas[voter] = Progress()
        last_contact_at_ms = progress.last_contact_at_ms
        if last_contact_at_ms is not None and not context.wait_until(
            last_contact_at_ms + context.settings.begin_epoch_ms
        ):
            continue
        if context.wait_to_ask(voter.id):
            context.ask(voter.id, BeginQuorumEpochRequest(epoch=role.epoch, leader_id=role.leader_id, voter=voter))


def take_begin_acknowledged(context: StepContext, role: Leader, response: BeginQuorumEpochResponse) -> None:
    """Records contact with a voter that has acknowledged BeginQuorumEpoch, and counts it for ReadIndex.

    After a refusal, the voter is asked again after a pause. Check quorum counts Fetches alone (KIP-595).
    """
    request = context.flight.request if context.flight is not None else None
    assert isinstance(request, BeginQuorumEpochRequest), request
    assert request.voter is not None, request
    if response.error is not ErrorCode.NONE:
        context.pause(context.peer, request_class_of(request))
    else:
        role.replicas.setdefault(request.voter, Progress()).last_contact_at_ms = context.now_ms
        read_index.take_acknowledged(role, request)


def acknowledge_begin(context: StepContext, role: Follower, request: BeginQuorumEpochRequest) -> None:
    """Answers the leader's BeginQuorumEpoch; fencing has already made this node its follower.

    If this follower has had no answer to its fetch for half a fetch timeout either, the fetch was lost, and is sent
    again after a pause.
    """
    assert role.leader_id == request.leader_id, (role.leader_id, request.leader_id)
    leader_contact_at_ms = role.fetch_deadline_ms - context.settings.fetch_timeout_ms
    if (
        context.requests.is_asked(role.leader_id)
        and context.now_ms >= leader_contact_at_ms + context.settings.begin_epoch_ms
    ):
        # No answer for longer than a leader may hold a fetch: the one that is under way has been lost.
        context.pause(role.leader_id)
    context.answer(request, BeginQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))


def return_to_leader(context: StepContext, role: Prospective, request: BeginQuorumEpochRequest) -> Role:
    """Ends pre-votes and follows the leader again: its BeginQuorumEpoch shows that it is alive. KIP-996."""
    assert role.leader_id == request.leader_id, (role.leader_id, request.leader_id)
    context.answer(request, BeginQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))
    reason = f"BeginQuorumEpochRequest: {request.leader_id} leads"
    return role_entry.follower(context, epoch=role.epoch, leader_id=request.leader_id, voted=role.voted, reason=reason)


def take_end(context: StepContext, role: Prospective, request: EndQuorumEpochRequest) -> None:
    """Answers EndQuorumEpoch while this node asks for pre-votes already: its pauses after lost rounds become short."""
    assert role.leader_id == request.leader_id, (role.leader_id, request.leader_id)
    context.answer(request, EndQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))
    role.lost_rounds = role.lost_rounds or 0


def acknowledge_end(context: StepContext, role: Follower, request: EndQuorumEpochRequest) -> None:
    """Answers EndQuorumEpoch and shortens the wait before this follower's election. KIP-595, "EndQuorumEpoch".

    The first of the preferred successors does not wait at all, each later one waits longer, and a follower that is not
    named waits for a random part of the longest pause.
    """
    assert role.leader_id == request.leader_id, (role.leader_id, request.leader_id)
    context.answer(request, EndQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))
    # A fetch answer that is still under way must not extend the fetch timeout: the leader has left.
    context.pause(role.leader_id)
    role.is_lost = True
    # The leader itself has announced its end, so this node grants pre-votes to others at once. A follower in Kafka
    # refuses them until its own, longer wait is over.
    role.has_fetched = False
    wait_ms = successor_wait_ms(context.settings, context.node, request.preferred_successors)
    if wait_ms is None:
        # In Kafka, all followers that are not named wait for the longest pause, and then all ask at the same moment.
        wait_ms = 1 + context.random.randrange(context.settings.election_backoff_max_ms)
    role.fetch_deadline_ms = context.now_ms + wait_ms


def successor_wait_ms(settings: RaftSettings, node: ReplicaKey, successors: tuple[ReplicaKey, ...]) -> int | None:
    """Returns how long `node` waits before its election, in ms: 0 for the first of `successors`; None if not named.

    The wait doubles with each position, and the last one waits half the longest pause. KIP-595; Kafka's rule.

    >>> peers = tuple(ReplicaKey(id) for id in (2, 3, 4, 5))
    >>> [successor_wait_ms(RaftSettings(), ReplicaKey(id), peers) for id in (2, 3, 4, 5, 9)]
    [0, 125, 250, 500, None]
    """
    longest_ms = settings.election_backoff_max_ms
    position = next((at for at, key in enumerate(successors) if key.id == node.id), None)
    if position is None or position == 0:
        return position
    assert 0 < position < len(successors), (position, successors)
    return min(longest_ms, (longest_ms >> (len(successors) - 1)) << (position - 1))


def send_end_quorum_epoch(context: StepContext, role: Resigned) -> Role | None:
    """Sends EndQuorumEpoch to each voter until it answers; enters the next epoch if nobody has started one.

    A resigned leader waits one election timeout for that. It may neither vote nor lead in its old epoch again (I-07),
    so without a later epoch it could not take part in an election.
    """
    # After the last epoch there is no next one; only an operator can help (`quorate storage reset-epoch`).
    if role.epoch + 1 < EPOCHS_END and (context.is_sole_voter or context.wait_until(role.election_deadline_ms)):
        return role_entry.unattached(context, epoch=role.epoch + 1, voted=None, reason="nobody has followed us")
    for voter in context.other_voters:
        if voter.id not in role.acknowledged and context.wait_to_ask(voter.id):
            request = EndQuorumEpochRequest(
                epoch=role.epoch, leader_id=role.leader_id, preferred_successors=role.preferred_successors
            )
            context.ask(voter.id, request)
    return None


def take_end_acknowledged(context: StepContext, role: Resigned, response: EndQuorumEpochResponse) -> None:
    """Records that a voter knows of the resignation; if it answered with an error, it is asked again after a pause."""
    if response.error is not ErrorCode.NONE:
        context.pause(context.peer)
    else:
        role.acknowledged.add(context.peer)
