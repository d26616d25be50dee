"""The silence of all brokers at once, which says nothing of any of them: the way to this service is closed.

In Kafka the listener and the process that counts the silence are one; here gateways and networks are between them. And
where nobody is left, to fence a broker helps no partition: there is no other leader.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Hush"]

SHARE: Final = 3
"""A hush begins after a third of a session without a heartbeat of anybody: 3 s, where a broker sends one each 2 s."""


class Hush:
    """Tracks when any broker was last heard, and puts off the end of each session by a silence of all brokers.

    Of such a silence only the first third of a session counts. After one as long as a session each begins anew.

    >>> hush = Hush(timeout_ms=9_000)
    >>> [hush.heard(now_ms) for now_ms in (0, 2_000, 4_500, 12_500)]
    [0, 0, 0, 5000]
    >>> hush.is_on(15_500), hush.is_on(15_501)
    (False, True)
    """

    __slots__ = ("_heard_ms", "after_ms", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        assert timeout_ms > 0, timeout_ms
        self.timeout_ms: Final = timeout_ms
        self.after_ms: Final = timeout_ms // SHARE
        self._heard_ms: int | None = None

    def begin(self, now_ms: int) -> None:
        """Counts the silence from `now_ms` on if no broker has been heard yet."""
        if self._heard_ms is None:
            self._heard_ms = now_ms

    def is_on(self, now_ms: int) -> bool:
        """Returns whether no broker was heard for over a third of a session: the caller lets no session end then."""
        return self._heard_ms is not None and now_ms - self._heard_ms > self.after_ms

    def heard(self, now_ms: int) -> int:
        """Notes that a broker is heard. Returns by how many ms the caller has to put off each session; mostly 0."""
        silent_ms = 0 if self._heard_ms is None else now_ms - self._heard_ms
        assert silent_ms >= 0, (now_ms, self._heard_ms)
        self._heard_ms = now_ms
        if silent_ms < self.timeout_ms:
            return max(0, silent_ms - self.after_ms)
        return silent_ms + self.timeout_ms
