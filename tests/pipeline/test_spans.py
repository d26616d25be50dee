"""Spans of the observer's store and of a collector's files: each once, whatever comes twice, late or broken."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.traces import NOON_NS, REQUEST, export, request, span, stored, trace_id, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from services.pipeline.bronze.spans import SpanCounts
    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)

PAGE_BYTES = 4_096
"""SQLite's."""
FIRST = [request(1, 0, 1_000), *write(1, 10, 2)]
SECOND = [request(2, 5_000, 6_000), *write(2, 12, at_us=5_000)]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> ParquetTables:
    from services.pipeline.tables import ParquetTables

    return ParquetTables(spark, str(tmp_path / "lake"))


def ingest(spark: SparkSession, tables: ParquetTables, source: Path, **options: Any) -> tuple[int, int]:
    counts = counted(spark, tables, source, **options)
    return counts.spans, counts.quarantined


def counted(spark: SparkSession, tables: ParquetTables, source: Path, **options: Any) -> SpanCounts:
    from services.pipeline.bronze.spans import ingest_spans

    return ingest_spans(spark, tables, str(source), **options)


def settle(path: Path) -> None:
    """Nobody has written to the file for long."""
    os.utime(path, (1_000_000_000, 1_000_000_000))


def kept(tables: ParquetTables, *columns: str) -> list[tuple[Any, ...]]:
    from services.pipeline.bronze.spans import SPANS

    table = tables.read(SPANS)
    assert table is not None
    return sorted(tuple(row) for row in table.select(*columns).collect())


def files_read(tables: ParquetTables) -> list[str]:
    from services.pipeline.bronze.spans import SPAN_FILES

    table = tables.read(SPAN_FILES)
    assert table is not None
    return sorted(Path(row["source"]).name for row in table.collect())


def quarantined(tables: ParquetTables) -> list[tuple[str, str]]:
    from services.pipeline.bronze import standing

    table = standing(tables)
    return [] if table is None else sorted((row["source"], row["_corrupt"]) for row in table.collect())


def test_both_ways_tell_the_same_and_what_comes_twice_or_late_adds_nothing(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    store = stored(logs / "spans.db", FIRST)
    collected = logs / "a+b [1] 100%.jsonl"
    collected.write_text(export(FIRST) + "\n" + export(FIRST) + "\n")

    assert (len(FIRST), 0) == ingest(spark, tables, store)
    assert (0, 0) == ingest(spark, tables, collected)
    # More comes to the store, and a rotated file that the collector has packed.
    stored(store, SECOND)
    with gzip.open(logs / "later.json.gz", "wt") as late:
        late.write(export([*SECOND, span("elsewhere", "shop-1", 1, 2, 3)]) + "\n")
    settle(logs / "later.json.gz")
    assert (len(SECOND) + 1, 0) == ingest(spark, tables, logs)
    assert (0, 0) == ingest(spark, tables, logs)
    # Each file was opened once, and the store once more, since it had changed.
    assert ["a+b [1] 100%.jsonl", "later.json.gz", "spans.db", "spans.db"] == files_read(tables)

    expected = [
        (each.trace_id, each.span_id, each.parent_span_id or None, each.name, each.instance, each.start_ns, each.end_ns)
        for each in (*FIRST, *SECOND, span("elsewhere", "shop-1", 1, 2, 3))
    ]
    columns = ("trace_id", "span_id", "parent_span_id", "name", "instance", "start_ns", "end_ns")
    assert sorted(expected, key=lambda row: row[:2]) == kept(tables, *columns)


def test_attributes_are_text_from_either_source(spark: SparkSession, tables: ParquetTables, tmp_path: Path) -> None:
    said = {"text": 'ä "quoted"', "whole": 2**62, "flag": True, "part": 1.5}
    both = [
        span("of the store", "a-1", 0, 1, 1, attributes=said),
        span("of a line", "a-1", 0, 1, 2, attributes=said, error=True),
    ]
    stored(tmp_path / "spans.db", both[:1])
    line = json.loads(export(both[1:]))
    pairs = line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    pairs += [
        {"key": "whole", "value": {"intValue": 7}},  # a number without quotes, and a key for the second time
        {"key": "many", "value": {"arrayValue": {"values": [{"stringValue": "x"}]}}},
        {"key": "nothing", "value": {}},
    ]
    (tmp_path / "spans.jsonl").write_text(json.dumps(line))
    ingest(spark, tables, tmp_path)
    from services.pipeline.bronze.spans import SPANS

    table = tables.read(SPANS)
    assert table is not None
    rows = {row["name"]: (row["error"], row["attributes"]) for row in table.collect()}
    text = {"text": 'ä "quoted"', "whole": str(2**62), "flag": "true", "part": "1.5"}

    assert {
        "of the store": (False, text),
        "of a line": (True, {**text, "whole": "7", "many": '{"values":[{"stringValue":"x"}]}', "nothing": ""}),
    } == rows


def test_what_is_no_span_is_named_and_the_rest_goes_on(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    good = span("good", "a-1", 0, 1, 1)
    bad = [
        replace(good, name="short", trace_id="abc"),
        replace(good, name="zero", span_id="0" * 16),
        replace(good, name="backwards", span_id="b" * 16, end_ns=good.start_ns - 1),
        replace(good, name="orphan", span_id="c" * 16, parent_span_id="x" * 16),
        replace(good, name="too late", span_id="d" * 16, end_ns=2**63),
    ]
    whole = export([good, *bad])
    lines = tmp_path / "spans.jsonl"
    other = '{"resourceLogs":[{"scopeLogs":[]}]}'
    lines.write_text("\n".join([whole, "", other, '{"spans":1}', '{"resourceSpans":7}', whole[:90]]) + "\n")

    assert (1, 8) == ingest(spark, tables, tmp_path)
    told = quarantined(tables)
    assert [str(lines)] * 8 == [source for source, _ in told]
    one = f"span '{{}}' of trace '{trace_id(1)}': "
    assert {
        one.format("0" * 16) + "its id is not 16 hexadecimal digits, or all zero",
        one.format("b" * 16) + f"it is from '{good.start_ns}' to '{good.start_ns - 1}' ns",
        one.format("c" * 16) + "its parent 'xxxxxxxxxxxxxxxx' is no span's id",
        one.format("d" * 16) + f"it is from '{good.start_ns}' to '{2**63}' ns",
        f"span '{good.span_id}' of trace 'abc': its trace id is not 32 hexadecimal digits, or all zero",
        line('{"spans":1}', "has no resourceSpans"),
        line('{"resourceSpans":7}', "is no OTLP export in JSON"),
        line(whole[:90], "is no OTLP export in JSON"),
    } == {words for _, words in told}
    # A good line behind it, and the damage is not reported twice.
    lines.write_text(lines.read_text() + export([replace(good, name="behind", span_id="e" * 16)]))
    assert (1, 0) == ingest(spark, tables, tmp_path)


def line(text: str, what: str) -> str:
    """The report of a damaged line."""
    digest = md5(text.encode()).hexdigest()
    return f"a line of {len(text)} bytes (md5 {digest}) {what}: {text[:60]}"


def test_half_a_line_is_waited_for_while_the_file_is_young(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    path = tmp_path / "spans.jsonl"
    line, torn = export(SECOND), export(SECOND)[:-70]
    path.write_text(export(FIRST) + "\n" + torn)
    counts = counted(spark, tables, tmp_path)

    assert (len(FIRST), 0, (str(path),)) == (counts.spans, counts.quarantined, counts.waiting)
    path.write_text(export(FIRST) + "\n" + line + "\n")
    counts = counted(spark, tables, tmp_path)
    assert (len(SECOND), 0, ()) == (counts.spans, counts.quarantined, counts.waiting)
    assert [] == quarantined(tables)


def test_half_a_line_of_an_old_file_is_damage_until_it_can_be_read(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    path, other = tmp_path / "spans.jsonl", tmp_path / "other.jsonl"
    line, torn = export(SECOND), export(SECOND)[:-70]
    # A line that is damaged for good begins as every line does.
    for each in (path, other):
        each.write_text(export(FIRST) + "\n" + line[:20] + "\n" + torn)
        settle(each)

    assert (len(FIRST), 4) == ingest(spark, tables, tmp_path)
    # The collector goes on, but with one of them only.
    with path.open("a") as file:
        file.write(line[len(torn) :] + "\n")
    counts = counted(spark, tables, tmp_path)
    assert (len(SECOND), 0, 1) == (counts.spans, counts.quarantined, counts.withdrawn)
    assert sorted([(str(other), 20), (str(other), len(torn)), (str(path), 20)]) == sorted(
        (source, int(words.split()[3])) for source, words in quarantined(tables)
    )


def test_what_was_claimed_of_a_file_is_withdrawn_though_it_was_read_before(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    """A table of quarantine from when nothing was withdrawn."""
    from services.pipeline.bronze import QUARANTINE

    path = tmp_path / "spans.jsonl"
    line = export(FIRST)
    path.write_text(line[:-70])
    settle(path)
    ingest(spark, tables, tmp_path)
    claims = tables.read(QUARANTINE)
    assert claims is not None
    claims = claims.localCheckpoint()
    path.write_text(line + "\n")
    ingest(spark, tables, tmp_path)
    tables.append(QUARANTINE, claims, partition_by=("cluster_id",))
    before = quarantined(tables)
    counts = counted(spark, tables, tmp_path)

    assert (1, 0, 0, 1) == (len(before), counts.spans, counts.quarantined, counts.withdrawn)
    assert [] == quarantined(tables)
    # An empty quarantine takes claims again.
    path.write_text(line + "\n" + "no line at all\n")
    assert (0, 1) == ingest(spark, tables, tmp_path)
    assert ["no line at all"] == [words.rpartition(": ")[2] for _, words in quarantined(tables)]


def test_a_line_that_went_to_another_file_is_known_there(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    """A collector renames a full file, and begins another one; then it packs the old one."""
    path, rotated = tmp_path / "spans.jsonl", tmp_path / "spans-2026-11-21T12-00-00.000.jsonl"
    line = export(FIRST)
    path.write_text(line[:-70])
    settle(path)
    assert (0, 1) == ingest(spark, tables, tmp_path)
    rotated.write_text(line + "\n")
    path.write_text(export(SECOND) + "\n")
    counts = counted(spark, tables, tmp_path)

    assert (len(FIRST) + len(SECOND), 0, 1) == (counts.spans, counts.quarantined, counts.withdrawn)
    assert [] == quarantined(tables)


def test_a_packed_file_that_is_not_whole_is_waited_for_and_then_told(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    path = tmp_path / "spans.jsonl.gz"
    whole = gzip.compress((export(FIRST) + "\n" + export(SECOND) + "\n").encode())
    path.write_bytes(whole[:-40])
    counts = counted(spark, tables, tmp_path)
    assert (len(FIRST), 0, (str(path),)) == (counts.spans, counts.quarantined, counts.waiting)
    settle(path)
    assert 1 == counted(spark, tables, tmp_path).quarantined
    ((source, words),) = quarantined(tables)
    assert (str(path), "it cannot be read to its end: ") == (source, words[:30])
    path.write_bytes(whole)
    counts = counted(spark, tables, tmp_path)

    assert (0, 1) == (counts.quarantined, counts.withdrawn)
    assert len(FIRST) + len(SECOND) == len(kept(tables, "span_id"))
    assert [] == quarantined(tables)


def test_a_store_that_can_be_read_by_now_is_not_claimed_to_be_none(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    (tmp_path / "spans.db").write_text("no database at all")
    assert (0, 1) == ingest(spark, tables, tmp_path)
    (tmp_path / "spans.db").unlink()
    stored(tmp_path / "spans.db", FIRST)
    counts = counted(spark, tables, tmp_path)

    assert (len(FIRST), 0, 1) == (counts.spans, counts.quarantined, counts.withdrawn)
    assert [] == quarantined(tables)


@pytest.mark.parametrize("part_bytes", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("block_bytes", [1, 16, 1 << 20])
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_each_line_of_a_file_is_read_once_however_it_is_cut(
    tmp_path: Path, part_bytes: int, block_bytes: int, ending: bytes
) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.bronze.line_files import LineFile, LineFilesReader

    lines = [b"one", b"", "zwölf".encode(), b"x" * 100, b"\xff\xfe", b"last"]
    content = b"\n".join(lines) + ending
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    plain.write_bytes(content + b"not there yet when the file was looked at")
    packed.write_bytes(gzip.compress(content))
    for path, size in ((plain, len(content)), (packed, packed.stat().st_size)):
        reader = LineFilesReader([LineFile(str(path), "c", size, True)], part_bytes=part_bytes, block_bytes=block_bytes)
        rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]

        assert lines == [row["value"] for row in rows]
        assert [False] * 5 + [not ending] == [row["is_open"] for row in rows]


def test_a_store_that_is_none_is_named(spark: SparkSession, tables: ParquetTables, tmp_path: Path) -> None:
    stored(tmp_path / "good.db", FIRST)
    (tmp_path / "text.db").write_text("no database at all")
    sqlite3.connect(tmp_path / "other.db").execute("create table things (seq integer)").connection.close()
    torn = stored(tmp_path / "torn.db", [replace(FIRST[0], span_id=f"{n + 1:016x}") for n in range(5_000)])
    data = bytearray(torn.read_bytes())
    page = data.index(f"{trace_id(1)}{2_500:016x}{REQUEST}".encode()) // PAGE_BYTES * PAGE_BYTES
    data[page : page + PAGE_BYTES] = bytes(PAGE_BYTES)
    torn.write_bytes(data)
    spans, damaged = ingest(spark, tables, tmp_path)
    told = dict(quarantined(tables))

    assert 3 == damaged == len(told)
    assert "it is no trace store: file is not a database" == told[str(tmp_path / "text.db")]
    assert "it is no trace store: no such table: spans" == told[str(tmp_path / "other.db")]
    assert "spans 1 to 5000: database disk image is malformed" == told[str(torn)]
    # The lines before the damage are kept.
    assert len(FIRST) < spans < len(FIRST) + 2_500
    assert ["good.db", "other.db", "text.db", "torn.db"] == sorted(path.name for path in tmp_path.glob("*db*"))


def test_a_store_in_use_is_read_and_left_as_it_is(spark: SparkSession, tables: ParquetTables, tmp_path: Path) -> None:
    store = stored(tmp_path / "spans.db", FIRST)
    with sqlite3.connect(store) as writer:
        writer.execute(
            "insert into spans (trace_id, span_id, parent_span_id, name, service, instance, start_ns, end_ns, error, "
            "attributes) values (?, ?, '', 'in the journal', 'a', 'a-1', ?, ?, 0, '{}')",
            (trace_id(9), "9" * 16, NOON_NS, NOON_NS),
        )
        writer.commit()
        assert (tmp_path / "spans.db-wal").stat().st_size > 0
        main = store.read_bytes()

        assert (len(FIRST) + 1, 0) == ingest(spark, tables, store)
        assert main == store.read_bytes()
    writer.close()


def test_spans_are_of_the_cluster_that_something_near_them_says(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    from services.pipeline.bronze.span_files import find_spans

    def meta(directory: Path, cluster: str) -> None:
        directory.mkdir(parents=True)
        (directory / "meta.properties").write_text(f"node.id=1\nversion=1\ncluster.id={cluster}\n")

    meta(tmp_path / "one-machine" / "node-1", "inside")
    meta(tmp_path / "one-machine" / "node-2", "inside")
    meta(tmp_path / "above", "above")
    meta(tmp_path / "two" / "node-1", "first")
    meta(tmp_path / "two" / "node-2", "second")
    for place in ("one-machine", "above/traces", "two", "alone"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        stored(tmp_path / place / "spans.db", [span("a", "a-1", 0, 1, len(place))])
    line = export([span("b", "a-1", 0, 1, 99)], **{"kraft.cluster.id": "said"})
    (tmp_path / "alone" / "spans.jsonl").write_text(line)

    assert ["above", "alone", "alone", "inside", "two"] == sorted(file.cluster_id for file in find_spans(str(tmp_path)))
    assert {"given"} == {file.cluster_id for file in find_spans(str(tmp_path), cluster_id="given")}
    assert (5, 0) == ingest(spark, tables, tmp_path)
    assert ["above", "alone", "inside", "said", "two"] == sorted(cluster for (cluster,) in kept(tables, "cluster_id"))


def test_a_place_without_spans_is_said(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.bronze.span_files import find_spans

    with pytest.raises(FileNotFoundError, match="nowhere: there is no such file or directory"):
        find_spans(str(tmp_path / "nowhere"))
    (tmp_path / "readme.txt").write_text("no spans")
    with pytest.raises(FileNotFoundError, match=r"there is no trace store and no OTLP file \(.db, .sqlite"):
        find_spans(str(tmp_path))
