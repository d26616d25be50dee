"""How fast a client may create and delete partitions: whose quota counts, and its bucket of tokens. KIP-599.

A token is one partition made or removed. A bucket gains `controller_mutation_rate` tokens a second, up to what it gains
in all its windows, and begins full. As long as it owes nothing a topic is taken, however many partitions it has: then
the bucket may owe, and until it has caught up everything else is refused. So a large topic is possible at a low rate.
This is Kafka's TokenBucket, as its StrictControllerMutationQuota asks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.metadata.client_quotas import CLIENT_ID, USER, ClientQuotas, Entity

__all__ = ["CONTROLLER_MUTATION_RATE", "MutationQuotas", "Purse", "Quota", "QuotaWindows", "quota_of"]

CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
BUCKETS_KEPT_MIN: Final = 1_000
"""Buckets are looked through for full ones only when there are so many, and twice as many as were left last time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindows:
    """How much may come at once: what comes in this many windows of this many seconds at the client's rate."""

    num: int = 11
    """Kafka's `controller.quota.window.num`."""
    size_s: int = 1
    """Kafka's `controller.quota.window.size.seconds`."""

    def __post_init__(self) -> None:
        assert self.num >= 1, self.num
        assert self.size_s >= 1, self.size_s

    def burst(self, rate: float) -> float:
        """Tokens that a full bucket has."""
        return self.num * self.size_s * rate


class Quota(NamedTuple):
    """Partitions a second, and who shares them: None for any user, or any client."""

    rate: float
    user: str | None
    client_id: str | None


def quota_of(quotas: ClientQuotas, *, user: str, client_id: str) -> Quota | None:
    """The quota that counts for this client of this user, as Kafka's ClientQuotaManager finds it; None if none does.

    A quota for a user, by name or default, is shared by all clients of that user, and one for a client by all its
    users; whoever is meant by a default has a share of its own. A client without a name is no client: only what its
    user may do counts. KIP-55, KIP-546.
    """
    for entity, shared_by in _candidates(user, client_id):
        rate = quotas.of(entity).get(CONTROLLER_MUTATION_RATE)
        if rate is not None:
            return Quota(rate, *shared_by)
    return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[Entity, tuple[str | None, str | None]]]:
    """Every entity whose quota may count, the most telling first, and who has a bucket in common."""
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
class _Bucket:
    tokens: float
    """Negative if it owes."""
    rate: float
    at_ms: int


class MutationQuotas:
    """The buckets of all clients of one active controller; no log has them, and the next one begins with full ones."""

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._buckets: dict[tuple[str | None, str | None], _Bucket] = {}
        self._kept = 0

    def __len__(self) -> int:
        """Buckets that were not full when last looked at."""
        return len(self._buckets)

    def tokens(self, quota: Quota, now_ms: int) -> float:
        """What its bucket has now, at the rate of now: a change of the quota empties and fills none."""
        bucket = self._buckets.get(quota[1:])
        burst = self._windows.burst(quota.rate)
        if bucket is None:
            return burst
        # A clock that goes back takes nothing away.
        return min(burst, bucket.tokens + quota.rate * max(0, now_ms - bucket.at_ms) / 1000)

    def leave(self, quota: Quota, tokens: float, now_ms: int) -> None:
        """So much is in its bucket now."""
        if tokens >= self._windows.burst(quota.rate):
            self._buckets.pop(quota[1:], None)
            return
        if len(self._buckets) >= max(BUCKETS_KEPT_MIN, 2 * self._kept):
            self._forget_full_ones(now_ms)
        self._buckets[quota[1:]] = _Bucket(tokens, quota.rate, now_ms)

    def _forget_full_ones(self, now_ms: int) -> None:
        for key, bucket in list(self._buckets.items()):
            if self.tokens(Quota(bucket.rate, *key), now_ms) >= self._windows.burst(bucket.rate):
                del self._buckets[key]
        self._kept = len(self._buckets)


class Purse:
    """The bucket that one request is paid from. Decided again, the request is paid anew, and not twice."""

    def __init__(self, quotas: MutationQuotas, quota: Quota) -> None:
        self._quotas = quotas
        self._quota = quota
        self._paid = 0.0

    @property
    def quota(self) -> Quota:
        """What fills it."""
        return self._quota

    def open(self, now_ms: int) -> float:
        """What is in it, as if nothing had been paid for this request."""
        return self._quotas.tokens(self._quota, now_ms) + self._paid

    def leave(self, now_ms: int, tokens: float, *, paid: float) -> None:
        """The request is paid with `paid`, and so much is left."""
        self._paid = paid
        self._quotas.leave(self._quota, tokens, now_ms)

    def wait_ms(self, tokens: float) -> int:
        """How long until so many tokens are none that it owes."""
        return max(0, round(-tokens / self._quota.rate * 1000))
