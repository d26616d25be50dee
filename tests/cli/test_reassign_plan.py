"""`quorate reassign plan`: what it says, the controller does; nothing moves without need, and racks stay apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.liveness import ControlState
from quorate.nouns import OffsetAndEpoch
from tests.cli.directories import FIXTURES, run, write_checkpoint
from tests.controller.clusters import Cluster

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
Replicas = tuple[int, ...]
Place = tuple[str, int]
WISHES: Mapping[str, Sequence[object]] = {
    "a drained broker": ("--drain", 2),
    "two drained brokers": ("--drain", 1, "--drain", 3),
    "an added broker": ("--add", 6),
    "one comes, one goes": ("--add", 6, "--drain", 4),
    "a higher factor": ("--replication-factor", 4),
    "a lower factor": ("--replication-factor", 1),
    "a lower factor, and a drained broker": ("--replication-factor", 2, "--drain", 5),
    "one topic": ("--drain", 2, "--topic", "payments"),
}


def a_cluster(seed: int, *, racks: Mapping[int, str | None] = RACKS) -> Cluster:
    """Six brokers, of which the last has nothing; partitions of 1 to 3 replicas, of which some are out of the ISR."""
    draw, cluster = Random(seed), Cluster()
    for broker_id, rack in racks.items():
        cluster.register(broker_id, rack=rack)
        cluster.unfence(broker_id)
    for name in ("orders", "payments"):
        factor = draw.choice((2, 3))
        cluster.topic(name, *(draw.sample(range(1, 6), factor) for _ in range(12)))
        for partition_id in range(0, 12, 3):
            isr = cluster.partition(name, partition_id).isr
            cluster.alter_isr(name, tuple(draw.sample(isr, len(isr) - 1)), partition_id)
    return cluster


def planned(cluster: Cluster, path: Path, *options: object) -> Any:  # Any: JSON values
    """What the command says, as JSON; the file for Kafka's tool is the same."""
    write_checkpoint(path, cluster.state, OffsetAndEpoch(epoch=1, offset=cluster.next_offset))
    ran = run("reassign", "plan", "--offline", path, "--json", *options)
    assert (0, "") == (ran.code, ran.err), ran
    kafkas = run("reassign", "plan", "--offline", path, "--output", "kafka", *options)
    assert ran.document["reassignment"] == kafkas.document
    return ran.document


def drained_by(options: Sequence[object]) -> set[object]:
    return {each for option, each in pairwise(options) if option == "--drain"}


def replicas(cluster: Cluster) -> dict[Place, Replicas]:
    return {(found.topic.name, found.partition_id): found.partition.replicas for found in cluster.state.topics.all()}


def of(document: Any) -> dict[Place, Replicas]:
    assert document["version"] == 1
    return {(each["topic"], each["partition"]): tuple(each["replicas"]) for each in document["partitions"]}


def carried_out(cluster: Cluster, document: Any) -> None:
    """The controller takes it, and the replicas whose brokers are there catch up."""
    asked = Topic.ReassignablePartition
    by_topic: dict[str, list[Topic.ReassignablePartition]] = {}
    for (name, partition_id), wanted in of(document).items():
        by_topic.setdefault(name, []).append(asked(partition_id, wanted))
    request = AlterPartitionReassignmentsRequest(
        topics=tuple(Topic(name, tuple(partitions)) for name, partitions in by_topic.items())
    )
    response = cluster.write(alter_partition_reassignments(request, settings=cluster.settings))
    assert {0} >= {each.error_code for topic in response.responses for each in topic.partitions}, response
    for found in list(cluster.state.topics.reassigning()):
        there = tuple(each for each in found.partition.replicas if cluster.state.brokers.is_active(each))
        cluster.alter_isr(found.topic.name, there, found.partition_id)


@dataclass(frozen=True, slots=True)
class Done:
    """A plan, and what the controller made of it."""

    options: Sequence[object]
    document: Any
    before: Mapping[Place, Replicas]
    in_sync: Mapping[Place, Replicas]
    after: Mapping[Place, Replicas]


@pytest.fixture(scope="module", params=[(name, seed) for name in WISHES for seed in range(2)], ids=str)
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Done:
    name, seed = request.param
    cluster, options = a_cluster(seed), WISHES[name]
    before = replicas(cluster)
    in_sync = {key: cluster.partition(*key).isr for key in before}
    document = planned(cluster, tmp_path_factory.mktemp("plan"), *options)
    carried_out(cluster, document["reassignment"])
    assert not list(cluster.state.topics.reassigning())
    return Done(options, document, before, in_sync, replicas(cluster))


def test_what_it_says_the_controller_does(done: Done) -> None:
    options, document, before, after = done.options, done.document, done.before, done.after
    leaders = Counter(each[0] for each in before.values())

    assert after == {**before, **of(document["reassignment"])}
    assert before == {**after, **of(document["previous"])}
    held, has = (Counter(each for those in state.values() for each in those) for state in (before, after))
    leads = Counter(each[0] for each in after.values())
    for cost in document["cost"]["brokers"]:
        broker = cost["broker"]
        assert (held[broker], has[broker]) == (cost["replicasBefore"], cost["replicasAfter"])
        assert (leaders[broker], leads[broker]) == (cost["preferredBefore"], cost["preferredAfter"])
        assert has[broker] - held[broker] == cost["coming"] - cost["going"]
    for drained in drained_by(options):
        there = [name for (name, _), those in after.items() if drained in those]
        assert there == ["orders"] * (held[drained] - sum(drained in before["payments", n] for n in range(12))) * (
            "payments" in options
        )


def test_nothing_is_copied_without_need(done: Done) -> None:
    options, document, before, after = done.options, done.document, done.before, done.after
    given = dict(zip(options[::2], options[1::2], strict=True))
    drained = drained_by(options)
    asked = {key: those for key, those in before.items() if given.get("--topic", key[0]) == key[0]}
    factor = given.get("--replication-factor")
    needed = sum(max(0, (factor or len(those)) - len(set(those) - drained)) for those in asked.values())

    if "--add" not in options:
        assert needed == document["cost"]["replicasCopied"]
    else:
        share = sum(map(len, after.values())) // (len(RACKS) - len(drained))
        has = Counter(each for those in after.values() for each in those)
        assert has[6] == share or (has[6] < share and not any(may_give(has, those) for those in after.values()))
        fits = sum(bool(drained & set(those)) and may_be_on_6(set(those) - drained) for those in before.values())
        assert needed + max(0, has[6] - fits) == document["cost"]["replicasCopied"]
        leads = Counter(each[0] for each in after.values())
        assert leads[6] >= len(after) // (len(RACKS) - len(drained)) - 1
    assert set(of(document["reassignment"])) <= set(asked)


def may_give(has: Counter[int], replicas: Replicas) -> bool:
    """Whether one of these could go to broker 6 from one that has more, and no rack get more than the most it has."""
    return 6 not in replicas and any(
        has[each] > has[6] + 1 and of_racks(other for other in (*replicas, 6) if other != each) <= of_racks(replicas)
        for each in replicas
    )


def of_racks(replicas: Iterable[int]) -> list[int]:
    """How many of them each rack has, the most first."""
    return sorted(Counter(RACKS[each] for each in replicas).values(), reverse=True)


def may_be_on_6(kept: set[int]) -> bool:
    """Whether no other rack has fewer of these replicas than that of broker 6."""
    of_rack = Counter(RACKS[each] for each in kept)
    return all(of_rack[RACKS[6]] <= of_rack[RACKS[each]] for each in {1, 2, 3, 5} - kept)


def test_a_partition_is_on_as_many_racks_as_it_can_be(done: Done) -> None:
    options, document, before, drained = done.options, done.document, done.before, drained_by(done.options)

    for key, after in of(document["reassignment"]).items():
        kept = [each for each in before[key] if each not in drained]
        new = len(after) - len(kept)
        if "--add" in options and not drained & set(before[key]):
            most = len({RACKS[each] for each in before[key]})
            assert most <= len({RACKS[each] for each in after}), (key, before[key], after)
            continue
        if new < 0:
            in_sync = set(done.in_sync[key]) - drained
            assert set(after) & in_sync or not in_sync, (key, after)
            continue
        others = [each for each in RACKS if each not in drained and each not in kept]
        most = max(len({RACKS[each] for each in (*kept, *more)}) for more in combinations(others, new))
        assert most == len({RACKS[each] for each in after}), (key, before[key], after)


def test_without_racks_replicas_go_to_who_has_the_fewest(tmp_path: Path) -> None:
    cluster = a_cluster(1, racks=dict.fromkeys(RACKS))
    document = planned(cluster, tmp_path, "--drain", 1)
    has = {each["broker"]: each["replicasAfter"] for each in document["cost"]["brokers"]}
    came = {each["broker"]: each["coming"] for each in document["cost"]["brokers"]}

    assert came[6] == has[6] == max(came.values())
    assert has[1] == 0


def test_who_is_added_gets_what_has_to_move_anyway(tmp_path: Path) -> None:
    cluster = Cluster().brokers(1, 2, 3, 4)
    cluster.topic("orders", *[(1, 2)] * 6)
    cost = planned(cluster, tmp_path, "--drain", 1, "--add", 4)["cost"]

    assert (6, [0, 6, 2, 4]) == (cost["replicasCopied"], [each["replicasAfter"] for each in cost["brokers"]])


def test_a_reassignment_under_way_goes_on_from_where_it_leads(tmp_path: Path) -> None:
    cluster = Cluster().brokers(1, 2, 3, 4)
    cluster.topic("orders", (1, 2))
    asked = Topic("orders", (Topic.ReassignablePartition(0, (1, 3)),))
    cluster.write(
        alter_partition_reassignments(AlterPartitionReassignmentsRequest(topics=(asked,)), settings=cluster.settings)
    )
    document = planned(cluster, tmp_path, "--drain", 1)

    assert {("orders", 0): (1, 3)} == of(document["previous"])
    assert {("orders", 0): (2, 3)} == of(document["reassignment"])  # it is going from 2, but is not gone
    assert any("1 of them are being reassigned now, orders-0" in note for note in document["notes"])
    carried_out(cluster, document["reassignment"])
    assert ((2, 3), False) == (cluster.partition("orders").replicas, cluster.partition("orders").is_reassigning)


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (("--drain", 3), (1, 2, 4)),
        (("--drain", 1), (4, 2, 5)),
        (("--replication-factor", 2), (1, 2)),
        (("--replication-factor", 4), (1, 2, 4, 5)),
        (("--add", 5), (1, 2, 5)),
    ],
    ids=str,
)
def test_what_changes_keeps_no_replica_on_a_broker_that_is_gone(
    tmp_path: Path, options: Sequence[object], after: Replicas
) -> None:
    cluster = Cluster().brokers(1, 2, 3, 4, 5)
    cluster.topic("orders", (1, 2, 3))
    cluster.topic("others", *[(1, 2)] * 3)
    cluster.write(unregister_broker(UnregisterBrokerRequest(3), settings=cluster.settings))
    document = planned(cluster, tmp_path, "--topic", "orders", *options)

    assert {("orders", 0): after} == of(document["reassignment"])
    carried_out(cluster, document["reassignment"])
    assert (after, False) == (cluster.partition("orders").replicas, cluster.partition("orders").is_reassigning)


def test_no_rack_gets_more_replicas_than_the_most_it_has(tmp_path: Path) -> None:
    cluster, racks = Cluster(), {1: "a", 2: "a", 3: "b", 4: "b", 5: "a"}
    for broker_id, rack in racks.items():
        cluster.register(broker_id, rack=rack)
        cluster.unfence(broker_id)
    cluster.topic("orders", *[(3, 4, 1, 2)] * 6)
    document = planned(cluster, tmp_path, "--add", 5)
    carried_out(cluster, document["reassignment"])

    assert 4 == document["cost"]["replicasCopied"]
    for replicas_after in replicas(cluster).values():
        assert {"a": 2, "b": 2} == Counter(racks[each] for each in replicas_after), replicas_after


@pytest.mark.parametrize(
    ("before", "away", "late", "options", "after"),
    [
        ((1, 2), [2], [], ("--drain", 1, "--replication-factor", 1), (3,)),
        ((1, 2), [], [2], ("--drain", 1, "--replication-factor", 1), (3,)),
        ((1, 2, 4), [2, 4], [], ("--drain", 1, "--replication-factor", 2), (3, 5)),
        ((1, 2, 4), [2], [4], ("--drain", 1, "--replication-factor", 2), (3, 4)),
        ((1, 2, 3), [2], [], ("--drain", 1, "--replication-factor", 1), (3,)),
        ((1, 2, 3), [2], [3], ("--replication-factor", 1), (1,)),
        ((1, 2, 3), [2], [3], ("--replication-factor", 2), (1, 3)),
        ((1, 2), [2], [], ("--drain", 1), (3, 2)),
        ((1, 2, 3), [2, 3], [], ("--replication-factor", 2), (1, 4)),
        ((1, 2, 3, 4), [2, 3], [4], ("--replication-factor", 3), (1, 5, 4)),
    ],
    ids=str,
)
def test_a_reassignment_does_not_wait_for_a_broker_that_is_away(
    tmp_path: Path,
    before: Replicas,
    away: Sequence[int],
    late: Sequence[int],
    options: Sequence[object],
    after: Replicas,
) -> None:
    cluster = Cluster().brokers(1, 2, 3, 4, 5)
    cluster.topic("orders", before)
    for broker_id in away:
        cluster.change(broker_id, ControlState.FENCED)
    if late:
        isr = cluster.partition("orders").isr
        cluster.alter_isr("orders", tuple(each for each in isr if each not in late))
    document = planned(cluster, tmp_path, *options)

    assert {("orders", 0): after} == of(document["reassignment"])
    carried_out(cluster, document["reassignment"])
    assert (after, False) == (cluster.partition("orders").replicas, cluster.partition("orders").is_reassigning)


def test_who_is_away_is_waited_for_if_nobody_else_can_have_a_copy_and_a_note_says_so(tmp_path: Path) -> None:
    cluster = Cluster().brokers(1, 2, 3)
    cluster.topic("orders", (1, 2, 3))
    for broker_id in (2, 3):
        cluster.change(broker_id, ControlState.FENCED)
    document = planned(cluster, tmp_path, "--replication-factor", 2)

    assert {("orders", 0): (1, 2)} == of(document["reassignment"])
    assert any("1 of them end only once brokers that are away are back" in each for each in document["notes"])


def test_who_is_added_does_not_get_back_alone_what_was_out_of_sync(tmp_path: Path) -> None:
    cluster = Cluster().brokers(1, 2, 3)
    cluster.topic("orders", *[(1, 2)] * 4)
    for partition_id in range(4):
        cluster.alter_isr("orders", (1,), partition_id)
    options = ("--drain", 1, "--replication-factor", 1, "--add", 2)
    document = planned(cluster, tmp_path, *options)

    assert {(3,)} == set(of(document["reassignment"]).values())


def test_where_only_replicas_out_of_sync_could_be_kept_there_is_no_plan(tmp_path: Path) -> None:
    cluster = Cluster().brokers(1, 2)
    cluster.topic("orders", (1, 2))
    cluster.alter_isr("orders", (1,))
    write_checkpoint(tmp_path, cluster.state, OffsetAndEpoch(epoch=1, offset=cluster.next_offset))
    ran = run("reassign", "plan", "--offline", tmp_path, "--drain", 1, "--replication-factor", 1)

    assert (1, "") == (ran.code, ran.out)
    assert "partition orders-0 is to have 1 replicas; of those that it could keep none is in sync" in ran.err


def test_a_factor_below_min_insync_replicas_is_noted(tmp_path: Path) -> None:
    cluster = Cluster().brokers(1, 2, 3)
    cluster.topic("orders", (1, 2, 3), (2, 3, 1), min_insync_replicas="2")
    cluster.topic("payments", (1, 2, 3), min_insync_replicas="1")
    words = "topics get fewer replicas than their min.insync.replicas"
    noted = {
        factor: [each for each in planned(cluster, tmp_path, "--replication-factor", factor)["notes"] if words in each]
        for factor in (1, 2)
    }

    assert {1: [f"1 {words}, orders for one: 1, and min.insync.replicas is 2"], 2: []} == noted


def test_as_text_and_of_a_kafkas_log() -> None:
    ran = run("reassign", "plan", "--offline", FIXTURES / "three-dynamic/controller-3", "--as-of", 207, "--drain", 5)

    assert (1, "") == (ran.code, ran.out)
    assert "partition cleared-0 is to have 2 replicas; brokers that can get some: 4" in ran.err
    options = ("--replication-factor", 1, "--as-of", 207)
    ran = run("reassign", "plan", "--offline", FIXTURES / "three-dynamic/controller-3", *options)
    assert (0, "") == (ran.code, ran.err)
    assert "11 partitions change, 0 replicas are copied to another broker, 11 are deleted" in ran.out
    assert "\n  cleared-0  5,4 → 5\n" in ran.out


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ([], 2, "give --add, --drain or --replication-factor"),
        (["--add", 6, "--json", "--output", "kafka"], 2, "--json and --output kafka: give one of them"),
        (["--add", 7], 1, "broker 7 is not registered; registered are: 1, 2, 3, 4, 5, 6"),
        (["--drain", 7], 1, "broker 7 is not registered; registered are: 1, 2, 3, 4, 5, 6"),
        (["--add", 6, "--drain", 6], 1, "broker 6 cannot be added and drained at once"),
        (["--add", 5], 1, "broker 5 can get no replicas: it is fenced"),
        (["--drain", 1, "--topic", "nothing"], 1, "there is no topic 'nothing'"),
        (["--replication-factor", 0], 1, "a replication factor of 0 is not possible: it is at least 1"),
        (["--replication-factor", 6], 1, "is to have 6 replicas; brokers that can get some: 1, 2, 3, 4, 6"),
    ],
)
def test_what_cannot_be_is_refused_with_the_rule(
    tmp_path: Path, options: Sequence[object], code: int, words: str
) -> None:
    cluster = a_cluster(0)
    cluster.change(5, ControlState.FENCED)
    write_checkpoint(tmp_path, cluster.state, OffsetAndEpoch(epoch=1, offset=40))
    ran = run("reassign", "plan", "--offline", tmp_path, *options)

    assert (code, True) == (ran.code, words in ran.err), ran
