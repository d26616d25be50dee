"""ExpireDelegationToken (40)."""

from __future__ import annotations

from typing import Any

from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from quorate.controller.commands.expire_delegation_token import expire_delegation_token
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.nouns import ANONYMOUS, Principal
from quorate.records import DelegationTokenRecord, RemoveDelegationTokenRecord
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
    id_of,
    token,
    two_tokens,
)
from tests.controller.tables.table import Row, Table

GONE = (RemoveDelegationTokenRecord(id_of(1)),)


def first(expires_ms: int) -> DelegationTokenRecord:
    """Token 1, whole, with another expiry."""
    return token(1, CAROL, BOB, requester=str(ALICE), expiration_timestamp=expires_ms)


def asked(period_ms: int = -1, hmac: bytes = hmac_of(1)) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac, period_ms)


def told(expires_ms: int) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


def changed(case: str, rule: str, period_ms: int, *, expires_ms: int) -> Row:
    """By its owner, at 5200."""
    return Row(case=case, rule=rule, request=asked(period_ms), records=(first(expires_ms),), answer=told(expires_ms))


def command(
    _: Cluster, request: ExpireDelegationTokenRequest, by: Principal = CAROL, now_ms: int = 5200, on: bool = True
) -> Command[Any]:
    return asked_at(now_ms, expire_delegation_token(request, principal=by, settings=ON if on else OFF))


MANAGER = "DelegationTokenControlManager.expireDelegationToken"
AT_ONCE = f"{MANAGER}: a period below 0 removes it, now (KIP-48)"
PERIOD = f"{MANAGER}: from now, at most to its maxTimestamp (KIP-48)."
WHO = "DelegationTokenControlManager.allowedToRenew: the owner and the renewers"
NOT_ALLOWED, DISABLED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
NOT_FOUND, MISMATCH = ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

TABLE = Table(
    api="ExpireDelegationToken",
    kafka=f"ControllerApis.handleExpireDelegationTokenRequest, {MANAGER} (KIP-48)",
    command=command,
    given=two_tokens,
    rows=(
        Row(case="at once", rule=f"{AT_ONCE}.", request=asked(), records=GONE, answer=told(5200)),
        Row(
            case="at once, after its time",
            rule=f"{AT_ONCE}; expired or not.",
            request=asked(-7),
            beside={"now_ms": 9000},
            records=GONE,
            answer=told(9000),
        ),
        Row(
            case="at once, by a renewer",
            rule=f"{WHO}.",
            request=asked(),
            beside={"by": BOB},
            records=GONE,
            answer=told(5200),
        ),
        Row(
            case="another token",
            rule="DelegationTokenControlManager.getToken: the one whose HMAC is given.",
            request=asked(hmac=hmac_of(2)),
            beside={"by": EVE},
            records=(RemoveDelegationTokenRecord(id_of(2)),),
            answer=told(5200),
        ),
        changed("now", PERIOD, 0, expires_ms=5200),
        changed("sooner", PERIOD, 50, expires_ms=5250),
        changed("as it is", f"{MANAGER}: written, even if nothing changes.", 100, expires_ms=5300),
        changed("later than one renewal may give", PERIOD, 700, expires_ms=5900),
        changed("later than it can live", PERIOD, 5000, expires_ms=6000),
        changed("never", f"DelegationTokenControlManager.sum, {PERIOD}", 2**63 - 1, expires_ms=6000),
        Row(
            case="later, in its last millisecond",
            rule=f"{MANAGER}: then it is still good.",
            request=asked(50),
            beside={"now_ms": 5300},
            records=(first(5350),),
            answer=told(5350),
        ),
        Row(
            case="later, after its time",
            rule=f"{MANAGER}: what is past its time stays so.",
            request=asked(50),
            beside={"now_ms": 5301},
            answer=ErrorCode.DELEGATION_TOKEN_EXPIRED,
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
            case="nobody asks",
            rule="ControllerApis.allowTokenRequests: it takes who has authenticated himself (README).",
            request=asked(),
            beside={"by": ANONYMOUS},
            answer=NOT_ALLOWED,
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
            case="without a key, below the level",
            rule=f"{MANAGER}: the key before the level.",
            given=before_tokens,
            request=asked(),
            beside={"on": False},
            answer=DISABLED,
        ),
        Row(
            case="later, by another, after its time",
            rule=f"{MANAGER}: who asks before the time, where renewing has it the other way round.",
            request=asked(50),
            beside={"by": EVE, "now_ms": 5301},
            answer=MISMATCH,
        ),
    ),
)
