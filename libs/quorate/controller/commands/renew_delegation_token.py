"""RenewDelegationToken (39): extends a token's expiry time, at most to its maximum lifetime. KIP-48."""

from __future__ import annotations

from kraft.api.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from quorate.controller.access.delegation_tokens import (
    TokenSettings,
    check_may_change,
    check_not_expired,
    expiring_after,
    token_to_change,
)
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.metadata.state import ClusterState
from quorate.nouns import Principal

__all__ = ["renew_delegation_token"]


def renew_delegation_token(
    request: RenewDelegationTokenRequest, *, principal: Principal, settings: TokenSettings
) -> Command[RenewDelegationTokenResponse]:
    """Returns the command that extends a token by `renew_period_ms` from now; 0 or less means the longest renewal.

    The longest is the setting `expiry_time_ms`; the token never expires after the end of its lifetime. The command
    raises ApiError, checked in this order: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED,
    UNSUPPORTED_VERSION, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
    """

    def command(state: ClusterState, moment: Moment) -> Decision[RenewDelegationTokenResponse]:
        token = token_to_change(state, settings, principal, request.hmac)
        check_not_expired(token, moment.now_ms)
        check_may_change(token, principal)
        period_ms = settings.expiry_time_ms
        if request.renew_period_ms > 0:
            period_ms = min(period_ms, request.renew_period_ms)
        renewed = expiring_after(token, period_ms, now_ms=moment.now_ms)
        return Decision(RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expiration_timestamp), (renewed,))

    return command
