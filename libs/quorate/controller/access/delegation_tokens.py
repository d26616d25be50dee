"""Delegation tokens: checks of owner, renewers and expiry, and the HMAC that authenticates a token. KIP-48, KIP-373.

The log does not contain the HMAC: it is computed from the token id and the cluster's secret key. A client that has the
HMAC can log in as the token's owner.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import DELEGATION_TOKENS, release_of
from quorate.nouns import ANONYMOUS, Principal
from quorate.records import DelegationTokenRecord

__all__ = [
    "TokenSettings",
    "check_authenticated",
    "check_may_change",
    "check_not_expired",
    "check_on",
    "check_version",
    "expiring_after",
    "index_tokens",
    "is_expired",
    "parse_principal",
    "time_after",
    "token_hmac",
    "token_to_change",
]

TIMESTAMP_MAX: Final = 2**63 - 1
"""The largest timestamp in ms, Kafka's Long.MAX_VALUE; later expiry times are cut to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """The settings of delegation tokens; without a secret key tokens are off."""

    secret_key: str = field(default="", repr=False)
    """Kafka's `delegation.token.secret.key`, the same on every controller and broker."""
    max_lifetime_ms: int = 7 * 24 * 3600 * 1000
    """Kafka's `delegation.token.max.lifetime.ms`: how long a token can be renewed."""
    expiry_time_ms: int = 24 * 3600 * 1000
    """Kafka's `delegation.token.expiry.time.ms`: how long a token is valid without renewal."""

    def __post_init__(self) -> None:
        assert self.max_lifetime_ms >= 1, self.max_lifetime_ms
        assert self.expiry_time_ms >= 1, self.expiry_time_ms

    @property
    def are_on(self) -> bool:
        """Whether delegation tokens are on: a secret key is set."""
        return bool(self.secret_key)


def check_authenticated(principal: Principal) -> None:
    """Refuses anonymous callers. Raises ApiError(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED).

    Kafka refuses by connection (plain text); here a caller without an authenticated principal is refused.
    """
    if principal == ANONYMOUS:
        raise ApiError(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            f"{principal} is not authenticated; delegation tokens are for authenticated principals",
        )


def check_on(settings: TokenSettings) -> None:
    """Raises ApiError(DELEGATION_TOKEN_AUTH_DISABLED) if no secret key is set."""
    if not settings.are_on:
        raise ApiError(
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
            "delegation tokens are disabled: delegation.token.secret.key is not set on this controller",
        )


def check_version(state: ClusterState) -> None:
    """Raises ApiError(UNSUPPORTED_VERSION) below the first metadata.version with delegation tokens."""
    level = state.features.record_level
    if level < DELEGATION_TOKENS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"delegation tokens need metadata.version {release_of(DELEGATION_TOKENS)}; "
            f"this cluster is at {release_of(level)}",
        )


def token_hmac(settings: TokenSettings, token_id: str) -> bytes:
    """Returns HMAC-SHA-512 of a token's id under the secret key, which must be set: the password for a login with it.

    >>> token_hmac(TokenSettings(secret_key="key"), "id").hex()[:16]
    '69203b2245b207c6'
    """
    assert settings.are_on, settings
    return hmac.digest(settings.secret_key.encode("utf-8"), token_id.encode("utf-8"), "sha512")


def index_tokens(state: ClusterState, settings: TokenSettings) -> None:
    """Has `state.delegation_tokens.by_hmac` find tokens from now on, if they are on: with a secret key."""
    if settings.are_on:
        state.delegation_tokens.index_by(settings.secret_key, partial(token_hmac, settings))


def token_to_change(
    state: ClusterState, settings: TokenSettings, principal: Principal, given: bytes
) -> DelegationTokenRecord:
    """Returns the token whose HMAC is `given`, for a caller that wants to renew it or to let it expire.

    Whether the caller may do so, and whether the token has expired, is not checked. Raises ApiError, in this order:
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for an anonymous caller, DELEGATION_TOKEN_AUTH_DISABLED without a secret key,
    UNSUPPORTED_VERSION below the metadata.version with tokens, DELEGATION_TOKEN_NOT_FOUND if no token has this HMAC.
    """
    check_authenticated(principal)
    check_on(settings)
    check_version(state)
    return _token_by_hmac(state, settings, given)


def _token_by_hmac(state: ClusterState, settings: TokenSettings, given: bytes) -> DelegationTokenRecord:
    """Returns the token with this HMAC. Raises ApiError(DELEGATION_TOKEN_NOT_FOUND).

    It looks up a hash that is another one in each process (SipHash with a random key), as Kafka does in its cache, so
    the duration reveals nothing about any HMAC. Every authenticated caller may make tokens: a search must not grow with
    their number.
    """
    index_tokens(state, settings)
    found = state.delegation_tokens.by_hmac(given)
    if found is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "no delegation token has the HMAC that was given")
    assert token_hmac(settings, found.token_id) == given, f"found by an HMAC that is not its own: {found.token_id}"
    return found


def expiring_after(token: DelegationTokenRecord, period_ms: int, *, now_ms: int) -> DelegationTokenRecord:
    """Returns a copy of the token that expires `period_ms` after `now_ms`, at the latest when its lifetime ends.

    The token must not have expired. `now_ms` is in ms since 1970.
    """
    expiry = min(token.max_timestamp, time_after(now_ms, period_ms))
    assert expiry >= now_ms, (token, expiry, now_ms)  # `check_not_expired` has refused the others
    return msgspec.structs.replace(token, expiration_timestamp=expiry)


def check_may_change(token: DelegationTokenRecord, principal: Principal) -> None:
    """Raises ApiError(DELEGATION_TOKEN_OWNER_MISMATCH) unless the caller is the token's owner or a renewer."""
    if str(principal) not in (token.owner, *token.renewers):
        raise ApiError(
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
            f"token {token.token_id} is owned by {token.owner}; "
            f"{principal} is neither its owner nor one of its renewers",
        )


def check_not_expired(token: DelegationTokenRecord, now_ms: int) -> None:
    """Raises ApiError(DELEGATION_TOKEN_EXPIRED) for a token that has expired at `now_ms`, as `is_expired` says."""
    if is_expired(token, now_ms):
        raise ApiError(
            ErrorCode.DELEGATION_TOKEN_EXPIRED,
            f"token {token.token_id} expired at {min(token.expiration_timestamp, token.max_timestamp)}; "
            f"now is {now_ms} (ms since the epoch)",
        )


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Returns whether the token's expiry time, or the end of its lifetime, is before `now_ms` (ms since 1970).

    At the exact millisecond the token is still valid, as in Kafka.
    """
    return min(token.expiration_timestamp, token.max_timestamp) < now_ms


def time_after(now_ms: int, period_ms: int) -> int:
    """Returns `now_ms` plus `period_ms`, but at most `TIMESTAMP_MAX`. `period_ms` must not be negative."""
    assert period_ms >= 0, period_ms
    return min(now_ms + period_ms, TIMESTAMP_MAX)


def parse_principal(text: str) -> Principal:
    """Parses a principal from a record, `type:name`; the name may contain colons.

    >>> parse_principal("User:CN=a:b")
    Principal(type='User', name='CN=a:b')
    """
    kind, _, name = text.partition(":")
    return Principal(kind, name)
