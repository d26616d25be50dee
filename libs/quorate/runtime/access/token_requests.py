"""The requests about delegation tokens: a caller that has logged in with one may send none of them (KIP-48).

Kafka's `allowTokenRequests`.
"""

from __future__ import annotations

from typing import Final

from quorate.errors import ApiError, ErrorCode

__all__ = ["ABOUT_TOKENS", "check_token_request"]

ABOUT_TOKENS: Final = frozenset(
    {"CreateDelegationToken", "DescribeDelegationToken", "ExpireDelegationToken", "RenewDelegationToken"}
)
"""The names of their APIs."""


def check_token_request(api: str, *, is_token: bool) -> None:
    """Refuses a request about delegation tokens (`api` is its name) if the caller has logged in with one (`is_token`).

    Raises ApiError(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED).
    """
    if is_token and api in ABOUT_TOKENS:
        why = f"{api} is not allowed to a caller that has logged in with a delegation token"
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, why)
