"""I-01 … I-07, I-34, I-80 … I-82: one leader and one vote an epoch, durable, and leadership that was earned here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft import Uuid
from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, OffsetAndEpoch, ReplicaKey
from quorate.raft import ElectionState
from quorate.raft.messages import EPOCH_UNKNOWN, Response, VoteRequest, VoteResponse
from quorate.raft.roles import Leader, Resigned, election_state
from tests.sim.atlas import is_voter, majority
from tests.sim.invariants.base import Violation, require

if TYPE_CHECKING:
    from tests.sim.invariants.checker import Checker
    from tests.sim.node import Node

EPOCHS_A_TURN_MAX = 8
"""A node that hears of one epoch may itself begin the next; no turn of one seed came near this."""

Receipt = tuple[NodeId, int, Epoch]
"""A node, its life, and the epoch in which it asks for votes."""


class Election:
    """Remembers every leader, every vote and every epoch that was ever durable."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.leaders: dict[Epoch, ReplicaKey] = {}
        self._lives: dict[Epoch, int] = {}
        self._left: set[tuple[NodeId, Epoch]] = set()
        self._named: dict[Epoch, NodeId] = {}
        self._durable: dict[Uuid, Epoch] = {}
        self._votes: dict[tuple[ReplicaKey, Epoch], ReplicaKey] = {}
        self._granted: dict[Receipt, set[ReplicaKey]] = {}
        self._before: tuple[ElectionState, bool] | None = None
        self._highest: Epoch = 0
        self._elected: set[tuple[Epoch, NodeId]] = set()
        """Who said of itself that it leads or has led an epoch."""

    def after_boot(self, node: Node) -> None:
        """A process has come up from its disk."""
        assert node.raft is not None
        role = node.raft.role
        led_before = self.leaders.get(role.epoch) == node.key
        require(
            not led_before or isinstance(role, Resigned),
            "I-07",
            "who led an epoch before its restart is Resigned in it",
            node.id,
            role.epoch,
            type(role).__name__,
        )
        self._judge_epoch(node)
        self._judge_origin(node)
        state = node.disk.stable_election()
        is_kept = state is None or role.epoch > state.epoch or role.voted == state.voted
        require(is_kept, "I-04", "a restart forgets no vote", node.id, state, role.epoch, role.voted)

    def after_persisting(self, node: Node) -> None:
        """quorum-state was replaced."""
        self._judge_epoch(node)

    def after_turn(self, node: Node) -> None:
        """What others may now learn of the node's role."""
        assert node.raft is not None
        role = node.raft.role
        last_epoch = node.raft.log.last_epoch
        if role.epoch < last_epoch:
            raise Violation("I-03", "the epoch is not below the log's", node.id, role.epoch, last_epoch)
        if role.leader_id is not None:
            named = self._named.setdefault(role.epoch, role.leader_id)
            if named != role.leader_id:
                raise Violation("I-02", "two leaders named in one epoch", node.id, role.epoch, named)
        if isinstance(role, Leader):
            self._judge_leader(node, role)
        elif isinstance(role, Resigned):
            self._left.add((node.id, role.epoch))
        self._judge_origin(node)

    def _judge_origin(self, node: Node) -> None:
        """Epochs are begun, and leaders are elected, in this cluster."""
        assert node.raft is not None
        role = node.raft.role
        if role.epoch > self._highest + EPOCHS_A_TURN_MAX:
            raise Violation("I-80", "no epoch is taken from another cluster", node.id, role.epoch, self._highest)
        self._highest = max(self._highest, role.epoch)
        if role.voted is not None and role.voted.id == node.id and role.voted != node.key:
            raise Violation("I-82", "a node's own id gets only its own vote", node.id, role.epoch, role.voted)
        if role.leader_id == node.id:
            self._elected.add((role.epoch, node.id))
        elif role.leader_id is not None and (role.epoch, role.leader_id) not in self._elected:
            raise Violation("I-80", "whom a node follows was elected here", node.id, role.epoch, role.leader_id)

    def before_refusal(self, node: Node, answer: Response) -> None:
        """A node of another cluster is about to be refused."""
        is_told = answer.epoch != EPOCH_UNKNOWN or answer.leader_id is not None
        require(not is_told, "I-81", "another cluster is told of no epoch and no leader", node.id, answer)

    def before_request(self, node: Node, request: VoteRequest) -> None:
        """A request for a vote is about to be considered."""
        assert node.raft is not None
        raft = node.raft
        is_due = raft.deadline is not None and raft.deadline <= node.turn_ms
        self._before = (election_state(raft.role), is_due)

    def after_request(self, node: Node, request: VoteRequest) -> None:
        """It was considered: a pre-vote must have changed nothing."""
        assert node.raft is not None
        assert self._before is not None
        before, is_due = self._before
        after = election_state(node.raft.role)
        if request.pre_vote and not is_due:
            is_news = request.epoch > before.epoch and (after.epoch, after.voted) == (request.epoch, None)
            is_kept = after == before or is_news or self._stands_alone(node, before, after, request.epoch)
            require(is_kept, "I-05", "a pre-vote changes neither epoch nor vote", node.id, before, after)

    def _stands_alone(self, node: Node, before: ElectionState, after: ElectionState, news: Epoch) -> bool:
        """Has the only voter there is learned of an epoch, and at once, as it waits for nobody, led the next?"""
        voters = self._checker.voters_of(node)
        is_sole = len(voters.keys) == 1 and is_voter(voters, node.key)
        led = ElectionState(epoch=news + 1, leader_id=node.id, voted=node.key)
        return is_sole and news > before.epoch and after == led

    def before_answer(self, node: Node, request: VoteRequest, answer: VoteResponse, last: OffsetAndEpoch) -> None:
        """A vote is about to leave; `last` is how far the voter's log went when it was asked."""
        if not answer.granted:
            return
        require(request.last >= last, "I-05", "a vote for a log behind the voter's", node.id, request.last, last)
        if not request.pre_vote:
            self._judge_vote(node, request.epoch, request.replica)

    def before_vote_request(self, node: Node, request: VoteRequest) -> None:
        """Who asks for votes has given itself its own."""
        if not request.pre_vote:
            self._judge_vote(node, request.epoch, node.key)

    def before_response(self, node: Node, source: ReplicaKey, request: VoteRequest, answer: VoteResponse) -> None:
        """A vote has arrived."""
        is_good = answer.granted and answer.error is ErrorCode.NONE
        if is_good and not request.pre_vote and answer.epoch == request.epoch:
            self._granted.setdefault((node.id, node.life, request.epoch), set()).add(source)

    def _judge_vote(self, node: Node, epoch: Epoch, candidate: ReplicaKey) -> None:
        first = self._votes.setdefault((node.key, epoch), candidate)
        require(first == candidate, "I-04", "one vote an epoch", node.id, epoch, first, candidate)
        state = node.disk.stable_election()
        is_durable = state is not None and (state.epoch > epoch or (state.epoch == epoch and state.voted == candidate))
        require(is_durable, "I-04", "a vote is durable before it leaves", node.id, epoch, candidate, state)

    def _judge_epoch(self, node: Node) -> None:
        state = node.disk.election()
        epoch = 0 if state is None else state.epoch
        before = self._durable.get(node.disk.directory_id, 0)
        require(epoch >= before, "I-03", "the durable epoch does not fall", node.id, before, epoch)
        self._durable[node.disk.directory_id] = epoch

    def _judge_leader(self, node: Node, role: Leader) -> None:
        epoch = role.epoch
        first = self.leaders.get(epoch)
        if first is None:
            self.leaders[epoch] = node.key
            self._lives[epoch] = node.life
            self._judge_earned(node, epoch)
            self._checker.log.judge_completeness(node, epoch)
        if first not in (None, node.key):
            raise Violation("I-01", "one leader an epoch", epoch, first, node.key)
        if self._lives[epoch] != node.life:
            raise Violation("I-07", "no epoch is led in two lives", node.id, epoch)
        if (node.id, epoch) in self._left:
            raise Violation("I-07", "no epoch is led after it was left", node.id, epoch)

    def _judge_earned(self, node: Node, epoch: Epoch) -> None:
        voters = self._checker.voters_of(node)
        for_it = {key for key in self._granted.get((node.id, node.life, epoch), ()) if is_voter(voters, key)}
        if is_voter(voters, node.key):
            for_it.add(node.key)
        needed = majority(voters)
        names = sorted(str(key) for key in for_it)
        require(len(for_it) >= needed, "I-06", "leadership is earned by a majority", node.id, epoch, names, needed)
