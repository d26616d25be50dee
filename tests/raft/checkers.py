"""What must be true of a whole cluster at every event. The I-numbers are those of the catalogue of invariants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import Batch, Ready, VoterSet
from quorate.raft.invariants import check
from quorate.raft.messages import VoteRequest, VoteResponse
from quorate.raft.roles import Leader
from tests.raft.cluster import Node, Record, as_batch, records_of


class Violation(AssertionError):
    """An invariant of the cluster is broken; the message begins with its number."""


def require(holds: bool, invariant: str, *values: object) -> None:
    if not holds:
        raise Violation(f"{invariant}: {values}")


@dataclass
class ClusterChecker:
    """Knows more than any node: every leader, every vote, every record that was ever committed."""

    voters: VoterSet
    leaders: dict[Epoch, NodeId] = field(default_factory=dict)
    led_in_life: dict[Epoch, int] = field(default_factory=dict)
    grants: dict[tuple[NodeId, Epoch], ReplicaKey] = field(default_factory=dict)
    durable_epoch: dict[NodeId, Epoch] = field(default_factory=dict)
    seen: dict[tuple[Offset, Epoch], tuple[str, Epoch]] = field(default_factory=dict)
    committed: list[Record] = field(default_factory=list)
    high_watermarks: dict[tuple[NodeId, int], Offset] = field(default_factory=dict)
    truncation_count: int = 0
    install_count: int = 0

    @property
    def majority(self) -> int:
        return len(self.voters.ids) // 2 + 1  # written out here: the core's own arithmetic is under test

    def holders(self, nodes: Mapping[NodeId, Node], end: Offset) -> int:
        """Voters whose disks hold every committed record below `end`, flushed."""
        return sum(
            node.disk.flushed >= end and node.disk.records(below=end)[-1:] == self.committed[end - 1 : end]
            for node in nodes.values()
            if node.id in self.voters.ids
        )

    def before_writing(self, node: Node, ready: Ready) -> None:
        """Judges what a node is about to write."""
        if ready.truncate_to is not None:
            self.truncation_count += 1
            cut = node.disk.records()[ready.truncate_to :]
            lost = [record for record in cut if record in self.committed[record[0] : record[0] + 1]]
            require(not lost, "I-13 no committed record is truncated", node.id, ready.truncate_to, lost)
        if ready.install is not None:
            self.install_count += 1
            require(not isinstance(node.core.role, Leader), "I-28 a leader loads no snapshot", node.id)
            held = node.disk.snapshots[ready.install]
            expected = [list(record) for record in self.committed[: ready.install.offset]]
            require(held.decode() == str(expected).replace("'", '"'), "I-26 snapshots hold what is committed", node.id)
        for entry in ready.append:
            self._judge_append(node, as_batch(entry))

    def _judge_append(self, node: Node, batch: Batch) -> None:
        records = records_of(batch)
        log = node.core.log
        before = log.epochs.epoch_at(batch.base_offset - 1) if batch.base_offset else 0
        for offset, epoch, data in records:
            require(before <= epoch, "I-09 epochs do not fall", node.id, offset, before, epoch)
            known = self.seen.setdefault((offset, epoch), (data, before))
            require(known == (data, before), "I-08 log matching", node.id, offset, epoch, known, (data, before))
            before = epoch

    def after_persisting(self, node: Node) -> None:
        state = node.disk.election
        assert state is not None
        require(state.epoch >= self.durable_epoch.get(node.id, 0), "I-03 epochs do not fall", node.id, state)
        self.durable_epoch[node.id] = state.epoch

    def before_answering(self, node: Node, request: VoteRequest, answer: VoteResponse) -> None:
        """Judges a vote that is about to leave."""
        if not answer.granted or request.pre_vote:
            return
        before = self.grants.setdefault((node.id, request.epoch), request.replica)
        require(before == request.replica, "I-04 one vote an epoch", node.id, request.epoch, before, request.replica)
        state = node.disk.election
        durable = state is not None and (
            state.epoch > request.epoch or (state.epoch == request.epoch and state.voted == request.replica)
        )
        require(durable, "I-04 a vote is durable before it leaves", node.id, request, state)

    def after_event(self, nodes: Mapping[NodeId, Node], node: Node) -> None:
        """Judges the node that has just done something, and the cluster with it."""
        if node.raft is None:
            return
        check(node.raft)
        role = node.raft.role
        if isinstance(role, Leader):
            self._judge_leader(nodes, node, role)
        self._judge_high_watermark(node)

    def _judge_leader(self, nodes: Mapping[NodeId, Node], node: Node, role: Leader) -> None:
        first = self.leaders.setdefault(role.epoch, node.id)
        require(first == node.id, "I-01 election safety", role.epoch, first, node.id)
        life = self.led_in_life.get(role.epoch)
        if life is None:
            self.led_in_life[role.epoch] = life = node.life
            log = node.disk.records()
            lost = [record for record in self.committed if record not in log[record[0] : record[0] + 1]]
            require(not lost, "I-12 leader completeness", node.id, role.epoch, lost[:3])
        require(life == node.life, "I-07 no epoch is led twice", node.id, role.epoch)
        if role.high_watermark is not None and role.high_watermark > len(self.committed):
            self._commit(nodes, node, role, role.high_watermark)

    def _commit(self, nodes: Mapping[NodeId, Node], node: Node, role: Leader, end: Offset) -> None:
        require(end > role.epoch_start_offset, "I-19 own-epoch rule", node.id, end, role.epoch_start_offset)
        log = node.disk.records(below=end)
        require(len(log) == end, "I-20 high watermark within the log", node.id, end, len(log))
        require(log[: len(self.committed)] == self.committed, "I-21 committed is immutable", node.id, end)
        self.committed += log[len(self.committed) :]
        holders = self.holders(nodes, end)
        require(holders >= self.majority, "I-18 committed is flushed on a majority", node.id, end, holders)

    def _judge_high_watermark(self, node: Node) -> None:
        high_watermark = node.core.log.high_watermark
        before = self.high_watermarks.get((node.id, node.life), 0)
        require(high_watermark >= before, "I-17 high watermark is monotone", node.id, before, high_watermark)
        require(high_watermark <= len(self.committed), "I-20 no node is ahead of commit", node.id, high_watermark)
        if high_watermark > before:
            held = node.disk.records(below=high_watermark)[before:]
            require(held == self.committed[before:high_watermark], "I-21 committed is immutable", node.id, before)
        self.high_watermarks[node.id, node.life] = high_watermark

    def after_crash(self, nodes: Mapping[NodeId, Node]) -> None:
        """Nothing committed may be lost: every crash spares a majority's flushed records."""
        end = len(self.committed)
        if end:
            holders = self.holders(nodes, end)
            require(holders >= self.majority, "I-22 committed is durable", end, holders)
