"""Whether a broker could be done without: every replica here is in the ISR of its partition.

A rollout that restarts the next broker before that takes a second replica from the same ISR. So a probe that
a rollout waits for asks for this: the health service `in-sync`. Readiness, whether clients may ask, comes earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from quorate.nouns import NodeId
from quorate.runtime.calls.health import IN_SYNC
from quorate.runtime.logging.logs import logger
from services.broker.table import Table

__all__ = ["InSync"]

log = logger(__name__)

LOOK_S: Final = 0.5


class Health(Protocol):
    """The server that probes ask."""

    async def set_ready(self, is_ready: bool) -> None: ...

    async def tell_health(self, name: str, holds: bool) -> None: ...


class InSync:
    """Sets `in-sync` at the health service: whether each replica here is in its ISR, and the broker stays."""

    def __init__(self, broker_id: NodeId, state: Callable[[], ClusterState], table: Table, health: Health) -> None:
        """`state` is the metadata that is applied here, `table` has the replicas that are open here."""
        self._broker_id = broker_id
        self._state = state
        self._table = table
        self._health = health
        self._is_ready = False
        self._told = False

    async def set_ready(self, is_ready: bool) -> None:
        """Sets the broker's readiness (unfenced, and not leaving) at the health service, and `in-sync` by it."""
        self._is_ready = is_ready
        await self._health.set_ready(is_ready)
        await self.look()

    async def look(self) -> None:
        """Sets `in-sync` at the health service, and logs it, if it is another than at the last call.

        The state counts the ISRs with the broker; reassignments are looked at one by one. A replica that one of them
        adds is in the ISR once it has all, and nobody relies on it before.
        """
        topics = self._state().topics
        count = topics.isr_count(self._broker_id) + sum(map(self._is_added, topics.reassigning()))
        holds = self._is_ready and count == len(self._table)
        if holds is not self._told:
            self._told = holds
            log.info("is in all its ISRs" if holds else "is not in all its ISRs", isrs=count, replicas=len(self._table))
            await self._health.tell_health(IN_SYNC, holds)

    def _is_added(self, found: TopicPartition) -> bool:
        return self._broker_id in found.partition.adding_replicas and self._broker_id not in found.partition.isr

    async def run(self) -> None:
        """Calls `look` at intervals of LOOK_S, until cancelled."""
        await self._health.tell_health(IN_SYNC, self._told)
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()
