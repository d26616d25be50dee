"""What-if against the controller: it fences the same brokers, and every partition ends as was foretold."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from deploy.spark import HOW_TO_GET, is_installed
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET),
]

SETTINGS: Final = ControllerSettings()
BROKERS: Final = range(1, 7)
RACKS: Final = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
TOPIC_COUNT: Final = 60
LOSSES: Final[dict[str, dict[str, Any]]] = {
    "one": {"brokers": (3,)},
    "two, in this order": {"brokers": (5, 2)},
    "a rack": {"racks": ("a",)},
    "a broker, then a rack": {"brokers": (6,), "racks": ("b",)},
    "nearly all": {"brokers": (4, 1, 6, 3, 2)},
    "all": {"brokers": (1, 2, 3, 4, 5, 6)},
    "preferred leaders afterwards": {"brokers": (2,), "prefer": True},
    "earlier": {"brokers": (1, 2), "at_offset": 60},
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
    """Silver of two clusters."""
    some = {name: stories[name] for name in ("small", "by-chance-2")}
    return silver_of(spark, tmp_path_factory.mktemp("what-if"), some)


def replayed(story: Story, at_offset: int | None) -> ClusterState:
    """The state of a story as of an offset, or at its end."""
    state = ClusterState()
    for offset, _, record in story.logged():
        if record is not None and (at_offset is None or offset < at_offset):
            state.apply(record, offset)
    return state


def lost(state: ClusterState, brokers: tuple[int, ...], racks: tuple[str, ...]) -> list[int]:
    """Who goes, in this order."""
    in_racks = sorted(each.id for each in state.brokers if each.rack in racks)
    return list(dict.fromkeys((*brokers, *in_racks)))


def _serves(state: ClusterState, broker_id: int) -> bool:
    registered = state.brokers.get(broker_id)
    return registered is not None and not registered.fenced


def decided(
    state: ClusterState, lost_brokers: tuple[int, ...], lost_racks: tuple[str, ...], *, prefer: bool
) -> dict[str, Partition]:
    """Every partition once the controller has fenced the brokers one by one."""
    offset = 1 << 20
    for broker_id in lost(state, lost_brokers, lost_racks):
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


def asked(tables: InMemory, cluster: str | None, *, at_offset: int | None = None, **loss: Any) -> list[str]:
    """What would be."""
    from services.pipeline.gold.what_if import Loss, what_if

    return what_if(tables, cluster, Loss(**loss), at_offset=at_offset)


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
def test_every_partition_ends_as_the_controller_decides(stories: dict[str, Story], cluster: str, loss: str) -> None:
    from services.pipeline.gold.what_if import Loss, fates

    wanted = {name: value for name, value in LOSSES[loss].items() if name != "at_offset"}
    state, before = (replayed(stories[cluster], LOSSES[loss].get("at_offset")) for _ in range(2))
    out = [each for each in lost(state, wanted.get("brokers", ()), wanted.get("racks", ())) if _serves(state, each)]
    found = fates(state, out, Loss(**wanted), next_offset=1 << 20)
    was = {f"{each.topic}-{each.partition_id}": each.was for each in found}
    expected = decided(before, wanted.get("brokers", ()), wanted.get("racks", ()), prefer=wanted.get("prefer", False))

    assert {name: shown(partition) for name, partition in expected.items()} == {
        f"{each.topic}-{each.partition_id}": shown(each.will) for each in found
    }
    assert {name for name, partition in expected.items() if was[name].has_leader and not partition.has_leader} == {
        f"{each.topic}-{each.partition_id}" for each in found if each.goes_offline
    }


def small() -> Story:
    """Four partitions that a loss of brokers 1 and 2 treats differently."""
    story = Story(feature("metadata.version", 25), feature("eligible.leader.replicas.version", 1), *brokers(1, 2, 3))
    story.say(*topic("safe", [1, 3]), *topic("alone", [1]), *topic("pair", [1, 2]), *topic("all", [1, 2, 3]))
    story.say(config("all", "min.insync.replicas", "2"), config("all", "unclean.leader.election.enable", "true"))
    story.say(*topic("late", [2, 3]), change("late", isr=(2,)))
    return story.say(ConfigRecord(BROKER, "3", "min.insync.replicas", "2"))  # who leads by it next: KIP-226


def test_consequences_are_counted_and_told_of_brokers_and_partitions(tables: InMemory) -> None:
    assert [
        "cluster small as of offset 19, without broker 1, 2",
        "  5 partitions, 1 brokers left",
        "  offline: 0 → 3",
        "  under min ISR: 0 → 5",
        "  leaders that move: 2",
        "  unclean elections: 0",
        "  with more replicas than brokers are left: 4",
        "brokers",
        "  broker 1 (lost): leads 4 → 0, in ISRs 4 → 0",
        "  broker 2 (lost): leads 1 → 0, in ISRs 3 → 0",
        "  broker 3 (rack rack-3): leads 0 → 2, in ISRs 2 → 2",
        "partitions that go offline",
        "  alone-0: replicas [1], ISR [1], led by 1",
        "  late-0: replicas [2, 3], ISR [2], led by 2",
        "  pair-0: replicas [1, 2], ISR [1, 2], led by 1",
    ] == asked(tables, "small", brokers=(1,), racks=("rack-2",))


def test_which_cluster_is_asked_must_be_said_where_there_are_several(tables: InMemory) -> None:
    with pytest.raises(LookupError, match=r"say which with --cluster-id: by-chance-2, .*small"):
        asked(tables, None, brokers=(1,))


def test_an_earlier_state_and_preferred_leaders_are_those_of_the_log(
    tables: InMemory, stories: dict[str, Story]
) -> None:
    before = replayed(stories["by-chance-2"], 60)
    was = [each.partition for each in before.topics.all()]
    without = sum(not each.has_leader for each in was)
    after = decided(before, (1, 2), (), prefer=True)
    found = asked(tables, "by-chance-2", brokers=(1, 2), prefer=True, at_offset=60)

    assert "cluster by-chance-2 as of offset 60, without broker 1, 2" == found[0]
    assert f"  offline: {without} → {sum(not each.has_leader for each in after.values())}" == found[2]
    sides = was, [*after.values()]
    assert {
        each: [count for led, isrs in map(counted, sides) for count in (led[each], isrs[each])] for each in BROKERS
    } == {int(broker): [int(led), int(isrs), int(leads), int(is_in)] for broker, led, leads, isrs, is_in in told(found)}


def counted(partitions: list[Partition]) -> tuple[Counter[int], Counter[int]]:
    """How many partitions each broker leads, and of how many it is in the ISR."""
    return Counter(each.leader for each in partitions), Counter(chain.from_iterable(each.isr for each in partitions))


def told(lines: list[str]) -> list[tuple[str, ...]]:
    """Of each broker its id, and how many it leads and how many ISRs it is in, before and after."""
    pattern = re.compile(r"  broker (\d+) \(.*\): leads (\d+) → (\d+), in ISRs (\d+) → (\d+)")
    return [match.groups() for line in lines if (match := pattern.fullmatch(line))]


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ({"brokers": (9,)}, r"broker 9 is none of cluster 'small', which has \[1, 2, 3\]"),
        (
            {"brokers": (9,), "at_offset": 4},
            r"broker 9 is none of cluster 'small' as of offset 4, which has \[1, 2\]",
        ),
        ({"brokers": (1,), "at_offset": 2}, "broker 1 is none of cluster 'small' as of offset 2, which has none"),
        ({"brokers": (1,), "at_offset": -5}, "offset -5 is negative"),
        ({"racks": ("x",)}, r"rack 'x' is none of cluster 'small', which has \['rack-1', 'rack-2', 'rack-3'\]"),
        ({}, "nothing is lost"),
        ({"brokers": (1,), "at_offset": 0}, "there is no cluster 'small' as of offset 0"),
    ],
)
def test_what_cannot_be_lost_is_named(tables: InMemory, loss: dict[str, Any], words: str) -> None:
    with pytest.raises(LookupError, match=words):
        asked(tables, "small", **loss)
