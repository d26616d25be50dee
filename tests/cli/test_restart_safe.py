"""`quorate restart-safe`: the order is safe at each step, and who is not in it is safe at no step of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kraft import Message, Uuid
from quorate.metadata.partitions import RECOVERED, RECOVERING
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch
from quorate.records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tests.cli.directories import FIXTURES, Ran, run, write_checkpoint
from tests.cli.test_sql import a_cluster, asked, directory

TOPIC = 2
BROKER = 4
BROKERS = (1, 2, 3)
RACKS = {1: "a", 2: "a", 3: "b"}
Isrs = Mapping[str, Sequence[int]]


def cluster(
    path: Path,
    isrs: Isrs,
    *,
    fenced: Sequence[int] = (),
    leaving: Sequence[int] = (),
    configs: Mapping[str, str] | None = None,
    recovery: int = RECOVERED,
    own: Mapping[int, str] | None = None,
) -> Path:
    """A checkpoint of three brokers, and of topics with one partition on all of them, but for that named `alone`."""
    state = ClusterState()
    records: list[Message] = [FeatureLevelRecord("metadata.version", 25)]
    records += [
        RegisterBrokerRecord(
            broker_id=each,
            incarnation_id=Uuid(bytes([each] * 16)),
            broker_epoch=each,
            rack=RACKS[each],
            fenced=each in fenced,
            in_controlled_shutdown=each in leaving,
            log_dirs=(directory(each),),
        )
        for each in BROKERS
    ]
    records += [ConfigRecord(BROKER, str(each), "min.insync.replicas", value) for each, value in (own or {}).items()]
    for number, (name, isr) in enumerate(isrs.items(), 100):
        topic = Uuid(bytes([number] * 16))
        replicas = tuple(isr) if name == "alone" else BROKERS
        records += [TopicRecord(name, topic), *(ConfigRecord(TOPIC, name, *each) for each in (configs or {}).items())]
        records.append(
            PartitionRecord(
                partition_id=0,
                topic_id=topic,
                replicas=replicas,
                isr=tuple(isr),
                leader=isr[0],
                leader_recovery_state=recovery,
                leader_epoch=1,
                partition_epoch=1,
                directories=tuple(map(directory, replicas)),
            )
        )
    state.apply_all(records, 0)
    write_checkpoint(path, state, OffsetAndEpoch(epoch=1, offset=40))
    return path


def restarts(path: Path, *options: object) -> tuple[list[int], dict[int, list[Any]]]:
    """The order, and what is harmed by each of the others."""
    ran = run("restart-safe", "--offline", path, "--json", *options)
    found, in_order = (
        ran.document["restarts"],
        [each["safe"] or bool(each["after"]) for each in ran.document["restarts"]],
    )
    asked_for = in_order if options.count("--broker") > 1 or "--rack" in options else [each["safe"] for each in found]
    assert (int(not all(asked_for)), "") == (ran.code, ran.err)
    assert [bool(each["harmed"]) for each in found] == [not each["safe"] for each in found]
    assert sorted(in_order, reverse=True) == in_order
    return (
        [each["broker"] for each, has_place in zip(found, in_order, strict=True) if has_place],
        {each["broker"]: each["harmed"] for each, has_place in zip(found, in_order, strict=True) if not has_place},
    )


def test_all_of_a_cluster_in_sync_are_safe(tmp_path: Path) -> None:
    path = cluster(tmp_path, {"orders": (2, 1, 3), "payments": (3, 1, 2)}, configs={"min.insync.replicas": "2"})

    assert ([1, 2, 3], {}) == restarts(path)
    assert ([1, 2], {}) == restarts(path, "--rack", "a")
    assert ([3, 1], {}) == restarts(path, "--broker", 3, "--broker", 1, "--broker", 3)


def test_who_lags_goes_first_since_it_is_in_sync_once_it_is_back(tmp_path: Path) -> None:
    path = cluster(tmp_path, {"orders": (1, 2), "payments": (3, 1, 2)}, configs={"min.insync.replicas": "2"})
    harmed = {
        "topic": "orders",
        "partition": 0,
        "harm": "under min ISR",
        "replicas": [1, 2, 3],
        "isr": [1, 2],
        "minIsr": 2,
    }

    assert ([3, 1, 2], {}) == restarts(path)
    assert ([], {1: [harmed], 2: [harmed]}) == restarts(path, "--broker", 1, "--broker", 2)


@pytest.mark.parametrize("state", [{"fenced": [3]}, {"leaving": [3]}, {"fenced": [3], "leaving": [3]}])
def test_who_is_away_comes_back_and_then_others_can_go(tmp_path: Path, state: Mapping[str, Sequence[int]]) -> None:
    path = cluster(tmp_path, {"orders": (1, 2)}, configs={"min.insync.replicas": "2"}, **state)

    assert ([3, 1, 2], {}) == restarts(path)


def test_what_is_safe_only_once_another_is_back_is_not_said_to_be_safe_now(tmp_path: Path) -> None:
    path = cluster(tmp_path, {"orders": (1, 2)}, configs={"min.insync.replicas": "2"}, fenced=[3])
    whole = run("restart-safe", "--offline", path, "--json")
    text = run("restart-safe", "--offline", path, "--broker", 3, "--broker", 1)

    assert 1 == whole.code
    assert [(3, True, [], 0), (1, False, [3], 1), (2, False, [3], 1)] == [
        (each["broker"], each["safe"], each["after"], len(each["harmed"])) for each in whole.document["restarts"]
    ]
    assert (0, True) == (text.code, "    1. broker 3\n    2. broker 1, not before 3 is back\n" in text.out), text


def test_who_harms_nothing_as_it_is_goes_before_who_brings_an_isr_up_to_the_limit(tmp_path: Path) -> None:
    path = cluster(tmp_path, {"orders": (1, 2)}, configs={"min.insync.replicas": "3"})

    assert ([1, 2, 3], {}) == restarts(path, "--broker", 3, "--broker", 1, "--broker", 2)


def test_the_only_replica_goes_offline_and_no_order_helps(tmp_path: Path) -> None:
    path = cluster(tmp_path, {"orders": (1, 2, 3), "alone": (2,)})
    order, harmed = restarts(path)

    assert [1, 3] == order
    assert {2: [("alone", "offline")]} == {
        broker: [(each["topic"], each["harm"]) for each in those] for broker, those in harmed.items()
    }


def test_an_election_that_loses_records_is_no_safe_restart(tmp_path: Path) -> None:
    path = cluster(tmp_path, {"orders": (1,)}, configs={"unclean.leader.election.enable": "true"})

    assert [2, 1, 3] == restarts(path)[0]  # once 2 is back, it is in sync
    assert ["unclean"] == [each["harm"] for each in restarts(path, "--broker", 1)[1][1]]


def test_a_second_unclean_election_loses_records_too(tmp_path: Path) -> None:
    """RECOVERING is not written again while it holds (KIP-704)."""
    path = cluster(tmp_path, {"orders": (2,)}, configs={"unclean.leader.election.enable": "true"}, recovery=RECOVERING)
    gone = run("what-if", "--offline", path, "--json", "--broker", 2).document["partitions"]

    assert ["unclean"] == [each["harm"] for each in restarts(path, "--broker", 2)[1][2]]
    assert ["unclean"] == [each["becomes"] for each in gone]


def test_a_leader_goes_by_a_min_isr_of_its_own(tmp_path: Path) -> None:
    """KIP-226: only where the topic sets none. Kafka's brokers refuse by that, too."""
    path = cluster(tmp_path, {"orders": (1, 2, 3), "alone": (1, 3, 2)}, own={2: "3"})  # alone is led by 3 then
    under = run("what-if", "--offline", path, "--json", "--broker", 1).document["after"]["underMinIsr"]

    assert {1: [("orders", "under min ISR", 3)]} == {
        broker: [(each["topic"], each["harm"], each["minIsr"]) for each in harmed]
        for broker, harmed in restarts(path)[1].items()
    }
    assert 1 == under
    (tmp_path / "set").mkdir()
    path = cluster(tmp_path / "set", {"orders": (1, 2, 3)}, own={2: "3"}, configs={"min.insync.replicas": "1"})
    assert ([1, 2, 3], {}) == restarts(path)


def foretold(path: Path, broker: int) -> bool:
    """Whether `what-if` says that nothing is harmed if this broker goes."""
    said = run("what-if", "--offline", path, "--json", "--broker", broker).document
    rows = {tuple(row["key"].values()): row for row in said["partitions"]}
    for row in asked("SELECT p.*, p.leader_recovery_state AS recovery FROM partitions p", path):
        change = rows.get((row["topic"], row["topic_id"], row["partition_id"]))
        if change is None:
            continue
        after = {**row, **change["after"]}
        limit = min(min_isr(path, row["topic"]), len(row["replicas"]))
        loses = row["leader"] != -1 and after["leader"] == -1
        if loses or change["becomes"] == "unclean" or len(after["isr"]) < limit <= len(row["isr"]):
            return False
    return True


def min_isr(path: Path, topic: str) -> int:
    query = "SELECT value FROM configs WHERE name = 'min.insync.replicas' AND resource_name IN ('{}', '{}')"
    found = asked(query.format(topic, topic), path) or asked(query.format("", ""), path)
    return int(found[0]["value"]) if found else 1


@pytest.mark.parametrize("seed", range(6))
def test_one_broker_is_safe_exactly_if_what_if_says_that_its_going_harms_nothing(tmp_path: Path, seed: int) -> None:
    write_checkpoint(tmp_path, a_cluster(seed), OffsetAndEpoch(epoch=1, offset=40))

    for broker in (1, 2, 3, 4):
        order, _ = restarts(tmp_path, "--broker", broker)
        assert foretold(tmp_path, broker) == (order == [broker]), broker


@pytest.mark.parametrize(
    "node", ["combined-static/node-1", "three-dynamic/controller-3", "voters-changed/controller-3"]
)
def test_of_a_kafkas_log_and_as_text(node: str) -> None:
    order, harmed = restarts(FIXTURES / node)
    ran = run("restart-safe", "--offline", FIXTURES / node)
    registered = [row["broker_id"] for row in asked("SELECT broker_id FROM brokers", FIXTURES / node)]

    assert sorted(registered) == sorted([*order, *harmed])
    assert [f"{place:5}. broker {each}" for place, each in enumerate(order, 1)] == [
        line.split(",")[0] for line in ran.out.splitlines() if ". broker" in line
    ]
    assert len(harmed) == ran.out.count("not safe, neither now nor after these")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--broker", 7], "broker 7 is not registered; registered are: 1, 2, 3"),
        (["--rack", "c"], "no registered broker is in rack 'c'; there are 'a', 'b'"),
    ],
)
def test_who_is_not_there_cannot_be_restarted(tmp_path: Path, options: list[object], words: str) -> None:
    path = cluster(tmp_path, {"orders": (1, 2, 3)})
    ran: Ran = run("restart-safe", "--offline", path, *options)

    assert (1, "", True) == (ran.code, ran.out, words in ran.err), ran
