"""The beginning and the end of an epoch, seen from its leader and from those who are told (KIP-595)."""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import ReplicaKey
from quorate.raft import confirming, enter
from quorate.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from quorate.raft.requests import lane_of
from quorate.raft.roles import Follower, Leader, Progress, Prospective, Resigned, Role
from quorate.raft.settings import Settings
from quorate.raft.turn import Turn


def check_quorum(turn: Turn, role: Leader) -> Role | None:
    """Resigns if no majority of voters has fetched for one and a half fetch timeouts. KAFKA-15489.

    By then they follow another or cannot hear us; staying would only keep clients waiting.
    """
    if turn.is_sole_voter or not turn.is_due(role.check_quorum_ms):
        return None
    return enter.resigned(turn, role, reason=f"no fetches of a majority for {turn.settings.check_quorum_ms} ms")


def tell_voters(turn: Turn, role: Leader) -> None:
    """Sends BeginQuorumEpoch to each voter until it is heard, and again whenever it has long been silent."""
    for voter in turn.other_voters:
        progress = role.replicas.get(voter)
        if progress is None:
            progress = role.replicas[voter] = Progress()
        last_ms = progress.last_contact_ms
        if last_ms is not None and not turn.is_due(last_ms + turn.settings.begin_epoch_ms):
            continue
        if turn.may_ask(voter.id):
            turn.ask(voter.id, BeginQuorumEpochRequest(epoch=role.epoch, leader_id=role.leader_id, voter=voter))


def take_begin_acknowledged(turn: Turn, role: Leader, response: BeginQuorumEpochResponse) -> None:
    """The voter knows who leads; that it fetches is yet to be seen, so this is no sign of a majority."""
    request = turn.flight.request if turn.flight is not None else None
    assert isinstance(request, BeginQuorumEpochRequest), request
    assert request.voter is not None, request
    if response.error is not ErrorCode.NONE:
        turn.pause(turn.peer, lane_of(request))
    else:
        role.replicas.setdefault(request.voter, Progress()).last_contact_ms = turn.now_ms
        confirming.take_acknowledged(role, request)


def acknowledge_begin(turn: Turn, role: Follower, request: BeginQuorumEpochRequest) -> None:
    """Takes note of the leader: `Raft.step` has made us its follower."""
    assert role.leader_id == request.leader_id, (role.leader_id, request.leader_id)
    heard_ms = role.fetch_ms - turn.settings.fetch_timeout_ms
    if turn.requests.is_asked(role.leader_id) and turn.now_ms >= heard_ms + turn.settings.begin_epoch_ms:
        # We have not heard it either for so long: a fetch of ours that is under way has been lost.
        turn.pause(role.leader_id)
    turn.answer(request, BeginQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))


def return_to_leader(turn: Turn, role: Prospective, request: BeginQuorumEpochRequest) -> Role:
    """Follows the leader again that it had given up: there it is."""
    assert role.leader_id == request.leader_id, (role.leader_id, request.leader_id)
    turn.answer(request, BeginQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))
    reason = f"BeginQuorumEpochRequest: {request.leader_id} leads"
    return enter.follower(turn, epoch=role.epoch, leader_id=request.leader_id, voted=role.voted, reason=reason)


def take_end(turn: Turn, role: Prospective, request: EndQuorumEpochRequest) -> None:
    """Takes note that the leader leaves; votes for another are being asked for already."""
    assert role.leader_id == request.leader_id, (role.leader_id, request.leader_id)
    turn.answer(request, EndQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))
    role.lost_rounds = role.lost_rounds or 0


def acknowledge_end(turn: Turn, role: Follower, request: EndQuorumEpochRequest) -> None:
    """Shortens the wait for another leader: not at all for the first successor, longer for each after it."""
    assert role.leader_id == request.leader_id, (role.leader_id, request.leader_id)
    turn.answer(request, EndQuorumEpochResponse(epoch=role.epoch, leader_id=role.leader_id))
    # An answer that is still on its way must not make us wait again for one who has left.
    turn.pause(role.leader_id)
    role.is_lost = True
    # The leader has said itself that it leaves, so others may have our pre-vote. Kafka's followers refuse it until
    # their own, longer wait is over.
    role.has_fetched = False
    wait_ms = successor_wait_ms(turn.settings, turn.node, request.preferred_successors)
    if wait_ms is None:
        # Kafka's followers that are not named all wait the longest pause, and then ask all at once.
        wait_ms = 1 + turn.random.randrange(turn.settings.election_backoff_max_ms)
    role.fetch_ms = turn.now_ms + wait_ms


def successor_wait_ms(settings: Settings, node: ReplicaKey, successors: tuple[ReplicaKey, ...]) -> int | None:
    """How long the successor `node` leaves the election to those before it; None if it is not named. KIP-595.

    >>> peers = tuple(ReplicaKey(id) for id in (2, 3, 4, 5))
    >>> [successor_wait_ms(Settings(), ReplicaKey(id), peers) for id in (2, 3, 4, 5, 9)]
    [0, 125, 250, 500, None]
    """
    longest_ms = settings.election_backoff_max_ms
    position = next((at for at, key in enumerate(successors) if key.id == node.id), None)
    if position is None or position == 0:
        return position
    return min(longest_ms, (longest_ms >> (len(successors) - 1)) << (position - 1))


def tell_end(turn: Turn, role: Resigned) -> Role | None:
    """Sends EndQuorumEpoch to each voter until it is acknowledged; goes on to the next epoch if nobody leads it.

    In this epoch we may neither vote nor lead again: we have led it.
    """
    if turn.is_sole_voter or turn.is_due(role.election_ms):
        return enter.unattached(turn, epoch=role.epoch + 1, voted=None, reason="nobody has followed us")
    for voter in turn.other_voters:
        if voter.id not in role.acknowledged and turn.may_ask(voter.id):
            request = EndQuorumEpochRequest(
                epoch=role.epoch, leader_id=role.leader_id, preferred_successors=role.preferred_successors
            )
            turn.ask(voter.id, request)
    return None


def take_end_acknowledged(turn: Turn, role: Resigned, response: EndQuorumEpochResponse) -> None:
    """The voter knows that we have left."""
    if response.error is not ErrorCode.NONE:
        turn.pause(turn.peer)
    else:
        role.acknowledged.add(turn.peer)
