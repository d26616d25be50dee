"""How many records and bytes have come and gone since the start, for the metrics (R68)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Traffic"]


@dataclass(slots=True)
class Traffic:
    """Counts that only rise. A batch that a producer has sent again, and the log had, is not counted."""

    records_produced: int = 0
    bytes_produced: int = 0
    bytes_consumed: int = 0
    bytes_replicated_in: int = 0
    bytes_replicated_out: int = 0
