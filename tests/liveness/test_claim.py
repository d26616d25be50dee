"""Which of several trackers counts, case by case."""

from __future__ import annotations

from typing import Final

import pytest

from quorate.liveness import CLAIM_LAPSES_MS, Claimant, SessionClaim

A: Final = Claimant(id="1", address="a:1")
B: Final = Claimant(id="2", address="b:1")
A_AGAIN: Final = Claimant(id="3", address="a:1")
FRESH = False, True

CASES: Final[dict[str, list[tuple[Claimant, int, int, Claimant]]]] = {
    # who claims, in which epoch, when, and who counts then
    "the first one": [(A, 1, 0, A), (B, 1, 500, A)],
    "it claims on": [(A, 1, 0, A), (A, 1, 2_900, A), (B, 1, 5_000, A)],
    "it has gone": [(A, 1, 0, A), (B, 1, 1_000, A), (B, 1, 2_400, A), (B, 1, 3_800, B)],
    "to the millisecond": [
        (A, 1, 0, A),
        (B, 1, 1_500, A),
        (B, 1, CLAIM_LAPSES_MS, A),
        (B, 1, CLAIM_LAPSES_MS + 1, B),
    ],
    "the controller stood still": [(A, 1, 0, A), (B, 1, 60_000, A), (A, 1, 60_001, A)],
    "it comes back too late": [
        (A, 1, 0, A),
        *((B, 1, ms, A) for ms in (1_000, 2_000, 3_000)),
        (B, 1, 4_000, B),
        (A, 1, 4_500, B),
    ],
    "a failover, and the standby is first": [
        (A, 1, 0, A),
        (B, 2, 500, B),
        (A, 2, 600, B),
        (B, 2, 1_500, B),
        (A, 2, 1_600, B),
    ],
    "a failover, and who counted is first": [(A, 1, 0, A), (A, 2, 500, A), (B, 2, 600, A)],
    "its successor at the same address": [
        (A, 1, 0, A),
        (A_AGAIN, 1, 10, A_AGAIN),
        (B, 1, 20, A_AGAIN),
    ],
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_who_counts(case: list[tuple[Claimant, int, int, Claimant]]) -> None:
    claim = SessionClaim()
    for claimant, epoch, now_ms, counts in case:
        found = claim.claim(claimant, epoch=epoch, now_ms=now_ms)

        assert (counts, claimant == counts) == (found.holder, found.is_granted), (claimant, now_ms)
        assert 0 <= found.lapses_in_ms <= CLAIM_LAPSES_MS


def test_nobody_counts_in_an_epoch_before_the_first_claim() -> None:
    claim = SessionClaim()
    claim.claim(A, epoch=1, now_ms=0)

    assert [A, None, None] == [claim.holder(epoch=epoch, now_ms=ms) for epoch, ms in ((1, 10), (2, 20), (None, 30))]
