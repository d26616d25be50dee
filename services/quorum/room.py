"""Free space of the log directory: too little is logged and fails readiness, before appends are refused for it."""

from __future__ import annotations

from typing import Final

from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter
from services.quorum.disk import Disk

__all__ = ["LITTLE_ROOM", "Room"]

log = logger(__name__)

LITTLE_ROOM: Final = "little room on the disk of the log"
LOOK_AGAIN_MS: Final = 1_000


class Room:
    """Looks at the free space of one node's file system, at most once a second.

    With less than `least_bytes`, `metadata.log.min.free.bytes`, it warns at once and then each minute.
    """

    def __init__(self, disk: Disk, clock: Clock, *, least_bytes: int) -> None:
        self._disk = disk
        self._clock = clock
        self._least_bytes = least_bytes
        self._looked_at_ms: int | None = None
        self._is_enough = True
        self._told = ChangeFilter()

    def is_enough(self) -> bool:
        """Returns whether there is room, as of the last second. Raises OSError if the file system does not answer."""
        now_ms = self._clock.monotonic_ms()
        if self._looked_at_ms is None or now_ms - self._looked_at_ms >= LOOK_AGAIN_MS:
            self._looked_at_ms = now_ms
            self._look(self._disk.free_bytes, now_ms / 1000)
        return self._is_enough

    def _look(self, free: int, now_s: float) -> None:
        self._is_enough = free >= self._least_bytes
        about = {"directory": str(self._disk.log.directory), "free": free, "least": self._least_bytes}
        if self._is_enough and self._told.settle(LITTLE_ROOM):
            log.info("there is room on the disk of the log again", **about)
        elif not self._is_enough and self._told.passes(LITTLE_ROOM, LITTLE_ROOM, now_s):
            log.warning(LITTLE_ROOM, **about)
