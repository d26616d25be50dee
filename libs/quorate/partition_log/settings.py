"""A topic's settings that its log follows. Names and defaults are Kafka's; times in ms, sizes in bytes, -1 for none."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.partition_log.produced import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """A topic's settings that its log follows. `deletes`: `cleanup.policy` has `delete`.

    Compaction is not done here: a topic that is only compacted keeps all its records.
    """

    limits: Limits = field(default_factory=Limits)
    segment_ms: int = 7 * 24 * 3_600_000
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    index_interval_bytes: int = 4096
    deletes: bool = True
    flush_messages: int = 2**63 - 1
    """An append that leaves so many records that are not flushed waits for the disk."""
