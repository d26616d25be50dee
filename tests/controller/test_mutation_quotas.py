"""A client's controller_mutation_rate: whose quota counts, and what is in its bucket when. KIP-599."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.controller.quotas.mutation_quotas import (
    BUCKETS_KEPT_MIN,
    MutationQuotas,
    Quota,
    QuotaWindows,
    RequestTokens,
    quota_of,
)
from quorate.metadata.client_quotas import ClientQuotas, Entity
from quorate.records import ClientQuotaRecord
from quorate.timeline import SnapshotRegistry

ANY_CLIENT, ANY_USER = ("client-id", None), ("user", None)
APP, ALICE = ("client-id", "app"), ("user", "alice")
# Every entity that the quota of alice's app may be set for, the most telling first: Kafka's ClientQuotaManager.
ORDER: list[tuple[Entity, tuple[str | None, str | None]]] = [
    ((APP, ALICE), ("alice", "app")),
    ((ANY_CLIENT, ALICE), ("alice", "app")),
    ((ALICE,), ("alice", None)),
    ((APP, ANY_USER), ("alice", "app")),
    ((ANY_CLIENT, ANY_USER), ("alice", "app")),
    ((ANY_USER,), ("alice", None)),
    ((APP,), (None, "app")),
    ((ANY_CLIENT,), (None, "app")),
]
OF_OTHERS: list[Entity] = [
    (("client-id", "other"), ALICE),
    (("client-id", "other"), ANY_USER),
    (("client-id", "other"),),
    (APP, ("user", "bob")),
    (ANY_CLIENT, ("user", "bob")),
    (("user", "bob"),),
    (("ip", "10.0.0.1"),),
]


def quotas(rates: Mapping[Entity, float], key: str = "controller_mutation_rate") -> ClientQuotas:
    made = ClientQuotas(SnapshotRegistry())
    for entity, rate in rates.items():
        parts = tuple(ClientQuotaRecord.EntityData(kind, name) for kind, name in entity)
        made.set(ClientQuotaRecord(parts, key, rate), 0)
    return made


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_telling_entity_counts(first: int) -> None:
    """The first of those that have a quota, whatever the others have; and who shares it."""
    rates = {entity: float(rate) for rate, (entity, _) in enumerate(ORDER) if rate >= first}
    rates |= dict.fromkeys(OF_OTHERS, 99.0)

    assert Quota(float(first), *ORDER[first][1]) == quota_of(quotas(rates), user="alice", client_id="app")


def test_who_has_no_quota_of_this_kind_has_none() -> None:
    of_others = quotas(dict.fromkeys(OF_OTHERS, 1.0))
    of_bytes = quotas({entity: 1.0 for entity, _ in ORDER}, "producer_byte_rate")

    assert [None, None, None] == [
        quota_of(each, user="alice", client_id="app") for each in (quotas({}), of_others, of_bytes)
    ]


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({(ANY_CLIENT,): 3.0, (ANY_CLIENT, ALICE): 4.0, (ANY_CLIENT, ANY_USER): 5.0}, None),
        ({(ANY_CLIENT, ALICE): 4.0, (ANY_USER,): 6.0}, Quota(6.0, "alice", None)),
        ({(ALICE,): 7.0, (ANY_USER,): 6.0}, Quota(7.0, "alice", None)),
    ],
)
def test_a_client_without_a_name_has_what_its_user_has(rates: dict[Entity, float], expected: Quota | None) -> None:
    """Kafka: DefaultQuotaCallback.findQuota looks for users alone where the client id is empty."""
    assert expected == quota_of(quotas(rates), user="alice", client_id="")


OF_ALICE = Quota(2.0, "alice", None)


def test_a_bucket_begins_full_and_fills_up() -> None:
    """Full is what comes in all windows: 10 of 2 s at 2 a second."""
    buckets = MutationQuotas(QuotaWindows(num=10, size_s=2))
    full = buckets.tokens(OF_ALICE, 1_000)
    buckets.leave(OF_ALICE, -6.0, 1_000)

    assert 40.0 == full
    assert [-6.0, -5.0, 0.0, 14.0, 40.0, 40.0] == [
        buckets.tokens(OF_ALICE, now_ms) for now_ms in (1_000, 1_500, 4_000, 11_000, 24_000, 10**9)
    ]


def test_buckets_are_apart() -> None:
    buckets = MutationQuotas(QuotaWindows())
    buckets.leave(OF_ALICE, -1.0, 0)
    others = [OF_ALICE._replace(user="bob"), OF_ALICE._replace(client_id="app"), Quota(2.0, None, "alice")]

    assert [22.0] * 3 == [buckets.tokens(quota, 0) for quota in others]


def test_a_quota_that_changes_leaves_the_bucket_as_it_is() -> None:
    """Its tokens from then on, and their maximum, follow the present rate; as in Kafka, since it was last used."""
    buckets = MutationQuotas(QuotaWindows())
    buckets.leave(OF_ALICE, 20.0, 0)

    assert [21.0, 11.0, 30.0] == [buckets.tokens(OF_ALICE._replace(rate=rate), 500) for rate in (2.0, 1.0, 20.0)]


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    buckets = MutationQuotas(QuotaWindows())
    buckets.leave(OF_ALICE, -4.0, 1_000_000)
    back = buckets.tokens(OF_ALICE, 5)
    buckets.leave(OF_ALICE, back, 5)

    assert [-4.0, -2.0] == [back, buckets.tokens(OF_ALICE, 1_005)]


def test_what_is_full_is_forgotten() -> None:
    """So clients that come and go under ever new names take no room."""
    buckets = MutationQuotas(QuotaWindows())
    for number in range(10 * BUCKETS_KEPT_MIN):
        buckets.leave(Quota(1.0, None, f"client-{number}"), 10.0, number * 1_000)
    full = Quota(1.0, None, "full")
    buckets.leave(full, 11.0, 10**9)

    assert 0 < len(buckets) <= BUCKETS_KEPT_MIN


def test_none_that_owes_is_forgotten() -> None:
    buckets = MutationQuotas(QuotaWindows())
    names = [f"client-{number}" for number in range(3 * BUCKETS_KEPT_MIN)]
    for name in names:
        buckets.leave(Quota(1.0, None, name), -50.0, 0)

    assert {-50.0} == {buckets.tokens(Quota(1.0, None, name), 0) for name in names}


def test_a_request_that_is_decided_again_is_paid_once() -> None:
    buckets = MutationQuotas(QuotaWindows())
    purse = RequestTokens(buckets, OF_ALICE)
    first = purse.open(0)
    purse.leave(0, first - 30.0, paid=30.0)
    second = purse.open(0)
    purse.leave(0, second - 5.0, paid=5.0)

    assert (22.0, 22.0, 17.0) == (first, second, buckets.tokens(OF_ALICE, 0))


@pytest.mark.parametrize(("tokens", "wait_ms"), [(-1.0, 500), (-0.25, 125), (-30.0, 15_000), (0.0, 0), (3.0, 0)])
def test_the_wait_is_until_nothing_is_owed(tokens: float, wait_ms: int) -> None:
    assert wait_ms == RequestTokens(MutationQuotas(QuotaWindows()), OF_ALICE).wait_ms(tokens)


@pytest.mark.parametrize("rate", [1e-6, 1e-305, 5e-324])
def test_a_wait_has_room_in_an_answer(rate: float) -> None:
    """Any rate above 0 may be set."""
    purse = RequestTokens(MutationQuotas(QuotaWindows()), OF_ALICE._replace(rate=rate))

    assert 2**31 - 1 == purse.wait_ms(-3.0)


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 40)), max_size=40), st.sampled_from([0.5, 2.0, 8.0]))
def test_no_more_is_taken_than_comes_in_but_for_a_burst_and_the_last(asked: list[tuple[int, int]], rate: float) -> None:
    """By hand: what was taken, less the last that was, is at most a full bucket and what has come in since."""
    windows, now_ms, taken = QuotaWindows(), 0, [0]
    buckets = MutationQuotas(windows)
    quota = Quota(rate, "alice", None)
    for pause_ms, cost in asked:
        now_ms += pause_ms
        tokens = buckets.tokens(quota, now_ms)
        if tokens >= 0:
            taken.append(cost)
            tokens -= cost
        buckets.leave(quota, tokens, now_ms)

        assert sum(taken[:-1]) <= windows.burst(rate) + rate * now_ms / 1000 + 1e-6
        assert tokens <= windows.burst(rate)
