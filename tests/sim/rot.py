"""What goes wrong with disks: bits rot at rest, room runs out, directories are wiped. The atlas sets the bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.nouns import NodeId, OffsetAndEpoch
from quorate.raft import VoterSet
from tests.sim.disk import STATE, Disk, name_of
from tests.sim.invariants.base import require

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

FULL_MS = 4_000
"""Room comes back after so long at most."""


class Rot:
    """Spoils disks, and knows what it has spoilt."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.stream("rot")
        self._spoilt: set[tuple[NodeId, OffsetAndEpoch]] = set()

    def has_spoilt(self, node: Node, id: OffsetAndEpoch) -> bool:
        """Was this snapshot spoilt?"""
        return (node.id, id) in self._spoilt

    def spoil_any(self) -> None:
        """A node goes down, something on its disk rots, and it starts again."""
        world, node = self._world, self._random.choice(list(self._world.nodes.values()))
        is_repaired = world.plan.admin_every_ms and world.plan.wipe_every_ms
        if not (is_repaired or world.is_well_worn) or not node.is_up or not world.atlas.may_destroy(node):
            return
        deeds = [self._spoil_log, self._spoil_log, self._spoil_snapshot, self._spoil_state]
        node.crash("to rot", power=False)
        if deeds[self._random.randrange(len(deeds))](node):
            self._world.fired("S-19")

    def wipe_any(self) -> None:
        """A node comes back with another disk; a voter only if there are enough others."""
        nodes = [node for node in self._world.nodes.values() if node.refusal] or list(self._world.nodes.values())
        self.wipe(self._random.choice(nodes))

    def wipe(self, node: Node) -> None:
        """A formatted disk, another directory id, and nothing on it."""
        world = self._world
        if not node.refusal and not world.atlas.may_destroy(node):
            return
        node.crash("to be wiped", power=False)
        world.atlas.destroy(node)
        node.disk = Disk(world.new_uuid(), VoterSet(()), 0)
        node.refusal = ""
        world.fired("S-21")
        world.note(node.id, "has another disk", str(node.key))
        world.checker.after_loss()

    def fill_any(self) -> None:
        """A disk has no room for a while."""
        node = self._random.choice(list(self._world.nodes.values()))
        if node.disk.is_full:
            return
        node.disk.is_full = True
        self._world.note(node.id, "disk full")

        def relieve(disk: Disk = node.disk) -> None:
            disk.is_full = False

        self._world.at(1 + self._random.randrange(FULL_MS), relieve)

    def judge_start(self, node: Node) -> None:
        """A disk that was destroyed is found out at the start."""
        require(
            node.key not in self._world.atlas.destroyed, "contract", "damage below the durable end is found", node.id
        )

    def _spoil_log(self, node: Node) -> bool:
        log = node.disk.log
        whole = [batch for batch in log.batches if batch.end_offset <= log.flushed]
        if not whole:
            return False
        victim = self._random.choice([whole[-1], self._random.choice(whole)])
        log.rotten.add(victim.base_offset)
        if self._random.random() < self._world.plan.misdirected:  # another batch was written over it
            self._world.fired("S-20")
        self._destroy(node, "log", victim.base_offset)
        return True

    def _spoil_snapshot(self, node: Node) -> bool:
        disk = node.disk
        ids = disk.snapshot_ids()
        if not ids:
            return False
        id = self._random.choice(ids)
        content = disk.files.seen[name_of(id)]
        at = self._random.randrange(len(content.data))
        content.data = content.synced = content.data[:at] + bytes([content.data[at] ^ 1]) + content.data[at + 1 :]
        self._spoilt.add((node.id, id))
        self._world.note(node.id, "rot in snapshot", id.epoch, id.offset)
        is_needed = id.offset == disk.log.floor.offset and not any(
            id.offset < other.offset <= disk.log.leo for other in ids
        )
        if is_needed:
            self._world.atlas.destroy(node)
        return True

    def _spoil_state(self, node: Node) -> bool:
        content = node.disk.files.seen.get(STATE)
        if content is None:
            return False
        at = self._random.randrange(len(content.data))
        content.data = content.synced = content.data[:at] + b"#" + content.data[at + 1 :]
        self._destroy(node, "quorum-state", at)
        return True

    def _destroy(self, node: Node, what: str, where: int) -> None:
        self._world.note(node.id, "rot in", what, where)
        self._world.atlas.destroy(node)
