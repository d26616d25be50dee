"""The timeouts and limits of a node. Names and defaults are Kafka's where it has them; all times are spans in ms.

By default, a fetch is held for a quarter of the fetch timeout, so a follower does not give up a leader that has nothing
to send; and check quorum is 1.5 fetch timeouts, so followers look for another leader before a leader that is cut off
resigns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Chance(Protocol):
    """The source of randomness: `random.Random`, or a simulator's."""

    def randrange(self, stop: int, /) -> int:
        """Returns a random number from 0 (inclusive) to `stop` (exclusive)."""
        ...


LEAST = {"failover_wait_max_ms": 2, "commit_wait_ms": 0, "observer_wait_ms": 0}
"""The minimum of a setting, where it is not 1. The failover wait needs 2, because half of it is random."""


RETRY_DOUBLINGS_MAX = 20
"""The retry pause is doubled at most so many times: it has reached its maximum long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """The timeouts and limits of one node. Raises ValueError naming setting, value and minimum if one is too small."""

    election_timeout_ms: int = 1_000
    """`controller.quorum.election.timeout.ms`: a voter without a leader waits for a random time of 1 to 2 times
    this."""
    election_backoff_max_ms: int = 1_000
    """`controller.quorum.election.backoff.max.ms`: the longest pause after a lost election."""
    fetch_timeout_ms: int = 2_000
    """`controller.quorum.fetch.timeout.ms`: a follower without a good answer for so long starts an election."""
    request_timeout_ms: int = 2_000
    """`controller.quorum.request.timeout.ms`: a request without an answer for so long is sent again."""
    retry_backoff_ms: int = 20
    """`controller.quorum.retry.backoff.ms`: the pause after the first failure; it doubles with each further one."""
    retry_backoff_max_ms: int = 1_000
    """`retry.backoff.max.ms`: the longest such pause."""
    fetch_max_wait_ms: int = 500
    """How long the leader may hold this node's fetch while it has no news (the long poll)."""
    fetch_max_bytes: int = 8 << 20
    """`controller.quorum.fetch.max.bytes`: the size of a Fetch answer; its first batch comes whole even if larger."""
    snapshot_max_bytes: int = 8 << 20
    """`controller.quorum.fetch.snapshot.max.bytes`: the size of one chunk of a snapshot."""
    failover_wait_max_ms: int = 50
    """The longest wait from the reset of the stream to the leader to this node's pre-vote. Not in Kafka."""
    commit_wait_ms: int = 0
    """If only the high watermark is news, the leader holds a voter's fetch for so long, in case that records follow:
    one answer then carries both, instead of two. A follower holds an observer's fetch for so long after a commit, in
    case that others follow. Not in Kafka, where a new high watermark is sent at once (KIP-1166)."""
    observer_wait_ms: int = 0
    """The leader answers an observer's held fetch so long after news, times the number of observers. So observers
    take a bounded part of its time, and commits come first. Not in Kafka, where each append answers them."""
    observer_session_timeout_ms: int = 300_000
    """An observer that has not fetched for so long is no longer listed by DescribeQuorum."""
    observers_max: int = 10_000
    """How many replicas a leader tracks, and how many fetches of unlisted ones a node holds; others are answered at
    once."""

    auto_join_enable: bool = False
    """`controller.quorum.auto.join.enable`: a node that follows the log and does not vote asks to be added.
    KIP-1186."""
    listener_name: str | None = None
    """The listener that each voter must have, `controller.listener.names`; None: the first of this node's own."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if isinstance(getattr(self, name), bool | str | None):
                continue
            least = LEAST.get(name, 1)
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")

    @property
    def check_quorum_ms(self) -> int:
        """A leader resigns if no majority fetches for so long: 1.5 fetch timeouts (I-24). KIP-595, KAFKA-15489."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def presence_wait_ms(self) -> int:
        """How much later a voter without its controller starts an election: no other voter waits longer than that."""
        return 2 * self.election_timeout_ms

    @property
    def observers_found_ms(self) -> int:
        """How long after an election every live observer has fetched from the new leader, one lost request included."""
        return self.fetch_timeout_ms + 2 * self.election_timeout_ms + self.request_timeout_ms

    @property
    def begin_epoch_ms(self) -> int:
        """A voter that has been silent for so long is sent BeginQuorumEpoch again."""
        return self.fetch_timeout_ms // 2

    def retry_wait_ms(self, failures: int, random: Chance) -> int:
        """Returns the pause in ms before a request is sent again, after `failures` earlier ones: exponential backoff.

        It doubles with each earlier failure up to the maximum. From the second on it has random jitter of up to a
        fifth, so that nodes that failed together do not retry together (KIP-580).

        >>> from random import Random
        >>> [RaftSettings().retry_wait_ms(failures, Random(1)) for failures in (0, 1, 2, 99)]
        [20, 42, 84, 1000]
        """
        wait_ms = min(self.retry_backoff_max_ms, self.retry_backoff_ms << min(failures, RETRY_DOUBLINGS_MAX))
        return (
            wait_ms if failures == 0 else min(self.retry_backoff_max_ms, wait_ms + random.randrange(wait_ms // 5 + 1))
        )
