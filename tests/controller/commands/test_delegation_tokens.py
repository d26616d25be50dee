"""Delegation tokens: made, renewed, expired, described and swept; who may, how long they live, who sees them."""

from __future__ import annotations

from itertools import count
from typing import Any, TypeVar

import pytest

from kraft import Uuid
from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kraft.api.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from quorate.controller.commands.create_delegation_token import create_delegation_token, with_hmac
from quorate.controller.commands.describe_delegation_token import describe_delegation_token
from quorate.controller.commands.expire_delegation_token import expire_delegation_token
from quorate.controller.commands.renew_delegation_token import renew_delegation_token
from quorate.controller.decision import Command
from quorate.controller.delegation_tokens import Allows, TokenSettings, allows_all, token_hmac
from quorate.controller.periodic import CHORES
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import Operation, ResourceType
from quorate.metadata.state import ClusterState
from quorate.nouns import ANONYMOUS, Principal, uuid_text
from quorate.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from tests.controller.clusters import Cluster, uuid

T = TypeVar("T")
ALICE, BOB, CAROL, EVE = (Principal("User", name) for name in ("alice", "bob", "carol", "eve"))
OFF = TokenSettings()
ON = TokenSettings(secret_key="the secret key of a test", max_lifetime_ms=1000, expiry_time_ms=300)
SWEEP = next(chore for chore in CHORES if chore.name == "expire tokens")
Renewer = CreateDelegationTokenRequest.CreatableRenewers
Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner


class Tokens:
    """A cluster with delegation tokens; `now_ms` is what its controller's clock says."""

    def __init__(self, level: int = 33, settings: TokenSettings = ON, allows: Allows = allows_all) -> None:
        self.cluster = Cluster(level)
        self.settings = settings
        self.allows = allows
        self.now_ms = 1_000_000
        self._ids = count(1)

    def new_id(self) -> Uuid:
        return uuid(next(self._ids))

    def create(
        self, principal: Principal, *renewers: Principal, owner: Principal | None = None, **changes: Any
    ) -> CreateDelegationTokenResponse:
        """Make a token; the response as the client gets it."""
        request = CreateDelegationTokenRequest(
            owner.type if owner else None,
            owner.name if owner else None,
            tuple(Renewer(each.type, each.name) for each in renewers),
            **changes,
        )
        command = create_delegation_token(
            request, principal=principal, new_token_id=self.new_id, settings=self.settings, allows=self.allows
        )
        return with_hmac(self._write(command), self.settings)

    def renew(self, principal: Principal, hmac: bytes, period_ms: int = -1) -> RenewDelegationTokenResponse:
        request = RenewDelegationTokenRequest(hmac, period_ms)
        return self._write(renew_delegation_token(request, principal=principal, settings=self.settings))

    def expire(self, principal: Principal, hmac: bytes, period_ms: int = -1) -> ExpireDelegationTokenResponse:
        request = ExpireDelegationTokenRequest(hmac, period_ms)
        return self._write(expire_delegation_token(request, principal=principal, settings=self.settings))

    def describe(
        self, principal: Principal, *owners: Principal, nobody: bool = False
    ) -> DescribeDelegationTokenResponse:
        asked = tuple(Owner(each.type, each.name) for each in owners) if owners or nobody else None
        request = DescribeDelegationTokenRequest(asked)
        return self._write(
            describe_delegation_token(request, principal=principal, settings=self.settings, allows=self.allows)
        )

    def seen_by(self, principal: Principal, *owners: Principal, nobody: bool = False) -> list[str]:
        return [token.token_id for token in self.describe(principal, *owners, nobody=nobody).tokens]

    def sweep(self) -> int:
        return self._write(SWEEP.command(Settings(delegation_tokens=self.settings)))

    def _write(self, command: Command[T]) -> T:
        decision = self.cluster.decide(command, self.now_ms)
        self.cluster.apply(decision.records)
        return decision.response


def none(_state: ClusterState, _operation: Operation, _type: ResourceType, _name: str) -> bool:
    """An authorizer that allows nothing."""
    return False


def granted(*grants: tuple[Operation, ResourceType, str]) -> Allows:
    return lambda _state, operation, resource, name: (operation, resource, name) in grants


def test_a_token_is_its_requesters_unless_an_owner_is_named() -> None:
    """KIP-373."""
    tokens = Tokens()
    own, others = tokens.create(ALICE, BOB), tokens.create(ALICE, owner=CAROL)

    assert list(tokens.cluster.state.delegation_tokens) == [
        DelegationTokenRecord(
            "User:alice", "User:alice", ("User:bob",), 1_000_000, 1_001_000, 1_000_300, uuid_text(uuid(1))
        ),
        DelegationTokenRecord("User:carol", "User:alice", (), 1_000_000, 1_001_000, 1_000_300, uuid_text(uuid(2))),
    ]
    assert (own.principal_name, own.token_requester_principal_name) == ("alice", "alice")
    assert (others.principal_name, others.token_requester_principal_name) == ("carol", "alice")


def test_a_command_that_runs_again_makes_the_token_with_another_id_and_never_two() -> None:
    tokens = Tokens()
    command = create_delegation_token(
        CreateDelegationTokenRequest(None, None), principal=ALICE, new_token_id=tokens.new_id, settings=ON
    )
    ids = {tokens.cluster.decide(command).response.token_id for _ in range(2)}

    assert 2 == len(ids)
    assert 0 == len(tokens.cluster.state.delegation_tokens)


@pytest.mark.parametrize(
    ("asked_ms", "max_ms", "expiry_ms"),
    [(-1, 1000, 300), (0, 1000, 300), (150, 150, 150), (700, 700, 300), (5000, 1000, 300)],
)
def test_nobody_gets_a_token_that_lives_longer_than_the_operator_says(
    asked_ms: int, max_ms: int, expiry_ms: int
) -> None:
    response = Tokens().create(ALICE, max_lifetime_ms=asked_ms)

    assert (max_ms, expiry_ms) == (response.max_timestamp_ms - 1_000_000, response.expiry_timestamp_ms - 1_000_000)


def test_a_lifetime_beyond_all_times_ends_with_them() -> None:
    forever = TokenSettings(secret_key="k", max_lifetime_ms=2**63 - 1, expiry_time_ms=2**63 - 1)
    response = Tokens(settings=forever).create(ALICE)

    assert (2**63 - 1, 2**63 - 1) == (response.max_timestamp_ms, response.expiry_timestamp_ms)


def refusal(tokens: Tokens, ask: str, principal: Principal, **asked: Any) -> ErrorCode:
    """How one of the four requests is refused."""
    try:
        match ask:
            case "create":
                tokens.create(principal, **asked)
            case "describe":
                tokens.describe(principal)
            case _:
                getattr(tokens, ask)(principal, asked.get("hmac", b"no such"))
    except ApiError as refused:
        return refused.code
    return ErrorCode.NONE


CHANGES = ("create", "renew", "expire")


@pytest.mark.parametrize("ask", [*CHANGES, "describe"])
def test_tokens_are_not_for_a_caller_whom_nobody_knows(ask: str) -> None:
    """ControllerApis.allowTokenRequests, before anything else."""
    tokens = Tokens(13, OFF, none)

    assert ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED == refusal(tokens, ask, ANONYMOUS)


@pytest.mark.parametrize("ask", [*CHANGES, "describe"])
def test_without_a_secret_key_there_are_no_tokens(ask: str) -> None:
    assert ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED == refusal(Tokens(13, OFF), ask, ALICE)


def test_there_are_none_before_the_version_that_brought_them() -> None:
    """3.6-IV2. There is nothing to describe then, which is no error."""
    none_yet, not_found = ErrorCode.UNSUPPORTED_VERSION, ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    assert [none_yet] * 3 == [refusal(Tokens(13), ask, ALICE) for ask in CHANGES]
    assert [ErrorCode.NONE, not_found, not_found] == [refusal(Tokens(14), ask, ALICE) for ask in CHANGES]
    assert ErrorCode.NONE == refusal(Tokens(13), "describe", ALICE)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"owner": CAROL}, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        ({"owner": ALICE}, ErrorCode.NONE),
        ({"owner": BOB}, ErrorCode.NONE),
    ],
    ids=["another's", "one's own", "another's by a grant"],
)
def test_a_token_for_another_takes_create_tokens_on_that_user(asked: dict[str, Any], code: ErrorCode) -> None:
    tokens = Tokens(allows=granted((Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")))

    assert code == refusal(tokens, "create", ALICE, **asked)


def test_it_is_told_that_one_may_not_before_that_there_are_none() -> None:
    tokens = Tokens(13, OFF, none)

    assert ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED == refusal(tokens, "create", ALICE, owner=CAROL)


@pytest.mark.parametrize("owner", [Principal("", "x"), Principal("a:b", "x")])
def test_an_owners_type_is_a_word(owner: Principal) -> None:
    """What a record could not give back."""
    assert ErrorCode.INVALID_PRINCIPAL_TYPE == refusal(Tokens(), "create", ALICE, owner=owner)


def test_only_users_renew() -> None:
    tokens = Tokens()
    with pytest.raises(ApiError, match="renewer 'g' is of the type 'Group'") as refused:
        tokens.create(ALICE, BOB, Principal("Group", "g"))

    assert ErrorCode.INVALID_PRINCIPAL_TYPE == refused.value.code
    assert 0 == len(tokens.cluster.state.delegation_tokens)


@pytest.mark.parametrize(
    ("principal", "code"),
    [
        (ALICE, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (CAROL, ErrorCode.NONE),
        (BOB, ErrorCode.NONE),
        (EVE, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (Principal("Group", "carol"), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
    ],
    ids=["requester", "owner", "renewer", "another", "another type"],
)
@pytest.mark.parametrize("ask", ["renew", "expire"])
def test_owner_and_renewers_may_change_a_token(ask: str, principal: Principal, code: ErrorCode) -> None:
    """Who only asked for it may not (KIP-373)."""
    tokens = Tokens()
    made = tokens.create(ALICE, BOB, owner=CAROL)

    assert code == refusal(tokens, ask, principal, hmac=made.hmac)


def test_renewals_end_where_the_token_does() -> None:
    tokens = Tokens()
    made = tokens.create(ALICE)
    expiries = []
    for at, period_ms in ((1_000_200, -1), (1_000_300, 100), (1_000_350, 5000), (1_000_600, 0), (1_000_900, 200)):
        tokens.now_ms = at
        expiries.append(tokens.renew(ALICE, made.hmac, period_ms).expiry_timestamp_ms)

    assert [1_000_500, 1_000_400, 1_000_650, 1_000_900, 1_001_000] == expiries
    (token,) = tokens.cluster.state.delegation_tokens
    assert (1_001_000, 1_001_000) == (token.expiration_timestamp, token.max_timestamp)


@pytest.mark.parametrize("now_ms", [1_000_300, 1_000_301], ids=["at its time", "after it"])
def test_what_has_expired_is_not_renewed(now_ms: int) -> None:
    tokens = Tokens()
    made = tokens.create(ALICE)
    tokens.now_ms = now_ms
    late = now_ms > made.expiry_timestamp_ms
    expired = ErrorCode.DELEGATION_TOKEN_EXPIRED if late else ErrorCode.NONE
    # Renewing looks at the time first, expiring at who asks.
    strangers = ErrorCode.DELEGATION_TOKEN_EXPIRED if late else ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

    assert strangers == refusal(tokens, "renew", EVE, hmac=made.hmac)
    assert ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH == refusal(tokens, "expire", EVE, hmac=made.hmac)
    assert expired == refusal(tokens, "renew", ALICE, hmac=made.hmac)


def test_a_negative_period_ends_a_token_at_once_expired_or_not() -> None:
    tokens = Tokens()
    hmacs = [tokens.create(ALICE).hmac for _ in range(2)]
    told = []
    for at, hmac in zip((1_000_100, 1_000_900), hmacs, strict=True):
        tokens.now_ms = at
        told.append(tokens.expire(ALICE, hmac).expiry_timestamp_ms)

    assert [1_000_100, 1_000_900] == told
    assert 0 == len(tokens.cluster.state.delegation_tokens)
    assert ErrorCode.DELEGATION_TOKEN_NOT_FOUND == refusal(tokens, "expire", ALICE, hmac=hmacs[0])


def test_an_expiry_may_be_put_off_or_brought_near_within_the_tokens_life() -> None:
    tokens = Tokens()
    made = tokens.create(ALICE)

    assert [1_000_900, 1_001_000, 1_000_000] == [
        tokens.expire(ALICE, made.hmac, period_ms).expiry_timestamp_ms for period_ms in (900, 5000, 0)
    ]


# Who sees what


def three_tokens(allows: Allows = none) -> tuple[Tokens, list[str]]:
    """Alice's own, that Bob renews; Carol's, that Alice asked for; Carol's own."""
    tokens = Tokens()
    made = [tokens.create(ALICE, BOB), tokens.create(ALICE, owner=CAROL), tokens.create(CAROL)]
    tokens.allows = allows
    return tokens, [each.token_id for each in made]


@pytest.mark.parametrize(("principal", "seen"), [(ALICE, [0, 1]), (BOB, [0]), (CAROL, [1, 2]), (EVE, [])], ids=str)
def test_owner_requester_and_renewers_see_a_token(principal: Principal, seen: list[int]) -> None:
    tokens, ids = three_tokens()

    assert [ids[index] for index in seen] == tokens.seen_by(principal)


def test_others_see_it_by_a_grant_for_the_token_or_for_its_owner() -> None:
    """DESCRIBE on the token (KIP-48), DESCRIBE_TOKENS on the user (KIP-373); without an authorizer everybody."""
    _, ids = three_tokens()
    token = granted((Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, ids[0]))
    owner = granted((Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:carol"))

    assert [[ids[0]], ids[1:], ids] == [three_tokens(allows)[0].seen_by(EVE) for allows in (token, owner, allows_all)]


def test_owners_narrow_what_is_seen_and_never_widen_it() -> None:
    tokens, ids = three_tokens()

    assert [ids[1]] == tokens.seen_by(ALICE, CAROL, EVE)
    assert [] == tokens.seen_by(ALICE, nobody=True)


def test_a_description_is_the_whole_token() -> None:
    tokens = Tokens()
    made = tokens.create(ALICE, BOB, owner=CAROL)
    token = DescribeDelegationTokenResponse.DescribedDelegationToken

    assert tokens.describe(CAROL).tokens == (
        token(
            principal_type="User",
            principal_name="carol",
            token_requester_principal_type="User",
            token_requester_principal_name="alice",
            issue_timestamp=1_000_000,
            expiry_timestamp=1_000_300,
            max_timestamp=1_001_000,
            token_id=made.token_id,
            hmac=made.hmac,
            renewers=(token.DescribedDelegationTokenRenewer("User", "bob"),),
        ),
    )


# The sweep


def test_the_sweep_takes_what_is_past_its_time_and_nothing_else() -> None:
    tokens = Tokens()
    ids = [tokens.create(ALICE, max_lifetime_ms=ms).token_id for ms in (100, 200, 1000)]
    assert SWEEP.is_due(tokens.cluster.state)
    tokens.now_ms = 1_000_200
    decision = tokens.cluster.decide(SWEEP.command(Settings()), tokens.now_ms)

    assert decision.records == (RemoveDelegationTokenRecord(ids[0]),)
    assert [1, 0] == [tokens.sweep(), tokens.sweep()]
    assert ids[1:] == [token.token_id for token in tokens.cluster.state.delegation_tokens]


def test_the_sweep_goes_a_bite_at_a_time_once_an_hour() -> None:
    tokens = Tokens()
    tokens.cluster.apply(
        DelegationTokenRecord("User:alice", "User:alice", (), 0, 1, 1, f"{number:04}") for number in range(1_200)
    )

    assert ("delegation.token.expiry.check.interval.ms", 3_600_000) == (SWEEP.setting, SWEEP.interval_ms)
    assert [1_000, 200, 0] == [tokens.sweep() for _ in range(3)]
    assert not SWEEP.is_due(tokens.cluster.state)


# What is secret


def test_the_hmac_is_in_no_decision_but_a_description() -> None:
    """So it cannot come into the log, not even with a request's answer that is kept there for a safe retry."""
    tokens = Tokens()
    made = tokens.create(ALICE)
    asked = CreateDelegationTokenRequest(None, None)
    create = create_delegation_token(asked, principal=ALICE, new_token_id=tokens.new_id, settings=ON)
    renew = renew_delegation_token(RenewDelegationTokenRequest(made.hmac, -1), principal=ALICE, settings=ON)

    assert b"" == tokens.cluster.decide(create).response.hmac
    assert made.hmac == token_hmac(ON, made.token_id)
    for decision in (tokens.cluster.decide(create), tokens.cluster.decide(renew, 1_000_001)):
        shown = repr(decision)
        assert "secret key" not in shown
        assert repr(made.hmac)[2:20] not in shown


def test_settings_do_not_show_the_key() -> None:
    assert "secret key" not in repr(ON) + repr(Settings(delegation_tokens=ON))
