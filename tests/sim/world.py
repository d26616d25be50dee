"""One seed's world: nodes, wire, disks, clients, administrators, faults, and the checkers that watch them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from kraft import Uuid
from quorate.nouns import NodeId, ReplicaKey
from quorate.raft import RaftSettings, Voter, VoterSet
from quorate.raft.voters import ListenerEndpoint, VersionRange
from tests.sim.admin import Admin
from tests.sim.atlas import Atlas
from tests.sim.clock import Clock, Timeline
from tests.sim.controllers import Controllers
from tests.sim.disk import Disk
from tests.sim.faults import BRIDGE, KAFKA, MEMBERSHIP, REJOIN, SMALL, Plan
from tests.sim.invariants.checker import Checker
from tests.sim.invariants.liveness import Liveness
from tests.sim.kafka_voter import KafkaVoter, pretending
from tests.sim.listener import Listener
from tests.sim.nemesis import Nemesis
from tests.sim.node import Node
from tests.sim.oracle import Oracle
from tests.sim.rot import Rot
from tests.sim.trace import Trace
from tests.sim.wire import Wire

APPEND_EVERY_MS = (30, 300)
"""Clients are slower where nothing but the leader's stay is looked at."""
FAULTY_MIN_MS = 12_000
FAULTY_MAX_MS = 50_000
"""A seed in which too little has happened by then is void."""
FAULTY_REST_MS = 6_000
"""Disks that nobody repairs rot only in the end: before, the others would soon be too few for anything else."""


class World:
    """Everything there is. `run` raises what breaks."""

    def __init__(self, seed: int, *, profile: str | None = None, keeps_all: bool = False) -> None:
        self.seed = seed
        self.plan = Plan.drawn(seed, profile)
        self.timeline = Timeline()
        self.trace = Trace(keeps_all=keeps_all)
        self.tally: Counter[str] = Counter()
        self.is_healed = False
        self.is_well_worn = False
        """Has enough happened already?"""
        self.crash_count = 0
        self._dice = self.stream("dice")
        self._ids = self.stream("ids")
        self.nodes: dict[NodeId, Node] = {}
        self.kafkas: frozenset[NodeId] = frozenset()
        """The voters that do as Kafka's controllers do."""
        self.wire = Wire(self)
        self.nemesis = Nemesis(self)
        self.atlas = Atlas(self)
        self.rot = Rot(self)
        self.absences = Controllers(self)
        self.admin = Admin(self)
        self.oracle = Oracle(self)
        self.liveness = Liveness(self)
        self.checker = Checker(self, self._build())

    def run(self) -> None:
        """Faults first; then all is healed, and the cluster must agree and commit again."""
        with pretending(self.kafkas):
            self._run()

    def _run(self) -> None:
        for node in list(self.nodes.values()):
            node.start()
        self.every(APPEND_EVERY_MS[self.plan.profile in (BRIDGE, REJOIN)], self.oracle.append_somewhere)
        self.every(200, self.oracle.read_somewhere)
        self.every(500, self.oracle.check_polls)
        self.nemesis.begin()
        self.absences.begin()
        if self.plan.profile in (BRIDGE, REJOIN):
            judge = self.liveness.judge_bridge if self.plan.profile == BRIDGE else self.liveness.judge_rejoin
            judge()
        else:
            self.admin.begin()
            self.run_for(FAULTY_MIN_MS)
            while self.missing() and self.timeline.now_ms < FAULTY_MAX_MS:
                self.run_for(1_000)
            self.is_well_worn = True
            self.run_for(FAULTY_REST_MS)
            self._heal()
            if self.atlas.has_majority():
                self.liveness.judge_recovery()
                self.absences.judge()
            else:
                self.tally["no majority left"] += 1
        self.is_healed = True
        self.checker.check_all()
        self.oracle.judge(self.checker.ledger)

    def missing(self) -> list[str]:
        """What has to happen before a seed of this profile shows anything."""
        checker, profile = self.checker, self.plan.profile
        floors = [("100 committed records", checker.ledger.end >= 100)]
        if profile not in (BRIDGE, REJOIN, SMALL):
            floors += [
                ("3 elections", len(checker.election.leaders) >= 3),
                ("a crash", self.crash_count >= 1),
            ]
            turns = checker.log.truncation_count + checker.snapshots.install_count
            changes = checker.membership.change_count
            is_membership = profile == MEMBERSHIP
            floors.append(
                ("a change of voters", changes >= 1)
                if is_membership
                else ("a truncation or an installation", turns >= 1)
            )
        return [name for name, is_met in floors if not is_met]

    # Time and chance.

    def stream(self, name: str) -> Random:
        """Chance for one purpose: what is drawn here moves nothing elsewhere."""
        return Random(f"{self.seed}/{name}")

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.timeline.at(delay_ms, action)

    def every(self, mean_ms: int, action: Callable[[], None]) -> None:
        """Again and again until all is healed; never if the mean is 0."""
        if not mean_ms:
            return
        random = self._dice

        def again() -> None:
            if not self.is_healed:
                action()
                self.at(1 + random.randrange(2 * mean_ms), again)

        self.at(1 + random.randrange(2 * mean_ms), again)

    def run_for(self, ms: int) -> None:
        self.timeline.run_until(self.timeline.now_ms + ms)

    def happens(self, chance: float, row: str) -> bool:
        """Does a fault of `row` strike here?"""
        if chance <= 0.0 or self.is_healed or self._dice.random() >= chance:
            return False
        self.tally[row] += 1
        return True

    def fired(self, row: str) -> None:
        self.tally[row] += 1

    def note(self, who: NodeId, what: str, *details: object) -> None:
        self.trace.note(self.timeline.now_ms, who, what, *details)

    def new_listener(self, node: Node) -> Listener:
        """The controller beside `node`; another simulation has another."""
        return Listener(node)

    def new_uuid(self) -> Uuid:
        return Uuid(self._ids.randbytes(16))

    # What nodes ask of it.

    def dies_after(self, node: Node, step: str) -> bool:
        """Is this the step between which and the next the process dies?"""
        return self.happens(self.plan.crash_a_step, "S-10")

    def stall_ms(self, step: str) -> int:
        """How long the process waits for its disk here."""
        if step.endswith("fsync") and self.happens(self.plan.stall, "S-22"):
            return 1 + self._dice.randrange(5_000)
        return 0

    def flush_ms(self) -> int:
        """How long a flush of the log takes."""
        if self.is_healed:
            return 1
        if self.plan.flush_ms > 2:
            self.fired("S-22")
        stall_ms = self._dice.randrange(5_000) if self.happens(self.plan.stall, "S-22") else 0
        return self._dice.randrange(self.plan.flush_ms + 1) + stall_ms

    def apply_ms(self) -> int:
        """How long the controller takes to come round to new records."""
        return self._dice.randrange(20)

    def lose_power(self, node: Node) -> str:
        """What the page cache held is gone, or most of it."""
        keeps_all = self._dice.random() >= self.plan.lossy_crash
        may_destroy = self.atlas.may_destroy(node)
        lost = node.disk.power_cut(self._dice, keeps_all=keeps_all, may_destroy=may_destroy)
        if "hole" in lost:
            self.atlas.destroy(node)
        for what in lost:
            self.fired("S-16" if what == "entries" else "S-15")
        self.checker.after_loss()
        return ", ".join(lost) or "nothing"

    def lose_cache(self, node: Node) -> None:
        """An fsync has failed: the kernel has dropped some of what it could not write."""
        log = node.disk.log
        unflushed = [batch for batch in log.batches if batch.end_offset > log.flushed]
        if unflushed:
            log.drop_from(self._dice.choice(unflushed).base_offset)

    def after_crash(self, node: Node) -> None:
        """Peers see their streams reset, unless the machine is gone; somebody starts it again."""
        self.crash_count += 1
        for peer in self.nodes.values():
            if node.is_machine_up and peer is not node and self._dice.random() < 0.7:
                self.at(self._dice.randrange(5), lambda peer=peer: peer.lose_peer(node.id))  # type: ignore[misc]
        wait_ms = self._dice.choice([10, 100, 1_000, 2_000])  # some are back before anybody has noticed
        self.at(1 + self._dice.randrange(wait_ms), lambda: self._restart(node))

    def _restart(self, node: Node) -> None:
        if not node.is_up:
            node.start()
            if node.is_up:
                self.rot.judge_start(node)

    def _heal(self) -> None:
        """No fault from here on: every wire is whole, every clock right, every process up."""
        self.is_healed = True
        self.note(0, "healed")
        self.wire.heal()
        self.nemesis.strangers.clear()
        self.absences.come_back()
        for node in self.nodes.values():
            node.disk.is_full = False
            node.clock.set_rate(1000)
            if node.is_up:
                node.wake()
            else:
                self._restart(node)

    # The beginning.

    def _build(self) -> VoterSet:
        """Makes the nodes; the answer is the voters they begin with."""
        random, plan = self.stream("build"), self.plan
        is_small = plan.profile == SMALL
        count = random.choice([1, 2]) if is_small else random.choice([3, 3, 3, 4, 5])
        if plan.profile in (BRIDGE, REJOIN):
            count = random.choice([3, 5])
        spare = 2 if plan.profile == MEMBERSHIP else random.randrange(2)
        self.is_dynamic = plan.profile == MEMBERSHIP or random.random() < 0.5
        self.has_endpoints = self.is_dynamic or random.random() < 0.5
        settings = RaftSettings(
            fetch_max_bytes=plan.fetch_max_bytes,
            snapshot_max_bytes=plan.chunk_bytes,
            fetch_max_wait_ms=random.choice([200, 500]),
            observers_max=plan.listed_max,
            auto_join_enable=plan.auto_join,
        )
        ids = list(range(1, count + spare + 1))
        if plan.profile == KAFKA:
            chance = self.stream("kafkas")
            self.kafkas = frozenset(chance.sample(ids[:count], chance.randrange(1, count)))
            self.fired("S-33")
        disks = {id: self.new_uuid() for id in ids}
        voters = self._first_voters({id: disks[id] for id in ids[:count]})
        for id in ids:
            is_first = id <= count or not self.is_dynamic
            disk = Disk(disks[id], voters if is_first else VoterSet(()), int(self.is_dynamic and is_first))
            clock = Clock(self.timeline, rate=self._rate(random), base_ms=random.randrange(1_000_000))
            how = KafkaVoter if id in self.kafkas else Node
            node = how(self, id, disk, clock, settings, bootstrap=frozenset(ids))
            if id > count and random.random() < plan.odd_levels:
                node.levels = VersionRange(0, 0)
                self.fired("S-26")
            self.nodes[id] = node
        return voters

    def _first_voters(self, disks: dict[NodeId, Uuid]) -> VoterSet:
        if not self.is_dynamic:
            return VoterSet.of(*disks)
        return VoterSet(
            tuple(
                Voter(key=ReplicaKey(id, disk), endpoints=(ListenerEndpoint("CONTROLLER", f"host{id}", 9093),))
                for id, disk in disks.items()
            )
        )

    def _rate(self, random: Random) -> int:
        slow, fast = self.plan.clock_rates
        if slow == fast:
            return slow
        self.fired("S-13")
        return random.randrange(slow, fast)
