"""RenewDelegationToken (39)."""

from __future__ import annotations

from typing import Any

from kraft.api.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from quorate.controller.commands.renew_delegation_token import renew_delegation_token
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.nouns import ANONYMOUS, Principal
from quorate.records import DelegationTokenRecord
from tests.controller.clusters import Cluster
from tests.controller.some_tokens import (
    ALICE,
    BOB,
    CAROL,
    EVE,
    OFF,
    ON,
    asked_at,
    before_tokens,
    first_level,
    hmac_of,
    one_renewed,
    token,
    two_tokens,
)
from tests.controller.tables.table import Row, Table


def first(expires_ms: int) -> DelegationTokenRecord:
    """Token 1, whole, with another expiry."""
    return token(1, CAROL, BOB, requester=str(ALICE), expiration_timestamp=expires_ms)


def asked(period_ms: int = -1, hmac: bytes = hmac_of(1)) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac, period_ms)


def told(expires_ms: int) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


def renewed(case: str, rule: str, now_ms: int, period_ms: int, *, expires_ms: int) -> Row:
    """By its owner, while it is good."""
    return Row(
        case=case,
        rule=rule,
        request=asked(period_ms),
        beside={"now_ms": now_ms},
        records=(first(expires_ms),),
        answer=told(expires_ms),
    )


def command(
    _: Cluster, request: RenewDelegationTokenRequest, by: Principal = CAROL, now_ms: int = 5200, on: bool = True
) -> Command[Any]:
    return asked_at(now_ms, renew_delegation_token(request, principal=by, settings=ON if on else OFF))


MANAGER = "DelegationTokenControlManager.renewDelegationToken"
PERIOD = f"{MANAGER}: from now, at most delegation.token.expiry.time.ms, which is also meant by 0 and less (KIP-48)."
WHO = "DelegationTokenControlManager.allowedToRenew: the owner and the renewers"
EXPIRED = f"{MANAGER}: what is past its time is not renewed."
NOT_ALLOWED, DISABLED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
NOT_FOUND, MISMATCH = ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

TABLE = Table(
    api="RenewDelegationToken",
    kafka=f"ControllerApis.handleRenewDelegationTokenRequest, {MANAGER} (KIP-48)",
    command=command,
    given=two_tokens,
    rows=(
        renewed("for as long as may be", PERIOD, 5200, -1, expires_ms=5500),
        renewed("for no time", PERIOD, 5200, 0, expires_ms=5500),
        renewed("for less", PERIOD, 5250, 100, expires_ms=5350),
        renewed("for less than is left", f"{PERIOD[:-1]}; sooner, too.", 5100, 100, expires_ms=5200),
        renewed("for longer than one renewal may give", PERIOD, 5200, 5000, expires_ms=5500),
        renewed("in its last millisecond", f"{MANAGER}: then it is still good.", 5300, -1, expires_ms=5600),
        renewed("to where it ends already", f"{MANAGER}: written, even if nothing changes.", 5000, -1, expires_ms=5300),
        Row(
            case="past its end",
            rule=f"{MANAGER}: never past its maxTimestamp (KIP-48).",
            given=one_renewed,
            request=asked(),
            beside={"now_ms": 5900},
            records=(first(6000),),
            answer=told(6000),
        ),
        Row(
            case="by a renewer",
            rule=f"{WHO}.",
            request=asked(),
            beside={"by": BOB},
            records=(first(5500),),
            answer=told(5500),
        ),
        Row(
            case="another token",
            rule="DelegationTokenControlManager.getToken: the one whose HMAC is given.",
            request=asked(hmac=hmac_of(2)),
            beside={"by": EVE},
            records=(token(2, EVE, expiration_timestamp=5500),),
            answer=told(5500),
        ),
        Row(
            case="by who asked for it",
            rule=f"{WHO}, and not who only asked for it (KIP-373).",
            request=asked(),
            beside={"by": ALICE},
            answer=MISMATCH,
        ),
        Row(case="by another", rule=f"{WHO}.", request=asked(), beside={"by": EVE}, answer=MISMATCH),
        Row(
            case="by another type of that name",
            rule=f"{WHO}; KafkaPrincipal.equals: type and name.",
            request=asked(),
            beside={"by": Principal("Group", "carol")},
            answer=MISMATCH,
        ),
        Row(
            case="after its time",
            rule=EXPIRED,
            request=asked(),
            beside={"now_ms": 5301},
            answer=ErrorCode.DELEGATION_TOKEN_EXPIRED,
        ),
        Row(
            case="no such token",
            rule="DelegationTokenControlManager.getToken",
            request=asked(hmac=hmac_of(3)),
            answer=NOT_FOUND,
        ),
        Row(
            case="no HMAC",
            rule="DelegationTokenControlManager.getToken",
            request=asked(hmac=b""),
            answer=NOT_FOUND,
        ),
        Row(
            case="no tokens are there, at the first level",
            rule="MetadataVersion.isDelegationTokenSupported, DelegationTokenControlManager.getToken",
            given=first_level,
            request=asked(),
            answer=NOT_FOUND,
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
            rule="MetadataVersion.isDelegationTokenSupported: from 3.6-IV2; before it is looked for.",
            given=before_tokens,
            request=asked(),
            answer=ErrorCode.UNSUPPORTED_VERSION,
        ),
        Row(
            case="nobody asks, without a key, below the level",
            rule="ControllerApis.allowTokenRequests: before all else.",
            given=before_tokens,
            request=asked(),
            beside={"by": ANONYMOUS, "on": False},
            answer=NOT_ALLOWED,
        ),
        Row(
            case="nobody asks",
            rule="ControllerApis.allowTokenRequests: it takes who has authenticated himself (README).",
            request=asked(),
            beside={"by": ANONYMOUS},
            answer=NOT_ALLOWED,
        ),
        Row(
            case="without a key, below the level",
            rule=f"{MANAGER}: the key before the level.",
            given=before_tokens,
            request=asked(),
            beside={"on": False},
            answer=DISABLED,
        ),
        Row(
            case="by another, after its time",
            rule=f"{MANAGER}: the time before who asks.",
            request=asked(),
            beside={"by": EVE, "now_ms": 5301},
            answer=ErrorCode.DELEGATION_TOKEN_EXPIRED,
        ),
    ),
)
