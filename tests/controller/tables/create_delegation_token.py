"""CreateDelegationToken (38)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.commands.create_delegation_token import create_delegation_token
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.nouns import ANONYMOUS, Principal
from quorate.records import DelegationTokenRecord
from tests.controller.clusters import Cluster, uuid
from tests.controller.some_tokens import (
    ALICE,
    ASKED_MS,
    BOB,
    CAROL,
    OFF,
    ON,
    asked_at,
    before_tokens,
    first_level,
    may,
    no_tokens,
    token,
)
from tests.controller.tables.table import Row, Table

FOREVER_MS = 2**63 - 1
GROUP = Principal("Group", "g")


def asked(
    *renewers: Principal, owner: Principal | None = None, max_lifetime_ms: int = -1
) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner.type if owner else None,
        owner.name if owner else None,
        tuple(CreateDelegationTokenRequest.CreatableRenewers(each.type, each.name) for each in renewers),
        max_lifetime_ms,
    )


def told(made: DelegationTokenRecord, owner: Principal = ALICE) -> CreateDelegationTokenResponse:
    """Alice asked. There is no HMAC yet: the API adds it."""
    return CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type="User",
        token_requester_principal_name="alice",
        issue_timestamp_ms=made.issue_timestamp,
        expiry_timestamp_ms=made.expiration_timestamp,
        max_timestamp_ms=made.max_timestamp,
        token_id=made.token_id,
        hmac=b"",
    )


def lives(case: str, asked_ms: int, *, longest_ms: int, expiry_ms: int) -> Row:
    """How long a token lives of which so much is asked."""
    made = token(1, ALICE, max_timestamp=ASKED_MS + longest_ms, expiration_timestamp=ASKED_MS + expiry_ms)
    return Row(case=case, rule=LIFETIME, request=asked(max_lifetime_ms=asked_ms), records=(made,), answer=told(made))


def command(
    _: Cluster,
    request: CreateDelegationTokenRequest,
    by: Principal = ALICE,
    on: bool = True,
    ages: tuple[int, int] = (ON.max_lifetime_ms, ON.expiry_time_ms),
    grants: Collection[str] | None = None,
) -> Command[Any]:
    """`ages`: the settings delegation.token.max.lifetime.ms and delegation.token.expiry.time.ms."""
    longest_ms, expiry_ms = ages
    settings = TokenSettings(secret_key=ON.secret_key, max_lifetime_ms=longest_ms, expiry_time_ms=expiry_ms)
    return asked_at(
        ASKED_MS,
        create_delegation_token(
            request,
            principal=by,
            new_token_id=lambda: uuid(1),
            settings=settings if on else OFF,
            allows=may(grants),
        ),
    )


MANAGER = "DelegationTokenControlManager.createDelegationToken"
LIFETIME = f"{MANAGER}: as long as is asked for, and the settings allow (KIP-48)."
MAY_OWN = "ControllerApis.handleCreateDelegationTokenRequest: for another it takes CREATE_TOKENS on the user (KIP-373)."
KNOWN = "ControllerApis.allowTokenRequests: before all else."
OWNERS_TYPE = "A record has a KafkaPrincipal as type:name, and reads it back at the first colon (KIP-373)."
ALICES, CAROLS = token(1, ALICE), token(1, CAROL, requester=str(ALICE))
FOREVER = token(1, ALICE, max_timestamp=FOREVER_MS, expiration_timestamp=FOREVER_MS)
NOT_ALLOWED, DISABLED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
BAD_TYPE, TOO_OLD = ErrorCode.INVALID_PRINCIPAL_TYPE, ErrorCode.UNSUPPORTED_VERSION

TABLE = Table(
    api="CreateDelegationToken",
    kafka=f"ControllerApis.handleCreateDelegationTokenRequest, {MANAGER} (KIP-48, KIP-373)",
    command=command,
    given=no_tokens,
    rows=(
        Row(
            case="one's own",
            rule=f"{MANAGER}: who asks owns it, unless an owner is named (KIP-48).",
            request=asked(),
            records=(ALICES,),
            answer=told(ALICES),
        ),
        Row(
            case="at the first level",
            rule="MetadataVersion.isDelegationTokenSupported: from 3.6-IV2.",
            given=first_level,
            request=asked(),
            records=(ALICES,),
            answer=told(ALICES),
        ),
        Row(
            case="with renewers",
            rule=f"{MANAGER}: renewers as they are asked for (KIP-48).",
            request=asked(BOB, CAROL),
            records=(token(1, ALICE, BOB, CAROL),),
            answer=told(ALICES),
        ),
        Row(
            case="another's, without an authorizer",
            rule="Who owns and who asked are both kept (KIP-373).",
            request=asked(owner=CAROL),
            records=(CAROLS,),
            answer=told(CAROLS, CAROL),
        ),
        Row(
            case="another's, by a grant",
            rule=MAY_OWN,
            request=asked(owner=CAROL),
            beside={"grants": ("CREATE_TOKENS USER User:carol",)},
            records=(CAROLS,),
            answer=told(CAROLS, CAROL),
        ),
        Row(
            case="one's own by name, without a grant",
            rule=MAY_OWN,
            request=asked(owner=ALICE),
            beside={"grants": ()},
            records=(ALICES,),
            answer=told(ALICES),
        ),
        Row(
            case="an owner without a name",
            rule=f"{MANAGER}: that is no owner, whatever its type.",
            request=asked(owner=Principal("a:b", "")),
            beside={"grants": ()},
            records=(ALICES,),
            answer=told(ALICES),
        ),
        lives("for as long as may be", -1, longest_ms=1000, expiry_ms=300),
        lives("for no time", 0, longest_ms=1000, expiry_ms=300),
        lives("for less than one renewal gives", 150, longest_ms=150, expiry_ms=150),
        lives("for less than the longest", 700, longest_ms=700, expiry_ms=300),
        lives("for more than the longest", 5000, longest_ms=1000, expiry_ms=300),
        Row(
            case="for ever",
            rule="DelegationTokenControlManager.sum: a time too late to be told is the last that there is.",
            request=asked(),
            beside={"ages": (FOREVER_MS, FOREVER_MS)},
            records=(FOREVER,),
            answer=told(FOREVER),
        ),
        Row(
            case="another's, without a grant",
            rule=MAY_OWN,
            request=asked(owner=CAROL),
            beside={"grants": ("CREATE_TOKENS USER User:bob", "DESCRIBE_TOKENS USER User:carol")},
            answer=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ),
        Row(
            case="without a secret key",
            rule=f"{MANAGER}, DelegationTokenControlManager.isEnabled",
            request=asked(),
            beside={"on": False},
            answer=DISABLED,
        ),
        Row(
            case="below the first level",
            rule="MetadataVersion.isDelegationTokenSupported: from 3.6-IV2.",
            given=before_tokens,
            request=asked(),
            answer=TOO_OLD,
        ),
        Row(
            case="a renewer who is no user, after one who is",
            rule=f"{MANAGER}: renewers are users.",
            request=asked(BOB, GROUP),
            answer=BAD_TYPE,
        ),
        Row(
            case="nobody asks",
            rule="ControllerApis.allowTokenRequests: it takes who has authenticated himself (README).",
            request=asked(),
            beside={"by": ANONYMOUS},
            answer=NOT_ALLOWED,
        ),
        Row(case="an owner without a type", rule=OWNERS_TYPE, request=asked(owner=Principal("", "x")), answer=BAD_TYPE),
        Row(
            case="an owner of a type with a colon",
            rule=OWNERS_TYPE,
            request=asked(owner=Principal("a:b", "x")),
            answer=BAD_TYPE,
        ),
        Row(
            case="an owner whose type is null",
            rule=OWNERS_TYPE,
            request=CreateDelegationTokenRequest(None, "x", (), -1),
            answer=BAD_TYPE,
        ),
        Row(
            case="nobody asks, for another, without a key, below the level",
            rule=KNOWN,
            given=before_tokens,
            request=asked(GROUP, owner=CAROL),
            beside={"by": ANONYMOUS, "on": False, "grants": ()},
            answer=NOT_ALLOWED,
        ),
        Row(
            case="for another without a grant, without a key, below the level",
            rule="ControllerApis.handleCreateDelegationTokenRequest: who may, before whether it can be.",
            given=before_tokens,
            request=asked(GROUP, owner=CAROL),
            beside={"on": False, "grants": ()},
            answer=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ),
        Row(
            case="without a key, below the level",
            rule=f"{MANAGER}: the key before the level.",
            given=before_tokens,
            request=asked(GROUP),
            beside={"on": False},
            answer=DISABLED,
        ),
        Row(
            case="a renewer who is no user, below the level",
            rule=f"{MANAGER}: the level before the renewers.",
            given=before_tokens,
            request=asked(GROUP),
            answer=TOO_OLD,
        ),
    ),
)
