"""No seed breaks a rule, enough happens in them, each fault strikes, and one seed is one history."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.seeds.many import check_invariants, check_void, digests, summed
from tests.seeds.outcome import Outcome
from tests.sim_replication.runner import ENGINE, run, run_on_disk
from tests.sim_replication.world import FAULTS

SEED_COUNT = int(os.environ.get("SIM_REPLICATION_SEEDS", "30"))
VOID_SHARE_MAX = 0.1
STORED_COUNT = 3
"""They have some hundred unclean stops, whose torn tails a start cuts off."""


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run(seed) for seed in range(SEED_COUNT)]


@pytest.fixture(scope="module")
def with_engine() -> list[Outcome]:
    """The same with the real controller engine, which fails over now and then."""
    return [run(seed, ENGINE) for seed in range(SEED_COUNT)]


def test_no_seed_breaks_a_rule(outcomes: list[Outcome], with_engine: list[Outcome]) -> None:
    check_invariants([*outcomes, *with_engine])


def test_few_seeds_are_void(outcomes: list[Outcome], with_engine: list[Outcome]) -> None:
    check_void(outcomes, share_max=VOID_SHARE_MAX)
    check_void(with_engine, share_max=VOID_SHARE_MAX)


def test_the_engine_s_controller_fails_over(with_engine: list[Outcome]) -> None:
    assert summed(with_engine, "counts")["failover"] >= SEED_COUNT


def test_every_fault_strikes_and_logs_are_truncated(outcomes: list[Outcome]) -> None:
    fired, counts = summed(outcomes, "fired"), summed(outcomes, "counts")

    assert [] == [fault for fault in FAULTS if not fired[fault]]
    assert counts["truncation"]


@pytest.mark.parametrize("seed", range(STORED_COUNT))
def test_with_logs_in_files_a_seed_has_the_same_history(tmp_path: Path, outcomes: list[Outcome], seed: int) -> None:
    assert outcomes[seed].digest == run_on_disk(seed, tmp_path).digest


def test_another_process_tells_the_same_story() -> None:
    here = [run(seed).digest for seed in (3, 4)]

    assert here == digests(run, (3,), (4,), hash_seed="4711")
    assert 2 == len(set(here))
