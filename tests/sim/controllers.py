"""S-45: controllers that die apart from their nodes. I-85: a voter that has its controller leads then, and stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.nouns import NodeId
from quorate.raft import Presence, Raft
from quorate.raft.roles import Leader
from tests.sim.invariants.base import require

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

ABSENCE_MS: Final = 1_000
"""A leader makes way so long after its controller has gone."""
PEACE_MS: Final = 12_000
"""Long enough for three who would hand leadership to each other to do so several times."""


class Controllers:
    """Which nodes have none beside them now. It outlives the nodes' processes."""

    def __init__(self, world: World) -> None:
        self.away: set[NodeId] = set()
        self._world = world
        self._random = world.stream("controllers")

    def begin(self) -> None:
        self._world.every(self._world.plan.absence_every_ms, self._come_or_go)

    def _come_or_go(self) -> None:
        node = self._random.choice(self._apart())
        self._world.fired("S-45")
        self._move(node, is_away=node.id not in self.away)

    def _apart(self) -> list[Node]:
        """Those whose controller is a process of its own: not Kafka's."""
        return [node for node in self._world.nodes.values() if not node.is_kafka]

    def come_back(self) -> None:
        """Every node has its controller."""
        for node_id in sorted(self.away):
            self._move(self._world.nodes[node_id], is_away=False)

    def started(self, node: Node) -> None:
        """A process begins, and nobody listens to it."""
        if node.id in self.away:
            self._tell(node)

    def _move(self, node: Node, *, is_away: bool) -> None:
        self._world.note(node.id, "controller away" if is_away else "controller back")
        (self.away.add if is_away else self.away.discard)(node.id)
        self._tell(node)

    def _tell(self, node: Node) -> None:
        ends_epoch = self._random.random() < 0.5
        """Was it active? Then its epoch ends with it."""

        def deed(raft: Raft) -> None:
            is_away = node.id in self.away
            resign_at_ms = node.turn_ms + ABSENCE_MS if is_away else None
            raft.controller_presence(Presence(is_present=not is_away, resign_at_ms=resign_at_ms), node.turn_ms)
            if is_away and ends_epoch:
                raft.resign(node.turn_ms)

        node.hear(deed)

    def judge(self) -> None:
        """All nodes live. Some controllers go, the leader's perhaps: one of the others comes to lead, and stays."""
        world = self._world
        if self._random.randrange(4) == 0 and not world.kafkas:
            self._judge_without_any()
        voters = [node.id for node in world.liveness.voters_up() if not node.is_kafka]
        away = self._random.sample(voters, self._random.randrange(len(voters))) if voters else []
        for node_id in away:
            self._move(world.nodes[node_id], is_away=True)
        leads = world.liveness.waits(lambda: self._writer() is not None)
        require(leads, "I-85", "a voter that has its controller leads", sorted(away), world.liveness.states())
        before = self._writer()
        world.run_for(PEACE_MS)
        require(before == self._writer(), "I-85", "it stays", sorted(away), before, world.liveness.states())

    def _judge_without_any(self) -> None:
        """No controller is there, and the leader dies: one of the others leads all the same."""
        world = self._world
        for node in world.nodes.values():
            self._move(node, is_away=True)
        before = world.liveness.leader()
        if before is not None:
            before.crash("killed, nobody has a controller", power=False)
        leads = world.liveness.waits(lambda: world.liveness.leader() is not None)
        require(leads, "I-85", "without any controller there is a leader", world.liveness.states())
        self.come_back()

    def _writer(self) -> tuple[NodeId, int] | None:
        """The leader, with its epoch, if all follow it and it has its controller."""
        leader = self._world.liveness.leader()
        if leader is None or leader.raft is None or leader.id in self.away:
            return None
        role = leader.raft.role
        assert isinstance(role, Leader), role
        return (leader.id, role.epoch) if role.high_watermark is not None else None
