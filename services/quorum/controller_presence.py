"""Controller presence: detects whether this node's controller is connected and its event loop runs.

In Kafka both are one process and end together. Here one can fail without the other, and a leader without a controller
would block all writes of the cluster. So the core is informed (`quorate.raft.presence`): a node without its controller
stands for election later than the others, and as leader it resigns for a voter that has its controller.

A controller is present if it listens and has sent a heartbeat within `controller.presence.timeout.ms`. Heartbeats
come from its event loop, every 250 ms (`services/controller/quorum_link.py`), so a stopped controller, or one whose
loop is blocked, sends none. A controller that is only busy does not count as hung, because:

* A request may have 10,000 items in a list at most (`quorate.runtime.requests.caps`), and is worked on in turns. The
  longest turn of the worst requests that are known takes 62 ms of CPU (`tests/bench/README.md`, `loop_holds`): an
  eightieth of the timeout's default of 5,000 ms.
* A heartbeat is a call of its own: it waits neither for appends, which are not read while the disk is behind, nor
  for events. Twenty in a row must be missing.
* If this node's own event loop was late, as on an overloaded machine, that time is not counted as silence.
* A silent controller loses its role only if a voter with a present controller has the whole log; else its node stays
  leader, and the controller continues once its heartbeats arrive again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from quorate.nouns import Epoch
from quorate.raft import Presence
from quorate.runtime.logging.logs import logger
from services.quorum.controller_events import ControllerEvents
from services.quorum.driver import QuorumDriver

log = logger(__name__)

CHECKS: Final = 20
"""Number of checks for missing controller heartbeats per presence timeout."""
STARTING_MS: Final = 5_000
"""Time (ms) after the start for which a missing controller is tolerated, as it starts together with this node."""
NO_SESSION: Final = 0
"""The session id of a listener that sends no heartbeats, and so never counts as hung."""


@dataclass(slots=True, kw_only=True)
class _Session:
    """The Listen stream of one controller, and the time (ms) of its last heartbeat."""

    listener: ControllerEvents
    id: int
    last_heartbeat_at_ms: int


class ControllerPresence:
    """Tracks the controllers that listen to this node, and reports to the core whether one is present.

    `absence_timeout_ms` is the time for which the node may lead without a controller; 0 turns the check off.
    `presence_timeout_ms` is the time after which a controller without heartbeats counts as hung; 0 for never.
    `end` ends an epoch whose active controller has gone, by default by resigning.
    """

    def __init__(
        self,
        driver: QuorumDriver,
        *,
        absence_timeout_ms: int,
        presence_timeout_ms: int = 0,
        end: Callable[[Epoch], None] | None = None,
    ) -> None:
        self._driver = driver
        self._end = end or driver.resign
        self._absence_timeout_ms = absence_timeout_ms
        self._presence_timeout_ms = presence_timeout_ms
        self._sessions: list[_Session] = []
        self._patient_until_ms = driver.now_ms + max(absence_timeout_ms, STARTING_MS)
        self._look()

    @contextmanager
    def of(self, listener: ControllerEvents, session_id: int = NO_SESSION) -> Iterator[None]:
        """Returns a context manager for the time in which a controller listens, and may be present.

        If the controller was active, its end calls `end` with the epoch: a new listener would not know the controller's
        last writes.
        """
        session = _Session(listener=listener, id=session_id, last_heartbeat_at_ms=self._driver.now_ms)
        self._sessions.append(session)
        self._look()
        try:
            yield
        finally:
            self._sessions.remove(session)
            self._look()
            if listener.active_epoch is not None:
                self._end(listener.active_epoch)

    def hear(self, session_id: int) -> None:
        """Notes a heartbeat of the controller whose Listen stream has this session id; an unknown id has no effect."""
        for session in self._sessions:
            if session.id == session_id:
                session.last_heartbeat_at_ms = self._driver.now_ms
        self._look()

    async def run(self) -> None:
        """Checks for hung controllers until cancelled; returns at once if the checks are off."""
        if not (self._absence_timeout_ms and self._presence_timeout_ms):
            return
        pause_ms = self._presence_timeout_ms // CHECKS
        looked_ms = self._driver.now_ms
        while True:
            await asyncio.sleep(pause_ms / 1000)
            deaf_ms = self._driver.now_ms - looked_ms - pause_ms
            looked_ms = self._driver.now_ms
            if deaf_ms > pause_ms:
                for session in self._sessions:
                    session.last_heartbeat_at_ms = min(looked_ms, session.last_heartbeat_at_ms + deaf_ms)
            self._look()

    def _is_silent(self, session: _Session) -> bool:
        is_bound = self._presence_timeout_ms > 0 and session.id != NO_SESSION
        return is_bound and self._driver.now_ms > session.last_heartbeat_at_ms + self._presence_timeout_ms

    def _look(self) -> None:
        """Reports the controller's presence to the core if it has changed."""
        is_heard = any(not self._is_silent(session) for session in self._sessions)
        is_present = is_heard or self._absence_timeout_ms == 0
        if is_present == self._driver.presence.is_present:
            return
        now_ms = self._driver.now_ms
        if is_present:
            presence = Presence()
        elif self._sessions:
            log.warning("the controller is silent", timeout_ms=self._presence_timeout_ms)
            presence = Presence(is_present=False, resign_at_ms=now_ms)
        else:
            resign_at_ms = max(self._patient_until_ms, now_ms + self._absence_timeout_ms)
            presence = Presence(is_present=False, resign_at_ms=resign_at_ms)
        self._driver.set_presence(presence)
