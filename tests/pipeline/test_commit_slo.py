"""The commit SLO of hours whose every write is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.pipeline.test_replay import IN_PYTHON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(1_800)

NOON: Final = datetime(2026, 11, 21, 12)
EVENTS: Final = (
    "cluster_id string, offset bigint, epoch int, timestamp timestamp, type string, payload string, is_base boolean"
)


def writes(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    """The write path; what a row does not say is null."""
    from services.pipeline.silver.write_path import SCHEMA

    empty = spark.createDataFrame([], SCHEMA)
    full = [{name: row.get(name) for name in empty.columns} for row in rows]
    return spark.createDataFrame([tuple(row.values()) for row in full], empty.schema)


def write(
    number: int, committed_us: int | None, *, cluster: str = "one", hour: int = 12, **more: Any
) -> dict[str, Any]:
    return {
        "cluster_id": cluster,
        "trace_id": f"{number:032x}",
        "base_offset": number,
        "began_at": NOON.replace(hour=hour) + timedelta(seconds=number),
        "request_to_committed_us": committed_us,
        "appended_to_committed_us": None if committed_us is None else committed_us // 2,
        "is_whole": committed_us is not None,
        **more,
    }


def voters(*behind_us: int | None) -> list[dict[str, Any]]:
    """Voter 1 leads; 2, 3 and so on are so much behind it, or did not tell."""
    leader: dict[str, Any] = {"node_id": 1, "is_leader": True, "after_leader_us": 0}
    rest = [
        {"node_id": node_id, "is_leader": False, "after_leader_us": each} for node_id, each in enumerate(behind_us, 2)
    ]
    times = dict.fromkeys(("appended_at", "flushed_at", "flush_us"))
    return [{**each, **times} for each in (leader, *rest)]


def applies(*behind_us: int | None) -> list[dict[str, Any]]:
    """None for the writer's own."""
    return [
        {
            "service": "controller",
            "instance": f"controller-{number}",
            "node_id": number,
            "is_writer": each is None,
            "applied_at": None,
            "apply_us": 1,
            "after_commit_us": each,
        }
        for number, each in enumerate(behind_us, 1)
    ]


def events(spark: SparkSession, *rows: tuple[str, int, int, float, str | None]) -> DataFrame:
    """Cluster, offset, epoch, seconds since noon, and who leads from here on, if somebody new."""
    full = [
        (
            cluster,
            offset,
            epoch,
            NOON + timedelta(seconds=seconds),
            "NO_OP_RECORD" if leads is None else "LEADER_CHANGE",
            "{}" if leads is None else f'{{"version":0,"leaderId":{leads}}}',
            False,
        )
        for cluster, offset, epoch, seconds, leads in rows
    ]
    return spark.createDataFrame(full, EVENTS)


def by_hour(made: DataFrame, *columns: str) -> dict[tuple[str, int], tuple[Any, ...]]:
    return {(row["cluster_id"], row["hour"].hour): tuple(row[name] for name in columns) for row in made.collect()}


def test_percentiles_are_durations_that_were_measured(spark: SparkSession) -> None:
    from services.pipeline.gold.commit_slo import commit_slo

    # 1 to 100 ms, in no order; then one of an hour that has no other; a failed one, and one without a span.
    told = [write(number, (number * 37 % 100 + 1) * 1_000) for number in range(100)]
    told += [write(200, 3_000, hour=13), write(201, 5_000, cluster="two")]
    told += [write(300, None, error="NOT_CONTROLLER"), write(301, None)]
    nothing = events(spark, ("one", 0, 1, 0, "1"))
    made = commit_slo({"write_path": writes(spark, told), "events": nothing}, objective_ms=40)
    columns = (
        *("writes", "whole_writes", "failed_writes", "objective_ms", "within_objective"),
        *("request_to_committed_p50_us", "request_to_committed_p99_us"),
        *("appended_to_committed_p50_us", "appended_to_committed_p99_us"),
        *("election_count", "election_gaps"),
    )

    assert {
        ("one", 12): (102, 100, 1, 40, 0.4, 50_000, 99_000, 25_000, 49_500, 0, None),
        ("one", 13): (1, 1, 0, 40, 1.0, 3_000, 3_000, 1_500, 1_500, 0, None),
        ("two", 12): (1, 1, 0, 40, 1.0, 5_000, 5_000, 2_500, 2_500, 0, None),
    } == by_hour(made, *columns)


def test_the_slowest_follower_is_who_is_last_most_often(spark: SparkSession) -> None:
    from services.pipeline.gold.commit_slo import commit_slo

    told = [write(number, 10, voters=voters(500, 900 + number)) for number in range(6)]
    # Voter 2 is worse when it is last, but not as often.
    told += [write(number, 10, voters=voters(90_000, 100)) for number in range(6, 10)]
    told += [write(10, 10, voters=voters(-200, None))]
    # Nobody is behind in a write whose leader has no span of its flush.
    told += [write(11, 10, voters=[{**each, "after_leader_us": None} for each in voters(1, 2)])]
    told += [write(12, 10, hour=13)]
    nothing = events(spark, ("one", 0, 1, 0, "1"))
    made = commit_slo({"write_path": writes(spark, told), "events": nothing})

    assert {("one", 12): (3, 6 / 11, 905), ("one", 13): (None, None, None)} == by_hour(
        made, "slowest_follower", "slowest_follower_share", "slowest_follower_p99_us"
    )


def test_the_writers_own_apply_is_not_behind_the_commit(spark: SparkSession) -> None:
    from services.pipeline.gold.commit_slo import commit_slo

    told = [write(number, 10, applies=applies(None, number * 10, number * 10 + 5)) for number in range(1, 51)]
    made = commit_slo({"write_path": writes(spark, told), "events": events(spark, ("one", 0, 1, 0, "1"))})

    assert {("one", 12): (255, 500)} == by_hour(made, "committed_to_applied_p50_us", "committed_to_applied_p99_us")


def test_an_election_gap_is_from_the_last_record_of_an_epoch_to_the_leader_of_the_next(spark: SparkSession) -> None:
    from services.pipeline.gold.commit_slo import commit_slo

    log = events(
        spark,
        ("one", 0, 1, 0, "1"),
        ("one", 1, 1, 10, None),
        ("one", 2, 3, 12.5, "2"),  # nobody won epoch 2
        ("one", 3, 3, 20, None),
        ("one", 4, 4, 20.25, "3"),
        ("one", 5, 5, 3_600 + 5, "1"),  # in the next hour
        ("two", 0, 7, 0, "1"),  # one leader, no gap
        ("two", 1, 7, 5_000, None),
    )
    columns = ("election_count", "election_gap_ms_max", "election_gap_ms_sum", "election_gaps", "writes")
    alone = by_hour(commit_slo({"events": log}), *columns)

    assert {
        ("one", 12): (2, 2_500, 2_750, [gap(12.5, 1, 3, 2, 2_500), gap(20.25, 3, 4, 3, 250)], 0),
        ("one", 13): (1, 3_584_750, 3_584_750, [gap(3_605, 4, 5, 1, 3_584_750)], 0),
    } == {key: (*row[:3], [tuple(each) for each in row[3]], row[4]) for key, row in alone.items()}


def test_where_the_new_leaders_clock_is_behind_there_is_no_gap_and_it_is_told_by_how_much(spark: SparkSession) -> None:
    from services.pipeline.gold.commit_slo import commit_slo

    log = events(spark, ("one", 0, 1, 10, "1"), ("one", 1, 2, 8.5, "2"), ("one", 2, 3, 9, "3"))
    columns = ("election_count", "election_gap_ms_max", "election_gap_ms_sum", "election_gaps")
    (found,) = by_hour(commit_slo({"events": log}), *columns).values()

    assert (2, 500, 500) == found[:3]
    assert [gap(8.5, 1, 2, 2, 0, 1_500), gap(9, 2, 3, 3, 500)] == [tuple(each) for each in found[3]]


def test_the_columns_are_the_same_without_spans_and_no_row_passes_through_python(spark: SparkSession) -> None:
    from services.pipeline.gold.commit_slo import commit_slo

    log = events(spark, ("one", 0, 1, 0, "1"))
    with_spans = commit_slo({"write_path": writes(spark, [write(1, 10)]), "events": log})
    plan = with_spans._jdf.queryExecution().toString()  # the only way to a plan as text

    assert commit_slo({"events": log}).schema.simpleString() == with_spans.schema.simpleString()
    # The table itself was made of Python's rows here, and is scanned as such.
    assert [] == [name for name in IN_PYTHON if name != "PythonRDD" and name in plan], plan


def gap(seconds: float, from_epoch: int, to_epoch: int, leader_id: int, ms: int, behind_ms: int = 0) -> tuple[Any, ...]:
    return NOON + timedelta(seconds=seconds), from_epoch, to_epoch, leader_id, ms, behind_ms
