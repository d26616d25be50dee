"""A run over clusters that something happened to, from files to the page: that is said, and nothing else is."""

from __future__ import annotations

import re
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quorate.nouns import OffsetAndEpoch
from quorate.records import BrokerRegistrationChangeRecord, FeatureLevelRecord, KRaftVersionRecord, NoOpRecord
from services.pipeline.exits import DONE
from tests.pipeline.hand_made import Story, brokers, change, config, feature, fenced, topic, unfenced, voters
from tests.pipeline.logs import batches, checkpoint, history, node, segment
from tests.pipeline.test_availability import in_order
from tests.pipeline.test_main import run
from tests.pipeline.test_report import Page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1_800)


def idling(story: Story, seconds: int) -> Story:
    """An active controller that has nothing to do."""
    for _ in range(seconds):
        story.after(seconds=1).say(NoOpRecord())
    return story


def silent() -> Story:
    """Nobody writes for nine minutes; then node 2 leads, and last node 3, whose clock is behind.

    A replica is added that has not caught up; no record says what min.insync.replicas is.
    """
    story = Story(KRaftVersionRecord(0, 1), voters(1, 2, 3), feature("metadata.version", 25), *brokers(1, 2, 3, 4))
    story.say(*topic("moved", [1, 2, 3]), *topic("short", [1, 2]))
    story.say(change("moved", replicas=(1, 2, 3, 4), adding_replicas=(4,)), change("short", isr=(1,)))
    idling(story, 5).after(minutes=9).led_by(2).say(KRaftVersionRecord(0, 1))
    return idling(story, 5).after(seconds=-2).led_by(3)


def added() -> Story:
    """As above until the silence, and everything that is replicated is in sync: but one is to come.

    The clock of the second leader is 7 minutes behind, and that of the third 12 minutes ahead of the second's.
    """
    story = Story(feature("metadata.version", 25), *brokers(1, 2, 3), config(None, "min.insync.replicas", "1"))
    story.say(*topic("moved", [1, 2]), change("moved", replicas=(1, 2, 3), adding_replicas=(3,)))
    idling(story, 5).after(minutes=-7).led_by(2).say(fenced(3))
    idling(story, 5).after(minutes=12).led_by(3).say(unfenced(3))
    return idling(story, 5).after(minutes=-12).led_by(1)


def dead() -> Story:
    """A topic loses all its leaders: broker 12 is fenced, and later 11 shuts down, of which nobody else is in sync.

    Kafka fences 12 once more: a controller of Kafka does that when a session ends of a broker that had asked for it.
    """
    story = Story(feature("metadata.version", 25), *brokers(10, 11, 12), config(None, "min.insync.replicas", "1"))
    story.say(*topic("r1", [10, 11]), *topic("r2", [12, 11], [11, 12]), *topic("r3", [12]))
    story.after(minutes=1).say(
        fenced(12), *(change("r2", number, isr=(11,), leader=11) for number in (0, 1)), change("r3", leader=-1)
    )
    shut = BrokerRegistrationChangeRecord(11, 1, in_controlled_shutdown=1)
    story.after(minutes=2).say(shut, change("r1", isr=(10,)), *(change("r2", number, leader=-1) for number in (0, 1)))
    return story.after(minutes=1).say(fenced(11)).say(fenced(12))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables are."""
    return tmp_path_factory.mktemp("incident") / "lake"


def told(spark: SparkSession, lake: Path, *asked: str) -> list[str]:
    """The steps of a job that is done, each without how long it took."""
    with redirect_stderr(StringIO()) as said:
        code = run(spark, *asked, "--from", str(lake.parent / "logs"), "--to", str(lake))

    assert DONE == code, said.getvalue()
    return re.findall(r"^ *\d+\.\d s  (\w+: .*)$", said.getvalue(), re.MULTILINE)


def all_told(spark: SparkSession, lake: Path, report: Path) -> list[str]:
    return told(spark, lake, "run", "--min-isr", "2", "--report", str(report))


@pytest.fixture(scope="module")
def steps(spark: SparkSession, lake: Path) -> list[str]:
    """Those to the report of five clusters: of one all that is known is a name and a feature level.

    Bronze had one of them before: what has been read must be read again once it has grown.
    """
    logs = lake.parent / "logs"
    dead().write(logs / "dead", "dead")
    before = told(spark, lake, "ingest")
    silent().write(logs / "silent", "silent")
    added().write(logs / "added", "added")
    Story(feature("metadata.version", 25)).after(minutes=1).say(feature("a", 1)).write(logs / "empty", "empty")
    based = node(logs / "based", "based")
    segment(based, batches(history(1))[1:], base_offset=2)
    checkpoint(based, [FeatureLevelRecord("metadata.version", 25), *history(0)[0]], OffsetAndEpoch(offset=2, epoch=1))
    return before + all_told(spark, lake, lake.parent / "report.html")


@pytest.fixture(scope="module")
def page(steps: list[str], lake: Path) -> Page:
    """What a browser makes of their report."""
    assert steps
    return Page((lake.parent / "report.html").read_text())


def test_the_tables_are_the_same_in_the_session_for_many_and_each_step_says_how_long_it_took(
    spark: SparkSession, lake: Path, steps: list[str]
) -> None:
    from services.pipeline.memory import IS_SMALL, is_small

    assert is_small(spark)
    many = lake.with_name("many")
    spark.conf.set(IS_SMALL, "false")
    try:
        at_once = all_told(spark, many, many.with_suffix(".html"))
    finally:
        spark.conf.set(IS_SMALL, "true")

    first, *of_growth = steps
    one, others, every = (int(each.split()[1]) for each in (first, of_growth[0], at_once[0]))

    assert 0 < one < one + others == every
    assert {"report: findings", "report: timelines"} < set(at_once)
    assert at_once[1:] == of_growth[1:]
    assert many.with_suffix(".html").read_text() == (lake.parent / "report.html").read_text()


def findings(spark: SparkSession, lake: Path, code: str) -> list[tuple[str, str, str]]:
    rows = spark.read.parquet(str(lake / "gold" / "fleet_doctor")).where(f"code = '{code}'").collect()
    return [(row["cluster_id"], row["subject"], row["sentence"]) for row in rows]


def test_a_time_in_which_no_controller_wrote_is_drawn_and_found(spark: SparkSession, lake: Path, page: Page) -> None:
    clocks = ", by the clocks of two controllers, which may differ"
    told = {
        "silent": f"no controller wrote for 540.0 s{clocks}: from offset 17 in epoch 1"
        " until controller 2 became the active controller, in epoch 2",
        "added": f"no controller wrote for 720.0 s{clocks}: from offset 19 in epoch 2"
        " until controller 3 became the active controller, in epoch 3",
    }

    assert told == {cluster: sentence for cluster, _, sentence in findings(spark, lake, "CONTROLLER_SILENT")}
    assert [] == [sentence for sentence in told.values() if sentence not in page.text]
    drawn = [row["title"] for row in page.drawn if row.get("look") == "silent"]
    assert [
        "no controller wrote · 2026-11-21 12:00:05.000, for 9 min 0 s",
        "no controller wrote · 2026-11-21 11:53:10.000, for 12 min 0 s",
    ] == drawn


def test_a_last_epoch_that_is_one_record_is_drawn_and_told(page: Page) -> None:
    drawn = [row for row in page.drawn if "controller 3 is active in epoch 3" in row.get("title", "")]

    assert drawn
    assert [] == [row for row in drawn if row["begin"] == row["end"] and not row.get("grave")]


def test_of_a_cluster_without_partitions_no_availability_is_claimed(page: Page) -> None:
    assert "empty–" in page.text.replace("\n", "")


def test_a_min_isr_that_no_record_says_is_told_to_be_assumed(spark: SparkSession, lake: Path, page: Page) -> None:
    assert [
        (
            "silent",
            "partition short-0",
            "takes no writes with acks=all: replicas 1,2; ISR 1, until 2026-11-21 12:00:00.000 it was 1,2; "
            "min.insync.replicas 2 (assumed: no record says it)",
        )
    ] == [row for row in findings(spark, lake, "UNDER_MIN_ISR") if row[0] == "silent"]
    assert "min.insync.replicas for part of that time is in no record; 2 is assumed (--min-isr)" in page.text


def test_a_replica_that_is_being_added_is_not_missed(spark: SparkSession, lake: Path, page: Page) -> None:
    assert [("silent", "partition short-0")] == [
        row[:2] for row in findings(spark, lake, "UNDER_REPLICATED") if row[0] in ("silent", "added")
    ]
    assert "None at any time: ISRs were whole, partitions had leaders." in page.text


def test_a_clock_that_is_behind_is_named_and_no_gap_is_negative(spark: SparkSession, lake: Path, page: Page) -> None:
    rows = spark.read.parquet(str(lake / "gold" / "commit_slo")).where("cluster_id = 'silent'").collect()
    gaps = [(gap["to_epoch"], gap["gap_ms"], gap["clock_behind_ms"]) for row in rows for gap in row["election_gaps"]]

    assert [(2, 540_000, 0), (3, 0, 2_000)] == gaps
    assert "not known: the new active controller's clock is at least 2.0 s behind" in page.text


def test_times_that_go_back_are_shown_in_the_order_of_the_log(spark: SparkSession, lake: Path, page: Page) -> None:
    told = [
        "12:00:00.000", "broker 3 registers",
        "11:53:05.000", "controller 2 becomes the active controller, in epoch 2; times go back by 420.0 s here",
        "11:53:05.000", "broker 3 is fenced",
        "12:05:10.000", "controller 3 becomes the active controller, in epoch 3",
        "12:05:10.000", "broker 3 is unfenced",
        "11:53:15.000", "controller 1 becomes the active controller, in epoch 4; times go back by 720.0 s here",
    ]  # fmt: skip
    story = page.text[page.text.index("to cluster added") :]
    for words in told:
        assert words in story, words
        story = story[story.index(words) + len(words) :]
    assert "clock is behind the previous one's; the event of its election says by how much" in page.text
    assert "A new active controller's clock was up to 12 min 0 s behind the previous one's." in page.text


def test_nothing_is_drawn_to_end_before_it_begins(page: Page) -> None:
    lasting = [row for row in page.drawn if "begin" in row and "end" in row]

    assert lasting
    assert [] == [row for row in lasting if row["end"] < row["begin"]]
    fenced_in = [row for row in page.drawn if row.get("title", "").startswith("broker 3 is fenced · 2026-11-21 12:00")]
    assert ["broker 3 is fenced · 2026-11-21 12:00:00.000, for 5 min 10 s"] == [row["title"] for row in fenced_in]


def test_what_is_written_again_unchanged_is_no_change(page: Page) -> None:
    assert "feature kraft.version 0 → 1" in page.text
    assert "feature kraft.version is written again: 1" in page.text
    assert "kraft.version 1 → 1" not in page.text


def test_findings_have_a_cause_and_a_broker_to_start(spark: SparkSession, lake: Path, page: Page) -> None:
    rows = spark.read.parquet(str(lake / "gold" / "causes")).where("cluster_id = 'dead'").collect()
    fell = "broker 12 was fenced at 2026-11-21 12:01:00.000"
    shut = "broker 11 began a controlled shutdown at 2026-11-21 12:03:00.000"
    leads = "which may lead (ISR or ELR)"
    wrong = {
        (
            f"2 partitions without a leader (all 2 of topic r2): {fell}, {shut}",
            f"start broker 11, {leads}; then start broker 12",
        ),
        (f"1 partition without a leader (all 1 of topic r3): {fell}", f"start broker 12, {leads}"),
        (f"1 partition with a replica that is not in the ISR (all 1 of topic r1): {shut}", "start broker 11"),
    }

    assert wrong == {(row["sentence"], row["advice"]) for row in rows}
    assert [] == [sentence for sentence, _ in wrong if sentence not in page.text]
    assert (
        "1 partition with a leader and under min.insync.replicas (all 1 of topic short): broker 2 is there and not"
        in page.text
    )
    assert page.text.index("2 partitions without a leader") < page.text.index("Findings of the doctor")


def test_a_fencing_that_kafka_writes_once_more_is_one(spark: SparkSession, lake: Path, page: Page) -> None:
    gold = {name: spark.read.parquet(str(lake / "gold" / name)) for name in ("isr_churn", "audit_timeline", "story")}
    counted = gold["isr_churn"].where("cluster_id = 'dead' and broker_id in (11, 12)").collect()
    said = gold["audit_timeline"].where("cluster_id = 'dead' and subject = 'broker 12'").orderBy("offset").collect()
    events = gold["story"].where("cluster_id = 'dead' and sentence like 'broker 12 is fenced%'").collect()
    marks = {row["title"] for row in page.drawn if row.get("look") == "fencing" and "broker 12" in row["title"]}

    assert {11: 1, 12: 1} == {row["broker_id"]: row["fenced"] for row in counted}
    assert ["is fenced", "is written again, unchanged"] == [
        row["sentence"].removeprefix("broker 12 ") for row in said[-2:]
    ]
    assert 1 == len(events)
    assert {"12:01:00.000 broker 12 is fenced"} == marks


def test_the_story_is_told_in_order(spark: SparkSession, lake: Path, page: Page) -> None:
    rows = spark.read.parquet(str(lake / "gold" / "story")).where("cluster_id = 'dead' and offset > 11").collect()
    counts = ("offline", "under_min_isr", "under_replicated")
    told = [
        (row["time"].strftime("%H:%M"), row["look"], row["sentence"], *(row[name] for name in counts))
        for row in in_order(rows)
    ]

    assert [
        ("12:01", "bad", "broker 12 is fenced: its session expired", 1, 1, 2),
        ("12:01", "bad", "1 partition of r3 loses its leader", 1, 1, 2),
        ("12:01", "bad", "1 partition of r3 comes under min.insync.replicas", 1, 1, 2),
        ("12:03", "bad", "broker 11 begins a controlled shutdown", 3, 3, 3),
        ("12:03", "bad", "2 partitions of r2 lose their leaders", 3, 3, 3),
        ("12:03", "bad", "2 partitions of r2 come under min.insync.replicas", 3, 3, 3),
        ("12:04", "bad", "broker 11 is fenced, which ends its controlled shutdown", 3, 3, 3),
    ] == told
    assert page.text.index("to cluster dead") < page.text.index("to cluster added")  # the worst first
    places = [page.text.index(sentence) for _, _, sentence, *_ in told]
    assert places == sorted(places)
    assert places[-1] < page.text.index("Findings of the doctor")


def test_records_are_counted_of_logs_alone(spark: SparkSession, lake: Path, page: Page) -> None:
    logged = spark.read.parquet(str(lake / "bronze" / "records")).count()

    assert f"records{logged}of 5 clusters" in page.text
