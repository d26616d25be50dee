"""Requests that wait: what completes each, once."""

from __future__ import annotations

import pytest

from quorate.errors import ErrorCode
from quorate.replication import (
    BrokerStanding,
    FetchDone,
    FetchPosition,
    FetchWait,
    Isolation,
    LowWatermarkMoved,
    ProduceDone,
    ProduceWait,
    Waits,
    deleted_outcome,
)
from tests.replication.scene import Scene


class Broker:
    """Two partitions that it leads, with 2 as the other member, and the requests that wait for them."""

    def __init__(self) -> None:
        self.scenes = {"a": Scene(), "b": Scene()}
        for scene in self.scenes.values():
            scene.register(replicas=(1, 2), isr=(1, 2))
        self.waits: Waits[str] = Waits(lambda key: self.scenes[key].partition if key in self.scenes else None)

    def hold_produce(self, **required: int) -> ProduceWait[str]:
        wait = ProduceWait(required=required, deadline_ms=100)
        assert self.waits.hold(wait, now_ms=0) is None
        return wait

    def hold_fetch(
        self, *offsets: tuple[str, FetchPosition], min_bytes: int = 1, partition_max_bytes: int = 1_000
    ) -> FetchWait[str]:
        wait = FetchWait(
            positions=dict(offsets), min_bytes=min_bytes, partition_max_bytes=partition_max_bytes, deadline_ms=100
        )
        assert self.waits.hold(wait, now_ms=0) is None
        return wait


@pytest.fixture
def broker() -> Broker:
    return Broker()


def follower_at(offset: int, *, known: int | None = None, last_epoch: int | None = None) -> FetchPosition:
    return FetchPosition(
        offset=offset,
        leader_epoch=5,
        isolation=Isolation.LOG_END,
        known_high_watermark=known,
        last_fetched_epoch=last_epoch,
    )


def test_a_produce_waits_for_all_its_partitions(broker: Broker) -> None:
    """R45, R47."""
    a, b = broker.scenes.values()
    a.write(3)
    b.write(2)
    wait = broker.hold_produce(a=3, b=2)
    a.fetch(2, 3)

    assert [] == broker.waits.touch("a")

    b.fetch(2, 2)

    assert [ProduceDone(wait, {"a": ErrorCode.NONE, "b": ErrorCode.NONE})] == broker.waits.touch("b")
    assert [] == broker.waits.touch("b")
    assert [] == broker.waits.expire(1_000)


def test_a_produce_that_is_complete_is_not_held(broker: Broker) -> None:
    """R47: the followers were quicker than the leader's driver."""
    broker.scenes["a"].write(3)
    broker.scenes["a"].fetch(2, 3)
    wait = ProduceWait(required={"a": 3}, deadline_ms=100)

    assert ProduceDone(wait, {"a": ErrorCode.NONE}) == broker.waits.hold(wait, now_ms=0)
    assert 0 == len(broker.waits)


def test_a_produce_out_of_time_says_of_which_partition(broker: Broker) -> None:
    """R45."""
    broker.scenes["a"].write(3)
    broker.scenes["b"].write(2)
    broker.scenes["a"].fetch(2, 3)
    wait = broker.hold_produce(a=3, b=2)

    assert [] == broker.waits.expire(99)
    assert [ProduceDone(wait, {"a": ErrorCode.NONE, "b": ErrorCode.REQUEST_TIMED_OUT})] == broker.waits.expire(100)


def test_an_outcome_is_final(broker: Broker) -> None:
    """An acknowledged record stays so, though the leader is another one before the answer is sent."""
    broker.scenes["a"].write(3)
    broker.scenes["b"].write(2)
    broker.scenes["a"].fetch(2, 3)
    wait = broker.hold_produce(a=3, b=2)
    broker.scenes["a"].register(leader=2, epoch=6, at=11, replicas=(1, 2), isr=(1, 2))
    broker.waits.touch("a")
    del broker.scenes["b"]

    assert [ProduceDone(wait, {"a": ErrorCode.NONE, "b": ErrorCode.NOT_LEADER_OR_FOLLOWER})] == broker.waits.touch("b")


def test_a_deletion_waits_for_the_log_start_of_every_replica_that_is_not_fenced(broker: Broker) -> None:
    """KIP-107."""
    scene = broker.scenes["a"]
    scene.register(replicas=(1, 2, 3), isr=(1, 2, 3), at=11)
    scene.write(5)
    scene.ask(2, 5)
    scene.ask(3, 5)
    scene.log.start_at(4)
    wait = ProduceWait(required={"a": 4}, deadline_ms=100, outcome_of=deleted_outcome)
    assert broker.waits.hold(wait, now_ms=0) is None

    assert LowWatermarkMoved() in scene.ask(2, 5, log_start=4)[1]
    assert [] == broker.waits.touch("a")
    assert [] == [each for each in scene.ask(2, 5, log_start=4)[1] if isinstance(each, LowWatermarkMoved)]
    assert 0 == scene.leading.low_watermark()
    scene.brokers[3] = BrokerStanding(epoch=103, is_fenced=True)

    assert [ProduceDone(wait, {"a": ErrorCode.NONE})] == broker.waits.touch("a")
    assert 4 == scene.leading.low_watermark()


def test_a_deletion_waits_for_a_replica_that_has_not_fetched_yet(broker: Broker) -> None:
    wait = ProduceWait(required={"a": 0}, deadline_ms=100, outcome_of=deleted_outcome)
    assert broker.waits.hold(wait, now_ms=0) is None

    assert LowWatermarkMoved() in broker.scenes["a"].ask(2, 0)[1]
    assert [ProduceDone(wait, {"a": ErrorCode.NONE})] == broker.waits.touch("a")


def test_a_wait_whose_caller_is_gone_is_let_go_of(broker: Broker) -> None:
    kept, gone = broker.hold_produce(a=3), broker.hold_produce(a=3, b=2)
    broker.waits.drop(gone)
    broker.waits.drop(gone)

    assert 1 == len(broker.waits)
    assert [kept] == [done.wait for done in broker.waits.expire(100)]


def test_a_deletion_ends_with_the_leadership(broker: Broker) -> None:
    wait = ProduceWait(required={"a": 0}, deadline_ms=100, outcome_of=deleted_outcome)
    assert broker.waits.hold(wait, now_ms=0) is None
    broker.scenes["a"].register(leader=2, epoch=6, replicas=(1, 2), isr=(1, 2), at=11)

    assert [ProduceDone(wait, {"a": ErrorCode.NOT_LEADER_OR_FOLLOWER})] == broker.waits.touch("a")


def test_a_fetch_waits_for_its_bytes_over_all_partitions(broker: Broker) -> None:
    """R48."""
    wait = broker.hold_fetch(("a", follower_at(0)), ("b", follower_at(0)), min_bytes=5)
    broker.scenes["a"].write(3)

    assert [] == broker.waits.touch("a")
    assert [] == broker.waits.touch("a")  # the same three are not counted twice

    broker.scenes["b"].write(2)

    assert [FetchDone(wait)] == broker.waits.touch("b")


def test_no_partition_counts_for_more_than_it_may_be_given(broker: Broker) -> None:
    broker.hold_fetch(("a", follower_at(0)), ("b", follower_at(0)), min_bytes=5, partition_max_bytes=4)
    broker.scenes["a"].write(9)

    assert [] == broker.waits.touch("a")


def test_a_consumer_waits_for_committed_records(broker: Broker) -> None:
    """R49."""
    wait = broker.hold_fetch(("a", FetchPosition(offset=0)))
    broker.scenes["a"].write(3)

    assert [] == broker.waits.touch("a")

    broker.scenes["a"].fetch(2, 3)

    assert [FetchDone(wait)] == broker.waits.touch("a")


def test_a_follower_is_told_of_a_high_watermark_that_it_awaits(broker: Broker) -> None:
    """R48."""
    a = broker.scenes["a"]
    a.write(3)
    wait = broker.hold_fetch(("a", follower_at(3, known=0, last_epoch=5)))
    broker.hold_fetch(("a", follower_at(3, last_epoch=5)))
    a.fetch(2, 3)

    assert [FetchDone(wait)] == broker.waits.touch("a")


def test_a_fetch_behind_the_last_segment_is_answered_at_once(broker: Broker) -> None:
    """R48: there is no more to come for it."""
    broker.hold_fetch(("a", follower_at(0)), min_bytes=50)
    broker.scenes["a"].write(3)
    broker.scenes["a"].log.segment_start = 3
    broker.scenes["a"].write(3)

    assert 1 == len(broker.waits.touch("a"))


def test_a_fetch_ends_with_the_leader_epoch(broker: Broker) -> None:
    """R48."""
    wait = broker.hold_fetch(("a", follower_at(0)))
    broker.scenes["a"].register(epoch=6, at=11, replicas=(1, 2), isr=(1, 2))

    assert [FetchDone(wait)] == broker.waits.touch("a")


def test_a_fetch_above_a_log_that_was_cut_is_answered_at_once(broker: Broker) -> None:
    """R48: a consumer without epochs, whose leader followed and leads again in between."""
    broker.scenes["a"].write(3)
    wait = broker.hold_fetch(("a", FetchPosition(offset=3)))
    broker.scenes["a"].log.cut(1)

    assert [FetchDone(wait)] == broker.waits.touch("a")


def test_a_fetch_out_of_time_is_answered_with_what_there_is(broker: Broker) -> None:
    wait = broker.hold_fetch(("a", follower_at(0)))

    assert 100 == broker.waits.deadline_ms
    assert [FetchDone(wait)] == broker.waits.expire(100)
    assert broker.waits.deadline_ms is None


def test_a_fetch_of_nothing_is_answered_at_once(broker: Broker) -> None:
    wait: FetchWait[str] = FetchWait(positions={}, min_bytes=1, partition_max_bytes=1, deadline_ms=100)

    assert FetchDone(wait) == broker.waits.hold(wait, now_ms=0)
