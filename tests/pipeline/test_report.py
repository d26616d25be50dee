"""The report: what it says is what the tables say, whatever is in a log cannot break it, and it is always small."""

from __future__ import annotations

import base64
import doctest
import hashlib
import importlib
import importlib.util
import json
import pkgutil
from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kraft import Message, Uuid
from quorate.controller.secrets import REDACTED
from quorate.metadata.versions import LATEST, record_version
from quorate.nouns import OffsetAndEpoch
from quorate.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    LeaderChangeMessage,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from quorate.storage.names import PARTITION_DIRECTORY
from quorate.wire.batch import ControlType, control_batch, data_batch
from quorate.wire.codec import encode
from services.pipeline.exits import FOUND
from tests.cli.test_no_secret import FORMS, SECRET, with_secrets
from tests.pipeline.in_memory import InMemory
from tests.pipeline.logs import NOON_MS, TOPIC_ID, checkpoint, node, segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from services.pipeline.report.page import Answers
    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)

ROOT = Path(__file__).parents[2]
DAY_MS = 86_400_000
EVIL = '<script>alert("1")</script>'
RACK = "\"><img src=x onerror='alert(2)'>&amp;\u202e\x00"


class Page(HTMLParser):
    """What a browser makes of a page: its elements, their attributes, its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.code: list[str] = []
        """What runs."""
        self.plots: list[dict[str, Any]] = []
        """The specifications of the plots."""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.elements[-1] if self.elements else ("", {})
        if self.cdata_elem != "script":
            self.text += data
        elif (tag, attributes.get("type")) == ("script", "application/json"):
            self.plots.append(json.loads(data))
        else:
            self.code.append(data)

    @property
    def drawn(self) -> list[dict[str, Any]]:
        """Every row of every plot."""
        return [row for plot in self.plots for rows in plot["datasets"].values() for row in rows]

    @property
    def attributes(self) -> set[str]:
        """Every attribute's name."""
        return {name for _, attributes in self.elements for name in attributes}

    @property
    def tags(self) -> set[str]:
        """Every element's name."""
        return {tag for tag, _ in self.elements}


@pytest.fixture(scope="module")
def told(lake: ParquetTables) -> Answers:
    """What is said of the real cluster."""
    from services.pipeline.report import answers

    return answers(lake)


@pytest.fixture(scope="module")
def evil(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> InMemory:
    """All tables of two clusters, over three days, whose names are meant to be markup.

    Of one there is a checkpoint, which has other secrets than the log.
    """
    from services.pipeline import bronze, gold
    from services.pipeline.silver import image

    logs = tmp_path_factory.mktemp("evil")
    for cluster_id in ("one", "two"):
        segment(node(logs / cluster_id, cluster_id), evil_log(f"{EVIL}-{cluster_id}"))
    other = first_day(f"{EVIL}-one", secrets=2)
    checkpoint(logs / "one" / PARTITION_DIRECTORY, other, OffsetAndEpoch(offset=1 + len(other), epoch=1))
    tables = InMemory()
    bronze.ingest(spark.read.format("kraft").load(str(logs)), tables)
    records, snapshots = tables.read(bronze.RECORDS), tables.read(bronze.SNAPSHOTS)
    assert records is not None
    assert snapshots is not None
    image.build(records, bronze.whole_snapshots(snapshots), tables)
    gold.build(tables)
    return tables


@pytest.fixture(scope="module")
def evil_page(evil: InMemory) -> str:
    """Their page."""
    from services.pipeline.report import report

    return report(evil)


def first_day(topic: str, *, secrets: int) -> list[Message]:
    """A broker, a topic, a config and an ACL, and secrets with this number."""
    return [
        RegisterBrokerRecord(broker_id=1, broker_epoch=1, rack=RACK, fenced=False),
        TopicRecord(topic, TOPIC_ID),
        PartitionRecord(0, TOPIC_ID, (1, 2), (1, 2), (), (), 1, 0, 0, 0),
        ConfigRecord(2, topic, "x" * 40, EVIL + "y" * 30_000),
        AccessControlEntryRecord(
            id=Uuid(bytes(16)),
            resource_type=2,
            resource_name=EVIL,
            pattern_type=3,
            principal=f"User:{EVIL}",
            host="*",
            operation=2,
            permission_type=3,
        ),
        *(record for record, _ in with_secrets(secrets)),
    ]


def evil_log(topic: str) -> list[bytes]:
    """After the first day the partition is offline from the second day on, to the third."""
    days: list[list[Message]] = [
        first_day(topic, secrets=1),
        [PartitionChangeRecord(0, TOPIC_ID, isr=(1,))],
        [PartitionChangeRecord(0, TOPIC_ID, isr=(), leader=-1)],
    ]
    leads = encode(LeaderChangeMessage(0, 1, (), ()), 0)
    made = [
        control_batch(base_offset=0, epoch=1, timestamp_ms=NOON_MS, records=[(ControlType.LEADER_CHANGE, leads)]),
    ]
    offset = 1
    for day, records in enumerate(days):
        values = [encode_record(record, record_version(record, LATEST)) for record in records]
        made.append(data_batch(base_offset=offset, epoch=1, timestamp_ms=NOON_MS + day * DAY_MS // 2, values=values))
        offset += len(values)
    last = [encode_record(ConfigRecord(2, topic, "a", "b"), 0)]
    return [*made, data_batch(base_offset=offset, epoch=1, timestamp_ms=NOON_MS + 2 * DAY_MS, values=last)]


def modules() -> list[str]:
    """Every file of the report."""
    folder = Path(__file__).parents[2] / "services" / "pipeline" / "report"
    return [f"services.pipeline.report.{module.name}" for module in pkgutil.iter_modules([str(folder)])]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_hold(name: str) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")

    assert 0 == doctest.testmod(importlib.import_module(name)).failed


@pytest.mark.parametrize("name", modules())
def test_nothing_goes_through_python_row_by_row(name: str) -> None:
    source = (ROOT / name.replace(".", "/")).with_suffix(".py").read_text()

    assert [] == [word for word in ("udf(", "mapIn", "applyIn", "toPandas", ".rdd", "foreach") if word in source]


def test_the_page_of_a_real_cluster_stands_alone_and_is_small(told: Answers) -> None:
    from services.pipeline.report import library
    from services.pipeline.report.limits import BYTES_MAX, ReportLimits
    from services.pipeline.report.page import page

    made = page(told, ReportLimits())
    seen = Page(made)

    assert len(made.encode()) - len(library.script().encode()) < BYTES_MAX // 8
    assert len(made.encode()) < BYTES_MAX
    assert set() == {"link", "img", "iframe", "object", "svg"} & seen.tags
    assert set() == {"src", "srcset", "data", "xlink:href"} & seen.attributes
    assert {"#"} == {attributes["href"][:1] for tag, attributes in seen.elements if tag == "a"}
    own = made.replace(library.script(), "")
    assert [] == [word for word in ("http:", "https:", "url(", "@import") if word in own]
    labelled = [each for tag, each in seen.elements if each.get("class") == "drawn" and each.get("aria-label")]
    assert 4 <= len(seen.plots) == len(labelled)
    assert page(told, ReportLimits()) == made


def test_only_the_library_runs(evil_page: str) -> None:
    seen = Page(evil_page)
    (policy,) = [
        each["content"] or ""
        for tag, each in seen.elements
        if tag == "meta" and each.get("http-equiv") == "Content-Security-Policy"
    ]
    (code,) = seen.code
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    kinds = [each.get("type") for tag, each in seen.elements if tag == "script"]

    assert ["default-src 'none'", "style-src 'unsafe-inline'", f"script-src 'sha256-{digest}'"] == policy.split("; ")[
        :3
    ]
    assert ["application/json"] * len(seen.plots) + ["module"] == kinds


def test_its_sums_are_those_of_the_tables(told: Answers, lake: ParquetTables) -> None:
    availability = table(lake, "gold/availability").collect()
    whole = told.fleet.whole

    assert len(availability) > 10
    assert round(sum(row["offline_seconds"] for row in availability), 3) == round(whole.offline_seconds, 3)
    assert sum(row["leader_changes"] for row in availability) == whole.leader_changes
    assert table(lake, "silver/events").where("not is_base").count() == whole.records
    under = table(lake, "gold/fleet_doctor").where("code = 'UNDER_MIN_ISR'").count()
    assert 16 == under == whole.under_min_isr
    worst = max(availability, key=lambda row: row["offline_seconds"])
    assert (
        f"{worst['topic']}-{worst['partition_id']}"
        == told.days.rows[0].partition
        == told.drawn[0].partitions[0].partition
    )
    assert worst["offline_seconds"] == told.days.rows[0].offline_seconds
    drawn = [row for row in told.drawn[0].partitions if row.place == 1 and row.offline]
    assert round(1000 * worst["offline_seconds"]) == sum(row.end_ms - row.begin_ms for row in drawn)


def test_broker_lanes_are_without_gaps_and_as_the_history_says(told: Answers, lake: ParquetTables) -> None:
    states = [row for row in told.drawn[0].brokers if row.broker_id == 5]
    history = table(lake, "silver/broker_history").where("broker_id = 5").orderBy("valid_from_offset").collect()
    lasting = [row for row in history if row["valid_to_time"] != row["valid_from_time"]]
    words = [
        "fenced" if row["fenced"] else "leaving" if row["in_controlled_shutdown"] else "serving" for row in lasting
    ]
    merged = [word for place, word in enumerate(words) if place == 0 or words[place - 1] != word]

    assert merged == [row.state for row in states]
    assert [row.begin_ms for row in states[1:]] == [row.end_ms for row in states[:-1]]


def test_counts_of_partitions_not_well_are_those_of_a_plain_count(told: Answers, lake: ParquetTables) -> None:
    """Naive: at each moment at which anything changes, count. The most of each bucket is the most of its moments."""
    from services.pipeline.gold.availability import partition_spans
    from services.pipeline.report.health import level_steps
    from services.pipeline.report.intervals import log_ends, ms

    silver = {name: table(lake, f"silver/{name}") for name in ("partition_history", "config_history", "events")}
    spans = partition_spans(silver["partition_history"], silver["config_history"], log_ends(silver["events"]))
    rows = [
        (row["begin"], row["end"] + row["is_last"], (row["short"], row["under_min_isr"], row["offline"]))
        for row in spans.select(ms("begin"), ms("end"), "is_last", "short", "under_min_isr", "offline").collect()
    ]
    moments = sorted({moment for begin, end, _ in rows for moment in (begin, end)})
    counts = {
        moment: tuple(sum(flags[kind] for begin, end, flags in rows if begin <= moment < end) for kind in range(3))
        for moment in moments
    }
    drawn = told.drawn[0]
    steps = level_steps(drawn.buckets, drawn.cluster.end_ms)

    assert max(each[2] for each in counts.values()) > 1
    for kind in range(3):
        assert max(each[kind] for each in counts.values()) == max(step.counts[kind] for step in steps), kind
    for step in steps:
        inside = [count for moment, count in counts.items() if step.begin_ms <= moment < step.end_ms]
        for kind in range(3):
            assert step.counts[kind] >= max((count[kind] for count in inside), default=0), (step, inside)


def test_fewer_are_shown_and_it_says_so(lake: ParquetTables, told: Answers) -> None:
    from services.pipeline.report.limits import ReportLimits
    from services.pipeline.report.page import page

    made = Page(page(told, ReportLimits(rows=3, sentences=7)))

    assert f"the worst 3 of {told.days.total} partitions of a day" in made.text
    assert f"of each kind the latest, 7 of {told.audit.total} changes" in made.text
    assert table(lake, "gold/audit_timeline").count() == told.audit.total


def test_what_people_did_is_in_the_audit_however_many_partitions_an_outage_changes(spark: SparkSession) -> None:
    from services.pipeline.report.audit import audit_table, read_audit
    from services.pipeline.report.limits import ReportLimits

    asked = [
        ("topic orders", "is created with id A"),
        *((f"partition orders-{n}", "is created: replicas 1,2, ISR 1,2, leader 1") for n in range(40)),
        ("topic orders", "retention.ms: not set → 5"),
        ("user alice", "gets a SCRAM-SHA-512 password"),
        ("partition orders-7", "replicas 1,2 → 1,2,3; adding none → 3"),
        ("broker 1", "background.threads: 10 → 12"),
    ]
    followed = [("broker 1", "is fenced"), *((f"partition orders-{n}", "leader 1 → none") for n in range(1_000))]
    told = [f"{subject} {what}" for subject, what in (*asked, *followed)]
    schema = "cluster_id string, offset bigint, time timestamp, subject string, sentence string, trace_id string"
    rows = [
        ("one", at, datetime(2026, 1, 1, 12, 5 * (at >= len(asked)), tzinfo=UTC), each[0], told[at], None)
        for at, each in enumerate((*asked, *followed))
    ]
    found = read_audit(spark.createDataFrame(rows, schema), 60)
    texts = [row.sentence for row in found.rows]
    (note, shown) = audit_table(found, ReportLimits(sentences=20), 1)

    assert texts == sorted(texts, key=told.index)
    for told_of in (texts, [f"{row.cells[2].subject}{row.cells[2].text}" for row in shown.rows]):
        assert {told[0], *told[41:46]} <= set(told_of)
        assert told[-1] in told_of
    assert (60, 20) == (len(texts), len(shown.rows))
    assert "of each kind the latest, 20 of 1,046 changes" in note.text


def test_the_engine_gathers_no_more_than_the_limits(lake: ParquetTables) -> None:
    from services.pipeline.report import answers
    from services.pipeline.report.limits import ReportLimits

    few = answers(lake, ReportLimits(partitions=2, brokers=1, changes=3, epochs=1, rows=2, sentences=4))
    drawn = few.drawn[0]

    assert (2, 1, 1) == (
        len({row.place for row in drawn.partitions}),
        len({row.broker_id for row in drawn.brokers}),
        len(drawn.epochs),
    )
    assert [3, 3] == [len([row for row in drawn.partitions if row.place == place]) for place in (1, 2)]
    assert drawn.partitions[0].total > 3
    assert (2, 2, 4) == (len(few.days.rows), len(few.churn.rows), len(few.audit.rows))


def with_(row: Row, **columns: Any) -> Row:
    """The row with other values in these columns."""
    from pyspark.sql import Row

    return Row(**{**row.asDict(), **columns})


def test_a_page_that_would_be_too_large_shows_less(told: Answers) -> None:
    """Names as long as they may be, each letter of them escaped, and every list as full as it may be."""
    from services.pipeline.report.limits import BYTES_MAX, TEXT_MAX, ReportLimits
    from services.pipeline.report.page import page

    limits = ReportLimits()
    long = "<" * TEXT_MAX
    drawn = told.drawn[0]
    partition, broker = drawn.partitions[0], drawn.brokers[0]
    full = replace(
        drawn,
        partitions=[with_(partition, place=n, partition=long) for n in range(limits.partitions) for _ in range(60)],
        brokers=[with_(broker, broker_id=n, rack=long) for n in range(limits.brokers) for _ in range(60)],
    )
    sentence = with_(told.audit.rows[0], sentence=long, subject="")
    audit = type(told.audit)([sentence] * limits.sentences, 10**9)
    made = page(replace(told, drawn=[full] * limits.clusters, audit=audit), limits)

    assert len(made.encode()) <= BYTES_MAX
    assert "of 1,000,000,000 changes" in made


def test_names_from_the_log_are_text_and_nothing_else(evil_page: str) -> None:
    seen = Page(evil_page)

    assert {"html", "head", "meta", "title", "style", "body", "main", "header", "nav", "section"} < seen.tags
    assert set() == {"img", "svg"} & seen.tags
    assert [] == [name for name in seen.attributes if name.startswith("on")]
    assert EVIL in seen.text
    assert EVIL not in evil_page
    assert [] != [row for row in seen.drawn if str(row.get("label")).startswith(EVIL)]
    assert [] == [row for row in seen.drawn if "\u202e" in str(row.values()) or "\x00" in str(row.values())]
    assert "<img src=x" in seen.text  # the rack, as text
    assert [] == [character for character in ("\x00", "\u202e") if character in evil_page]
    assert "y" * 400 not in evil_page


def test_no_secret_of_a_log_is_in_gold_nor_in_the_report_nor_in_what_is_said_of_a_checkpoint(
    spark: SparkSession, evil: InMemory, evil_page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bronze and silver have everything that a log has, as their README says, and so show that the secrets were there.

    The checkpoint differs from the log in each kind that has secrets.
    """
    from services.pipeline.exits import FOUND
    from services.pipeline.gold import TABLES
    from services.pipeline.jobs import JOBS

    assert FOUND == JOBS["verify"](spark, evil, Namespace())
    gold = {name: told_in(evil, f"gold/{name}") for name in TABLES}
    told = capsys.readouterr()
    shown = {"page": evil_page, "stdout": told.out, "stderr": told.err, **gold}

    assert [] == [(name, form) for name, text in shown.items() for form in FORMS if form in text]
    assert 4 == told.err.count(f": replayed {REDACTED}, the checkpoint has {REDACTED}")
    assert REDACTED in gold["audit_timeline"]
    assert SECRET in told_in(evil, "silver/config_history")


def told_in(tables: InMemory, name: str) -> str:
    """Every row of a table."""
    rows = tables.read(name)
    assert rows is not None, name
    return "\n".join(str(row.asDict(recursive=True)) for row in rows.collect())


def test_several_days_and_clusters_have_a_calendar(evil_page: str) -> None:
    seen = Page(evil_page)

    assert "2 clusters" in seen.text
    assert [1] == [1 for row in seen.drawn if "one, 2026-11-23: 100.0000 % offline" in row.get("title", "")]
    assert "2026-11-21" in seen.text
    assert "ill3" in {row.get("look") for row in seen.drawn}


def test_a_cluster_whose_gold_is_of_an_earlier_silver_is_left_out_and_named(
    spark: SparkSession, evil: InMemory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else a page would tell of two states of one log as of one."""
    from services.pipeline import jobs
    from services.pipeline.__main__ import parser
    from services.pipeline.gold import of_silver
    from services.pipeline.silver import progress

    assert (["one", "two"], []) == of_silver(evil)
    marks = progress.marks(evil)
    grown = marks["two"]._replace(end_offset=marks["two"].end_offset + 1)
    progress.note(spark, evil, {**marks, "two": grown})
    place = tmp_path / "report.html"
    try:
        code = jobs.make_report(spark, evil, parser().parse_args(["report", "--to", "memory", "--report", str(place)]))
    finally:
        progress.note(spark, evil, marks)
    told, seen = capsys.readouterr().err, Page(place.read_text())

    assert FOUND == code, told
    assert "report: cluster two is left out: its gold is not of the present silver; run gold\n" in told
    assert "Left out, as their gold is not of the present silver: two." in seen.text
    assert "1 cluster" in seen.text
    assert (True, False) == (f"{EVIL}-one" in seen.text, f"{EVIL}-two" in seen.text)


def test_stretches_join_what_is_equal_and_touches(spark: SparkSession) -> None:
    from services.pipeline.report.intervals import latest, stretches

    rows = spark.createDataFrame(
        [
            ("p", 0, 1, "a", False),
            ("p", 1, 1, "b", False),
            ("p", 1, 3, "a", False),
            ("p", 3, 4, "b", False),
            ("p", 5, 6, "b", True),
            ("q", 0, 9, None, False),
            ("q", 9, 9, "c", True),
        ],
        "key string, begin int, end int, state string, is_last boolean",
    )
    joined = stretches(rows, ["key"], ["state"])
    some = latest(joined, ["key"], 2)

    assert [("p", 0, 3, "a"), ("p", 3, 4, "b"), ("p", 5, 6, "b"), ("q", 0, 9, None), ("q", 9, 9, "c")] == [
        (row["key"], row["begin"], row["end"], row["state"]) for row in joined.orderBy("key", "begin").collect()
    ]
    assert [("p", 3, 3), ("p", 5, 3), ("q", 0, 2), ("q", 9, 2)] == [
        (row["key"], row["begin"], row["total"]) for row in some.orderBy("key", "begin").collect()
    ]


def table(tables: ParquetTables, name: str) -> DataFrame:
    """A table that is there."""
    found = tables.read(name)
    assert found is not None, name
    return found
