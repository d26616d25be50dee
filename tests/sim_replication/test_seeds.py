"""No seed breaks a rule, enough happens in them, each fault strikes, and one seed is one history."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.seeds.many import check_invariants, check_void, digests, summed
from tests.seeds.outcome import Outcome
from tests.sim_replication.producer_world import ProducerWorld
from tests.sim_replication.reassigned_world import ReassignedWorld
from tests.sim_replication.runner import ENGINE, FILES, PRODUCERS, REASSIGNED, UNCLEAN, run, run_on_disk
from tests.sim_replication.unclean_world import UncleanWorld
from tests.sim_replication.world import FAULTS

SEED_COUNT = int(os.environ.get("SIM_REPLICATION_SEEDS", "30"))
VOID_SHARE_MAX = 0.1
FEWER_VOID_MAX = 0.2
FEWER = SEED_COUNT // 3
"""Of the profiles whose seeds are dear."""
UNCLEAN_FROM = 18
"""Some of these seeds lose acknowledged records, as an unclean election may."""
STORED_COUNT = 3
"""They have some hundred unclean stops, whose torn tails a start cuts off."""


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run(seed) for seed in range(SEED_COUNT)]


@pytest.fixture(scope="module")
def with_engine() -> list[Outcome]:
    """The same with the real controller engine, which fails over now and then."""
    return [run(seed, ENGINE) for seed in range(SEED_COUNT)]


@pytest.fixture(scope="module")
def of_producers() -> list[Outcome]:
    """Clients have ids, and transactions."""
    return [run(seed, PRODUCERS) for seed in range(FEWER)]


@pytest.fixture(scope="module")
def unclean() -> list[Outcome]:
    """Leaders may lack what is committed."""
    return [run(seed, UNCLEAN) for seed in range(UNCLEAN_FROM, UNCLEAN_FROM + FEWER)]


@pytest.fixture(scope="module")
def reassigned() -> list[Outcome]:
    """The partition moves between brokers."""
    return [run(seed, REASSIGNED) for seed in range(FEWER)]


def test_no_seed_breaks_a_rule(
    outcomes: list[Outcome],
    with_engine: list[Outcome],
    of_producers: list[Outcome],
    unclean: list[Outcome],
    reassigned: list[Outcome],
) -> None:
    check_invariants([*outcomes, *with_engine, *of_producers, *unclean, *reassigned])


def test_few_seeds_are_void(
    outcomes: list[Outcome],
    with_engine: list[Outcome],
    of_producers: list[Outcome],
    unclean: list[Outcome],
    reassigned: list[Outcome],
) -> None:
    check_void(outcomes, share_max=VOID_SHARE_MAX)
    check_void(with_engine, share_max=VOID_SHARE_MAX)
    check_void(of_producers, share_max=FEWER_VOID_MAX)
    check_void(unclean, share_max=FEWER_VOID_MAX)
    check_void(reassigned, share_max=FEWER_VOID_MAX)


def test_the_engine_s_controller_fails_over(with_engine: list[Outcome]) -> None:
    assert summed(with_engine, "counts")["failover"] >= SEED_COUNT


def test_every_fault_strikes_and_logs_are_truncated(outcomes: list[Outcome]) -> None:
    fired, counts = summed(outcomes, "fired"), summed(outcomes, "counts")

    assert [] == [fault for fault in FAULTS if not fired[fault]]
    assert counts["truncation"]


@pytest.mark.parametrize("seed", range(STORED_COUNT))
def test_with_logs_in_files_a_seed_has_the_same_history(tmp_path: Path, outcomes: list[Outcome], seed: int) -> None:
    assert outcomes[seed].digest == run_on_disk(seed, tmp_path).digest


def test_with_producers_and_logs_in_files_a_seed_has_the_same_history(of_producers: list[Outcome]) -> None:
    """The last segments, snapshots and indexes of a kill, and what of them a start believes."""
    assert of_producers[1].digest == run(1, FILES).digest


def test_batches_are_sent_again_and_transactions_end_either_way(of_producers: list[Outcome]) -> None:
    fired, counts = summed(of_producers, "fired"), summed(of_producers, "counts")

    assert [] == [fault for fault in ProducerWorld.FAULTS if not fired[fault]]
    assert [] == [what for what in ("duplicate", "committed", "aborted", "skipped", "given up") if not counts[what]]


def test_unclean_elections_lose_what_was_acknowledged(unclean: list[Outcome]) -> None:
    fired, counts = summed(unclean, "fired"), summed(unclean, "counts")

    assert [] == [fault for fault in UncleanWorld.FAULTS if not fired[fault]]
    assert counts["unclean"] >= len(unclean)
    assert counts["lost"]


def test_partitions_move_and_are_given_up(reassigned: list[Outcome]) -> None:
    fired, counts = summed(reassigned, "fired"), summed(reassigned, "counts")

    assert [] == [fault for fault in ReassignedWorld.FAULTS if not fired[fault]]
    assert counts["given up"] >= len(reassigned)


def test_another_process_tells_the_same_story() -> None:
    here = [run(seed).digest for seed in (3, 4)]

    assert here == digests(run, (3,), (4,), hash_seed="4711")
    assert 2 == len(set(here))
