"""I-08 … I-16: logs that agree, grow in order, and lose nothing that is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.nouns import Epoch, Offset
from quorate.raft import BatchInfo, Ready
from quorate.raft.messages import FetchResponse
from quorate.raft.roles import Leader
from tests.sim.content import Cell, cells_of
from tests.sim.invariants.base import Violation, require

if TYPE_CHECKING:
    from tests.sim.invariants.checker import Checker
    from tests.sim.node import Node


class Log:
    """Remembers every record that was ever written anywhere, by offset and epoch, and the one before it."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._written: dict[tuple[Offset, Epoch], tuple[str, Epoch | None]] = {}
        self._batches: dict[tuple[Offset, Epoch], Offset] = {}
        self.truncation_count = 0

    def before_truncating(self, node: Node, ready: Ready) -> None:
        """Records are about to be removed from the end."""
        assert ready.truncate_to is not None
        to, log, ledger = ready.truncate_to, node.disk.log, self._checker.ledger
        self.truncation_count += 1
        require(log.is_boundary(to), "I-16", "a log is cut between batches", node.id, to)
        known = self._checker.seen[node.id].high_watermark
        require(to >= known, "I-13", "no truncation below the high watermark", node.id, to, known)
        if to < ledger.end:
            cut, held = log.between(to, ledger.end), ledger.cells[to : to + max(0, min(log.leo, ledger.end) - to)]
            lost = [to + at for at, (ours, theirs) in enumerate(zip(cut, held, strict=True)) if ours == theirs]
            require(not lost, "I-13", "no committed record is truncated", node.id, to, lost[:3])
        was_leader = self._checker.seen[node.id].led_epoch
        assert node.raft is not None
        is_same_office = isinstance(node.raft.role, Leader) and was_leader == node.raft.role.epoch
        require(not is_same_office, "I-11", "a leader only appends", node.id, was_leader, to)
        self._judge_evidence(node, to)

    def before_append(self, node: Node, batch: BatchInfo) -> None:
        """A batch is about to be written."""
        log = node.disk.log
        require(batch.base_offset == log.leo, "I-10", "offsets are dense", node.id, batch.base_offset, log.leo)
        before = log.cells[-1][0] if log.cells else log.floor.epoch
        require(before <= batch.epoch, "I-09", "epochs do not fall along a log", node.id, before, batch.epoch)
        end = self._batches.setdefault((batch.base_offset, batch.epoch), batch.end_offset)
        require(end == batch.end_offset, "I-16", "a batch is whole on every node", node.id, batch.base_offset, end)
        for at, (epoch, text) in enumerate(cells_of(batch)):
            place = (batch.base_offset + at, epoch)
            known = self._written.setdefault(place, (text, before))
            if known != (text, before):
                raise Violation("I-08", "logs match", node.id, place, known, (text, before))
            before = epoch

    def judge_completeness(self, node: Node, epoch: Epoch) -> None:
        """A node enters Leader: it has everything that leaders of earlier epochs have committed.

        Its votes may come so late that a later epoch has committed already; of that it knows nothing, and as those who
        elected the later leader follow it no more, it will never commit.
        """
        log, ledger = node.disk.log, self._checker.ledger
        start, end = log.floor.offset, ledger.end_before(epoch)
        held, expected = log.between(0, end), ledger.cells[start:end]
        at = next((start + at for at, cell in enumerate(expected) if held[at : at + 1] != [cell]), None)
        require(at is None, "I-12", "a leader has all that is committed", node.id, epoch, at, log.leo, end)

    def check(self, node: Node) -> None:
        """The whole log of one node, from its bytes."""
        log, ledger = node.disk.log, self._checker.ledger
        offset, before, starts = log.floor.offset, log.floor.epoch, [(log.floor.epoch, log.floor.offset)]
        for batch in log.batches:
            if batch.base_offset != offset:
                raise Violation("I-10", "no gap between batches", node.id, batch.base_offset, offset)
            if batch.epoch != before:
                require(batch.epoch > before, "I-09", "epochs do not fall along a log", node.id, offset, before)
                starts.append((batch.epoch, offset))
                before = batch.epoch
            offset = batch.last_offset + 1
        if node.raft is not None and node.raft.log.leo == log.leo:
            known = list(node.raft.log.epochs.entries)
            require(known == starts, "I-15", "the epoch cache tells the truth", node.id, known, starts)
        seen = self._checker.seen.get(node.id)
        if seen is not None and node.raft is not None:
            end = min(seen.high_watermark, log.leo)
            held: list[Cell] = log.between(0, end)
            require(held == ledger.cells[log.floor.offset : end], "I-21", "committed is immutable", node.id, end)

    def _judge_evidence(self, node: Node, to: Offset) -> None:
        seen = self._checker.seen[node.id]
        words = [message for message in node.heard if isinstance(message, FetchResponse) and message.diverging]
        is_evident = any((word.epoch, word.leader_id) == seen.following for word in words)
        require(is_evident, "I-14", "truncation only by the word of its leader", node.id, to, seen.following)
