"""The broker's life around its parts: catch up with the metadata, register, be unfenced; and its orderly end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from quorate.metadata.state import ClusterState
from quorate.network.client import Connection, Timeouts
from quorate.nouns import NodeId
from quorate.runtime.following.replica import Replica
from services.broker.cluster import Cluster
from services.broker.controllers import Controllers
from services.broker.directories import LogDirectories
from services.broker.fetcher import LeaderFetchers
from services.broker.isr_changes import IsrChanges
from services.broker.lifecycle import Lifecycle
from services.broker.moves import Moves
from services.broker.news import News
from services.broker.partitions import Partitions
from services.broker.peers import Peers
from services.broker.placements import Placements
from services.broker.producer_ids import ProducerIds
from services.broker.replicas import Replicas
from services.broker.store import PartitionStore
from services.broker.threads import in_thread
from services.broker.upkeep import Upkeep
from services.broker.wire import Wire

__all__ = ["BrokerDriver", "Parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a broker."""

    directories: LogDirectories
    replica: Replica
    news: News
    replicas: Replicas
    cluster: Cluster
    wire: Wire
    controllers: Controllers
    peers: Peers


class BrokerDriver:
    """Runs one broker: `run` is its work, `leave` meanwhile asks for a controlled shutdown, `close` follows its end."""

    def __init__(self, parts: Parts, lifecycle: Lifecycle, *, timeout_ms: int) -> None:
        """`timeout_ms` is how long it tries to register."""
        self._parts = parts
        self._lifecycle = lifecycle
        self._timeout_ms = timeout_ms
        self._store: PartitionStore | None = None

    async def run(self) -> None:
        """Registers, catches up with the metadata log, and takes part until cancelled. Raises an ExceptionGroup.

        It has the ApiError of a refused registration, Corrupt or OSError.
        """
        parts, lifecycle = self._parts, self._lifecycle
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(parts.replica.run())
            await lifecycle.register(timeout_ms=self._timeout_ms)
            parts.directories.begin()
            tasks.create_task(lifecycle.run())
            moves = await self._take_part(tasks)
            parts.wire.begin(ProducerIds(parts.replicas.broker_id, parts.controllers, self._broker_epoch), moves)
            lifecycle.get_ready()

    def opens(self, store: PartitionStore) -> None:
        """Notes the store that `close` closes."""
        self._store = store

    async def leave(self, *, within_s: float) -> None:
        """Asks for a controlled shutdown, which moves the leaderships away, and waits for it, at most `within_s` (s).

        It returns without it, too: then the leaderships move once the broker is fenced.
        """
        await self._lifecycle.shut_down(within_s=within_s)

    def close(self) -> None:
        """Flushes and closes the logs, writes their checkpoints, and marks the log directories as cleanly stopped.

        The next process and the controller trust that (R2). Raises OSError. Call it once `run` has ended and nobody is
        answered any more. Without a registration nothing was written, and the marks of the process before are as they
        were. Before all logs are opened no mark is left: a log that nobody has opened may end with what an unclean stop
        has left.
        """
        if self._store is not None:
            self._store.close(self._parts.replicas.table)
            if self._store.has_opened_all:
                self._parts.directories.leave_marks(self._lifecycle.broker_epoch)

    async def _take_part(self, tasks: asyncio.TaskGroup) -> Moves:
        """Opens what the metadata log gives this broker, up to its own registration, and keeps it so."""
        parts, replicas = self._parts, self._parts.replicas
        store = await in_thread(PartitionStore, parts.directories)
        isr_changes = IsrChanges(replicas, parts.controllers, self._broker_epoch)
        placements = Placements(replicas.broker_id, parts.controllers, self._broker_epoch)
        replicas.fetchers = LeaderFetchers(
            replicas,
            tasks,
            broker_epoch=self._broker_epoch,
            connect_to=self._connect_to,
            cluster_id=parts.directories.cluster_id,
        )
        partitions = Partitions(
            replicas, store, parts.replica, parts.news, placed=placements.note, begins=self._is_registered
        )
        self.opens(store)
        for work in (partitions.run, isr_changes.run, placements.run):
            tasks.create_task(work())
        await partitions.applied(self._is_registered)
        moves = Moves(replicas, store, parts.cluster, placed=placements.note, is_to_go=partitions.is_to_go)
        moves.resume()
        tasks.create_task(moves.run())
        store.set_strays_aside()
        tasks.create_task(Upkeep(replicas, store, partitions).run())
        return moves

    async def _connect_to(self, broker_id: NodeId, timeouts: Timeouts) -> Connection:
        """Connects to a leader at the listener between brokers. Raises OSError, ApiError."""
        address = self._parts.cluster.address_of(broker_id)
        if address is None:
            raise OSError(f"broker {broker_id} has no address at the listener between brokers")
        return await self._parts.peers.connect(*address, timeouts=timeouts)

    def _broker_epoch(self) -> int:
        return self._lifecycle.broker_epoch

    def _is_registered(self, state: ClusterState) -> bool:
        """Returns whether the state has this process's registration, and so all that was committed before it."""
        registered = state.brokers.get(self._parts.replicas.broker_id)
        return registered is not None and registered.epoch == self._lifecycle.broker_epoch
