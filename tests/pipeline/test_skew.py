"""Placement skew against counting by hand, of a Kafka cluster and of clusters by chance."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from quorate.cli.offline import load
from quorate.metadata.state import ClusterState
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.hand_made import Story, below, broker, change, config, fenced, silver_in, silver_tables, topic

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)

NODE: Final = FIXTURES / "three-dynamic" / "controller-3"
OFFSETS: Final = (81, 130, 186, 239)
"""While leaders move, in controlled shutdown, before a broker goes, and the end."""
RACKS: Final = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
COUNTS: Final = ("replicas", "leaders", "preferred_leaders", "isr_members")


def by_chance(seed: int) -> Story:
    """Five brokers in three racks, some of them fenced; one has replicas and is not registered."""
    chance = Random(seed)
    story = Story(*(broker(number, rack=rack) for number, rack in RACKS.items()))
    for number in range(12):
        layout = [chance.sample(range(1, 7), chance.randrange(1, 4)) for _ in range(chance.randrange(1, 6))]
        story.say(*topic(f"topic-{number}", *layout))
        story.say(change(f"topic-{number}", leader=-1, isr=tuple(layout[0][:1])))
    return story.say(*(fenced(number) for number in chance.sample(sorted(RACKS), 2)))


def racks() -> Story:
    """Partitions on as many racks as can be, on fewer, on one; and where a rack is not known."""
    story = Story(*(broker(number, rack=rack) for number, rack in RACKS.items()), broker(6))
    story.say(*topic("spread", [1, 3, 5], [2, 4], [1]), *topic("two-of-three", [1, 2, 3]), *topic("one", [3, 4]))
    return story.say(*topic("unknown", [1, 2, 6]), *topic("wide", [1, 2, 3, 4, 5]))


def one_rack() -> Story:
    """There is no other rack."""
    return Story(broker(1, rack="a"), broker(2, rack="a"), *topic("one", [1, 2])).say(config("one", "a", "b"))


@pytest.fixture(scope="module")
def stories() -> dict[str, Story]:
    """All clusters by name."""
    return {"racks": racks(), "one-rack": one_rack(), **{f"by-chance-{seed}": by_chance(seed) for seed in range(3)}}


@pytest.fixture(scope="module")
def skew(spark: SparkSession, stories: dict[str, Story], tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """The table of all of them."""
    from services.pipeline.gold.skew import placement_skew

    return placement_skew(silver_tables(spark, tmp_path_factory.mktemp("skew"), stories)).collect()


def counted(state: ClusterState) -> dict[str, Counter[int]]:
    """Of each broker, what it has."""
    found = [partition for topic in state.topics for partition in topic.partitions.values()]
    return {
        "replicas": Counter(each for partition in found for each in partition.replicas),
        "leaders": Counter(partition.leader for partition in found if partition.has_leader),
        "preferred_leaders": Counter(partition.preferred_leader for partition in found),
        "isr_members": Counter(each for partition in found for each in partition.isr),
    }


def states(state: ClusterState) -> dict[int, str]:
    """What each broker is, be it registered or not."""
    held = counted(state)["replicas"]
    named = dict.fromkeys(held, "unregistered")
    for each in state.brokers:
        shuts_down = "in controlled shutdown" if each.in_controlled_shutdown else "active"
        named[each.id] = "fenced" if each.fenced else shuts_down
    return named


def agree(state: ClusterState, rows: list[Row]) -> None:
    """Every broker's counts, shares and skews."""
    counts, named = counted(state), states(state)
    by_broker = {int(row["subject"]): row for row in rows if row["scope"] == "broker"}

    assert named == {broker_id: row["state"] for broker_id, row in by_broker.items()}
    registered = sum(each != "unregistered" for each in named.values())
    active = sum(each == "active" for each in named.values())
    for broker_id, row in by_broker.items():
        assert [counts[name][broker_id] for name in COUNTS] == [row[name] for name in COUNTS], broker_id
        share = counts["replicas"].total() / registered if named[broker_id] != "unregistered" else 0.0
        led = counts["leaders"].total() / active if named[broker_id] == "active" else 0.0

        assert (pytest.approx(share), pytest.approx(led)) == (row["fair_replicas"], row["fair_leaders"])
        assert (pytest.approx(counts["replicas"][broker_id] / share - 1) if share else None) == row["replica_skew"]
        assert (pytest.approx(counts["leaders"][broker_id] / led - 1) if led else None) == row["leader_skew"]


@pytest.mark.parametrize("offset", OFFSETS)
def test_brokers_of_a_released_kafka_as_of_any_offset(lake: ParquetTables, offset: int) -> None:
    from services.pipeline.gold.skew import placement_skew

    rows = placement_skew(below(silver_in(lake), offset)).collect()

    assert {offset} == {row["as_of_offset"] for row in rows}
    agree(load(NODE, as_of=offset).state, rows)


@pytest.mark.parametrize("cluster", [f"by-chance-{seed}" for seed in range(3)])
def test_brokers_are_those_that_are_counted_by_hand(skew: list[Row], stories: dict[str, Story], cluster: str) -> None:
    state = ClusterState()
    for offset, _, record in stories[cluster].logged():
        assert record is not None
        state.apply(record, offset)
    rows = [row for row in skew if row["cluster_id"] == cluster]

    agree(state, rows)
    assert {"fenced", "unregistered", "active"} == {row["state"] for row in rows if row["scope"] == "broker"}


@pytest.mark.parametrize("cluster", [f"by-chance-{seed}" for seed in range(3)])
def test_a_rack_is_its_brokers_together(skew: list[Row], cluster: str) -> None:
    rows = [row for row in skew if row["cluster_id"] == cluster]
    by_rack = {row["subject"]: row for row in rows if row["scope"] == "rack"}

    assert set(RACKS.values()) == set(by_rack)
    for rack, row in by_rack.items():
        members = [each for each in rows if each["scope"] == "broker" and each["rack"] == rack]
        for name in (*COUNTS, "fair_replicas", "fair_leaders", "brokers"):
            assert pytest.approx(sum(each[name] for each in members)) == row[name], (rack, name)


def test_partitions_on_fewer_racks_than_there_are_for_them(skew: list[Row]) -> None:
    rows = [row for row in skew if row["scope"] == "topic" and row["cluster_id"] in ("racks", "one-rack")]

    assert {
        ("racks", "spread"): (0, 0),
        ("racks", "two-of-three"): (1, 0),
        ("racks", "one"): (1, 1),
        ("racks", "unknown"): (0, 0),
        ("racks", "wide"): (0, 0),
        ("one-rack", "one"): (0, 0),
    } == {(row["cluster_id"], row["subject"]): (row["rack_violations"], row["on_one_rack"]) for row in rows}


@pytest.mark.usefixtures("whole_plans")
def test_no_row_passes_through_python(lake: ParquetTables) -> None:
    from services.pipeline.gold.skew import placement_skew

    plan = placement_skew(silver_in(lake))._jdf.queryExecution().toString()  # the only way to a plan as text

    assert [] == [name for name in ("BatchEvalPython", "ArrowEvalPython", "PythonRDD", "MapInArrow") if name in plan]
