"""What-if against the controller: it fences the same brokers, and every partition ends as was foretold."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from kraft import Message
from kraft.api.elect_leaders import ElectLeadersRequest
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Moment
from quorate.liveness import ControlState
from quorate.metadata.configs import BROKER
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.nouns import LOST_DIRECTORY
from quorate.records import ConfigRecord, PartitionRecord, TopicRecord
from tests.pipeline.hand_made import (
    Story,
    broker,
    brokers,
    change,
    config,
    feature,
    fenced,
    silver_of,
    topic,
    uuid_of,
)
from tests.pipeline.in_memory import InMemory
from tests.pipeline.test_replay import BY_COLUMN, IN_PYTHON

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from services.pipeline.gold.what_if import WhatIf

pytestmark = pytest.mark.timeout(1_800)

SETTINGS: Final = ControllerSettings()
BROKERS: Final = range(1, 7)
RACKS: Final = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
TOPIC_COUNT: Final = 60
LOSSES: Final[dict[str, dict[str, Any]]] = {
    "one": {"lost_brokers": (3,)},
    "two, in this order": {"lost_brokers": (5, 2)},
    "a rack": {"lost_racks": ("a",)},
    "a broker, then a rack": {"lost_brokers": (6,), "lost_racks": ("b",)},
    "nearly all": {"lost_brokers": (4, 1, 6, 3, 2)},
    "all": {"lost_brokers": (1, 2, 3, 4, 5, 6)},
    "preferred leaders afterwards": {"lost_brokers": (2,), "prefer": True},
    "earlier": {"lost_brokers": (1, 2), "at_offset": 60},
}
SEEDS: Final = range(4)


def directory(broker_id: int) -> Any:
    """The one log directory of a broker."""
    return uuid_of(f"directory {broker_id}")


def by_chance(seed: int) -> Story:
    """A cluster in any state: with and without ELR and unclean election, reassigning, with a directory lost."""
    chance = Random(seed)
    story = Story(feature("metadata.version", 25), feature("eligible.leader.replicas.version", 1))
    if seed % 2:
        story.say(feature("eligible.leader.replicas.version", 0))
    story.say(*(broker(each, rack=RACKS[each], log_dirs=(directory(each),)) for each in BROKERS))
    if seed % 3 == 0:
        story.say(config(None, "min.insync.replicas", "2"))
    for number in range(TOPIC_COUNT):
        story.say(*_topic(chance, f"topic-{number}", elr=not seed % 2))
        for name, values in (("min.insync.replicas", "123"), ("unclean.leader.election.enable", ("true", "false"))):
            if chance.random() < 0.4:
                story.say(config(f"topic-{number}", name, chance.choice(values)))
    if seed % 3 == 1:
        story.say(config(None, "unclean.leader.election.enable", "true"))
    return story.say(fenced(chance.choice(BROKERS)))


def _topic(chance: Random, name: str, *, elr: bool) -> list[Message]:
    replicas = tuple(chance.sample(BROKERS, chance.randrange(1, 5)))
    isr = tuple(chance.sample(replicas, chance.randrange(len(replicas) + 1)))
    others = [each for each in replicas if each not in isr]
    eligible = tuple(sorted(chance.sample(others, chance.randrange(len(others) + 1)))) if elr else ()
    moves = chance.random() < 0.3 and len(replicas) > 1
    led = chance.choice([chance.choice(isr), isr[0]]) if isr else -1
    partition = PartitionRecord(
        partition_id=0,
        topic_id=uuid_of(name),
        replicas=replicas,
        isr=isr,
        removing_replicas=chance.choice([(), replicas[:1]]) if moves else (),
        adding_replicas=chance.choice([(), replicas[-1:]]) if moves else (),
        leader=chance.choice([led, led, led, -1]),
        leader_recovery_state=chance.randrange(2),
        leader_epoch=3,
        partition_epoch=5,
        directories=tuple(chance.choice([directory(each), directory(each), LOST_DIRECTORY]) for each in replicas),
        eligible_leader_replicas=eligible or None,
        last_known_elr=chance.choice([None, (chance.choice(replicas),)]),  # kept while the ELR is off
    )
    return [TopicRecord(name, uuid_of(name)), partition]


def history(seed: int) -> Story:
    """A cluster that the controller itself has led through losses and returns."""
    chance = Random(seed)
    state, story = ClusterState(), Story()
    _say(story, state, feature("metadata.version", 25), feature("eligible.leader.replicas.version", 1))
    _say(story, state, *(broker(each, rack=RACKS[each]) for each in BROKERS), config(None, "min.insync.replicas", "2"))
    for number in range(TOPIC_COUNT):
        layout = [chance.sample(BROKERS, 3) for _ in range(2)]
        _say(story, state, *topic(f"topic-{number}", *layout))
    for _ in range(12):
        each = chance.choice(BROKERS)
        there = state.brokers.is_active(each)
        _say(story, state, *_decided(state, each, ControlState.FENCED if there else ControlState.UNFENCED))
        for name in chance.sample(range(TOPIC_COUNT), 8):
            _say(story, state, *_caught_up(state, f"topic-{name}"))
    return story


def _say(story: Story, state: ClusterState, *records: Message) -> None:
    for record in records:
        state.apply(record, len(story.logged()))
        story.say(record)


def _decided(state: ClusterState, broker_id: int, target: ControlState) -> tuple[Message, ...]:
    """What the controller writes to bring a broker into this state."""
    registered = state.brokers.get(broker_id)
    assert registered is not None, broker_id
    command = change_broker_state(broker_id=broker_id, broker_epoch=registered.epoch, target=target, settings=SETTINGS)
    return tuple(command(state, Moment(next_offset=0, now_ms=0)).records)


def _caught_up(state: ClusterState, name: str) -> list[Message]:
    """All replicas that are there are in sync again."""
    found = state.topics.by_name(name)
    assert found is not None, name
    return [
        change(name, number, isr=tuple(each for each in partition.replicas if state.brokers.is_active(each)))
        for number, partition in found.partitions.items()
        if partition.has_leader and not partition.elr
    ]


@pytest.fixture(scope="module")
def stories() -> dict[str, Story]:
    """All clusters by name."""
    made = {f"by-chance-{seed}": by_chance(seed) for seed in SEEDS}
    return made | {"history": history(7), "small": small()}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, stories: dict[str, Story], tmp_path_factory: pytest.TempPathFactory) -> InMemory:
    """Silver of all clusters."""
    return silver_of(spark, tmp_path_factory.mktemp("what-if"), stories)


def replayed(story: Story, at_offset: int | None) -> ClusterState:
    """The state of a story as of an offset, or at its end."""
    state = ClusterState()
    for offset, _, record in story.logged():
        if record is not None and (at_offset is None or offset < at_offset):
            state.apply(record, offset)
    return state


def decided(
    state: ClusterState, lost_brokers: tuple[int, ...], lost_racks: tuple[str, ...], *, prefer: bool
) -> dict[str, Partition]:
    """Every partition once the controller has fenced the brokers one by one."""
    in_racks = sorted(each.id for each in state.brokers if each.rack in lost_racks)
    offset = 1 << 20
    for broker_id in dict.fromkeys((*lost_brokers, *in_racks)):
        for record in _decided(state, broker_id, ControlState.FENCED):
            state.apply(record, offset := offset + 1)
    if prefer:
        command = elect_leaders(ElectLeadersRequest(election_type=0, topic_partitions=None), settings=SETTINGS)
        for record in command(state, Moment(next_offset=0, now_ms=0)).records:
            state.apply(record, offset := offset + 1)
    return {
        f"{topic.name}-{number}": partition for topic in state.topics for number, partition in topic.partitions.items()
    }


def shown(partition: Partition) -> tuple[Any, ...]:
    """What an election decides."""
    return (
        partition.leader,
        sorted(partition.isr),
        sorted(partition.elr),
        list(partition.last_known_elr),
        partition.leader_recovery_state,
        list(partition.replicas),
    )


def foretold(row: Row) -> tuple[Any, ...]:
    """The same of a row."""
    return (
        row["leader_after"],
        sorted(row["isr_after"]),
        sorted(row["elr_after"]),
        list(row["last_known_elr_after"]),
        row["leader_recovery_state_after"],
        list(row["replicas_after"]),
    )


def asked(tables: InMemory, cluster: str, **loss: Any) -> WhatIf:
    """What would be."""
    from services.pipeline.gold.what_if import what_if

    return what_if(tables, cluster, **loss)


CASES: Final = (
    ("by-chance-0", "two, in this order"),
    ("by-chance-0", "preferred leaders afterwards"),
    ("by-chance-1", "nearly all"),
    ("by-chance-1", "one"),
    ("by-chance-2", "a broker, then a rack"),
    ("by-chance-2", "nearly all"),
    ("by-chance-3", "all"),
    ("by-chance-3", "preferred leaders afterwards"),
    ("history", "earlier"),
    ("history", "a rack"),
)
"""Clusters of even numbers have ELR; all numbers differ in min.insync.replicas and unclean election."""


@pytest.mark.parametrize(("cluster", "loss"), CASES)
def test_every_partition_ends_as_the_controller_decides(
    tables: InMemory, stories: dict[str, Story], cluster: str, loss: str
) -> None:
    wanted = LOSSES[loss]
    before = replayed(stories[cluster], wanted.get("at_offset"))
    expected = decided(
        before, wanted.get("lost_brokers", ()), wanted.get("lost_racks", ()), prefer=wanted.get("prefer", False)
    )
    rows = {
        f"{row['topic']}-{row['partition_id']}": row for row in asked(tables, cluster, **wanted).partitions.collect()
    }

    assert {name: shown(partition) for name, partition in expected.items()} == {
        name: foretold(row) for name, row in rows.items()
    }
    assert {name for name, partition in expected.items() if not partition.has_leader} == {
        name for name, row in rows.items() if row["offline_after"]
    }


def small() -> Story:
    """Four partitions that a loss of brokers 1 and 2 treats differently."""
    story = Story(feature("metadata.version", 25), feature("eligible.leader.replicas.version", 1), *brokers(1, 2, 3))
    story.say(*topic("safe", [1, 3]), *topic("alone", [1]), *topic("pair", [1, 2]), *topic("all", [1, 2, 3]))
    story.say(config("all", "min.insync.replicas", "2"), config("all", "unclean.leader.election.enable", "true"))
    story.say(*topic("late", [2, 3]), change("late", isr=(2,)))
    return story.say(ConfigRecord(BROKER, "3", "min.insync.replicas", "2"))  # who leads by it next: KIP-226


def test_consequences_are_told_apart(tables: InMemory) -> None:
    found = asked(tables, "small", lost_brokers=(1, 2))
    rows = {row["topic"]: row for row in found.partitions.collect()}
    names = ("leader_after", "offline_after", "under_min_isr_after", "leader_moves", "unclean_election")

    assert {
        "safe": (3, False, True, True, False),
        "alone": (-1, True, True, False, False),
        "pair": (-1, True, True, False, False),
        "all": (3, False, True, True, False),
        "late": (-1, True, True, False, False),
    } == {topic: tuple(row[name] for name in names) for topic, row in rows.items()}


def test_brokers_have_their_load_before_and_after(tables: InMemory) -> None:
    rows = {row["broker_id"]: row for row in asked(tables, "small", lost_brokers=(1, 2)).brokers.collect()}
    names = ("lost", "leaders", "leaders_after", "leaders_gained", "leaders_lost", "isr_members_after", "replicas")

    assert {
        1: (True, 4, 0, 0, 4, 0, 4),
        2: (True, 1, 0, 0, 1, 0, 3),
        3: (False, 0, 2, 2, 0, 2, 3),
    } == {broker_id: tuple(row[name] for name in names) for broker_id, row in rows.items()}
    assert {1: 4, 2: 3, 3: 0} == {broker_id: row["replicas_to_move"] for broker_id, row in rows.items()}


def test_the_summary_counts(tables: InMemory) -> None:
    (row,) = asked(tables, "small", lost_brokers=(1,), lost_racks=("rack-2",)).summary.collect()

    assert {
        "brokers_left": 1,
        "partitions": 5,
        "offline": 0,
        "offline_after": 3,
        "under_min_isr": 0,
        "under_min_isr_after": 5,
        "leader_moves": 2,
        "unclean_elections": 0,
        "without_enough_brokers": 4,
        "lost_brokers": [1, 2],
    } == {name: row[name] for name in row.asDict() if name not in ("cluster_id", "as_of_offset", "as_of_time")}


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ({"lost_brokers": (9,)}, r"broker 9 is none of cluster 'small', which has \[1, 2, 3\]"),
        (
            {"lost_brokers": (9,), "at_offset": 4},
            r"broker 9 is none of cluster 'small' as of offset 4, which has \[1, 2\]",
        ),
        ({"lost_brokers": (1,), "at_offset": 2}, "broker 1 is none of cluster 'small' as of offset 2, which has none"),
        ({"lost_brokers": (1,), "at_offset": -5}, "offset -5 is negative"),
        ({"lost_racks": ("x",)}, r"rack 'x' is none of cluster 'small', which has \['rack-1', 'rack-2', 'rack-3'\]"),
        ({}, "nothing is lost"),
        ({"lost_brokers": (1,), "at_offset": 0}, "there is no cluster 'small' as of offset 0"),
    ],
)
def test_what_cannot_be_lost_is_named(tables: InMemory, loss: dict[str, Any], words: str) -> None:
    with pytest.raises(LookupError, match=words):
        asked(tables, "small", **loss)


@pytest.mark.usefixtures("whole_plans")
def test_only_a_clusters_state_passes_through_python_and_as_columns(tables: InMemory) -> None:
    plan = asked(tables, "small", lost_brokers=(1, 2)).partitions._jdf.queryExecution().toString()

    assert [BY_COLUMN] == [name for name in IN_PYTHON if name in plan]
