"""How patient a raft node is. Kafka's names and defaults, all times in ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Chance(Protocol):
    """Where random choices come from; `random.Random` is one."""

    def randrange(self, stop: int, /) -> int:
        """A number in [0, stop)."""
        ...


LEAST = {"failover_wait_max_ms": 2, "commit_wait_ms": 0, "observer_wait_ms": 0}
"""Where it is not 1. Half of the failover wait is drawn."""


RETRY_DOUBLINGS_MAX = 20
"""More would only make large numbers."""


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
    """`controller.quorum.retry.backoff.ms`: first pause before a failed request is asked again; doubled each time."""
    retry_backoff_max_ms: int = 1_000
    """`retry.backoff.max.ms`: longest such pause."""
    fetch_max_wait_ms: int = 500
    """How long a leader may hold our fetch if it has no news."""
    fetch_max_bytes: int = 8 << 20
    """`controller.quorum.fetch.max.bytes`: size of one fetch answer; a larger single batch still comes whole."""
    snapshot_max_bytes: int = 8 << 20
    """`controller.quorum.fetch.snapshot.max.bytes`: size of one chunk of a snapshot."""
    failover_wait_max_ms: int = 50
    """Longest wait between the reset of the stream to the leader and our pre-vote. Not in Kafka."""
    commit_wait_ms: int = 0
    """A voter's held fetch waits so long for records if there is only a commit to tell: seldom does one come alone, and
    an answer for each would double the messages. Not in Kafka, where the answer leaves at once (KIP-1166)."""
    observer_wait_ms: int = 0
    """An observer's held fetch is answered so long after there is news, times the number of observers: they get a
    part of the leader's time, and none of a commit's. Not in Kafka, where each append wakes them."""
    observer_session_timeout_ms: int = 300_000
    """An observer that has not fetched for so long is no longer listed."""
    observers_max: int = 10_000
    """How many observers a leader lists, and how many fetches it holds; more are answered at once."""

    auto_join_enable: bool = False
    """`controller.quorum.auto.join.enable`: a node that follows and does not vote asks for a vote. KIP-1186."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if isinstance(getattr(self, name), bool):
                continue
            least = LEAST.get(name, 1)
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

    def retry_wait_ms(self, failures: int, random: Chance) -> int:
        """The pause after one failure more: doubled for each of the `failures` before, bounded, and partly random.

        From the second on up to a fifth is added, so that nodes which failed together do not ask together again.

        >>> from random import Random
        >>> [Settings().retry_wait_ms(failures, Random(1)) for failures in (0, 1, 2, 99)]
        [20, 42, 84, 1000]
        """
        wait_ms = min(self.retry_backoff_max_ms, self.retry_backoff_ms << min(failures, RETRY_DOUBLINGS_MAX))
        return (
            wait_ms if failures == 0 else min(self.retry_backoff_max_ms, wait_ms + random.randrange(wait_ms // 5 + 1))
        )
