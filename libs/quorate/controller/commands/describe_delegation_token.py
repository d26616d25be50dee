"""DescribeDelegationToken (41): lists the delegation tokens that the caller may see. KIP-48, KIP-373."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from kraft.api.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from quorate.controller.access.delegation_tokens import (
    TokenSettings,
    check_authenticated,
    check_on,
    parse_principal,
    token_hmac,
)
from quorate.controller.access.rights import Allows, allows_all
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment
from quorate.controller.engine.steps import Steps
from quorate.controller.refused_items import CHECKS_PER_STEP
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.metadata.state import ClusterState
from quorate.nouns import Principal
from quorate.records import DelegationTokenRecord

__all__ = ["describe_delegation_token"]

_Token: TypeAlias = DescribeDelegationTokenResponse.DescribedDelegationToken


def describe_delegation_token(
    request: DescribeDelegationTokenRequest,
    *,
    principal: Principal,
    settings: TokenSettings,
    allows: Allows = allows_all,
) -> Command[DescribeDelegationTokenResponse]:
    """Returns the command that lists the tokens of `owners` in `request`, by id; null means all, an empty list none.

    A token that the caller may not see is left out. As in Kafka, a token's requester and renewers count as its owners
    here. An expired token is listed until it is removed. The command raises ApiError:
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[DescribeDelegationTokenResponse]]:
        check_authenticated(principal)
        check_on(settings)
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners or ()}
        tokens = []
        checked_count = 0
        for token in state.delegation_tokens:
            if request.owners is not None and owners.isdisjoint(_of(token)):
                continue
            if _may_see(token, principal, allows):
                tokens.append(_described(token, settings))
            checked_count += 1
            if checked_count % CHECKS_PER_STEP == 0:
                yield
        ids = [token.token_id for token in tokens]
        assert all(one < other for one, other in pairwise(ids)), f"each once, by id: {ids}"
        return Decision(DescribeDelegationTokenResponse(tokens=tuple(tokens)))

    return command


def _may_see(token: DelegationTokenRecord, principal: Principal, allows: Allows) -> bool:
    """Returns whether the caller is owner, requester or renewer, or may describe the token or its owner's tokens."""
    return (
        str(principal) in _of(token)
        or allows(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or allows(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _of(token: DelegationTokenRecord) -> tuple[str, ...]:
    """Returns the owner, the requester and the renewers."""
    return (token.owner, token.requester, *token.renewers)


def _described(token: DelegationTokenRecord, settings: TokenSettings) -> _Token:
    owner, requester = parse_principal(token.owner), parse_principal(token.requester)
    renewers = (parse_principal(renewer) for renewer in token.renewers)
    return _Token(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(settings, token.token_id),
        renewers=tuple(_Token.DescribedDelegationTokenRenewer(each.type, each.name) for each in renewers),
    )
