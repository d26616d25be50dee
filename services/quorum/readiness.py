"""Readiness of a quorum node: whether the quorum could lose another node now and still have this one's log.

A node is ready once it leads and has committed a record of its epoch, or once it follows a leader and its log has all
that the leader says is committed. It stops being ready when the last such moment lies further back than the lag that is
allowed, or its disk has little room. A node that joins by itself (KIP-1186) is ready only as a voter: before that no
commit counts it.

So a rollout that waits for readiness takes the next node only when this one counts again, and an eviction budget does
not count a node that is behind. Nothing that the quorum needs depends on readiness: nodes find each other without it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from quorate.raft.core import Raft
from quorate.raft.roles import Follower, Leader
from quorate.runtime.calls.server import Server
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.logging.logs import logger
from services.quorum.room import Room

log = logger(__name__)

LOOK_AGAIN_S: Final = 0.1


class Readiness:
    """Finds out whether a quorum node is ready, and tells the server's health service; `run` does so until cancelled.

    `lag_max_ms` is how long ago (ms) the log may last have had all that was committed. `joins` is the setting
    `controller.quorum.auto.join.enable`. Without `room` the free space of the disk does not count.
    """

    def __init__(self, core: Raft, clock: Clock, *, lag_max_ms: int, joins: bool, room: Room | None = None) -> None:
        self._core = core
        self._room = room
        self._clock = clock
        self._lag_max_ms = lag_max_ms
        self._joins = joins
        self._caught_up_at_ms: int | None = None

    def is_ready(self) -> bool:
        """Returns whether the log had all that was committed at most `lag_max_ms` ago, and there is room for more."""
        now_ms = self._clock.monotonic_ms()
        if is_caught_up(self._core, joins=self._joins):
            self._caught_up_at_ms = now_ms
        is_near = self._caught_up_at_ms is not None and now_ms - self._caught_up_at_ms <= self._lag_max_ms
        has_room = self._room is None or self._room.is_enough()  # asked in any case: it writes to the log
        return is_near and has_room

    async def run(self, server: Server) -> None:
        """Tells the server's health service whenever `is_ready` has changed, until cancelled."""
        was_ready = False
        while True:
            is_ready = self.is_ready()
            if is_ready != was_ready:
                role = self._core.role
                log.info(
                    "is ready" if is_ready else "is not ready",
                    role=type(role).__name__.lower(),
                    epoch=role.epoch,
                    leo=self._core.log.leo,
                    high_watermark=self._core.log.high_watermark,
                )
                await server.set_ready(is_ready)
                was_ready = is_ready
            await asyncio.sleep(LOOK_AGAIN_S)


def is_caught_up(core: Raft, *, joins: bool) -> bool:
    """Returns whether the node's log has all that is committed, as its leader said last; False without a leader.

    A leader has it once it has committed a record of its epoch. With `joins`, it is False for a node that is no voter.
    """
    role = core.role
    if joins and not core.log.voters.latest.has(core.node):
        return False
    if isinstance(role, Leader):
        return core.log.high_watermark > role.epoch_start_offset
    if not isinstance(role, Follower) or role.is_lost or role.download is not None:
        return False
    return role.has_fetched and role.is_caught_up
