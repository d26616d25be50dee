"""How far the leader knows a remote replica to be, and since when it has kept up (R18)."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.nouns import Offset

NO_BROKER_EPOCH = -1
"""In a fetch of a version without the field, and in an AlterPartition for a member that has not fetched yet: not
checked (KIP-903)."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """The state of one replica by its fetches in this leader epoch; None before the first.

    `leader_leo` is the leader's log end at the last fetch. Times are in ms of the monotonic clock.
    """

    leo: Offset | None = None
    log_start: Offset | None = None
    leader_leo: Offset | None = None
    last_fetch_at_ms: int | None = None
    last_caught_up_at_ms: int | None = None
    broker_epoch: int | None = None

    def record_fetch(
        self, *, offset: Offset, log_start: Offset, leader_leo: Offset, broker_epoch: int, now_ms: int
    ) -> None:
        """Records that the replica has everything below `offset` (R19).

        A replica at the leader's end is caught up now. One that has reached the end which the leader had at its
        previous fetch was caught up at the time of that fetch: under a steady load no replica is ever at the end.
        """
        assert 0 <= offset <= leader_leo, (offset, leader_leo)
        assert self.last_fetch_at_ms is None or self.last_fetch_at_ms <= now_ms, (self.last_fetch_at_ms, now_ms)
        if offset >= leader_leo:
            self.last_caught_up_at_ms = now_ms
        elif self.leader_leo is not None and self.last_fetch_at_ms is not None and offset >= self.leader_leo:
            self.last_caught_up_at_ms = max(self.last_caught_up_at_ms or 0, self.last_fetch_at_ms)
        self.leo = offset
        self.log_start = log_start
        self.leader_leo = leader_leo
        self.last_fetch_at_ms = now_ms
        self.broker_epoch = broker_epoch

    def repeat_fetch(self, at_ms: int) -> None:
        """Records that the replica fetched again at this time, from the leader's end, as with its last fetch.

        Nothing if a later fetch is recorded, or one from elsewhere: a process that began anew has another session.
        """
        if self.leo == self.leader_leo and (self.last_fetch_at_ms or 0) < at_ms:
            self.last_fetch_at_ms = self.last_caught_up_at_ms = at_ms

    def is_caught_up(self, *, leader_leo: Offset, now_ms: int, lag_time_max_ms: int) -> bool:
        """Returns whether the replica is at the leader's end, or was within `replica.lag.time.max.ms` (R30).

        The one rule finds replicas that do not fetch, and those that fetch and never reach the end.
        """
        if self.leo == leader_leo:
            return True
        caught_up_at_ms = self.last_caught_up_at_ms
        return caught_up_at_ms is not None and now_ms - caught_up_at_ms <= lag_time_max_ms
