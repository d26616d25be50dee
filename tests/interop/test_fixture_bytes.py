"""Files that a Kafka release wrote: read and written by us they are the same bytes, and say what its tools print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraft import Message
from quorate.records import CONTROL_RECORDS, RECORDS, decode_record, encode_record, frame_of
from quorate.wire.batch import BatchHeader, ControlType, batches, check_batch, control_batch, data_batch, records
from quorate.wire.codec import decode, encode
from quorate.wire.protobuf import json_form
from tests.interop.kafka.judge import DumpedBatch, dump_log, dumped_batches, files_of
from tests.interop.kafka.release import absent
from tests.interop.same import same_fields

FIXTURES = Path(__file__).parent / "fixtures"
FILES = [path for path in files_of(FIXTURES) if path.stat().st_size]
TITLES = {
    ControlType.LEADER_CHANGE: "LeaderChange: ",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader ",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter ",
    ControlType.KRAFT_VERSION: "KRaftVersion ",
    ControlType.KRAFT_VOTERS: "KRaftVoters ",
}
"""What DumpLogSegments puts before a control record's JSON."""

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FIXTURES)))


def control_record(key: bytes, value: bytes) -> tuple[ControlType, Message, int]:
    """Type, record, and the version it is in: the first number of each of them."""
    kind = ControlType(int.from_bytes(key[2:]))
    version = int.from_bytes(value[:2])
    return kind, decode(CONTROL_RECORDS[kind], value, version), version


def written_again(data: bytes, position: int, header: BatchHeader) -> bytes:
    """A batch with each of its records decoded, and encoded in its own version."""
    if not header.is_control:
        values = [record.value or b"" for record in records(data, position, header)]
        again = [encode_record(decode_record(value), frame_of(value)[1]) for value in values]
        where = {"base_offset": header.base_offset, "epoch": header.epoch, "timestamp_ms": header.base_timestamp}
        return data_batch(**where, values=again)
    content = [control_record(record.key or b"", record.value or b"") for record in records(data, position, header)]
    return control_batch(
        base_offset=header.base_offset,
        epoch=header.epoch,
        timestamp_ms=header.base_timestamp,
        records=[(kind, encode(record, version)) for kind, record, version in content],
    )


@every_file
def test_every_batch_decodes_and_encodes_to_the_same_bytes(path: Path) -> None:
    data = path.read_bytes()
    for position, header in batches(data):
        check_batch(data, position)

        assert data[position : position + header.size] == written_again(data, position, header)


@every_file
def test_every_batch_and_record_is_what_kafkas_tool_prints(path: Path) -> None:
    data = path.read_bytes()
    theirs = dumped_batches(dump_beside(path).read_text())
    ours = list(batches(data))

    assert [as_printed(header) for _, header in ours] == [batch._replace(lines=()) for batch in theirs]
    for (position, header), batch in zip(ours, theirs, strict=True):
        for record, line in zip(records(data, position, header), batch.lines, strict=True):
            same_as_printed(line, record.key, record.value or b"")


@pytest.mark.interop
@pytest.mark.skipif(absent() is not None, reason=absent() or "")
def test_the_tool_still_prints_what_is_kept() -> None:
    path = FIXTURES / "combined-static" / "node-1" / "__cluster_metadata-0" / "00000000000000000000.log"

    assert dump_beside(path).read_text() == dump_log(path)


def dump_beside(path: Path) -> Path:
    return path.with_name(path.name + ".dump.txt")


def as_printed(header: BatchHeader) -> DumpedBatch:
    offsets = header.base_offset, header.last_offset
    return DumpedBatch(*offsets, header.count, header.epoch, is_control=header.is_control, lines=())


def same_as_printed(line: str, key: bytes | None, value: bytes) -> None:
    if key is not None:
        kind, record, _ = control_record(key, value)
        assert line.startswith(TITLES[kind]), line
        same_fields(json.loads(line.removeprefix(TITLES[kind])), json_form(record), None, line)
        return
    api_key, version, _ = frame_of(value)
    printed: dict[str, Any] = json.loads(line)

    assert (screaming(RECORDS[api_key].__name__), version) == (printed["type"], printed["version"])
    record = decode_record(value)
    same_fields(printed["data"], json_form(record), json_form(type(record)()), line)


def screaming(name: str) -> str:
    """PartitionChangeRecord as PARTITION_CHANGE_RECORD."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in name).lstrip("_").upper()
