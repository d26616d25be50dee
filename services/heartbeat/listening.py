"""How long brokers have been silent: by the time in which this process ran, and in which anybody was heard at all."""

from __future__ import annotations

import asyncio
from typing import Final

from quorate.liveness import Attendance, Hush, Sessions
from quorate.nouns import NodeId
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter

__all__ = ["Listening"]

log = logger(__name__)

LOOK_S: Final = 0.05
"""Interval (s) at which this process notes that it runs."""
GAP_MS: Final = 100
"""The most (ms) that counts between two looks: one that is late by less is on time."""
AWAY_MS: Final = 1_000
"""An absence of so long is worth a line in the log."""
NOBODY: Final = "no broker is heard: none is fenced until one is"


class Listening:
    """Keeps the time by which broker sessions end: none ends by this process's absence, or while all are silent."""

    def __init__(self, sessions: Sessions, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock
        self._attendance = Attendance(every_ms=GAP_MS)
        self._hush = Hush(sessions.timeout_ms)
        self._told = ChangeFilter()
        self._away_known_ms = 0

    @property
    def now_ms(self) -> int:
        """The time of the sessions: a monotonic clock, in ms, that stands while this process does."""
        return self._attendance.look(self._clock.monotonic_ms())

    async def run(self) -> None:
        """Notes that this process runs, and logs its absences and the silences of all brokers, until cancelled."""
        while True:
            away_ms = self._attendance.away_ms
            await asyncio.sleep(LOOK_S)
            now_ms = self.now_ms
            self._tell(now_ms, away_ms=self._attendance.away_ms - away_ms)

    def heard(self, broker_id: NodeId, *, broker_epoch: int, metadata_offset: int) -> None:
        """Extends a broker's session; the first heartbeat after a silence of all puts off the end of all others."""
        now_ms = self.now_ms
        if put_off_ms := self._hush.heard(now_ms):
            self._sessions.put_off(put_off_ms, now_ms=now_ms)
        self._sessions.touch(broker_id, broker_epoch=broker_epoch, metadata_offset=metadata_offset, now_ms=now_ms)

    def rest(self) -> None:
        """Counts a silence of all brokers from now on only, as they send their heartbeats elsewhere."""
        self._hush.heard(self.now_ms)

    async def first_late(self) -> NodeId | None:
        """Returns the broker whose session ended first; None if none has ended, or no broker at all is heard.

        After an absence of this process it first waits, so that the heartbeats in its sockets are read.
        """
        now_ms = self.now_ms
        away_ms, self._away_known_ms = self._attendance.away_ms - self._away_known_ms, self._attendance.away_ms
        if away_ms >= GAP_MS:
            await asyncio.sleep(GAP_MS / 1000)
            now_ms = self.now_ms
        self._hush.begin(now_ms)
        return None if self._hush.is_on(now_ms) else self._sessions.first_late(now_ms)

    def _tell(self, now_ms: int, *, away_ms: int) -> None:
        if away_ms >= AWAY_MS:
            log.warning("this process was away, which counts for no broker's session", ms=away_ms)
        watched_count = len(self._sessions.watched)
        now_s = asyncio.get_running_loop().time()
        if watched_count and self._hush.is_on(now_ms):
            if self._told.passes(NOBODY, "", now_s):
                log.warning(NOBODY, unfenced=watched_count, waited_ms=self._hush.after_ms)
        elif self._told.settle(NOBODY):
            log.info("brokers are heard again", unfenced=watched_count)
