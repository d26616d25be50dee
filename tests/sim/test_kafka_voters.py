"""Quorums in which some voters do as Kafka's controllers do: every invariant holds, and a planted bug is seen."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

import pytest

from tests.seeds import planting
from tests.seeds.many import check_invariants, check_void, run_many
from tests.seeds.outcome import Outcome
from tests.seeds.planting import Mutant, Patch
from tests.sim.driver import Driver
from tests.sim.faults import KAFKA
from tests.sim.kafka_voter import KafkaDriver
from tests.sim.mutants.judge import MUTANTS, kill
from tests.sim.runner import run

SEED_COUNT: Final = int(os.environ.get("SIM_SEEDS", "60"))
"""As many as the planted bugs below may need (LIMIT)."""
VOID_SHARE_MAX: Final = 0.1
LIMIT: Final = 60
"""Seeds in which each of these bugs is seen; most are in the first."""

pytestmark = pytest.mark.timeout(7_200)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return list(run_many(partial(run, profile=KAFKA), range(SEED_COUNT), jobs=2, chunk=10))


def test_no_mixed_quorum_breaks_an_invariant(outcomes: list[Outcome]) -> None:
    check_invariants(outcomes)


def test_kafkas_and_ours_vote_in_each_of_them_and_few_are_void(outcomes: list[Outcome]) -> None:
    assert [] == [outcome.seed for outcome in outcomes if not outcome.fired.get("S-33")]
    check_void(outcomes, share_max=VOID_SHARE_MAX)


def test_a_kafka_that_took_fetches_while_it_flushes_would_be_seen() -> None:
    """It counts its log end before the flush: what keeps I-18 is that its one thread flushes before the next fetch."""

    def plant(patch: Patch) -> None:
        patch.setattr(KafkaDriver, "flush", Driver.flush)

    killed = planting.kill(run, Mutant("", "fetches are taken during a flush", plant, KAFKA), base=0, limit=LIMIT)

    assert killed is not None
    assert "I-18" == killed[1]


@pytest.mark.parametrize("number", ["M1f", "M7", "E1"])
def test_a_bug_of_ours_is_seen_beside_kafkas(number: str) -> None:
    [mutant] = [each for each in MUTANTS if each.number == number]

    assert kill(mutant, base=0, limit=LIMIT, profile=KAFKA) is not None
