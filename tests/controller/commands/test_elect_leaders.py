"""ElectLeaders: the preferred one comes back, or anybody if need be (KIP-460)."""

from __future__ import annotations

import pytest

from kraft.api.elect_leaders import ElectLeadersRequest
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER, RECOVERING
from tests.controller.clusters import Cluster

PREFERRED, UNCLEAN = 0, 1

Asked = ElectLeadersRequest.TopicPartitions


def elected(cluster: Cluster, election: int, *asked: Asked) -> dict[tuple[str, int], ErrorCode]:
    request = ElectLeadersRequest(election_type=election, topic_partitions=asked or None)
    response = cluster.write(elect_leaders(request, settings=cluster.settings))
    return {
        (result.topic, each.partition_id): ErrorCode(each.error_code)
        for result in response.replica_election_results
        for each in result.partition_result
    }


def moved() -> Cluster:
    """Broker 1 was away for a moment: it is back, in sync again, and leads nothing."""
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", [1, 2], [2, 1])
    cluster.change(1, ControlState.FENCED)
    cluster.change(1, ControlState.UNFENCED)
    cluster.rejoin("t", 0, 1)
    cluster.rejoin("t", 1, 1)
    return cluster


def test_the_preferred_leader_leads_again() -> None:
    cluster = moved()
    before = cluster.partition("t")

    assert {("t", 0): ErrorCode.NONE} == elected(cluster, PREFERRED, Asked("t", (0,)))
    assert (2, 1) == (before.leader, cluster.partition("t").leader)
    assert before.leader_epoch + 1 == cluster.partition("t").leader_epoch


def test_of_all_only_those_that_needed_it_are_told() -> None:
    assert {("t", 0): ErrorCode.NONE} == elected(moved(), PREFERRED)


@pytest.mark.parametrize(
    ("election", "asked", "code"),
    [
        (PREFERRED, Asked("nobody", (0,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, Asked("t", (7,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, Asked("t", (1,)), ErrorCode.ELECTION_NOT_NEEDED),
        (UNCLEAN, Asked("t", (0,)), ErrorCode.ELECTION_NOT_NEEDED),
    ],
    ids=["no such topic", "no such partition", "led by the preferred", "led by somebody"],
)
def test_refuses(election: int, asked: Asked, code: ErrorCode) -> None:
    assert {(asked.topic, asked.partitions[0]): code} == elected(moved(), election, asked)


def test_a_preferred_leader_that_is_not_in_sync_is_not_elected() -> None:
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", [1, 2])
    cluster.change(1, ControlState.FENCED)
    cluster.change(1, ControlState.UNFENCED)

    assert {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE} == elected(cluster, PREFERRED, Asked("t", (0,)))


def without_a_leader() -> Cluster:
    """Broker 2 went first, broker 1 last: only broker 1 has all the data."""
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", [1, 2])
    cluster.change(2, ControlState.FENCED)
    cluster.change(1, ControlState.FENCED)
    return cluster


def test_an_unclean_election_takes_whoever_is_there_and_says_so() -> None:
    cluster = without_a_leader()
    cluster.change(2, ControlState.UNFENCED)

    assert NO_LEADER == cluster.partition("t").leader
    assert {("t", 0): ErrorCode.NONE} == elected(cluster, UNCLEAN)

    partition = cluster.partition("t")
    assert (2, (2,), RECOVERING) == (partition.leader, partition.isr, partition.leader_recovery_state)


def test_an_unclean_election_needs_somebody() -> None:
    assert {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE} == elected(without_a_leader(), UNCLEAN)


def test_refuses_an_election_that_there_is_not() -> None:
    cluster = moved()
    refused = cluster.refusal(elect_leaders(ElectLeadersRequest(election_type=7), settings=cluster.settings))

    assert (ErrorCode.INVALID_REQUEST, "election_type") == (refused.code, refused.metadata["field"])
