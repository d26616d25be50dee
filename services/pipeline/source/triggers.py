"""When a stream starts a micro-batch: `minOffsetsPerTrigger` and `maxTriggerDelay` of Spark's source for Kafka.

Spark's own limit of at least so many rows (ReadMinRows) has no delay in Python, and cannot be combined with the limit
of at most so many. So the reader itself decides, whenever Spark asks it for the latest offset.
"""

from __future__ import annotations

import re
from typing import Final

from quorate.runtime.event_loop.clock import Clock

__all__ = ["DELAY_MS", "Waiting", "parse_delay"]

DELAY_MS: Final = 900_000
"""The longest delay between two micro-batches if the option maxTriggerDelay is not set: Kafka's source has 15 min."""
_SPAN: Final = re.compile(r"(\d{1,15}) *(ms|s|m|min|h|d)?", re.ASCII)
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, None: 1}


def parse_delay(given: str) -> int:
    """Returns the ms of a span of time as Spark writes it. Raises ValueError.

    >>> [parse_delay(each) for each in ("15m", "20 s", "1500", "2h")]
    [900000, 20000, 1500, 7200000]

    """
    found = _SPAN.fullmatch(given.strip().lower())
    if found is None:
        raise ValueError(
            f"maxTriggerDelay is {given!r}; it is a whole number with ms, s, m, h or d behind it, or of ms"
        )
    return int(found[1]) * _UNITS_MS[found[2]]


class Waiting:
    """Decides whether a micro-batch waits for more offsets; the first one of a query never does."""

    def __init__(self, least: int | None, delay_ms: int, clock: Clock) -> None:
        self.least = least or 0
        self._delay_ms = delay_ms
        self._clock = clock
        self._started_at_ms: int | None = None

    def is_over(self, available: int) -> bool:
        """Returns whether a micro-batch of so many new offsets starts; if so, the delay begins anew.

        It starts if there are enough, if the delay since the last start is over, or if it is the first one.
        """
        now = self._clock.monotonic_ms()
        began = self._started_at_ms
        if self.least > available and began is not None and now - began < self._delay_ms:
            return False
        self._started_at_ms = now
        return True
