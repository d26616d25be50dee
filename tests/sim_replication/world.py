"""A seed's history: brokers, the controller, clients and faults over one virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import ClassVar

from quorate.replication import ACKS_ALL, ReplicationSettings
from tests.replication.memory_log import MemoryLog
from tests.sim.invariants.base import Violation
from tests.sim_replication.broker import IDLE_FETCH_MS, REQUEST_TIMEOUT_MS, Broker
from tests.sim_replication.controller import Controller
from tests.sim_replication.engine_controller import CLEAN, Elections, EngineController
from tests.sim_replication.oracle import Oracle
from tests.sim_replication.stored_log import StoredLog

STORM_MS = 9_000
CALM_MS = 4_000
SESSION_MS = 500
WANTED = {"acknowledged": 10, "read": 20, "leader": 3, "commit": 10}
"""A seed in which less happens is void."""
FAULTS = ("kill", "stop", "pause", "cut_off", "cut_pair", "move", "trim")


class World:
    """Brokers 1 to n; the controller is 0 on the wire. A storm of faults, then everything is healed."""

    FAULTS: ClassVar[tuple[str, ...]] = FAULTS
    WANTED: ClassVar[dict[str, int]] = WANTED

    def __init__(
        self,
        seed: int,
        new_log: Callable[[int], MemoryLog | StoredLog] = lambda _: MemoryLog(),
        *,
        with_engine: bool = False,
        elections: Elections = CLEAN,
        new_broker: type[Broker] = Broker,
    ) -> None:
        """`new_log` makes the log of a broker, by its id. `with_engine`: the controller is the real engine."""
        self.chance = Random(f"{seed}/replication")
        self.now_ms = 0
        self.is_calm = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        count = self.chance.choice((3, 3, 3, 4, 5))
        replicas = tuple(range(1, count + 1))
        self.controller: Controller | EngineController = Controller(replicas=replicas, min_isr=2)
        if with_engine:
            self.controller = self.engine_controller(replicas, Random(f"{seed}/controller"), elections)
        self.oracle = Oracle(self)
        self.cut: dict[tuple[int, int], int] = {}
        """Pairs that do not reach each other, and until when; one way."""
        self.damaged: frozenset[int] = frozenset()
        """Stopped uncleanly and not in the ISR again: one at most, which is what min ISR 2 can bear (KIP-966)."""
        self.loss = self.chance.choice((0.0, 0.02, 0.1))
        self.delay_ms = self.chance.choice((2, 10, 60, 300))
        self.apply_share = self.chance.choice((0.05, 0.3, 0.9))
        self.batches_max = self.chance.choice((1, 3, 1_000))
        self.fault_ms = self.chance.choice((30, 60, 200, 600))
        self.client_ms = self.chance.choice((4, 30))
        self.settings = ReplicationSettings(
            replica_lag_time_max_ms=self.chance.choice((150, 1_000)), fetch_backoff_ms=60, alter_partition_backoff_ms=30
        )
        self.fired: dict[str, int] = {}
        self.next_value = 0
        self.brokers = {broker: new_broker(broker, self, new_log(broker)) for broker in self.controller.replicas}
        for broker in self.brokers.values():
            broker.start(self.controller.standings[broker.id].epoch)

    def engine_controller(self, replicas: tuple[int, ...], chance: Random, elections: Elections) -> EngineController:
        """The real engine; each broker has the partition."""
        return EngineController(replicas=replicas, min_isr=2, chance=chance, elections=elections)

    # Time and wire

    def at(self, delay_ms: int, what: Callable[[], None]) -> None:
        """Something happens later."""
        self._number += 1
        heappush(self._events, (self.now_ms + delay_ms, self._number, what))

    def is_reachable(self, source: int, target: int) -> bool:
        """Whether what is sent now will come, but for chance."""
        return self.cut.get((source, target), 0) <= self.now_ms

    def send(self, source: int, target: int, what: Callable[[], None]) -> None:
        """A message: late, or never. A paused process takes it when it goes on."""
        if not self.is_reachable(source, target) or self.chance.random() < self.loss:
            return
        self._deliver(1 + self.chance.randrange(self.delay_ms), target, what)

    def _deliver(self, delay_ms: int, target: int, what: Callable[[], None]) -> None:
        broker = self.brokers.get(target)
        process = None if broker is None else broker.process

        def arrives() -> None:
            if broker is None:
                what()
            elif broker.is_up and broker.process == process:
                if broker.resumes_at_ms > self.now_ms:
                    self._deliver(broker.resumes_at_ms - self.now_ms, target, what)
                else:
                    what()

        self.at(delay_ms, arrives)

    def call(
        self,
        caller: Broker,
        target: int,
        handler: Callable[[], object],
        answered: Callable[[object], None],
        *,
        lost: object,
    ) -> None:
        """A request and its answer; `lost` in place of an answer that does not come in time."""
        is_open = [True]

        def close(answer: object) -> None:
            if is_open[0]:
                is_open[0] = False
                answered(answer)

        def serve() -> None:
            answer = handler()
            self.send(target, caller.id, lambda: close(answer))

        self.send(caller.id, target, serve)
        if self.chance.random() < self.loss:  # it was sent again on another connection, and the first comes late
            self._deliver(self.chance.randrange(2_000), target, serve)
        self._deliver(REQUEST_TIMEOUT_MS, caller.id, lambda: close(lost))

    def controller_hears(self, broker: int, epoch: int, applied: int) -> None:
        """A heartbeat: with what the broker has applied of the log."""
        if self.controller.standings[broker].epoch == epoch:
            self.controller.heard_at_ms[broker] = self.now_ms
            if self.controller.has_applied(broker, applied):
                self.controller.unfence(broker, epoch)

    # The history

    def run(self) -> None:
        """The storm, then the calm, then what must be true at the end. Raises Violation."""
        for broker in self.brokers.values():
            self._beat(broker)
        self._client()
        self._watch()
        self._strike()
        self._until(STORM_MS)
        self.loss, self.fault_ms, self.apply_share, self.batches_max, self.delay_ms = 0.0, 0, 0.9, 1_000, 10
        self.cut.clear()
        self.calm()
        for broker in self.brokers.values():
            broker.resumes_at_ms = 0
            if not broker.is_up:
                self._come_back(broker, is_clean=broker.id not in self.damaged)
        self._until(STORM_MS + CALM_MS)
        self._finish()

    def calm(self) -> None:
        """The storm is over."""
        self.is_calm = True

    def _until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, what = heappop(self._events)
            what()
        self.now_ms = end_ms

    def _beat(self, broker: Broker) -> None:
        if broker.is_up and broker.resumes_at_ms <= self.now_ms:
            broker.tick()
        self.at(IDLE_FETCH_MS // 2 + self.chance.randrange(IDLE_FETCH_MS), lambda: self._beat(broker))

    def _watch(self) -> None:
        self.controller.fence_silent(self.now_ms, SESSION_MS)
        self.damaged = frozenset(broker for broker in self.damaged if not self._is_whole(self.brokers[broker]))
        self.at(50, self._watch)

    def _is_whole(self, broker: Broker) -> bool:
        """Whether a broker that was killed has registered again, and joined the ISR since."""
        is_registered = broker.is_up and broker.epoch == self.controller.standings[broker.id].epoch
        return is_registered and broker.id in self.controller.partition.isr

    def _client(self) -> None:
        """Clients have no better idea of the leader than chance, so a deposed one is written to and read from, too."""
        broker = self.brokers[self.chance.choice(self.controller.replicas)]
        if broker.is_up and broker.resumes_at_ms <= self.now_ms:
            if self.chance.random() < 0.6:
                self.next_value += 1
                broker.produce(self.chance.choice((ACKS_ALL, ACKS_ALL, 1)), self.next_value)
            else:
                broker.consume(self.chance.randrange(broker.log.leo + 1))
        self.at(1 + self.chance.randrange(self.client_ms), self._client)

    # Faults

    def _strike(self) -> None:
        if not self.fault_ms:
            return
        fault = self.chance.choice(self.FAULTS)
        leader = self.controller.partition.leader
        is_aimed = leader is not None and self.chance.random() < 0.4
        broker = self.brokers[leader if is_aimed and leader else self.chance.choice(self.controller.replicas)]
        if getattr(self, fault)(broker):
            self.fired[fault] = self.fired.get(fault, 0) + 1
        self.at(1 + self.chance.randrange(2 * self.fault_ms), self._strike)

    def kill(self, broker: Broker) -> bool:
        """An unclean stop: the tail that was not flushed is lost, all of it or a part."""
        if not broker.is_up or not self.may_damage(broker):
            return False
        self.damaged |= {broker.id}
        broker.is_up = False
        broker.log.cut(self.tear(broker))
        self.at(self.chance.choice((5, 100, 1_500)), lambda: self._come_back(broker, is_clean=False))
        return True

    def may_damage(self, broker: Broker) -> bool:
        """Whether it may stop uncleanly."""
        return not self.damaged - {broker.id}

    def tear(self, broker: Broker) -> int:
        """Where the log of a broker ends that was killed: somewhere behind what was flushed."""
        return self.chance.randint(broker.log.flushed, broker.log.leo)

    def stop(self, broker: Broker) -> bool:
        """A clean stop: nothing is lost, and the controller hears so."""
        if not broker.is_up:
            return False
        broker.is_up = False
        broker.log.flushed = broker.log.leo
        broker.checkpoint = broker.partition.local.high_watermark
        self.at(self.chance.choice((5, 100, 1_500)), lambda: self._come_back(broker, is_clean=True))
        return True

    def _come_back(self, broker: Broker, *, is_clean: bool) -> None:
        if not broker.is_up:
            broker.start(self.controller.register(broker.id, is_clean=is_clean, now_ms=self.now_ms))

    def pause(self, broker: Broker) -> bool:
        """The process stands still, perhaps for longer than its session."""
        broker.resumes_at_ms = self.now_ms + self.chance.randrange(1_500)
        return True

    def cut_off(self, broker: Broker) -> bool:
        """Nobody is reached, or all but the controller."""
        end = self.now_ms + self.chance.randrange(2_000)
        first = self.chance.randrange(2)
        for other in range(first, len(self.brokers) + 1):
            self.cut[broker.id, other] = self.cut[other, broker.id] = end
        return True

    def cut_pair(self, broker: Broker) -> bool:
        """One does not reach one other; the way back is open."""
        other = self.chance.randrange(len(self.brokers) + 1)
        self.cut[broker.id, other] = self.now_ms + self.chance.randrange(2_000)
        return other != broker.id

    def move(self, broker: Broker) -> bool:
        """Another member of the ISR shall lead."""
        self.controller.move_leader(broker.id)
        return True

    def trim(self, broker: Broker) -> bool:
        """A leader deletes records that are committed: retention, or DeleteRecords."""
        if not broker.is_up or broker.leading is None:
            return False
        broker.log.start_at(self.chance.randint(broker.log.start, self.trim_bound(broker)))
        return True

    def trim_bound(self, broker: Broker) -> int:
        """What lies below may be deleted."""
        return broker.partition.local.high_watermark

    # The end

    def missing(self) -> list[str]:
        """What has happened too seldom to show anything."""
        return [what for what, least in self.WANTED.items() if self.oracle.counts.get(what, 0) < least]

    def _finish(self) -> None:
        """Everything was healed: one leader, the whole ISR, equal logs, nothing lost, all of it committed."""
        partition = self.controller.partition
        if partition.leader is None or partition.isr != frozenset(partition.replicas):
            raise Violation("R71", "a healed cluster has a leader and a whole ISR", partition, self.controller.elr)
        leader = self.brokers[partition.leader]
        self.oracle.leads(leader)
        for broker in map(self.brokers.__getitem__, partition.replicas):
            shared = min(broker.partition.local.high_watermark, leader.partition.local.high_watermark)
            start = max(broker.log.start, leader.log.start)
            if broker.log.read(start, shared) != leader.log.read(start, shared):
                raise Violation("R71", f"brokers {broker.id} and {leader.id} differ below {shared}")
        if self.oracle.acked and max(self.oracle.acked) >= leader.partition.local.high_watermark:
            raise Violation("R71", "what was acknowledged is committed", max(self.oracle.acked))
