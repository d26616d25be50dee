"""I-69 … I-73: once healed there is a leader, everybody follows it, and what is asked is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quorate.nouns import Epoch
from tests.sim.atlas import is_voter
from tests.sim.invariants.base import require
from tests.sim.stranger import ask_as_removed

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

ELECTION_MAX_MS = 2_000
"""The longest election timeout: twice the default base."""

LEADER_WITHIN_MS = 10 * ELECTION_MAX_MS
FOLLOW_WITHIN_MS = 40_000
LOOK_EVERY_MS = 250
REMOVED_ASKS_EVERY_MS = 500


class Liveness:
    """Runs the healed world until it has done what it must, and no longer than it may."""

    def __init__(self, world: World) -> None:
        self._world = world

    def judge_recovery(self) -> None:
        """A leader, all that was written, an append, and every node at the same end."""
        world = self._world
        world.is_healed = True
        longest = max((node.disk.log.leo for node in self.voters_up()), default=0)
        has_leader = self._wait(LEADER_WITHIN_MS, lambda: self.leader() is not None)
        require(has_leader, "I-69", "a leader once healed", self.states())
        is_past = self._wait(FOLLOW_WITHIN_MS, self._has_committed_its_log)
        require(is_past, "I-69", "commits go on", self.states(), longest)
        self._judge_append()
        follow = self._wait(FOLLOW_WITHIN_MS, self._all_follow)
        require(follow, "I-71", "everybody follows", self.states(), world.checker.ledger.end)
        is_idle = self._wait(FOLLOW_WITHIN_MS, lambda: not world.admin.is_busy)
        require(is_idle, "I-71", "a voter change ends", world.admin.describe())

    def leader(self) -> Node | None:
        """The leader of the newest epoch, if any."""
        leaders = [node for node in self._world.nodes.values() if node.is_leader]
        return max(leaders, key=lambda node: node.raft.role.epoch if node.raft else 0, default=None)

    def judge_rejoin(self) -> None:
        """I-72: a voter cut off for long comes back, and one that was removed asks on and on; the epoch stays."""
        leader, epoch = self._settled()
        random = self._world.stream("rejoin")
        lonely = random.choice([node for node in self.voters_up() if node is not leader])
        hears = random.random() < 0.3
        others = [id for id in self._world.nodes if id != lonely.id]
        self._world.wire.cut = {(lonely.id, id) for id in others}
        if not hears:
            self._world.wire.cut |= {(id, lonely.id) for id in others}
        self._world.fired("S-06" if hears else "S-05")
        self._world.run_for(random.randrange(3_000, 20_000))
        self._world.wire.heal()
        self._world.run_for(15_000)
        self._judge_stays(leader, epoch, "a rejoining node deposes nobody")
        for at_ms in range(0, 10_000, REMOVED_ASKS_EVERY_MS):
            self._world.at(at_ms, lambda: ask_as_removed(self._world, random, epoch))
        self._world.run_for(15_000)
        self._judge_stays(leader, epoch, "a removed voter in a later epoch deposes nobody")
        self.judge_recovery()

    def _judge_stays(self, leader: Node, epoch: Epoch, why: str) -> None:
        after = self.leader()
        known = None if after is None or after.raft is None else (after.id, after.raft.role.epoch)
        require(known == (leader.id, epoch), "I-72", why, (leader.id, epoch), known)

    def judge_bridge(self) -> None:
        """I-73: two nodes that do not hear each other have one between them; one leader is found, and stays."""
        self._settled()
        random = self._world.stream("bridge")
        ids = [node.id for node in self.voters_up()]
        random.shuffle(ids)
        bridge, half = ids[0], (len(ids) - 1) // 2 + 1
        left, right = ids[1:half], ids[half:]
        self._world.wire.cut = {(a, b) for a in left for b in right} | {(b, a) for a in left for b in right}
        self._world.fired("S-07")
        self._world.run_for(20 * ELECTION_MAX_MS)
        leader = self.leader()
        require(leader is not None, "I-73", "a leader by the bridge", bridge, self.states())
        assert leader is not None
        assert leader.raft is not None
        epoch = leader.raft.role.epoch
        self._world.run_for(10 * ELECTION_MAX_MS)
        after = self.leader()
        known = None if after is None or after.raft is None else (after.id, after.raft.role.epoch)
        require(known == (leader.id, epoch), "I-73", "it stays", bridge, (leader.id, epoch), known)
        self._judge_append()
        self._world.wire.heal()
        self.judge_recovery()

    def _settled(self) -> tuple[Node, Epoch]:
        """The first leader, followed by all."""
        is_led = self._wait(LEADER_WITHIN_MS, self._has_committed)
        require(is_led, "I-69", "a leader at the start", self.states())
        leader = self.leader()
        assert leader is not None
        assert leader.raft is not None
        return leader, leader.raft.role.epoch

    def _judge_append(self) -> None:
        """Somebody's append is acknowledged; a leader that was just deposed may refuse one."""
        world = self._world

        def is_answered() -> bool:
            leader = self.leader()
            if leader is None:
                return False
            call = world.oracle.append(leader)
            world.run_for(1_000)
            return call.outcome == "ok"

        require(self._wait(FOLLOW_WITHIN_MS, is_answered), "I-69", "an append is answered", self.states())

    def waits(self, holds: Callable[[], bool]) -> bool:
        """Runs on until it `holds`, for as long as following may take."""
        return self._wait(FOLLOW_WITHIN_MS, holds)

    def _wait(self, limit_ms: int, holds: Callable[[], bool]) -> bool:
        """Runs on until it `holds`, at most `limit_ms`."""
        end_ms = self._world.timeline.now_ms + limit_ms
        while not holds():
            if self._world.timeline.now_ms >= end_ms:
                return False
            self._world.run_for(LOOK_EVERY_MS)
        return True

    def _has_committed_its_log(self) -> bool:
        leader = self.leader()
        return leader is not None and leader.raft is not None and self._world.checker.ledger.end >= leader.raft.log.leo

    def _has_committed(self) -> bool:
        """Does the leader know a commit of its own, and do all others follow it?"""
        leader = self.leader()
        return leader is not None and all(
            node.raft is not None and node.raft.role.leader_id == leader.id and node.raft.log.high_watermark > 0
            for node in self._world.nodes.values()
        )

    def _all_follow(self) -> bool:
        leader = self.leader()
        if leader is None or leader.raft is None:
            return False
        last, end = leader.raft.log.last, leader.raft.log.high_watermark
        return end == last.offset and all(
            node.raft.log.last == last and node.raft.log.high_watermark == end and node.listener.next == end
            for node in self._world.nodes.values()
            if node.raft is not None
        )

    def voters_up(self) -> list[Node]:
        """Whose process runs, of those who vote."""
        voters = self._world.checker.ledger.voters_at_end
        return [node for node in self._world.nodes.values() if node.is_up and is_voter(voters, node.key)]

    def states(self) -> list[str]:
        """Each node in a line."""
        return [
            f"{node.id}: {type(node.raft.role).__name__} {node.raft.role.epoch} {node.raft.log.last} "
            f"hw {node.raft.log.high_watermark} voters {[str(key) for key in node.raft.log.voters.latest.keys]}"
            if node.raft is not None
            else f"{node.id}: down {node.refusal}"
            for node in self._world.nodes.values()
        ]
