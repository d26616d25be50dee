"""Counts what happens between two looks at a node's metrics; the driver tells of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from quorate.nouns import Offset
from quorate.raft.ready import Ready
from quorate.raft.roles import Candidate, Follower, Leader, Prospective, Role
from services.quorum.metrics import COMMIT, ELECTION, FLUSH, NS
from services.quorum.readings import Counts


class Recorder:
    """What it costs is a few additions; a histogram of metrics that are off is a call that does nothing."""

    def __init__(self, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self.now_ns = now_ns
        self.counts = Counts()
        self._uncommitted: deque[tuple[Offset, int]] = deque()
        self._election_ns: int | None = None
        self._flush_ns = 0

    def carried_out(self, ready: Ready, role: Role) -> None:
        """The driver did what `ready` lists; the core is in `role` now."""
        for transition in ready.transitions:
            self._elect(transition.after)
        if not isinstance(role, Leader):
            self._uncommitted.clear()
        for entry in ready.append:
            if isinstance(role, Leader) and entry.epoch == role.epoch:
                self.counts.appended += entry.end_offset - entry.base_offset
                self._uncommitted.append((entry.end_offset, self.now_ns()))
            else:
                self.counts.fetched += entry.end_offset - entry.base_offset
        if ready.high_watermark is not None:
            self._commit(ready.high_watermark)

    def flush_begins(self) -> None:
        """The disk is waited for; once at a time."""
        self._flush_ns = self.now_ns()

    def flush_ends(self) -> None:
        """It has everything that it was waited for."""
        FLUSH.record((self.now_ns() - self._flush_ns) * NS)

    def _elect(self, after: str) -> None:
        if after in (Prospective.__name__, Candidate.__name__):
            self._election_ns = self.now_ns() if self._election_ns is None else self._election_ns
        elif after in (Leader.__name__, Follower.__name__) and self._election_ns is not None:
            ELECTION.record((self.now_ns() - self._election_ns) * NS)
            self._election_ns = None

    def _commit(self, high_watermark: Offset) -> None:
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            _, since_ns = self._uncommitted.popleft()
            COMMIT.record((self.now_ns() - since_ns) * NS)
