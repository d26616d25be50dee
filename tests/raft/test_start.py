"""Start-up, waits and offices of one node: what it remembers, how long it waits, what it tells its listener."""

from __future__ import annotations

from random import Random

import pytest

from kraft import Uuid
from quorate.nouns import EPOCHS_END, ReplicaKey
from quorate.raft import BatchInfo, ElectionState, Leadership, RaftSettings, VoterSet
from quorate.raft.messages import BeginQuorumEpochRequest
from quorate.raft.roles import election_state
from quorate.raft.settings import LEAST
from tests.raft.cluster import Node

ME, OTHER = ReplicaKey(1), ReplicaKey(2)
THREE = VoterSet.of(1, 2, 3)


def started(election: ElectionState | None, *, voters: VoterSet = THREE, log_epoch: int = 0, seed: int = 1) -> Node:
    node = Node(ME, voters, RaftSettings(), Random(seed))
    if log_epoch:
        node.disk.batches = [BatchInfo(base_offset=0, last_offset=0, epoch=log_epoch)]
        node.disk.flushed = 1
    node.disk.election = election
    node.start(now_ms=0)
    return node


def state(epoch: int, leader_id: int | None = None, voted: ReplicaKey | None = None) -> ElectionState:
    return ElectionState(epoch=epoch, leader_id=leader_id, voted=voted)


@pytest.mark.parametrize(
    ("election", "log_epoch", "role", "expected"),
    [
        (None, 0, "Unattached", state(0)),
        (state(4, voted=OTHER), 0, "Unattached", state(4, voted=OTHER)),
        (state(4, voted=OTHER), 7, "Unattached", state(7)),  # the file is older than the log
        (state(4, voted=ME), 3, "Candidate", state(4, voted=ME)),
        (state(4, leader_id=2, voted=ME), 4, "Follower", state(4, leader_id=2, voted=ME)),
        (state(4, leader_id=1, voted=ME), 4, "Resigned", state(4, leader_id=1, voted=ME)),
    ],
)
def test_a_restart_keeps_epoch_vote_and_leader(
    election: ElectionState | None, log_epoch: int, role: str, expected: ElectionState
) -> None:
    node = started(election, log_epoch=log_epoch)

    assert (role, expected) == (type(node.core.role).__name__, election_state(node.core.role))


def test_a_vote_for_our_id_without_a_directory_is_our_own() -> None:
    """At kraft.version 0 quorum-state does not say which directory it was for."""
    on_disk = ReplicaKey(1, Uuid(b"d" * 16))
    node = Node(on_disk, THREE, RaftSettings(), Random(1))
    node.disk.election = state(4, voted=ME)
    node.start(now_ms=0)

    assert ("Candidate", state(4, voted=on_disk)) == (type(node.core.role).__name__, election_state(node.core.role))


@pytest.mark.parametrize("voters", [VoterSet.of(1), THREE])
@pytest.mark.parametrize("leader_id", [None, 1, 2])
def test_a_node_in_the_last_epoch_stands_no_more_and_goes_on(voters: VoterSet, leader_id: int | None) -> None:
    last = state(EPOCHS_END - 1, leader_id=leader_id)
    node = started(last, voters=voters)
    for now_ms in range(0, 20_000, 500):
        node.core.tick(now_ms)

        assert EPOCHS_END - 1 == node.core.role.epoch
        assert type(node.core.role).__name__ in {"Unattached", "Follower", "Resigned"}


@pytest.mark.parametrize("election", [state(4, voted=ME), state(4), None])
def test_a_node_that_does_not_vote_asks_for_no_votes(election: ElectionState | None) -> None:
    node = started(election, voters=VoterSet.of(2, 3))
    node.core.tick(10_000)

    assert "Unattached" == type(node.core.role).__name__


@pytest.mark.parametrize("seed", range(20))
def test_each_wait_for_a_leader_is_drawn_between_one_and_two_timeouts(seed: int) -> None:
    deadline = started(None, seed=seed).core.deadline

    assert deadline is not None
    assert 1_000 <= deadline < 2_000


def test_the_waits_differ() -> None:
    assert 15 < len({started(None, seed=seed).core.deadline for seed in range(20)})


@pytest.mark.parametrize("seed", range(20))
def test_the_wait_after_a_reset_stream_is_short_and_leaves_time_for_one_fetch_more(seed: int) -> None:
    node = started(state(4, leader_id=2), seed=seed)
    node.core.peer_lost(2, 100)
    for now_ms in range(100, 151):
        node.core.tick(now_ms)
        if type(node.core.role).__name__ == "Prospective":
            assert 125 < now_ms <= 150
            return
    pytest.fail("still a follower after 50 ms")


def test_a_resignation_raises_the_epoch_when_nobody_follows() -> None:
    node = started(state(4, leader_id=1, voted=ME))
    node.core.tick(2_000)

    assert ("Unattached", state(5)) == (type(node.core.role).__name__, election_state(node.core.role))


def test_the_listener_hears_of_each_leadership_once_and_of_its_own_with_its_start() -> None:
    node = started(None, voters=VoterSet.of(1))
    ready = node.core.ready()

    assert Leadership(epoch=1, leader_id=1, epoch_start_offset=0) == ready.leadership
    node.core.tick(10)
    assert node.core.ready().leadership is None

    node = started(None)
    node.core.ready()
    begin = BeginQuorumEpochRequest(epoch=3, leader_id=2)
    node.core.step(begin, 10)
    assert Leadership(epoch=3, leader_id=2) == node.core.ready().leadership
    node.core.step(begin, 20)
    assert node.core.ready().leadership is None


def test_time_does_not_go_back() -> None:
    node = started(None)
    node.core.tick(10)
    with pytest.raises(AssertionError):
        node.core.tick(9)


@pytest.mark.parametrize("name", sorted(set(RaftSettings.__slots__) - {"auto_join_enable"}))
def test_a_setting_below_its_least_is_refused_by_name(name: str) -> None:
    too_little = LEAST.get(name, 1) - 1
    with pytest.raises(ValueError, match=f"{name} is {too_little}; it must be at least {too_little + 1}"):
        RaftSettings(**{name: too_little})  # type: ignore[arg-type]  # every setting in the list is a number
