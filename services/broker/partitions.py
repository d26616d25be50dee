"""Applies the metadata log to this broker's partitions: makes them, gives them up, and tells each its role (R3, R4).

Logs are opened in a thread, since one that was not closed in order is read whole; roles change in one turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from quorate.metadata.partitions import NO_LEADER, RECOVERING
from quorate.metadata.partitions import Partition as PartitionState
from quorate.metadata.state import ClusterState
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.replication import BrokerStanding, Partition, PartitionRegistration
from quorate.runtime.following.replica import Replica
from quorate.runtime.logging.logs import logger
from services.broker.news import News
from services.broker.replicas import Replicas
from services.broker.store import Opened, PartitionStore
from services.broker.table import Hosted, Key
from services.broker.threads import in_thread
from services.broker.topic_settings import log_settings, min_insync_replicas

__all__ = ["Partitions"]

log = logger(__name__)

AT_ONCE: Final = 100
"""So many partitions are looked at in one turn of the loop."""


class Partitions:
    """Applies the metadata log to `Replicas`: opens and makes logs, gives partitions their roles, gives others up."""

    def __init__(
        self,
        replicas: Replicas,
        store: PartitionStore,
        replica: Replica,
        news: News,
        *,
        placed: Callable[[Hosted], None],
        begins: Callable[[ClusterState], bool] = lambda _: True,
    ) -> None:
        """`placed` hears of each partition whose log directory may be another one than the controller knows.

        The first state of which `begins` is true is the first that is applied: the disks are of a later one than those
        before. In them a topic may have another id, and this broker may not have a partition that it has by now.
        """
        self._replicas = replicas
        self._store = store
        self._replica = replica
        self._news = news
        self._placed = placed
        self._begins = begins
        self._waiting: list[tuple[Callable[[ClusterState], bool], asyncio.Event]] = []
        self.deleted: list[Path] = []
        """The directories that are marked as deleted and still have to be removed."""

    def is_to_go(self, path: Path) -> None:
        """Adds a directory to those that are to be removed from the disk (`deleted`)."""
        self.deleted.append(path)

    async def run(self) -> None:
        """Applies each change until cancelled. Raises Corrupt for a directory that cannot be opened, and OSError.

        The changes of a metadata transaction are applied at its end: the state does not show it before (KIP-868).
        """
        has_begun = False
        async for replayed in self._replica.changes():
            has_begun = has_begun or self._begins(self._replica.state)
            if replayed > self._replica.applied or not has_begun:
                continue
            # By the state whose news are taken: what is replayed while logs are opened is not applied yet.
            there = [event for is_there, event in self._waiting if is_there(self._replica.state)]
            end = self._replica.applied
            assert end >= self._replicas.applied, (end, self._replicas.applied)  # heartbeats tell it: I-66, I-67
            await self._apply_news()
            self._replicas.applied = end
            for event in there:
                event.set()

    async def applied(self, is_there: Callable[[ClusterState], bool]) -> None:
        """Waits until a state is applied of which `is_there` is true: it is asked with each change that is applied."""
        waiting = (is_there, asyncio.Event())
        self._waiting.append(waiting)
        try:
            await waiting[1].wait()
        finally:
            self._waiting.remove(waiting)

    async def _apply_news(self) -> None:
        """Applies to the partitions here what the metadata log has changed since the last call."""
        if self._news.brokers_changed:
            self._news.brokers_changed = False
            self._take_brokers()
        keys = self._news.take(self._replica.state, self._replicas.table, self._replicas.broker_id)
        opened = await self._open_missing(keys)
        state = self._replica.state  # it may have moved on: what it has is newer, and heard of again
        for number, key in enumerate(keys):
            self._apply(state, key, opened.get(key))
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
                state = self._replica.state

    def _take_brokers(self) -> None:
        standings = {
            broker.id: BrokerStanding(
                epoch=broker.epoch, is_fenced=broker.fenced, is_shutting_down=broker.in_controlled_shutdown
            )
            for broker in self._replica.state.brokers
        }
        self._replicas.brokers.clear()  # the core reads this very dict
        self._replicas.brokers.update(standings)

    async def _open_missing(self, keys: Sequence[Key]) -> dict[Key, Opened]:
        """Opens the logs of partitions that are new here; a topic before it of this name is given up first."""
        opened = {}
        for number, key in enumerate(keys, 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            state = self._replica.state
            found = self._assigned(state, key)
            if found is None or self._replicas.table.get(key) is not None:
                continue
            name, partition = found
            if (before := self._replicas.table.named(name)) is not None:
                self._delete(before)
            wanted = partition.directory_of(self._replicas.broker_id)
            settings = log_settings(state, name.topic)
            opened[key] = await in_thread(self._store.open, key, name, wanted, settings)
        return opened

    def _assigned(self, state: ClusterState, key: Key) -> tuple[TopicPartition, PartitionState] | None:
        """Returns name and state of a partition that this broker is a replica of; None if it is none."""
        topic = state.topics.by_id(key.topic_id)
        partition = None if topic is None else topic.partitions.get(key.partition_id)
        if topic is None or partition is None or self._replicas.broker_id not in partition.replicas:
            return None
        return TopicPartition(topic.name, key.partition_id), partition

    def _apply(self, state: ClusterState, key: Key, opened: Opened | None) -> None:
        hosted, found = self._replicas.table.get(key), self._assigned(state, key)
        if hosted is None and opened is not None:
            hosted = self._hosted(state, key, opened)
        if hosted is None:
            return  # none of ours, or one that is heard of again at once
        if found is None:
            self._delete(hosted)
            return
        name, partition = found
        hosted.log.settings = log_settings(state, name.topic)
        led_before = hosted.leading
        effects = hosted.partition.apply(
            registration_of(partition),
            min_insync_replicas=min_insync_replicas(state, name.topic),
            now_ms=self._replicas.now_ms,
        )
        self._replicas.carry_out(hosted, effects)
        self._replicas.touch(key)
        if (leading := hosted.leading) is not None and leading is not led_before:
            self._replicas.awaited.expect(key, leading.replicas, now_ms=self._replicas.now_ms)
        if partition.directory_of(self._replicas.broker_id) != hosted.directory.id:
            self._placed(hosted)

    def _hosted(self, state: ClusterState, key: Key, opened: Opened) -> Hosted:
        name = TopicPartition(opened.log.directory.name.rpartition("-")[0], key.partition_id)
        partition = Partition(
            broker_id=self._replicas.broker_id,
            log=opened.log,
            checkpoint=opened.high_watermark,
            brokers=self._replicas.brokers,
            settings=self._replicas.settings,
            min_insync_replicas=min_insync_replicas(state, name.topic),
            counts=self._replicas.isr_counts,
        )
        hosted = Hosted(key=key, name=name, partition=partition, log=opened.log, directory=opened.directory)
        opened.log.commit(partition.local.high_watermark)
        self._replicas.table.add(hosted)
        return hosted

    def _delete(self, hosted: Hosted) -> None:
        """Gives up a partition that was deleted, or moved to other brokers (R17)."""
        self._replicas.give_up(hosted)
        self.is_to_go(self._store.delete(hosted))
        log.info("a partition is not of this broker any more", partition=str(hosted.name))


def registration_of(partition: PartitionState) -> PartitionRegistration:
    """Returns what the core takes of a partition in the metadata log."""
    return PartitionRegistration(
        leader=None if partition.leader == NO_LEADER else partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        isr=frozenset(partition.isr),
        is_recovering=partition.leader_recovery_state == RECOVERING,
    )
