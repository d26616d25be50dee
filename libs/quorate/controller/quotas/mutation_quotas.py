"""Controller mutation quotas: token buckets that limit how fast a client creates and deletes partitions. KIP-599.

One token is one partition created or deleted. A bucket gains `controller_mutation_rate` tokens a second, holds at most
what it gains in all its windows, and starts full. While it is not below zero, a topic is accepted, however many
partitions it has; the bucket may then be below zero, and further topics are refused until it has recovered. So a large
topic is possible at a low rate. This follows Kafka's TokenBucket and StrictControllerMutationQuota.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.metadata.client_quotas import CLIENT_ID, USER, ClientQuotas, Entity

__all__ = ["CONTROLLER_MUTATION_RATE", "MutationQuotas", "Quota", "QuotaWindows", "RequestTokens", "quota_of"]

CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
BUCKETS_KEPT_MIN: Final = 1_000
"""Full token buckets are removed only when this many exist, and twice as many as were left by the last removal."""

WAIT_MS_MAX: Final = 2**31 - 1
"""The largest throttle_time_ms, an int32: 24.8 days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindows:
    """The size of the token buckets: the tokens gained in `num` windows of `size_s` seconds each."""

    num: int = 11
    """The number of windows: Kafka's `controller.quota.window.num`."""
    size_s: int = 1
    """The length of one window in seconds: Kafka's `controller.quota.window.size.seconds`."""

    def __post_init__(self) -> None:
        assert self.num >= 1, self.num
        assert self.size_s >= 1, self.size_s

    def burst(self, rate: float) -> float:
        """Returns the capacity of a token bucket, in tokens, at `rate` tokens a second; one token is one partition."""
        return self.num * self.size_s * rate


class Quota(NamedTuple):
    """A mutation rate in partitions a second, and who shares its bucket; None stands for all users or all clients."""

    rate: float
    user: str | None
    client_id: str | None


def quota_of(quotas: ClientQuotas, *, user: str, client_id: str) -> Quota | None:
    """Returns the quota for this user and client, found as by Kafka's ClientQuotaManager; None if there is none.

    A quota for a user, by name or default, is shared by all clients of that user, and a quota for a client by all its
    users. Each user or client under a default quota has a bucket of its own. Without a client id only the quotas of the
    user apply. KIP-55, KIP-546.
    """
    for entity, shared_by in _candidates(user, client_id) if len(quotas) else ():
        rate = quotas.of(entity).get(CONTROLLER_MUTATION_RATE)
        if rate is not None:
            return Quota(rate, *shared_by)
    return None


assert CLIENT_ID < USER, "the parts of an entity are sorted by type, as `entity_of` does it"


def _candidates(user: str, client_id: str) -> Iterator[tuple[Entity, tuple[str | None, str | None]]]:
    """Yields the quota entities that may apply, most specific first, each with the key of its bucket."""
    any_user, any_client = (USER, None), (CLIENT_ID, None)
    this_user, this_client = (USER, user), (CLIENT_ID, client_id)
    if not client_id:
        yield (this_user,), (user, None)
        yield (any_user,), (user, None)
        return
    yield (this_client, this_user), (user, client_id)
    yield (any_client, this_user), (user, client_id)
    yield (this_user,), (user, None)
    yield (this_client, any_user), (user, client_id)
    yield (any_client, any_user), (user, client_id)
    yield (any_user,), (user, None)
    yield (this_client,), (None, client_id)
    yield (any_client,), (None, client_id)


@dataclass(frozen=True, slots=True)
class _TokenBucket:
    tokens: float
    """Tokens at `at_ms`; negative after a topic that took more than there were."""
    rate: float
    at_ms: int


class MutationQuotas:
    """The token buckets of all clients, in memory of one active controller; after a failover all buckets are full."""

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._buckets: dict[tuple[str | None, str | None], _TokenBucket] = {}
        self._kept = 0

    def __len__(self) -> int:
        """The number of token buckets in memory: those that were not full at their last use."""
        return len(self._buckets)

    def tokens(self, quota: Quota, now_ms: int) -> float:
        """Returns the tokens in the quota's bucket at `now_ms`, refilled at the present rate; they may be below 0.

        A bucket that was never used is full. A change of the rate neither fills nor empties it.
        """
        bucket = self._buckets.get(quota[1:])
        burst = self._windows.burst(quota.rate)
        if bucket is None:
            return burst
        # A clock that goes back removes no tokens.
        return min(burst, bucket.tokens + quota.rate * max(0, now_ms - bucket.at_ms) / 1000)

    def leave(self, quota: Quota, tokens: float, now_ms: int) -> None:
        """Sets the tokens in a quota's bucket at `now_ms`; a full bucket is forgotten, as one never used is full."""
        if tokens >= self._windows.burst(quota.rate):
            self._buckets.pop(quota[1:], None)
            return
        if len(self._buckets) >= max(BUCKETS_KEPT_MIN, 2 * self._kept):
            self._forget_full_ones(now_ms)
        self._buckets[quota[1:]] = _TokenBucket(tokens, quota.rate, now_ms)

    def _forget_full_ones(self, now_ms: int) -> None:
        for key, bucket in list(self._buckets.items()):
            if self.tokens(Quota(bucket.rate, *key), now_ms) >= self._windows.burst(bucket.rate):
                del self._buckets[key]
        self._kept = len(self._buckets)


class RequestTokens:
    """One request's access to its token bucket; a request that is decided twice takes its tokens once."""

    def __init__(self, quotas: MutationQuotas, quota: Quota) -> None:
        self._quotas = quotas
        self._quota = quota
        self._paid = 0.0

    @property
    def quota(self) -> Quota:
        """The mutation quota whose rate refills the token bucket."""
        return self._quota

    def open(self, now_ms: int) -> float:
        """Returns the tokens in the bucket at `now_ms`, with those that this request has paid already added again."""
        return self._quotas.tokens(self._quota, now_ms) + self._paid

    def leave(self, now_ms: int, tokens: float, *, paid: float) -> None:
        """Sets the client's token bucket to `tokens`, and notes that this request has paid `paid` tokens of it."""
        assert paid >= 0, (self._quota, tokens, paid)
        self._paid = paid
        self._quotas.leave(self._quota, tokens, now_ms)

    def wait_ms(self, tokens: float) -> int:
        """Returns how long it takes, in ms, until a bucket with `tokens` (if negative) is back at zero.

        At most `WAIT_MS_MAX`: a rate may be so small that the time is infinite.
        """
        return round(min(max(0.0, -tokens / self._quota.rate * 1000), WAIT_MS_MAX))
