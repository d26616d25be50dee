"""What is read of a part of a log or checkpoint, sound or damaged, without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import quorate.pipeline
from quorate.errors import Corrupt
from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.log_files import find, parts
from quorate.pipeline.rows import COLUMNS, CUT, RowFilter, read
from quorate.records import TRACE_TAG, TopicRecord, encode_record, with_trace
from quorate.wire.batch import data_batch
from tests.pipeline.logs import NOON_MS, batches, checkpoint, flipped, history, node, segment

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
README = Path(quorate.pipeline.__file__).with_name("README.md")
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


def rows(path: Path, wanted: RowFilter | None = None, *, part_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    """Every row below `path`, as dicts."""
    found = []
    for place in find([str(path)]):
        for part in parts(place, part_bytes=part_bytes):
            for columns in read(part, wanted or RowFilter()):
                named = columns.by_name()
                found += [dict(zip(COLUMNS, row, strict=True)) for row in zip(*named.values(), strict=True)]
    return found


def told(found: list[dict[str, Any]]) -> list[str]:
    """What is said of damage."""
    return [row["_corrupt"] for row in found if row["_corrupt"]]


def offsets(found: list[dict[str, Any]]) -> list[int]:
    """The offsets of sound rows."""
    return [row["offset"] for row in found if not row["_corrupt"]]


def test_a_record_is_a_row_with_the_header_of_its_batch(tmp_path: Path) -> None:
    segment(node(tmp_path), batches(history(1), epoch=7))
    last = rows(tmp_path)[-1]

    assert {
        "offset": 2,
        "epoch": 7,
        "timestamp": NOON_MS + 60_000,
        "batch_base_offset": 2,
        "is_control": False,
        "api_key": 5,
        "type": "PARTITION_CHANGE_RECORD",
        "version": 2,
        "payload": '{"partitionId":0,"topicId":"AAECAwQFBgcICQoLDA0ODw","isr":[1,2]}',
        "trace_id": None,
        "raw": None,
        "_corrupt": None,
    } == last


def test_the_readme_s_example_shows_offsets_and_payloads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment(node(tmp_path), batches(history(1)))
    _, example, _ = README.read_text().replace("/var/lib/quorate", str(tmp_path)).split("```")

    exec(example.removeprefix("python"))

    assert """(0,) ('{"name":"orders","topicId":"AAECAwQFBgcICQoLDA0ODw"}',)\n""" == capsys.readouterr().out


def test_the_trace_of_a_request_is_a_column(tmp_path: Path) -> None:
    traced = with_trace(TopicRecord("orders"), f"00-{TRACE_ID}-b7ad6b7169203331-01".encode())
    segment(node(tmp_path), batches([[traced]]))
    (row,) = rows(tmp_path)

    assert (TRACE_ID, None) == (row["trace_id"], row["raw"])


def test_a_tag_that_nobody_knows_keeps_its_record_raw(tmp_path: Path) -> None:
    record = TopicRecord("orders", unknown_tags=((TRACE_TAG + 77, b"?"),))
    segment(node(tmp_path), batches([[record]]))
    (row,) = rows(tmp_path)

    assert (encode_record(record, 0), "TOPIC_RECORD") == (row["raw"], row["type"])


@pytest.mark.parametrize(
    ("value", "key", "version"),
    [(b"\x01\x7f\x03abc", 127, 3), (b"\x01\x02\x09abc", 2, 9), (b"\x01\xff\xff\xff\xff\x0f\x00", -1, -1)],
    ids=["unknown key", "unknown version", "no key of Kafka's: it is beyond 16 bits"],
)
def test_an_unknown_record_is_kept_raw(tmp_path: Path, value: bytes, key: int, version: int) -> None:
    batch = data_batch(base_offset=0, epoch=1, timestamp_ms=NOON_MS, values=[value])
    segment(node(tmp_path), [batch])
    (row,) = rows(tmp_path)

    assert ("UNKNOWN_RECORD", key, version, None, value, None) == tuple(
        row[name] for name in ("type", "api_key", "version", "payload", "raw", "_corrupt")
    )


def test_a_record_that_cannot_be_decoded_is_told_alone(tmp_path: Path) -> None:
    sound = encode_record(TopicRecord("orders"), 0)
    values = [sound, b"\x01\x02\x00\x7f", sound]
    segment(node(tmp_path), [data_batch(base_offset=0, epoch=1, timestamp_ms=NOON_MS, values=values)])
    found = rows(tmp_path)

    assert [0, 2] == offsets(found)
    assert "record at offset 1" in found[1]["_corrupt"]
    assert values[1] == found[1]["raw"]


# Damage: named, and what is behind it is read.


def test_a_corrupt_middle_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    content = batches(history(4))
    segment(node(tmp_path), [*content[:2], flipped(content[2]), *content[3:]])
    found = rows(tmp_path)

    assert [0, 1, 2, 4, 5] == offsets(found)
    (said,) = told(found)
    assert "has checksum" in said
    assert flipped(content[2]) == found[3]["raw"]


def test_noise_between_batches_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    content = batches(history(4))
    noise = bytes(200)
    segment(node(tmp_path), [*content[:2], noise, *content[3:]])
    found = rows(tmp_path)

    assert [0, 1, 2, 4, 5] == offsets(found)
    assert [noise] == [row["raw"] for row in found if row["_corrupt"]]


@pytest.mark.parametrize("cut", [1, 30, 61])
def test_a_torn_tail_is_told(tmp_path: Path, cut: int) -> None:
    content = batches(history(2))
    segment(node(tmp_path), [*content[:-1], content[-1][:-cut]])
    found = rows(tmp_path)

    assert [0, 1, 2] == offsets(found)
    (said,) = told(found)
    assert said.startswith(f"{CUT} at offset 3: ")


@pytest.mark.parametrize("at_ms", [-(1 << 63), -62_135_596_800_001, 253_402_300_800_000, (1 << 63) - 1])
def test_a_timestamp_that_no_calendar_has_is_told_and_the_rest_goes_on(tmp_path: Path, at_ms: int) -> None:
    content = batches(history(3))
    value = encode_record(TopicRecord("orders"), 0)
    content[2] = data_batch(base_offset=3, epoch=1, timestamp_ms=at_ms, values=[value])
    segment(node(tmp_path), content)
    found = rows(tmp_path)
    (row,) = (row for row in found if row["_corrupt"])

    assert [0, 1, 2, 4] == offsets(found)
    assert (3, 1, None, content[2]) == tuple(row[name] for name in ("offset", "epoch", "timestamp", "raw"))
    assert (
        f"batch at offset 3 has the timestamp {at_ms} ms since 1970, outside of the years 1 to 9999" in row["_corrupt"]
    )
    with pytest.raises(Corrupt, match="outside of the years 1 to 9999"):
        rows(tmp_path, RowFilter(failfast=True))


def test_the_first_and_the_last_timestamp_of_the_calendar_are_shown(tmp_path: Path) -> None:
    moments = (-62_135_596_800_000, 253_402_300_799_999, -1)
    value = encode_record(TopicRecord("orders"), 0)
    content = [
        data_batch(base_offset=at, epoch=1, timestamp_ms=moment, values=[value]) for at, moment in enumerate(moments)
    ]
    segment(node(tmp_path), content)

    assert list(moments) == [row["timestamp"] for row in rows(tmp_path)]


def test_a_missing_batch_is_told(tmp_path: Path) -> None:
    content = batches(history(4))
    segment(node(tmp_path), [*content[:2], *content[4:]])
    found = rows(tmp_path)

    assert [0, 1, 2, 5] == offsets(found)
    assert [f"offsets 3 to 4 are missing, 0 bytes at byte {len(content[0] + content[1])}"] == told(found)


def test_a_batch_that_comes_twice_counts_once(tmp_path: Path) -> None:
    content = batches(history(2))
    segment(node(tmp_path), [*content[:2], content[1], content[2]])
    found = rows(tmp_path)

    assert [0, 1, 2, 3] == offsets(found)
    (said,) = told(found)
    assert "batch at offset 2, where offset 3 follows: it was there before" in said


def test_an_epoch_that_goes_back_is_told(tmp_path: Path) -> None:
    content = batches(history(2), epoch=5)
    older = batches(history(0)[:1], base_offset=4, epoch=4)
    segment(node(tmp_path), [*content, *older])

    (said,) = told(rows(tmp_path))
    assert "batch at offset 4 of epoch 4, after epoch 5" in said


def test_a_segment_that_is_missing_is_told(tmp_path: Path) -> None:
    content, partition = batches(history(4)), node(tmp_path)
    segment(partition, content[:2])
    segment(partition, content[4:], base_offset=5)
    found = rows(tmp_path)

    assert [0, 1, 2, 5] == offsets(found)
    assert ["offsets 3 to 4 are missing"] == [said.partition(",")[0] for said in told(found)]


def test_a_checkpoint_that_came_half_is_told(tmp_path: Path) -> None:
    partition = node(tmp_path)
    path = checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    whole = path.read_bytes()
    assert [] == told(rows(tmp_path))

    for size in range(len(whole)):
        path.write_bytes(whole[:size])

        assert told(rows(tmp_path)), f"{size} of {len(whole)} bytes"


def test_a_checkpoint_under_another_epoch_is_told(tmp_path: Path) -> None:
    partition = node(tmp_path)
    path = checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    path.rename(path.with_name("00000000000000000002-0000000003.checkpoint"))

    assert "batch of epoch 1 in a checkpoint of epoch 3" in told(rows(tmp_path))[0]


def test_failfast_raises_with_file_and_byte(tmp_path: Path) -> None:
    content = batches(history(4))
    path = segment(node(tmp_path), [content[0], flipped(content[1]), *content[2:]])

    with pytest.raises(Corrupt) as caught:
        rows(tmp_path, RowFilter(failfast=True))

    assert (path, len(content[0])) == (caught.value.path, caught.value.position)


# What is asked for.


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (RowFilter(start_offset=3), [3, 4, 5]),
        (RowFilter(start_offset=1, end_offset=3), [1, 2]),
        (RowFilter(types=frozenset({"PARTITION_RECORD"})), [1]),
        (RowFilter(start_ms=NOON_MS + 180_000), [4, 5]),
        (RowFilter(end_ms=NOON_MS + 60_000), [0, 1]),
    ],
)
def test_what_is_asked_for_is_read(tmp_path: Path, wanted: RowFilter, expected: list[int]) -> None:
    segment(node(tmp_path), batches(history(4)))

    assert expected == offsets(rows(tmp_path, wanted))


@pytest.mark.parametrize("part_bytes", [1, 100, 150, 1000, 1 << 20])
def test_a_log_reads_the_same_in_parts(part_bytes: int) -> None:
    for log in sorted((FIXTURES / "three-dynamic").rglob("*.log")):
        whole = rows(log)

        assert whole == rows(log, part_bytes=part_bytes)


@pytest.mark.parametrize("part_bytes", [1, 90, 200])
def test_damage_is_told_once_however_a_file_is_cut(tmp_path: Path, part_bytes: int) -> None:
    content = batches(history(6))
    segment(node(tmp_path), [*content[:2], flipped(content[2]), *content[3:6], content[6][:-5]])

    assert rows(tmp_path) == rows(tmp_path, part_bytes=part_bytes)


def test_a_log_that_is_truncated_while_it_is_read_does_not_kill_the_process(tmp_path: Path) -> None:
    """A follower truncates what diverges, at any moment; of a mapping the reader would get a SIGBUS."""
    path = segment(node(tmp_path, "c"), batches(history(40_000)))
    (part,) = parts(*find([str(path)]))
    found = read(part, RowFilter())
    count = len(next(found))
    os.truncate(path, 1_000)

    assert 0 < count < 40_002
    assert 40_002 == count + sum(map(len, found))
