"""Seeds in which an operator moves the partition between brokers, while clients and faults go on (KIP-455)."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from tests.replication.memory_log import MemoryLog
from tests.sim.invariants.base import Violation
from tests.sim_replication.broker import Broker
from tests.sim_replication.engine_controller import Elections, EngineController
from tests.sim_replication.world import FAULTS, WANTED, World


class MovedBroker(Broker):
    """A broker that may be no replica: it has no log then, and begins with an empty one when it becomes one again."""

    def gave_up(self) -> None:
        if self.partition.leader_epoch >= 0:  # else it was none before, or has another process's log: a stray one
            self.carry_out(self.partition.stop())
            self.world.oracle.count("given up")
        self.log, self.checkpoint = MemoryLog(), 0
        self.open()


class ReassignedWorld(World):
    """Four to six brokers, two to four of them replicas."""

    FAULTS: ClassVar[tuple[str, ...]] = (*FAULTS, "reassign", "reassign_again", "cancel")
    WANTED: ClassVar[dict[str, int]] = {**WANTED, "given up": 1}

    def __init__(self, seed: int) -> None:
        super().__init__(seed, with_engine=True, new_broker=MovedBroker)

    def engine_controller(self, replicas: tuple[int, ...], chance: Random, elections: Elections) -> EngineController:
        brokers = tuple(range(1, 4 + chance.randrange(3) + 1))
        return EngineController(replicas=brokers, min_isr=2, chance=chance, elections=elections, first=brokers[:3])

    @property
    def engine(self) -> EngineController:
        assert isinstance(self.controller, EngineController), self.controller
        return self.controller

    def reassign(self, broker: Broker) -> bool:
        """To any brokers, or with one replaced, or less."""
        return not self.engine.is_reassigning and self._reassign()

    def reassign_again(self, broker: Broker) -> bool:
        """Another target, before the first is reached."""
        return self._is_soon() and self._reassign()

    def cancel(self, broker: Broker) -> bool:
        """Back to the replicas of before."""
        return self._is_soon() and self.engine.reassign(None)

    def _is_soon(self) -> bool:
        """Whether an operator has second thoughts; most reassignments have their time."""
        return self.engine.is_reassigning and self.chance.random() < 0.3

    def _reassign(self) -> bool:
        present = [*self.engine.partition.replicas]
        others = [each for each in self.engine.replicas if each not in present]
        way = self.chance.choice(("replace", "drop", "any"))
        if way == "replace" and others:
            present[self.chance.randrange(len(present))] = self.chance.choice(others)
        elif way == "drop" and len(present) > 2:  # on the way, of those that come and those that go
            present.remove(self.chance.choice(present))
        else:
            present = self.chance.sample(self.engine.replicas, self.chance.choice((2, 3, 3, 3, 4)))
        return self.engine.reassign(tuple(present))

    def _tempt(self) -> None:
        """The way to the worst moment: two have everything, and an operator's second thoughts would leave one of them.

        Two go and one comes, the third is behind; one of the two stops; then the other shall go alone, or none.
        """
        if self.damaged or self.is_calm or self.chance.random() < 0.5:
            return
        partition, adding = self.engine.partition, self.engine.adding
        behind = tuple(each for each in partition.replicas if each not in partition.isr)
        others = [each for each in self.engine.replicas if each not in partition.replicas]
        old = sorted(partition.isr - adding)
        if not self.engine.is_reassigning and len(behind) == 1 and len(old) == 2 and others:
            self._count("tempt", self.engine.reassign((*behind, self.chance.choice(others))))
        elif len(adding & partition.isr) == 1 and len(old) == 2:
            self._count("tempt", self.stop(self.brokers[self.chance.choice(old)]))
        elif len(adding & partition.isr) == 1 and len(old) == 1:
            stays = tuple(each for each in partition.replicas if each not in old)
            self._count("tempt", self.engine.reassign(self.chance.choice((None, stays))))

    def _count(self, fault: str, has_struck: bool) -> None:
        self.fired[fault] = self.fired.get(fault, 0) + has_struck

    def _watch(self) -> None:
        """Kills the only one that has everything, if nobody was killed before: KIP-966 lets it come to no such."""
        super()._watch()
        self._tempt()
        complete = self.engine.partition.isr | self.engine.elr
        if len(complete) == 1 and not self.damaged and not self.is_calm:
            self.kill(self.brokers[min(complete)])
        if self.engine.unclean_epochs:
            raise Violation("KIP-966", "one unclean stop at a time leaves somebody who has everything", self.engine.elr)

    def _is_whole(self, broker: Broker) -> bool:
        """A broker that is no replica lacks nothing, once two others have everything."""
        partition = self.engine.partition
        is_made_up_for = broker.id not in partition.replicas and len(partition.isr | self.engine.elr) > 1
        return super()._is_whole(broker) or is_made_up_for

    def _finish(self) -> None:
        super()._finish()
        if self.engine.is_reassigning:
            raise Violation("KIP-455", "a healed cluster completes a reassignment", self.engine.partition)
        for broker in self.brokers.values():
            if broker.id not in self.engine.partition.replicas and broker.log.leo:
                raise Violation("R17", f"broker {broker.id} is no replica, and has a log", broker.log.leo)
