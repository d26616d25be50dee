"""The controller beside a node: applies what is committed, in order and in its own time; hears when it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.nouns import Offset, OffsetAndEpoch
from quorate.raft import LogView, Raft
from quorate.raft.ready import Leadership
from tests.sim.content import EMPTY_IMAGE, Snapshot, image_after

if TYPE_CHECKING:
    from tests.sim.node import Node

UNTOLD = Leadership(epoch=-1, leader_id=None)


class Listener:
    """State as a hash of every record applied; `next` is the offset after the last one."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._is_poked = False
        self.next: Offset = 0
        self.image = EMPTY_IMAGE
        self.told = UNTOLD

    def poke(self) -> None:
        """There may be something to apply, or to hear."""
        raft = self._node.raft
        assert raft is not None
        if self._is_poked or (self.next >= self.readable(raft.log) and self._knows(self._node.leadership)):
            return
        self._is_poked = True
        world, life = self._node.world, self._node.life
        world.at(world.apply_ms(), lambda: self._wake(life))

    def readable(self, log: LogView) -> Offset:
        """How far the controller may read: what is committed."""
        return log.high_watermark

    def is_due(self, leadership: Leadership) -> bool:
        """May it hear now that it leads? Only after everything of earlier epochs. KIP-595."""
        return leadership.epoch_start_offset is not None and self.next > leadership.epoch_start_offset

    def state(self, raft: Raft) -> tuple[Offset, bytes]:
        """What a reader of the controller sees: how much is applied, and what that makes."""
        return self.next, self.image

    def snapshot(self, log: LogView) -> Snapshot | None:
        """What is applied, as a checkpoint; None if there is none to be made now."""
        level = log.kraft_versions.before(self.next)
        return Snapshot(
            id=OffsetAndEpoch(epoch=log.epochs.epoch_at(self.next - 1), offset=self.next),
            image=self.image,
            voters=log.voters.before(self.next) if level else None,
            kraft_version=level or None,
        )

    def _wake(self, life: int) -> None:
        node = self._node
        if node.raft is None or node.life != life:
            return
        self._is_poked = False
        self._apply(node.raft)
        self._hear_of_leadership(node.leadership)

    def _apply(self, raft: Raft) -> None:
        checker, log = self._node.world.checker, self._node.disk.log
        if self.next < log.floor.offset:
            snapshot = self._node.disk.snapshot(log.floor)
            self.next, self.image = snapshot.id.offset, snapshot.image
            checker.after_load(self._node, snapshot)
        end = min(self.readable(raft.log), log.leo)
        if self.next < end:
            start, cells = self.next, log.between(self.next, end)
            self.next, self.image = end, image_after(self.image, cells)
            checker.after_apply(self._node, start, cells)

    def _knows(self, leadership: Leadership) -> bool:
        return self.told is leadership or self.told == leadership

    def _hear_of_leadership(self, leadership: Leadership) -> None:
        if self._knows(leadership):
            return
        if leadership.epoch_start_offset is None or self.is_due(leadership):
            self.told = leadership
            self._node.world.checker.after_told(self._node, leadership)
