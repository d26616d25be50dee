"""What a leader takes, refuses and gives: produce with acks, consumers' and followers' fetches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import OffsetAndEpoch
from quorate.replication import (
    ACKS_ALL,
    BrokerStanding,
    FetchPosition,
    Isolation,
    acks_outcome,
    admit_consumer,
    admit_produce,
    end_of_epoch,
)
from quorate.replication.admission import leader_of
from tests.replication.scene import LAG_MS, Scene, proposal_in
from tests.replication.test_leading import altered


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.code


def leading(**how: int) -> Scene:
    scene = Scene(**how)
    scene.register()
    return scene


# Epochs


def test_a_request_of_another_leader_epoch_is_refused() -> None:
    """R41, R51: the same of a produce, a consumer's fetch, a follower's, an OffsetForLeaderEpoch."""
    scene = leading()

    assert ErrorCode.FENCED_LEADER_EPOCH == refusal(lambda: leader_of(scene.partition, 4))
    assert ErrorCode.UNKNOWN_LEADER_EPOCH == refusal(lambda: leader_of(scene.partition, 6))
    assert ErrorCode.FENCED_LEADER_EPOCH == refusal(lambda: admit_produce(scene.partition, 1, leader_epoch=4))
    assert ErrorCode.UNKNOWN_LEADER_EPOCH == refusal(
        lambda: admit_consumer(scene.partition, FetchPosition(offset=0, leader_epoch=6))
    )
    assert ErrorCode.FENCED_LEADER_EPOCH == refusal(lambda: end_of_epoch(scene.partition, 3, leader_epoch=4))


def test_a_follower_refuses() -> None:
    scene = Scene()
    scene.register(leader=2)

    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == refusal(lambda: admit_produce(scene.partition, 0))
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == refusal(lambda: scene.ask(3, 0))
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER is acks_outcome(scene.partition, 1)


# Produce


def test_other_acks_are_refused() -> None:
    """R42."""
    assert ErrorCode.INVALID_REQUIRED_ACKS == refusal(lambda: admit_produce(leading().partition, 2))


@pytest.mark.parametrize("acks", [0, 1])
def test_without_acks_all_the_isr_does_not_matter(acks: int) -> None:
    """R43."""
    scene = Scene(min_insync_replicas=2)
    scene.register(isr=(1,))

    assert scene.leading is admit_produce(scene.partition, acks)


def test_acks_all_below_min_isr_is_refused_before_the_append() -> None:
    """R43: a member that is pending has not joined."""
    scene = Scene(min_insync_replicas=2)
    scene.register(isr=(1,))
    proposal = proposal_in(scene.fetch(2, 0))

    assert ErrorCode.NOT_ENOUGH_REPLICAS == refusal(lambda: admit_produce(scene.partition, ACKS_ALL))

    scene.done(scene.leading.take_altered(proposal, altered(1, 2, at=11), now_ms=scene.now_ms))

    assert scene.leading is admit_produce(scene.partition, ACKS_ALL)


def test_acks_all_is_done_when_the_high_watermark_is_there() -> None:
    """R45, R46."""
    scene = leading()
    scene.write(3)
    scene.fetch(2, 3)
    scene.fetch(3, 2)

    assert ErrorCode.NONE is acks_outcome(scene.partition, 2)
    assert acks_outcome(scene.partition, 3) is None


def test_an_isr_that_shrinks_after_the_append_is_told() -> None:
    """R46: the record was committed by both, and then the ISR fell below its minimum."""
    scene = leading(min_insync_replicas=2)
    scene.write(3)
    scene.fetch(2, 3)
    scene.fetch(3, 3)
    scene.register(at=11, isr=(1,))

    assert ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND is acks_outcome(scene.partition, 3)


# Consumers


def test_a_consumer_reads_below_the_high_watermark_or_the_last_stable_offset() -> None:
    """R49."""
    scene = leading()
    scene.write(9)
    scene.fetch(2, 9)
    scene.fetch(3, 6)
    scene.log.first_open_offset = 4

    ends = {
        isolation: admit_consumer(scene.partition, FetchPosition(offset=0, isolation=isolation)).end
        for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
    }

    assert {Isolation.READ_UNCOMMITTED: 6, Isolation.READ_COMMITTED: 4} == ends

    scene.log.first_open_offset = 8  # a transaction above the high watermark

    assert 6 == admit_consumer(scene.partition, FetchPosition(offset=0, isolation=Isolation.READ_COMMITTED)).end


def test_a_consumer_above_the_high_watermark_of_a_new_leader_waits() -> None:
    """R49: it read that from the leader before; OFFSET_OUT_OF_RANGE would make it reset its position."""
    scene = leading()
    scene.write(9)

    assert 0 == admit_consumer(scene.partition, FetchPosition(offset=9)).end
    assert ErrorCode.OFFSET_OUT_OF_RANGE == refusal(lambda: admit_consumer(scene.partition, FetchPosition(offset=10)))


# Followers


def test_a_follower_reads_to_the_end_and_hears_the_high_watermark_that_its_fetch_has_raised() -> None:
    """R50, R52."""
    scene = Scene()
    scene.register(replicas=(1, 2), isr=(1, 2))
    scene.write(5)
    scene.fetch(2, 0)
    grant, _ = scene.ask(2, 3, last_epoch=5)

    assert (5, 3, 0) == (grant.end, grant.high_watermark, grant.log_start)


def test_only_assigned_replicas_fetch() -> None:
    """R50."""
    assert ErrorCode.UNKNOWN_LEADER_EPOCH == refusal(lambda: leading().ask(4, 0))


def test_a_fetch_of_an_earlier_registration_is_refused_and_not_recorded() -> None:
    """R18, R50, R63: KIP-903. What it acknowledges may be lost since."""
    scene = leading()
    scene.write(3)
    scene.brokers[3] = BrokerStanding(epoch=200)

    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == refusal(lambda: scene.ask(3, 3))
    assert scene.leading.replicas[3].leo is None


def test_a_fetch_that_diverges_gets_no_records_and_is_not_recorded() -> None:
    """R53."""
    scene = Scene()
    scene.log.write(b"", epoch=2, count=3)
    scene.register()
    scene.write(5)
    grant, effects = scene.ask(2, 6, last_epoch=4)

    assert (OffsetAndEpoch(epoch=2, offset=3), []) == (grant.diverging, effects)
    assert scene.leading.replicas[2].leo is None


@pytest.mark.parametrize(("offset", "last_epoch"), [(2, 2), (9, -1), (3, 7)])
def test_a_fetch_out_of_range_is_refused(offset: int, last_epoch: int) -> None:
    """R60: below the start, above the end, or of an epoch that was never led."""
    scene = Scene()
    scene.log.write(b"", epoch=2, count=3)
    scene.log.start_at(3)
    scene.partition.local.high_watermark = 3
    scene.register()
    scene.write(5)

    assert ErrorCode.OFFSET_OUT_OF_RANGE == refusal(lambda: scene.ask(2, offset, last_epoch=last_epoch))


def test_a_zombie_leader_commits_nothing() -> None:
    """R62: cut off from the others it still appends; its proposal to shrink is refused, as the controller has a later
    epoch. Below min ISR 2 it could not commit even alone."""
    scene = leading(min_insync_replicas=2)
    scene.write(3)
    scene.now_ms += 2 * LAG_MS
    proposal = proposal_in(scene.leading.check_isr(scene.now_ms))
    scene.done(scene.leading.take_altered(proposal, ErrorCode.FENCED_LEADER_EPOCH, now_ms=scene.now_ms))
    scene.write(3)

    assert 0 == scene.high_watermark
    assert acks_outcome(scene.partition, 3) is None
