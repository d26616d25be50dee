"""Seeds in which leaders lack what is committed: by the topic's config, by an operator, as a last resort."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from tests.sim_replication.broker import Broker
from tests.sim_replication.engine_controller import Elections, EngineController
from tests.sim_replication.world import FAULTS, SESSION_MS, WANTED, World


class UncleanWorld(World):
    """With the ELR any brokers stop uncleanly, all at once if it comes so; without it their disks lose nothing."""

    FAULTS: ClassVar[tuple[str, ...]] = (*FAULTS, "elect", "strand")
    WANTED: ClassVar[dict[str, int]] = {**WANTED, "unclean": 1}

    def __init__(self, seed: int) -> None:
        chance = Random(f"{seed}/elections")
        self.elections = Elections(has_elr=chance.random() < 0.5, are_unclean=chance.random() < 0.5)
        super().__init__(seed, with_engine=True, elections=self.elections)
        self.client_ms = self.chance.choice((10, 30))

    def may_damage(self, broker: Broker) -> bool:
        return True

    def tear(self, broker: Broker) -> int:
        return super().tear(broker) if self.elections.has_elr else broker.log.leo

    def elect(self, broker: Broker) -> bool:
        """An operator wants any leader at all."""
        assert isinstance(self.controller, EngineController), self.controller
        if self.controller.partition.leader is not None:
            return False
        self.controller.elect_uncleanly()
        return True

    def strand(self, broker: Broker) -> bool:
        """All that may lead are silent for longer than their sessions."""
        if self.controller.partition.leader is None:
            return False
        for member in self.controller.partition.isr | self.controller.elr:
            self.brokers[member].resumes_at_ms = self.now_ms + 2 * SESSION_MS + self.chance.randrange(1_000)
        return True

    def _watch(self) -> None:
        super()._watch()
        if self.is_calm:
            self.elect(self.brokers[1])
