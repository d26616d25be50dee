"""The roles that the metadata log gives (R3, R4), and what goes with each change."""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.replication import (
    AssignEpoch,
    EndWaits,
    HighWatermarkRaised,
    PendingExpand,
    StartFetching,
    StopFetching,
)
from tests.replication.scene import Scene


def test_a_leader_assigns_its_epoch_before_it_has_a_record_of_it() -> None:
    """R13: an epoch that a follower asks about is then never above all of the leader's."""
    scene = Scene()
    scene.log.write(b"", epoch=3, count=4)

    assert [AssignEpoch(epoch=5, start_offset=4)] == scene.register()
    assert 4 == scene.leading.epoch_start_offset


def test_a_leader_alone_in_the_isr_commits_its_log_at_once() -> None:
    """R15."""
    scene = Scene()
    scene.log.write(b"", epoch=3, count=4)

    assert HighWatermarkRaised(4) in scene.register(isr=(1,))


def test_an_older_partition_epoch_changes_nothing() -> None:
    """R11."""
    scene = Scene()
    scene.register(at=10)

    assert [] == scene.register(leader=2, at=9)
    assert 10 == scene.leading.partition_epoch


def test_the_same_leader_epoch_keeps_what_is_known_of_the_replicas() -> None:
    """R14: replica 3 goes, 4 comes, 2 stays."""
    scene = Scene()
    scene.register()
    scene.write(4)
    scene.fetch(2, 4)
    scene.register(at=11, replicas=(1, 2, 4), isr=(1, 2))

    assert {2: 4, 4: None} == {replica: progress.leo for replica, progress in scene.leading.replicas.items()}
    assert 0 == scene.leading.epoch_start_offset


def test_another_leader_epoch_forgets_it() -> None:
    """R13, R15: another broker may have led in between; a pending change goes, too."""
    scene = Scene()
    scene.register(isr=(1, 2))
    scene.write(4)
    scene.fetch(2, 4)
    scene.fetch(3, 4)
    assert isinstance(scene.leading.state, PendingExpand)
    scene.register(epoch=6, at=11, isr=(1, 2))

    assert {2: (None, scene.now_ms), 3: (None, None)} == {
        replica: (progress.leo, progress.last_caught_up_at_ms) for replica, progress in scene.leading.replicas.items()
    }
    assert 11 == scene.leading.partition_epoch
    assert 4 == scene.leading.epoch_start_offset


def test_a_leader_that_follows_ends_its_waits() -> None:
    """R16."""
    scene = Scene()
    scene.register()

    assert [
        EndWaits(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        StartFetching(leader_id=2, leader_epoch=6),
    ] == scene.register(leader=2, epoch=6, at=11)


def test_a_follower_of_the_same_leader_and_epoch_goes_on() -> None:
    scene = Scene()
    scene.register(leader=2)

    assert [] == scene.register(leader=2, at=11, isr=(2, 3))
    assert [StopFetching(), StartFetching(leader_id=2, leader_epoch=6)] == scene.register(leader=2, epoch=6, at=12)
    assert [StopFetching(), StartFetching(leader_id=3, leader_epoch=7)] == scene.register(leader=3, epoch=7, at=13)


def test_without_a_leader_nothing_is_fetched() -> None:
    """R16."""
    scene = Scene()
    scene.register(leader=2)

    assert [StopFetching()] == scene.register(leader=None, epoch=6, at=11)
    assert scene.partition.role is None


def test_a_partition_that_stops_leaves_its_fetcher_or_its_waits_first() -> None:
    """R17."""
    follower, leader = Scene(), Scene()
    follower.register(leader=2)
    leader.register()

    assert [StopFetching()] == follower.done(follower.partition.stop())
    assert [EndWaits(ErrorCode.NOT_LEADER_OR_FOLLOWER)] == leader.done(leader.partition.stop())
