"""The leader: progress of its replicas, high watermark, ISR, and what it asks of the controller."""

from __future__ import annotations

import pytest

from quorate.errors import ErrorCode
from quorate.replication import (
    Altered,
    AssignEpoch,
    BrokerStanding,
    Committed,
    EndWaits,
    HighWatermarkRaised,
    PendingExpand,
    PendingShrink,
    Proposal,
    Propose,
    StartFetching,
)
from tests.replication.memory_log import MemoryLog
from tests.replication.scene import LAG_MS, Scene, members, proposal_in


def altered(*isr: int, at: int, epoch: int = 5, is_recovering: bool = False) -> Altered:
    return Altered(leader_epoch=epoch, partition_epoch=at, isr=frozenset(isr), is_recovering=is_recovering)


def short_of_3() -> Scene:
    """Broker 1 leads with 2 in the ISR; 3 is outside. Both members have the ten records."""
    scene = Scene()
    scene.register(isr=(1, 2))
    scene.write(10)
    scene.fetch(2, 10)
    assert 10 == scene.high_watermark
    return scene


# The high watermark


def test_rises_to_what_every_member_has() -> None:
    """R21, R23."""
    scene = Scene()
    scene.register()
    scene.write(10)
    scene.fetch(2, 10)

    assert 0 == scene.high_watermark

    assert [HighWatermarkRaised(7)] == scene.fetch(3, 7)


def test_a_single_replica_commits_at_its_append() -> None:
    """R15, R44."""
    scene = Scene()
    scene.register(replicas=(1,), isr=(1,))

    assert [HighWatermarkRaised(3)] == scene.write(3)


def test_stands_still_below_min_isr() -> None:
    """R21, R67: or a replica of the ELR lacks what was committed. The minimum may be lowered (R24)."""
    scene = Scene(min_insync_replicas=2)
    scene.register(isr=(1,))
    scene.write(3)

    assert 0 == scene.high_watermark

    assert [HighWatermarkRaised(3)] == scene.register(isr=(1,), min_isr=1)


def test_another_min_isr_counts_with_the_isr_that_the_log_has_with_it() -> None:
    """R21, R24: a leader that is deposed with it commits nothing more, nor one whose ISR shrinks where it is raised."""
    deposed = Scene(min_insync_replicas=2)
    deposed.register(isr=(1,))
    deposed.write(3)
    effects = deposed.register(leader=2, epoch=6, at=11, isr=(2,), min_isr=1)

    assert [EndWaits(ErrorCode.NOT_LEADER_OR_FOLLOWER), StartFetching(leader_id=2, leader_epoch=6)] == effects
    assert 0 == deposed.high_watermark

    shrunk = Scene()
    shrunk.register(isr=(1, 2))
    shrunk.write(3)

    assert [] == shrunk.register(at=11, isr=(1,), min_isr=2)
    assert [HighWatermarkRaised(3)] == shrunk.register(at=11, isr=(1,), min_isr=1)


def test_another_min_isr_counts_also_where_the_controllers_answer_has_said_more_of_the_isr() -> None:
    """R11, R24."""
    scene = Scene(min_insync_replicas=2)
    scene.register(isr=(1, 2))
    scene.write(3)
    proposal = proposal_in(scene.done(scene.leading.check_isr(scene.now_ms + 2 * LAG_MS)))
    scene.done(scene.leading.take_altered(proposal, altered(1, at=11), now_ms=scene.now_ms))

    assert [HighWatermarkRaised(3)] == scene.register(isr=(1, 2), at=10, min_isr=1)


def test_min_isr_is_at_most_the_replication_factor() -> None:
    """R24."""
    scene = Scene(min_insync_replicas=2)
    scene.register(replicas=(1,), isr=(1,))
    scene.write(3)

    assert 3 == scene.high_watermark


def test_waits_for_a_replica_that_is_about_to_join() -> None:
    """R22: 3 is behind by one fetch only, so it joins at the next one."""
    scene = short_of_3()
    scene.brokers[3] = BrokerStanding(epoch=103, is_fenced=True)
    scene.fetch(3, 10)
    scene.brokers[3] = BrokerStanding(epoch=103)
    scene.write(5)
    scene.fetch(2, 15)

    assert 10 == scene.high_watermark


def test_does_not_wait_for_a_replica_that_may_not_join() -> None:
    scene = short_of_3()
    scene.brokers[3] = BrokerStanding(epoch=103, is_fenced=True)
    scene.fetch(3, 10)
    scene.write(5)
    scene.fetch(2, 15)

    assert 15 == scene.high_watermark


def test_a_checkpoint_above_the_log_counts_as_far_as_the_log_goes() -> None:
    """R7: the tail went with an unclean stop; or the log start has moved on."""
    assert 0 == Scene(checkpoint=40).high_watermark
    assert 25 == Scene(log=MemoryLog(start=25), checkpoint=4).high_watermark


# Expansion


def test_a_joining_replica_holds_the_high_watermark_at_once() -> None:
    """R34: the controller may have it in the ISR before the leader hears of it."""
    scene = short_of_3()
    proposal = proposal_in(scene.fetch(3, 10))

    assert Proposal(leader_epoch=5, partition_epoch=10, isr=((1, 101), (2, 102), (3, 103))) == proposal

    scene.write(5)
    scene.fetch(2, 15)

    assert 10 == scene.high_watermark

    scene.now_ms += 2 * LAG_MS  # not caught up any more, so nothing but its being pending holds it
    scene.write(5)
    scene.fetch(2, 20)

    assert 10 == scene.high_watermark


@pytest.mark.parametrize(
    ("standing", "broker_epoch"),
    [
        (BrokerStanding(epoch=103, is_fenced=True), 103),
        (BrokerStanding(epoch=103, is_shutting_down=True), 103),
        (BrokerStanding(epoch=103), 104),  # it has registered again, and this broker has not applied that yet
        (None, 103),
    ],
)
def test_a_broker_that_the_controller_would_refuse_is_not_proposed(
    standing: BrokerStanding | None, broker_epoch: int
) -> None:
    """R26, R27."""
    scene = short_of_3()
    del scene.brokers[3]
    if standing is not None:
        scene.brokers[3] = standing

    assert [] == scene.fetch(3, 10, broker_epoch=broker_epoch)


def test_a_fetch_of_a_version_without_broker_epochs_is_proposed_without_one() -> None:
    """R27."""
    assert (3, -1) in proposal_in(short_of_3().fetch(3, 10, broker_epoch=-1)).isr


def test_a_replica_below_the_high_watermark_is_not_proposed() -> None:
    """R27."""
    assert [] == short_of_3().fetch(3, 9)


def test_a_replica_below_the_start_of_the_epoch_is_not_proposed() -> None:
    """R27: this leader's high watermark trails what was committed, which may be all of its log."""
    scene = Scene(checkpoint=4)
    scene.log.write(b"", epoch=3, count=10)
    scene.register(isr=(1, 2))

    assert [] == scene.fetch(3, 7, last_epoch=3)

    assert [1, 2, 3] == members(proposal_in(scene.fetch(3, 10, last_epoch=3)))


def test_one_change_at_a_time() -> None:
    """R33."""
    scene = short_of_3()
    scene.register(at=11, replicas=(1, 2, 3, 4), isr=(1, 2))
    scene.fetch(3, 10)
    scene.now_ms += 2 * LAG_MS
    scene.write()

    assert [] == scene.fetch(4, 11)
    assert [] == scene.leading.check_isr(scene.now_ms)


# Shrink


def test_a_member_that_does_not_fetch_is_out_of_sync() -> None:
    """R29, R30: after the lag time, not at it. The leader has the lag time of a new epoch, too (R13)."""
    scene = Scene()
    scene.register()
    scene.write()
    scene.fetch(2, 1, after_ms=LAG_MS)

    assert [] == scene.leading.check_isr(scene.now_ms)

    assert [1, 2] == members(proposal_in(scene.leading.check_isr(scene.now_ms + 1)))


def test_a_member_that_is_never_at_the_end_is_caught_up_while_it_reaches_the_end_of_its_last_fetch() -> None:
    """R19: under a steady load a follower is always behind."""
    scene = Scene()
    scene.register(replicas=(1, 2), isr=(1, 2))
    scene.write(10)
    for round_ in range(10):
        scene.fetch(2, 10 * round_, after_ms=LAG_MS // 2)
        scene.write(10)

    assert [] == scene.leading.check_isr(scene.now_ms)


def test_a_member_that_fetches_and_does_not_keep_up_is_out_of_sync() -> None:
    """R30: it fetches all the time, and falls back."""
    scene = Scene()
    scene.register(replicas=(1, 2), isr=(1, 2))
    for round_ in range(10):
        scene.write(10)
        scene.fetch(2, 5 * round_, after_ms=LAG_MS // 2)

    assert [1] == members(proposal_in(scene.leading.check_isr(scene.now_ms)))


def test_a_member_at_the_end_of_an_idle_log_stays() -> None:
    """R30: nothing to fetch for an hour is no lag."""
    scene = Scene()
    scene.register()
    scene.write()
    scene.fetch(2, 1)
    scene.fetch(3, 1)

    assert [] == scene.leading.check_isr(scene.now_ms + 3_600_000)


def test_a_leaving_member_counts_until_the_controller_has_confirmed() -> None:
    """R34, R37, R68."""
    scene = Scene()
    scene.register()
    scene.write(5)
    scene.fetch(2, 5, after_ms=2 * LAG_MS)
    scene.write(5)
    scene.fetch(2, 10)
    proposal = proposal_in(scene.leading.check_isr(scene.now_ms))

    assert [1, 2] == members(proposal)
    assert isinstance(scene.leading.state, PendingShrink)
    assert 0 == scene.high_watermark

    effects = scene.leading.take_altered(proposal, altered(1, 2, at=11), now_ms=scene.now_ms)

    assert [HighWatermarkRaised(10)] == effects
    assert (0, 1, 0) == (
        scene.leading.counts.expands,
        scene.leading.counts.shrinks,
        scene.leading.counts.failed_updates,
    )


# Answers


def test_a_confirmed_expansion_is_the_committed_isr() -> None:
    """R37."""
    scene = short_of_3()
    proposal = proposal_in(scene.fetch(3, 10))
    scene.done(scene.leading.take_altered(proposal, altered(1, 2, 3, at=11), now_ms=scene.now_ms))

    assert Committed(isr=frozenset({1, 2, 3}), partition_epoch=11) == scene.leading.state
    assert 1 == scene.leading.counts.expands


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_change_that_was_not_made_is_taken_back(error: ErrorCode) -> None:
    """R39."""
    scene = short_of_3()
    proposal = proposal_in(scene.fetch(3, 10))
    scene.done(scene.leading.take_altered(proposal, error, now_ms=scene.now_ms))

    assert Committed(isr=frozenset({1, 2}), partition_epoch=10) == scene.leading.state
    assert 1 == scene.leading.counts.failed_updates


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INVALID_UPDATE_VERSION,  # perhaps of this very change, whose answer was lost
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_change_of_unknown_outcome_stays_until_the_log_tells(error: ErrorCode) -> None:
    """R38: the controller may have 3 in the ISR, and elect it."""
    scene = short_of_3()
    proposal = proposal_in(scene.fetch(3, 10))

    assert [] == scene.leading.take_altered(proposal, error, now_ms=scene.now_ms)
    assert isinstance(scene.leading.state, PendingExpand)

    scene.now_ms += 2 * LAG_MS
    scene.write()
    scene.fetch(2, 11)

    assert 10 == scene.high_watermark

    assert [HighWatermarkRaised(11)] == scene.register(at=11, isr=(1, 2))


def test_another_error_is_answered_with_the_same_proposal() -> None:
    """R39."""
    scene = short_of_3()
    proposal = proposal_in(scene.fetch(3, 10))

    assert [Propose(proposal)] == scene.leading.take_altered(
        proposal, ErrorCode.UNKNOWN_SERVER_ERROR, now_ms=scene.now_ms
    )


def test_an_answer_after_the_log_is_dropped() -> None:
    """R40: the log has 2 out of the ISR by then."""
    scene = short_of_3()
    proposal = proposal_in(scene.fetch(3, 10))
    scene.register(at=12, isr=(1, 3))

    assert [] == scene.leading.take_altered(proposal, altered(1, 2, 3, at=11), now_ms=scene.now_ms)
    assert Committed(isr=frozenset({1, 3}), partition_epoch=12) == scene.leading.state


@pytest.mark.parametrize("answer", [altered(1, 2, at=9), altered(1, 2, 3, at=11, epoch=6)])
def test_an_answer_of_other_epochs_changes_nothing(answer: Altered) -> None:
    """R37: of an older partition epoch, or of a leader epoch that this leader does not lead."""
    scene = short_of_3()
    proposal = proposal_in(scene.fetch(3, 10))

    assert [] == scene.leading.take_altered(proposal, answer, now_ms=scene.now_ms)
    assert isinstance(scene.leading.state, PendingExpand)
    assert 1 == scene.leading.counts.failed_updates


def test_the_log_repeats_what_the_controller_has_answered() -> None:
    """R40: the record of partition epoch 11 comes after a change on top of it was proposed, which stays pending."""
    scene = short_of_3()
    proposal = proposal_in(scene.fetch(3, 10))
    scene.done(scene.leading.take_altered(proposal, altered(1, 2, 3, at=11), now_ms=scene.now_ms))
    scene.write()
    scene.now_ms += 2 * LAG_MS
    scene.fetch(2, 11)
    scene.done(scene.leading.check_isr(scene.now_ms))
    scene.register(at=11, isr=(1, 2, 3))

    assert isinstance(scene.leading.state, PendingShrink)


# Recovery


def test_a_recovering_leader_reports_before_it_proposes_anybody() -> None:
    """R65, R66: KIP-704."""
    scene = Scene()
    effects = scene.register(isr=(1,), is_recovering=True)
    proposal = proposal_in(effects)

    assert AssignEpoch(epoch=5, start_offset=0) in effects
    assert [1] == members(proposal)
    assert [] == scene.fetch(2, 0)

    scene.done(scene.leading.take_altered(proposal, ErrorCode.INELIGIBLE_REPLICA, now_ms=scene.now_ms))

    assert [] == scene.fetch(2, 0)

    again = proposal_in(scene.leading.check_isr(scene.now_ms))
    scene.done(scene.leading.take_altered(again, altered(1, at=11), now_ms=scene.now_ms))

    assert [1, 2] == members(proposal_in(scene.fetch(2, 0)))
