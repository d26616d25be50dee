"""AlterPartition: one request at a time, all partitions in it, repeated until each has its answer."""

from __future__ import annotations

import pytest

from quorate.errors import ErrorCode
from quorate.replication import Alterations, Answered, Proposal, ReplicationSettings
from tests.replication.test_leading import altered


def proposal(at: int = 10) -> Proposal:
    return Proposal(leader_epoch=5, partition_epoch=at, isr=((1, 101), (2, 102)))


@pytest.fixture
def alterations() -> Alterations[str]:
    found: Alterations[str] = Alterations(ReplicationSettings())
    found.submit("a", proposal())
    return found


def sent(alterations: Alterations[str], *, broker_epoch: int = 101, now_ms: int = 0) -> dict[str, Proposal] | None:
    """What goes to the controller now."""
    request = alterations.next_request(broker_epoch=broker_epoch, now_ms=now_ms)
    assert request is None or request.broker_epoch == broker_epoch
    return None if request is None else dict(request.proposals)


def test_what_comes_while_a_request_is_in_flight_goes_together_with_the_next(alterations: Alterations[str]) -> None:
    """R36."""
    assert {"a": proposal()} == sent(alterations)

    alterations.submit("b", proposal(20))
    alterations.submit("c", proposal(30))

    assert sent(alterations) is None
    assert [Answered("a", proposal(), altered(1, 2, at=11))] == alterations.take_answer(
        1, {"a": altered(1, 2, at=11)}, now_ms=0
    )
    assert {"b": proposal(20), "c": proposal(30)} == sent(alterations)


def test_a_later_proposal_takes_the_place_of_one_that_waits(alterations: Alterations[str]) -> None:
    alterations.submit("a", proposal(12))

    assert {"a": proposal(12)} == sent(alterations)


def test_what_is_withdrawn_is_not_sent(alterations: Alterations[str]) -> None:
    alterations.withdraw("a")

    assert sent(alterations) is None


def test_a_request_that_was_lost_is_repeated_after_a_pause_but_for_what_is_newer(
    alterations: Alterations[str],
) -> None:
    """R36."""
    alterations.submit("b", proposal(20))
    sent(alterations)
    alterations.submit("b", proposal(21))

    assert [] == alterations.take_answer(1, ErrorCode.NETWORK_EXCEPTION, now_ms=100)
    assert sent(alterations, now_ms=149) is None
    assert {"a": proposal(), "b": proposal(21)} == sent(alterations, now_ms=150)


def test_a_partition_that_the_answer_leaves_out_is_asked_for_again(alterations: Alterations[str]) -> None:
    sent(alterations)

    assert [] == alterations.take_answer(1, {}, now_ms=0)
    assert {"a": proposal()} == sent(alterations)


def test_a_stale_broker_epoch_waits_for_the_next(alterations: Alterations[str]) -> None:
    """R36."""
    sent(alterations)
    alterations.take_answer(1, ErrorCode.STALE_BROKER_EPOCH, now_ms=0)

    assert sent(alterations, now_ms=3_600_000) is None
    assert {"a": proposal()} == sent(alterations, broker_epoch=130, now_ms=3_600_000)


def test_an_answer_comes_once(alterations: Alterations[str]) -> None:
    sent(alterations)
    alterations.take_answer(1, ErrorCode.NETWORK_EXCEPTION, now_ms=0)
    sent(alterations, now_ms=50)

    assert [] == alterations.take_answer(1, {"a": altered(1, 2, at=11)}, now_ms=60)
    assert 1 == len(alterations.take_answer(2, {"a": altered(1, 2, at=11)}, now_ms=60))
    assert [] == alterations.take_answer(2, {"a": altered(1, 2, at=11)}, now_ms=60)


@pytest.mark.parametrize("name", ["replica_lag_time_max_ms", "fetch_backoff_ms", "alter_partition_backoff_ms"])
def test_a_setting_below_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        ReplicationSettings(**{name: 0})
