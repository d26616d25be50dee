"""Records metric events of a node: counters, and durations of commits, elections and flushes. The driver calls it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from quorate.nouns import NodeId, Offset
from quorate.raft.ready import Ready
from quorate.raft.roles import Candidate, Follower, Leader, Prospective, Role
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import RepeatFilter
from quorate.runtime.requests.statuses import shortened
from services.quorum.metrics import COMMIT, ELECTION, FLUSH, NS
from services.quorum.readings import NodeCounters

log = logger(__name__)

REASON_BYTES_MAX: Final = 500


class Recorder:
    """Collects counters and durations; cheap, and its histograms do nothing while metrics are off."""

    def __init__(self, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self.now_ns = now_ns
        self.counts = NodeCounters()
        self._uncommitted: deque[tuple[Offset, int]] = deque()
        self._election_ns: int | None = None
        self._flush_ns: int | None = None
        self._refused = ""
        self._wrong_settings = RepeatFilter()
        self._lost_records = RepeatFilter()
        self._denied_by: set[NodeId] = set()

    def carried_out(self, ready: Ready, role: Role, *, leo: Offset) -> None:
        """Counts and logs what was in a `Ready` that was executed: records, commits, role changes, refusals of peers.

        `role` is the present role, `leo` the log end offset.
        """
        self._log(ready, leo)
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

    def refused(self, why: str) -> None:
        """Counts a peer's answer that this node refused, and warns; at debug if the last one had the same reason."""
        self.counts.refused += 1
        (log.debug if why == self._refused else log.warning)("refused an answer", reason=why)
        self._refused = why

    def _log(self, ready: Ready, leo: Offset) -> None:
        for why in ready.refused:
            self.refused(why)
        for what in ready.misconfigured:
            self._misconfigured(what)
        for what in ready.forgetful:
            self._forgetful(what)
        for node_id in ready.denied:
            self._denied(node_id)
        for transition in ready.transitions:
            log.info(
                "became " + transition.after.lower(),
                before=transition.before.lower(),
                epoch=transition.epoch,
                leo=leo,
                reason=transition.reason,
            )

    def _misconfigured(self, what: str) -> None:
        """Warns of a refused request whose sender has wrong settings or a wrong id, once an hour for each text."""
        if self._wrong_settings.passes(what := shortened(what, REASON_BYTES_MAX), self.now_ns() / 1e9):
            log.warning("refused a request: its sender's settings or ids are wrong", reason=what)

    def _forgetful(self, what: str) -> None:
        """Warns of a voter that lacks records which it had acknowledged to this leader, once an hour for each text."""
        if self._lost_records.passes(what, self.now_ns() / 1e9):
            log.warning("a voter fetches from below what it has acknowledged", reason=what)

    def _denied(self, node_id: NodeId) -> None:
        """Counts a request that a peer refused with CLUSTER_AUTHORIZATION_FAILED; warns once for each peer."""
        self.counts.denied += 1
        if node_id not in self._denied_by:
            self._denied_by.add(node_id)
            log.warning("not authorized by a peer: CLUSTER_AUTHORIZATION_FAILED", peer=node_id)

    def flush_begins(self) -> None:
        """Notes the start of a flush; at most one runs at a time."""
        assert self._flush_ns is None, "a flush is under way"
        self._flush_ns = self.now_ns()

    def flush_ends(self) -> None:
        """Records the duration of the flush that ends now, as a metric."""
        assert self._flush_ns is not None, "no flush has begun"
        FLUSH.record((self.now_ns() - self._flush_ns) * NS)
        self._flush_ns = None

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
