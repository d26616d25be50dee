"""Where the world tells what happens, and every invariant that it concerns is asked."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import BatchInfo, Ready, VoterSet
from quorate.raft.invariants import check_counts, check_log, check_role
from quorate.raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.ready import Leadership
from quorate.raft.roles import Follower, Leader
from tests.sim.content import Cell, Snapshot
from tests.sim.invariants.base import Ledger
from tests.sim.invariants.commit import Commit
from tests.sim.invariants.election import Election
from tests.sim.invariants.log import Log
from tests.sim.invariants.membership import Membership
from tests.sim.invariants.snapshots import Snapshots
from tests.sim.wire import Route

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

FULL_CHECK_EVERY = 200
"""So many turns of the world lie between two looks at every byte of every disk."""


@dataclass
class Seen:
    """What was to be seen of one life of one node at its last turn."""

    high_watermark: Offset
    carried: Offset = 0
    """The highest commit that it has heard from a leader."""
    has_new_log: bool = True
    """May its log go or begin elsewhere, or its snapshots be others, than when it was last looked at?"""
    is_judged: bool = False
    """Has it been looked at since its core last asked for something, and since its log was last cut?"""
    led_epoch: Epoch | None = None
    following: tuple[Epoch, NodeId] | None = None
    quorum_ms: int = 0
    """When, as a leader, it last had heard a majority."""
    fetchers: set[NodeId] = field(default_factory=set)
    caught_up_ms: dict[ReplicaKey, int] = field(default_factory=dict)
    leo_at_fetch: dict[ReplicaKey, deque[tuple[int, Offset]]] = field(default_factory=dict)
    """Where its log ended at each fetch of a replica that has not come so far yet: (ms, end)."""
    counted_epoch: Epoch | None = None
    """The epoch of its own to which the last four belong."""

    def count_for(self, epoch: Epoch, now_ms: int) -> None:
        """It leads `epoch`: what was counted for another is void."""
        if self.counted_epoch != epoch:
            self.counted_epoch, self.quorum_ms = epoch, now_ms
            self.fetchers.clear()
            self.caught_up_ms.clear()
            self.leo_at_fetch.clear()


class Checker:
    """Knows everything. Each method raises Violation for what must not be."""

    def __init__(self, world: World, first_voters: VoterSet) -> None:
        self.world = world
        self.ledger = Ledger(first_voters)
        self.seen: dict[NodeId, Seen] = {}
        self.election = Election(self)
        self.log = Log(self)
        self.commit = Commit(self)
        self.snapshots = Snapshots(self)
        self.membership = Membership(self)
        self.turn_count = 0

    def voters_of(self, node: Node) -> VoterSet:
        """The set in force on `node`, by the bytes of its log."""
        log = node.disk.log
        if log.voters:
            return log.voters[-1][1]
        header = node.disk.snapshot(log.floor) if log.floor.offset else None
        return node.disk.voters if header is None or header.voters is None else header.voters

    # A node's life.

    def after_boot(self, node: Node) -> None:
        assert node.raft is not None
        self.seen[node.id] = Seen(high_watermark=node.raft.log.high_watermark)
        self.election.after_boot(node)
        self.log.check(node)

    def after_turn(self, node: Node) -> None:
        """Everything that the node was to write is written, and everything to be sent is sent."""
        if not self.seen[node.id].is_judged:
            self._judge(node)
        self._count_turn()

    def after_idle_turn(self, node: Node) -> None:
        """The core has asked for nothing, so its role, epoch, vote, log and commit are as they were when last judged.

        Each of these changes only with something to be done: the core persists, appends, truncates, installs, commits
        or tells of a transition. The rest is time, and the core's own counts.
        """
        raft = node.raft
        assert raft is not None
        if not self.seen[node.id].is_judged:
            self._judge(node)
        else:
            if isinstance(raft.role, Leader):
                self.commit.judge_quorum(node, raft.role)
            check_counts(raft)
        self._count_turn()

    def _count_turn(self) -> None:
        self.turn_count += 1
        if self.turn_count % FULL_CHECK_EVERY == 0:
            self.check_all()

    def before_sending(self, node: Node) -> None:
        """What is about to leave tells of this; the turn ends so unless there is more to write."""
        self._judge(node)

    def after_loss(self) -> None:
        self.commit.after_loss()

    def check_all(self) -> None:
        """Every byte of every disk."""
        for node in self.world.nodes.values():
            if not node.refusal:
                self.log.check(node)
                self.snapshots.check(node)
        self.commit.after_loss()

    def _judge(self, node: Node) -> None:
        raft = node.raft
        assert raft is not None
        seen, role = self.seen[node.id], raft.role
        seen.is_judged = True
        led = role if isinstance(role, Leader) else None
        self.election.after_turn(node)
        if led is not None:
            seen.count_for(led.epoch, node.turn_ms)
        self.commit.after_turn(node)
        if seen.has_new_log:
            self.snapshots.after_turn(node)
        self.membership.after_turn(node)
        if led is not None:
            self.commit.judge_quorum(node, led)
        if seen.has_new_log:  # the core's own opinion comes last
            check_log(raft.log)
            seen.has_new_log = False
        check_role(raft)
        check_counts(raft)
        seen.led_epoch = None if led is None else led.epoch
        seen.following = (role.epoch, role.leader_id) if isinstance(role, Follower) else None

    # Writing.

    def before_writing(self, node: Node, ready: Ready) -> None:
        seen = self.seen[node.id]
        seen.is_judged = False
        if ready.append or ready.truncate_to is not None or ready.install is not None or ready.chunk is not None:
            seen.has_new_log = True
        if ready.truncate_to is not None:
            self.log.before_truncating(node, ready)
        if ready.install is not None:
            self.snapshots.before_install(node, ready.install)

    def after_persisting(self, node: Node) -> None:
        self.election.after_persisting(node)

    def before_append(self, node: Node, batch: BatchInfo) -> None:
        self.log.before_append(node, batch)
        self.membership.before_append(node, batch)

    def before_snapshot(self, node: Node, snapshot: Snapshot) -> None:
        seen = self.seen[node.id]
        seen.is_judged, seen.has_new_log = False, True
        self.snapshots.before_snapshot(node, snapshot)

    # Messages.

    def before_request(self, node: Node, request: Request) -> None:
        if isinstance(request, VoteRequest):
            assert node.raft is not None
            route = request.reply_to
            assert isinstance(route, Route), request
            route.last = node.raft.log.last
            self.election.before_request(node, request)
        elif isinstance(request, FetchRequest | FetchSnapshotRequest):
            self.commit.before_fetch(node, request)

    def after_request(self, node: Node, request: Request) -> None:
        if isinstance(request, VoteRequest):
            self.election.after_request(node, request)

    def before_answer(self, node: Node, route: Route, answer: Response) -> None:
        if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self.election.before_refusal(node, answer)
        if isinstance(answer, VoteResponse) and isinstance(route.request, VoteRequest):
            assert route.last is not None, route
            self.election.before_answer(node, route.request, answer, route.last)

    def before_vote_request(self, node: Node, request: VoteRequest) -> None:
        self.election.before_vote_request(node, request)

    def before_response(self, node: Node, source: ReplicaKey, request: Request, answer: Response) -> None:
        if isinstance(answer, VoteResponse) and isinstance(request, VoteRequest):
            self.election.before_response(node, source, request, answer)
        elif isinstance(answer, FetchResponse):
            seen = self.seen[node.id]
            if answer.error is not ErrorCode.INCONSISTENT_CLUSTER_ID:  # that is another cluster's
                seen.carried = max(seen.carried, answer.high_watermark)

    # The controller beside it.

    def after_load(self, node: Node, snapshot: Snapshot) -> None:
        self.snapshots.after_load(node, snapshot)
        self.commit.after_load(node)

    def after_apply(self, node: Node, start: Offset, cells: list[Cell]) -> None:
        self.commit.after_apply(node, start, cells)

    def after_told(self, node: Node, leadership: Leadership) -> None:
        self.commit.after_told(node, leadership)
