"""Majorities and the high watermark, against definitions one can read."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from quorate.raft import quorum

ENDS = st.lists(st.none() | st.integers(0, 20), min_size=1, max_size=7)
IDS = st.sets(st.integers(1, 7))


def reached(ends: list[int | None], offset: int) -> int:
    return sum(end is not None and end >= offset for end in ends)


@given(st.integers(1, 9))
def test_majority_is_the_fewest_of_which_any_two_choices_meet(count: int) -> None:
    def always_meet(size: int) -> bool:
        choices = list(combinations(range(count), size))
        return all(set(a) & set(b) for a in choices for b in choices)

    fewest = next(size for size in range(1, count + 1) if always_meet(size))

    assert fewest == quorum.majority(count)


@given(ENDS)
def test_agreed_end_is_the_largest_offset_that_more_than_half_have_reached(ends: list[int | None]) -> None:
    agreed = [offset for offset in range(21) if 2 * reached(ends, offset) > len(ends)]

    assert (max(agreed) if agreed else None) == quorum.agreed_end(ends)


@given(granted=IDS, rejected=IDS, voters=st.sets(st.integers(1, 7), min_size=1))
def test_an_election_is_won_by_more_than_half_and_lost_when_that_is_out_of_reach(
    granted: set[int], rejected: set[int], voters: set[int]
) -> None:
    assert (2 * len(granted & voters) > len(voters)) == quorum.is_won(granted=granted, voters=voters)
    assert (2 * len(voters - rejected) <= len(voters)) == quorum.is_lost(rejected=rejected, voters=voters)


def test_nobody_wins_without_voters() -> None:
    assert not quorum.is_won(granted={1}, voters=set())
    assert not quorum.is_lost(rejected={1}, voters=set())
