"""Does its worst, now and then: crashes, power cuts, pauses, partitions of every shape, and clocks that are set."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from quorate.nouns import NodeId
from tests.sim.faults import BRIDGE, REJOIN
from tests.sim.stranger import Stranger, claim

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

Links = set[tuple[NodeId, NodeId]]

DEPOSE_EVERY_MS = 3_500
CRASH_EVERY_MS = 12_000
"""Where the plan has no crashes: a world without any shows little."""
STRANGER_ASKS_EVERY_MS = 200
CALM_MS, STORM_MS = 3_000, 5_000
"""Storms and calms take turns: where nothing is ever well, nothing is ever committed that could be lost."""


class Nemesis:
    """Timed faults; those that wait for a message or a write are drawn where it passes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.stream("nemesis")
        self.row_of_cut = "S-05"
        self._is_storm = False
        self._strange = world.stream("strangers")
        self.strangers: dict[NodeId, Stranger] = {}
        """By the node whose address each has."""

    def begin(self) -> None:
        """Sets every timer that the plan asks for."""
        world, plan = self._world, self._world.plan
        if plan.profile in (BRIDGE, REJOIN):
            return
        world.at(CALM_MS, self._begin_storm)
        world.every(plan.snapshot_every_ms, self._snapshot)
        for mean_ms, deed in (
            (DEPOSE_EVERY_MS, self._depose),
            (plan.crash_every_ms or CRASH_EVERY_MS, self._crash_one),
            (plan.pause_every_ms, self._pause_one),
            (plan.cut_every_ms, self._cut_evenly),
            (plan.one_way_every_ms, self._cut_one_way),
            (plan.partial_every_ms, self._cut_partly),
            (plan.resign_every_ms, self._resign),
            (plan.stranger_every_ms, self._reuse_address),
            (plan.claim_every_ms, lambda: claim(world, self._strange)),
            (plan.full_every_ms, world.rot.fill_any),
            (plan.rot_every_ms, world.rot.spoil_any),
            (plan.wipe_every_ms if world.is_dynamic else 0, world.rot.wipe_any),
        ):
            world.every(mean_ms, self._in_storms(deed))
        for _ in range(plan.power_cuts):
            world.at(self._random.randrange(1_000, 12_000), self._cut_power)
        if plan.wall_step:
            world.every(2_000, self._set_wall_clock)

    def _in_storms(self, deed: Callable[[], None]) -> Callable[[], None]:
        def unless_calm() -> None:
            if self._is_storm:
                deed()

        return unless_calm

    def _begin_storm(self) -> None:
        self._is_storm = not self._world.is_healed
        if self._is_storm:
            self._world.at(STORM_MS, self._begin_calm)

    def _begin_calm(self) -> None:
        self._is_storm = False
        if not self._world.is_healed:
            self._world.wire.cut = set()
            self.strangers.clear()
            self._world.at(CALM_MS, self._begin_storm)

    def _any(self) -> Node:
        return self._random.choice(list(self._world.nodes.values()))

    def _crash_one(self) -> None:
        leaders = [node for node in self._world.nodes.values() if node.is_leader]
        node = self._random.choice(leaders) if leaders and self._random.random() < 0.3 else self._any()
        node.crash("killed", power=self._random.random() < 0.5)

    def _cut_power(self) -> None:
        if self._world.is_healed:
            return
        self._world.fired("S-11")
        for node in self._world.nodes.values():
            node.crash("power cut", power=True)

    def _pause_one(self) -> None:
        self._world.fired("S-12")
        self._any().pause(1 + self._random.randrange(self._world.plan.pause_ms))

    def _set_wall_clock(self) -> None:
        self._world.fired("S-14")
        self._any().clock.wall_step_ms = self._random.randrange(-3_600_000, 3_600_000)

    def _resign(self) -> None:
        def resign(node: Node) -> None:
            node.hear(lambda raft: [raft.resign(node.turn_ms)].clear())

        for node in self._world.nodes.values():
            if node.is_leader:
                self._world.fired("S-26")
                resign(node)

    def _reuse_address(self) -> None:
        """For a while another cluster's node has the address of one of ours, and asks about as much as it is asked."""
        address = self._strange.choice(list(self._world.nodes))
        stranger = self.strangers[address] = Stranger(self._world, address, self._strange)
        ms = 1 + int(self._strange.expovariate(1 / self._world.plan.cut_ms))
        self._world.note(address, "has a stranger at its address")
        for _ in range(ms // STRANGER_ASKS_EVERY_MS + 1):
            self._world.at(self._strange.randrange(ms), stranger.ask_any)

        def leave() -> None:
            if self.strangers.get(address) is stranger:
                del self.strangers[address]

        self._world.at(ms, leave)

    def _snapshot(self) -> None:
        self._any().take_snapshot(then_cut=self._random.random() < 0.5)

    # Partitions.

    def _depose(self) -> None:
        """The leader is cut off, and its clients with it: what they append there will be truncated."""
        leaders = [node.id for node in self._world.nodes.values() if node.is_leader]
        if leaders and len(self._world.nodes) > 1:
            self._cut("S-05", self._around(self._random.choice(leaders)), 3_000 + self._random.randrange(3_000))

    def _cut_evenly(self) -> None:
        ids = list(self._world.nodes)
        half = set(self._random.sample(ids, len(ids) // 2))
        sides = {(a, b) for a in ids for b in ids if (a in half) != (b in half)}
        self._cut("S-05", self._random.choice([sides, self._around(self._random.choice(ids))]), self._length_ms())

    def _cut_one_way(self) -> None:
        ids = list(self._world.nodes)
        lonely = self._random.choice(ids)
        says = {(lonely, id) for id in ids}
        hears = {(id, lonely) for id in ids}
        some = {(a, b) for a in ids for b in ids if self._random.random() < 0.3}
        self._cut("S-06", self._random.choice([says, hears, some]), self._length_ms())

    def _cut_partly(self) -> None:
        ids = list(self._world.nodes)
        self._random.shuffle(ids)
        ring = {frozenset(pair) for pair in pairwise([*ids, ids[0]])}
        star = {frozenset((ids[0], id)) for id in ids}
        half = len(ids) // 2
        bridge = {frozenset((a, b)) for side in (ids[: half + 1], ids[half:]) for a in side for b in side}
        kept = self._random.choice([ring, star, bridge])
        cut = {(a, b) for a in ids for b in ids if frozenset((a, b)) not in kept}
        self._cut("S-07", cut, self._length_ms())

    def _around(self, lonely: NodeId) -> Links:
        ids = list(self._world.nodes)
        return {(a, b) for a in ids for b in ids if lonely in (a, b)}

    def _length_ms(self) -> int:
        return 1 + int(self._random.expovariate(1 / self._world.plan.cut_ms))

    def _cut(self, row: str, links: Links, ms: int) -> None:
        world = self._world
        world.fired(row)
        self.row_of_cut = row
        world.wire.cut = links
        world.note(0, "cut", row, sorted(links))

        def mend() -> None:
            if world.wire.cut is links:
                world.wire.cut = set()
                world.note(0, "mended")

        world.at(ms, mend)
