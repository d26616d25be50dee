"""Availability and the audit timeline of logs by hand and by chance, against a walk over the records."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from quorate.metadata.partitions import RECOVERED, RECOVERING
from quorate.records import UnregisterBrokerRecord
from tests.metadata.histories import STEPS, abort, begin, end, unknown, write
from tests.pipeline.hand_made import (
    Story,
    broker,
    brokers,
    change,
    config,
    fenced,
    removed,
    silver_of,
    topic,
    unfenced,
)
from tests.pipeline.walks import agree, days_of, walk, without_aborted

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.timeout(1_800)


def _midnight() -> Story:
    """Offline from 23:30 to 00:45, over midnight; the other partition never."""
    story = Story(*brokers(1, 2), *topic("orders", [1], [2])).after(hours=11, minutes=30)
    story.say(change("orders", leader=-1), fenced(1)).after(minutes=75)
    return story.say(unfenced(1), change("orders", leader=1)).after(minutes=15).say(config("orders", "a", "b"))


def _ends_at_midnight() -> Story:
    """The last state begins before midnight, and the log ends with the day."""
    return Story(*brokers(1), *topic("orders", [1])).after(hours=12).say(config(None, "a", "b"))


def _min_isr() -> Story:
    """The topic's own min.insync.replicas is set, changed, removed; the default of all brokers stands behind it."""
    story = Story(*brokers(1, 2, 3), *topic("orders", [1, 2, 3]), *topic("plain", [1, 2, 3])).after(minutes=1)
    story.say(change("orders", isr=(1,)), change("plain", isr=(1, 2))).after(minutes=1)  # nothing set: one suffices
    story.say(config(None, "min.insync.replicas", "2")).after(minutes=2)  # orders is under it
    story.say(config("orders", "min.insync.replicas", "1")).after(minutes=4)
    story.say(config("orders", "min.insync.replicas", "3")).after(minutes=8)  # orders is under it
    story.say(config("orders", "min.insync.replicas", None)).after(minutes=16)  # and still under the default
    story.say(config(None, "min.insync.replicas", "7")).after(minutes=32)  # plain too: three of three are wanted
    story.say(change("plain", isr=(1, 2, 3))).after(minutes=64)
    return story.say(config(None, "min.insync.replicas", None)).after(minutes=128).say(config(None, "a", "b"))


def _again() -> Story:
    """A topic is deleted while under its min ISR, and another one of its name has nothing set."""
    story = Story(*brokers(1, 2), *topic("orders", [1, 2])).after(minutes=1)
    story.say(config("orders", "min.insync.replicas", "2"), change("orders", isr=(1,))).after(minutes=2)
    # The default changes while it is there, and no more of it is told after its end.
    story.say(config(None, "min.insync.replicas", "1")).after(minutes=2)
    story.say(removed("orders")).after(minutes=4)
    story.say(*topic("orders", [1, 2], generation=1), change("orders", generation=1, isr=(2,), leader=2))
    return story.after(minutes=8).say(config("other", "a", "b"))


def _unclean() -> Story:
    """Leaders from outside the ISR and ELR, told by the recovery state and without it; and clean ones."""
    names = ("told", "untold", "twice", "from-elr", "reassigned", "last-leader")
    story = Story(*brokers(1, 2, 3), *(each for name in names for each in topic(name, [1, 2]))).after(minutes=1)
    story.say(*(change(name, isr=(1,)) for name in names)).after(minutes=1)
    story.say(
        change("told", isr=(2,), leader=2, leader_recovery_state=RECOVERING),
        change("untold", isr=(2,), leader=2),  # below 3.2 no record says it
        change("twice", isr=(2,), leader=2, leader_recovery_state=RECOVERING),
        change("from-elr", isr=(), leader=-1, eligible_leader_replicas=(1, 2)),
        change("reassigned", replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1, 2)),
        change("last-leader", isr=(), leader=-1, last_known_elr=(1,)),
    ).after(minutes=1)
    story.say(
        change("told", isr=(2, 1), leader_recovery_state=RECOVERED),
        change("twice", isr=(1,), leader=1),
        change("from-elr", isr=(2,), leader=2, eligible_leader_replicas=(1,)),
        change("reassigned", isr=(3,), leader=3, replicas=(3,), adding_replicas=(), removing_replicas=()),
        change("last-leader", isr=(1,), leader=1, last_known_elr=(), leader_recovery_state=RECOVERING),
    )
    return story.after(minutes=1).say(change("told", leader=1))


def _clock() -> Story:
    """A second active controller's clock is a minute behind."""
    story = Story(*brokers(1), *topic("orders", [1])).after(minutes=10).say(change("orders", leader=-1))
    return story.after(minutes=-1).say(change("orders", leader=1)).after(minutes=5).say(config(None, "a", "b"))


def _never() -> Story:
    """Nothing ever happens to it, for three days."""
    return Story(*brokers(1, 2), *topic("orders", [1, 2])).after(days=3).say(config(None, "a", "b"))


def _too_soon() -> Story:
    """A broker is back before its session ends; later it is unregistered, and comes again as a new one."""
    story = Story(broker(1)).after(seconds=5).say(broker(1, epoch=2, fenced=True)).say(unfenced(1, epoch=2))
    story.after(minutes=1).say(UnregisterBrokerRecord(1, 2)).after(minutes=1)
    return story.say(broker(1, epoch=4, fenced=True))


STORIES: Final = {
    "midnight": _midnight,
    "ends-at-midnight": _ends_at_midnight,
    "min-isr": _min_isr,
    "again": _again,
    "unclean": _unclean,
    "clock": _clock,
    "never": _never,
    "too-soon": _too_soon,
}
BY_CHANCE: Final = {f"by-chance-{seed}": seed for seed in range(4)}
RECORD_COUNT: Final = 200


def by_chance(seed: int) -> Story:
    """A log that could have been; a record every eleven minutes."""
    records = write(Random(seed), RECORD_COUNT, (*STEPS, begin, end, abort, unknown))
    story = Story()
    for record in records:
        story.after(minutes=11).say(record)
    return story


@pytest.fixture(scope="module")
def stories() -> dict[str, Story]:
    """All clusters by name."""
    made = {name: story() for name, story in STORIES.items()}
    return made | {name: by_chance(seed) for name, seed in BY_CHANCE.items()}


@pytest.fixture(scope="module")
def gold(
    spark: SparkSession, stories: dict[str, Story], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, list[Row]]:
    """Availability and the audit timeline of every cluster, collected."""
    from services.pipeline.gold.audit import audit_timeline
    from services.pipeline.gold.availability import availability
    from services.pipeline.gold.churn import isr_churn
    from services.pipeline.silver.image import HISTORIES

    tables = silver_of(spark, tmp_path_factory.mktemp("failures"), stories)
    found = {name: tables.read(f"silver/{name}") for name in (*HISTORIES, "events")}
    silver = {name: table for name, table in found.items() if table is not None}
    made = {"availability": availability, "audit_timeline": audit_timeline, "isr_churn": isr_churn}
    return {name: of(silver).collect() for name, of in made.items()}


def of(rows: list[Row], cluster: str) -> list[Row]:
    """A cluster's rows."""
    return [row for row in rows if row["cluster_id"] == cluster]


@pytest.mark.parametrize("cluster", [*(name for name in STORIES if name != "clock"), *BY_CHANCE])
def test_every_partitions_days_are_those_of_a_walk(
    gold: Mapping[str, list[Row]], stories: dict[str, Story], cluster: str
) -> None:
    agree(walk(without_aborted(stories[cluster].logged())), days_of(of(gold["availability"], cluster)))


def test_offline_over_midnight_is_told_of_both_days(gold: Mapping[str, list[Row]]) -> None:
    rows = of(gold["availability"], "midnight")

    assert [(0, 21, 1800.0), (0, 22, 2700.0), (1, 21, 0.0), (1, 22, 0.0)] == sorted(
        (row["partition_id"], row["date"].day, row["offline_seconds"]) for row in rows
    )


def test_a_log_that_ends_at_midnight_has_nothing_of_the_next_day(gold: Mapping[str, list[Row]]) -> None:
    assert [(21, 12 * 3600.0)] == [
        (row["date"].day, row["seconds"]) for row in of(gold["availability"], "ends-at-midnight")
    ]


def test_under_min_isr_follows_the_config(gold: Mapping[str, list[Row]]) -> None:
    rows = {row["topic"]: row["under_min_isr_seconds"] for row in of(gold["availability"], "min-isr")}

    assert {"orders": (2 + 8 + 16 + 32 + 64) * 60.0, "plain": 32 * 60.0} == rows


def test_a_topic_made_again_has_nothing_of_the_old_ones_configs(gold: Mapping[str, list[Row]]) -> None:
    rows = sorted(of(gold["availability"], "again"), key=lambda row: row["seconds"])

    assert [(300.0, 240.0), (480.0, 0.0)] == [(row["seconds"], row["under_min_isr_seconds"]) for row in rows]


def test_unclean_elections_are_counted_and_told(gold: Mapping[str, list[Row]]) -> None:
    counted = {row["topic"]: row["unclean_elections"] for row in of(gold["availability"], "unclean")}
    told = [row["subject"] for row in of(gold["audit_timeline"], "unclean") if "unclean election" in row["sentence"]]

    assert {"told": 1, "untold": 1, "twice": 2, "from-elr": 0, "reassigned": 0, "last-leader": 1} == counted
    assert sorted(
        ["partition told-0", "partition untold-0", "partition twice-0", "partition twice-0", "partition last-leader-0"]
    ) == sorted(told)


def test_a_clock_that_goes_back_takes_nothing_away(gold: Mapping[str, list[Row]]) -> None:
    (row,) = of(gold["availability"], "clock")

    assert (14 * 60.0, 0.0, 1) == (row["seconds"], row["offline_seconds"], row["leader_changes"])


def test_a_broker_that_is_back_too_soon_is_fenced_by_its_registration(gold: Mapping[str, list[Row]]) -> None:
    told = [row["sentence"] for row in sorted(of(gold["audit_timeline"], "too-soon"), key=lambda row: row["offset"])]
    (row,) = of(gold["isr_churn"], "too-soon")

    assert [
        "broker 1 registers in epoch 1",
        "broker 1 registers in epoch 2, fenced; was unfenced in epoch 1",
        "broker 1 is unfenced",
        "broker 1 is unregistered",
        "broker 1 registers in epoch 4, fenced",
    ] == told
    assert (1, 1) == (row["fenced"], row["unfenced"])
