"""DescribeDelegationToken (41)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kraft.api.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from quorate.controller.commands.describe_delegation_token import describe_delegation_token
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.nouns import ANONYMOUS, Principal
from tests.controller.clusters import Cluster
from tests.controller.some_tokens import (
    ALICE,
    ASKED_MS,
    BOB,
    CAROL,
    EVE,
    OFF,
    ON,
    asked_at,
    before_tokens,
    hmac_of,
    id_of,
    may,
    no_tokens,
    token,
)
from tests.controller.tables.table import Row, Table

Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
Told = DescribeDelegationTokenResponse.DescribedDelegationToken
ODD = Principal("User", "CN=a:b")


def four_tokens() -> Cluster:
    """1 is Alice's, Bob may renew it; 2 is Carol's, Alice asked for it; 3 is Carol's; 4 is CN=a:b's. Expire at 5300."""
    cluster = no_tokens()
    of_others = (token(4, ODD), token(3, CAROL), token(2, CAROL, requester=str(ALICE)))
    cluster.apply([*of_others, token(1, ALICE, BOB)])
    return cluster


def asked(*owners: Principal) -> DescribeDelegationTokenRequest:
    return DescribeDelegationTokenRequest(tuple(Owner(each.type, each.name) for each in owners))


def shown(number: int, owner: Principal, *renewers: Principal, requester: Principal | None = None) -> Told:
    """All of a token."""
    requester = requester or owner
    return Told(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=ASKED_MS,
        expiry_timestamp=ASKED_MS + 300,
        max_timestamp=ASKED_MS + 1000,
        token_id=id_of(number),
        hmac=hmac_of(number),
        renewers=tuple(Told.DescribedDelegationTokenRenewer(each.type, each.name) for each in renewers),
    )


SHOWN = {1: shown(1, ALICE, BOB), 2: shown(2, CAROL, requester=ALICE), 3: shown(3, CAROL), 4: shown(4, ODD)}


def told(*numbers: int) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(tokens=tuple(SHOWN[number] for number in numbers))


def sees(case: str, rule: str, by: Principal, *numbers: int, grants: Collection[str] | None = ()) -> Row:
    """Who asks for all gets these."""
    beside = {"by": by, "grants": grants}
    return Row(case=case, rule=rule, request=EVERYBODYS, beside=beside, answer=told(*numbers))


def command(
    _: Cluster,
    request: DescribeDelegationTokenRequest,
    by: Principal = ALICE,
    now_ms: int = ASKED_MS,
    on: bool = True,
    grants: Collection[str] | None = (),
) -> Command[Any]:
    settings = ON if on else OFF
    return asked_at(now_ms, describe_delegation_token(request, principal=by, settings=settings, allows=may(grants)))


EVERYBODYS = DescribeDelegationTokenRequest(None)
HANDLER, FILTER = "KafkaApis.handleDescribeTokensRequest", "DelegationTokenManager.filterToken"
CONCERNED = "TokenInformation.ownerOrRenewer: the owner, who asked for it (KIP-373), the renewers."
ALL_OF_IT = f"{HANDLER}: the whole token, with its HMAC (KIP-48)."
OF_THE_USER = f"{FILTER}: DESCRIBE_TOKENS on its owner (KIP-373)."
OF_THE_TOKEN = f"{FILTER}: DESCRIBE on the token (KIP-48)."
NARROWER = f"{FILTER}: owners that are named leave out the tokens of others, and let nobody see more."
NOT_ALLOWED, DISABLED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

TABLE = Table(
    api="DescribeDelegationToken",
    kafka=f"{HANDLER}, {FILTER} (KIP-48, KIP-373)",
    command=command,
    given=four_tokens,
    rows=(
        sees("without an authorizer", ALL_OF_IT, EVE, 1, 2, 3, 4, grants=None),
        sees("an owner, who asked for another's", CONCERNED, ALICE, 1, 2),
        sees("a renewer", CONCERNED, BOB, 1),
        sees("an owner, of what somebody else asked for, too", CONCERNED, CAROL, 2, 3),
        sees("an owner with a colon in the name", CONCERNED, ODD, 4),
        sees("another", CONCERNED, EVE),
        sees("another type of that name", "KafkaPrincipal.equals: type and name.", Principal("Group", "alice")),
        sees("by a grant for a token", OF_THE_TOKEN, EVE, 3, grants=(f"DESCRIBE DELEGATION_TOKEN {id_of(3)}",)),
        sees("by a grant for an owner", OF_THE_USER, EVE, 2, 3, grants=("DESCRIBE_TOKENS USER User:carol",)),
        sees("by a grant for who asked", OF_THE_USER, EVE, 1, grants=("DESCRIBE_TOKENS USER User:alice",)),
        sees("by another grant for an owner", OF_THE_USER, EVE, grants=("DESCRIBE USER User:carol",)),
        Row(
            case="of named owners",
            rule=NARROWER,
            request=asked(EVE, CAROL),
            answer=told(2),
        ),
        Row(
            case="of somebody who asked for one, too",
            rule=f"{FILTER}, {CONCERNED}",
            request=asked(ALICE),
            beside={"grants": None},
            answer=told(1, 2),
        ),
        Row(
            case="of a renewer",
            rule=f"{FILTER}, {CONCERNED}",
            request=asked(BOB),
            beside={"grants": None},
            answer=told(1),
        ),
        Row(
            case="of named owners, without an authorizer",
            rule=NARROWER,
            request=asked(CAROL, CAROL),
            beside={"grants": None},
            answer=told(2, 3),
        ),
        Row(
            case="of an owner with a colon in the name",
            rule=NARROWER,
            request=asked(ODD),
            beside={"grants": None},
            answer=told(4),
        ),
        Row(
            case="of nobody",
            rule="DescribeDelegationTokenRequest.ownersListEmpty: an empty list is nobody, null everybody.",
            request=asked(),
            beside={"grants": None},
            answer=told(),
        ),
        Row(
            case="after their time",
            rule=f"{HANDLER}: until they are removed, DelegationTokenControlManager.sweepExpiredDelegationTokens.",
            request=EVERYBODYS,
            beside={"now_ms": 9000},
            answer=told(1, 2),
        ),
        Row(
            case="no tokens are there",
            rule=f"{HANDLER}: that is no error.",
            given=no_tokens,
            request=EVERYBODYS,
            answer=told(),
        ),
        Row(
            case="below the first level",
            rule=f"{HANDLER}: nor is that; it does not ask for the level.",
            given=before_tokens,
            request=EVERYBODYS,
            answer=told(),
        ),
        Row(
            case="without a secret key",
            rule="DelegationTokenManager.isEnabled",
            request=EVERYBODYS,
            beside={"on": False},
            answer=DISABLED,
        ),
        Row(
            case="of nobody, without a secret key",
            rule=f"{HANDLER}: the key before the owners.",
            request=asked(),
            beside={"on": False},
            answer=DISABLED,
        ),
        Row(
            case="nobody asks",
            rule="KafkaApis.allowTokenRequests: it takes who has authenticated himself (README).",
            request=EVERYBODYS,
            beside={"by": ANONYMOUS, "grants": None},
            answer=NOT_ALLOWED,
        ),
        Row(
            case="nobody asks, without a secret key",
            rule="KafkaApis.allowTokenRequests: before all else.",
            request=EVERYBODYS,
            beside={"by": ANONYMOUS, "on": False},
            answer=NOT_ALLOWED,
        ),
    ),
)
