"""The broker's life around its parts: catch up with the metadata, register, be unfenced; and its orderly end."""

from __future__ import annotations

import asyncio

from quorate.nouns import NodeId
from quorate.runtime.replica import Replica
from services.broker.directories import LogDirectories
from services.broker.lifecycle import NOT_REGISTERED, Lifecycle

__all__ = ["BrokerDriver"]


class BrokerDriver:
    """One broker process."""

    def __init__(
        self, broker_id: NodeId, directories: LogDirectories, replica: Replica, lifecycle: Lifecycle, *, timeout_ms: int
    ) -> None:
        """`timeout_ms` is how long it tries to register."""
        self._broker_id = broker_id
        self._directories = directories
        self._replica = replica
        self._lifecycle = lifecycle
        self._timeout_ms = timeout_ms

    async def run(self) -> None:
        """Registers, catches up with the metadata log, and takes part until cancelled. Raises ApiError, Corrupt."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._replica.run())
            await self._lifecycle.register(timeout_ms=self._timeout_ms)
            self._directories.begin()
            tasks.create_task(self._lifecycle.run())
            await self._registration_applied()
            self._lifecycle.get_ready()

    async def leave(self, *, within_s: float) -> None:
        """Has its leaderships moved to others before it stops."""
        await self._lifecycle.shut_down(within_s=within_s)

    def close(self) -> None:
        """Leaves what the next process and the controller trust (R2). Call it once `run` has ended.

        Without a registration nothing was written, and the marks of the process before are as they were.
        """
        if self._lifecycle.broker_epoch != NOT_REGISTERED:
            self._directories.leave_marks(self._lifecycle.broker_epoch)

    async def _registration_applied(self) -> None:
        """Waits until the state has this process's registration, and all that was committed before it."""
        async for _ in self._replica.changes():
            registered = self._replica.state.brokers.get(self._broker_id)
            if registered is not None and registered.epoch == self._lifecycle.broker_epoch:
                return
