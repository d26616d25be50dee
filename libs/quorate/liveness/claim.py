"""Which of several trackers counts the heartbeats: one has the claim, which lapses if it is not claimed again.

Each tracker hears only the heartbeats that reach it. Two that both fence would fence brokers that are heard elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.liveness.attendance import Attendance
from quorate.nouns import Epoch

__all__ = ["CLAIM_EVERY_MS", "CLAIM_LAPSES_MS", "SESSION_LEAST_MS", "Claimant", "Claimed", "SessionClaim"]

CLAIM_EVERY_MS: Final = 1_000
"""How often a tracker claims the sessions."""
CLAIM_LAPSES_MS: Final = 3 * CLAIM_EVERY_MS
"""A claim is over after three that did not come: a session of 9 s is longer than this and the next tracker's claim."""
SESSION_LEAST_MS: Final = 2 * CLAIM_LAPSES_MS
"""The shortest session with two trackers. The next one counts at the earliest a lapse after the last claim of one that
is cut off, which takes heartbeats for up to 2 s more; its brokers, by default each 2 s, have to come in time.
"""
GAP_MS: Final = CLAIM_EVERY_MS * 3 // 2
"""The most (ms) that counts between two looks: while this process stands still, claims wait in its sockets."""

assert CLAIM_EVERY_MS < GAP_MS < CLAIM_LAPSES_MS, (
    "who claims in time is not absent; one claim that is lost ends nothing"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """The process of a tracker, which counts heartbeats: its id, which no other has, and its address, for people."""

    id: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The answer to a claim: whether it is granted, which heartbeat service has it, and for how long (ms) from now."""

    is_granted: bool
    holder: Claimant
    lapses_in_ms: int


class SessionClaim:
    """Grants one tracker at a time the claim to fence brokers. The active controller keeps it in memory, for one epoch.

    After a failover of the controller whichever claims first has it, and keeps it: the one that counted before has not
    heard the brokers that were heard by the other one meanwhile. A process at the holder's own address is its
    successor: two cannot listen there. `now_ms` is of a monotonic clock.

    >>> claim, one, two = SessionClaim(), Claimant(id="1", address="a:1"), Claimant(id="2", address="b:1")
    >>> claim.claim(one, epoch=7, now_ms=0).is_granted
    True
    >>> claim.claim(two, epoch=7, now_ms=500).holder.address
    'a:1'
    >>> [claim.claim(two, epoch=7, now_ms=ms).is_granted for ms in (1_500, 2_500, 3_000, 3_001)]
    [False, False, False, True]
    """

    __slots__ = ("_attendance", "_epoch", "_holder", "_lapses_ms")

    def __init__(self) -> None:
        self._attendance = Attendance(every_ms=GAP_MS)
        self._epoch: Epoch | None = None
        self._holder: Claimant | None = None
        self._lapses_ms = 0

    def holder(self, *, epoch: Epoch | None, now_ms: int) -> Claimant | None:
        """Returns the tracker that has the claim in this epoch of the controller; None if nobody has, or it lapsed."""
        now_ms = self._attendance.look(now_ms)
        if epoch != self._epoch:
            self._epoch, self._holder = epoch, None
        if self._holder is not None and now_ms > self._lapses_ms:
            self._holder = None
        return self._holder

    def claim(self, claimant: Claimant, *, epoch: Epoch, now_ms: int) -> Claimed:
        """Grants the claim for `CLAIM_LAPSES_MS`, or refuses it if another tracker has it in this controller epoch."""
        assert claimant.id, claimant
        holder = self.holder(epoch=epoch, now_ms=now_ms)
        now_ms = self._attendance.look(now_ms)
        is_own = holder is not None and (holder.id == claimant.id or holder.address == claimant.address != "")
        assert holder is None or now_ms <= self._lapses_ms, (holder, now_ms, self._lapses_ms)
        if holder is not None and not is_own:
            return Claimed(is_granted=False, holder=holder, lapses_in_ms=self._lapses_ms - now_ms)
        self._holder, self._lapses_ms = claimant, now_ms + CLAIM_LAPSES_MS
        return Claimed(is_granted=True, holder=claimant, lapses_in_ms=CLAIM_LAPSES_MS)
