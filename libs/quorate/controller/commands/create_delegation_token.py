"""CreateDelegationToken (38): creates a token with which clients can log in as its owner. KIP-48, KIP-373."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kraft import Uuid
from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from quorate.controller.access.delegation_tokens import (
    TokenSettings,
    check_authenticated,
    check_on,
    check_version,
    time_after,
    token_hmac,
)
from quorate.controller.access.rights import Allows, allows_all
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.metadata.state import ClusterState
from quorate.nouns import Principal, uuid_text
from quorate.records import DelegationTokenRecord

__all__ = ["create_delegation_token", "with_hmac"]

RENEWER_TYPE = "User"
"""The only principal type that Kafka allows for renewers."""


def create_delegation_token(
    request: CreateDelegationTokenRequest,
    *,
    principal: Principal,
    new_token_id: Callable[[], Uuid],
    settings: TokenSettings,
    allows: Allows = allows_all,
) -> Command[CreateDelegationTokenResponse]:
    """Returns the command that creates a token for the owner in `request`, or else for the caller, `principal`.

    The response lacks the HMAC, so that no copy of it on the way is a secret; `with_hmac` adds it at the end. The
    command raises ApiError, checked in this order: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, INVALID_PRINCIPAL_TYPE of the
    owner, DELEGATION_TOKEN_AUTHORIZATION_FAILED, DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION,
    INVALID_PRINCIPAL_TYPE of a renewer.
    """

    def command(state: ClusterState, moment: Moment) -> Decision[CreateDelegationTokenResponse]:
        check_authenticated(principal)
        owner = _owner(request, principal)
        _check_may_own(principal, owner, allows)
        check_on(settings)
        check_version(state)
        token = _token(request, owner, principal, uuid_text(new_token_id()), moment.now_ms, settings)
        return Decision(_response(token, owner, principal), (token,))

    return command


def with_hmac(response: CreateDelegationTokenResponse, settings: TokenSettings) -> CreateDelegationTokenResponse:
    """Returns the response with the token's HMAC, as the client gets it."""
    return msgspec.structs.replace(response, hmac=token_hmac(settings, response.token_id))


def _owner(request: CreateDelegationTokenRequest, principal: Principal) -> Principal:
    if not request.owner_principal_name:
        return principal
    kind = request.owner_principal_type
    if not kind or ":" in kind:
        # Kafka fails internally on a null type, and reads a type with a colon back as another principal.
        raise ApiError(
            ErrorCode.INVALID_PRINCIPAL_TYPE,
            f"owner {request.owner_principal_name!r} is of the type {kind!r}; "
            "a type is a word without a colon, such as User",
        )
    return Principal(kind, request.owner_principal_name)


def _check_may_own(principal: Principal, owner: Principal, allows: Allows) -> None:
    """Refuses a caller without CREATE_TOKENS on the owner; a principal may always create tokens for itself."""
    if owner != principal and not allows(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        raise ApiError(
            ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            f"a delegation token for {owner} requires CREATE_TOKENS on that user; {principal} does not have it",
        )


def _token(
    request: CreateDelegationTokenRequest,
    owner: Principal,
    requester: Principal,
    token_id: str,
    now_ms: int,
    settings: TokenSettings,
) -> DelegationTokenRecord:
    lifetime_ms = settings.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_timestamp = time_after(now_ms, lifetime_ms)
    expiration_timestamp = min(max_timestamp, time_after(now_ms, settings.expiry_time_ms))
    assert now_ms < expiration_timestamp <= max_timestamp, (now_ms, expiration_timestamp, max_timestamp)
    return DelegationTokenRecord(
        owner=str(owner),
        requester=str(requester),
        renewers=tuple(str(_renewer(each)) for each in request.renewers),
        issue_timestamp=now_ms,
        max_timestamp=max_timestamp,
        expiration_timestamp=expiration_timestamp,
        token_id=token_id,
    )


def _renewer(asked: CreateDelegationTokenRequest.CreatableRenewers) -> Principal:
    if asked.principal_type != RENEWER_TYPE:
        raise ApiError(
            ErrorCode.INVALID_PRINCIPAL_TYPE,
            f"renewer {asked.principal_name!r} is of the type {asked.principal_type!r}; "
            f"renewers are of the type {RENEWER_TYPE}",
        )
    return Principal(asked.principal_type, asked.principal_name)


def _response(token: DelegationTokenRecord, owner: Principal, requester: Principal) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiration_timestamp,
        max_timestamp_ms=token.max_timestamp,
        token_id=token.token_id,
    )
