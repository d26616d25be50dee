"""Limits and times of replication, with Kafka's names and defaults. All times are spans in ms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """The settings of one broker. Raises ValueError naming setting, value and minimum if one is too small."""

    replica_lag_time_max_ms: int = 30_000
    """`replica.lag.time.max.ms`: a member of the ISR that was not at the leader's end for so long is removed (R31)."""
    fetch_backoff_ms: int = 1_000
    """`replica.fetch.backoff.ms`: how long a follower waits after its leader has refused a fetch (R60)."""
    first_fetch_backoff_ms: int = 20
    """The same after the first refusal of a leader that has not heard of its epoch yet; then twice as long each time,
    up to `fetch_backoff_ms`. Not a setting in Kafka."""
    alter_partition_backoff_ms: int = 50
    """How long the broker waits before it repeats an AlterPartition that failed as a whole; not a setting in Kafka."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    @property
    def isr_check_interval_ms(self) -> int:
        """How often the ISR of each led partition is checked for members that are out of sync (R29)."""
        return max(self.replica_lag_time_max_ms // 2, 1)
