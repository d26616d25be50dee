"""Follows the committed log at any quorum node, as far as it may be read there: for brokers and for the tracker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kraft import Message
from quorate.nouns import Offset
from quorate.raft.log import Read
from tests.sim.content import cells_of
from tests.sim_controller.cells import is_data, record_of, unpacked

if TYPE_CHECKING:
    from tests.sim_controller.world import ControllerWorld

Take = Callable[[list[Message], Offset, Offset], None]
"""Records, where the first lies, and where the next batch begins."""

FETCH_BYTES_MAX = 4_000


class Replica:
    """`next` is the offset after all that was taken over."""

    def __init__(self, world: ControllerWorld, *, replay: Take, load: Take) -> None:
        self._world = world
        self._replay = replay
        self._load = load
        self.next: Offset = 0

    def fetch(self) -> None:
        """Once, from whichever node answers."""
        world = self._world
        nodes = [node for node in world.nodes.values() if node.raft is not None]
        if not nodes or world.loses_request():
            return
        node = world.fetching.choice(nodes)
        assert node.raft is not None
        log, end = node.disk.log, node.raft.log.high_watermark
        if self.next < log.floor.offset:
            snapshot = node.disk.snapshot(log.floor)
            self.next = snapshot.id.offset
            self._load(unpacked(snapshot.state), self.next, self.next)
        if self.next >= min(end, log.leo):
            return
        for batch in log.read(Read(offset=self.next, max_bytes=FETCH_BYTES_MAX)):
            if batch.end_offset > end:
                break
            assert batch.base_offset == self.next, (batch, self.next)
            texts = [text for _, text in cells_of(batch)]
            self.next = batch.end_offset
            self._replay([record_of(text) for text in texts if is_data(text)], batch.base_offset, batch.end_offset)
