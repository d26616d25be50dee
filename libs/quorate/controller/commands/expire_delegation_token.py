"""ExpireDelegationToken (40): changes a token's expiry time, or removes the token. KIP-48."""

from __future__ import annotations

from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
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
from quorate.records import RemoveDelegationTokenRecord

__all__ = ["expire_delegation_token"]


def expire_delegation_token(
    request: ExpireDelegationTokenRequest, *, principal: Principal, settings: TokenSettings
) -> Command[ExpireDelegationTokenResponse]:
    """Returns the command that lets a token expire `expiry_time_period_ms` from now; a negative value removes it.

    It never expires after the end of its lifetime. The command raises ApiError, checked in this order:
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION,
    DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED (not for a removal).
    """

    def command(state: ClusterState, moment: Moment) -> Decision[ExpireDelegationTokenResponse]:
        token = token_to_change(state, settings, principal, request.hmac)
        check_may_change(token, principal)
        if request.expiry_time_period_ms < 0:
            response = ExpireDelegationTokenResponse(expiry_timestamp_ms=moment.now_ms)
            return Decision(response, (RemoveDelegationTokenRecord(token.token_id),))
        check_not_expired(token, moment.now_ms)
        changed = expiring_after(token, request.expiry_time_period_ms, now_ms=moment.now_ms)
        return Decision(ExpireDelegationTokenResponse(expiry_timestamp_ms=changed.expiration_timestamp), (changed,))

    return command
