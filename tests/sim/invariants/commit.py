"""I-17 … I-24, I-37: what is committed is on a majority's platters, of the leader's own epoch, and stays."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from quorate.nouns import Epoch, Offset
from quorate.raft import VoterSet
from quorate.raft.messages import FetchRequest, FetchSnapshotRequest
from quorate.raft.ready import Leadership
from quorate.raft.roles import Leader
from tests.sim.atlas import is_same, is_voter, majority
from tests.sim.content import Cell
from tests.sim.invariants.base import Violation, require

if TYPE_CHECKING:
    from tests.sim.invariants.checker import Checker
    from tests.sim.node import Node


class Commit:
    """Fills C, and holds every node to it."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._told: set[tuple[int, int, Epoch]] = set()
        self._applied: dict[tuple[int, int], Offset] = {}

    # The high watermark.

    def after_turn(self, node: Node) -> None:
        """The high watermark of `node` may have moved."""
        assert node.raft is not None
        log, seen, ledger = node.raft.log, self._checker.seen[node.id], self._checker.ledger
        before, end = seen.high_watermark, log.high_watermark
        if end < before:
            raise Violation("I-17", "the high watermark does not fall", node.id, before, end)
        disk = node.disk.log
        if not disk.floor.offset <= end <= disk.leo:
            raise Violation("I-20", "it lies within the log", node.id, end, disk.leo)
        if end == before:
            return
        role, led = node.raft.role, seen.led_epoch
        if isinstance(role, Leader) and role.high_watermark == end:
            self._judge_leader(node, role.epoch, end)
        elif led is not None and not isinstance(role, Leader) and end > seen.carried:  # its last deed as a leader
            self._judge_leader(node, led, end)
        else:
            known = max(seen.carried, disk.floor.offset)
            require(end <= known, "I-20", "no follower is ahead of its leader's word", node.id, end, known)
        require(end <= ledger.end, "I-20", "no node is ahead of what is committed", node.id, end, ledger.end)
        require(end in ledger.ends, "I-16", "commits end where batches end", node.id, end)
        self._judge_same(node, before, end)
        seen.high_watermark = end

    def _judge_leader(self, node: Node, epoch: Epoch, end: Offset) -> None:
        ledger, log = self._checker.ledger, node.disk.log
        own = log.cell(end - 1)[0]
        require(own == epoch, "I-19", "commits end in a record of the leader's epoch", node.id, end, own, epoch)
        is_newest = epoch >= max(self._checker.election.leaders, default=epoch)
        require(not is_newest or end >= ledger.end, "I-17", "commits do not fall", node.id, end, ledger.end)
        require(log.is_boundary(end), "I-16", "commits end where batches end", node.id, end)
        voters = self._checker.voters_of(node)
        self._judge_majority(node, voters, end)
        if end > ledger.end:
            self._judge_same(node, log.floor.offset, ledger.end)
            self._extend(node, epoch, end)
            ledger.in_force = voters

    def _judge_majority(self, node: Node, voters: VoterSet, end: Offset) -> None:
        cell = node.disk.log.cell(end - 1)
        count = self._holders(voters, end, cell)
        needed = majority(voters) - self._checker.world.atlas.destroyed_voters(voters)
        require(count >= needed, "I-18", "committed is flushed on a majority", node.id, end, count, needed)

    def _holders(self, voters: VoterSet, end: Offset, cell: Cell) -> int:
        """Voters with everything below `end` on their platters; logs match, so the last record tells."""
        count = 0
        for key in voters.keys:
            holder = self._checker.world.nodes.get(key.id)
            if holder is None or not is_same(key, holder.key):
                continue
            log = holder.disk.log
            is_covered = log.floor.offset >= end
            count += is_covered or (log.stable_end >= end and log.has(end - 1) and log.cell(end - 1) == cell)
        return count

    def _extend(self, node: Node, epoch: Epoch, end: Offset) -> None:
        ledger, log = self._checker.ledger, node.disk.log
        start = ledger.end
        ledger.extend(log.between(start, end), epoch)
        for batch in reversed(log.batches):
            if batch.end_offset <= start:
                break
            if batch.end_offset <= end:
                ledger.ends.add(batch.end_offset)
        ledger.voters += [(offset, voters) for offset, voters in log.voters if start <= offset < end]

    def _judge_same(self, node: Node, start: Offset, end: Offset) -> None:
        log, ledger = node.disk.log, self._checker.ledger
        low = max(start, log.floor.offset)
        held = log.between(low, end)
        require(held == ledger.cells[low:end], "I-21", "committed is immutable", node.id, low, end, log.leo)

    # Loss.

    def after_loss(self) -> None:
        """A disk has lost something: not what is committed, unless it was destroyed by plan."""
        ledger = self._checker.ledger
        if not ledger.end:
            return
        voters = ledger.in_force or ledger.voters_at_end
        count = self._holders(voters, ledger.end, ledger.cells[-1])
        needed = majority(voters) - self._checker.world.atlas.destroyed_voters(voters)
        require(count >= needed, "I-22", "committed is durable", ledger.end, count, needed)

    # The controller beside the node.

    def after_apply(self, node: Node, start: Offset, cells: list[Cell]) -> None:
        """The listener was handed `cells`."""
        ledger, end = self._checker.ledger, start + len(cells)
        require(end <= ledger.end, "I-23", "no callback beyond what is committed", node.id, end, ledger.end)
        require(cells == ledger.cells[start:end], "I-23", "callbacks in order", node.id, start, end)
        place = (node.id, node.life)
        expected = self._applied.get(place, start)
        require(start == expected, "I-23", "no gap and no repeat", node.id, start, expected)
        self._applied[place] = end
        image = ledger.images[end]
        require(node.listener.image == image, "I-37", "one state at one offset", node.id, end)

    def after_load(self, node: Node) -> None:
        """The listener went on from a snapshot."""
        self._applied[node.id, node.life] = node.listener.next

    def after_told(self, node: Node, leadership: Leadership) -> None:
        """The listener has heard who leads."""
        start = leadership.epoch_start_offset
        if start is None:
            return
        place = (node.id, node.life, leadership.epoch)
        require(place not in self._told, "I-23", "told once an epoch that it leads", *place)
        self._told.add(place)
        require(node.listener.next > start, "I-23", "told after all of before", node.id, node.listener.next, start)

    # Check quorum.

    def before_fetch(self, node: Node, request: FetchRequest | FetchSnapshotRequest) -> None:
        """A fetch reaches a leader."""
        assert node.raft is not None
        role, seen = node.raft.role, self._checker.seen[node.id]
        if not isinstance(role, Leader) or request.epoch != role.epoch or not self._is_sound(request):
            return
        seen.count_for(role.epoch, node.turn_ms)
        voters = self._checker.voters_of(node)
        self._note_caught_up(node, request)
        if not is_voter(voters, request.replica):
            return
        seen.fetchers.add(request.replica.id)
        present = {key.id for key in voters.keys} & seen.fetchers
        if is_voter(voters, node.key):
            present.add(node.id)
        if len(present) >= majority(voters):
            seen.fetchers.clear()
            seen.quorum_ms = node.turn_ms

    def judge_quorum(self, node: Node, role: Leader) -> None:
        """Still a leader: then a majority was heard within one and a half fetch timeouts of its own clock."""
        assert node.raft is not None
        if node.raft.deadline is not None and node.raft.deadline <= node.turn_ms:
            return  # it was paused, and has not had its tick yet
        limit_ms = node.settings.fetch_timeout_ms * 3 // 2
        if self._checker.world.plan.group_turns:  # a fetch and a new voter set in one turn: who came first is not seen
            limit_ms *= 2
        silent_ms = node.turn_ms - self._checker.seen[node.id].quorum_ms
        if silent_ms >= limit_ms and not self._is_sole(node):
            raise Violation("I-24", "a leader unheard resigns", node.id, role.epoch, silent_ms)
        for key, parked in role.parked.items():
            if parked.deadline_ms < node.turn_ms:
                late_ms = node.turn_ms - parked.deadline_ms
                raise Violation("I-70", "no fetch is held beyond its wait", node.id, key, late_ms)

    def _is_sole(self, node: Node) -> bool:
        voters = self._checker.voters_of(node)
        return len(voters.keys) == 1 and is_voter(voters, node.key)

    def _note_caught_up(self, node: Node, request: FetchRequest | FetchSnapshotRequest) -> None:
        """A replica has caught up as of the last fetch at which the leader had no more than it has now. KIP-836."""
        if isinstance(request, FetchRequest):
            seen, key, end = self._checker.seen[node.id], request.replica, request.fetch_offset
            ahead = seen.leo_at_fetch.setdefault(key, deque())
            ahead.append((node.turn_ms, node.disk.log.leo))
            while ahead and ahead[0][1] <= end:  # neither time nor a leader's log goes back
                seen.caught_up_ms[key] = ahead.popleft()[0]

    @staticmethod
    def _is_sound(request: FetchRequest | FetchSnapshotRequest) -> bool:
        return request.cluster_id != "another" and (not isinstance(request, FetchRequest) or request.fetch_offset >= 0)
