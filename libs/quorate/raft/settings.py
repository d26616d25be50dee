"""How patient a raft node is. Kafka's names and defaults, all times in ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Chance(Protocol):
    """Where random choices come from; `random.Random` is one."""

    def randrange(self, stop: int, /) -> int:
        """A number in [0, stop)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Times and sizes of one raft node. Raises ValueError naming the setting and its rule."""

    election_timeout_ms: int = 1_000
    """`controller.quorum.election.timeout.ms`: shortest wait for a leader; each wait is drawn from [1, 2) times it."""
    election_backoff_max_ms: int = 1_000
    """`controller.quorum.election.backoff.max.ms`: longest pause after a lost election."""
    fetch_timeout_ms: int = 2_000
    """`controller.quorum.fetch.timeout.ms`: a follower gives its leader up after so long without a good answer."""
    request_timeout_ms: int = 2_000
    """`controller.quorum.request.timeout.ms`: a request without an answer for so long is asked again."""
    retry_backoff_ms: int = 20
    """`controller.quorum.retry.backoff.ms`: pause before a failed request is asked again."""
    fetch_max_wait_ms: int = 500
    """How long a leader may hold our fetch if it has no news."""
    fetch_max_bytes: int = 8 << 20
    """`controller.quorum.fetch.max.bytes`: size of one fetch answer; a larger single batch still comes whole."""
    snapshot_max_bytes: int = 8 << 20
    """`controller.quorum.fetch.snapshot.max.bytes`: size of one chunk of a snapshot."""
    failover_wait_max_ms: int = 50
    """Longest wait between the reset of the stream to the leader and our pre-vote. Not in Kafka."""
    observer_session_timeout_ms: int = 300_000
    """An observer that has not fetched for so long is no longer listed."""
    observers_max: int = 10_000
    """How many observers a leader lists, and how many fetches it holds; more are answered at once."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            least = 2 if name == "failover_wait_max_ms" else 1  # half of it is drawn
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")

    @property
    def check_quorum_ms(self) -> int:
        """A leader resigns after so long without fetches of a majority. KIP-595, KAFKA-15489."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_ms(self) -> int:
        """A voter silent for so long is told again who leads."""
        return self.fetch_timeout_ms // 2
