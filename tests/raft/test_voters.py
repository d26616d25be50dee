"""Voter sets: who is who, and which set is in force at which offset (KIP-853)."""

from __future__ import annotations

import pytest

from kraft import Uuid
from quorate.nouns import ReplicaKey
from quorate.raft import BatchInfo, LogView, VoterHistory, VoterSet

DISK_A, DISK_B = Uuid(bytes(15) + b"\xaa"), Uuid(bytes(15) + b"\xbb")
ONE, TWO, THREE, FOUR = (VoterSet.of(*range(1, count + 1)) for count in (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("known", "claimed", "expected"),
    [
        (ReplicaKey(1, DISK_A), ReplicaKey(1, DISK_A), True),
        (ReplicaKey(1, DISK_A), ReplicaKey(1, DISK_B), False),  # a wiped disk is another replica
        (ReplicaKey(1, DISK_A), ReplicaKey(1), False),
        (ReplicaKey(1), ReplicaKey(1, DISK_B), True),  # kraft.version 0 knows ids alone
        (ReplicaKey(1), ReplicaKey(2), False),
    ],
)
def test_a_voter_is_an_id_on_a_disk(known: ReplicaKey, claimed: ReplicaKey, expected: bool) -> None:
    assert expected == VoterSet.of(known).has(claimed)
    assert (known if expected else None) == VoterSet.of(known).key_of(claimed)


def test_two_voters_share_no_id() -> None:
    with pytest.raises(AssertionError):
        VoterSet.of(ReplicaKey(1, DISK_A), ReplicaKey(1, DISK_B))


def test_a_set_is_in_force_from_its_record_on_and_falls_back_when_that_is_truncated() -> None:
    history = VoterHistory(ONE, [(5, TWO), (9, THREE)])

    assert [ONE, ONE, TWO, TWO, THREE] == [history.before(offset) for offset in (0, 5, 6, 9, 10)]
    assert (THREE, 9) == (history.latest, history.latest_offset)

    history.truncate(to=9)

    assert (TWO, 5) == (history.latest, history.latest_offset)

    history.truncate(to=0)

    assert (ONE, None) == (history.latest, history.latest_offset)


def test_the_set_before_a_removed_prefix_stays_in_force() -> None:
    history = VoterHistory(ONE, [(5, TWO), (9, THREE)])
    history.start_at(9)

    assert (TWO, THREE) == (history.before(9), history.latest)

    history.truncate(to=9)

    assert (TWO, None) == (history.latest, history.latest_offset)


def test_a_snapshot_brings_its_set_or_leaves_the_one_configured() -> None:
    history = VoterHistory(ONE, [(5, TWO)])
    history.restart_with(FOUR)

    assert FOUR == history.latest

    history.restart_with(None)

    assert FOUR == history.latest


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (THREE, FOUR, True),
        (FOUR, THREE, True),
        (VoterSet.of(1, 2, 3), VoterSet.of(1, 2, 4), True),
        (TWO, FOUR, False),
        (FOUR, TWO, False),
        (VoterSet.of(1), VoterSet.of(ReplicaKey(1, DISK_A)), True),  # kraft.version 0 to 1
        (VoterSet.of(ReplicaKey(1, DISK_A)), VoterSet.of(ReplicaKey(1, DISK_B)), True),
    ],
)
def test_neighbouring_sets_differ_by_one_voter_each_way(before: VoterSet, after: VoterSet, expected: bool) -> None:
    assert expected == before.overlaps(after)


def test_a_set_that_no_majority_would_bridge_is_not_taken() -> None:
    log = LogView(voters=VoterHistory(ONE))
    log.append(BatchInfo(base_offset=0, last_offset=0, epoch=1, voters=TWO))
    with pytest.raises(AssertionError):
        log.append(BatchInfo(base_offset=1, last_offset=1, epoch=1, voters=FOUR))
    with pytest.raises(AssertionError):
        LogView(voters=VoterHistory(ONE, [(5, TWO), (7, FOUR)]), leo=8)
