"""The write path of writes whose every step is known, and of what real processes did."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from deploy.local.plan import make_plan
from kraft import Message
from quorate.metadata.versions import LATEST, record_version
from quorate.records import LeaderChangeMessage, NoOpRecord, encode_record, with_trace
from quorate.traces import SpanData
from quorate.wire.batch import ControlType, control_batch, data_batch
from quorate.wire.codec import encode
from tests.e2e.calls import eventually
from tests.e2e.cluster import Cluster
from tests.pipeline.logs import NOON_MS, node, segment
from tests.pipeline.test_replay import IN_PYTHON
from tests.pipeline.traces import REQUEST, noted, request, span, stored, traceparent, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)

NOON: Final = datetime(2026, 11, 21, 12)
DAY_US: Final = 86_400_000_000
VOTERS: Final = (1, 2, 3)
LOG: Final = (
    # epoch, the trace in the first record or who leads, records
    (1, "leader 1", 1),  # offset 0
    (1, 0xA, 2),  # 1: whole
    (1, None, 1),  # 3: nobody traced it
    (1, 0xB, 1),  # 4: some spans are lost
    (1, 0xC, 1),  # 5: all of them
    (2, "leader 2", 1),  # 6
    (2, 0xD, 1),  # 7: decided for offset 6, before the election was over
    (2, 0xE, 2),  # 8: large, so that it is two batches
    (2, 0xE, 1),  # 10
    (2, 0xF, 1),  # 11: two writes of one call
    (2, 0xF, 1),  # 12
)


def log() -> list[bytes]:
    """The batches of LOG, a ms apart."""
    made, offset = [], 0
    for epoch, what, count in LOG:
        at = {"base_offset": offset, "epoch": epoch, "timestamp_ms": NOON_MS + offset}
        if isinstance(what, str):
            voters = tuple(LeaderChangeMessage.Voter(voter_id=each) for each in VOTERS)
            value = encode(LeaderChangeMessage(leader_id=int(what[-1]), voters=voters, granting_voters=voters), 0)
            made.append(control_batch(**at, records=[(ControlType.LEADER_CHANGE, value)]))
        else:
            records: list[Message] = [NoOpRecord()] * count
            if what is not None:
                records[0] = with_trace(records[0], traceparent(what))
            values = [encode_record(each, record_version(each, LATEST)) for each in records]
            made.append(data_batch(**at, values=values))
        offset += count
    return made


def spans() -> list[SpanData]:
    """Spans of LOG, and of writes that are not in it."""
    lost = {f"append by {node_id}": f"quorum-{node_id}" for node_id in (1, 3)}
    some = [each for each in write(0xB, 4) if each.name != "write" and each.instance != lost["append by 3"]]
    large = write(0xE, 8, 3, epoch=2, leader=2)
    in_batches = [each for each in large if each.name != "append"]
    for node_id, end_us in ((1, 700), (2, 500), (3, 600)):
        for base, count, start_us in ((8, 2, 300), (10, 1, end_us - 50)):
            attributes = noted(node_id, epoch=2, base_offset=base, count=count)
            in_batches.append(
                span("append", f"quorum-{node_id}", start_us, end_us if base == 10 else 400, 0xE, attributes=attributes)
            )
    refused = noted(api="CreateTopics", base_offset=12, count=0)
    waited = noted(api="CreateTopics", epoch=2, end_offset=13)
    return [
        request(0xA, 0, 1_000),
        *write(0xA, 1, 2),
        # The observer starts anew a day later, and applies the log once more.
        span("apply", "observer-201", DAY_US, DAY_US + 50, 0xA, attributes=noted(epoch=1, base_offset=1, count=2)),
        *some,
        request(0xD, 0, 1_000, leader=2),
        *write(0xD, 7, epoch=2, leader=2, decided_base=6),
        request(0xE, 0, 1_000, leader=2),
        *in_batches,
        request(0xF, 0, 1_000, leader=2),
        *write(0xF, 11, epoch=2, leader=2),
        *write(0xF, 12, epoch=2, leader=2, at_us=2_000),
        # A request of the same call that was refused: it waited for the writes before it.
        span("write", "controller-2", 2_300, 2_310, 0xF, attributes=refused),
        span("commit", "controller-2", 2_310, 2_950, 0xF, attributes=waited),
        # The leader of epoch 1 had it on its own disk alone when another was elected.
        request(0x10, 0, 9_000),
        *write(0x10, 6, flushed_us={1: 500}, applied_us={}, committed_us=8_000, error="NOT_CONTROLLER"),
        # A read, and somebody else's trace.
        request(0x11, 0, 10, leader=2),
        span("write", "shop-1", 0, 10, 0x12),
    ]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ParquetTables:
    """Bronze and silver of LOG and its spans, which lie in another place and do not say whose they are."""
    from services.pipeline import bronze
    from services.pipeline.bronze.spans import SPANS, ingest_spans
    from services.pipeline.silver.events import events
    from services.pipeline.silver.write_path import write_path
    from services.pipeline.tables import ParquetTables

    place = tmp_path_factory.mktemp("write_path")
    segment(node(place / "node-1", "cluster one"), log())
    tables = ParquetTables(spark, str(place / "lake"))
    bronze.ingest(spark.read.format("kraft").load(str(place / "node-1")), tables)
    (place / "observer").mkdir()
    ingest_spans(spark, tables, str(stored(place / "observer" / "spans.db", spans())))
    records, told = tables.read(bronze.RECORDS), tables.read(SPANS)
    assert records is not None
    assert told is not None
    counted = tables.keep("silver/events", events(records, None))
    tables.keep("silver/write_path", write_path(told, counted))
    return tables


@pytest.fixture(scope="module")
def rows(tables: ParquetTables) -> Mapping[tuple[int, int], Mapping[str, Any]]:
    """The rows by trace and first offset."""
    table = tables.read("silver/write_path")
    assert table is not None
    found = [row.asDict(recursive=True) for row in table.collect()]
    by_place = {(int(row["trace_id"], 16), row["base_offset"]): row for row in found}
    assert len(found) == len(by_place), found
    return by_place


def test_each_write_is_a_row_and_says_what_is_missing(rows: Mapping[tuple[int, int], Mapping[str, Any]]) -> None:
    told = {place: (row["last_offset"], row["epoch"], row["leader_id"], row["missing"]) for place, row in rows.items()}

    nothing = ["request", "write", "apply", *(f"append by voter {each}" for each in VOTERS), "commit"]
    assert {
        (0xA, 1): (2, 1, 1, []),
        (0xB, 4): (4, 1, 1, ["request", "write", "append by voter 3"]),
        (0xC, 5): (None, 1, 1, nothing),
        (0xD, 7): (7, 2, 2, []),
        (0xE, 8): (10, 2, 2, []),
        (0xF, 11): (11, 2, 2, []),
        (0xF, 12): (12, 2, 2, []),
        (0x10, 6): (6, 1, 1, ["voters", "log"]),
    } == told
    assert [place for place, row in rows.items() if row["is_whole"]] == [
        place for place, (*_, missing) in told.items() if not missing
    ]
    assert {"cluster one", "observer"} == {row["cluster_id"] for row in rows.values()}
    assert "observer" == rows[0x10, 6]["cluster_id"]


def test_a_whole_write_says_when_and_how_long(rows: Mapping[tuple[int, int], Mapping[str, Any]]) -> None:
    row = dict(rows[0xA, 1])
    for name in ("trace_id", "request_span_id", "cluster_id", "base_offset", "last_offset", "epoch", "leader_id"):
        del row[name]

    assert {
        "request": REQUEST,
        "api": "CreateTopics",
        "began_at": at(0),
        "log_time": at(1_000),
        "requested_at": at(0),
        "decided_at": at(200),
        "appended_at": at(400),
        "flushed_at": at(500),
        "committed_at": at(900),
        "request_to_decided_us": 200,
        "decided_to_appended_us": 200,
        "appended_to_flushed_us": 100,
        "flushed_to_committed_us": 400,
        "appended_to_committed_us": 500,
        "request_to_committed_us": 900,
        "error": None,
        "voters": [voter(1, 500, 0, leads=True), voter(2, 700, 200), voter(3, 600, 100)],
        "applies": [
            apply("controller", 1, 200, None, 20),
            apply("controller", 2, 1_200, 300),
            apply("controller", 3, 1_300, 400),
            {**apply("observer", 201, 1_500, 600), "node_id": None},
        ],
        "missing": [],
        "is_whole": True,
    } == row


def test_what_nobody_told_is_null(rows: Mapping[tuple[int, int], Mapping[str, Any]]) -> None:
    row = rows[0xB, 4]

    assert [voter(1, 500, 0, leads=True), voter(2, 700, 200)] == row["voters"][:2]
    assert {**voter(3, 0, 0), **dict.fromkeys(("appended_at", "flushed_at", "flush_us", "after_leader_us"))} == row[
        "voters"
    ][2]
    assert (None, None, None) == (row["requested_at"], row["decided_at"], row["request_to_committed_us"])
    assert (at(180), at(400), 500) == (row["began_at"], row["appended_at"], row["appended_to_committed_us"])
    assert (at(5_000), None) == (rows[0xC, 5]["began_at"], rows[0xC, 5]["applies"])


def test_a_write_of_several_batches_is_flushed_with_its_last(
    rows: Mapping[tuple[int, int], Mapping[str, Any]],
) -> None:
    row = rows[0xE, 8]

    assert [(1, at(300), at(700)), (2, at(300), at(500)), (3, at(300), at(600))] == [
        (each["node_id"], each["appended_at"], each["flushed_at"]) for each in row["voters"]
    ]


def test_a_write_that_failed_has_no_commit(rows: Mapping[tuple[int, int], Mapping[str, Any]]) -> None:
    row = rows[0x10, 6]

    assert ("NOT_CONTROLLER", None, None, None) == (
        row["error"],
        row["committed_at"],
        row["request_to_committed_us"],
        row["log_time"],
    )


def test_two_writes_of_one_call_keep_their_own_times(rows: Mapping[tuple[int, int], Mapping[str, Any]]) -> None:
    told = {offset: (rows[0xF, offset]["decided_at"], rows[0xF, offset]["committed_at"]) for offset in (11, 12)}

    assert {11: (at(200), at(900)), 12: (at(2_200), at(2_900))} == told


def test_the_table_is_as_its_schema_says_and_no_row_passes_through_python(
    spark: SparkSession, tables: ParquetTables
) -> None:
    from services.pipeline.bronze.spans import SPANS
    from services.pipeline.silver.write_path import SCHEMA, write_path

    told, counted = tables.read(SPANS), tables.read("silver/events")
    assert told is not None
    assert counted is not None
    made = write_path(told, counted)
    plan = made._jdf.queryExecution().toString()  # the only way to a plan as text

    assert spark.createDataFrame([], SCHEMA).schema.simpleString() == made.schema.simpleString()
    assert [] == [name for name in IN_PYTHON if name in plan], plan


@pytest.mark.e2e
def test_every_topic_created_in_a_real_control_plane_has_a_whole_write_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    from services.pipeline import bronze
    from services.pipeline.bronze.spans import ingest_spans
    from services.pipeline.gold.commit_slo import commit_slo
    from services.pipeline.silver import image
    from services.pipeline.tables import ParquetTables, Remembered

    run = tmp_path / "run"
    created = asyncio.run(create_topics(run, count=3))
    tables = Remembered(ParquetTables(spark, str(tmp_path / "lake")))
    bronze.ingest(spark.read.format("kraft").load(str(run)), tables)
    counts = ingest_spans(spark, tables, str(run))
    records = tables.read(bronze.RECORDS)
    assert records is not None
    silver = image.build(records, None, tables)
    topics = silver["topic_history"].collect()
    paths = {row["trace_id"]: row for row in silver["write_path"].where("api = 'CreateTopics'").collect()}

    assert set(created) == {row["name"] for row in topics}
    assert set(created.values()) == set(paths)
    for topic in topics:
        path = paths[created[topic["name"]]]
        # A TopicRecord, and a PartitionRecord for each of its partitions.
        assert (topic["cluster_id"], topic["trace_id"]) == (path["cluster_id"], path["trace_id"])
        assert (topic["valid_from_offset"], topic["valid_from_offset"] + 2) == (
            path["base_offset"],
            path["last_offset"],
        )
        assert ([], True) == (path["missing"], path["is_whole"])
        assert list(VOTERS) == [each["node_id"] for each in path["voters"]]
        assert [path["leader_id"]] == [each["node_id"] for each in path["voters"] if each["is_leader"]]
        assert {*(f"controller-{each}" for each in VOTERS), "heartbeat-1", "observer-201"} == {
            each["instance"] for each in path["applies"]
        }
        assert 0 < path["appended_to_committed_us"] < path["request_to_committed_us"]
    events = tables.read("silver/events")
    assert events is not None
    slo = commit_slo({**silver, "events": events}).collect()

    assert (0, True) == (counts.quarantined, counts.spans > 100)
    assert silver["write_path"].count() == sum(row["writes"] for row in slo) >= len(created)
    assert all(row["request_to_committed_p50_us"] <= row["request_to_committed_p99_us"] for row in slo if row["writes"])


async def create_topics(directory: Path, *, count: int) -> dict[str, str]:
    """Topics of two partitions, through a control plane that has ended when this does: their traces by name."""
    plan = make_plan(directory)
    plan.observer.settings["observer.database.url"] = f"sqlite:///{directory}/spans.db"
    cluster, created = Cluster(plan), {}
    try:
        await cluster.start()
        for number in range(count):
            _, trace = await cluster.admin.create_topic(f"topic-{number}", partitions=2, replication_factor=3)
            created[f"topic-{number}"] = trace
        for trace in created.values():
            await eventually(partial(cluster.admin.trace, trace), has_arrived)
    finally:
        await cluster.stop()
    return created


def has_arrived(told: Sequence[SpanData]) -> bool:
    """A write by each voter, and an apply by each controller, the heartbeat service and the observer."""
    names = Counter(each.name for each in told)
    return (names["append"], names["apply"], names["commit"]) == (len(VOTERS), len(VOTERS) + 2, 1)


def at(us: int) -> datetime:
    return NOON + timedelta(microseconds=us)


def voter(node_id: int, end_us: int, behind_us: int, *, leads: bool = False) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "is_leader": leads,
        "appended_at": at(400),
        "flushed_at": at(end_us),
        "flush_us": end_us - 400,
        "after_leader_us": behind_us,
    }


def apply(service: str, node_id: int, end_us: int, behind_us: int | None, took_us: int = 50) -> dict[str, Any]:
    return {
        "service": service,
        "instance": f"{service}-{node_id}",
        "node_id": node_id,
        "is_writer": behind_us is None,
        "applied_at": at(end_us),
        "apply_us": took_us,
        "after_commit_us": behind_us,
    }
