"""I-30 … I-36: voters change one at a time, in force from the record on, and no leader counts itself once it is out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.nouns import Offset, ReplicaKey
from quorate.raft import BatchInfo
from quorate.raft.roles import Leader
from tests.sim.atlas import is_same, is_voter
from tests.sim.invariants.base import Violation, require

if TYPE_CHECKING:
    from tests.sim.invariants.checker import Checker
    from tests.sim.node import Node

ADD_TIMEOUT_MS = 4_000
"""The longest limit that an administrator of this world gives."""


class Membership:
    """Voter sets by the bytes of each log, not by what the core says of it."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.change_count = 0

    def before_append(self, node: Node, batch: BatchInfo) -> None:
        """A batch is about to be written; it may bring another voter set."""
        if batch.voters is None:
            return
        before, after = self._checker.voters_of(node), batch.voters
        require(len(after.voters) >= 1, "I-36", "there is a voter", node.id, batch.base_offset)
        ids = [key.id for key in after.keys]
        require(len(set(ids)) == len(ids), "I-34", "no two voters share an id", node.id, ids)
        is_first = not node.disk.log.voters and not before.voters
        added = [key for key in after.keys if not is_voter(before, key)]
        removed = [key for key in before.keys if not any(is_same(key, kept) for kept in after.keys)]
        is_small = len(added) + len(removed) <= 1
        is_behind = not node.is_leader and not node.disk.log.voters  # what it was formatted with may be old
        require(is_small or is_first or is_behind, "I-30", "one voter at a time", node.id, added, removed)
        if node.is_leader:  # the majority of another set gets as long to be heard
            self._checker.seen[node.id].quorum_ms = node.turn_ms
            self._checker.seen[node.id].fetchers.clear()
        if node.is_leader and (added or removed):
            self.change_count += 1
            self._judge_time(node, batch, added)

    def after_turn(self, node: Node) -> None:
        """The set in force, and a leader that is not in it."""
        assert node.raft is not None
        theirs, ours = node.raft.log.voters.latest, self._checker.voters_of(node)
        if theirs is not ours and theirs != ours:
            raise Violation("I-32", "the latest set in the log is in force", node.id, theirs, ours)
        role = node.raft.role
        if isinstance(role, Leader) and not is_voter(ours, node.key):
            offset = self._offset_of_set(node)
            is_committed = offset is not None and role.high_watermark is not None and offset < role.high_watermark
            require(not is_committed, "I-33", "a removed leader resigns", node.id, role.epoch, offset)

    def _judge_time(self, node: Node, batch: BatchInfo, added: list[ReplicaKey]) -> None:
        assert node.raft is not None
        role, ledger = node.raft.role, self._checker.ledger
        assert isinstance(role, Leader)
        offset = self._offset_of_set(node)
        is_committed = offset is None or offset < ledger.end
        require(is_committed, "I-31", "one change at a time", node.id, offset, batch.base_offset, ledger.end)
        start, end = role.epoch_start_offset, role.high_watermark
        is_own = end is not None and end > start and ledger.end > start
        require(is_own, "I-31", "no change before a commit of the leader's epoch", node.id, role.epoch, start, end)
        seen = self._checker.seen[node.id]
        for key in added:
            since_ms = node.turn_ms - max(ADD_TIMEOUT_MS, node.settings.fetch_timeout_ms)
            at_ms = seen.caught_up_ms.get(key)
            is_near = at_ms is not None and at_ms >= since_ms
            require(is_near, "I-35", "added only when caught up", node.id, str(key), at_ms, node.turn_ms)

    def _offset_of_set(self, node: Node) -> Offset | None:
        return node.disk.log.voters[-1][0] if node.disk.log.voters else None
