"""Delegation tokens as time passes, the sweep of those that have expired, and what is secret of them.

Who may, how long they live, who sees them: `tables/*_delegation_token.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TypeVar

import pytest

from kraft import Uuid
from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kraft.api.describe_delegation_token import DescribeDelegationTokenRequest
from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest
from quorate.controller.access.delegation_tokens import token_hmac
from quorate.controller.commands.create_delegation_token import create_delegation_token, with_hmac
from quorate.controller.commands.describe_delegation_token import describe_delegation_token
from quorate.controller.commands.expire_delegation_token import expire_delegation_token
from quorate.controller.commands.renew_delegation_token import renew_delegation_token
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Moment, steps_of
from quorate.controller.periodic import CHORES, LOOKED_AT_PER_STEP
from quorate.controller.refused_items import CHECKS_PER_STEP
from quorate.errors import ApiError, ErrorCode
from quorate.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from tests.controller.clusters import Cluster, uuid
from tests.controller.some_tokens import ALICE, ON
from tests.controller.tables.create_delegation_token import TABLE
from tests.controller.words import words

T = TypeVar("T")
SWEEP = next(chore for chore in CHORES if chore.name == "expire tokens")


class Tokens:
    """A cluster with tokens of Alice's; `now_ms` is what its controller's clock says."""

    def __init__(self) -> None:
        self.cluster = Cluster(33)
        self.now_ms = 1_000_000
        self._ids = count(1)

    def new_id(self) -> Uuid:
        return uuid(next(self._ids))

    def create(self, max_lifetime_ms: int = -1) -> CreateDelegationTokenResponse:
        """Make a token; the response as the client gets it."""
        request = CreateDelegationTokenRequest(None, None, (), max_lifetime_ms)
        command = create_delegation_token(request, principal=ALICE, new_token_id=self.new_id, settings=ON)
        return with_hmac(self._write(command), ON)

    def renew(self, hmac: bytes, period_ms: int) -> int:
        request = RenewDelegationTokenRequest(hmac, period_ms)
        return self._write(renew_delegation_token(request, principal=ALICE, settings=ON)).expiry_timestamp_ms

    def expire(self, hmac: bytes, period_ms: int) -> int:
        request = ExpireDelegationTokenRequest(hmac, period_ms)
        return self._write(expire_delegation_token(request, principal=ALICE, settings=ON)).expiry_timestamp_ms

    def sweep(self) -> int:
        return self._write(SWEEP.command(ControllerSettings(delegation_tokens=ON)))

    def _write(self, command: Command[T]) -> T:
        decision = self.cluster.decide(command, self.now_ms)
        self.cluster.apply(decision.records)
        return decision.response


def test_a_command_that_runs_again_makes_the_token_with_another_id_and_never_two() -> None:
    tokens = Tokens()
    command = create_delegation_token(
        CreateDelegationTokenRequest(None, None), principal=ALICE, new_token_id=tokens.new_id, settings=ON
    )
    ids = {tokens.cluster.decide(command).response.token_id for _ in range(2)}

    assert 2 == len(ids)
    assert 0 == len(tokens.cluster.state.delegation_tokens)


def test_says_who_cannot_renew() -> None:
    assert "renewer 'g' is of the type 'Group'" in words(TABLE, "a renewer who is no user, after one who is")


def test_renewals_end_where_the_token_does() -> None:
    tokens = Tokens()
    made = tokens.create()
    expiries = []
    for at, period_ms in ((1_000_200, -1), (1_000_300, 100), (1_000_350, 5000), (1_000_600, 0), (1_000_900, 200)):
        tokens.now_ms = at
        expiries.append(tokens.renew(made.hmac, period_ms))

    assert [1_000_500, 1_000_400, 1_000_650, 1_000_900, 1_001_000] == expiries
    (token,) = tokens.cluster.state.delegation_tokens
    assert (1_001_000, 1_001_000) == (token.expiration_timestamp, token.max_timestamp)


def test_an_expiry_is_put_off_brought_near_and_comes_at_once() -> None:
    tokens = Tokens()
    hmac = tokens.create().hmac

    assert [1_000_900, 1_001_000, 1_000_000] == [tokens.expire(hmac, period_ms) for period_ms in (900, 5000, 0)]
    tokens.now_ms = 1_000_001
    assert 1_000_001 == tokens.expire(hmac, -1)
    assert 0 == len(tokens.cluster.state.delegation_tokens)
    with pytest.raises(ApiError) as refused:
        tokens.expire(hmac, -1)
    assert ErrorCode.DELEGATION_TOKEN_NOT_FOUND == refused.value.code


# The sweep


def test_the_sweep_takes_what_is_past_its_time_and_nothing_else() -> None:
    tokens = Tokens()
    ids = [tokens.create(ms).token_id for ms in (100, 200, 1000)]
    assert SWEEP.is_due(tokens.cluster.state)
    tokens.now_ms = 1_000_200
    decision = tokens.cluster.decide(SWEEP.command(ControllerSettings()), tokens.now_ms)

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


# Many of them


class Owners(tuple[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner, ...]):
    """The owners of a request, and how often they are gone through."""

    times = 0

    def __iter__(self) -> Iterator[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner]:
        self.times += 1
        return super().__iter__()


def test_many_tokens_are_described_in_steps_and_the_owners_are_gone_through_once() -> None:
    tokens = Tokens()
    tokens.cluster.apply(
        DelegationTokenRecord("User:alice", "User:alice", (), 0, 1, 1, f"{number:04}")
        for number in range(2 * CHECKS_PER_STEP)
    )
    owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    owners = Owners((owner("User", "bob"), owner("User", "alice")))
    describe = describe_delegation_token(DescribeDelegationTokenRequest(owners), principal=ALICE, settings=ON)
    at_once = tokens.cluster.decide(describe).response.tokens

    assert 1 == owners.times
    assert 2 * CHECKS_PER_STEP == len(at_once)

    moment = Moment(next_offset=tokens.cluster.next_offset, now_ms=tokens.now_ms)

    assert [None, None] == list(steps_of(describe, tokens.cluster.state, moment))


def test_a_token_is_found_by_its_hmac_without_a_look_at_the_others() -> None:
    """Every authenticated caller may make tokens: 100,000 would hold up everybody's writes for half a second."""
    tokens, computed = Tokens().cluster.state.delegation_tokens, []

    def hmac_of(token_id: str) -> bytes:
        computed.append(token_id)
        return token_id.encode()

    tokens.index_by("key", hmac_of)
    for number in range(3):
        tokens.set(DelegationTokenRecord(token_id=str(number)), number)
    for _ in range(2):
        tokens.index_by("key", hmac_of)
        assert DelegationTokenRecord(token_id="1") == tokens.by_hmac(b"1")
        assert tokens.by_hmac(b"3") is None
    tokens.set(DelegationTokenRecord(token_id="1", expiration_timestamp=7), 3)

    assert ["0", "1", "2"] == computed


def test_what_is_found_by_an_hmac_is_reverted_with_the_tokens() -> None:
    tokens = Tokens()
    kept, registry = tokens.create().hmac, tokens.cluster.state.registry
    for at in (100, 101):
        tokens.expire(kept, 100)
        registry.create(at)
        lost = tokens.create().hmac
        tokens.expire(kept, -1)
        with pytest.raises(ApiError):
            tokens.renew(kept, 0)
        tokens.renew(lost, 0)
        registry.revert_to(at)

        assert 1_000_300 == tokens.renew(kept, 0)
        with pytest.raises(ApiError) as refused:
            tokens.renew(lost, 0)
        assert ErrorCode.DELEGATION_TOKEN_NOT_FOUND == refused.value.code


def test_many_tokens_are_swept_in_steps() -> None:
    tokens = Tokens()
    tokens.cluster.apply(
        DelegationTokenRecord("User:alice", "User:alice", (), 0, 2_000_000, 2_000_000, str(number))
        for number in range(2 * LOOKED_AT_PER_STEP)
    )
    moment = Moment(next_offset=tokens.cluster.next_offset, now_ms=tokens.now_ms)
    sweep = SWEEP.command(ControllerSettings(delegation_tokens=ON))

    assert [None, None] == list(steps_of(sweep, tokens.cluster.state, moment))


# What is secret


def test_the_hmac_is_in_no_decision_but_a_description() -> None:
    """So it cannot come into the log, not even with a request's answer that is kept there for a safe retry."""
    tokens = Tokens()
    made = tokens.create()
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
    assert "secret key" not in repr(ON) + repr(ControllerSettings(delegation_tokens=ON))
