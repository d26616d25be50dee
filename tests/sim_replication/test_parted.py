"""A leader that is parted from its followers, and then from the controller, too (R62, R70), step by step.

With min ISR 2 it acknowledges nothing; with min ISR 1, where unclean elections are allowed, what is lost.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from quorate.replication import ACKS_ALL
from tests.sim_replication.broker import Broker
from tests.sim_replication.engine_controller import Elections, EngineController
from tests.sim_replication.world import World

LEADER, CONTROLLER = 1, 0
FAR_MS: Final = 1 << 30


class Parted(World):
    """Three brokers and the real engine; nothing happens but what a test has happen."""

    def __init__(self, min_isr: int) -> None:
        self._min_isr = min_isr
        super().__init__(1, with_engine=True)
        self.loss, self.delay_ms, self.apply_share = 0.0, 5, 0.9
        for broker in self.brokers.values():
            self._beat(broker)
        self._watch()
        self.goes_on(500)

    def engine_controller(self, replicas: tuple[int, ...], chance: Random, elections: Elections) -> EngineController:
        allowed = Elections(are_unclean=self._min_isr == 1)
        return EngineController(replicas=(1, 2, 3), min_isr=self._min_isr, chance=chance, elections=allowed)

    @property
    def leader(self) -> Broker:
        """The one that leads in the beginning, and takes itself for the leader."""
        return self.brokers[LEADER]

    def goes_on(self, ms: int) -> None:
        self._until(self.now_ms + ms)

    def part(self, *others: int) -> None:
        """Nothing passes between the leader and these any more."""
        for other in others:
            self.cut[LEADER, other] = self.cut[other, LEADER] = FAR_MS

    def acknowledged(self, value: int, *, by: Broker) -> bool:
        """Whether a record is acknowledged within two seconds and a half, with acks=all."""
        before = self.oracle.counts.get("acknowledged", 0)
        by.produce(ACKS_ALL, value)
        self.goes_on(2_500)
        return self.oracle.counts.get("acknowledged", 0) > before

    def values(self, broker_id: int) -> list[object]:
        return [batch.data for batch in self.brokers[broker_id].log.batches]


@pytest.mark.parametrize(("min_isr", "accepts"), [(2, False), (1, True)])
def test_a_leader_that_is_parted_acknowledges_nothing_with_min_isr_2_and_what_is_lost_with_1(
    min_isr: int, accepts: bool
) -> None:
    world = Parted(min_isr)
    together = world.acknowledged(1, by=world.leader)
    world.part(2, 3)
    world.leader.produce(1, 2)  # who has all of a log stays in its ISR: something has to be missed
    world.goes_on(3_000)

    assert together
    assert frozenset({LEADER}) == world.controller.partition.isr

    without_followers = world.acknowledged(3, by=world.leader)
    world.part(CONTROLLER)
    world.goes_on(2_000)
    successor = world.controller.partition.leader

    assert successor in (2, 3)

    alone = world.acknowledged(4, by=world.leader)  # it does not know of the other
    was_there = world.values(LEADER)
    world.cut.clear()
    world.goes_on(2_000)

    assert world.acknowledged(5, by=world.brokers[successor])
    assert [accepts, accepts] == [without_followers, alone]
    assert ([1, 2, 3, 4] if accepts else [1, 2]) == was_there
    assert [[1, 5]] * 3 == [world.values(each) for each in (1, 2, 3)]
