"""ElectLeaders: the preferred one comes back, or anybody if need be (KIP-460)."""

from __future__ import annotations

import pytest

from kraft.api.elect_leaders import ElectLeadersRequest
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER, RECOVERING
from quorate.records import PartitionChangeRecord
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


NONE, NOT_NEEDED = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED
NOT_AVAILABLE, NOBODY = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def mixed() -> Cluster:
    """Brokers 1, 2 and 3 are there, 5 has gone, and 4 after it. Topics are not made in the order of their names.

    zoo-0     led by 1, the preferred one
    apes-0    led by 2; 1, the preferred one, is in sync
    apes-1    led by 2; 1, the preferred one, is not in sync
    apes-2    led by 3, the preferred one
    birds-0   led by nobody; its ISR was 4, and 3 is there
    birds-1   led by nobody; its replicas are on 4 and 5
    birds-2   led by 2; 4, the preferred one, is not there
    cats-0    led by 2, the preferred one
    """
    cluster = Cluster(25).brokers(1, 2, 3, 4, 5)
    topics = {
        "zoo": [[1, 2]],
        "cats": [[2, 3]],
        "birds": [[4, 3], [4, 5], [4, 2]],
        "apes": [[1, 2], [1, 2], [3, 1]],
    }
    ids = {name: cluster.topic(name, *replicas) for name, replicas in topics.items()}
    cluster.alter_isr("birds", (4,), 0)
    for gone in (5, 4):
        cluster.change(gone, ControlState.FENCED)
    cluster.apply(PartitionChangeRecord(number, ids["apes"], leader=2) for number in (0, 1))
    cluster.alter_isr("apes", (2,), 1)
    return cluster


OF_ALL: dict[str, tuple[int, dict[str, list[tuple[int, ErrorCode]]], list[tuple[str, int, int]]]] = {
    "preferred": (
        PREFERRED,
        {
            "apes": [(0, NONE), (1, NOT_AVAILABLE)],
            "birds": [(0, NOT_AVAILABLE), (1, NOT_AVAILABLE), (2, NOT_AVAILABLE)],
            "cats": [],
            "zoo": [],
        },
        [("apes", 0, 1)],
    ),
    "unclean": (
        UNCLEAN,
        {"apes": [], "birds": [(0, NONE), (1, NOBODY)], "cats": [], "zoo": []},
        [("birds", 0, 3)],
    ),
}
"""Of all partitions: the election, what is told, and who leads what from then on."""


@pytest.mark.parametrize(("election", "told", "led"), OF_ALL.values(), ids=OF_ALL)
def test_of_all_partitions_those_that_need_no_election_are_left_out(
    election: int, told: dict[str, list[tuple[int, ErrorCode]]], led: list[tuple[str, int, int]]
) -> None:
    """Kafka: ReplicationControlManager.electLeaders without topicPartitions. Every topic is told of, if with nothing.

    Kafka's order is that of a hash table; ours is that of names and numbers.
    """
    cluster = mixed()
    ids = {name: cluster.state.topics.id_of(name) for name, _, _ in led}
    request = ElectLeadersRequest(election_type=election, topic_partitions=None)
    decision = cluster.decide(elect_leaders(request, settings=cluster.settings))
    response = decision.response

    assert list(told.items()) == [
        (result.topic, [(each.partition_id, ErrorCode(each.error_code)) for each in result.partition_result])
        for result in response.replica_election_results
    ]
    assert NONE == response.error_code
    assert [(ids[name], number, leader) for name, number, leader in led] == [
        (each.topic_id, each.partition_id, each.leader)
        for each in decision.records
        if isinstance(each, PartitionChangeRecord)
    ]
    assert len(led) == len(decision.records)
    assert {code for results in told.values() for _, code in results if code is not NONE} == {
        each.error_code
        for result in response.replica_election_results
        for each in result.partition_result
        if each.error_message is not None
    }


@pytest.mark.parametrize("election", [PREFERRED, UNCLEAN])
def test_by_name_those_that_need_no_election_are_told_so_in_the_order_of_the_request(election: int) -> None:
    """The same partitions, asked for: Kafka answers one by one, as they are asked."""
    asked = (Asked("zoo", (0,)), Asked("birds", (1, 0, 7)), Asked("nobody", (0,)), Asked("apes", (2, 1, 0)))
    expected = {
        PREFERRED: [NOT_NEEDED, NOT_AVAILABLE, NOT_AVAILABLE, UNKNOWN, UNKNOWN, NOT_NEEDED, NOT_AVAILABLE, NONE],
        UNCLEAN: [NOT_NEEDED, NOBODY, NONE, UNKNOWN, UNKNOWN, NOT_NEEDED, NOT_NEEDED, NOT_NEEDED],
    }
    found = elected(mixed(), election, *asked)

    assert [(each.topic, partition_id) for each in asked for partition_id in each.partitions] == list(found)
    assert expected[election] == list(found.values())


def test_an_empty_list_asks_for_none_and_no_list_for_all() -> None:
    cluster = mixed()
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=())
    decision = cluster.decide(elect_leaders(request, settings=cluster.settings))

    assert ((), ()) == (decision.response.replica_election_results, decision.records)


def test_asked_for_all_again_nobody_is_elected_twice() -> None:
    cluster = mixed()

    assert {("apes", 0)} == {which for which, code in elected(cluster, PREFERRED).items() if code is NONE}
    assert set() == {which for which, code in elected(cluster, PREFERRED).items() if code is NONE}
