"""ChangeBrokerState: fenced, let in, on the way out; what each does to partitions. KIP-631."""

from __future__ import annotations

from typing import Any

import pytest

from kraft import Message
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER
from quorate.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.controller.clusters import Cluster

FENCED, UNFENCED = ControlState.FENCED, ControlState.UNFENCED
CONTROLLED_SHUTDOWN, SHUTDOWN_NOW = ControlState.CONTROLLED_SHUTDOWN, ControlState.SHUTDOWN_NOW


def records(cluster: Cluster, broker_id: int, target: ControlState) -> list[tuple[Any, ...]]:
    broker = cluster.state.brokers.get(broker_id)
    assert broker is not None
    command = change_broker_state(
        broker_id=broker_id, broker_epoch=broker.epoch, target=target, settings=cluster.settings
    )
    return [told(record) for record in cluster.decide(command).records]


def told(record: Message) -> tuple[Any, ...]:
    match record:
        case PartitionChangeRecord():
            return "partition", record.partition_id, record.isr, record.leader
        case BrokerRegistrationChangeRecord():
            return "broker", record.broker_id, record.fenced, record.in_controlled_shutdown
    raise AssertionError(record)


def three(**changes: Any) -> Cluster:
    """Broker 1 leads partition 0, follows in 1, is alone in 2, and has no part in 3."""
    cluster = Cluster(25, **changes).brokers(1, 2, 3)
    cluster.topic("t", [1, 2, 3], [2, 1, 3])
    cluster.topic("alone", [1])
    cluster.topic("others", [2, 3])
    return cluster


def test_fencing_takes_it_out_of_every_isr_and_then_fences_it() -> None:
    expected = [
        ("partition", 0, (2, 3), 2),
        ("partition", 1, (2, 3), -2),  # the leader stays: no new leader epoch (KAFKA-15021)
        ("partition", 0, None, NO_LEADER),  # the last one stays in the ISR
        ("broker", 1, 1, 0),
    ]

    assert expected == records(three(), 1, FENCED)


def test_unfencing_lets_it_lead_what_nobody_leads() -> None:
    cluster = three()
    cluster.change(1, FENCED)

    assert records(cluster, 1, UNFENCED) == [("broker", 1, -1, 0), ("partition", 0, None, 1)]


def test_controlled_shutdown_is_noted_and_leadership_moves() -> None:
    expected = [("broker", 1, 0, 1), ("partition", 0, (2, 3), 2), ("partition", 1, (2, 3), -2)]

    assert [*expected, ("partition", 0, None, NO_LEADER)] == records(three(), 1, CONTROLLED_SHUTDOWN)


STEPS = {
    "fenced once is fenced": ([FENCED, FENCED], FENCED),
    "unfenced once is unfenced": ([UNFENCED], UNFENCED),
    "who leads nothing may go at once": ([FENCED, UNFENCED, CONTROLLED_SHUTDOWN], CONTROLLED_SHUTDOWN),
    "on the way out, all led by others, may go": ([CONTROLLED_SHUTDOWN, SHUTDOWN_NOW], SHUTDOWN_NOW),
    "on the way out is no way back": ([CONTROLLED_SHUTDOWN, UNFENCED], CONTROLLED_SHUTDOWN),
    "fenced on the way out is no way back either": ([CONTROLLED_SHUTDOWN, FENCED, UNFENCED], FENCED),
    "who does not want to wait is fenced": ([SHUTDOWN_NOW], SHUTDOWN_NOW),
    "fenced may go at once": ([FENCED, CONTROLLED_SHUTDOWN], SHUTDOWN_NOW),
}


@pytest.mark.parametrize(("targets", "reached"), STEPS.values(), ids=STEPS)
def test_reaches(targets: list[ControlState], reached: ControlState) -> None:
    cluster = three()

    assert reached == [cluster.change(1, target) for target in targets][-1]


def test_who_leads_nothing_need_not_wait() -> None:
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", [2, 1])

    assert cluster.change(1, CONTROLLED_SHUTDOWN) == SHUTDOWN_NOW
    assert cluster.partition("t").isr == (2,)


@pytest.mark.parametrize("target", [FENCED, UNFENCED, CONTROLLED_SHUTDOWN, SHUTDOWN_NOW])
def test_a_state_that_is_reached_already_writes_nothing(target: ControlState) -> None:
    cluster = three()
    cluster.change(1, target)

    assert records(cluster, 1, target) == []


def test_refuses_another_registration_than_the_present_one() -> None:
    cluster = three()
    broker = cluster.state.brokers.get(1)
    assert broker is not None

    def refusal(broker_id: int, epoch: int) -> ErrorCode:
        command = change_broker_state(broker_id=broker_id, broker_epoch=epoch, target=FENCED, settings=cluster.settings)
        return cluster.refusal(command).code

    assert refusal(1, broker.epoch - 1) == ErrorCode.STALE_BROKER_EPOCH
    assert refusal(1, broker.epoch + 1) == ErrorCode.STALE_BROKER_EPOCH
    assert refusal(9, broker.epoch) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_an_unclean_election_where_the_topic_allows_it() -> None:
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("safe", [1, 2])
    cluster.topic("fast", [1, 2], unclean_leader_election_enable="true")
    cluster.change(2, FENCED)  # both ISRs are [1]
    cluster.change(2, UNFENCED)
    cluster.change(1, FENCED)
    safe, fast = cluster.partition("safe"), cluster.partition("fast")

    assert (safe.isr, safe.leader, safe.leader_recovery_state) == ((1,), NO_LEADER, 0)
    assert (fast.isr, fast.leader, fast.leader_recovery_state) == ((2,), 2, 1)
