"""Availability, the audit timeline and the story of logs by hand and by chance, against a walk over the records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from quorate.metadata.partitions import RECOVERED, RECOVERING
from quorate.nouns import uuid_text
from quorate.records import (
    BrokerRegistrationChangeRecord,
    KRaftVersionRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from tests.metadata.histories import STEPS, abort, begin, end, unknown, write
from tests.pipeline.hand_made import (
    Story,
    below,
    broker,
    brokers,
    change,
    config,
    controller,
    fenced,
    removed,
    silver_tables,
    topic,
    unfenced,
    uuid_of,
    voters,
)
from tests.pipeline.logs import NOON_MS
from tests.pipeline.walks import Standing, agree, days_of, standings, walk, without_aborted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from services.pipeline.report.health import Bucket

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
    # The default changes while it is there, and the story has no more of it after its end.
    story.say(config(None, "min.insync.replicas", "1")).after(minutes=2)
    story.say(removed("orders")).after(minutes=4)
    story.say(*topic("orders", [1, 2], generation=1), change("orders", generation=1, isr=(2,), leader=2))
    return story.after(minutes=8).say(config("other", "a", "b"))


def _unclean() -> Story:
    """Leaders from outside the ISR and ELR, found by the recovery state and without it; and clean ones."""
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


def _reassigned() -> Story:
    """A reassignment that is cancelled, and one whose target is changed while it is under way, to its end."""
    story = Story(*brokers(1, 2, 3, 4), *topic("orders", [1, 2])).after(minutes=1)
    story.say(change("orders", replicas=(1, 2, 3), adding_replicas=(3,))).after(minutes=1)
    story.say(change("orders", replicas=(1, 2), adding_replicas=())).after(minutes=1)
    story.say(change("orders", replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(2,))).after(minutes=1)
    story.say(change("orders", replicas=(4, 1, 2), adding_replicas=(4,))).after(minutes=1)
    return story.say(
        change("orders", isr=(4, 1), replicas=(4, 1), adding_replicas=(), removing_replicas=(), leader=4),
    )


def _clock() -> Story:
    """A second active controller's clock is a minute behind."""
    story = Story(*brokers(1), *topic("orders", [1])).after(minutes=10).say(change("orders", leader=-1))
    return story.after(minutes=-1).say(change("orders", leader=1)).after(minutes=5).say(config(None, "a", "b"))


def _clocks() -> Story:
    """Leaders whose clocks differ by minutes both ways: of the second it is 7 behind, of the third 12 ahead.

    Each of them sees partitions fail, the second and the last at times at which the one before did so, too.
    """
    story = Story(KRaftVersionRecord(0, 1), *brokers(1, 2), *topic("orders", [1, 2], [2, 1], [1, 2]))
    story.after(minutes=1).say(change("orders", 0, isr=(1,), leader=-1), fenced(1))
    story.after(minutes=5).say(unfenced(1), config(None, "min.insync.replicas", "2"))
    story.after(minutes=-5).led_by(2).say(change("orders", 1, isr=(2,), leader=-1), fenced(1))
    story.after(minutes=2).say(change("orders", 0, leader=1), unfenced(1))
    story.after(minutes=13).led_by(3).say(change("orders", 1, isr=(1, 2), leader=2))
    story.after(minutes=1).say(change("orders", 2, leader=-1), change("orders", 0, isr=(1, 2)))
    story.after(minutes=-1).led_by(1).say(change("orders", 2, leader=1))
    return story.after(minutes=-11).led_by(2).say(config("orders", "min.insync.replicas", "1"))


def _never() -> Story:
    """Nothing ever happens to it, for three days."""
    return Story(*brokers(1, 2), *topic("orders", [1, 2])).after(days=3).say(config(None, "a", "b"))


def _too_soon() -> Story:
    """A broker is back before its session ends; later it is unregistered, and comes again as a new one."""
    story = Story(broker(1)).after(seconds=5).say(broker(1, epoch=2, fenced=True)).say(unfenced(1, epoch=2))
    story.after(minutes=1).say(UnregisterBrokerRecord(1, 2)).after(minutes=1)
    return story.say(broker(1, epoch=4, fenced=True))


def _nodes() -> Story:
    """Everything that can happen to brokers, controllers and voters, and what changes of min.insync.replicas do."""
    story = Story(KRaftVersionRecord(0, 1), voters(1, 2, 3), controller(1), broker(4, log_dirs=(uuid_of("a"),)))
    story.say(broker(5), *topic("orders", [4, 5], [5, 4]), config("orders", "min.insync.replicas", "2"))
    story.after(minutes=1).led_by(2).say(voters(1, 2, 3))  # as it was
    story.after(minutes=1).say(voters(1, 3)).say(voters(1, 3, 7, without_directory=(3,)))
    story.after(minutes=1).say(controller(1), controller(1, incarnation="another"), UnregisterControllerRecord(1))
    dirs = tuple(uuid_of(name) for name in "ab")
    story.say(BrokerRegistrationChangeRecord(4, 1, log_dirs=dirs[1:]))
    story.say(BrokerRegistrationChangeRecord(4, 1, cordoned_log_dirs=dirs[1:]))
    story.say(broker(4, epoch=2, fenced=True), unfenced(4, epoch=2))
    story.say(BrokerRegistrationChangeRecord(4, 2, cordoned_log_dirs=dirs[1:]))  # it is known again, and the same
    story.say(BrokerRegistrationChangeRecord(4, 2, cordoned_log_dirs=(), log_dirs=dirs))
    story.after(minutes=1).say(change("orders", isr=(4,)), config("orders", "min.insync.replicas", "2"))
    story.say(config("orders", "min.insync.replicas", "1"), config(None, "min.insync.replicas", "2"))
    story.after(minutes=1).say(config("orders", "min.insync.replicas", None))
    story.say(change("orders", 1, isr=(), leader=-1)).after(minutes=1)
    return story.say(removed("orders"), config("other", "a", "b"))


STORIES: Final = {
    "nodes": _nodes,
    "midnight": _midnight,
    "ends-at-midnight": _ends_at_midnight,
    "min-isr": _min_isr,
    "again": _again,
    "unclean": _unclean,
    "reassigned": _reassigned,
    "clock": _clock,
    "clocks": _clocks,
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
def silver(
    spark: SparkSession, stories: dict[str, Story], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, DataFrame]:
    """Silver of every cluster."""
    return silver_tables(spark, tmp_path_factory.mktemp("failures"), stories)


@pytest.fixture(scope="module")
def gold(silver: Mapping[str, DataFrame]) -> Mapping[str, list[Row]]:
    """Availability, the audit timeline and the story of every cluster, collected."""
    from services.pipeline.gold.audit import audit_timeline
    from services.pipeline.gold.availability import availability
    from services.pipeline.gold.churn import isr_churn
    from services.pipeline.gold.story import story
    from services.pipeline.tables import frame_of

    made = {"availability": availability, "audit_timeline": audit_timeline, "isr_churn": isr_churn, "story": story}
    return {name: frame_of(of(silver)).collect() for name, of in made.items()}


WALKED: Final = (*(name for name in STORIES if name not in ("clock", "clocks")), *BY_CHANCE)
"""The clusters whose time never goes back, as it does not for the walk."""
IN_ORDER: Final = (*STORIES, *BY_CHANCE)


def of(rows: list[Row], cluster: str) -> list[Row]:
    """A cluster's rows."""
    return [row for row in rows if row["cluster_id"] == cluster]


def in_order(rows: list[Row]) -> list[Row]:
    """The sentences of a story's events."""
    return sorted(rows, key=lambda row: (row["offset"], row["place"], row["sentence"]))


@pytest.mark.parametrize("cluster", WALKED)
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


def test_each_event_has_the_time_of_its_own_controllers_clock(gold: Mapping[str, list[Row]]) -> None:
    rows = in_order(of(gold["story"], "clocks"))
    back = "; times go back by {} s here: its clock is behind, or the previous one was ahead"

    assert [
        ("12:01", "1 partition of orders loses its leader", 1),
        ("12:01", "1 partition of orders comes under min.insync.replicas", 1),
        ("12:01", "broker 1 is fenced: its session expired", 1),
        ("12:06", "broker 1 is unfenced", 1),
        ("12:06", "all brokers' default: min.insync.replicas not set → 2", 1),
        ("12:01", "controller 2 becomes the active controller, in epoch 2" + back.format("300.0"), 2),
        ("12:01", "1 partition of orders loses its leader", 2),
        ("12:01", "1 partition of orders comes under min.insync.replicas", 2),
        ("12:01", "broker 1 is fenced: its session expired, or it shut down while it led no partition", 2),
        ("12:03", "1 partition of orders has a leader again", 1),
        ("12:03", "broker 1 is unfenced", 1),
        ("12:16", "controller 3 becomes the active controller, in epoch 3", 0),
        ("12:16", "1 partition of orders has a leader again", 0),
        ("12:16", "1 partition of orders is no longer under min.insync.replicas", 0),
        ("12:17", "1 partition of orders loses its leader", 1),
        ("12:17", "1 partition of orders comes under min.insync.replicas", 1),
        ("12:17", "1 partition of orders is no longer under min.insync.replicas", 1),
        ("12:16", "controller 1 becomes the active controller, in epoch 4" + back.format("60.0"), 0),
        ("12:16", "1 partition of orders has a leader again", 0),
        ("12:16", "1 partition of orders is no longer under min.insync.replicas", 0),
        ("12:05", "controller 2 becomes the active controller, in epoch 5" + back.format("660.0"), 0),
        ("12:05", "topic orders: min.insync.replicas not set → 1", 0),
    ] == [(row["time"].strftime("%H:%M"), row["sentence"], row["offline"]) for row in rows if row["offset"] > 6]


@pytest.mark.parametrize("cluster", WALKED)
def test_as_many_end_under_min_isr_as_after_the_last_record(
    gold: Mapping[str, list[Row]], stories: dict[str, Story], cluster: str
) -> None:
    *_, last = standings(without_aborted(stories[cluster].logged()))
    ending = [row for row in of(gold["availability"], cluster) if row["ends_under_min_isr"]]

    assert last.under_min_isr == {(row["topic"], row["topic_id"], row["partition_id"]) for row in ending}
    assert len(last.under_min_isr) == len(ending)


def test_no_time_of_a_partition_is_negative(gold: Mapping[str, list[Row]]) -> None:
    rows = [row for cluster in ("clock", "clocks") for row in of(gold["availability"], cluster)]

    assert 4 == len(rows)
    assert [] == [row for row in rows if not 0 <= row["offline_seconds"] <= row["under_min_isr_seconds"]]


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


@pytest.fixture(scope="module")
def buckets(silver: Mapping[str, DataFrame]) -> list[Bucket]:
    """What the report's plot of counts is drawn from, of every cluster."""
    from services.pipeline.gold.availability import partition_spans
    from services.pipeline.report.health import read_buckets
    from services.pipeline.report.intervals import log_ends

    log = log_ends(silver["events"])
    return read_buckets(partition_spans(silver["partition_history"], silver["config_history"], log), log)


EVENTS: Final = {
    "lost": r"(\d+) partitions? of .* loses? (?:its leader|their leaders)$",
    "led": r"(\d+) partitions? of .* ha(?:s|ve) a leader again$",
    "under": r"(\d+) partitions? (?:of .* )?comes? under min",
    "enough": r"(\d+) partitions? (?:of .* )?(?:is|are) no longer under min",
    "removed": r"(\d+) partitions? of .* under min.insync.replicas (?:is|are) removed$",
}
"""What the story says of partitions, and how many they are."""


@pytest.mark.parametrize("cluster", IN_ORDER)
def test_the_story_has_the_counts_of_a_walk_at_every_event(
    gold: Mapping[str, list[Row]], stories: dict[str, Story], cluster: str
) -> None:
    """A moment is all records of one time that follow one another: a time may come again, by another clock."""
    walked = standings(without_aborted(stories[cluster].logged()))
    moments = [list(each) for _, each in groupby(walked, key=lambda standing: standing.ms)]
    rows = of(gold["story"], cluster)

    for row in rows:
        moment = next(each for each in reversed(moments) if each[0].offset <= row["offset"])
        found = row["offline"], row["under_min_isr"], row["under_replicated"]

        assert (moment[-1].ms, moment[-1].counts) == (round(row["time"].timestamp() * 1000), found), row
    assert rows


@pytest.mark.parametrize("cluster", IN_ORDER)
def test_the_story_tells_how_many_partitions_each_event_is_about(
    gold: Mapping[str, list[Row]], stories: dict[str, Story], cluster: str
) -> None:
    """Events within one moment are listed as often as they happen."""
    expected: Counter[tuple[int, str]] = Counter()
    before = Standing(-1, 0, frozenset(), frozenset(), frozenset(), frozenset())
    for after in standings(without_aborted(stories[cluster].logged())):
        gone = before.there - after.there
        changes = {
            "lost": after.offline - before.offline,
            "led": before.offline - after.offline - gone,
            "under": after.under_min_isr - before.under_min_isr,
            "enough": before.under_min_isr - after.under_min_isr - gone,
            "removed": before.under_min_isr & gone,
        }
        for what, keys in changes.items():
            expected[after.ms, what] += len(keys)
        before = after
    told: Counter[tuple[int, str]] = Counter()
    for row in of(gold["story"], cluster):
        for what, pattern in EVENTS.items():
            for number in re.findall(pattern, row["sentence"]):
                told[round(row["time"].timestamp() * 1000), what] += int(number)

    assert {at: count for at, count in expected.items() if count} == told


@pytest.mark.parametrize("cluster", WALKED)
def test_the_plot_of_counts_has_the_most_of_a_walk_in_every_interval(
    buckets: list[Bucket], stories: dict[str, Story], cluster: str
) -> None:
    from services.pipeline.report.health import level_steps

    ends = ends_of_moments(stories[cluster])
    own = [bucket for bucket in buckets if bucket.cluster_id == cluster]
    steps = level_steps(own, stories[cluster].end_ms)

    for step in steps:
        before = [ends[at] for at in ends if at < step.begin_ms][-1:]
        # The last interval has the log's last moment, too.
        until = step.end_ms + (step is steps[-1])
        inside = [ends[at] for at in ends if step.begin_ms <= at < until]
        most = zip(*(each.counts for each in (*before, *inside)), strict=True)
        offline, under, short = (max(each) for each in most)

        assert (short, under, offline) == tuple(step.counts), step
    assert bool(steps) == any(any(each.counts) for each in ends.values())


@pytest.mark.parametrize("part", [0.6, 1.0])
def test_the_doctor_and_the_causes_count_as_a_walk_does(
    silver: Mapping[str, DataFrame], stories: dict[str, Story], part: float
) -> None:
    from services.pipeline.gold.causes import causes
    from services.pipeline.gold.doctor import fleet_doctor

    offset = round(RECORD_COUNT * part)
    then = below(silver, offset)
    found, grouped = fleet_doctor(then).collect(), causes(then).collect()
    counted = 0
    for cluster in WALKED:
        *_, last = (each for each in standings(without_aborted(stories[cluster].logged())) if each.offset < offset)
        codes = Counter(row["code"] for row in of(found, cluster))
        by_cause: Counter[str] = Counter()
        for row in of(grouped, cluster):
            by_cause[row["code"]] += row["partitions"]
        short = last.under_replicated - last.under_min_isr
        counted += sum(last.counts)

        assert last.counts == (codes["NO_LEADER"], codes["UNDER_MIN_ISR"], codes["UNDER_REPLICATED"]), cluster
        assert (len(last.offline), len(last.under_min_isr - last.offline), len(short)) == (
            by_cause["NO_LEADER"],
            by_cause["UNDER_MIN_ISR"],
            by_cause["UNDER_REPLICATED"],
        ), cluster
    assert counted


def test_a_reassignment_ends_or_is_cancelled(gold: Mapping[str, list[Row]]) -> None:
    rows = [row for row in in_order(of(gold["story"], "reassigned")) if "reassign" in row["sentence"]]

    assert [
        (1, "1 partition of orders begins to be reassigned"),
        (2, "1 partition of orders has its reassignment cancelled"),
        (3, "1 partition of orders begins to be reassigned"),
        (4, "1 partition of orders begins to be reassigned"),
        (5, "1 partition of orders has been reassigned"),
    ] == [(row["time"].minute, row["sentence"]) for row in rows]


def test_what_happens_to_nodes_and_configs_is_in_the_story(gold: Mapping[str, list[Row]]) -> None:
    rows = in_order(of(gold["story"], "nodes"))
    one, other = uuid_text(uuid_of("a")), uuid_text(uuid_of("b"))

    assert [
        "the voters are 1,2,3",
        "controller 1 registers",
        "broker 4 registers, unfenced",
        "broker 5 registers, unfenced",
        "controller 2 becomes the active controller, in epoch 2",
        "voter 2 is removed; the voters are 1,3",
        "voter 7 is added, voter 3 is replaced; the voters are 1,3,7",
        "controller 1 registers again",
        "controller 1 restarts, with a new incarnation",
        "controller 1 is unregistered",
        f"log directory {one} of broker 4 is offline",
        f"log directory {other} of broker 4 is online",
        f"log directory {other} of broker 4 is cordoned",
        "broker 4 restarts without a controlled shutdown, with a new incarnation, and is fenced by that",
        "broker 4 is unfenced",
        f"log directory {one} of broker 4 is online",
        f"log directory {other} of broker 4 is uncordoned",
        "1 partition of orders comes under min.insync.replicas",
        "topic orders: min.insync.replicas 2 → 1; 1 partition is no longer under min.insync.replicas",
        "all brokers' default: min.insync.replicas not set → 2",
        "topic orders: min.insync.replicas 1 → not set; 1 partition comes under min.insync.replicas",
        "1 partition of orders loses its leader",
        "1 partition of orders comes under min.insync.replicas",
        "2 partitions of orders under min.insync.replicas are removed",
    ] == [row["sentence"] for row in rows]


def ends_of_moments(story: Story) -> dict[int, Standing]:
    """How things stand after the last record of each time."""
    walked = standings(without_aborted(story.logged()))
    return {ms: list(each)[-1] for ms, each in groupby(walked, key=lambda standing: standing.ms)}


def test_the_spans_that_turn_say_as_much_to_the_story_as_all(silver: Mapping[str, DataFrame]) -> None:
    from services.pipeline.gold.availability import ends_of, partition_spans
    from services.pipeline.gold.past import turning_spans
    from services.pipeline.gold.spans import settings
    from services.pipeline.gold.states import States
    from services.pipeline.gold.story import story

    history, configs, ends = silver["partition_history"], silver["config_history"], ends_of(silver["events"])
    few = turning_spans(States(history), settings(configs, ends)).localCheckpoint()

    assert few.count() < partition_spans(history, configs, ends).count()
    assert sorted(story(silver).collect(), key=repr) == sorted(story(silver, spans=few).collect(), key=repr)


def test_of_a_span_that_a_wrong_clock_made_long_only_its_ends_are_counted() -> None:
    """From 1970 to a noon of 2026, and of an ordinary partition three days: none of the years between."""
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    import pyarrow as pa

    from services.pipeline.gold.availability import days_of
    from services.pipeline.gold.spans import SCHEMA
    from services.pipeline.groups import Groups

    noon = NOON_MS * 1_000
    day = 86_400_000_000
    flags = ("offline", "under_min_isr", "min_isr_is_assumed", "led_anew", "unclean", "is_last")
    given = {
        **{name: pa.array(["c", "c"]) for name in ("cluster_id", "topic", "topic_id")},
        "partition_id": pa.array([0, 1], pa.int32()),
        "begin": pa.array([day // 4, noon - 2 * day], pa.int64()).cast(SCHEMA.field("begin").type),
        "end": pa.array([noon, noon], pa.int64()).cast(SCHEMA.field("end").type),
        **{name: pa.array([True, True]) for name in flags},
    }
    spans = pa.table(given)
    found = days_of(spans, Groups(spans["partition_id"].to_numpy()), 1).to_pylist()

    assert [(0, "1970-01-01", 64_800), (0, "2026-11-21", 43_200)] == [
        (row["partition_id"], str(row["date"]), row["offline_seconds"]) for row in found[:2]
    ]
    assert [43_200, 86_400, 43_200] == [row["seconds"] for row in found[2:]]
    assert [False, True] == [row["ends_under_min_isr"] for row in found[:2]]


def test_a_min_isr_that_is_set_before_a_partition_is_made_and_changed_last_counts_from_its_begin_on() -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    import pyarrow as pa

    from services.pipeline.gold.spans import SCHEMA, SpanSettings, spans_of
    from services.pipeline.groups import Groups
    from services.pipeline.silver.partition_arrays import SCHEMA as STATES

    at = datetime.fromtimestamp(NOON_MS / 1_000, UTC)
    lists = {"replicas": [1, 2], "isr": [1], "elr": [], "adding_replicas": [], "removing_replicas": []}
    state = {"cluster_id": "c", "topic": "orders", "topic_id": "t", "partition_id": 0, "leader": 1, "is_first": True}
    state |= {"valid_from_offset": 5, "valid_from_time": at, "leader_recovery_state": RECOVERED, **lists}
    states = pa.Table.from_pylist([state], STATES)
    types = {"topic": pa.string(), "broker_id": pa.int32(), "time": SCHEMA.field("begin").type, "min_isr": pa.int32()}
    changes = pa.schema({"cluster_id": pa.string(), "offset": pa.int64(), **types})
    of_topic = [
        {"cluster_id": "c", "topic": "orders", "offset": offset, "time": at, "min_isr": value}
        for offset, value in ((4, 2), (9, 1))
    ]
    ends = pa.table({"cluster_id": ["c"], "log_end_time": pa.array([at], types["time"])})
    nothing = changes.empty_table()
    given = SpanSettings(pa.Table.from_pylist(of_topic, changes), nothing, nothing, ends, 1)

    found = spans_of(states, Groups(states["partition_id"].to_numpy()), given)[0]

    assert [(5, 2, True, False), (9, 1, False, True)] == [
        (row["offset"], row["min_isr"], row["under_min_isr"], row["is_last"]) for row in found.to_pylist()
    ]
