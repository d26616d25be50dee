"""I-25 … I-29: a snapshot is the state it stands for, whole before it is seen, and takes nothing with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.nouns import OffsetAndEpoch
from quorate.raft.roles import Leader
from tests.sim.content import Damaged, Snapshot
from tests.sim.disk import name_of
from tests.sim.invariants.base import Violation, require

if TYPE_CHECKING:
    from tests.sim.invariants.checker import Checker
    from tests.sim.node import Node


class Snapshots:
    """Remembers what every snapshot id stood for first."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._known: dict[OffsetAndEpoch, Snapshot] = {}
        self.install_count = 0

    def before_snapshot(self, node: Node, snapshot: Snapshot) -> None:
        """A node is about to write one of its own."""
        assert node.raft is not None
        end = node.raft.log.high_watermark
        require(snapshot.id.offset <= end, "I-26", "a snapshot is of committed state", node.id, snapshot.id, end)
        self._judge_content(node, snapshot)

    def before_install(self, node: Node, id: OffsetAndEpoch) -> None:
        """The log is about to give way to a downloaded one."""
        assert node.raft is not None
        self.install_count += 1
        log, ledger, seen = node.disk.log, self._checker.ledger, self._checker.seen[node.id]
        leads = isinstance(node.raft.role, Leader) and seen.led_epoch == node.raft.role.epoch
        require(not leads, "I-28", "a leader loads no snapshot", node.id, id)
        known = seen.high_watermark
        require(id.offset >= known, "I-29", "a snapshot below the high watermark", node.id, id, known)
        last_epoch = log.cells[-1][0] if log.cells else log.floor.epoch
        is_ahead = id.epoch > last_epoch or id.offset >= log.leo
        require(is_ahead, "I-29", "a snapshot behind the log", node.id, id, last_epoch, log.leo)
        held, theirs = log.between(id.offset, log.leo), ledger.cells[id.offset : log.leo]
        lost = [cell for cell in held if cell in theirs]
        require(not lost, "I-29", "a snapshot that takes committed records with it", node.id, id, lost[:3])
        self._judge_content(node, node.disk.snapshot(id))

    def after_turn(self, node: Node) -> None:
        """What the node now shows of its snapshots."""
        assert node.raft is not None
        view, floor = node.raft.log, node.disk.log.floor
        if view.start == 0 and not view.snapshots:
            return
        ids = node.disk.snapshot_ids()  # oldest first
        if view.snapshots.keys() != set(ids):
            raise Violation("I-28", "only whole snapshots are seen", node.id, ids)
        if view.start != floor.offset:
            raise Violation("I-27", "the log starts where it says", node.id, view.start, floor)
        if view.start != 0 and floor not in ids:
            raise Violation("I-27", "a snapshot stands before the log", node.id, floor, ids)
        latest, end = (ids[-1].offset if ids else 0), self._checker.ledger.end
        # A node that was started again may have one beyond the high watermark it knows, but none beyond the commit.
        if latest > end:
            raise Violation("I-27", "no snapshot is beyond the commit", node.id, ids, end)
        if ids and floor.offset > ids[0].offset:
            raise Violation("I-27", "the log starts at its earliest snapshot", node.id, floor, ids)

    def check(self, node: Node) -> None:
        """Every snapshot of the node, from its bytes, as a power cut would leave them."""
        for id in node.disk.snapshot_ids():
            content = node.disk.files.durable.get(name_of(id))
            if content is None:  # being put in place
                continue
            try:
                snapshot = Snapshot.decode(content.synced or b"")
            except Damaged as damage:
                is_rotten = self._checker.world.rot.has_spoilt(node, id)
                require(is_rotten, "I-27", "what has its name is whole and durable", node.id, id, str(damage))
            else:
                self._judge_content(node, snapshot)

    def after_load(self, node: Node, snapshot: Snapshot) -> None:
        """A controller goes on from it."""
        self._judge_content(node, snapshot)

    def _judge_content(self, node: Node, snapshot: Snapshot) -> None:
        id, ledger = snapshot.id, self._checker.ledger
        require(id.offset <= ledger.end, "I-26", "a snapshot of what is not committed", node.id, id, ledger.end)
        require(id.offset in ledger.ends, "I-26", "a snapshot ends where a batch ends", node.id, id)
        epoch = ledger.cells[id.offset - 1][0]
        require(id.epoch == epoch, "I-26", "its epoch is that of its last record", node.id, id, epoch)
        image = ledger.images[id.offset]
        require(snapshot.image == image, "I-25", "it is the state at its offset", node.id, id, snapshot.image.hex())
        known = self._known.setdefault(id, snapshot)
        require(known == snapshot, "I-26", "one id, one content", node.id, known, snapshot)
