"""The follower: fetch, append, truncate; refusals and ranges."""

from __future__ import annotations

import pytest

from quorate.errors import ErrorCode
from quorate.nouns import OffsetAndEpoch
from quorate.replication import (
    Append,
    AskRange,
    Batch,
    Diverged,
    Effect,
    FetchAt,
    Fetched,
    HighWatermarkRaised,
    Phase,
    RaiseLogStart,
    Range,
    Refused,
    RestartAt,
    Truncate,
)
from tests.replication.memory_log import MemoryLog
from tests.replication.scene import Scene


def batch(base: int, *, epoch: int = 5, count: int = 1) -> Batch:
    return Batch(base_offset=base, end_offset=base + count, epoch=epoch)


def fetched(*batches: Batch, high_watermark: int = 0, log_start: int = 0) -> Fetched:
    return Fetched(batches=batches, high_watermark=high_watermark, log_start=log_start)


def diverged(epoch: int, end: int, *, log_start: int = 0) -> Diverged:
    return Diverged(end=OffsetAndEpoch(epoch=epoch, offset=end), log_start=log_start)


def following(*epochs: int, start: int = 0, checkpoint: int = 0) -> Scene:
    """Broker 1 follows 2 in epoch 5; its log has a record for each of these epochs."""
    batches = (batch(at, epoch=epoch) for at, epoch in enumerate(epochs, start))
    scene = Scene(log=MemoryLog(tuple(batches), start=start), checkpoint=checkpoint)
    scene.register(leader=2)
    return scene


def test_appends_then_takes_high_watermark_and_log_start() -> None:
    """R58, R59: the high watermark as far as its own log goes."""
    scene = following(4, 4)

    assert FetchAt(offset=2, last_fetched_epoch=4, leader_epoch=5, log_start=0) == scene.following.next_request(
        scene.now_ms
    )
    assert [Append((batch(2), batch(3))), HighWatermarkRaised(4), RaiseLogStart(1)] == scene.hear(
        fetched(batch(2), batch(3), high_watermark=9, log_start=1)
    )
    assert FetchAt(offset=4, last_fetched_epoch=5, leader_epoch=5, log_start=1) == scene.following.next_request(
        scene.now_ms
    )


def test_the_high_watermark_of_a_follower_does_not_fall_with_that_of_another_leader() -> None:
    """R23."""
    scene = following(4, 4, checkpoint=2)
    scene.hear(fetched(high_watermark=1))

    assert 2 == scene.high_watermark


@pytest.mark.parametrize("high_watermark", [1, 2, 3, 4])
@pytest.mark.parametrize("log_start", [0, 1, 2])
def test_of_an_answer_without_records_it_knows_whether_it_changes_anything(high_watermark: int, log_start: int) -> None:
    """So that those of most partitions need not be taken, round after round (KIP-227)."""
    scene = following(4, 4, 4, start=1, checkpoint=2)
    changes_nothing = scene.following.has_taken(high_watermark, log_start)

    assert changes_nothing == (scene.hear(fetched(high_watermark=high_watermark, log_start=log_start)) == [])
    assert scene.following.has_taken(high_watermark, log_start)


def test_asks_in_the_same_words_until_its_log_is_another() -> None:
    scene = following(4, 4)
    first = scene.following.next_request(scene.now_ms)

    assert scene.following.next_request(scene.now_ms) is first

    scene.log.start_at(1)

    assert FetchAt(offset=2, last_fetched_epoch=4, leader_epoch=5, log_start=1) == scene.following.next_request(
        scene.now_ms
    )


def test_an_answer_to_an_earlier_fetch_is_dropped() -> None:
    """R59: the log has gone on, or is led by another broker since."""
    scene = following()
    early = scene.following.next_request(scene.now_ms)
    assert early is not None
    scene.hear(fetched(batch(0)))

    assert [] == scene.following.take(early, fetched(batch(0)), now_ms=scene.now_ms)

    early = scene.following.next_request(scene.now_ms)
    assert early is not None
    scene.register(leader=3, epoch=6, at=11)

    assert [] == scene.following.take(early, fetched(batch(1)), now_ms=scene.now_ms)


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ((batch(0),), "the log ends at 2"),  # what is here already
        ((batch(2, count=0),), "offsets 2 to 2"),
        ((batch(2), batch(2)), "the log ends at 3"),
        ((batch(2, epoch=3),), "epoch 3, after 4"),
        ((batch(2, epoch=6),), "of a leader of epoch 5"),
    ],
)
def test_batches_that_cannot_follow_the_log_fail_the_partition(batches: tuple[Batch, ...], why: str) -> None:
    """R59."""
    scene = following(4, 4)

    assert [] == scene.hear(fetched(*batches))
    assert why in scene.following.failure
    assert scene.following.next_request(scene.now_ms) is None


def test_a_batch_over_a_gap_is_appended() -> None:
    """A compacted log has gaps."""
    scene = following(4)
    scene.hear(fetched(batch(7)))

    assert 8 == scene.log.leo


def test_a_batch_that_begins_before_the_log_start_comes_whole() -> None:
    """DeleteRecords in the middle of a batch: the empty log goes back to where the batch begins."""
    scene = following(start=7)

    assert [RestartAt(leo=5, start=7), Append((batch(5, count=4),)), HighWatermarkRaised(9)] == scene.hear(
        fetched(batch(5, count=4), high_watermark=9, log_start=7)
    )
    assert (7, 9) == (scene.log.start, scene.log.leo)


def test_truncates_by_epochs_also_above_what_it_knows_as_committed() -> None:
    """R54, KIP-101: the high watermark here is 0, and the two records of epoch 3 stay."""
    scene = following(3, 3, 4, 4)

    assert [Truncate(2)] == scene.hear(diverged(3, 2))
    assert [3] == [epoch for epoch, _ in scene.log.epochs.entries if epoch >= 0]


def test_an_unclean_election_lowers_the_high_watermark() -> None:
    """R55."""
    scene = following(3, 3, 4, 4, checkpoint=4)
    scene.hear(diverged(3, 1))

    assert (1, 1) == (scene.log.leo, scene.high_watermark)


def test_a_log_that_parts_below_its_start_begins_again() -> None:
    """R55."""
    scene = following(3, 3, start=10, checkpoint=12)

    assert [RestartAt(leo=4, start=4)] == scene.hear(diverged(2, 6, log_start=4))
    assert (4, 4, 4) == (scene.log.start, scene.log.leo, scene.high_watermark)


def test_a_leader_that_finds_the_whole_log_diverging_from_nothing_fails_the_partition() -> None:
    """A divergence that removes nothing would be asked about for ever."""
    scene = following(3, 3)

    assert [] == scene.hear(diverged(3, 2))
    assert "nothing to truncate" in scene.following.failure


def out_of_range(scene: Scene, *, start: int, leo: int) -> list[Effect]:
    scene.hear(Refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    assert AskRange(leader_epoch=5) == scene.following.next_request(scene.now_ms)
    return scene.hear(Range(start=start, leo=leo))


def test_out_of_range_truncates_to_a_leader_that_ends_earlier() -> None:
    """R60."""
    scene = following(3, 3, 3, checkpoint=3)

    assert [Truncate(2)] == out_of_range(scene, start=0, leo=2)
    assert 2 == scene.high_watermark


def test_out_of_range_begins_again_at_a_leader_that_starts_later() -> None:
    """R60."""
    scene = following(3, 3)

    assert [RestartAt(leo=40, start=40)] == out_of_range(scene, start=40, leo=90)
    assert 40 == scene.high_watermark
    assert FetchAt(offset=40, last_fetched_epoch=-1, leader_epoch=5, log_start=40) == scene.following.next_request(
        scene.now_ms
    )


def test_out_of_range_begins_again_under_a_leader_that_ends_before_the_log_starts() -> None:
    assert [RestartAt(leo=0, start=0)] == out_of_range(following(3, start=10), start=0, leo=5)


def test_out_of_a_range_that_holds_it_is_asked_again_later() -> None:
    """R60: the log's start is kept, and no loop runs."""
    scene = following(3, 3)

    assert [] == out_of_range(scene, start=0, leo=9)
    assert scene.following.next_request(scene.now_ms + 999) is None
    assert isinstance(scene.following.next_request(scene.now_ms + 1_000), FetchAt)


@pytest.mark.parametrize(
    "error",
    [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NETWORK_EXCEPTION],
)
def test_backs_off_when_the_leader_cannot_serve(error: ErrorCode) -> None:
    """R60."""
    scene = following()
    scene.hear(Refused(error))

    assert scene.following.next_request(scene.now_ms + 999) is None
    assert isinstance(scene.following.next_request(scene.now_ms + 1_000), FetchAt)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_leader_that_has_not_heard_of_its_epoch_is_asked_again_soon_and_then_less_often(error: ErrorCode) -> None:
    """R60: up to the backoff of all other refusals, and from the shortest on again after an answer."""
    scene = following()
    waited = []
    for answer in (*[Refused(error)] * 8, fetched(), Refused(error)):
        scene.hear(answer)
        before_ms, scene.now_ms = scene.now_ms, max(scene.now_ms, scene.following.resume_at_ms)
        waited.append(scene.now_ms - before_ms)

    assert [20, 40, 80, 160, 320, 640, 1_000, 1_000, 0, 20] == waited


def test_a_fenced_follower_waits_for_the_log() -> None:
    """R60: only another leader epoch helps."""
    scene = following()
    scene.hear(Refused(ErrorCode.FENCED_LEADER_EPOCH))

    assert (Phase.FAILED, True) == (scene.following.phase, scene.following.is_fenced)
    assert scene.following.next_request(scene.now_ms + 3_600_000) is None

    scene.register(leader=3, epoch=6, at=11)

    assert isinstance(scene.following.next_request(scene.now_ms), FetchAt)


def test_what_the_log_refuses_is_fetched_again_after_a_while() -> None:
    """R60: one batch of two is not what it was when it left the leader."""
    scene = following(checkpoint=0)
    request = scene.following.next_request(scene.now_ms)
    assert request is not None
    append, *_ = scene.following.take(request, fetched(batch(0), batch(1), high_watermark=2), now_ms=scene.now_ms)
    assert isinstance(append, Append)
    scene.log.append(append.batches[0])

    assert [HighWatermarkRaised(1)] == scene.following.append_failed(append, "wrong checksum", now_ms=scene.now_ms)
    assert ("wrong checksum", None) == (scene.following.failure, scene.following.next_request(scene.now_ms))
    again = scene.following.next_request(scene.now_ms + 1_000)
    assert isinstance(again, FetchAt)
    assert (1, 1) == (again.offset, scene.high_watermark)
