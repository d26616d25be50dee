"""Delegation tokens: who may do what with which, how long they live, and the HMAC that opens them. KIP-48, KIP-373.

The log has no HMAC: it follows from a token's id and the cluster's secret key. Whoever has it can log in as the owner.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias

from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import Operation, ResourceType
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import DELEGATION_TOKENS, release_of
from quorate.nouns import ANONYMOUS, Principal
from quorate.records import DelegationTokenRecord

__all__ = [
    "Allows",
    "TokenSettings",
    "allows_all",
    "check_authenticated",
    "check_may_change",
    "check_not_expired",
    "check_on",
    "check_version",
    "is_expired",
    "parse_principal",
    "time_after",
    "token_by_hmac",
    "token_hmac",
]

TIMESTAMP_MAX: Final = 2**63 - 1
"""Kafka's Long.MAX_VALUE, where a time that is too late to be told ends."""

_HMACS_REMEMBERED: Final = 65_536
"""To find a token by its HMAC takes those of all; one takes 2 µs to make, and 0.1 µs to remember."""

Allows: TypeAlias = Callable[[ClusterState, Operation, ResourceType, str], bool]
"""May the caller do this to the resource of this name? What an authorizer answers, for one caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """What the operator has said of delegation tokens. Without a secret key there are none."""

    secret_key: str = field(default="", repr=False)
    """Kafka's `delegation.token.secret.key`, the same on every controller and broker."""
    max_lifetime_ms: int = 7 * 24 * 3600 * 1000
    """Kafka's `delegation.token.max.lifetime.ms`: so long a token can be renewed."""
    expiry_time_ms: int = 24 * 3600 * 1000
    """Kafka's `delegation.token.expiry.time.ms`: so long a token is good without being renewed."""

    def __post_init__(self) -> None:
        assert self.max_lifetime_ms >= 1, self.max_lifetime_ms
        assert self.expiry_time_ms >= 1, self.expiry_time_ms

    @property
    def are_on(self) -> bool:
        """Is there a secret key?"""
        return bool(self.secret_key)


def allows_all(_state: ClusterState, _operation: Operation, _type: ResourceType, _name: str) -> bool:
    """What a cluster without an authorizer answers."""
    return True


def check_authenticated(principal: Principal) -> None:
    """Raises ApiError(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED) for a caller whom nobody has authenticated.

    Kafka looks at the connection: plain text is refused. Here a caller without a name is one that is not known.
    """
    if principal == ANONYMOUS:
        raise ApiError(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            f"{principal} asks; delegation tokens are for principals that have authenticated themselves",
        )


def check_on(settings: TokenSettings) -> None:
    """Raises ApiError(DELEGATION_TOKEN_AUTH_DISABLED) where there is no secret key."""
    if not settings.are_on:
        raise ApiError(
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
            "there are no delegation tokens: delegation.token.secret.key is not set on this controller",
        )


def check_version(state: ClusterState) -> None:
    """Raises ApiError(UNSUPPORTED_VERSION) below the metadata.version that brought tokens."""
    level = state.features.record_level
    if level < DELEGATION_TOKENS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"delegation tokens need metadata.version {release_of(DELEGATION_TOKENS)}, this is {release_of(level)}",
        )


def token_hmac(settings: TokenSettings, token_id: str) -> bytes:
    """HMAC-SHA-512 of a token's id under the secret key: the password of a login with the token.

    >>> token_hmac(TokenSettings(secret_key="key"), "id").hex()[:16]
    '69203b2245b207c6'
    """
    assert settings.are_on, settings
    return _hmac(settings.secret_key, token_id)


@lru_cache(maxsize=_HMACS_REMEMBERED)
def _hmac(key: str, token_id: str) -> bytes:
    return hmac.digest(key.encode("utf-8"), token_id.encode("utf-8"), "sha512")


def token_by_hmac(state: ClusterState, settings: TokenSettings, given: bytes) -> DelegationTokenRecord:
    """The token whose HMAC was given. Raises ApiError(DELEGATION_TOKEN_NOT_FOUND).

    Asks every token in turn, so that the time that it takes tells nothing of any HMAC.
    """
    tokens = state.delegation_tokens
    found = [token for token in tokens if hmac.compare_digest(token_hmac(settings, token.token_id), given)]
    if not found:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "no delegation token has the HMAC that was given")
    return found[0]


def check_may_change(token: DelegationTokenRecord, principal: Principal) -> None:
    """Raises ApiError(DELEGATION_TOKEN_OWNER_MISMATCH) unless it is the owner or a renewer who asks."""
    if str(principal) not in (token.owner, *token.renewers):
        raise ApiError(
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
            f"token {token.token_id} is {token.owner}'s; {principal} is not among those who may renew it",
        )


def check_not_expired(token: DelegationTokenRecord, now_ms: int) -> None:
    """Raises ApiError(DELEGATION_TOKEN_EXPIRED) for a token that is past its time and not swept yet."""
    if is_expired(token, now_ms):
        raise ApiError(
            ErrorCode.DELEGATION_TOKEN_EXPIRED,
            f"token {token.token_id} expired at {min(token.expiration_timestamp, token.max_timestamp)}, it is {now_ms} "
            "(ms since the epoch)",
        )


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Is it past its time? At the millisecond itself it is still good, as in Kafka."""
    return min(token.expiration_timestamp, token.max_timestamp) < now_ms


def time_after(now_ms: int, period_ms: int) -> int:
    """`period_ms` from now, or the last moment that there is."""
    return min(now_ms + period_ms, TIMESTAMP_MAX)


def parse_principal(text: str) -> Principal:
    """A principal as it stands in a record, `type:name`; the name may have colons.

    >>> parse_principal("User:CN=a:b")
    Principal(type='User', name='CN=a:b')
    """
    kind, _, name = text.partition(":")
    return Principal(kind, name)
