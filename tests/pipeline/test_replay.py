"""Silver and gold of a real cluster: the state as of any offset is the one that `ClusterState` replays."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from quorate.cli.offline import load
from tests.cli.directories import run
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.walks import state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from services.pipeline.tables import ParquetTables
    from services.pipeline.verify import Replays

pytestmark = pytest.mark.timeout(1_800)

NODE = FIXTURES / "three-dynamic" / "controller-3"
ALL_NODES = FIXTURES / "three-dynamic"
LOG_END = 239
BY_ROW = ("BatchEvalPython", "ArrowEvalPython", "PythonRDD", "MapInPandas", "FlatMapGroupsInPandas")
BY_COLUMN = "MapInArrow"
IN_PYTHON = (*BY_ROW, BY_COLUMN)
"""How a query plan names what Python workers do."""


def rows_of(tables: ParquetTables, name: str) -> list[Row]:
    """All rows of a table."""
    table = tables.read(name)
    assert table is not None, name
    return table.collect()


@pytest.fixture(scope="module")
def image(lake: ParquetTables) -> list[Row]:
    """The whole history of the image."""
    from services.pipeline.silver.image import HISTORIES, image_history

    found = {name: lake.read(f"silver/{name}") for name in HISTORIES}
    return image_history({name: table for name, table in found.items() if table is not None}).collect()


@pytest.fixture(scope="module")
def replays(lake: ParquetTables) -> Replays:
    """What verify_replay finds."""
    from services.pipeline.verify import verify_replay

    return verify_replay(lake)


def at(image: list[Row], offset: int) -> list[Row]:
    """The rows that hold with all records below `offset`."""
    return [
        row
        for row in image
        if row["valid_from_offset"] < offset and (row["valid_to_offset"] is None or row["valid_to_offset"] >= offset)
    ]


def test_the_state_as_of_every_offset_is_the_replayed_one(image: list[Row]) -> None:
    compared = 0
    for offset in range(1, LOG_END + 1):
        loaded = load(NODE, as_of=offset)
        if loaded.transaction is not None:
            continue  # half a transaction is no state
        compared += 1

        assert list(loaded.state.all_records(33)) == list(state_of(at(image, offset), offset).all_records(33)), offset
    assert compared > LOG_END - 10


def test_voters_are_those_of_the_log(image: list[Row]) -> None:
    (row,) = (row for row in at(image, LOG_END) if row["kind"] == "voters")
    voters = load(NODE, as_of=LOG_END).voters
    assert voters is not None

    assert sorted(each.voter_id for each in voters.voters) == sorted(
        each["voterId"] for each in json.loads(row["value"])["voters"]
    )


def test_every_checkpoint_of_every_node_is_what_the_log_rebuilds(replays: Replays) -> None:
    from services.pipeline.verify import COMPARED

    verdicts = Counter((row["snapshot_offset"], row["verdict"]) for row in replays.checkpoints.collect())
    formatted = "not compared: it is what a format left, and no state"

    assert [] == replays.differences.collect()
    assert {(0, formatted), (87, COMPARED), (171, COMPARED), (238, COMPARED)} == set(verdicts)


def test_a_state_that_is_not_the_checkpoints_is_named(lake: ParquetTables, replays: Replays) -> None:
    from pyspark.sql import functions as fn

    from services.pipeline.silver.image import HISTORIES, image_history
    from services.pipeline.verify import VERIFY, differences

    silver = {name: lake.read(f"silver/{name}") for name in HISTORIES}
    histories = {name: table for name, table in silver.items() if table is not None}
    # One partition's leader is another from the first checkpoint on, and one broker is unknown.
    wrong = fn.when(fn.expr("topic = 'orders' and partition_id = 2"), 77).otherwise(fn.col("leader"))
    histories["partition_history"] = histories["partition_history"].withColumn("leader", wrong)
    histories["broker_history"] = histories["broker_history"].where("broker_id != 4")
    said = {name: lake.read(f"{VERIFY}/{name}") for name in HISTORIES}
    image = image_history({name: table for name, table in said.items() if table is not None})
    rows = differences(image_history(histories), image, replays.checkpoints).collect()
    named = {(row["snapshot_offset"], row["kind"], row["replayed"] is None) for row in rows}

    partitions = {(end, "partition", False) for end in (87, 171, 238)}
    assert partitions | {(end, "broker", True) for end in (87, 171, 238)} == named
    assert {"partition", "broker"} == {row["kind"] for row in rows}


@pytest.mark.usefixtures("whole_plans")
def test_only_states_of_partitions_pass_through_python_and_as_columns(spark: SparkSession, lake: ParquetTables) -> None:
    from services.pipeline import bronze, gold
    from services.pipeline.gold.audit import audit_timeline
    from services.pipeline.gold.availability import availability
    from services.pipeline.gold.causes import causes
    from services.pipeline.gold.churn import isr_churn
    from services.pipeline.gold.commit_slo import commit_slo
    from services.pipeline.gold.story import story
    from services.pipeline.silver.brokers import broker_history
    from services.pipeline.silver.events import events
    from services.pipeline.silver.image import HISTORIES, image_history
    from services.pipeline.silver.kept import kept_history
    from services.pipeline.silver.partitions import partition_history
    from services.pipeline.silver.topics import config_history, topic_history
    from services.pipeline.tables import frame_of

    records, snapshots = lake.read(bronze.RECORDS), lake.read(bronze.SNAPSHOTS)
    silver: dict[str, Any] = {name: lake.read(f"silver/{name}") for name in (*HISTORIES, "events")}
    assert records is not None
    assert snapshots is not None
    counted, topics = silver["events"], silver["topic_history"]
    frames = [
        events(records, bronze.whole_snapshots(snapshots)),
        topic_history(counted),
        config_history(counted, topics),
        broker_history(counted),
        kept_history(counted),
        image_history(silver),
        commit_slo(silver),
    ]
    computed = [
        partition_history(counted, counted).frame(),
        frame_of(audit_timeline(silver)),
        availability(silver).frame(),
        isr_churn(silver),
        story(silver),
        causes(silver),
    ]
    assert len(gold.TABLES) == 8  # of placement_skew and fleet_doctor their own tests read the plans
    for frame in frames:
        plan = plan_of(frame)

        assert [] == [name for name in IN_PYTHON if name in plan], plan
    for frame in computed:
        plan = plan_of(frame)

        assert [BY_COLUMN] == [name for name in IN_PYTHON if name in plan], plan


def plan_of(frame: DataFrame) -> str:
    """The query plan; there is no other way to it as text."""
    return str(frame._jdf.queryExecution())


# Gold against what was done to the cluster.


def test_the_audit_timeline_tells_every_topic_that_was_made(lake: ParquetTables) -> None:
    done = [json.loads(line) for line in (ALL_NODES / "timeline.json").read_text().splitlines()]
    made = [each["name"] for each in done if each["do"] == "createTopic" and "ok" in each["answer"]]
    told = sorted(rows_of(lake, "gold/audit_timeline"), key=lambda row: row["offset"])

    assert made == [row["subject"].removeprefix("topic ") for row in told if "is created with id" in row["sentence"]]


NOT_IN_TABLES = (
    r"controller [0-9]+ (becomes the active|registers again)|.* is written again|quorum voters |.*: (.*) → \2$"
)
NOT_IN_AUDIT = r"(partition|topic) .* is removed$|topic .*: .* → not set$|voter [0-9]+ "
"""What only one of both tells: records that change no row, the set of voters, and the rows that go with their topic."""


def test_command_and_pipeline_say_the_same_of_each_change(lake: ParquetTables) -> None:
    """What a transaction does the command tells at its end."""
    told = run("history", "--offline", NODE, "--json").documents
    by_command = Counter(each["sentence"] for each in told)
    by_pipeline = Counter(row["sentence"] for row in rows_of(lake, "gold/audit_timeline"))

    assert (by_command & by_pipeline).total() > 100
    assert [] == [each for each in by_pipeline - by_command if not re.match(NOT_IN_TABLES, each)]
    assert [] == [each for each in by_command - by_pipeline if not re.match(NOT_IN_AUDIT, each)]


def test_the_audit_timeline_tells_a_brokers_failure_in_order(lake: ParquetTables) -> None:
    rows = sorted(rows_of(lake, "gold/audit_timeline"), key=lambda row: row["offset"])
    told = [row["sentence"] for row in rows if row["offset"] in (81, 82, 86, 106, 108, 109)]

    assert [
        "partition plain-0 leader 5 → none; ISR 5 → none; ELR none → 5; last known ELR none → 5",
        "partition orders-0 leader 5 → 4; ISR 5,4 → 4; ELR none → 5",
        "broker 5 is fenced",
        "broker 5 registers in epoch 100, fenced",
        "broker 5 is unfenced",
        "partition plain-0 leader none → 5; ISR none → 5; last known ELR 5 → none; unclean election",
    ] == told


def test_the_story_tells_why_brokers_were_fenced_and_what_became_of_elrs_and_reassignments(lake: ParquetTables) -> None:
    """Broker 5 was killed and came back, twice stopped in order; 6 was stopped when it led nothing."""
    rows = sorted(rows_of(lake, "gold/story"), key=lambda row: (row["offset"], row["place"], row["sentence"]))
    words = ("fenced", "restarts", "ELR", "reassigned", "unclean")
    told = [(row["offset"], row["sentence"]) for row in rows if any(word in row["sentence"] for word in words)]

    assert [
        (18, "broker 5 is unfenced"),
        (20, "broker 4 is unfenced"),
        (86, "broker 5 is fenced: its session expired"),
        (89, "1 partition of single begins to be reassigned"),
        (95, "2 partitions of cleared withdraw members of their ELRs, which can no longer lead"),
        (100, "6 partitions of orders, plain, single withdraw members of their ELRs, which can no longer lead"),
        (106, "broker 5 restarts, with a new incarnation"),
        (108, "broker 5 is unfenced"),
        (109, "2 partitions of plain, single are led by unclean elections: their leaders may lack records"),
        (112, "1 partition of single has been reassigned"),
        (123, "1 partition of single begins to be reassigned"),
        (124, "1 partition of single has been reassigned"),
        (141, "broker 5 is fenced, which ends its controlled shutdown"),
        (147, "broker 5 restarts, with a new incarnation"),
        (149, "broker 5 is unfenced"),
        (183, "broker 6 is unfenced"),
        (186, "1 partition of guest has been reassigned"),
        (187, "broker 6 is fenced: its session expired, or it shut down while it led no partition"),
        (196, "controller 1 restarts, with a new incarnation"),
        (199, "controller 2 restarts, with a new incarnation"),
        (221, "broker 5 is fenced, which ends its controlled shutdown"),
        (238, "broker 4 is fenced, which ends its controlled shutdown"),
    ] == told


def test_events_of_one_offset_are_told_causes_first(lake: ParquetTables) -> None:
    rows = sorted(rows_of(lake, "gold/story"), key=lambda row: (row["offset"], row["place"]))

    assert [
        "2 partitions of plain, single lose their leaders",
        "8 partitions of cleared, orders, plain and 1 more topic come under min.insync.replicas",
    ] == [row["sentence"] for row in rows if row["offset"] == 78]
    assert [
        "2 partitions of plain, single have a leader again",
        "2 partitions of plain, single are led by unclean elections: their leaders may lack records",
        "2 partitions of plain, single are no longer under min.insync.replicas",
    ] == [row["sentence"] for row in rows if row["offset"] == 109]


def test_availability_is_what_the_log_says_summed_by_hand(lake: ParquetTables) -> None:
    expected, observed = offline_by_replay()
    rows = rows_of(lake, "gold/availability")
    found = {(row["topic"], row["partition_id"]): row["offline_seconds"] for row in rows}
    seconds = {(row["topic"], row["partition_id"]): row["seconds"] for row in rows}

    assert expected == pytest.approx(found, abs=0.001)
    assert observed == pytest.approx(seconds, abs=0.001)
    assert {datetime(2026, 11, 21, tzinfo=UTC).date()} == {row["date"] for row in rows}


def test_churn_counts_every_fencing(lake: ParquetTables) -> None:
    told = [row["sentence"] for row in rows_of(lake, "gold/audit_timeline")]
    fenced = {row["broker_id"]: row["fenced"] for row in rows_of(lake, "gold/isr_churn")}

    assert {broker: told.count(f"broker {broker} is fenced") for broker in fenced} == fenced
    assert fenced[5] >= 2


def offline_by_replay() -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], float]]:
    """Seconds without a leader, and seconds at all, of each partition, from one state after another."""
    from quorate.wire.batch import batches

    log = next((NODE / "__cluster_metadata-0").glob("*.log")).read_bytes()
    times = {}
    for _, header in batches(log):
        times.update(dict.fromkeys(range(header.base_offset, header.next_offset), header.base_timestamp))
    offline: dict[tuple[str, int], float] = {}
    observed: dict[tuple[str, int], float] = {}
    for offset in range(1, LOG_END):
        passed = (times[offset] - times[offset - 1]) / 1000
        for topic in load(NODE, as_of=offset).state.topics:
            for number, partition in topic.partitions.items():
                place = topic.name, number
                observed[place] = observed.get(place, 0.0) + passed
                offline[place] = offline.get(place, 0.0) + (0.0 if partition.has_leader else passed)
    return offline, observed
