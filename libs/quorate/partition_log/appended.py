"""The result of appending a producer's batch."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.nouns import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The result of appending a producer's batch: its offsets (inclusive), and whether the log had it before (KIP-98).

    `log_append_time_ms` is -1 with `message.timestamp.type` CreateTime.
    """

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int = -1
    was_there: bool = False
